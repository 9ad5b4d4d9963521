"""The life of a process: it owns its directory and its port, reloads all or nothing, drains."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import pytest

from kestrelpy.compiled import KIND
from kestrelpy.config import Config
from kestrelpy.protocol import MEMCACHE
from kestrelpy.server import clock
from kestrelpy.server.daemon import Daemon, StartError
from tests.support.disks import HeldDisk
from tests.support.running import Peer, Running, running


async def test_a_second_daemon_on_the_directory_does_not_start(tmp_path: Path) -> None:
    async with running(tmp_path):
        with pytest.raises(StartError, match="another kestrelpy is using this data directory"):
            await Running(tmp_path).start()


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with running(tmp_path) as server:
        other = Running(tmp_path / "other")
        load = other._load
        port = server.port
        other._load = lambda: load().model_copy(
            update={"server": load().server.model_copy(update={"port": port})}
        )
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port}: Address already"):
            await other.start()
        await running_again(tmp_path / "other")


async def running_again(folder: Path) -> None:
    """A start that failed has left nothing locked."""
    async with running(folder) as server:
        assert "ready" in server.lines[-1]


async def test_reload_takes_all_of_a_good_configuration(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        server.config_file.write_text("[queue_defaults]\nmax_items = 1\n")
        assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
        assert await peer.ask(b"set jobs 0 0 1\r\nb\r\n") == b"NOT_STORED\r\n"


async def test_reload_takes_nothing_of_a_bad_configuration(tmp_path: Path) -> None:
    async with running(tmp_path, config="[queue_defaults]\nmax_items = 1\n") as server:
        peer = await server.client()
        server.config_file.write_text("[queue_defaults]\nmax_items = 2\nlaese = '5s'\n")
        answer = await peer.ask(b"reload\r\n")
        assert answer.startswith(b"SERVER_ERROR configuration not reloaded: "), answer
        assert b"laese" in answer and b"lease" in answer
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        assert await peer.ask(b"set jobs 0 0 1\r\nb\r\n") == b"NOT_STORED\r\n"


async def test_reload_changes_key_settings_only_where_a_queue_is_empty(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        await peer.ask(b"set jobs/key=A,B 0 0 1\r\na\r\n")
        server.config_file.write_text('[queue_defaults]\nmax_items = 1\nkey_match = "any"\n')
        assert await peer.ask(b"reload\r\n") == (
            b"SERVER_ERROR configuration not reloaded: queue jobs: key settings cannot change "
            b"while it holds items: they can when it is empty.\r\n"
        )
        assert await peer.ask(b"set jobs 0 0 1\r\nb\r\n") == b"STORED\r\n", "nothing of it counts"
        for body in (b"a", b"b"):
            answer = b"VALUE jobs 0 1\r\n%b\r\nEND\r\n" % body
            peer.writer.write(b"get jobs\r\n")
            assert await peer.reader.readexactly(len(answer)) == answer
        assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"


async def test_one_connection_too_many_gets_an_error(tmp_path: Path) -> None:
    async with running(tmp_path, config="[server]\nmax_connections = 2\n") as server:
        kept = [await server.client() for _ in range(2)]
        for peer in kept:
            await peer.ask(b"version\r\n")
        third = await server.client()
        assert await third.line() == b"SERVER_ERROR too many connections\r\n"
        assert await third.closed()
        kept[0].writer.close()
        while server.daemon is None or server.daemon.broker.counters.connections > 1:
            await asyncio.sleep(0.002)
        again = await server.client()
        assert (await again.ask(b"version\r\n")).startswith(b"VERSION")


class ShortDisk(HeldDisk):
    """Reads no segment: there are no descriptors."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if path.endswith(".segment") and self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return super().read(path, offset, size)


async def test_a_start_without_descriptors_is_tried_for_a_while_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journal.patience.PAUSE_SECONDS", 0)
    async with running(tmp_path) as server:
        await (await server.client()).ask(b"set jobs 0 0 1\r\na\r\n")
    with pytest.raises(StartError, match="Too many open files, and no start without it") as caught:
        await Running(tmp_path, ShortDisk(1 << 20)).start()
    assert "\n" not in str(caught.value)
    async with running(tmp_path, ShortDisk(5)) as server:
        peer = await server.client()
        assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 0 1\r\n"


