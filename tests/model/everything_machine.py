"""The rules of the machine of everything: the requests of the clients and the expected answers.

One rule: a rule that happened says so by `met`; a request that the state forbids is not sent.
"""

from __future__ import annotations

from typing import ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from tests.model.everything_acts import act
from tests.model.everything_lines import Id, Line, Place, Store
from tests.model.everything_model import Town
from tests.model.everything_restart import differ
from tests.model.everything_rows import ROWS, Met, Row, features
from tests.model.everything_stage import (
    JOBS,
    MENTIONED,
    NAMED,
    Play,
    short,
    values,
)
from tests.model.everything_waits import Wait
from tests.support.machines import has_failed

WHO = ("anna", "bert", "cleo")
PATIENT = ("anna", "dora", "emil", "finn")  # these may wait
EVERYBODY = (*WHO, "dora", "emil", "finn")
QUEUE = (JOBS, JOBS, JOBS, "next", "failed", "late")
LINE = (JOBS, JOBS, JOBS, NAMED, NAMED, MENTIONED, "next", "failed", "late")
CHILD = (NAMED, MENTIONED)
KEY = ("", "", "A", "A", "B", "A,B", "B,A", "B,C", "C")
RELOADS: Final = (
    ("retry_delay", "0s", "1s", "3s"), ("max_attempts", 1, 2, 3), ("lease", "none", "1s", "5s"),
    ("max_leased", "none", 1, 3), ("retain", "none", "2s", "8KiB", "1KiB", "forever"),
    ("max_items", "none", 3), ("max_bytes", "none", 30),
)  # fmt: skip
VERBS: Final = (
    "set", "delay", "expiry", "key", "id", "add", "version", "open", "token", "take", "peek",
    "close", "abort", "defer", "later", "bury", "touch", "hang up", "lease over", "flush",
    "delete", "child", "forget child", "from", "upto", "hand off", "move", "redrive", "alias",
    "pause", "cancel", "retry", "declare", "reload", "tidy", "restart", "kill", "power cut",
    "differ newest", "differ older", "differ none", "dead", "death", "expired", "purge",
    "wait", "served", "told", "in vain", "scope", "scheduled", "refused",
)  # fmt: skip


