"""One client's requests, each sent to the slice of its queue, and the answers in their order.

    bytes ──▶ parser ──▶ the slice of the queue ──▶ `sent`, for that slice
                                                     its answers ──▶ `out`, for the client

A request for several slices asks one after the other, and makes one answer of theirs. A wait for an
item of a sliced queue is in all slices at once (`AskAtOnce`), until one has an item. A large body
goes to its slice as it comes, which says whether it is too large; one that may name its slice is
held.

One rule: a connection has requests under way in one slice at a time. So they take effect in the
order in which they were sent, as in one server, and no answer has to wait for an earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from kestrelpy.errors import ClientError, Refused, ServerError
from kestrelpy.placement import Placement
from kestrelpy.protocol.login import LOGIN_BYTES_MAX, LoginPort
from kestrelpy.protocol.parse import (
    BODY_BYTES_ABSURD,
    Bad,
    Command,
    Fetch,
    Lines,
    Mail,
    Plain,
    Store,
)
from kestrelpy.protocol.routing.answer_ends import Unreadable
from kestrelpy.protocol.routing.asking import AskAtOnce, Asking, CheckHere
from kestrelpy.protocol.routing.merging import RouterCounts, merge
from kestrelpy.protocol.routing.routed_login import IDLE, RoutedLogin
from kestrelpy.protocol.routing.routed_wire import (
    ONE,
    ROUTED_MEMCACHE,
    Answers,
    Awaited,
    RoutedWire,
)
from kestrelpy.protocol.routing.routes import Names
from kestrelpy.protocol.routing.sliced import SlicedSeat, ask, fetch_each, slice_of_set
from kestrelpy.protocol.routing.sliced_queues import SlicedQueues
from kestrelpy.wire.refusals import is_refusal

# Requests under way for one client: as many as a server holds replies for.
UNDER_WAY_MAX: Final = 1024
# A refused body up to this size is sent on with its line: the slice words the refusal.
SKIPPED_BYTES_MAX: Final = 64 << 10
# A larger body is not held, if one slice has its queue.
HELD_BODY_BYTES_MAX: Final = 64 << 10
_LINE_END_BYTES: Final = 2
_LOST: Final = -1  # instead of a slice: the rest of a body is dropped
_BARRIER: Final = b"mn\r\n"  # asks for one answer, and does nothing
_BARRIER_ANSWER: Final = b"MN\r\n"
_UNWAIT: Final = b"unwait\r\n"  # ends a wait of the slice, which answers it


class RouterHost(Protocol):
    """The router, as a conversation sees it."""

    placement: Placement
    lines: Lines
    version: str
    counts: RouterCounts

    @property
    def sliced_queues(self) -> SlicedQueues:
        """The queues that are in all slices."""

    def limit_of(self, name: bytes) -> int:
        """Return how large an item of this queue may be, in bytes."""

    @property
    def logins(self) -> LoginPort:
        """The users of the slices."""

    def check_reload(self, done: Callable[[bytes], None]) -> None:
        """Check whether the router would refuse the configuration now, and say so: with a line that
        is an error, or with nothing."""

    def reload_beside(self) -> None:
        """Read the configuration again, as each slice does now."""

    def shutdown(self, why: str) -> None:
        """End the process and its slices; raise ClientError if clients may not do that."""


_UNTIL_END: Final = Awaited(until_end=True)
_OURS: Final = Awaited(is_ours=True)


class RoutedConversation:
    """One client. The shell takes what is in `sent` and `out`, and calls `heard` and `run`."""

    __slots__ = (
        "_answers_anyway", "_asking", "_awaited", "_begun", "_collected", "_ends_barred", "_host",
        "_is_inside", "_is_quiet", "_is_reload", "_is_skipping", "_is_unsure", "_next",
        "_opened_last", "_parser", "_passing", "_race", "_raw", "_readers", "_seat", "_wire",
        "at_end", "closing", "login", "opened", "out", "paused", "sent", "slice",
    )  # fmt: skip

    def __init__(
        self, host: RouterHost, peer: str = "unix", wake: Callable[[], None] = lambda: None,
        needs_login: bool = True, wire: RoutedWire = ROUTED_MEMCACHE,
    ) -> None:  # fmt: skip
        """`wake` is called when a login is over: then `run`, and take what is there. Without
        `needs_login` the client may do everything, as on a Unix socket."""
        self._host, self._wire = host, wire
        users = host.logins if needs_login else None
        self.login = RoutedLogin(users, peer, self._reply, wake, wire.name)
        self._parser = wire.requests(self._limit_of, host.lines)
        self._raw = bytearray()  # taken in, and not yet a whole request
        self._is_skipping = False  # True while a body is dropped that is too large
        self._begun: Store | Mail | None = None  # its body waits for the answers of `slice`
        self._passing = 0  # the slice to which a body goes as it comes; 0: none does, or _LOST
        self._ends_barred = False  # True if a barrier follows that body
        self._readers: dict[int, Answers] = {}
        self._awaited: deque[Awaited] = deque()  # from `slice`
        self._is_inside = False  # True if a part of the present answer has come
        self._is_unsure = False  # True if the last request to `slice` has no answer
        self._next: tuple[Command, bytes] | None = None  # waits for the answers of `slice`
        self._asking: Asking | None = None  # the request of several slices under way
        self._race: AskAtOnce | None = None  # its wait in several slices
        self._seat = SlicedSeat()
        self._is_quiet = False  # True if that one says noreply
        self._answers_anyway = False  # True if it answers with noreply as well
        self._is_reload = False  # True if that one reads the configuration again
        self._collected: list[bytes] = []  # of its present answer
        self.opened: set[int] = set()  # slices where the client may hold items
        self._opened_last = 0  # the last of them; 0: none
        self.slice = 0  # with which requests are under way, or were last; 0: none yet
        self.sent: list[tuple[int, bytes]] = []  # for the slices
        self.out: list[bytes] = []  # for the client
        self.closing = False
        self.paused = False  # True while the client does not read
        self.at_end = False  # True if the client sends no more

    @property
    def end_of_shutdown(self) -> bytes:
        """What the client hears when it has shut down the server; empty: nothing."""
        return self._wire.end_of_shutdown

    def _limit_of(self, name: bytes) -> int:
        if self.login.is_strange:
            return LOGIN_BYTES_MAX
        passes = self._wire.lets_pass and not self._host.sliced_queues.reads_bodies(name)
        return BODY_BYTES_ABSURD if passes else self._host.limit_of(name)

    def _reply(self, data: bytes) -> None:
        if data:
            self.out.append(data)

    # -- from the client --------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes in, and route the complete requests among them."""
        self._raw += data
        self._parser.feed(data)
        self.run()

    @property
    def ahead_bytes(self) -> int:
        """Bytes of requests that came from the client and went nowhere yet."""
        return len(self._raw)

    @property
    def held_bytes(self) -> int:
        """Bytes of requests, and of an answer of several slices, that went nowhere yet."""
        asking = self._asking
        collected = 0 if asking is None else sum(map(len, self._collected))
        return len(self._raw) + self._parser.held_bytes + collected

    @property
    def missing_bytes(self) -> int:
        """Bytes that may come of a body that is held; 0: none is."""
        is_held = self._parser.is_in_body and not (self._passing or self._parser.is_skipping)
        return self._parser.missing_bytes if is_held else 0

    @property
    def is_blocked(self) -> bool:
        """True if the next request must wait."""
        return (
            self.closing or self.paused or self._next is not None or self._asking is not None
            or self._begun is not None or self.login.stream is not None
            or len(self._awaited) >= UNDER_WAY_MAX
        )  # fmt: skip

    @property
    def is_waiting(self) -> bool:
        """True if a slice owes an answer."""
        return (
            bool(self._awaited) or self._next is not None or self._asking is not None
            or self.login.stream is not None
            or self._begun is not None
        )  # fmt: skip

    @property
    def is_in_body(self) -> bool:
        """True while a body is coming in."""
        return self._parser.is_in_body

    @property
    def is_owed(self) -> bool:
        """True if `slice` owes an answer."""
        return bool(self._awaited)

    def is_owed_by(self, slice_: int) -> bool:
        """True if this slice owes an answer."""
        if self._race is not None:
            return slice_ in self._race.open
        return slice_ == self.slice and (self.is_owed or self._passing > 0)

    def can_lose(self, slice_: int) -> bool:
        """True if the client has nothing in this slice that ends with the connection to it."""
        if self._seat.holds(slice_) or slice_ in self.opened:
            return False
        if self._race is not None and self._race.holds(slice_):
            return False
        is_under_way = self._race is None and slice_ == self.slice
        return not (is_under_way and (self.is_owed or self._is_unsure))

    def lose(self, slice_: int) -> None:
        """Go on without the connection to a slice, which can be lost."""
        self._readers.pop(slice_, None)
        if self._race is not None and slice_ in self._race.open:
            self._fail(slice_, ServerError(f"the connection to slice {slice_} broke"))

    @property
    def has_wait(self) -> bool:
        """True if an answer is owed that comes when there is an item."""
        return any(each.waits for each in self._awaited)

    @property
    def is_finished(self) -> bool:
        """True if the connection closes, or the client sends no more and has all answers."""
        return self.closing or (self.at_end and not self.is_waiting and not self.is_blocked)

    def run(self) -> None:
        """Route the requests that have come, until one has to wait."""
        if self.login.stream is not None and not self._log_in():
            return
        waiting, self._next = self._next, None
        if waiting is not None and not self._route(*waiting):
            return
        begun, self._begun = self._begun, None
        if begun is not None and not self._begin_to_pass(begun):
            return
        while self._raw and not self.is_blocked:
            command = self._parser.next()
            if command is None:
                self._take_part()
                return
            raw = self._part()
            if self._is_skipping:
                raw, self._is_skipping = b"", False
            if self._passing:
                self._end_pass(command, raw)
            elif not self._route(command, raw):
                return

    # -- a large body -----------------------------------------------------------------------

    def _take_part(self) -> None:
        """Take in a part of a request: a large body goes on, and one that is refused is dropped."""
        begun = self._parser.begun
        if self._passing:
            self._pass_part()
        elif isinstance(begun, Store | Mail) and _body_bytes(begun) > HELD_BODY_BYTES_MAX:
            self._begin_to_pass(begun)
        if self._parser.is_skipping and len(self._raw) > SKIPPED_BYTES_MAX:
            self._raw.clear()
            self._is_skipping = True

    def _pass_part(self) -> None:
        part = self._part()
        if part and self._passing > 0:
            self.sent.append((self._passing, part))

    def _part(self) -> bytes:
        """Take what has come of the present request."""
        end = max(len(self._raw) - self._parser.buffered, 0)
        part = bytes(self._raw[:end])
        del self._raw[:end]
        return part

    def drop_body(self, refusal: Refused) -> bool:
        """Drop a body that is held: it is refused at its end. Return whether there was one."""
        if self._passing or self._begun is not None or not self._parser.drop_body(refusal):
            return False
        self._part()
        self._is_skipping = True
        return True

    def _begin_to_pass(self, command: Store | Mail) -> bool:
        """Let a body go to its slice as it comes, unless the request takes several steps; False: it
        waits for what is under way."""
        if not self.login.passes(command):
            return True  # it is refused at its end
        try:
            slice_ = None if self._needs_body(command) else self._slice_of(command, b"")
            if slice_ is None:
                self._refuse_too_large(command)
                return True
        except Refused as refused:
            self.drop_body(refused)
            return True
        if not self._turn_to(slice_):
            self._begun = command
            return False
        self._parser.let_pass()
        self._passing, raw = slice_, self._part()
        awaited = self._wire.awaited(command)
        self._ends_barred = awaited is not None and awaited.barred
        if awaited is None:
            self.sent.append((slice_, raw))
            self._is_unsure = True
        else:
            self._await(raw, awaited)
        return True

    def _needs_body(self, command: Store | Mail) -> bool:
        """True if the body may say to which slice it goes."""
        line = command.line if isinstance(command, Store) else None
        queues = self._host.sliced_queues
        return line is not None and not line.key and queues.reads_bodies(line.target.name)

    def _refuse_too_large(self, command: Store | Mail) -> None:
        """Raise ServerError if a body that has to be held is too large for any queue."""
        if isinstance(command, Store):
            size, limit = command.line.size, self._host.limit_of(command.line.target.name)
            if size > limit:
                raise ServerError(f"item too large ({size} bytes, limit {limit})")

    def _end_pass(self, command: Command, raw: bytes) -> None:
        """Send the end of a body that went to its slice, which answers."""
        slice_, self._passing = self._passing, 0
        is_whole = not isinstance(command, Bad)
        if not is_whole:
            end = bytes(self._raw[:_LINE_END_BYTES])  # shows the slice that it is none
        else:
            end = _BARRIER if self._ends_barred else b""
        if slice_ > 0:
            self.sent.append((slice_, raw + end))
        if not is_whole:  # nobody knows where the next request begins
            self._raw.clear()
            self._parser.clear()
            self.at_end, self.closing = True, self.closing or slice_ == _LOST

    def _route(self, command: Command, raw: bytes) -> bool:
        """Send a request on, or answer it; False: it waits for what is under way."""
        if not self.login.passes(command):
            return self._answer_here(command, raw, None)
        try:
            slice_ = self._slice_of(command, raw)
        except Refused as refused:
            return self._answer_here(command, raw, refused)
        if slice_ is None:
            return self._answer_here(command, raw, None)
        if not self._turn_to(slice_):
            self._next = command, raw
            return False
        awaited = self._wire.awaited(command)
        if awaited is None:
            self.sent.append((slice_, raw))
            self._is_unsure = True
        else:
            self._await(raw + _BARRIER if awaited.barred else raw, awaited)
        if self._wire.opens(command):
            self.opened.add(slice_)
            self._opened_last = slice_
        return True

    def _turn_to(self, slice_: int) -> bool:
        """Let the next request go to this slice; False: it waits for what is under way in another.
        """
        if slice_ != self.slice and self.slice:
            if self._is_unsure:  # what has no answer comes before the other slice's request
                self._await(_BARRIER, _OURS)
            if self._awaited:
                return False
        self.slice = slice_
        return True

    def settle(self) -> None:
        """Await the effect of the last requests, which have no answer: the client sends no more.

        This comes before the slice hears of the end, for nothing can be sent to it after that.
        """
        self._end_race(is_over=True)
        if self._is_unsure and not self.is_blocked and not self._passing:
            self._await(_BARRIER, _OURS)

    def _log_in(self) -> bool:
        """Go on with a login, if there is one; False: it is being checked."""
        try:
            return self.login.go_on()
        except Refused as refused:
            self.out.append(self._error(refused))
            return True

    def _slice_of(self, command: Command, raw: bytes) -> int | None:
        """Return the slice of a request; None: there is not one alone. Raise ClientError."""
        if isinstance(command, Bad):  # a slice words the refusal, if it can be sent there
            return (self.slice or 1) if raw and not command.closes else None
        if isinstance(command, Mail):
            return command.number
        names = self._wire.queues_of(command)
        if names is None:
            return None
        if self._host.sliced_queues.has_any and self._is_sliced(command, names):
            return self._slice_of_sliced(command, names)
        if len(names) == 1:
            return self._holding(command, self._host.placement.slice_of(names[0]))
        slices = {self._host.placement.slice_of(name) for name in names}
        if len(slices) == 1:
            return self._holding(command, next(iter(slices)))
        if isinstance(command, Fetch):
            return None
        # A hand-off, a move: the slice of the source sends the item to the other one.
        is_handoff = isinstance(command, Store)
        return self._host.placement.slice_of(names[-1] if is_handoff else names[0])

    def _is_sliced(self, command: Command, names: Names) -> bool:
        """True if a request concerns a sliced queue, or ends a lease of one."""
        if any(map(self._host.sliced_queues.has, names)):
            return True
        handoff = command.line.handoff if isinstance(command, Store) else None
        return handoff is not None and not handoff.queue and self._seat.count > 0

    def _slice_of_sliced(self, command: Command, names: Names) -> int | None:
        """Return the slice of a set, or of items on the text port; None: it takes several steps.
        Raise ClientError."""
        if isinstance(command, Store) and not command.line.declares and not command.line.handoff:
            return slice_of_set(command, self._host.sliced_queues, self._seat)
        if self._wire.name != ROUTED_MEMCACHE.name:
            name = next(filter(self._host.sliced_queues.has, names)).decode("ascii", "replace")
            raise ClientError(f"queue {name} is sliced: it is reached by the memcache port")
        return None

    def _holding(self, command: Command, slice_: int) -> int:
        """Return the slice that has what a request confirms without naming it: there the client
        opened an item last. Else return `slice_`."""
        handoff = command.line.handoff if isinstance(command, Store) else None
        return self._opened_last if handoff and not handoff.queue and self._opened_last else slice_

    def _await(self, raw: bytes, awaited: Awaited) -> None:
        self.sent.append((self.slice, raw))
        self._awaited.append(awaited)
        self._is_unsure = False

    def _answer_here(self, command: Command, raw: bytes, refused: Refused | None) -> bool:
        """Answer a request that no slice alone can; False: it waits for what is under way."""
        if self._is_unsure:
            self._await(_BARRIER, _OURS)
        if self._awaited:
            self._next = command, raw
            return False
        try:
            if not self.login.admits(command):
                return self._log_in()
        except Refused as why:
            refused = why
        if refused is not None:
            self._refuse(command, self._error(refused))
        elif isinstance(command, Bad):
            self._refuse(command, self._wire.worded(command.line + b"\r\n"))
            self.closing = self.closing or command.closes
        elif isinstance(command, Plain) and command.verb in HERE:
            try:
                self._say(command, HERE[command.verb](self, self._host))
            except Refused as why:
                self._refuse(command, self._error(why))
        else:
            self._asking = self._steps_of(command, raw)
            self._is_quiet = command.noreply
            self._answers_anyway = isinstance(command, Plain) and not _is_quiet(command)
            self._is_reload = isinstance(command, Plain) and command.verb == b"reload"
            self._ask(None)
        return True

    def _steps_of(self, command: Command, raw: bytes) -> Asking:
        """Return the steps of a request that no slice can answer alone."""
        queues, names = self._host.sliced_queues, self._wire.queues_of(command) or []
        if isinstance(command, Fetch) and len(command.targets) > 1:
            return fetch_each(command, queues, self._seat)
        if self._is_sliced(command, names):
            return ask(command, raw, queues, self._seat)
        assert isinstance(command, Plain), "it goes to one slice"
        return merge(command, queues, self._host.counts)

    def _say(self, command: Plain, data: bytes) -> None:
        if data and not _is_quiet(command):
            self.out.append(self._wire.worded(data))

    def _error(self, refused: Refused) -> bytes:
        return self._wire.worded(refused.line() + b"\r\n")

    def _refuse(self, command: Command, line: bytes) -> None:
        """Answer with an error, in the words of the client's wire."""
        if command.noreply:
            self._host.counts.refused_noreply += not (isinstance(command, Bad) and command.log)
        else:
            self.out.append(line)

    def _ask(self, answer: bytes | None) -> None:
        """Go on with a request of several slices; `answer` is what the last one said."""
        asking = self._asking
        assert asking is not None
        try:
            step = next(asking) if answer is None else asking.send(answer)
            while isinstance(step, bytes):
                self._reply(step)
                step = next(asking)
        except StopIteration as end:
            self._asking = None
            if self._is_reload and not is_refusal(end.value.rstrip()):
                self._host.reload_beside()
            if not self._is_quiet or (self._answers_anyway and not is_refusal(end.value.rstrip())):
                self.out.append(end.value)
            return
        if isinstance(step, CheckHere):
            self._host.check_reload(self._note_check)
            return
        if isinstance(step, AskAtOnce):
            self._race = step
            self.sent += [(each, step.raw) for each in step.open]
            self._end_race(is_over=self.at_end)
            return
        self.slice = step.slice
        self._await(step.raw, _UNTIL_END if step.until_end else ONE)

    def _end_race(self, is_over: bool) -> None:
        """End the waits of those slices that wait in vain."""
        if self._race is not None:
            self.sent += [(each, _UNWAIT) for each in self._race.to_tell(is_over)]

    def _note_answer(self, slice_: int, piece: bytes, is_whole: bool) -> None:
        """Note a piece of what a slice answers to a wait in several; go on after the last one."""
        assert self._race is not None
        self._race.note(slice_, piece, is_whole)
        self._go_on_with_race(self._race)

    def _fail(self, slice_: int, error: ServerError) -> None:
        """Note that a slice answers no wait any more; go on, with the requests after it as well."""
        assert self._race is not None
        self._race.fail(slice_, self._error(error))
        self._go_on_with_race(self._race)
        self.run()

    def _go_on_with_race(self, race: AskAtOnce) -> None:
        self._end_race(is_over=False)
        if not race.open:
            self._race = None
            self._ask(b"")

    def _note_check(self, refused: bytes) -> None:
        """Go on with a reload that the router has checked."""
        if self._asking is not None:
            self._ask(refused)
            self.login.wake()

    # -- from the slices --------------------------------------------------------------------

    def heard(self, slice_: int, data: bytes) -> None:
        """Take in the bytes of a slice; the answers in them go to the client."""
        reader = self._readers.get(slice_)
        if reader is None:
            reader = self._readers[slice_] = self._wire.answers()
        reader.feed(data)
        try:
            self._hear_race(slice_, reader)
            while self._awaited and slice_ == self.slice and not reader.is_empty:
                awaited = self._awaited[0]
                piece, is_whole = reader.take(awaited.until_end)
                is_line = is_whole and not self._is_inside  # and not the end of a body
                self._is_inside = not is_whole and (self._is_inside or bool(piece))
                if is_line and piece == IDLE:  # it closed as a request was on its way
                    self.gone(slice_)
                    break
                if is_line and (awaited.is_ours or (awaited.barred and piece == _BARRIER_ANSWER)):
                    self._awaited.popleft()
                    continue
                if self._asking is not None:
                    self._collected.append(piece)
                elif piece:
                    self.out.append(piece)
                if not is_whole:
                    break
                if awaited.barred:
                    continue
                self._awaited.popleft()
                if self._asking is not None:
                    answer = b"".join(self._collected)
                    self._collected.clear()
                    self._ask(answer)
            else:
                is_asked = self._race is not None and slice_ in self._race.open
                if not (reader.is_empty or is_asked):  # a slice is about to hang up
                    self.gone(slice_)
        except Unreadable:
            self.gone(slice_)
        if self._raw or self._next is not None:
            self.run()

    def _hear_race(self, slice_: int, reader: Answers) -> None:
        """Take the answer of a slice to a wait in several; raise Unreadable."""
        race = self._race
        if race is None or slice_ not in race.open or reader.is_empty:
            return
        piece, is_whole = reader.take(False)
        if piece == IDLE:
            self.gone(slice_)
        else:
            self._note_answer(slice_, piece, is_whole)

    def unreachable(self, slice_: int, why: str) -> None:
        """Refuse what was sent to a slice that cannot be connected to: nothing has arrived there.
        """
        if self._race is not None and slice_ in self._race.open:
            self._fail(slice_, ServerError(f"slice {slice_} does not answer: {why}"))
            return
        if slice_ != self.slice:
            return  # nothing is under way there
        error = self._error(ServerError(f"slice {slice_} does not answer: {why}"))
        owed, self._is_unsure = list(self._awaited), False
        self._awaited.clear()
        if self._passing:
            self._passing = _LOST
        for awaited in owed:
            if self._asking is not None:
                self._ask(error)
            elif not (awaited.is_ours or awaited.hides_errors):
                self.out.append(error)
        self.run()

    def gone(self, slice_: int) -> None:
        """End, because the connection to a slice broke: its leases are gone, and a request on a new
        one would be answered as if they had never been."""
        if self._asking is not None and not self._is_quiet:  # items that came leave before it
            self._reply(self._error(ServerError(f"the connection to slice {slice_} broke")))
        self.closing = True
        self._awaited.clear()
        self._asking = self._next = self._begun = self._race = None