class SlowRead(HeldDisk):
    """Reads its segments while `reads` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.asked = threading.Event(), threading.Event()

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        if path.endswith(".segment"):
            self.asked.set()
            self.reads.wait(30)
        return super().read(path, offset, size)


async def test_a_daemon_told_to_end_reads_its_local_disk_to_the_end_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.daemon.SILENT_CLOSE_SECONDS", 0.01)
    async with running(tmp_path) as server:
        await (await server.client()).ask(b"set jobs 0 0 1\r\na\r\n")
    disk = SlowRead()
    slow = Running(tmp_path, disk)
    daemon = slow.made()
    ended = asyncio.create_task(daemon.run())
    while not disk.asked.is_set():
        await asyncio.sleep(0.002)
    daemon.shutdown("SIGTERM")
    await asyncio.sleep(0.05)
    assert not ended.done()
    disk.reads.set()
    await asyncio.wait_for(ended, 20)
    async with running(tmp_path) as server:
        assert await (await server.client()).ask(b"get jobs\r\n") == b"VALUE jobs 0 1\r\n"


async def test_an_idle_connection_is_closed_but_not_one_that_waits_or_holds(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, config='[server]\nidle_timeout = "100ms"\n') as server:
        idle, waiting, holding, slow = [await server.client() for _ in range(4)]
        await holding.ask(b"set jobs 0 0 1\r\na\r\n")
        await holding.ask(b"get jobs/open\r\n")
        waiting.writer.write(b"get mail/t=20s\r\n")
        slow.writer.write(b"set ma")  # never a whole request
        await idle.ask(b"version\r\n")
        assert await idle.closed()
        assert await slow.closed()
        await holding.line()
        await holding.line()
        assert await holding.ask(b"get jobs/close\r\n") == b"END\r\n"
        other = await server.client()
        await other.ask(b"set mail 0 0 1\r\nm\r\n")
        assert await waiting.line() == b"VALUE mail/t=20s 0 1\r\n"


async def test_a_stop_answers_the_requests_in_flight(tmp_path: Path) -> None:
    disk = HeldDisk()
    server = await Running(tmp_path, disk).start()
    assert server.daemon is not None
    peer = await server.client()
    await peer.ask(b"set jobs 0 0 1\r\na\r\n")
    disk.go.clear()
    peer.writer.write(b"set jobs 0 0 1\r\nb\r\n")
    while server.daemon.broker.queues[b"jobs"].total_items < 2:
        await asyncio.sleep(0.002)
    stopping = asyncio.create_task(server.daemon.stop())
    await asyncio.sleep(0)
    disk.go.set()
    assert await peer.line() == b"STORED\r\n"
    await stopping
    assert await peer.closed()


async def test_a_client_that_comes_while_the_server_stops_is_let_go_without_a_word(
    tmp_path: Path,
) -> None:
    disk = HeldDisk()
    server = await Running(tmp_path, disk).start()
    daemon = server.daemon
    assert daemon is not None
    peer = await server.client()
    disk.go.clear()
    peer.writer.write(b"set jobs 0 0 1\r\na\r\n")
    while not daemon.broker.queues:
        await asyncio.sleep(0.002)
    stopping = asyncio.create_task(daemon.stop())
    await asyncio.sleep(0)
    late = Mock(get_extra_info=Mock(return_value=None))
    daemon._new_connection(MEMCACHE).connection_made(late)
    assert late.close.called
    assert not late.write.called
    disk.go.set()
    assert await peer.line() == b"STORED\r\n"
    await stopping


async def test_a_unix_socket_is_served_and_a_left_over_one_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    config = f'[server]\nsocket = "{path}"\n'
    for _ in range(2):
        server = await Running(tmp_path, config=config).start()
        assert server.daemon is not None
        peer = Peer(*await asyncio.open_unix_connection(str(path)))
        assert (await peer.ask(b"version\r\n")).startswith(b"VERSION")
        path.rename(tmp_path / "kept")
        await server.daemon.stop()
        (tmp_path / "kept").rename(path)  # as a kill would have left it


async def test_a_unix_socket_of_another_process_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "k.sock"
    config = f'[server]\nsocket = "{path}"\n'
    (tmp_path / "other").mkdir()
    async with running(tmp_path, config=config):
        reason = f"cannot listen on {path}: another process answers there"
        with pytest.raises(StartError, match=reason):
            await Running(tmp_path / "other", config=config).start()
        peer = Peer(*await asyncio.open_unix_connection(str(path)))
        assert (await peer.ask(b"version\r\n")).startswith(b"VERSION")


async def test_a_stop_removes_the_socket_that_it_listened_on_and_no_other(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.sock", tmp_path / "other.sock"
    (tmp_path / "other").mkdir()
    async with running(tmp_path / "other", config=f'[server]\nsocket = "{other}"\n'):
        async with running(tmp_path, config=f'[server]\nsocket = "{ours}"\n') as server:
            server.config_file.write_text(f'[server]\nsocket = "{other}"\n')
            peer = await server.client()
            assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
        assert not ours.exists()
        assert other.is_socket()


async def test_a_reload_names_the_settings_that_need_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "kestrelpy")
    async with running(tmp_path) as server:
        peer = await server.client()
        for text, named in (
            ('[server]\nsocket = "s"\n', "[server] socket"),
            (
                '[server]\nhost = "::1"\n[journal]\nbatch_max = "1MiB"\n',
                "[server] host, [journal] batch_max",
            ),
        ):
            server.config_file.write_text(text)
            assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
            assert caplog.messages[-1] == f"{named}: applied at the next start, not by a reload"
            assert server.daemon is not None
            (action,) = server.daemon.actions.newest(1)
            assert action.note == f"nothing has changed; {caplog.messages[-1]}"
        server.config_file.write_text("")
        later_ms = clock.now_ms() + 1000
        monkeypatch.setattr(clock, "now_ms", lambda: later_ms)
        assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
        assert caplog.messages[-1].startswith("configuration reloaded")


async def test_a_client_that_switches_to_and_fro_fills_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    async with running(tmp_path) as server:
        now_ms = clock.now_ms()
        monkeypatch.setattr(clock, "now_ms", lambda: now_ms)
        peer = await server.client()
        for _ in range(50):
            for word in (b"readonly", b"readonly", b"up"):
                assert await peer.ask(b"status %b\r\n" % word) == b"END\r\n"
            assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
        now_ms += 1000
        assert await peer.ask(b"status quiescent\r\n") == b"END\r\n"
    said = [r.message for r in caplog.records if r.message.startswith(("status", "configuration"))]
    assert said == [
        "status readonly", "configuration reloaded",
        "status quiescent (99 more like it were not logged)",
    ]  # fmt: skip


async def test_a_page_of_connections_has_the_oldest_that_follow_and_no_more_than_asked(
    tmp_path: Path
) -> None:
    async with running(tmp_path) as server:
        daemon = server.daemon
        assert daemon is not None
        peers = [await server.client() for _ in range(3)]
        for peer in peers:
            assert (await peer.ask(b"version\r\n")).startswith(b"VERSION")
        first, second, third = sorted(each.number for each in daemon._connections)

        def shown(after: int, most: int) -> list[int]:
            return [each.id for each in daemon.connection_facts(after, most, clock.now_ms())]

        assert shown(0, 2) == [first, second]
        assert shown(first, 1) == [second]
        assert shown(second, 2) == [third]


@pytest.mark.parametrize("count", [1, 3])
async def test_the_first_line_counts_queues_and_items_and_times_a_sync(
    tmp_path: Path, count: int
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        for n in range(count):
            assert await peer.ask(b"set jobs 0 0 1\r\n%d\r\n" % n) == b"STORED\r\n"
    async with running(tmp_path) as server:
        [ready] = [line for line in server.lines if line.startswith("ready: ")]
        assert f" 1 queues, {count} items, " in ready
        assert ready.endswith(f" ms, {KIND}")


async def test_a_reload_says_how_many_connections_there_may_be(tmp_path: Path) -> None:
    async with running(tmp_path, config="[server]\nmax_connections = 1\n") as server:
        first = await server.client()
        assert (await first.ask(b"version\r\n")).startswith(b"VERSION")
        second = await server.client()
        assert await second.line() == b"SERVER_ERROR too many connections\r\n"

        server.config_file.write_text("[server]\nmax_connections = 2\n")
        assert await first.ask(b"reload\r\n") == b"Reloaded config.\r\n"

        third, fourth = await server.client(), await server.client()
        assert (await third.ask(b"version\r\n")).startswith(b"VERSION")
        assert await fourth.line() == b"SERVER_ERROR too many connections\r\n"


async def test_a_client_that_reads_nothing_is_cut_off_when_the_drain_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.daemon.DRAIN_SECONDS", 0.05)
    async with running(tmp_path) as server:
        deaf = await server.client()
        await deaf.ask(b"set jobs 0 0 4000000\r\n" + bytes(4_000_000) + b"\r\n")
        deaf.writer.write(b"get jobs/peek\r\n" * 100)
        await deaf.reader.readexactly(1)
        cast(asyncio.Transport, deaf.writer.transport).pause_reading()
        daemon = server.daemon
        assert daemon is not None
        await daemon.stop()
        assert not daemon._connections, "its transport was aborted"


async def test_a_reload_whose_files_do_not_answer_ends_and_a_later_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.reloading.READ_SECONDS", 0.05)
    gate = threading.Event()
    async with running(tmp_path) as server:
        daemon = server.daemon
        assert daemon is not None
        peer, load = await server.client(), daemon._load

        def dead_mount() -> Config:
            gate.wait(30)
            return load()

        daemon._load = dead_mount
        for _ in range(2):
            answer = await peer.ask(b"reload\r\n")
            assert answer.startswith(b"SERVER_ERROR configuration not reloaded: "), answer
            assert b"could not be read within" in answer
        monkeypatch.setattr("kestrelpy.server.reloading.READ_SECONDS", 10.0)
        daemon._load = load
        assert await peer.ask(b"reload\r\n") == b"Reloaded config.\r\n"
        gate.set()  # what comes late changes nothing
        assert await peer.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"


@pytest.mark.parametrize("is_asked", [True, False])
async def test_only_an_end_that_nobody_asked_for_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_asked: bool
) -> None:
    caplog.set_level("INFO", "kestrelpy")
    server = Running(tmp_path)
    server.daemon = Daemon(server._load(), server._load, server.lines.append)
    running_ = asyncio.ensure_future(server.daemon.run())
    while not any(line.startswith("ready: ") for line in server.lines):
        await asyncio.sleep(0.001)
    if is_asked:
        server.daemon._end_by("SIGTERM")
        await running_
    else:
        running_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_
    (ended,) = [each for each in caplog.records if each.getMessage().startswith("stopped: ")]
    assert ended.levelname == ("INFO" if is_asked else "WARNING")
    assert ended.getMessage().startswith("stopped: SIGTERM" if is_asked else "stopped: a bug")
