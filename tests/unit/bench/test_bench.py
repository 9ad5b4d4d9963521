"""The bench measures what it says: the generator does exactly what was asked, ratios are ratios.

The one rule: nothing here is timed. Daemons that are not installed are skipped with their reason.
"""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench import disk, loadgen, peers, plots, report
from bench.__main__ import chosen
from bench.grid import CONSUME, LINES, SET, Cell, Goal, Line, Mode, Shape, goals
from bench.loadgen import Load, LoadFailed, Result
from bench.servers import (
    BEANSTALKD,
    ECHO,
    KESTRELPY,
    MEMCACHED,
    REDIS,
    DebianServer,
    Running,
    Server,
    ServerFailed,
    started,
)

TINY = Mode("tiny", rounds=2, seconds=0.02, warm_up_seconds=0.01)


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loadgen.build(tmp_path_factory.mktemp("out"))


def installed(server: Server) -> Server:
    missing = server.missing()
    if missing:
        pytest.skip(missing)
    return server


def result(ops_per_s: float, requests_per_op: int = 1) -> Result:
    return Result(
        ops=int(ops_per_s),
        requests=int(ops_per_s) * requests_per_op,
        seconds=1.0,
        ops_per_s=ops_per_s,
        p50_us=1.0,
        p99_us=2.0,
        bytes=100,
        empty=0,
        generator_busy=0.5,
        errors=0,
    )


def line(job: str, connections: int = 50, in_flight: int = 1) -> Line:
    shape = Shape(connections, in_flight)
    return next(x for x in LINES if x.job == job and x.cell == Cell(shape, 100))


# ---- the generator --------------------------------------------------------------------------


def test_exactly_as_many_items_are_stored_as_were_asked_for(binary: Path, tmp_path: Path) -> None:
    with started(installed(MEMCACHED), tmp_path) as port:
        load = Load("memcache-set", port, connections=7, in_flight=3, body_bytes=100, ops=1003)
        found = loadgen.run(binary, load)

    assert (found.ops, found.requests, found.errors) == (1003, 1003, 0)
    assert found.p50_us <= found.p99_us
    head = len("set bench 0 0 100\r\n")
    assert found.bytes == 1003 * (head + 100 + len("\r\n") + len("STORED\r\n"))


def test_the_echo_answers_what_was_set_last_however_it_was_cut(
    binary: Path, tmp_path: Path
) -> None:
    with started(ECHO, tmp_path) as port:
        load = Load("memcache-set", port, connections=7, in_flight=3, body_bytes=5000, ops=1003)
        assert loadgen.run(binary, load).ops == 1003
        read = loadgen.run(binary, replace(load, dialect="memcache-get"))
    assert (read.ops, read.empty) == (1003, 0)


def test_a_spread_load_has_a_queue_for_each_connection(binary: Path, tmp_path: Path) -> None:
    with started(installed(MEMCACHED), tmp_path) as port:
        loadgen.run(binary, Load("memcache-spread", port, connections=12, ops=200, queue="q"))
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(b"".join(b"get q%05d\r\n" % n for n in range(13)) + b"quit\r\n")
            said = b"".join(iter(lambda: line.recv(1 << 16), b""))

    assert [b"VALUE q%05d " % n in said for n in range(13)] == [True] * 12 + [False]


def test_on_a_slow_disk_a_sync_ends_when_its_time_is_over(tmp_path: Path) -> None:
    shim = disk.build(tmp_path)
    code = (
        "import os, sys, time; began = time.monotonic(); os.fdatasync(1); "
        "sys.exit(time.monotonic() - began < 0.05)"
    )
    extra = {"LD_PRELOAD": str(shim), "SLOW_SYNC_US": "50000"}
    with (tmp_path / "out").open("wb") as out:
        ran = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | extra, stdout=out, check=False
        )
    assert ran.returncode == 0


