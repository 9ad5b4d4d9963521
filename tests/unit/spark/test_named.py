"""A read names each option value that does not exist, in batches and streams."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import partitions as live
from kestrelpy.spark.options import parse_options
from kestrelpy.spark.streaming.live_queues import LiveQueues
from kestrelpy.spark.streaming.position import BatchLimits
from tests.unit.spark.stand_in import Line, StandIn


@pytest.fixture
def server() -> Iterator[StandIn]:
    jobs, mail = Line(), Line()
    for number in range(20):
        jobs.put(b"%d" % number)
    mail.put(b"x")
    with StandIn({"jobs": jobs, "mail": mail, "jobs+audit": jobs}) as one:
        one.retains = 1  # else a stream needs a cursor
        yield one


def batch(server: StandIn, **options: str) -> list[tuple[str, int, int]]:
    given = {"servers": str(server.address), "fetchRetries": "0", **options}
    slices = live.plan(parse_options(given, streams=False))
    return [(part.queue, part.span.after, part.span.upto) for each in slices for part in each]


def stream(server: StandIn, **options: str) -> list[tuple[str, int, int]]:
    given = {"servers": str(server.address), "fetchRetries": "0", "consume": "none", **options}
    queries = LiveQueues(parse_options(given, streams=True))
    end = queries.advance(queries.begin(), BatchLimits())
    return [(part.queue, part.after, part.upto) for each in end.slices for part in each]


Read = Callable[..., list[tuple[str, int, int]]]
READS = pytest.mark.parametrize("read", [batch, stream])
MISTAKES = [
    ({"queues": "jbos"}, "There is no queue jbos on {0}. Did you mean jobs?"),
    ({"queues": "jobs,zzz"}, "There is no queue zzz on {0}. kestrelpy queues ls shows"),
    (
        {"startingMarkers": '{"{0}0": {"jobs": 3}}'},
        "Option startingMarkers names a server {0}0, which is not among those that are read. "
        "Did you mean {0}?",
    ),
    (
        {"startingMarkers": '{"{0}": {"jbos": 3}}'},
        "Option startingMarkers names a queue jbos of {0}, which is not among those that are read. "
        "Did you mean jobs?",
    ),
    (
        {"startingMarkers": '{"5e12": {"mail": 1}}', "queues": "jobs"},
        "Option startingMarkers names a queue mail of 5e12, which is not among those",
    ),
    (
        {"startingMarkers": '{"{0}": {"jobs": 21}}'},
        "Option startingMarkers says 21 for the queue jobs of {0}, and its latest marker is 20",
    ),
    (
        {"startingMarkers": '{"5e12": 7}', "queues": "mail"},
        "Option startingMarkers says 7 for the queue mail of {0}, and its latest marker is 1",
    ),
]


def filled(text: str, server: StandIn) -> str:
    return text.replace("{0}", str(server.address))


@READS
@pytest.mark.parametrize(("options", "said"), MISTAKES)
def test_a_mistake_in_a_name_or_marker_is_refused_with_the_nearest(
    server: StandIn, read: Read, options: dict[str, str], said: str
) -> None:
    given = {name: filled(text, server) for name, text in options.items()}

    with pytest.raises(KestrelError) as caught:
        read(server, **given)

    assert filled(said, server) in str(caught.value)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ('{"{0}": {"jobs": 21}}', "Option endingMarkers says 21 for the queue jobs of {0}"),
        ('{"{0}": {"jobs": 4}}', "Option endingMarkers says 4 for the queue jobs of {0}, which is"),
        ('{"{0}": {"jbos": 4}}', "Option endingMarkers names a queue jbos of {0}"),
        ('{"x:1": "latest"}', "Option endingMarkers names a server x:1"),
    ],
)
def test_the_end_of_a_batch_is_checked_as_its_begin(
    server: StandIn, ending: str, said: str
) -> None:
    starting = filled('{"{0}": {"jobs": 5}}', server)

    with pytest.raises(KestrelError) as caught:
        batch(server, queues="jobs", startingMarkers=starting, endingMarkers=filled(ending, server))

    assert filled(said, server) in str(caught.value)


@READS
def test_a_marker_that_is_there_is_where_the_read_begins(server: StandIn, read: Read) -> None:
    for marker, begins in ((0, 0), (5, 5)):
        place = filled(f'{{"{{0}}": {{"jobs": {marker}}}}}', server)
        chosen = read(server, queues="jobs", startingMarkers=place)
        assert chosen == [("jobs", begins, 20)]
    place = filled('{"{0}": {"jobs": 20}}', server)
    assert read(server, queues="jobs", startingMarkers=place) == []


@READS
def test_a_marker_beyond_the_latest_is_read_as_latest_if_losses_are_allowed(
    server: StandIn, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    place = filled('{"{0}": {"jobs": 90}}', server)
    found = read(server, queues="jobs", startingMarkers=place, failOnDataLoss="false")
    assert found == []
    assert "says 90 for the queue jobs" in caplog.text
    assert "reset" not in caplog.text


@READS
def test_a_wildcard_that_fits_no_queue_is_a_warning(
    server: StandIn, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "kestrelpy.spark"):
        assert read(server, queues="jbos*") == []
    assert caplog.messages == [f"No queue fits jbos* on {server.address}. Did you mean jobs?"]


@READS
def test_a_name_that_a_skipped_server_may_have_is_a_warning(
    server: StandIn, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"servers": f"{server.address},127.0.0.1:1", "skipUnreachable": "true"}
    given = {**options, "queues": "jbos", "startingMarkers": '{"0af1": {"jobs": 3}}'}
    assert read(server, **given) == []
    assert "There is no queue jbos on" in caplog.text
    assert "names a server 0af1" in caplog.text


def test_a_cursor_of_a_child_is_refused(server: StandIn) -> None:
    with pytest.raises(KestrelError, match=r"cursor and queues=jobs\+audit contradict"):
        stream(server, queues="jobs+audit", cursor="c", consume="confirm")


def test_a_wildcard_for_children_fits_none_in_a_stream(
    server: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    assert stream(server, queues="jobs+*") == []
    assert "No queue fits jobs+*" in caplog.text
    assert stream(server, queues="jobs+audit") == [("jobs+audit", 0, 20)]


def test_a_stream_goes_on_when_a_queue_of_its_checkpoint_is_gone(server: StandIn) -> None:
    given = {"servers": str(server.address), "queues": "jobs,mail", "fetchRetries": "0"}
    options = parse_options(given, streams=True)
    first = LiveQueues(options)
    done = first.advance(first.begin(), BatchLimits())
    del server.queues["mail"]

    again = LiveQueues(options)
    assert again.advance(done, BatchLimits()) is done

    typo = LiveQueues(parse_options({**given, "queues": "jobs,mali"}, streams=True))
    with pytest.raises(KestrelError, match="There is no queue mali"):
        typo.advance(done, BatchLimits())


@pytest.mark.parametrize(
    "text", ['{"a:1": {"q": 1, "q": 2}}', '{"a:1": {"q": 1}, "a:1": {"p": 2}}']
)
def test_a_place_that_is_named_twice_is_refused(text: str) -> None:
    with pytest.raises(KestrelError, match="twice; say one place"):
        parse_options({"servers": "a:1", "startingMarkers": text})
