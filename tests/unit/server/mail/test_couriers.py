"""The connection of a slice to another one: what comes in is an answer, or the end of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast

import pytest

from journal.format import Origin
from kestrelpy.core import Peer, RemoteTransfer
from kestrelpy.protocol import MailBegun, MailHeard, MailSent
from kestrelpy.protocol.mail import reply_bytes
from kestrelpy.server.mail import couriers
from kestrelpy.server.mail.couriers import GONE_MAX, Couriers, Link

BEGUN = reply_bytes(MailBegun(b"there", 7, []))
HEARD = reply_bytes(MailHeard())


class Remote:
    """Stands for the transfers: it notes what it is told."""

    def __init__(self) -> None:
        self.peers: dict[int, Peer] = {}
        self.said = list[Any]()
        self.has_said = asyncio.Event()

    def _note(self, said: Any) -> None:
        self.said.append(said)
        self.has_said.set()

    def opened(self, peer: Peer, server: bytes, arrivals: list[Any], now_ms: int) -> list[object]:
        peer.is_open = True
        self._note(("opened", server))
        return []

    def answered(
        self, peer: Peer, transfer: RemoteTransfer, answer: object, now_ms: int
    ) -> None:
        self._note("answered")

    def told(self, peer: Peer, origins: list[Origin]) -> None:
        self._note(("told", len(origins)))

    def closed(self, peer: Peer, why: str, now_ms: int) -> list[object]:
        peer.is_open = peer.is_connecting = False
        self._note(("closed", why))
        return []


class Turns:
    """Stands for the turns of the server."""

    may_answer: Callable[[], bool] | None = None

    def schedule(self) -> None:
        pass

    def touch_all(self, callers: Collection[object]) -> None:
        pass


class Wire:
    """Stands for the transport."""

    def __init__(self) -> None:
        self.sent = list[bytes]()
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def abort(self) -> None:
        self.is_aborted = True


class Stage:
    """A connection to slice 2 that has asked its first question, unless it may not answer."""

    def __init__(self, may_answer: bool = True) -> None:
        self.remote, self.turns, self.wire, self.peer = Remote(), Turns(), Wire(), Peer(2)
        self.may_answer = may_answer
        self.turns.may_answer = lambda: self.may_answer
        self.link = Link(cast(Any, self.remote), self.turns, self.peer, b"here", lambda: 5)
        self.link.connection_made(cast(Any, self.wire))

    def hear(self, data: bytes) -> None:
        self.link.data_received(data)


async def test_an_answer_may_come_byte_by_byte_and_several_at_once() -> None:
    stage = Stage()
    stage.peer.gone = [Origin(b"", b"", 0, n) for n in range(2 * GONE_MAX + 1)]
    for at in range(len(BEGUN)):
        assert stage.remote.said == []
        stage.hear(BEGUN[at : at + 1])
    assert stage.remote.said == [("opened", b"there")]
    assert (len(stage.wire.sent), stage.peer.gone) == (4, [])
    stage.hear(HEARD * 2 + HEARD[:-1])
    stage.hear(HEARD[-1:])
    assert stage.remote.said[1:] == [("told", GONE_MAX), ("told", GONE_MAX), ("told", 1)]
    assert not stage.wire.is_aborted


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SERVER_ERROR slice 2 does not answer: gone\r\n", "gone"),
        (b"SERVER_ERROR too many\r\n", "too many"), (b"HD 4\r\nx", "HD 4"),
        (BEGUN + b"HD 4\r\n", "HD 4"),
        (b"HD 4 x\r\n", "HD 4 x"), (b"VA\r\n", "VA"), (b"VA \r\n", "VA"),
        (b"VA x\r\n", "VA x"), (b"VA -1\r\n", "VA -1"), (b"x" * 1025, "x" * 80),
        (HEARD, "an answer to another question"), (BEGUN + BEGUN, "an answer to another question"),
    ],
)  # fmt: skip
async def test_all_else_ends_the_connection_and_says_why(data: bytes, why: str) -> None:
    stage = Stage()
    stage.hear(data)
    assert (stage.link.why, stage.wire.is_aborted) == (why, True)


@pytest.mark.parametrize("reply", [BEGUN, reply_bytes(MailSent()), HEARD])
@pytest.mark.parametrize("asked", ["what there is", "a letter", "what is gone"])
async def test_an_answer_to_another_question_ends_the_connection(asked: str, reply: bytes) -> None:
    answers = {"what there is": BEGUN, "a letter": reply_bytes(MailSent()), "what is gone": HEARD}
    stage = Stage()
    stage.link._awaited.clear()
    transfer = object.__new__(RemoteTransfer)
    stage.link._awaited.append(
        {"what there is": None, "a letter": transfer, "what is gone": list[Origin]()}[asked]
    )
    stage.hear(reply)
    assert stage.wire.is_aborted == (reply != answers[asked])


async def test_a_line_that_is_not_over_is_waited_for_up_to_a_bound() -> None:
    stage = Stage()
    stage.hear(b"x" * 1024)
    assert not stage.wire.is_aborted


async def test_nothing_is_sent_before_the_other_has_said_what_it_has() -> None:
    stage = Stage()
    stage.peer.gone = [Origin(b"", b"", 0, 1)]
    stage.peer.is_open = True
    stage.link.send()
    assert len(stage.wire.sent) == 1
    stage.hear(BEGUN)
    assert len(stage.wire.sent) == 2
    stage.hear(HEARD)
    stage.link.begin()  # it is asked again
    stage.peer.gone = [Origin(b"", b"", 0, 2)]
    stage.link.send()
    assert len(stage.wire.sent) == 3
    stage.hear(BEGUN)
    assert len(stage.wire.sent) == 4


async def test_one_that_may_not_answer_sends_nothing() -> None:
    stage = Stage(may_answer=False)
    assert (stage.wire.sent, stage.wire.is_aborted) == ([], True)
    stage = Stage()
    stage.peer.gone = [Origin(b"", b"", 0, 1)]
    stage.may_answer = False
    stage.hear(BEGUN)
    assert len(stage.wire.sent) == 1
    stage.may_answer = True
    stage.peer.is_open = False
    stage.link.send()
    assert len(stage.wire.sent) == 1


async def test_a_connection_that_broke_sends_nothing_more() -> None:
    stage = Stage()
    stage.hear(BEGUN)
    stage.link.connection_lost(None)
    stage.peer.gone = [Origin(b"", b"", 0, 1)]
    stage.link.send()
    stage.link.begin()
    stage.link.abort()
    assert (len(stage.wire.sent), stage.wire.is_aborted) == (1, False)
    assert stage.peer.gone, "it is told once the slice is there again"
    assert await stage.link.wait(0)
    assert not await Stage().link.wait(0)


async def test_connections_are_made_again_and_asked_again_until_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(couriers, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(couriers, "LIST_SECONDS", 0)
    path, remote = str(tmp_path / "mail"), Remote()
    made = Couriers(cast(Any, remote), Turns(), path, [2])
    made.start(b"here")
    while not remote.said:
        await remote.has_said.wait()
    assert remote.said[0] == ("closed", "No such file or directory")

    connected = asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
    server = await asyncio.start_unix_server(lambda *both: connected.put_nowait(both), path)
    reader, writer = await connected.get()
    await reader.readline()
    peer = remote.peers[2]
    assert peer.is_connecting
    remote.said.clear()
    remote.has_said.clear()
    writer.write(BEGUN)
    await remote.has_said.wait()
    assert remote.said == [("opened", b"there")]
    assert (await reader.read(1000)).count(b"\r\n") == 1, "the rest of the first question"
    peer.must_list = True
    assert await reader.readline()
    peer.must_list = False
    remote.said.clear()
    remote.has_said.clear()
    writer.close()
    await remote.has_said.wait()
    assert remote.said == [("closed", "the connection broke")]
    reader, writer = await connected.get()
    await reader.readline()
    made.close()
    assert await reader.read() is not None
    writer.close()
    server.close()
    assert not made._tasks


async def test_a_socket_that_cannot_be_named_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = Remote()
    made = Couriers(cast(Any, remote), Turns(), "/" + "x" * 200, [2])
    made.start(b"here")
    await remote.has_said.wait()
    made.close()
    assert remote.said == [("closed", "AF_UNIX path too long")]
