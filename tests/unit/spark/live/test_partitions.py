"""Reading servers by marker: each item once, in order, whatever breaks on the way.

Promise spark-live: connections cut at many bytes of an answer (a stand-in); the real daemon: kill
    and restart between plan and read; writes, rotation, reclaim meanwhile.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import partitions as live
from kestrelpy.spark.live.partitions import Slice
from kestrelpy.spark.options import Options, parse_options
from tests.unit.spark.stand_in import Line, StandIn


@pytest.fixture
def server() -> Iterator[StandIn]:
    with StandIn({"jobs": filled(100), "mail": filled(5)}) as made:
        yield made


def filled(count: int, size: int = 10) -> Line:
    line = Line()
    for number in range(1, count + 1):
        line.put(f"{number}".encode().ljust(size, b"."))
    return line


def options_for(server: StandIn | str, **more: str) -> Options:
    servers = server if isinstance(server, str) else str(server.address)
    quick = {"fetchRetryInterval": "1ms", "connectTimeout": "5s", "readTimeout": "5s"}
    return parse_options({"servers": servers, **quick, **more})


def read_all(slices: list[Slice], options: Options) -> dict[str, list[int]]:
    """The markers that were read of each queue, in order, within the slices."""
    found: dict[str, list[int]] = {}
    for part, values in live.read(slices, options):
        end = 0
        for line, length in zip(values.lines, values.lengths, strict=True):
            marker = int(line[4])
            body = values.bodies[end : (end := end + length)]
            if marker <= part.span.upto:
                assert int(body.rstrip(b".")) == marker
                found.setdefault(part.queue, []).append(marker)
    return found


def planned(options: Options) -> list[Slice]:
    return [each for partition in live.plan(options) for each in partition]


def test_every_item_of_every_queue_is_read_once_oldest_first(server: StandIn) -> None:
    options = options_for(server)

    assert read_all(planned(options), options) == {
        "jobs": list(range(1, 101)),
        "mail": list(range(1, 6)),
    }


def test_queues_are_chosen_by_names_and_globs(server: StandIn) -> None:
    server.queues["jobs.night"] = filled(3)

    assert [each.queue for each in planned(options_for(server, queues="jobs*"))] == [
        "jobs",
        "jobs.night",
    ]
    assert [each.queue for each in planned(options_for(server, queues="mail,jobs.?ight"))] == [
        "jobs.night",
        "mail",
    ]
    assert planned(options_for(server, queues="x*")) == []


def test_a_name_that_no_server_has_is_refused_with_the_nearest(server: StandIn) -> None:
    with pytest.raises(KestrelError) as caught:
        live.plan(options_for(server, queues="jbos,mail"))

    assert str(caught.value) == f"There is no queue jbos on {server.address}. Did you mean jobs?"


def test_markers_say_where_to_begin_and_where_to_end(server: StandIn) -> None:
    for name in (str(server.address), server.server_id):
        options = options_for(
            server,
            startingMarkers=f'{{"{name}": {{"jobs": 90, "mail": "latest"}}}}',
            endingMarkers=f'{{"{name}": {{"jobs": 95}}}}',
        )

        assert read_all(planned(options), options) == {"jobs": [91, 92, 93, 94, 95]}


def test_markers_older_than_the_oldest_item_begin_with_that_item(server: StandIn) -> None:
    for marker in range(1, 41):
        del server.queues["jobs"].items[marker]
    options = options_for(
        server, queues="jobs", startingMarkers=f'{{"{server.address}": {{"jobs": 7}}}}'
    )

    assert read_all(planned(options), options) == {"jobs": list(range(41, 101))}


def test_markers_of_a_server_that_is_not_read_are_refused(server: StandIn) -> None:
    near = f"{server.address}0"

    with pytest.raises(KestrelError) as caught:
        live.plan(options_for(server, startingMarkers=f'{{"{near}": {{"jobs": 7}}}}'))

    assert str(caught.value) == (
        f"Option startingMarkers names a server {near}, which is not among those that are read. "
        f"Did you mean {server.address}?"
    )


def test_gaps_left_by_consumers_are_skipped(server: StandIn) -> None:
    for marker in range(2, 100):
        del server.queues["jobs"].items[marker]
    options = options_for(server, queues="jobs", minPartitions="4")

    assert read_all(planned(options), options) == {"jobs": [1, 100]}


def test_items_put_after_the_plan_belong_to_the_next_read(server: StandIn) -> None:
    options = options_for(server, queues="mail")
    slices = planned(options)
    server.queues["mail"].put(b"6")

    assert read_all(slices, options) == {"mail": [1, 2, 3, 4, 5]}


def test_partitions_are_ranges_that_follow_each_other(server: StandIn) -> None:
    options = options_for(server, queues="jobs", minPartitions="4")

    partitions = live.plan(options)

    assert [[(each.span.after, each.span.upto) for each in p] for p in partitions] == [
        [(0, 25)],
        [(25, 50)],
        [(50, 75)],
        [(75, 100)],
    ]
    markers = [marker for each in partitions for marker in read_all(each, options)["jobs"]]
    assert markers == list(range(1, 101))


def test_a_small_queue_shares_its_partition_and_its_connection(server: StandIn) -> None:
    for number in range(50):
        server.queues[f"small{number}"] = filled(2)
    options = options_for(server)

    (partition,) = live.plan(options)
    server.requests.clear()
    found = read_all(partition, options)

    assert len(found) == 52
    assert server.requests.count("stats") == 1
    assert server.requests.count("stats markers") == 2


def test_a_lost_connection_goes_on_behind_the_last_marker(server: StandIn) -> None:
    server.answer_bytes_max = 200  # a few items to an answer
    broken: list[str] = []

    def cut(request: str) -> int | None:
        """Hang up once in each answer, each time a little later."""
        if request.startswith("gets") and request not in broken:
            broken.append(request)
            return 7 * len(broken)
        return None

    server.cut = cut
    options = options_for(server, queues="jobs")

    assert read_all(planned(options), options) == {"jobs": list(range(1, 101))}
    assert len(broken) > 10


@pytest.mark.parametrize("end", range(0, 420, 7))
def test_an_answer_cut_anywhere_is_asked_for_again(server: StandIn, end: int) -> None:
    server.cut = lambda request: end if server.requests.count(request) == 1 else None
    options = options_for(server, queues="mail")

    assert read_all(planned(options), options) == {"mail": [1, 2, 3, 4, 5]}


def test_a_body_may_look_like_the_protocol(server: StandIn) -> None:
    bodies = [b"END\r\n", b"\r\n", b"", b"VALUE jobs 0 5 1\r\nEND\r\n", b"\xff" * 3_000_000, b"\r"]
    line = server.queues["odd"] = Line()
    for body in bodies:
        line.put(body)
    server.answer_bytes_max = 10 << 20
    options = options_for(server, queues="odd")

    found = []
    for _, values in live.read(planned(options), options):
        end = 0
        for length in values.lengths:
            found.append(values.bodies[end : (end := end + length)])

    assert found == bodies


def test_a_server_out_of_reach_is_named_with_the_remedy(server: StandIn) -> None:
    address = free_address()

    with pytest.raises(KestrelError) as caught:
        live.plan(options_for(f"{server.address},{address}"))

    assert str(caught.value) == (
        f"The server {address} cannot be reached: Connection refused. Start it, correct the "
        "option servers, or say skipUnreachable=true to read the others."
    )


def test_a_server_out_of_reach_is_skipped_if_the_option_says_so(
    server: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    address = free_address()
    options = options_for(f"{address},{server.address}", skipUnreachable="true", queues="mail")

    with caplog.at_level(logging.WARNING, "kestrelpy.spark"):
        assert read_all(planned(options), options) == {"mail": [1, 2, 3, 4, 5]}

    assert f"The server {address} cannot be reached" in caplog.text
    assert "are skipped" in caplog.text


def test_a_server_that_goes_away_meanwhile_is_an_error_or_skipped(
    server: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    server.cut = lambda request: 20 if request.startswith("gets jobs") else None
    slices = planned(options_for(server))

    with pytest.raises(KestrelError, match="cannot be reached: it hung up"):
        read_all(slices, options_for(server))
    assert read_all(slices, options_for(server, skipUnreachable="true")) == {}
    assert "are skipped (skipUnreachable=true)" in caplog.text


def test_retries_are_counted_anew_when_something_was_read(server: StandIn) -> None:
    server.answer_bytes_max = 200
    server.cut = lambda request: (
        0 if request.startswith("gets") and server.requests.count(request) < 3 else None
    )
    options = options_for(server, queues="jobs", fetchRetries="2")

    assert read_all(planned(options), options) == {"jobs": list(range(1, 101))}
    server.cut = lambda request: 0 if request.startswith("gets") else None
    server.requests.clear()
    with pytest.raises(KestrelError, match="cannot be reached"):
        read_all(planned(options), options)
    assert sum(request.startswith("gets") for request in server.requests) == 3


def test_a_server_that_says_nothing_is_not_waited_for_longer_than_was_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(KestrelError, match="no answer in time"):
            live.plan(options_for(address, readTimeout="20ms", fetchRetries="1"))


@pytest.mark.parametrize("what", ["deleted", "deleted and made anew"])
def test_a_queue_of_another_generation_is_an_error_or_a_warning(
    server: StandIn, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    slices = planned(options_for(server))
    if what == "deleted":
        del server.queues["jobs"]
    else:
        server.queues["jobs"] = filled(200)
        server.queues["jobs"].generation = 2

    with pytest.raises(KestrelError) as caught:
        read_all(slices, options_for(server))
    assert str(caught.value) == (
        f"The queue jobs of {server.address} was {what} since the read was planned, and what was "
        "not read of its markers 1 to 100 is gone. Plan again: load() once more; or say "
        "failOnDataLoss=false."
    )
    assert read_all(slices, options_for(server, failOnDataLoss="false")) == {
        "mail": [1, 2, 3, 4, 5]
    }
    assert what in caplog.text


def test_a_queue_made_anew_while_it_is_read_is_noticed(server: StandIn) -> None:
    def meanwhile(request: str) -> None:
        if request.startswith("gets jobs/peek/after=0"):
            server.queues["jobs"].generation = 2

    server.cut = meanwhile
    options = options_for(server, queues="jobs")

    with pytest.raises(KestrelError, match="deleted and made anew"):
        read_all(planned(options), options)


def test_another_server_under_the_same_address_is_an_error(server: StandIn) -> None:
    options = options_for(server)
    slices = planned(options)
    server.server_id = "0ther"

    with pytest.raises(KestrelError, match="is another one now: its id is 0ther, and was 5e12"):
        read_all(slices, options)


def test_a_refusal_is_passed_on_with_the_server_it_came_from(server: StandIn) -> None:
    server.refusals["gets jobs"] = b"SERVER_ERROR quiescent: this server hands out nothing now"
    options = options_for(server)

    with pytest.raises(KestrelError) as caught:
        read_all(planned(options), options)

    assert str(caught.value) == (
        f"The server {server.address} refused: quiescent: this server hands out nothing now."
    )


def test_another_server_is_said_to_be_no_kestrelpy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(KestrelError) as caught:
            live.plan(options_for(address))

    assert str(caught.value) == (
        f"The server {address} answers 'HTTP/1.1 400 Bad Request', which is not what kestrelpy "
        "says. Is it one of this version?"
    )


def free_address() -> str:
    """An address without a server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"
