"""The rules of the machine of everything: who asks what, and what must be answered.

One rule: a rule that happened says so by `met`; a request that the state does not allow is not sent.
"""

from __future__ import annotations

import sys
from typing import ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from tests.machines.everything_acts import act
from tests.machines.everything_model import Line, Place, Town
from tests.machines.everything_restart import VARIANTS, differ
from tests.machines.everything_rows import ROWS, Met, Row, features
from tests.machines.everything_stage import (
    BAD_TOKEN,
    EXPIRED,
    JOBS,
    MENTIONED,
    NAMED,
    Play,
    rules_of,
    values,
)

WHO = ("anna", "bert", "cleo")
QUEUE = (JOBS, JOBS, JOBS, "next", "failed", "late")
LINE = (JOBS, JOBS, JOBS, NAMED, NAMED, MENTIONED, "next", "failed", "late")
CHILD = (NAMED, MENTIONED)
KEY = ("", "", "A", "A", "B", "A,B", "B,A", "B,C", "C")
RELOADS: Final = (
    ("retry_delay", "0s", "1s", "3s"), ("max_attempts", 1, 2, 3), ("lease", "none", "1s", "5s"),
    ("max_leased", "none", 1, 3), ("retain", "none", "2s", "forever"), ("max_items", "none", 3),
    ("max_bytes", "none", 30),
)  # fmt: skip
VERBS: Final = (
    "set", "delay", "expiry", "key", "id", "add", "version", "open", "token", "take", "peek",
    "close", "abort", "defer", "later", "bury", "touch", "hang up", "lease over", "flush",
    "delete", "child", "forget child", "from", "upto", "hand off", "move", "redrive", "alias",
    "pause", "cancel", "retry", "declare", "reload", "tidy", "restart", "kill", "power cut",
    "differ newest", "differ older", "differ none", "dead", "death", "expired", "purge",
)  # fmt: skip


