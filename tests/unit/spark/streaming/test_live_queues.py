"""Running servers as a stream, without Spark; `tests/unit/spark/test_stream.py` has the daemons.

Promise: spark-stream.
"""

from __future__ import annotations

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.options import Options, parse_options
from kestrelpy.spark.streaming.live_queues import LiveQueues, read
from kestrelpy.spark.streaming.position import BatchLimits, Position
from tests.unit.spark.stand_in import Line, StandIn


def server(items: int = 20) -> StandIn:
    line = Line()
    for number in range(items):
        line.put(b"%d" % number)
    return StandIn({"jobs": line})


def options_of(*servers: StandIn, **options: str) -> Options:
    addresses = ",".join(str(each.address) for each in servers)
    given = {"servers": addresses, "consume": "confirm", "fetchRetries": "0", **options}
    return parse_options(given, streams=True)


def numbers(options: Options, stream: LiveQueues, end: Position) -> list[int]:
    slices = [each for part in stream.slices(end) for each in part]
    return [int(line[4]) for _, values in read(slices, options) for line in values.lines]


def test_a_batch_has_the_markers_of_its_slices_also_when_it_is_repeated() -> None:
    with server() as one:
        options = options_of(one)
        stream = LiveQueues(options)
        first = stream.advance(stream.begin(), BatchLimits(items=8))
        second = stream.advance(first, BatchLimits())
        assert stream.advance(second, BatchLimits()) is second
        one.queues["jobs"].put(b"later")

        again = LiveQueues(options)
        assert numbers(options, again, first) == list(range(1, 9))
        assert numbers(options, again, second) == list(range(9, 21))


def test_gaps_that_consumers_leave_are_no_loss() -> None:
    with server() as one:
        options = options_of(one)
        stream = LiveQueues(options)
        end = stream.advance(stream.begin(), BatchLimits())
        for marker in (1, 2, 7, 20):
            del one.queues["jobs"].items[marker]

        assert numbers(options, stream, end) == [n for n in range(3, 20) if n != 7]


def test_a_planned_slice_is_never_skipped_though_its_server_is_down() -> None:
    with server() as one, server() as other:
        other.server_id = "other"
        options = options_of(one, other, skipUnreachable="true")
        stream = LiveQueues(options)
        end = stream.advance(stream.begin(), BatchLimits())
        slices = [each for part in stream.slices(end) for each in part]
        other.cut = lambda request: 0

        with pytest.raises(KestrelError, match="cannot be reached"):
            list(read(slices, options))


def test_a_batch_may_end_before_what_came_after_the_start() -> None:
    with server() as one:
        stream = LiveQueues(options_of(one))
        begin = stream.begin()
        stream.stop_at_present()
        one.queues["jobs"].put(b"later")
        one.queues["new"] = Line()
        one.queues["new"].put(b"x")

        end = stream.advance(begin, BatchLimits())

        assert [each.upto for part in end.slices for each in part] == [20]
        assert stream.advance(end, BatchLimits()) is end
        assert stream.lag(end) == 2


def test_a_server_that_is_named_later_is_read_from_its_earliest_item() -> None:
    with server() as one, server(7) as other:
        other.server_id = "other"
        stream = LiveQueues(options_of(one))
        first = stream.advance(stream.begin(), BatchLimits())

        both = LiveQueues(options_of(one, other))
        second = both.advance(first, BatchLimits())

        assert {(each.server, each.after, each.upto) for p in second.slices for each in p} == {
            ("other", 0, 7)
        }
        assert both.advance(second, BatchLimits()) is second


def test_a_server_of_the_checkpoint_that_is_not_read_is_refused() -> None:
    with server() as one, server() as other:
        other.server_id = "other"
        begin = LiveQueues(options_of(one, other)).begin()

        with pytest.raises(KestrelError, match="The checkpoint names the server other"):
            LiveQueues(options_of(one)).advance(begin, BatchLimits())
        LiveQueues(options_of(one, failOnDataLoss="false")).advance(begin, BatchLimits())