class EverythingMachine(RuleBasedStateMachine):
    """A server with a queue of one row's settings, its children, and queues that things go to."""

    row: ClassVar[Row] = ROWS[0]
    met: ClassVar[Met] = Met()

    @initialize(piece=st.sampled_from([64, 300, 1 << 18]))
    def begin(self, piece: int) -> None:
        self.play = Play(self.row, piece)
        self.play.listen = self.hear
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
        self.town.serve()
        self.seen.update(["expired"] * bool(self.town.expired))
        self.over.update(self.town.over)
        self.town.over.clear()
        self.play.finish_transfers()
        self.seen.update(self.play.heard)
        self.hear()

    def is_waiting(self, who: str) -> bool:
        """True if what this connection is sent now is carried out when its wait is over."""
        return self.town.waits.is_waiting(who)

    def hear(self) -> None:
        """Whoever waited was answered, or not yet."""
        for wait in self.town.waits.all[:]:
            said = self.play.stage.client(wait.who).take()
            if not wait.is_done:
                assert not said, f"{wait.who} has waited for {wait.name}: {said!r}"
                wait.has_waited = True
                continue
            self.town.waits.all.remove(wait)
            self.play.transcript.append(f"  {wait.who}< {short(said)}")
            self._heard(wait, said)

    def _heard(self, wait: Wait, said: bytes) -> None:
        shown = values(said)
        may = [item for item in wait.may if item.marker > wait.after]
        allowed = [wait.item, *may] if wait.item is None or may else [wait.item]
        bodies = [item.body if item else b"" for item in allowed]
        body = shown[0].body if shown else b""
        assert len(shown) < 2 and body in bodies, f"{wait}: {said!r}, not {bodies}"
        if not shown:
            self.seen.update(["in vain"] * wait.has_waited)
            return
        if wait.how == "token":
            assert wait.place is not None
            wait.place.token = shown[0].number
            self.tokens.append((wait.name, wait.place, wait.place.token))
        self.seen.update(["told" if wait.how == "observe" else "served"] * wait.has_waited)

    def held(self, who: str) -> tuple[Line, Place] | None:
        for line in self.town.lines():
            for place in line.leased:
                if place.holder == who:
                    return line, place
        return None

    def line(self, name: str) -> Line | None:
        """The line of that name; naming a child makes it."""
        if name == MENTIONED and name not in self.town.stores[JOBS].lines:
            return None
        return self.town.line(name)

    def with_some(self, name: str, *states: str) -> str:
        """Return this line's name, or if none of its items is in such a state one that has some."""
        lines = sorted(self.town.lines(), key=lambda line: line.name != name)
        found = (line.name for line in lines for p in line.places if p.state in states)
        return next(found, name)

    def body(self, size: int) -> bytes:
        self.count += 1
        return b"%d." % self.count + b"x" * size

    # -- storing ----------------------------------------------------------------------------

    @act(
        name=LINE, size=(0, 0, 5, 90, 700,), key=KEY,
        delay=(0, 0, 0, 1, 3,), expiry=(0, 0, 0, 2, 5,),
        id_=("", "", "", "new", "old", "again", "newer", "older",), verb=("set", "set", "add",),
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
        id_: str, more: str, confirms: tuple[Line, Place] | None = None,
    ) -> bytes:  # fmt: skip
        """Store something, and with that confirm something; what was answered."""
        line, store = self.line(name), self.town.store(name)
        if line is None:
            line = self._mention()
        may_be_late = name.startswith(JOBS) and self.play.row["retry"] != "none"
        if self.play.row["memory"] == "tiny" or may_be_late:
            expiry = 0  # a child sees late that what came back has expired, and keeps its key
        if delay and line.rules.max_age_ms is not None:
            delay = 0
        if name in ("failed", "late"):
            delay = 0  # how what is due and what is moved there follow each other is free
        if "+" in name:
            id_, verb = "", "set"
        if verb == "add":
            key = ""  # that is a condition
        body = self.body(size)
        options = f"/key={key}" if key else ""
        options += f"/delay={delay}s" if delay else ""
        named = self._id(store, id_)
        options += named.options if named else ""
        said = self.play.send(
            who, f"{verb} {name}{options}{more} 0 {expiry} {len(body)}\r\n".encode() + body
        )
        now_ms = self.town.now_ms
        expires_ms = now_ms + expiry * 1000 if expiry else 0
        if line.rules.max_age_ms is not None:
            expires_ms = min(expires_ms or 1 << 60, now_ms + line.rules.max_age_ms)
        due_ms = now_ms + delay * 1000 if delay else 0
        if 0 < expires_ms <= due_ms:
            knows = bool(named) and store.is_duplicate(named, now_ms)
            is_no = said.startswith(b"CLIENT_ERROR") or said == b"NOT_STORED\r\n"
            assert is_no or (knows and verb == "set"), said  # which is looked at first is free
            return said
        if confirms and said == b"STORED\r\n":
            self.town.confirm(*confirms)
        holds = bool(line.ready or line.delayed or line.leased)
        if named and store.is_duplicate(named, now_ms):
            wanted = b"STORED\r\n" if verb == "set" else b"NOT_STORED\r\n"
            self.after("id", *["scope"] * bool(named.scope))
        elif verb == "add" and not named and holds:
            wanted = b"NOT_STORED\r\n"
            store.exists = True
            self.after("add")
        else:
            is_in = self.town.put(name, body, expires_ms, due_ms, key, named)
            wanted = b"STORED\r\n" if is_in else self.refusal(name, body)
        assert said == wanted, f"{verb} {name}{options}: {said!r}, not {wanted!r}"
        if said == b"STORED\r\n":
            self.after(
                "set", *["delay"] * bool(delay), *["expiry"] * bool(expiry), *["key"] * bool(key),
                *["id"] * bool(id_), *["add"] * (verb == "add"),
                *["scope"] * bool(named and named.scope),
            )  # fmt: skip
        return said

    def refusal(self, name: str, body: bytes) -> bytes:
        """Return the answer to a put that finds no room: of what never fits it says so."""
        most = self.town.line(name).rules.max_bytes
        if most is None or len(body) <= most:
            return b"NOT_STORED\r\n"
        why = f"object too large for cache ({len(body)} bytes, max_bytes of {name} is {most})"
        return f"SERVER_ERROR {why}\r\n".encode()

    def _id(self, store: Store, which: str) -> Id | None:
        """Return an id: new or old, or of a scope whose epoch is the newest, newer or older."""
        if which in ("new", "old"):
            self.ids += which == "new" or not self.ids
            return Id(f"{self.ids}")
        if not which:
            return None
        name = f"s{self.count % 2}"
        epoch = store.scopes[name].epoch if name in store.scopes else 5
        epoch += {"newer": 1, "older": -1}.get(which, 0)
        return Id(f"{self.count % 3}", name, epoch)

    @act(
        key=("A", "B", "C",), off=(0, 0, 1, -1,),
        verb=("cas", "set", "add", "replace",), id_=(False, True),
    )  # fmt: skip
    def put_behind(self, key: str, off: int, verb: str, id_: bool) -> None:
        store = self.town.stores[JOBS]
        if key in store.doubtful:
            return
        version = store.version(key, self.town.now_ms)
        guess = max(version + off, 0)
        body = self.body(1)
        options = f"/key={key}" + (f"/expect={guess}" if verb == "set" else "")
        named = None
        if id_:
            self.ids += 1
            named = Id(f"{self.ids}")
            options += named.options
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
            wanted = b"STORED\r\n" if is_in else self.refusal(JOBS, body)
        else:
            no = {"cas": b"EXISTS\r\n" if version else b"NOT_FOUND\r\n"}
            wanted = no.get(verb, b"NOT_STORED\r\n")
        assert said == wanted, f"{verb} {options} {guess} at {version}: {said!r}"
        self.after("version")

    @act(size=(0, 40,), id_=(False, True), key=KEY)
    def put_to_alias(self, size: int, id_: bool, key: str) -> None:
        body, named = self.body(size), None
        if id_:
            self.ids += not self.ids
            named = Id(f"{self.ids}")
        options = (named.options if named else "") + (f"/key={key}" if key else "")
        said = self.ask("prod", f"set all{options}", body)
        refused = list[bytes]()
        for name in (JOBS, "next"):
            rules = self.town.line(name).rules
            expires_ms = self.town.now_ms + rules.max_age_ms if rules.max_age_ms else 0
            if named and self.town.stores[name].is_duplicate(named, self.town.now_ms):
                continue
            if not self.town.put(name, body, expires_ms, 0, key, named):
                refused.append(self.refusal(name, body))
        for_good = (each for each in refused if each != b"NOT_STORED\r\n")
        assert said == next(for_good, b"NOT_STORED\r\n" if refused else b"STORED\r\n")
        self.after("alias", *["id"] * id_)

    def _mention(self) -> Line:
        line = self.play.mention()
        self.after("child")
        return line

    def teardown(self) -> None:
        if not hasattr(self, "play"):
            return
        try:
            if not has_failed():  # nothing was wrong so far
                self.play.look()
                differ(self.play, "newest")
                self.met.example(self.seen)
                self.met.words |= self.play.words
            else:
                print("\n".join(self.play.transcript))
        finally:
            self.play.patch.undo()