def test_the_processor_time_is_that_of_the_whole_process() -> None:
    before = os.times()
    found = Running(0, os.getpid()).processor_s()
    after = os.times()

    tick_s = 0.02  # the kernel counts in such steps
    assert before.user - tick_s <= found[0] <= after.user + tick_s
    assert before.system - tick_s <= found[1] <= after.system + tick_s


def test_the_cost_of_an_item_is_its_share_of_the_processor_time() -> None:
    measured = replace(result(1000), user_s=0.002, system_s=0.003)
    run = peers.Run({(line(SET), "redis"): {0: measured, 1: result(1000), 2: measured}})

    assert report.markdown(run, {}, []).count("2.0 + 3.0") == 1


def test_an_error_reply_ends_the_run_with_its_text(binary: Path, tmp_path: Path) -> None:
    with started(installed(MEMCACHED), tmp_path) as port:
        with pytest.raises(LoadFailed, match="SERVER_ERROR object too large"):
            loadgen.run(binary, Load("memcache-set", port, ops=1, body_bytes=2 << 20))
        with pytest.raises(LoadFailed, match='answered "ERROR" instead of a list\'s length'):
            loadgen.run(binary, Load("redis-push", port, ops=1))


@pytest.mark.parametrize("server", [KESTRELPY, REDIS, BEANSTALKD], ids=lambda s: str(s.name))
@pytest.mark.parametrize("in_flight", [1, 4])
def test_what_was_stored_is_consumed_once_and_then_the_queue_is_empty(
    server: Server, in_flight: int, binary: Path, tmp_path: Path
) -> None:
    with started(installed(server), tmp_path) as port:
        load = Load(server.store, port, connections=5, in_flight=in_flight, ops=203)
        stored = loadgen.run(binary, load)
        consumed = loadgen.run(binary, replace(load, dialect=server.consume))
        after = loadgen.run(binary, replace(load, dialect=server.consume))

    assert (stored.ops, consumed.ops, consumed.empty) == (203, 203, 0)
    assert (after.ops, after.empty > 0) == (0, True)


def test_a_body_of_another_run_is_not_taken_for_ours(binary: Path, tmp_path: Path) -> None:
    with started(installed(REDIS), tmp_path) as port:
        loadgen.run(binary, Load("redis-push", port, ops=1, seed=1))
        with pytest.raises(LoadFailed, match="never stored in this run"):
            loadgen.run(binary, Load("redis-consume", port, ops=1, seed=2))


