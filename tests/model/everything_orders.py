"""More rules of the machine of everything: hand-off, moves, and what an operator orders.

One rule: a request about whose answer the model would have to guess is not sent.
"""

from __future__ import annotations

from tests.model.everything_acts import act
from tests.model.everything_lines import FOREVER, Line, Place
from tests.model.everything_machine import CHILD, EVERYBODY, KEY, LINE, QUEUE
from tests.model.everything_stage import EXPIRED, IN_MEMORY, JOBS, MENTIONED, NAMED
from tests.model.everything_waiting import WaitingMachine


class OrderingMachine(WaitingMachine):
    """Hand-offs, moves, and what operators do."""

    # -- from queue to queue ----------------------------------------------------------------

    @act(
        who=EVERYBODY, name=("next", "next", JOBS,), key=KEY,
        size=(0, 5, 60,), delay=(0, 0, 2,),
        expiry=(0, 0, 3,), id_=("", "", "new", "old", "again", "newer",),
    )  # fmt: skip
    def hand_off(
        self, who: str, name: str, key: str, size: int, delay: int, expiry: int, id_: str
    ) -> None:
        if self.is_waiting(who):
            return
        held = self.held(who)
        if held is None:
            said = self.ask(who, f"set {name}/confirm", b"x")
            # Of a queue that was deleted since, the end of a lease stays known.
            is_no = EXPIRED.match(said) or said.startswith(b"CLIENT_ERROR nothing to confirm")
            assert is_no or (self.play.is_in_memory and IN_MEMORY.match(said)), said
            return
        if held[1].died or self._is_awaited(held[0].name, name):
            return
        if self._is_in_memory(held[0].name, name):
            said = self.ask(who, f"set {name}/confirm", b"x")
            assert IN_MEMORY.match(said), said
            self.after()
            return
        said = self._put(who, name, "set", size, key, delay, expiry, id_, "/confirm", held)
        if said == b"STORED\r\n":
            self.after("hand off")

    @act(at=range(6), who=EVERYBODY, name=("next", JOBS,), key=KEY)
    def hand_off_by_token(self, at: int, who: str, name: str, key: str) -> None:
        if not self.tokens or self.is_waiting(who):
            return
        source, place, token = self.tokens[at % len(self.tokens)]
        line = self.line(source)
        if line is None or place not in line.places or place.token != token or place.died:
            said = self.ask(who, f"set {name}/confirm={source}:{token}", b"x")
            assert said.startswith(b"CLIENT_ERROR"), said
            return
        if self._is_awaited(source, name):
            return
        if self._is_in_memory(source, name):
            said = self.ask(who, f"set {name}/confirm={source}:{token}", b"x")
            assert IN_MEMORY.match(said), said
            self.after()
            return
        held = line, place
        said = self._put(who, name, "set", 0, key, 0, 0, "", f"/confirm={source}:{token}", held)
        if said == b"STORED\r\n":
            self.after("hand off", "token")

    def _is_in_memory(self, *names: str) -> bool:
        """True if that is no hand-off, because one of these is in memory."""
        return self.play.is_in_memory and any(name.startswith(JOBS) for name in names)

    def _is_awaited(self, source: str, target: str) -> bool:
        """True if somebody may be served between the storing and the confirming, or after both."""
        is_same = source.partition("+")[0] == target.partition("+")[0]
        return is_same and bool(self.town.waits.of(source) or self.town.waits.of(target))

    @act(name=(JOBS, JOBS, "failed", "late", NAMED,), most=range(1, 5))
    def move(self, name: str, most: int) -> None:
        line = self.town.line(name)
        if line.rules.max_leased is not None or not self.town.store(name).exists:
            return  # whether what is on its way counts as leased, the spec does not say
        said = self.ask("op", f"move {name} next {most}")
        reach, left = list[Place](), Line(line.name, line.rules, line.places[:])
        while (place := next(left.possible(), None)) is not None:
            reach.append(place)
            left.places.remove(place)
        count = min(most, len(reach))
        assert said == b"%d\r\n" % count, f"move {name}: {said!r}, not {count}"
        moved = reach
        if count < len(reach):  # which go first where some wait for a key is free
            come = [each.body for each in self.play.newcomers("next")]
            rest, moved = reach[:], []
            for body in come:
                moved.append(next(p for p in rest if p.item.body == body))
                rest.remove(moved[-1])
        assert len({*moved}) == count, f"move {name}: {moved}"
        for place in moved:
            for other in reach:
                if other not in moved and other.rank < place.rank and not place.held:
                    shared = line.values(other.item.key) & line.values(place.item.key)
                    assert not shared, f"move {name}: {place.item} overtook {other.item}"
            self.town.leave(line, place, "next", True)
        self.after("move")

    @act(name=(JOBS, JOBS, NAMED, "next",), away=(False, True))
    def redrive(self, name: str, away: bool) -> None:
        name = self.with_some(name, "dead")
        line = self.town.line(name)
        if not self.town.store(name).exists or (away and name == "next"):
            return
        if not away and not self._has_room_for_the_dead(line):
            return
        said = self.ask("op", f"redrive {name} all" + " next" * away)
        dead = line.dead
        for place in dead:
            if away:
                self.town.leave(line, place, "next", False)
            else:
                self.town.redrive(line, place)
        assert said == b"%d\r\n" % len(dead), f"redrive {name}: {said!r}, not {len(dead)}"
        self.after(*["redrive"] * bool(dead))

    @staticmethod
    def _has_room_for_the_dead(line: Line) -> bool:
        """True if no limit is in the way: what happens then, the spec does not say."""
        rules, waiting = line.rules, [*line.ready, *line.delayed, *line.dead]
        fits = rules.max_items is None or len(waiting) <= rules.max_items
        size = sum(len(p.item.body) for p in waiting)
        return fits and (rules.max_bytes is None or size <= rules.max_bytes)

    # -- what an operator orders ------------------------------------------------------------

    @act(name=LINE)
    def flush(self, name: str) -> None:
        line = self.line(name)
        if line is not None and self.town.store(name).exists:
            assert self.ask("op", f"flush {name}") == b"END\r\n"
            self.town.flush(line)
            self.after("flush")

    @act(name=QUEUE)
    def delete(self, name: str) -> None:
        """Its children first: what they keep of a queue that is gone has a machine of its own."""
        store = self.town.stores[name]
        for line in [*store.lines.values()][::-1]:
            said = self.ask("op", f"delete {line.name}")
            assert said == b"DELETED\r\n" or not store.exists, (line.name, said)
            if said == b"DELETED\r\n":
                self.town.waits.end(line.name)
            self._forget_leases(line.name)
        self.play.make(name)
        self.play.forget(name)
        for beat in self.town.beats:
            beat.is_unsure |= beat.queue == name
        if name == "next":
            self.declared = ""
        self.after("delete")

    def _forget_leases(self, name: str) -> None:
        """Whether a lease that was over before is known after a delete, the spec does not say."""
        gone = {(who, each) for who, each in self.over if each == name}
        self.over -= gone
        self.unsure |= gone

    @act()
    def forget_child(self) -> None:
        store = self.town.stores[JOBS]
        if MENTIONED in store.lines:
            assert self.ask("op", f"delete {MENTIONED}") == b"DELETED\r\n"
            del store.lines[MENTIONED]
            self.town.waits.end(MENTIONED)
            self._forget_leases(MENTIONED)
            self.after("forget child")

    @act(back=range(9))
    def mention_from(self, back: int) -> None:
        """A child begins with what is retained; only where nothing may be gone of that."""
        store = self.town.stores[JOBS]
        rules = store.own.rules
        is_all_kept = rules.retain_ms == FOREVER and not rules.retain_bytes
        if not is_all_kept or not store.exists or store.unsure:
            return
        self.forget_child()
        self.play.look()
        known = [i for i in store.retained if i.marker]
        unsure = any(i.may_be_gone for i in store.retained)
        if unsure or not known or any(not i.shown for i in known):
            return
        first = max(max(i.marker for i in known) - back, 0)
        line = self._mention_in_model()
        waiting = {p.item for each in store.lines.values() for p in each.places}
        for item in sorted(store.retained, key=lambda i: i.marker):
            if item.marker >= first or not item.marker:
                if not item.marker and item not in waiting:
                    continue
                if not self.town.is_expired(item):
                    line.places.append(Place(item, item.marker, 0 if item.marker else item.due_ms))
        shown = min((i.shown for i in known if i.marker >= first), default=0)
        said = self.ask("op", f"get {MENTIONED}/from={shown}/peek")
        assert (said == b"END\r\n") == (next(line.possible(), None) is None), said
        self.after("child", "from")

    def _mention_in_model(self) -> Line:
        return self.play.mention()

    @act(name=CHILD, back=range(7))
    def up_to(self, name: str, back: int) -> None:
        store, line = self.town.stores[JOBS], self.line(name)
        if line is None:
            return
        self.play.look()
        shown = sorted((p.item.shown, p.item.marker) for p in line.places if p.item.shown)
        if not shown or not store.exists:
            return
        marker, ours = shown[max(len(shown) - 1 - back, 0)]
        assert self.ask("op", f"delete {name}/upto={marker}") == b"DELETED\r\n"
        self.town.up_to(line, ours)
        self.after("upto")

    @act(name=LINE, pause=(False, True))
    def pause(self, name: str, pause: bool) -> None:
        line = self.line(name)
        if line is not None and self.town.store(name).exists:
            assert self.ask("op", f"{'pause' if pause else 'resume'} {name}") == b"OK\r\n"
            line.paused = pause
            self.after("pause")

    def _numbered(self, name: str, at: int, states: tuple[str, ...]) -> tuple[Line, Place] | None:
        """One of those in these states whose number is known: it was never delayed at first."""
        line = self.line(self.with_some(name, *states))
        if line is None:
            return None
        found = [p for p in line.places if p.state in states]
        found = [p for p in found if p.item.number == p.item.marker == p.item.shown]
        return (line, found[at % len(found)]) if found else None

    @act(name=LINE, at=range(10))
    def cancel(self, name: str, at: int) -> None:
        found = self._numbered(name, at, ("ready", "delayed", "lent", "dead"))
        if found is None or self._may_be_over(found[1]):
            return
        line, place = found
        said = self.ask("op", f"delete {line.name}/item={place.item.number}")
        waits = place.state in ("ready", "delayed")
        assert said == (b"DELETED\r\n" if waits else b"NOT_FOUND\r\n"), (name, place.state, said)
        if waits:
            self.town.purge(line, place)
            self.after("cancel")

    def _may_be_over(self, place: Place) -> bool:
        return place.is_delayed and self.town.is_expired(place.item)

    @act(name=LINE, at=range(10))
    def purge(self, name: str, at: int) -> None:
        found = self._numbered(name, at, ("dead",))
        if found is not None:
            line, place = found
            said = self.ask("op", f"delete {line.name}/dead/item={place.item.number}")
            assert said == b"DELETED\r\n", said
            self.town.purge(line, place)
            self.after("purge")

    @act(name=LINE, at=range(10))
    def retry(self, name: str, at: int) -> None:
        found = self._numbered(name, at, ("delayed",))
        if found is not None and not self._may_be_over(found[1]):
            line, place = found
            assert self.ask("op", f"retry {line.name} {place.item.number}") == b"OK\r\n"
            self.town.retry(line, place)
            self.after("retry")

    @act(name=(JOBS, "next",), old=(False, True))
    def cancel_by_id(self, name: str, old: bool) -> None:
        store = self.town.stores[name]
        known = [i for i in store.ids if store.knows(i, self.town.now_ms)]
        if not known or not store.exists:
            return
        id_ = known[0 if old else -1]
        newest = store.named[id_]
        places = [p for p in store.own.places if p.item is newest]
        if any(self._may_be_over(place) for place in places):
            return
        said = self.ask("op", f"delete {name}/id={id_}")
        waits = [p for p in places if p.state in ("ready", "delayed")]
        assert said == (b"DELETED\r\n" if waits else b"NOT_FOUND\r\n"), (name, id_, said)
        for place in waits:
            self.town.purge(store.own, place)
            self.after("cancel", "id")

    @act(attempts=range(1, 4))
    def declare(self, attempts: int) -> None:
        """Of a queue that no block names: what was declared first holds."""
        text = f"max_attempts = {attempts}\n"
        said = self.ask("op", "set next/declare", text.encode())
        store = self.town.stores["next"]
        wanted = b"STORED\r\n" if self.declared in ("", text) else b"NOT_STORED\r\n"
        assert said == wanted, (said, self.declared)
        if not self.declared:
            self.declared, store.own.rules.max_attempts = text, attempts
        store.exists = True
        self.after("declare")
