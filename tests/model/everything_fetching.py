"""Rules of the machine of everything: fetching, giving back, time, and the machine it runs on.

One rule: as in `everything_machine`, whatever the server is told the model is told too.
"""

from __future__ import annotations

from tests.model.everything_acts import act
from tests.model.everything_lines import Line, Place
from tests.model.everything_machine import EVERYBODY, LINE, QUEUE, WHO, EverythingMachine
from tests.model.everything_restart import VARIANTS, differ
from tests.model.everything_stage import BAD_TOKEN, EXPIRED, values


class FetchingMachine(EverythingMachine):
    """Clients that fetch, restarts, and copies of the disk."""

    # -- fetching ---------------------------------------------------------------------------

    @act(who=WHO, name=LINE, how=("open", "open", "take", "peek", "token",))
    def fetch(self, who: str, name: str, how: str) -> None:
        if self.is_waiting(who):
            return
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
        if how in ("open", "token") and (who, name) in self.over:
            self.over.discard((who, name))
            if how == "token":  # is that an open of that queue?
                self.unsure.add((who, name))
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
        name = self.with_some(name, "dead")
        line = self.line(name)
        if line is None or self.held(who) or self.is_waiting(who):
            return
        said = self.ask(who, f"get {name}/dead/open")
        self.over.discard((who, name))
        place, shown = line.lendable_dead(), values(said)
        if place is None:
            assert not shown, said
            return
        assert shown[0].body == place.item.body, said
        self.town.lend(line, place, who, None)
        self.after("dead")

    @act(
        who=EVERYBODY, other=LINE,
        how=(
            "close", "close", "close/open", "abort", "abort", "defer", "abort/dead",
            "abort/delay=2s", "defer/delay=1s",
        ),
    )  # fmt: skip
    def end(self, who: str, other: str, how: str) -> None:
        if self.is_waiting(who):
            return
        held = self.held(who)
        over = sorted(each for client, each in self.over if client == who)
        name = held[0].name if held else [*over, other][0]
        if held is None and self.line(name) is None:
            return
        if held and held[1].died and how not in ("close", "abort", "defer"):
            return
        if name in ("failed", "late") and "delay" in how:
            return
        if held and "delay" in how and self.sees_expiry_late(held[0]):
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
    def sees_expiry_late(line: Line) -> bool:
        """True if a child may be full of what has expired in it, given back with a delay."""
        rules = line.rules
        return "+" in line.name and None not in (rules.max_items, rules.max_age_ms)

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
        at=range(6), who=EVERYBODY,
        how=("close", "delete", "abort", "defer", "defer/delay=1s", "touch", "abort/dead",),
    )  # fmt: skip
    def end_by_token(self, at: int, who: str, how: str) -> None:
        if not self.tokens or self.is_waiting(who):
            return
        name, place, token = self.tokens[at % len(self.tokens)]
        line = self.line(name)
        if name in ("failed", "late") and "delay" in how:
            return
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

    @act(who=EVERYBODY)
    def touch(self, who: str) -> None:
        held = self.held(who)
        if held and not self.is_waiting(who):
            assert self.ask(who, f"touch {held[0].name} 4") == b"TOUCHED\r\n"
            held[1].until_ms = self.town.now_ms + 4000
            self.after("touch")

    @act(who=EVERYBODY)
    def hang_up(self, who: str) -> None:
        if who in self.play.stage.clients:
            self.play.transcript.append(f"!{who}")
            self.play.stage.hang_up(who)
            self.town.hang_up(who)
            self.over = {(each, name) for each, name in self.over if each != who}
            self.unsure = {(each, name) for each, name in self.unsure if each != who}
            self.after("hang up")

    # -- time and the machine ---------------------------------------------------------------

    @act(ms=(1, 400, 1100, 2600, 6100,))
    def pass_time(self, ms: int) -> None:
        self.play.pass_time(ms)
        self.after()

    @act(how=("restart", "kill", "cut_power",))
    def come_back(self, how: str) -> None:
        by_token = [p for line in self.town.lines() for p in line.leased if p.holder == "token"]
        if any(place.item.expires_ms for place in by_token):
            return  # on disk alone then: that it has expired is known when it is read back
        self.play.transcript.append(f"= {how.replace('_', ' ')}")
        getattr(self.play.stage, how)()
        self.play.restarted()
        self.over.clear()
        self.unsure.clear()
        self.play.stage.work()
        self.after(how.replace("cut_power", "power cut"))

    @act(thorough=(False, True))
    def keep_house(self, thorough: bool) -> None:
        self.play.transcript.append("(tidied up)" if thorough else "(reclaimed)")
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