def test_an_item_that_comes_twice_ends_the_run(binary: Path, tmp_path: Path) -> None:
    with started(installed(REDIS), tmp_path) as port:
        for _ in range(2):
            loadgen.run(binary, Load("redis-push", port, ops=1))
        with pytest.raises(LoadFailed, match="item 0 was delivered twice"):
            loadgen.run(binary, Load("redis-consume", port, ops=2))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Load("memcache-set", 1), "say how long"),
        (Load("memcache-sit", 1, ops=1), "unknown dialect"),
        (Load("memcache-set", 1, ops=1, connections=0), "--connections takes a number from 1"),
        (Load("memcache-set", 1, ops=1, queue="a b"), "--queue takes"),
        (Load("memcache-set", 1, ops=1), "cannot connect"),
        (Load("amqp-put", 1, ops=1, in_flight=2), "amqp takes one item in flight"),
        (Load("amqp-consume", 1, seconds=1), "amqp-consume takes --ops"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_reason(wrong: Load, said: str, binary: Path) -> None:
    with pytest.raises(LoadFailed, match=said):
        loadgen.run(binary, wrong)


class FakeServer(threading.Thread):
    """Serves one connection after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.items: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self.socket.accept()[0] as client, client.makefile("rwb") as stream:
                    self._serve(stream)

    def _serve(self, stream: Any) -> None:
        raise NotImplementedError


class FakeNats(FakeServer):
    """A server of NATS with one stream; it sends PING as well."""

    def __init__(self, stored: bytes = b'{"stream":"bench","seq":7}') -> None:
        super().__init__()
        self.stored = stored
        self.acks: list[bytes] = []
        self.start()

    def _serve(self, lines: Any) -> None:
        lines.write(b"INFO " + b"x" * 2000 + b"\r\n")
        lines.flush()
        for line in lines:
            words = line.split()
            if words[0] == b"PING":
                lines.write(b"PONG\r\nINFO {}\r\nPING\r\n")
            elif words[0] == b"PUB":
                body = lines.read(int(words[-1]) + 2)[:-2]
                lines.write(self._answer(words[1], words[2], body))
            lines.flush()

    def _answer(self, subject: bytes, inbox: bytes, body: bytes) -> bytes:
        if subject == b"bench":
            self.items.append(body)
            return b"MSG %s 1 %d\r\n%s\r\n" % (inbox, len(self.stored), self.stored)
        if subject.startswith(b"$JS.ACK"):
            self.acks.append(subject + b" " + body)
            return b"MSG %s 1 0\r\n\r\n" % inbox
        assert subject == b"$JS.API.CONSUMER.MSG.NEXT.bench.bench"
        if not self.items:
            return b"HMSG %s 1 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n" % inbox
        item = self.items.pop(0)
        return b"MSG bench 1 $JS.ACK.%d %d\r\n%s\r\n" % (len(self.items), len(item), item)


def test_what_nats_stored_is_fetched_and_confirmed_once(binary: Path) -> None:
    server = FakeNats()
    load = Load("nats-put", server.port, ops=5)
    stored = loadgen.run(binary, load)
    consumed = loadgen.run(binary, replace(load, dialect="nats-consume", ops=9))

    assert (stored.ops, consumed.ops, consumed.requests, consumed.empty) == (5, 5, 11, 1)
    assert server.acks == [b"$JS.ACK.%d +ACK" % left for left in (4, 3, 2, 1, 0)]
    server.socket.close()


def test_what_nats_did_not_store_ends_the_run(binary: Path) -> None:
    server = FakeNats(b'{"error":{"code":503}}')
    with pytest.raises(LoadFailed, match="its number in the stream"):
        loadgen.run(binary, Load("nats-put", server.port, ops=5))
    server.socket.close()


ANSWERS = {
    (10, 11): (10, 30), (10, 40): (10, 41), (10, 50): (10, 51), (20, 10): (20, 11),
    (50, 10): (50, 11), (60, 10): (60, 11), (85, 10): (85, 11),
}  # fmt: skip


class FakeAmqp(FakeServer):
    """A server of AMQP with one queue."""

    def __init__(self, confirm: tuple[int, int] = (60, 80)) -> None:
        super().__init__()
        self.confirm = confirm
        self.queues: list[bytes] = []
        self.acks: list[int] = []
        self.start()

    def _serve(self, line: Any) -> None:
        assert line.read(8) == b"AMQP\0\0\x09\x01"
        tag = 0
        line.write(self._method(10, 10))
        line.flush()
        for kind, body in iter(lambda: self._frame(line), (0, b"")):
            number = struct.unpack(">HH", body[:4]) if kind == 1 else (0, 0)
            if kind == 3:
                self.items.append(body)
                tag += 1
                line.write(self._method(*self.confirm, struct.pack(">QB", tag, 0)))
            elif number == (60, 80):
                self.acks.append(struct.unpack(">Q", body[4:12])[0])
            elif number == (50, 10):
                self.queues.append(body[6:])
            if number in ((60, 20), (60, 80)) and self.items:
                tag += 1
                line.write(self._item(tag, self.items.pop(0)))
            if number in ANSWERS:
                line.write(self._method(*ANSWERS[number]))
            line.flush()

    @staticmethod
    def _frame(line: Any) -> tuple[int, bytes]:
        head = line.read(7)
        if not head:
            return 0, b""
        kind, _, size = struct.unpack(">BHI", head)
        body = line.read(size + 1)
        assert body.endswith(b"\xce")
        return kind, body[:-1]

    @staticmethod
    def _framed(kind: int, body: bytes) -> bytes:
        return struct.pack(">BHI", kind, 1, len(body)) + body + b"\xce"

    @classmethod
    def _method(cls, kind: int, number: int, words: bytes = b"") -> bytes:
        return cls._framed(1, struct.pack(">HH", kind, number) + words)

    @classmethod
    def _item(cls, tag: int, body: bytes) -> bytes:
        words = b"\4name" + struct.pack(">QB", tag, 0) + b"\0\5bench"
        header = struct.pack(">HHQHB", 60, 0, len(body), 1 << 12, 2)
        return cls._method(60, 60, words) + cls._framed(2, header) + cls._framed(3, body)


def test_what_a_quorum_queue_confirmed_is_fetched_and_acknowledged_once(binary: Path) -> None:
    server = FakeAmqp()
    load = Load("amqp-put", server.port, ops=5)
    stored = loadgen.run(binary, load)
    consumed = loadgen.run(binary, replace(load, dialect="amqp-consume"))

    assert (stored.ops, consumed.ops, consumed.requests) == (5, 5, 10)
    assert server.acks == [1, 2, 3, 4, 5]
    assert server.queues[0].startswith(b"\5bench\2")
    assert b"x-queue-typeS\0\0\0\6quorum" in server.queues[0]
    server.socket.close()


def test_what_a_quorum_queue_refused_ends_the_run(binary: Path) -> None:
    server = FakeAmqp((60, 120))
    with pytest.raises(LoadFailed, match="instead of a confirm"):
        loadgen.run(binary, Load("amqp-put", server.port, ops=5))
    server.socket.close()


# ---- servers and turns ----------------------------------------------------------------------


def test_a_missing_daemon_is_named_with_its_package() -> None:
    absent = DebianServer("x", "no-such-daemon", "no-such-package", "", "", "", "")

    assert absent.missing() == (
        "no-such-daemon is not installed (Debian package no-such-package); left out."
    )
    servers, _ = chosen("redis", python=sys.executable)
    assert {s.name for s in servers} <= {"redis"}


def test_a_daemon_that_ends_at_once_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    broken = DebianServer("broken", "sh", "dash", "", "", "", "-c exit")

    said = "broken ended at once with code 0: it said nothing"
    with pytest.raises(ServerFailed, match=said), started(broken, tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_port_of_kestrelpy_is_read_once_it_is_ready() -> None:
    starting = "memcache 127.0.0.1:40123\nhttp 127.0.0.1:40124\n"

    assert KESTRELPY.listening(0, starting) is None
    assert KESTRELPY.listening(0, starting + "ready /data, 0 queues\n") == 40123


def test_servers_have_their_turns_in_every_round(binary: Path, tmp_path: Path) -> None:
    servers = [installed(REDIS), installed(MEMCACHED)]
    cell, said = Cell(Shape(2, 1), 100), list[str]()

    found = peers.run(binary, servers, TINY, parent=tmp_path, say=said.append, cells=[cell])

    assert found.failures == []
    order = [text.split("] ")[1].split(",")[0] for text in said]
    assert order == ["redis", "memcached", "memcached", "redis"]
    assert sorted(found.of(Line(SET, cell), "redis")) == [0, 1]
    assert sorted(found.of(Line(CONSUME, cell), "memcached")) == [0, 1]


# ---- arithmetic -----------------------------------------------------------------------------


def test_a_ratio_is_taken_within_a_round_and_then_the_median() -> None:
    ours = {0: result(100), 1: result(30), 2: result(80)}
    theirs = {0: result(50), 1: result(10), 2: result(80), 3: result(1)}

    assert report.ratio(ours, theirs) == report.Spread(median=2.0, low=1.0, high=3.0)
    assert report.ratio(ours, {3: result(1)}) is None
    assert report.spread([1, 2, 3, 10]) == report.Spread(2.5, 1, 10)


def test_each_goal_is_reached_failed_or_not_measured() -> None:
    goal, compiled = Goal("redis", 0.6), Goal("redis", 0.9, "compiled")

    assert report.verdict(goal, report.Spread(0.6, 0.1, 0.9)) == "≥ 0.6 redis: reached"
    assert report.verdict(goal, report.Spread(0.59, 0.5, 0.9)) == "≥ 0.6 redis: NOT reached"
    assert report.verdict(compiled, None) == "compiled ≥ 0.9 redis: not measured"


def test_the_goals_are_those_of_the_issue() -> None:
    pure, compiled = Goal("redis", 0.55), Goal("redis", 0.95, "compiled")

    assert goals(line(SET, 50)) == (pure, compiled, Goal("beanstalkd", 3.0))
    assert goals(line(SET, 50, 16)) == (pure, Goal("redis", 1.3, "compiled"))
    assert goals(line(CONSUME, 200)) == (Goal("redis", 1.5, "compiled"),)
    assert {goals(x) for x in LINES if x.cell.body_bytes != 100} == {()}


def test_headroom_counts_requests_not_items() -> None:
    run, where = peers.Run(), line(CONSUME)
    run.figures[where, "memcached"] = {0: result(400)}
    run.figures[where, "kestrelpy"] = {0: result(150)}
    run.figures[where, "redis"] = {0: result(100, requests_per_op=2)}

    assert report.headroom(run, where) == 2.0
    assert report.near_the_ceiling(run) == "It is not: the smallest is 2.0."
    run.figures[where, "kestrelpy"] = {0: result(390)}
    assert report.near_the_ceiling(run).startswith("On 1 of 1 lines it is below 1.2")
    assert report.near_the_ceiling(peers.Run()) == "It was not measured."


def test_the_report_has_every_line_and_says_what_was_left_out() -> None:
    run = peers.Run(failures=["redis, 1 × 1: it fell over"])
    run.figures[line(SET), "kestrelpy"] = {0: result(90_000), 1: result(60_000)}
    run.figures[line(SET), "redis"] = {0: result(100_000), 1: result(100_000)}

    text = report.markdown(run, {"disk": "ext4"}, ["beanstalkd is not installed."])

    assert (
        "| durable set | 100 B | 50 | 1 | **0.75** (0.60–0.90) | – | ≥ 0.55 redis: reached" in text
    )
    assert "Goals: 1 reached, 0 NOT reached, 9 not measured." in text
    assert "- **Note**: beanstalkd is not installed.\n" in text
    assert "- **Note**: redis, 1 × 1: it fell over\n" in text
    assert text.count("| reliable consume | 1024 B |") == 12  # four shapes, three tables
    lines = report.as_json(run, {}, [])["lines"]
    assert isinstance(lines, list)
    assert len(lines) == len(LINES) == 16


# ---- pictures -------------------------------------------------------------------------------


def test_a_picture_has_a_curve_for_each_server_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, curves = peers.Run(), list[str]()
    for connections in (1, 50):
        for server, rate in (("kestrelpy", 1000.0), ("redis", 2000.0)):
            run.figures[line(SET, connections), server] = {0: result(rate), 1: result(rate * 3)}
    plot = Axes.plot

    def noted(axes: Axes, xs: list[int], ys: list[float], *args: Any, **words: Any) -> object:
        curves.append(f"{words['label']} {xs} {ys}")
        return plot(axes, xs, ys, *args, **words)

    monkeypatch.setattr(Axes, "plot", noted)
    throughput, latency = plots.of_peers(run, "a test", tmp_path)

    assert curves[:2] == ["kestrelpy [1, 50] [2000.0, 2000.0]", "redis [1, 50] [4000.0, 4000.0]"]
    assert [curve.partition(" [")[0] for curve in curves[2:]] == [
        "kestrelpy p50", "kestrelpy p99", "redis p50", "redis p99",
    ]  # fmt: skip
    for picture in (throughput, latency):
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_growth_of_a_backlog_is_a_picture(tmp_path: Path) -> None:
    steps = [plots.Step(10 * n, 1000.0 - n, float(n), 1.5) for n in range(1, 4)]
    assert plots.of_growth(steps, "a test", tmp_path).read_bytes().startswith(b"\x89PNG")
