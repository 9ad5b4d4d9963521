"""The rows of files: the value of each field, and the rows that are refused with their line."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.backfill.rows import Columns, files_of, rows_of

WHOLE = Columns()


def values(path: Path, form: str, content: bytes, columns: Columns = WHOLE) -> list[bytes]:
    path.write_bytes(content)
    return [row.value for row in rows_of([str(path)], form, columns)]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb", [b"a", b"b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"a\rb\n\n", [b"a\rb", b""]),
        ("ä\0\u2028b\n".encode(), ["ä\0\u2028b".encode()]),
        (b"", []),
    ],
)
def test_a_line_of_text_is_an_item_as_it_is(
    tmp_path: Path, content: bytes, found: list[bytes]
) -> None:
    assert values(tmp_path / "a", "text", content) == found
    assert values(tmp_path / "a.gz", "text", gzip.compress(content)) == found
    assert values(tmp_path / "a.bz2", "text", bz2.compress(content)) == found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'n,t\n1,"a\nb"\n', [b'{"n":"1","t":"a\\nb"}']),
        (b'n,t\r\n1,"a\r\nb"\r\n', [b'{"n":"1","t":"a\\r\\nb"}']),
        (b'n,t\n1,"say ""hi"""\n', [b'{"n":"1","t":"say \\"hi\\""}']),
        (b'\xef\xbb\xbf"n",t\n1,2', [b'{"n":"1","t":"2"}']),
        (b'n,t\n"a,b",\n', [b'{"n":"a,b","t":""}']),
        ("n\nä\n\n".encode(), ['{"n":"ä"}'.encode(), b'{"n":""}']),
        (b"n,t\n 1 ,2\n", [b'{"n":" 1 ","t":"2"}']),
        (b"n,t\n", []),
        (b'n,t\n"","""a"", ""b"""\r\n', [b'{"n":"","t":"\\"a\\", \\"b\\""}']),
        (b'n\n"a\0b"\n"\r"\n', [b'{"n":"a\\u0000b"}', b'{"n":"\\r"}']),
        (b'n\n"%b"\n' % (b"x" * 200_000), [b'{"n":"%b"}' % (b"x" * 200_000)]),
    ],
)
def test_csv_is_read_as_rfc_4180_says(tmp_path: Path, content: bytes, found: list[bytes]) -> None:
    assert values(tmp_path / "a.csv", "csv", content) == found


def test_a_line_of_json_is_an_item_as_it_is(tmp_path: Path) -> None:
    lines = [b'{"a": 1}', b" [1, 2]", b'"x"', b'{"n":123456789012345678901234567890}', b"1e400",
             b"9" * 5000]  # fmt: skip
    assert values(tmp_path / "a", "json", b"\r\n".join(lines)) == lines


def test_the_columns_that_make_an_item_are_chosen(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('n,t\n7,"a\nb"\n8,c\n')

    rows = list(rows_of([str(path)], "csv", Columns("t", "n", "n")))

    assert [(row.value, row.id, row.key, row.line) for row in rows] == [
        (b"a\nb", b"7", b"7", 2), (b"c", b"8", b"8", 4)
    ]  # fmt: skip


def test_a_row_of_parquet_is_an_object_column_by_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    at = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "n": [2, 1], "d": [Decimal("1.10"), None], "t": [at, None],
            "s": [{"a": 1, "b": None}, None], "b": [b"x", b"\xff"],
        }
    )  # fmt: skip
    pq.write_table(table, path, row_group_size=1)

    rows = list(rows_of([str(path)], "parquet", Columns()))
    assert [(row.line, row.value) for row in rows] == [
        (1, b'{"n":2,"d":1.10,"t":"2026-01-31T12:00:00Z","s":{"a":1},"b":"eA=="}'),
        (2, b'{"n":1,"b":"/w=="}'),
    ]
    assert [r.value for r in rows_of([str(path)], "parquet", Columns("b"))] == [b"x", b"\xff"]
    with pytest.raises(KestrelError, match=r"line 1: its n is of type int, and a body is a text"):
        list(rows_of([str(path)], "parquet", Columns("n")))


