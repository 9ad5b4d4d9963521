"""A router without sockets, before one server or before several slices.

    client ──▶ RoutedConversation ──▶ a conversation of the server ──▶ back

What a client sees of it must be what it sees of one server alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kestrelpy.core import KeySettings
from kestrelpy.errors import ClientError
from kestrelpy.placement import Placement
from kestrelpy.protocol.parse.parser import Lines
from kestrelpy.protocol.routing.merging import RouterCounts
from kestrelpy.protocol.routing.routed import RoutedConversation
from kestrelpy.protocol.routing.sliced_queues import SlicedQueues
from kestrelpy.protocol.wire import routed_wire, wire_named
from tests.support.server_harness import Client, ServerHarness


class RoutedTalk:
    """Stands in for the conversation of a client: its input goes through a router first."""

    def __init__(self, server: RoutedHarness, upstream: Any) -> None:
        wire = routed_wire(wire_named(upstream.wire.name))
        self.routed = RoutedConversation(server, wire=wire)
        self.upstream = upstream
        self.is_fed = False  # True if it has more to do with the input from the router

    def __getattr__(self, name: str) -> Any:
        return getattr(self.upstream, name)

    def feed(self, data: bytes, now_ms: int) -> None:
        self.routed.feed(data)
        self._pass_on(now_ms)

    @property
    def has_more(self) -> bool:
        return self.is_fed or self.upstream.has_more

    def go_on(self, now_ms: int) -> None:
        self.is_fed = False
        if self.upstream.has_more:
            self.upstream.go_on(now_ms)

    def output(self) -> bytes:
        self.routed.heard(1, self.upstream.output())
        self._pass_on(self.upstream.last_command_ms)
        out, self.routed.out = b"".join(self.routed.out), []
        return out

    @property
    def paused(self) -> bool:
        return self.routed.paused

    @paused.setter
    def paused(self, value: bool) -> None:
        self.routed.paused = value

    @property
    def is_finished(self) -> bool:
        if self.upstream.is_finished:
            self.routed.gone(1)
        return self.routed.closing and not self.upstream.has_more

    def note_eof(self) -> None:
        self.upstream.note_eof()

    def hang_up(self, now_ms: int) -> None:
        self.upstream.hang_up(now_ms)

    def _pass_on(self, now_ms: int) -> None:
        sent, self.routed.sent = self.routed.sent, []
        for _, raw in sent:
            self.upstream.feed(raw, now_ms)
            self.is_fed = True


class NoUsers:
    """Everybody may do everything."""

    are_needed = False


class NoneSliced:
    """A router whose queues are each in one slice, unless a test names them in `sliced`."""

    placement: Placement
    open_reads_max = 1

    def __init__(self) -> None:
        self.sliced: dict[bytes, KeySettings] = {}
        self.own: list[int] | None = None  # None: all
        self.unknown: set[int] = set()  # slices that no member serves
        self.members: dict[int, str] = {}  # the owners of slices; none: there is no fleet
        self.sliced_queues = SlicedQueues(self)

    def keys_of(self, name: bytes) -> KeySettings | None:
        return self.sliced.get(name.partition(b"+")[0])

    @property
    def has_sliced(self) -> bool:
        return bool(self.sliced)

    def own_slices(self) -> list[int]:
        return [*range(1, self.placement.slices + 1)] if self.own is None else self.own

    def member_of(self, number: int) -> str | None:
        return self.members.get(number)

    def foreign_slices(self) -> list[int]:
        own, gone = self.own_slices(), self.unknown
        return [n for n in range(1, self.placement.slices + 1) if n not in own and n not in gone]


class RoutedHarness(NoneSliced, ServerHarness):
    """A server harness that is also the host of the router, and its one slice."""

    placement = Placement(1)
    logins: Any = NoUsers()

    def __init__(self) -> None:
        self.counts = RouterCounts()
        NoneSliced.__init__(self)
        ServerHarness.__init__(self)

    def limit_of(self, name: bytes) -> int:
        return self.config.queue(name).max_item_bytes

    def check_reload(self, done: Callable[[bytes], None]) -> None:
        done(b"")

    def reload_beside(self) -> None:
        pass

    def shutdown(self, why: str) -> None:
        if not self.config.server.allow_shutdown:
            raise ClientError("shutdown is not allowed on this server (allow_shutdown)")
        super().shutdown(why)

    def client(self, name: str) -> Client:
        client = super().client(name)
        if not isinstance(client.conversation, RoutedTalk):
            client.conversation = RoutedTalk(self, client.conversation)  # type: ignore[assignment]  # stands in for it
        return client


class SlicedHarness(NoneSliced):
    """A router and its slices, each a server of its own."""

    version = ServerHarness.version
    logins: Any = NoUsers()

    def __init__(self, slices: int) -> None:
        self.placement = Placement(slices)
        super().__init__()
        self.lines: Lines = {}
        self.counts = RouterCounts()
        self.slices = {number: ServerHarness() for number in range(1, slices + 1)}
        for number, each in self.slices.items():
            each.broker.tokens.lowest_of = partial(self._lowest_token, number)
        self.talks: dict[str, RoutedConversation] = {}
        self.asked: list[tuple[int, bytes]] = []  # what went to the slices, in its order
        self.on_text: set[str] = set()  # clients of these names come by the text port
        self.away: dict[int, str] = {}  # slices that cannot be connected to, and why

    def _lowest_token(self, number: int, name: bytes) -> int:
        return self.placement.first_token(name, number)

    def limit_of(self, name: bytes) -> int:
        return 1 << 20

    def check_reload(self, done: Callable[[bytes], None]) -> None:
        done(b"")

    def reload_beside(self) -> None:
        pass

    def shutdown(self, why: str) -> None:
        raise ClientError("no")

    def talk(self, name: str) -> RoutedConversation:
        """Return the connection of that name, a new one if there is none."""
        if name not in self.talks:
            wire = routed_wire(wire_named("text" if name in self.on_text else "memcache"))
            self.talks[name] = RoutedConversation(self, wire=wire)
        return self.talks[name]

    def say(self, name: str, data: bytes) -> bytes:
        """Send bytes; return all that comes back."""
        talk = self.talk(name)
        talk.feed(data)
        self.work(name)
        out, talk.out = b"".join(talk.out), []
        return out

    def work(self, name: str) -> None:
        """Carry bytes between the router and the slices until none are left."""
        talk = self.talk(name)
        while True:
            sent, talk.sent = talk.sent, []
            self.asked += sent
            for number, raw in sent:
                if number in self.away:
                    talk.unreachable(number, self.away[number])
                else:
                    self._introduce(name, self.slices[number])
                    self.slices[number].send(name, raw)
            heard = [
                (number, answer) for number, server in self.slices.items()
                if name in server.clients and (answer := server.client(name).take())
            ]  # fmt: skip
            for number, answer in heard:
                talk.heard(number, answer)
            if not (sent or heard or talk.sent):
                return

    def _introduce(self, name: str, slice_: ServerHarness) -> None:
        """Say to a slice whose connection it is, unless it knows."""
        if name not in slice_.clients:
            slice_.client(name).conversation.is_routed = True
            slice_.send(name, self.talks[name].login.introduction)