def _body_bytes(command: Store | Mail) -> int:
    """Return how many bytes the body of a request has."""
    return command.line.size if isinstance(command, Store) else command.size


def _is_quiet(command: Plain) -> bool:
    """True if a request has no answer, because it says noreply and that holds for its verb."""
    return command.noreply and command.verb not in ANSWERS_ANYWAY


def _version(talk: RoutedConversation, host: RouterHost) -> bytes:
    return f"VERSION {host.version}\r\n".encode()


def _barrier(talk: RoutedConversation, host: RouterHost) -> bytes:
    return _BARRIER_ANSWER


def _quit(talk: RoutedConversation, host: RouterHost) -> bytes:
    talk.closing = True
    return b""


def _shutdown(talk: RoutedConversation, host: RouterHost) -> bytes:
    host.shutdown("shutdown by a client")
    talk.closing = True
    return talk.end_of_shutdown


def _verbosity(talk: RoutedConversation, host: RouterHost) -> bytes:
    return b"OK\r\n"


def _for_slices(talk: RoutedConversation, host: RouterHost) -> bytes:
    return b"ERROR\r\n"  # routers alone say this, to slices


# The verbs that answer with noreply as well, if they are not refused.
ANSWERS_ANYWAY: Final = frozenset({b"mn", b"stats", b"dump_stats", b"dump_config"})
# The verbs that need no slice.
HERE: Final[dict[bytes, Callable[[RoutedConversation, RouterHost], bytes]]] = {
    b"version": _version, b"mn": _barrier, b"quit": _quit, b"shutdown": _shutdown,
    b"verbosity": _verbosity, b"client": _for_slices, b"mail": _for_slices,
    b"unwait": _for_slices,
}  # fmt: skip
