"""More rules of the machine of everything: reloads of the configuration, by the daemon's own way.

A reload comes at any moment of a walk: among waiters, leases, delayed and retained items, and times
of a schedule that wait for room. It may change several things at once, and is refused as a whole
when it changes key settings of a queue with items.

One rule: the model changes once the server has taken the reload.
"""

from __future__ import annotations

from typing import Any

from tests.model.everything_acts import act
from tests.model.everything_machine import RELOADS
from tests.model.everything_orders import OrderingMachine
from tests.model.everything_schedules import Beat
from tests.model.everything_stage import BEAT, JOBS, MENTIONED, NAMED, schedule_of

# Seconds between two times, and `catch_up`, of the changed schedule.
BEATS = ((2, "last"), (3, "all"), (5, "none"), (3, "last"), (2, "all"))


class ReloadingMachine(OrderingMachine):
    """The whole machine."""

    @act(
        which=RELOADS, at=range(1, 6), child=(False, True), keys=("", "", "", "any", "pair"),
        beat=(None, None, *BEATS), late=("", "", "put", "child"),
    )  # fmt: skip
    def reload(
        self, which: tuple[object, ...], at: int, child: bool, keys: str,
        beat: tuple[int, str] | None, late: str,
    ) -> None:  # fmt: skip
        """Take other settings; `late`: something comes between its check and its taking."""
        play, line = self.play, NAMED if child else JOBS
        settings = self._settings(which, at, child)
        of_keys = {"key_match": keys} if keys and keys != self._key_match() else {}
        queues: dict[str, dict[str, Any]] = {line: settings}
        queues[JOBS] = queues.get(JOBS, {}) | of_keys
        beats = [self._changed(each, *beat) for each in self.town.beats if beat]
        blocks = {"beat": schedule_of(beats[0])} if beats else {}
        play.transcript.append(f"= reload {queues} {blocks}")
        pending = self._pending()
        is_taken = play.stage.reload_with(queues, blocks, lambda: self._meanwhile(late))
        self._check_taken(is_taken, bool(of_keys))
        if not is_taken:
            play.transcript.append("= that was refused")
            self.after("refused")
            return
        changes = [*settings, *["keys"] * bool(of_keys), *["schedule"] * bool(blocks)]
        self.met.reloads.update((one, change) for one in pending for change in changes)
        if "retain" in settings:
            self._other_retain()
        (play.of_named if child else play.of_jobs).update(settings)
        play.of_keys.update(of_keys)
        for each in self.town.stores[JOBS].lines.values():
            vars(each.rules).update(vars(play.rules(each.name)))
        for old, new in zip(self.town.beats, beats, strict=False):
            old.change(self.town.now_ms, new.body, new.every_s, new.catch_up)
        self.after("reload")

    @act(size=(300, 700,), to=("", "1KiB", "8KiB"))
    def turn_over(self, size: int, to: str) -> None:
        """So much goes through the queue that `retain` by size lets the oldest go."""
        if not self.town.line(JOBS).rules.retain_bytes:
            return
        for _ in range(6):
            self._put("prod", JOBS, "set", size, "", 0, 0, "", "")
        for name in [*self.town.stores[JOBS].lines]:
            self.flush(name)
        for _ in range(2):  # what two snapshots know may go
            self.keep_house(True)
        if to:
            self._reload("retain", to)
            self.keep_house(False)
        self.play.expect_little()

    @act(which=RELOADS, at=range(1, 6))
    def reload_full(self, which: tuple[object, ...], at: int) -> None:
        """A reload comes while a time of the schedule waits for room."""
        if self.sees_expiry_late(self.town.line(NAMED)):
            return
        if self.town.beats and self.town.line(JOBS).rules.max_items is not None:
            for _ in range(4):
                self._put("prod", JOBS, "set", 0, "", 0, 0, "", "")
            self.pass_time(3100)
            self.reload(which, at, False, "", None, "")

    @act(at=range(1, 4), anew=(False, True))
    def reload_empty(self, at: int, anew: bool) -> None:
        """Key settings change while the queue is there and, if nothing is open or dead, empty."""
        if anew:
            self.delete(JOBS)
        self.ask("eye", f"get {MENTIONED}/peek")
        self._mention()
        for name in [*self.town.stores[JOBS].lines]:
            self.flush(name)
        keys = {"any": "pair", "pair": "any"}[self._key_match()]
        self.reload(RELOADS[0], at, False, keys, None, "")

    def _reload(self, name: str, value: str) -> None:
        which = next(each for each in RELOADS if each[0] == name)
        self.reload(which, which.index(value), False, "", None, "")

    def _pending(self) -> list[str]:
        """Return what is under way, by its name in the table of reloads."""
        town, store = self.town, self.town.stores[JOBS]
        places = [place for line in town.lines() for place in line.places]
        is_pending = {
            "waiters": town.waits.all, "leases": any(place.holder for place in places),
            "delays": any(place.is_delayed for place in places),
            "retained": store.own.rules.retain_ms and store.retained,
            "runs": any(beat.may and beat.has_waited for beat in town.beats),
        }  # fmt: skip
        return [name for name, is_so in is_pending.items() if is_so]

    def _settings(self, which: tuple[object, ...], at: int, child: bool) -> dict[str, Any]:
        """Return what changes, if this line may have that."""
        name, values = str(which[0]), which[1:]
        only = self.play.row["children"] == "only"
        if name in ("max_items", "max_bytes") and (child or only):
            return {}  # what a child drops then has rules enough
        if name == "retain" and (child or self.play.is_in_memory):
            return {}
        return {name: values[(at - 1) % len(values)]}

    def _key_match(self) -> str:
        return "any" if self.town.line(JOBS).rules.matches_any else "pair"

    def _changed(self, old: Beat, every_s: int, catch_up: str) -> Beat:
        self.count += 1
        return Beat(old.queue, BEAT + b"%d" % self.count, every_s, catch_up)

    def _meanwhile(self, late: str) -> None:
        if late == "put":
            self._put("prod", JOBS, "set", 0, "", 0, 0, "", "")
        elif late == "child":
            self.ask("eye", f"get {MENTIONED}/peek")
            self.play.mention()

    def _check_taken(self, is_taken: bool, is_of_keys: bool) -> None:
        """Key settings change only while the queue is empty; all of a reload is taken, or none."""
        lines = self.town.stores[JOBS].lines
        there = [place for line in lines.values() for place in line.places]
        is_empty = not there and not any(t.source in lines for t in self.town.transfers)
        if not is_of_keys or is_empty:
            assert is_taken, "refused without a reason"
        elif not all(self.town.is_expired(place.item) for place in there):
            assert not is_taken, f"key settings changed under {there}"

    def _other_retain(self) -> None:
        """What was put before may be retained by the new setting, or gone by the old one."""
        store = self.town.stores[JOBS]
        store.unsure = store.last
        now_ms = self.town.now_ms
        store.doubtful |= {k for k in store.versions if not store.version(k, now_ms)}
        there = {item for item in store.items() if item.for_all}
        more = sorted(there - {*store.retained}, key=lambda i: i.number)
        store.retained = [*store.retained, *more]
        for item in store.retained:
            item.may_be_gone = True