def test_no_value_of_parquet_is_lost_in_json(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    nanos = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC"))
    table = pa.table({
        "t": nanos, "d": pa.array([1], pa.duration("ns")),
        "f": [[float("nan"), float("inf"), float("-inf")]],
    })  # fmt: skip
    pq.write_table(table, path)
    [row] = rows_of([str(path)], "parquet", Columns())
    found = json.loads(row.value)
    assert found["t"] == "2023-11-14T22:13:20.123456789Z"
    assert "000000001" in found["d"]
    assert found["f"] == ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize(
    "table",
    [
        pa.table([[1], [2]], names=["x", "x"]),
        pa.table({"s": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])}),
    ],
)
def test_two_columns_of_parquet_with_one_name_are_refused(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    with pytest.raises(KestrelError, match='two columns are named "x"'):
        list(rows_of([str(path)], "parquet", Columns()))


@pytest.mark.parametrize(
    ("form", "content", "said"),
    [
        ("text", b"a\ncaf\xe9\n", "line 2: byte 4 (0xe9) is not UTF-8"),
        ("csv", b"n\na\ncaf\xe9\n", "line 3: byte 4 (0xe9) is not UTF-8"),
        ("json", b'"a"\n"\xff"\n', "line 2: byte 2 (0xff) is not UTF-8"),
        ("text", "a\n".encode("utf-16"), "line 1: byte 1 (0xff) is not UTF-8"),
        ("csv", b"n,t\n1,2\n1,2,3\n", "line 3: it has 3 fields, and the header has 2"),
        ("csv", b'n,t\n1,"a\nb"\n1\n', "line 4: it has 1 field, and the header has 2"),
        ("csv", b"n,t\n1,2\n\n", "line 3: it has 1 field,"),
        ("csv", b"n,n\n1,2\n", 'line 1: two columns are named "n"'),
        ("csv", b"n,,t\n1,2,3\n", "line 1: column 2 has no name"),
        ("csv", b"n,\n1,2\n", "line 1: column 2 has no name"),
        ("csv", b"", "is empty. Its first line is to name the columns"),
        ("csv", b'n\n"a\nb\n', "line 2: a quoted field that begins here has no end"),
        ("csv", b'n\n"a"b\n', "line 2: after the closing quote"),
        ("csv", b'n\n5" pipe\n', "line 2: a quote stands in a field without quotes"),
        ("csv", b'n,t,u\n1, "a,b"\n', "line 2: a quote stands in a field without quotes"),
        ("csv", b'n,t\n"a\nb",x\n"a\nb",c"\n', "line 4: a quote stands in a field without"),
        ("csv", b'n "a"\n1\n', "line 1: a quote stands in a field without quotes"),
        ("csv", b"n\ra\r", "line 1: a carriage return stands in a field without quotes"),
        ("json", b'{"a":1}\n{"a":\n', "line 2: it is no JSON"),
        ("json", b'{"a":1}\n\n', "line 2: it is empty"),
        ("json", b'{"a":NaN}\n', "line 1: it is no JSON"),
        ("json", b'{"a":1} {"a":2}\n', "line 1: it is no JSON"),
        ("json", b"[" * 100_000 + b"\n", "line 1: it is no JSON"),
        ("parquet", b"PAR1 and no more", "cannot be read as Parquet"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused_with_file_and_line(
    tmp_path: Path, form: str, content: bytes, said: str
) -> None:
    path = tmp_path / "input"
    with pytest.raises(KestrelError) as caught:
        values(path, form, content)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_a_packed_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    for name, packed in (("a.gz", gzip.compress(b"a\n" * 999)), ("b.bz2", bz2.compress(b"a\n"))):
        path = tmp_path / name
        path.write_bytes(packed[:-5])
        with pytest.raises(KestrelError, match=f"{name} cannot be read"):
            list(rows_of([str(path)], "text", Columns()))


def test_files_come_sorted_by_argument_and_then_by_name_each_once(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c[1].csv", "_hidden.csv", ".more.csv"):
        (tmp_path / name).write_text("n\n1\n")

    def named(*words: str) -> list[str]:
        return [os.path.basename(each) for each in files_of([f"{tmp_path}/{w}" for w in words])]

    assert named("*.csv")[:2] == ["_hidden.csv", "a.csv"]
    assert named("b.csv", "[ab].csv") == ["b.csv", "a.csv"]
    assert named("c[1].csv") == ["c[1].csv"]
    assert named("") == ["a.csv", "b.csv", "c[1].csv"]
    with pytest.raises(KestrelError, match="There is no file"):
        named("x*.csv")


def test_what_cannot_be_read_twice_or_is_not_here_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    for path, said in (
        (f"{tmp_path}/pipe", "read twice"), (f"{tmp_path}/outer", "has a folder"),
        (f"{tmp_path}/outer/inner", "has no file"), ("s3://a/b.csv", "is an address"),
    ):  # fmt: skip
        with pytest.raises(KestrelError, match=said):
            files_of([path])


def test_the_headers_of_several_files_are_alike(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,t\n1,2\n")
    (tmp_path / "b.csv").write_text("t,n\n1,2\n")
    with pytest.raises(KestrelError, match=r"The header of .*b\.csv is not that of .*a\.csv"):
        list(rows_of(files_of([str(tmp_path)]), "csv", Columns()))


def test_a_row_of_many_lines_is_bounded_as_a_line_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.spark.jobs.backfill.rows.LINE_BYTES_MAX", 100)
    row = b'"%b"\n' % (b"x" * 20 + b"\n" + b"y" * 20)
    assert len(values(tmp_path / "a.csv", "csv", b"n\n" + row * 9)) == 9, "it counts each row anew"
    long = b'n,t,u\n"' + b"x" * 30 + b'\n","\n","' + b"x" * 70 + b'\n"'
    with pytest.raises(KestrelError, match="line 4: the row that goes on here is longer than 100"):
        values(tmp_path / "b.csv", "csv", long)
