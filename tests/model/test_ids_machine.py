"""An id that comes again is a repetition or, with `dedupe = "same body"`, a mistake, by every door.

    set, add                   the id was seen: the answer of a repetition, whatever the body is;
    an alias, a hand-off       with "same body" and another body or key: CLIENT_ERROR, and nothing
    a scope and its epoch      is stored or confirmed

An id is remembered for `dedupe_window` since its item was stored, over restarts, snapshots and
whatever becomes of the item; a scope remembers the ids of its newest epoch since its last use. An
item that is too large (`max_item_size`) is refused before anything else is asked.

One rule: what the model remembers it has from an answer STORED alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from kestrelpy.core.log.log import JournalLog
from tests.model.narrow import Narrow, bodies, measure
from tests.support.tidying import tidy

DAY_MS = 86_400_000
WINDOWS = {"5s": 5000, "1d": DAY_MS, "forever": 1 << 60}
SCOPES = {"4s": 4000, "30d": 30 * DAY_MS}
LIMITS: dict[str | int, int] = {"8MiB": 8 << 20, 8: 8}  # bytes
Seen = tuple[str, str]  # body, key


@dataclass
class Scope:
    """A writer in numbered batches."""

    epoch: int
    used_ms: int
    ids: dict[str, Seen] = field(default_factory=dict)


class IdsMachine(Narrow):
    """One queue with dedupe, and another one from which items are handed off."""

    draws: ClassVar = {
        "dedupe": ("id", "same body"), "dedupe_window": tuple(WINDOWS),
        "scope_window": tuple(SCOPES), "max_item_size": tuple(LIMITS),
    }  # fmt: skip
    effects: ClassVar = (
        "stored", "repeated", "added", "reused", "by alias", "by hand-off", "window over",
        "scope", "older", "scope over", "too large", "restarted", "tidied", "reloaded", "cancelled",
        "deleted",
    )  # fmt: skip
    never: ClassVar = {
        ("dedupe_window=forever", "window over"): "it has no end",
        ("dedupe_window=1d", "window over"): "the walks are of seconds",
        ("scope_window=30d", "scope over"): "the walks are of seconds",
    }
    weights: ClassVar = {
        "put": 12, "put_to_alias": 4, "hand_off": 4, "wait": 4, "come_again": 2, "tidy_up": 2,
        "reload": 2, "take": 2, "cancel": 2, "delete": 0.3,
    }  # fmt: skip

    def begin(self) -> None:
        self.same_body = self.is_drawn("dedupe", "same body")
        self.window_ms = WINDOWS[self.drawn["dedupe_window"]]
        self.scope_ms = SCOPES[self.drawn["scope_window"]]
        self.limit = LIMITS[self.drawn["max_item_size"]]
        self.stage.set_queue("jobs", **self.drawn)
        self.stage.set_alias("both", ["jobs", "mail"])
        self.ids: dict[str, tuple[int, Seen]] = {}
        self.scopes: dict[str, Scope] = {}
        self.items: list[bytes] = []

    def _seen(self, id_: str, scope: str, epoch: int) -> Seen | str:
        """Return what was stored under this id; "new", or "older" than what is remembered."""
        now_ms = self.stage.unix_ms
        if not scope:
            when_ms, seen = self.ids.get(id_, (0, ("", "")))
            return seen if id_ in self.ids and now_ms < when_ms + self.window_ms else "new"
        there = self.scopes.get(scope)
        if there is None or now_ms >= there.used_ms + self.scope_ms or epoch > there.epoch:
            return "new"
        return "older" if epoch < there.epoch else there.ids.get(id_, "new")

    def _remember(self, id_: str, scope: str, epoch: int, seen: Seen) -> None:
        now_ms = self.stage.unix_ms
        if not scope:
            self.met.update(["window over"] * (id_ in self.ids))
            self.ids[id_] = now_ms, seen
            return
        there = self.scopes.get(scope)
        is_over = there is not None and now_ms >= there.used_ms + self.scope_ms
        self.met.update(["scope over"] * (is_over and there is not None and epoch <= there.epoch))
        if there is None or is_over or epoch > there.epoch:
            there = self.scopes[scope] = Scope(epoch, now_ms)
        there.ids[id_], there.used_ms = seen, now_ms

    def _draw(self) -> tuple[str, str, int, Seen, str]:
        """Draw an id, its scope and epoch, the body and key under it, and the options of a set."""
        id_, scope = self.pick(("1", "2", "3")), self.pick(("", "", "s", "t"))
        body, key = self.pick(("x", "x", "y", "a long one")), self.pick(("", "", "K", "L"))
        there = self.scopes.get(scope)
        epoch = (there.epoch if there else 5) + self.pick((0, 0, 0, 1, -1)) if scope else 0
        options = f"/id={id_}" + f"/scope={scope}/epoch={epoch}" * bool(scope)
        return id_, scope, epoch, (body, key), options + f"/key={key}" * bool(key)

    def _judge(self, id_: str, scope: str, epoch: int, seen: Seen) -> str:
        """Return the expected outcome: stored, repeated, reused, or too large."""
        if len(seen[0]) > self.limit:
            return "too large"
        before = self._seen(id_, scope, epoch)
        if before == "new":
            return "stored"
        if before == "older":
            self.met.add("older")
            return "repeated"
        return "reused" if self.same_body and before != seen else "repeated"

    def _note(self, verdict: str, id_: str, scope: str, epoch: int, seen: Seen) -> None:
        self.met.update([verdict, *["scope"] * bool(scope)])
        if verdict == "stored":
            self._remember(id_, scope, epoch, seen)
            self.items.append(seen[0].encode())

    ANSWERS: ClassVar = {
        "reused": b"CLIENT_ERROR ", "too large": b"SERVER_ERROR item too large",
    }  # fmt: skip

    def put(self) -> None:
        id_, scope, epoch, seen, options = self._draw()
        verb = self.pick(("set", "set", "add")) if not seen[1] else "set"
        verdict = self._judge(id_, scope, epoch, seen)
        said = self.set("prod", f"jobs{options}", seen[0].encode(), verb=verb)
        fine = b"NOT_STORED\r\n" if (verb, verdict) == ("add", "repeated") else b"STORED\r\n"
        assert said.startswith(self.ANSWERS.get(verdict, fine)), f"{verdict}: {said!r}"
        self.met.update(["added"] * (verb == "add"))
        self._note(verdict, id_, scope, epoch, seen)

    def put_to_alias(self) -> None:
        """Put to an alias: each of its queues decides for itself, and one refusal is the answer."""
        id_, _, _, seen, _ = self._draw()
        key = f"/key={seen[1]}" * bool(seen[1])
        verdict = self._judge(id_, "", 0, seen)
        said = self.set("prod", f"both/id={id_}{key}", seen[0].encode())
        assert said.startswith(self.ANSWERS.get(verdict, b"STORED\r\n")), f"{verdict}: {said!r}"
        self._note(verdict, id_, "", 0, seen)
        self.met.update(["by alias"] * (verdict in ("repeated", "reused")))

    def hand_off(self) -> None:
        """Hand off an item: a repetition confirms it, and a mistake does not."""
        id_, scope, epoch, seen, options = self._draw()
        assert self.set("prod", "source", b"s") == b"STORED\r\n"
        assert bodies(self.ask("kim", b"get source/open")) == [b"s"]
        verdict = self._judge(id_, scope, epoch, seen)
        said = self.set("kim", f"jobs{options}/confirm", seen[0].encode())
        assert said.startswith(self.ANSWERS.get(verdict, b"STORED\r\n")), f"{verdict}: {said!r}"
        self._note(verdict, id_, scope, epoch, seen)
        is_open = verdict in self.ANSWERS
        counted = dict(self._stats("source"))
        assert int(counted["leased"]) == is_open, f"{verdict}: {counted['leased']} leased"
        if is_open:
            assert self.ask("kim", b"get source/close") == b"END\r\n"
        self.met.add("by hand-off")

    def _stats(self, name: str) -> list[tuple[str, str]]:
        lines = self.stage.say("eye", f"stats {name}".encode()).decode().splitlines()
        words = [line.split() for line in lines if line.startswith("STAT ")]
        return [(each[1].removeprefix(f"queue_{name}_"), each[2]) for each in words]

    def wait(self) -> None:
        self.pass_time(self.pick((1, 1000, 2600, 5000)))

    def come_again(self) -> None:
        self.come_back(self.pick(("restart", "kill", "cut_power")))
        self.met.add("restarted")

    def tidy_up(self) -> None:
        for queue in [*self.stage.broker.queues.values()]:
            if isinstance(queue.log, JournalLog):
                tidy(self.stage, queue.log)
        self.met.add("tidied")

    def reload(self) -> None:
        """Change the settings; items of before are known with their bodies in either setting."""
        self.same_body, size = not self.same_body, self.pick([*LIMITS])
        self.limit = LIMITS[size]
        settings = {"dedupe": "same body" if self.same_body else "id", "max_item_size": size}
        assert self.stage.reload_with({"jobs": settings}, {})
        self.transcript.append(f"= {settings}")
        self.met.add("reloaded")

    def take(self) -> None:
        """Take an item; its id stays remembered."""
        said = bodies(self.ask("kim", b"get jobs"))
        assert said == self.items[:1]
        del self.items[:1]

    def cancel(self) -> None:
        id_ = self.pick(("1", "2", "3"))
        waits = self._stats("jobs") if "jobs" in self._queues() else []
        said = self.ask("op", f"delete jobs/id={id_}".encode())
        if said == b"DELETED\r\n":
            before = int(dict(waits)["items"])
            assert int(dict(self._stats("jobs"))["items"]) == before - 1
            assert self._seen(id_, "", 0) != "new"
            self.items.remove(self.ids[id_][1][0].encode())
            self._reread()
            self.met.add("cancelled")

    def _reread(self) -> None:
        """Which of several that are alike went, does not matter but for the order."""
        shown = self.stage.say("eye", b"gets jobs/peek/after=0/n=1000")
        found = bodies(shown)
        assert sorted(found) == sorted(self.items)
        self.items = found

    def _queues(self) -> list[str]:
        return [name.decode() for name in self.stage.broker.queues]

    def delete(self) -> None:
        """Delete the queue: one that is made again remembers no ids."""
        if self.ask("op", b"delete jobs") == b"DELETED\r\n":
            self.ids.clear()
            self.scopes.clear()
            self.items.clear()
            self.met.add("deleted")


@pytest.mark.slow
def test_each_id_is_stored_once_and_a_mistake_is_reported() -> None:
    measure(IdsMachine, walks=30, steps=60)
