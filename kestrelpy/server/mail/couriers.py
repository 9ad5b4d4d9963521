"""The connections from one slice to the others, over the router: letters go out, answers come in.

    connect ──▶ MailBegin ──▶ MailBegun: the peer is open ──▶ letters, originals that are gone
       ▲                                                   │
       └──────────── a pause ◀──── the connection breaks ◀─┘

One rule: after a broken connection the peer says first what it has; nothing is sent twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Protocol, cast

from journal.format import Origin
from kestrelpy.core import Peer, RemoteTransfer, RemoteTransfers
from kestrelpy.protocol import (
    MailBegin,
    MailBegun,
    MailGone,
    MailHeard,
    MailReply,
    MailRequest,
    MailSend,
    MailSent,
    reply_of,
    request_bytes,
)
from kestrelpy.server import clock

PAUSE_SECONDS: Final = 0.2  # after a broken connection; the router itself waits for a slice
LIST_SECONDS: Final = 1.0  # until a peer is asked again for origins whose originals may be there
GONE_MAX: Final = 1000  # originals in one message
_VALUE: Final = b"VA "
_LINE_BYTES_MAX: Final = 1024


class Turns(Protocol):
    """The turns of the server. `may_answer` is asked before anything is sent; None: no other
    process can own the data."""

    may_answer: Callable[[], bool] | None

    def schedule(self) -> None:
        """Run a turn soon."""

    def touch_all(self, callers: Collection[object]) -> None:
        """Let these callers go on in the next turn."""


class Couriers:
    """All connections of one slice to the others."""

    def __init__(
        self, remote: RemoteTransfers, turns: Turns, path: str, others: Iterable[int]
    ) -> None:
        """`path` is the socket of the router for its slices, `others` the numbers of the others."""
        self._remote, self._turns, self._path = remote, turns, path
        self._links: dict[int, Link] = {}
        self._tasks: list[asyncio.Task[None]] = []
        for number in others:
            remote.peers[number] = Peer(number)

    def start(self, server: bytes) -> None:
        """Connect to each peer, again and again until `close`; `server` is the id of this one."""
        for peer in self._remote.peers.values():
            self._tasks.append(asyncio.get_running_loop().create_task(self._live(peer, server)))

    def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        for link in self._links.values():
            link.abort()

    def send(self) -> None:
        """MailSend what waits for the peers that are open."""
        for link in self._links.values():
            link.send()

    async def _live(self, peer: Peer, server: bytes) -> None:
        """Connect to one peer; connect again when the connection breaks."""
        loop = asyncio.get_running_loop()
        while True:
            link = self._links[peer.number] = Link(self._remote, self._turns, peer, server)
            peer.is_connecting = True
            try:
                await loop.create_unix_connection(link.here, self._path)
            except OSError as error:
                self._closed(peer, error.strerror or str(error))
            else:
                while not await link.wait(LIST_SECONDS):
                    if peer.must_list:
                        link.begin()
                self._closed(peer, link.why)
            await asyncio.sleep(PAUSE_SECONDS)

    def _closed(self, peer: Peer, why: str) -> None:
        self._turns.touch_all(self._remote.closed(peer, why, clock.now_ms()))
        self._turns.schedule()


class Link(asyncio.Protocol):
    """One connection to one peer. `why` says why it ended."""

    __slots__ = (
        "_awaited", "_data", "_ended", "_now", "_peer", "_permit", "_remote", "_server",
        "_transport", "_turns", "why",
    )  # fmt: skip

    def __init__(
        self, remote: RemoteTransfers, turns: Turns, peer: Peer, server: bytes,
        now: Callable[[], int] = clock.now_ms,
    ) -> None:  # fmt: skip
        """`server` is the id of this side's server, `now` its clock."""
        self._remote, self._turns, self._peer, self._server = remote, turns, peer, server
        self._now = now
        self._transport: asyncio.Transport | None = None
        self._permit = 0  # 0: it has not begun, or begins again
        self._awaited: deque[RemoteTransfer | list[Origin] | None] = deque()  # None: MailBegun
        self._data = b""
        self._ended = asyncio.Event()
        self.why = "the connection broke"

    def here(self) -> Link:
        """Return it, as the protocol of its connection."""
        return self

    async def wait(self, seconds: float) -> bool:
        """Return whether the connection has ended, after this time at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        self._transport = cast(asyncio.Transport, transport)
        self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._permit = 0
        self._ended.set()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def begin(self) -> None:
        """Ask for a permit, and for what is open there."""
        self._permit = 0
        may_send = self._turns.may_answer
        if may_send is not None and not may_send():
            self.abort()
            return
        self._ask(MailBegin(self._server), None)

    def send(self) -> None:
        """MailSend what waits for the peer."""
        peer = self._peer
        may_send = self._turns.may_answer
        if not self._permit or not peer.is_open or (may_send is not None and not may_send()):
            return
        letters, peer.letters = peer.letters, []
        for transfer in letters:
            assert transfer.letter is not None
            self._ask(MailSend(self._permit, transfer.letter), transfer)
        gone, peer.gone = peer.gone, []
        for some in _some(gone):
            self._ask(MailGone(some), some)

    def _ask(self, request: MailRequest, awaited: RemoteTransfer | list[Origin] | None) -> None:
        if self._transport is not None:
            self._awaited.append(awaited)
            self._transport.write(request_bytes(self._peer.number, request))

    def data_received(self, data: bytes) -> None:
        self._data += data
        try:
            for reply in self._replies():
                self._take(reply)
        except ValueError as error:
            said = str(error).removeprefix("SERVER_ERROR ")
            self.why = said.removeprefix(f"slice {self._peer.number} does not answer: ")
            self.abort()
        self.send()
        self._turns.schedule()

    def _replies(self) -> Iterator[MailReply]:
        """Yield the answers that have come; raise ValueError for anything else."""
        while (end := self._data.find(b"\n") + 1) or len(self._data) > _LINE_BYTES_MAX:
            words = self._data[:end].split()
            if not self._data.startswith(_VALUE) or len(words) < 2 or not words[1].isdigit():
                raise ValueError(self._data[: end or 80].decode("ascii", "replace").strip())
            size = int(words[1])
            if len(self._data) < end + size + 2:
                return
            body, self._data = self._data[end : end + size], self._data[end + size + 2 :]
            yield reply_of(body)

    def _take(self, reply: MailReply) -> None:
        """Take in an answer; raise ValueError if it answers nothing."""
        peer, now_ms = self._peer, self._now()
        awaited = self._awaited.popleft() if self._awaited else []
        if isinstance(reply, MailBegun) and awaited is None:
            self._permit = reply.permit
            waiting = self._remote.opened(peer, reply.server, reply.arrivals, now_ms)
            self._turns.touch_all(waiting)
        elif isinstance(reply, MailSent) and isinstance(awaited, RemoteTransfer):
            self._remote.answered(peer, awaited, reply.answer(), now_ms)
        elif isinstance(reply, MailHeard) and isinstance(awaited, list):
            self._remote.told(peer, awaited)
        else:
            raise ValueError("an answer to another question")


def _some(origins: list[Origin]) -> Iterator[list[Origin]]:
    for at in range(0, len(origins), GONE_MAX):
        yield origins[at : at + GONE_MAX]
