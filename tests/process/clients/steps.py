"""The steps that every client library takes, and their expected answers.

A driver reads a step per line and prints an answer per line:

    new                         ok               a new client object
    set|add|append KEY HEX      true false       stored or not
    cas KEY HEX NUMBER          true false
    get KEY                     value HEX, none
    gets KEY                    value HEX NUMBER, none      NUMBER is `hidden` if it is not public
    delete KEY                  true false
    touch KEY SECONDS           true false
    native KEY KIND             true false       store a value as the library does by itself
    anything                    error TEXT       the library raises, or says that the call failed
    anything                    lacks            the library has no such call

HEX is a body, `-` if it is empty. In the table below a body is named, `q` begins a queue's name,
`{n}` is the number in the last answer, and `die` kills the driver and starts another one.
"""

from __future__ import annotations

from typing import Final

BODIES: Final[dict[str, bytes]] = {
    "one": b"one",
    "two": b"two",
    "three": b"three",
    "crlf": b"a\r\nEND\r\nb\r\n",
    "empty": b"",
    "binary": bytes(range(256)),
    "utf8": "grüße, 世界".encode(),
}

# The names of the cases are the columns of the table in docs/clients.md.
CASES: Final[dict[str, str]] = {
    "bodies": """
        set q one                       true
        get q                           value one
        set q crlf                      true
        get q/peek                      value crlf
        get q                           value crlf
        set q binary                    true
        get q                           value binary
        set q utf8                      true
        get q                           value utf8
        get q                           none
    """,
    "empty body": """
        set q empty                     true
        get q                           value empty
        get q                           none
    """,
    "open, close": """
        set q one                       true
        set q two                       true
        set q three                     true
        get q/open                      value one
        get q/close                     none
        get q/open                      value two
        get q/abort                     none
        get q/open                      value two
        get q/close/open                value three
        get q/close                     none
        get q/open                      none
    """,
    "t=": """
        get q/open/t=20ms               none
        set q one                       true
        get q/open/t=10s                value one
        get q/close/open/t=20ms         none
    """,
    "add with id": """
        add q/id=4711 one               true
        add q/id=4711 one               false
        set q/id=4711 one               true
        get q                           value one
        get q                           none
    """,
    "token": """
        set q one                       true
        gets q/open/lease=10m           value one {n}
        die
        get q/open                      none
        touch q/token={n} 600           true
        delete q/token={n}              true
        delete q/token={n}              false
        get q/open                      none
    """,
    "cas": """
        add q/key=k one                 true
        gets q/key=k/peek               value one {n}
        cas q/key=k two {n}             true
        cas q/key=k three {n}           false
        get q                           value one
        get q                           value two
        get q                           none
    """,
    "hang-up": """
        set q one                       true
        get q/open                      value one
        die
        get q/open/t=10s                value one
        get q/close                     none
        get q/open                      none
    """,
}


def steps(case: str) -> list[tuple[str, str]]:
    """Return the steps of a case, each with its expected answer."""
    found = []
    for line in CASES[case].strip().splitlines():
        step, _, answer = line.strip().partition("  ")
        found.append((step, answer.strip()))
    return found


def hex_of(body: bytes) -> str:
    """Return a body as drivers read and write it."""
    return body.hex() or "-"


def spelled(words: str, queue: str, number: str) -> str:
    """Return a step or an answer with the queue, the bodies and the number filled in."""
    verb, *rest = words.replace("{n}", number).split()
    if verb in ("value", "set", "add", "append", "cas"):
        at = 0 if verb == "value" else 1
        rest[at] = hex_of(BODIES[rest[at]])
    if verb != "value" and rest:
        rest[0] = queue + rest[0].removeprefix("q")
    return " ".join([verb, *rest])
