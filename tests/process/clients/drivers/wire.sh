#!/usr/bin/env bash
# Runs steps with bash itself (/dev/tcp) or with nc: `wire.sh bash|nc HOST:PORT`; lines as in
# steps.py.
set -u
how=$1 host=${2%:*} port=${2##*:}
LC_ALL=C

connect() {
    if [ "$how" = bash ]; then
        exec 3<>"/dev/tcp/$host/$port"
        in=3 out=3
    else
        [ -z "${COPROC_PID:-}" ] || { exec 3<&- 4>&-; kill "$COPROC_PID"; wait "$COPROC_PID"; }
        coproc nc "$host" "$port"
        # A subshell, such as a command substitution, does not have the coprocess's own.
        exec 3<&"${COPROC[0]}" 4>&"${COPROC[1]}"
        in=3 out=4
    fi
}

raw() { [ "$1" = - ] || printf '%b' "$(sed 's/../\\x&/g' <<<"$1")"; }
line() { IFS= read -r -u "$in" line && line=${line%$'\r'}; }

# Say what a line of refusal or success means.
word() {
    case $1 in
        STORED | DELETED | TOUCHED) echo true ;;
        NOT_STORED | EXISTS | NOT_FOUND) echo false ;;
        *) echo "error $1" ;;
    esac
}

store() { # verb key hex [number]
    local size=0
    [ "$3" = - ] || size=$((${#3} / 2))
    { printf '%s %s 0 0 %s%s\r\n' "$1" "$2" "$size" "${4:+ $4}"; raw "$3"; printf '\r\n'; } >&"$out"
    line && word "$line"
}

fetch() { # verb key
    printf '%s %s\r\n' "$1" "$2" >&"$out"
    line
    case $line in
        END) echo none; return ;;
        VALUE*) ;;
        *) echo "error $line"; return ;;
    esac
    # shellcheck disable=SC2086  # words
    set -- $line
    local hex
    hex=$(head -c "$4" <&"$in" | od -An -v -tx1 | tr -d ' \n')
    line # the end of the body
    line # END
    echo "value ${hex:--}${5:+ $5}"
}

while read -r verb key rest; do
    # shellcheck disable=SC2086  # words
    case $verb in
        new) connect; echo ok ;;
        get | gets) fetch "$verb" "$key" ;;
        delete) printf 'delete %s\r\n' "$key" >&"$out"; line && word "$line" ;;
        touch) printf 'touch %s %s\r\n' "$key" "$rest" >&"$out"; line && word "$line" ;;
        native) echo lacks ;;
        *) store "$verb" "$key" $rest ;;
    esac
done