class EverythingMachine(RuleBasedStateMachine):
    """A server with a queue of one row's settings, its children, and queues that things go to."""

    row: ClassVar[Row] = ROWS[0]
    met: ClassVar[Met] = Met()

    @initialize(piece=st.sampled_from([64, 300, 1 << 18]))
    def begin(self, piece: int) -> None:
        self.play = Play(self.row, piece)
        self.seen = features(self.row)
        self.count = 0
        self.ids = 0
        self.tokens: list[tuple[str, Place, int]] = []
        self.over: set[tuple[str, str]] = set()
        self.unsure: set[tuple[str, str]] = set()  # the queue was deleted since
        self.declared = ""

    @property
    def town(self) -> Town:
        return self.play.town

    def ask(self, who: str, line: str, body: bytes | None = None) -> bytes:
        return self.play.ask(who, line, body)

    def after(self, *verbs: str) -> None:
        """It happened: what comes of it, and that it was met."""
        self.seen.update(verbs)
        self.town.sweep()
        self.over.update(self.town.over)
        self.town.over.clear()
        self.play.settle()

    def held(self, who: str) -> tuple[Line, Place] | None:
        for line in self.town.lines():
            for place in line.lent:
                if place.holder == who:
                    return line, place
        return None

    def line(self, name: str) -> Line | None:
        """The line of that name; naming a child makes it."""
        if name == MENTIONED and name not in self.town.stores[JOBS].lines:
            return None
        return self.town.line(name)

    def body(self, size: int) -> bytes:
        self.count += 1
        return b"%d." % self.count + b"x" * size

    # -- storing ----------------------------------------------------------------------------

    @act(
        name=LINE, size=(0, 0, 5, 90, 700,), key=KEY,
        delay=(0, 0, 0, 1, 3,), expiry=(0, 0, 0, 2, 5,),
        id_=("", "", "new", "old",), verb=("set", "set", "add",),
        times=(1, 1, 1, 3,),
    )  # fmt: skip
    def put(
        self, name: str, size: int, key: str, delay: int, expiry: int, id_: str, verb: str,
        times: int,
    ) -> None:  # fmt: skip
        for _ in range(times):
            self._put("prod", name, verb, size, key, delay, expiry, id_, "")

    def _put(
        self, who: str, name: str, verb: str, size: int, key: str, delay: int, expiry: int,
        id_: str, more: str,
    ) -> bytes:  # fmt: skip
        """Store something; what was answered."""
        line, store = self.line(name), self.town.store(name)
        if line is None:
            line = self._mention()
        if self.play.row["memory"] == "tiny":
            expiry = 0
        if delay and store.name == JOBS:
            # A child sees the expiry of what was delayed when that comes to the front, not before.
            expiry, delay = 0, 0 if line.rules.max_age_ms is not None else delay
        if "+" in name:
            id_, verb = "", "set"
        if verb == "add":
            key = ""  # that is a condition
        body = self.body(size)
        options = f"/key={key}" if key else ""
        options += f"/delay={delay}s" if delay else ""
        named = ""
        if id_:
            self.ids += id_ == "new" or not self.ids
            named = f"{self.ids}"
            options += f"/id={named}"
        said = self.play.send(
            who, f"{verb} {name}{options}{more} 0 {expiry} {len(body)}\r\n".encode() + body
        )
        now_ms = self.town.now_ms
        expires_ms = now_ms + expiry * 1000 if expiry else 0
        if line.rules.max_age_ms is not None:
            expires_ms = min(expires_ms or 1 << 60, now_ms + line.rules.max_age_ms)
        due_ms = now_ms + delay * 1000 if delay else 0
        if 0 < expires_ms <= due_ms:
            knows = bool(named) and store.knows(named, now_ms)
            is_no = said.startswith(b"CLIENT_ERROR") or said == b"NOT_STORED\r\n"
            assert is_no or (knows and verb == "set"), said  # which is looked at first is free
            return said
        holds = bool(line.ready or line.delayed or line.lent)
        if named and store.knows(named, now_ms):
            wanted = b"STORED\r\n" if verb == "set" else b"NOT_STORED\r\n"
            self.after("id")
        elif verb == "add" and not named and holds:
            wanted = b"NOT_STORED\r\n"
            store.exists = True
            self.after("add")
        else:
            is_in = self.town.put(name, body, expires_ms, due_ms, key, named)
            wanted = b"STORED\r\n" if is_in else b"NOT_STORED\r\n"
        assert said == wanted, f"{verb} {name}{options}: {said!r}, not {wanted!r}"
        if said == b"STORED\r\n":
            self.after(
                "set", *["delay"] * bool(delay), *["expiry"] * bool(expiry), *["key"] * bool(key),
                *["id"] * bool(id_), *["add"] * (verb == "add"),
            )  # fmt: skip
        return said

    @act(
        key=("A", "B", "C",), off=(0, 0, 1, -1,),
        verb=("cas", "set", "add", "replace",), id_=(False, True),
    )  # fmt: skip
    def put_behind(self, key: str, off: int, verb: str, id_: bool) -> None:
        store = self.town.stores[JOBS]
        version = store.version(key, self.town.now_ms)
        guess = max(version + off, 0)
        body = self.body(1)
        options = f"/key={key}" + (f"/expect={guess}" if verb == "set" else "")
        named = ""
        if id_:
            self.ids += 1
            named = f"{self.ids}"
            options += f"/id={named}"
        tail = f" {guess}" if verb == "cas" else ""
        said = self.play.send(
            "prod", f"{verb} {JOBS}{options} 0 0 {len(body)}{tail}\r\n".encode() + body
        )
        fits = {"add": not version, "replace": version > 0}.get(verb, guess == version)
        if verb == "add" and named:
            fits = not version  # add with a key and an id: both have to be new
        if fits:
            expires_ms = self.town.now_ms + (store.own.rules.max_age_ms or 0)
            expires_ms = expires_ms if store.own.rules.max_age_ms else 0
            is_in = self.town.put(JOBS, body, expires_ms, 0, key, named)
            wanted = b"STORED\r\n" if is_in else b"NOT_STORED\r\n"
        else:
            no = {"cas": b"EXISTS\r\n" if version else b"NOT_FOUND\r\n"}
            wanted = no.get(verb, b"NOT_STORED\r\n")
        assert said == wanted, f"{verb} {options} {guess} at {version}: {said!r}"
        self.after("version")

    @act(size=(0, 40,), id_=(False, True), key=KEY)
    def put_to_alias(self, size: int, id_: bool, key: str) -> None:
        body, named = self.body(size), ""
        if id_:
            self.ids += not self.ids
            named = f"{self.ids}"
        options = (f"/id={named}" if named else "") + (f"/key={key}" if key else "")
        said = self.ask("prod", f"set all{options}", body)
        all_did = True
        for name in (JOBS, "next"):
            rules = self.town.line(name).rules
            expires_ms = self.town.now_ms + rules.max_age_ms if rules.max_age_ms else 0
            if not (named and self.town.stores[name].knows(named, self.town.now_ms)):
                all_did &= self.town.put(name, body, expires_ms, 0, key, named)
        assert said == (b"STORED\r\n" if all_did else b"NOT_STORED\r\n")
        self.after("alias", *["id"] * id_)

    # -- fetching ---------------------------------------------------------------------------

    @act(who=WHO, name=LINE, how=("open", "open", "take", "peek", "token",))
    def fetch(self, who: str, name: str, how: str) -> None:
        line, held = self.line(name), self.held(who)
        if line is None:
            line = self._mention()
        option = {"open": "/open", "take": "", "peek": "/peek", "token": "/open/lease=3s"}[how]
        said = self.ask(who, f"gets {name}{option}")
        if line.name != self.town.store(name).name:
            self.town.store(name).exists = True  # it was mentioned
        if (how == "open" and held) or (how == "take" and held and held[0] is line):
            assert said == b"CLIENT_ERROR close or abort the open item first\r\n", said
            return
        if how == "open":
            self.over.discard((who, name))
        place = next(line.possible(), None) if how == "peek" else line.lendable()
        shown = values(said)
        if place is None:
            assert not shown, f"{how} {name}: {said!r}, not END"
            return
        assert [each.body for each in shown] == [place.item.body], (
            f"{how} {name}: {said!r}, not {place.item.body!r}"
        )
        if how == "take":
            self.town.confirm(line, place)
        elif how != "peek":
            by_token = how == "token"
            self.town.lend(line, place, "token" if by_token else who, 3000 if by_token else None)
            if by_token:
                place.token = shown[0].number
                self.tokens.append((name, place, place.token))
        self.after(how)

    @act(who=WHO, name=QUEUE)
    def open_dead(self, who: str, name: str) -> None:
        line = self.line(name)
        if line is None or self.held(who):
            return
        said = self.ask(who, f"get {name}/dead/open")
        self.over.discard((who, name))
        most = line.rules.max_leased
        is_free = not line.paused and (most is None or len(line.lent) < most)
        shown = values(said)
        if not line.dead or not is_free:
            assert not shown, said
            return
        assert shown[0].body == line.dead[0].item.body, said
        self.town.lend(line, line.dead[0], who, None)
        self.after("dead")

    @act(
        who=WHO, other=LINE,
        how=(
            "close", "close", "close/open", "abort", "abort", "defer", "abort/dead", "abort/delay=2s",
            "defer/delay=1s",),
    )  # fmt: skip
    def end(self, who: str, other: str, how: str) -> None:
        held = self.held(who)
        name = held[0].name if held else other
        if held is None and self.line(name) is None:
            return
        if held and held[1].died and how not in ("close", "abort", "defer"):
            return
        said = self.ask(who, f"get {name}/{how}")
        verb = how.partition("/")[0]
        if held is None and (who, name) in self.over:
            self.over.discard((who, name))
            if verb == "close":
                assert EXPIRED.match(said), said
            else:
                assert said == b"END\r\n", said
            self.after("lease over")
            return
        if held is None and (who, name) in self.unsure:
            self.unsure.discard((who, name))
            if EXPIRED.match(said):
                return
        if held:
            self._end(*held, how)
        self.after(*self._names(how))
        if how == "close/open":
            self._opened(who, self.town.line(name), said)
        else:
            assert said == b"END\r\n", said

    def _opened(self, who: str, line: Line, said: bytes) -> None:
        place = line.lendable()
        bodies = [each.body for each in values(said)]
        assert bodies == ([place.item.body] if place else []), (line.name, said)
        if place:
            self.town.lend(line, place, who, None)

    @staticmethod
    def _names(how: str) -> list[str]:
        names = [how.partition("/")[0]]
        names += ["later"] * ("delay" in how) + ["bury", "death"] * ("dead" in how)
        return names

    def _end(self, line: Line, place: Place, how: str) -> None:
        verb, _, more = how.partition("/")
        if verb == "close":
            self.town.confirm(line, place)
            return
        delay_ms = int(more[6:-1]) * 1000 if more.startswith("delay=") else None
        self.town.give_back(line, place, "dead" if more == "dead" else verb, delay_ms)
        if place.died:
            self.seen.add("death")

    @act(
        at=range(0, 6), who=WHO,
        how=("close", "delete", "abort", "defer", "defer/delay=1s", "touch", "abort/dead",),
    )  # fmt: skip
    def end_by_token(self, at: int, who: str, how: str) -> None:
        if not self.tokens:
            return
        name, place, token = self.tokens[at % len(self.tokens)]
        line = self.line(name)
        verb, _, more = how.partition("/")
        more = f"/{more}" if more else ""
        if how in ("delete", "touch"):
            said = self.ask(who, f"{how} {name}/token={token}" + " 4" * (how == "touch"))
        else:
            said = self.ask(who, f"get {name}/{verb}/token={token}{more}")
        if line is None or place not in line.places or place.token != token:
            is_no = said == b"NOT_FOUND\r\n" or BAD_TOKEN.match(said)
            assert is_no, f"{how} of a token that is over: {said!r}"
            return
        if how == "touch":
            assert said == b"TOUCHED\r\n", said
            place.until_ms = self.town.now_ms + 4000
            self.after("touch")
            return
        assert said == (b"DELETED\r\n" if how == "delete" else b"END\r\n"), said
        self._end(line, place, "close" if how == "delete" else how)
        self.after(*self._names("close" if how == "delete" else how))

    @act(who=WHO)
    def touch(self, who: str) -> None:
        held = self.held(who)
        if held:
            assert self.ask(who, f"touch {held[0].name} 4") == b"TOUCHED\r\n"
            held[1].until_ms = self.town.now_ms + 4000
            self.after("touch")

    @act(who=WHO)
    def hang_up(self, who: str) -> None:
        if who in self.play.stage.clients:
            self.play.told.append(f"!{who}")
            self.play.stage.hang_up(who)
            self.town.hang_up(who)
            self.over = {(each, name) for each, name in self.over if each != who}
            self.unsure = {(each, name) for each, name in self.unsure if each != who}
            self.after("hang up")

    def _mention(self) -> Line:
        line = self.play.mention()
        self.after("child")
        return line

    # -- time and the machine ---------------------------------------------------------------

    @act(ms=(1, 400, 1100, 2600, 6100,))
    def pass_time(self, ms: int) -> None:
        self.play.pass_time(ms)
        self.after()

    @act(how=("restart", "kill", "cut_power",))
    def come_back(self, how: str) -> None:
        self.play.told.append(f"= {how.replace('_', ' ')}")
        getattr(self.play.stage, how)()
        self.town.restart()
        self.over.clear()
        self.unsure.clear()
        self.play.stage.work()
        self.after(how.replace("cut_power", "power cut"))

    @act(thorough=(False, True))
    def keep_house(self, thorough: bool) -> None:
        self.play.told.append("(tidied up)" if thorough else "(reclaimed)")
        self.play.keep_house(thorough)
        self.after(*["tidy"] * thorough)

    @act(how=VARIANTS)
    def a_copy_says_the_same(self, how: str) -> None:
        self.play.look()
        if differ(self.play, how):
            self.after(f"differ {how}")

    @act()
    def look(self) -> None:
        self.play.look()

    def teardown(self) -> None:
        if not hasattr(self, "play"):
            return
        try:
            if sys.exc_info()[0] is None:  # nothing was wrong so far
                self.play.look()
                differ(self.play, "newest")
                self.met.example(self.seen)
            else:
                print("\n".join(self.play.told))
        finally:
            self.play.patch.undo()


__all__ = ["RELOADS", "VERBS", "EverythingMachine", "rules_of"]
