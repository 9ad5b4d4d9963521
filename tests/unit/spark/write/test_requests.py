"""Rows as requests, and the server of each row."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.write.requests import Chooser, RowForm, quoted, requests_of

SUFFIX = b"/scope=s/epoch=7"
UTC_US = pa.timestamp("us", "UTC")


def requests(
    columns: dict[str, Any], *, queue: str = "jobs", suffix: bytes = SUFFIX, servers: int = 1
) -> list[tuple[int, bytes]]:
    batch = pa.RecordBatch.from_arrays(
        [each if isinstance(each, pa.Array) else pa.array(each) for each in columns.values()],
        names=list(columns),
    )
    chooser = Chooser([f"server-{n}" for n in range(servers)])
    return list(requests_of(batch, RowForm(tuple(columns)), queue, suffix, chooser))


def line(**columns: Any) -> bytes:
    given = {"value": ["x"], "id": ["i"], **{name: [each] for name, each in columns.items()}}
    return requests(given)[0][1].partition(b"\r\n")[0]


def refused(**columns: Any) -> str:
    with pytest.raises(KestrelError) as caught:
        line(**columns)
    return str(caught.value)


def test_a_row_is_a_set_with_its_id_scope_and_epoch() -> None:
    assert requests({"value": [b"\r\n\0", ""], "id": ["a", "b"]} | {"value": [b"\r\n\0", b""]}) == [
        (0, b"set jobs/id=a/scope=s/epoch=7 0 0 3\r\n\r\n\0\r\n"),
        (0, b"set jobs/id=b/scope=s/epoch=7 0 0 0\r\n\r\n"),
    ]
    assert requests({"value": ["é"]}, suffix=b"") == [(0, "set jobs 0 0 2\r\né\r\n".encode())]


def test_every_column_has_its_place_on_the_line() -> None:
    assert line(queue="other") == b"set other/id=i/scope=s/epoch=7 0 0 1"
    assert line(key="a,b") == b"set jobs/id=i/scope=s/epoch=7/key=a%2Cb 0 0 1"
    assert line(id=4711) == b"set jobs/id=4711/scope=s/epoch=7 0 0 1"
    assert line(flags=2**32 - 1) == b"set jobs/id=i/scope=s/epoch=7 4294967295 0 1"
    assert line(expires=60) == b"set jobs/id=i/scope=s/epoch=7 0 60 1"
    assert line(delay="5s") == b"set jobs/id=i/scope=s/epoch=7/delay=5000ms 0 0 1"
    assert line(delay=timedelta(seconds=1.5)) == b"set jobs/id=i/scope=s/epoch=7/delay=1500ms 0 0 1"
    assert line(at=1_789_000_000.5) == b"set jobs/id=i/scope=s/epoch=7/at=1789000000.500 0 0 1"


def test_a_time_is_the_same_instant_in_any_zone() -> None:
    at = datetime(2030, 1, 1, 12, 0, 0, 250_000, UTC)
    for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
        value = pa.array([at], pa.timestamp("us", zone))
        columns = {"value": ["x"], "id": ["i"], "at": value}
        assert b"/at=1893499200.250 " in requests(columns)[0][1]
        columns = {"value": ["x"], "id": ["i"], "expires": value}
        assert b"epoch=7 0 1893499201 1\r\n" in requests(columns)[0][1]
    early = pa.array([datetime(1970, 1, 2, tzinfo=UTC)], UTC_US)
    assert b" 0 -1 1\r\n" in requests({"value": ["x"], "id": ["i"], "expires": early})[0][1]


def test_a_null_is_the_absence_of_an_option_but_not_of_value_and_id() -> None:
    absent = {
        "queue": pa.nulls(1, pa.string()), "key": pa.nulls(1, pa.string()),
        "flags": pa.nulls(1, pa.int32()), "expires": pa.nulls(1, UTC_US),
        "delay": pa.nulls(1, pa.string()),
    }  # fmt: skip
    found = requests({"value": ["x"], "id": ["i"], **absent})
    assert found == [(0, b"set jobs/id=i/scope=s/epoch=7 0 0 1\r\nx\r\n")]
    for name in ("value", "id"):
        with pytest.raises(KestrelError, match=f"its {name} is null"):
            requests({"value": ["x"], "id": ["i"], name: pa.nulls(1, pa.string())})
    with pytest.raises(KestrelError, match="its queue is null, and there is no option queue"):
        requests({"value": ["x"], "id": ["i"], "queue": absent["queue"]}, queue="")


def test_a_wrong_row_is_named_with_what_is_wrong() -> None:
    assert refused(id="7", queue="a b").startswith(
        'The row with queue "a b" and id "7" cannot be written: "a b" is not the name of a queue'
    )
    assert "its flags are 4294967296; say 0 to 4294967295" in refused(flags=2**32)
    assert 'its delay "5" is not a duration' in refused(delay="5")
    assert "its delay is negative" in refused(delay=timedelta(seconds=-1))
    assert "its at is -1 seconds since 1970" in refused(at=-1.0)
    assert "take 272 bytes on the wire, and the limit is 250" in refused(id="x" * 248)


def test_a_value_of_an_option_is_quoted_only_where_it_must_be() -> None:
    assert quoted(b"a|b#0:7=x+y") == b"a|b#0:7=x+y"
    assert quoted("a/b c%é,\n".encode()) == b"a%2Fb%20c%25%C3%A9%2C%0A"


def test_the_server_of_a_row_follows_from_its_id_alone() -> None:
    ids = [f"row-{n}" for n in range(2000)]
    shuffled = random.Random(7).sample(ids, len(ids))

    def servers_of(names: list[str]) -> dict[str, int]:
        found = requests({"value": names, "id": names}, servers=3)
        return {name: at for name, (at, _) in zip(names, found, strict=True)}

    assert servers_of(ids) == servers_of(shuffled)
    assert all(500 < count < 850 for count in Counter(servers_of(ids).values()).values())


def test_all_rows_of_a_key_go_to_one_server() -> None:
    keys = [f"k{n % 50}" for n in range(1000)]
    columns = {"value": keys, "id": [str(n) for n in range(1000)], "key": keys}

    servers = defaultdict(set)
    for key, (at, _) in zip(keys, requests(columns, servers=4), strict=True):
        servers[key].add(at)

    assert all(len(each) == 1 for each in servers.values())
    assert len(set.union(*servers.values())) == 4


def test_a_key_of_several_values_is_an_array_and_each_permutation_has_one_server() -> None:
    assert line(key=["A", "b,c"]) == b"set jobs/id=i/scope=s/epoch=7/key=A,b%2Cc 0 0 1"
    assert line(key=[b"\xff"]) == b"set jobs/id=i/scope=s/epoch=7/key=%FF 0 0 1"
    assert line(key=[]) == b"set jobs/id=i/scope=s/epoch=7 0 0 1"
    assert "a value of its key is null" in refused(key=["A", None])
    pairs = [(f"a{n}", f"b{n}") for n in range(200)]

    def servers_of(keys: list[Any]) -> list[int]:
        ids = [str(n) for n in range(len(keys))]
        columns = {"value": ids, "id": ids, "key": keys}
        return [at for at, _ in requests(columns, servers=3)]

    assert servers_of([[a, b] for a, b in pairs]) == servers_of([[b, a] for a, b in pairs])
    assert servers_of([[a] for a, _ in pairs]) == servers_of([a for a, _ in pairs])
    assert set(servers_of([[a, b] for a, b in pairs])) == {0, 1, 2}


def test_a_server_more_moves_only_rows_that_it_takes() -> None:
    names = [b"%d" % n for n in range(2000)]
    before = Chooser(["a", "b"]).choose(names)
    after = Chooser(["a", "b", "c"]).choose(names)

    assert all(now in (was, 2) for was, now in zip(before, after, strict=True))
