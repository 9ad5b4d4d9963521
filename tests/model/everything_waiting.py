"""More rules of the machine of everything: clients that wait, `get .../t=<time>`.

One rule: a waiting client is sent no further request; `hear` compares its answer and the moment.
"""

from __future__ import annotations

from tests.model.everything_acts import act
from tests.model.everything_fetching import FetchingMachine
from tests.model.everything_lines import Line
from tests.model.everything_machine import LINE, PATIENT
from tests.model.everything_stage import JOBS, NAMED
from tests.model.everything_waits import Wait


class WaitingMachine(FetchingMachine):
    """Clients that wait."""

    @act(
        who=PATIENT, name=LINE, ms=(337, 1937, 5237,), is_crowd=(False, True),
        how=("open", "open", "take", "token", "peek", "dead", "observe", "observe",),
    )  # fmt: skip
    def wait(self, who: str, name: str, ms: int, how: str, is_crowd: bool) -> None:
        for each in dict.fromkeys([who, *PATIENT * is_crowd]):
            self._wait(each, name, ms, how)

    def _wait(self, who: str, name: str, ms: int, how: str) -> None:
        if self.is_waiting(who):
            return
        line, held = self.line(name), self.held(who)
        if line is None:
            line = self._mention()
        if how == "dead" and (line.rules.dead_letter_to or line.rules.expire_to):
            return  # whether it is shown what is about to go on, the spec does not say
        if how == "take" and (name not in (JOBS, NAMED) or self.town.beats):
            how = "open"  # what is moved or put there has to be found
        if how == "observe":
            self._observe(who, line, ms)
            return
        option = {
            "open": "/open", "take": "", "token": "/open/lease=3s", "peek": "/peek",
            "dead": "/dead/open",
        }[how]  # fmt: skip
        self.play.tell(who, f"gets {name}{option}/t={ms}ms")
        if "+" in name:
            self.town.store(name).exists = True
        if (how in ("open", "dead") and held) or (how == "take" and held and held[0] is line):
            said = self.play.stage.client(who).take()
            assert said == b"CLIENT_ERROR close or abort the open item first\r\n", said
            return
        if how in ("open", "token", "dead") and (who, name) in self.over:
            self.over.discard((who, name))
            if how == "token":
                self.unsure.add((who, name))
        wait = Wait(who, name, how, self.town.now_ms + ms)
        self.town.waits.all.append(wait)
        if how == "peek":
            self.town.waits.see(wait, line)
        self.after("wait")

    def _observe(self, who: str, line: Line, ms: int) -> None:
        """Wait for what becomes available next, behind all that is shown."""
        store = self.town.store(line.name)
        if line is store.own and line.rules.fanout_only:
            return  # what it retains, the spec does not say
        shown = self.play.seen_by_observer(line.name, self.play.stage, 0)
        after = max((each.number for each in shown), default=0)
        if "+" in line.name:
            store.exists = True
        self.play.tell(who, f"gets {line.name}/peek/after={after}/t={ms}ms")
        wait = Wait(who, line.name, "observe", self.town.now_ms + ms, store.last)
        self.town.waits.all.append(wait)
        self.after("wait")
