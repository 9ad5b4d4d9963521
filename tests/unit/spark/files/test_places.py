"""Journals in an engine, read without a daemon: the same rows as from folders with the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pytest

from journal.engine import (
    PIECE_BYTES,
    Create,
    Engine,
    Member,
    Op,
    Write,
    engine_tools,
    is_engine,
)
from journal.format import parse_folder_name
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from kestrelpy.spark.errors import KestrelError, sentence_of
from kestrelpy.spark.files import partitions
from kestrelpy.spark.files.places import opened
from kestrelpy.spark.options import parse_options
from kestrelpy.spark.schema import DEFAULT, EXTRA, select
from kestrelpy.spark.streaming import BatchLimits, Journals
from tests.support.daemon import DaemonProcess
from tests.support.object_store import object_store
from tests.support.raw import Raw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SMALL = """
[journal]
segment_min = "16KiB"
segment_max = "16KiB"
"""
SLICES = (1, 2)


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two data directories, each with several segments and a bit of everything."""
    folder = tmp_path_factory.mktemp("slices")
    for number in SLICES:
        with DaemonProcess(folder / str(number), config=SMALL) as daemon:
            with Raw(("127.0.0.1", daemon.port)) as raw:
                for at in range(120):
                    body = b"%d of %d" % (at, number) + b"." * 500
                    words = (b"", b"/key=k", b"/delay=1h", b"/id=i%d" % at)[at % 4]
                    raw.ask(b"set jobs%b 7 0 %d\r\n%b\r\n" % (words, len(body), body),
                            b"STORED\r\n")  # fmt: skip
                raw.send(b"get jobs/open\r\n")
                while raw.line() != b"END":
                    pass
                raw.ask(b"get jobs/close\r\n", b"END\r\n")
            assert daemon.stop() == 0
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with folder_of_servers() as folder:
        made = PostgresServer(folder)
        made.make()
        made.start()
        yield made
        made.stop()


@pytest.fixture(scope="module", params=["postgres", "object store"])
def engine(request: pytest.FixtureRequest, slices: Path) -> Iterator[str]:
    """The address of an engine with the same slices, which nobody owns."""
    if request.param == "postgres":
        yield _filled(request.getfixturevalue("server").address, slices)
        return
    pytest.importorskip("obstore", reason="needs the extra object-store")
    with object_store() as store:
        yield _filled(store.address("fleets/spark"), slices)


def _filled(address: str, slices: Path) -> str:
    tools: ModuleType = engine_tools(address)
    tools.make(address, True)
    with closing(cast(Engine, tools.open_engine(address, True))) as made:
        for number in SLICES:
            at = made.claim(number, Member("tests"), 0)
            made.commit(at, list(_ops(slices / str(number))))
            made.release(at.after())
    return address


def _ops(folder: Path) -> Iterator[Op]:
    queues = (each for each in sorted(folder.iterdir()) if parse_folder_name(each.name)[1])
    files = [path for queue in queues for path in sorted(queue.iterdir())]
    for number, path in enumerate(files, 1):
        data = path.read_bytes()
        yield Create(number, str(path.relative_to(folder)), len(data))
        for at in range(0, len(data), PIECE_BYTES):
            yield Write(number, at, data[at : at + PIECE_BYTES])


def rows(path: str, mode: str, **more: str) -> list[dict[str, Any]]:
    """What a read returns, with every column that there is."""
    options = parse_options({"path": path, "mode": mode, **more}, streams=False)
    columns = [*DEFAULT[options.mode], *EXTRA[options.mode]]
    selection = select(options.mode, [(each.name, each.ddl) for each in columns])
    found: list[dict[str, Any]] = []
    for parts in partitions.plan(options):
        for batch in partitions.read(parts, selection, options):
            found += batch.to_pylist()
    return sorted(found, key=lambda row: (row["server"], row["queue"], row["lsn"]))


@pytest.mark.parametrize("mode", ["items", "events"])
def test_an_engine_without_a_daemon_has_the_rows_of_the_same_folders(
    engine: str, slices: Path, mode: str
) -> None:
    local = rows(f"{slices}/[12]", mode)

    assert len(local) >= 2 * 119
    assert rows(engine, mode) == local


def test_a_stream_of_an_engine_has_each_put_of_its_folders_once(engine: str, slices: Path) -> None:
    def streamed(path: str) -> list[tuple[str, bytes]]:
        options = parse_options({"path": path}, streams=True)
        selection = select("items", [("server", "string"), ("value", "binary")])
        journals, found = Journals(options), list[tuple[str, bytes]]()
        position = journals.begin()
        while (end := journals.advance(position, BatchLimits(items=70))) is not position:
            for parts in journals.parts(end):
                for batch in partitions.read(parts, selection, options):
                    found += [(row["server"], row["value"]) for row in batch.to_pylist()]
            position = end
        return sorted(found)

    found = streamed(engine)

    assert found == streamed(f"{slices}/[12]")
    assert len(found) == 240


def test_one_slice_is_read_alone(engine: str, slices: Path) -> None:
    place, mark, query = engine.partition("?")

    found = rows(f"{place}/2{mark}{query}", "items")

    assert found == rows(str(slices / "2"), "items")
    assert {row["value"].split(b".")[0][-1:] for row in found} == {b"2"}


def test_spark_reads_all_slices_of_an_engine_in_its_own_processes(
    spark: SparkSession, server: PostgresServer, slices: Path
) -> None:
    server.ask("DROP SCHEMA IF EXISTS kestrelpy CASCADE")
    engine = _filled(server.address, slices)
    frame = spark.read.format("kestrel").option("maxPartitionBytes", "16k").load(engine)
    local = spark.read.format("kestrel").load(f"{slices}/[12]")

    assert frame.rdd.getNumPartitions() >= 4
    assert sorted(frame.collect(), key=repr) == sorted(local.collect(), key=repr)
    events = spark.read.format("kestrel").option("mode", "events").load([engine])
    assert events.count() == len(rows(f"{slices}/[12]", "events"))


def test_a_moment_does_not_see_what_comes_after_it(server: PostgresServer, slices: Path) -> None:
    server.ask("DROP SCHEMA IF EXISTS kestrelpy CASCADE")
    address = _filled(server.address, slices)
    with opened((address,)) as places:
        first, second = places.folders()
        before = places.names(first)
        server.ask("DELETE FROM kestrelpy.file")
        assert places.names(second) != []
        assert places.names(first) == before
    with opened((address,)) as places:
        assert [places.names(folder) for folder in places.folders()] == [[], []]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("postgresql://k:sekret@127.0.0.1:1/kestrel", "127.0.0.1:1/kestrel: the engine cannot be "),
        ("postgresql://k:sekret@127.0.0.1:1/kestrel/x", "a slice is a number, like postgresql://k"),
        ("postgresql://k:se@kret@127.0.0.1:1/kestrel", "an engine has an address like"),
        ("mysql://k:sekret@db/kestrel", "is not a folder that every executor sees"),
    ],
)
def test_an_address_that_cannot_be_read_is_one_sentence_without_its_secret(
    path: str, says: str
) -> None:
    with pytest.raises(KestrelError) as found:
        rows(path, "items")

    assert says in str(found.value)
    assert "kret" not in str(found.value)


def test_what_an_engine_lacks_is_one_sentence(server: PostgresServer, slices: Path) -> None:
    def refused(path: str = server.address, **more: str) -> str:
        with pytest.raises(KestrelError) as found:
            rows(path, "items", **more)
        return str(found.value)

    server.ask("DROP SCHEMA IF EXISTS kestrelpy CASCADE")
    assert "the tables of kestrelpy are not there; make them with `kestrelpy fleet" in refused()
    engine_tools(server.address).make(server.address, True)
    assert refused() == f"{server.address}: there is no data here yet. Start a daemon."
    server.ask("DROP SCHEMA kestrelpy CASCADE")
    _filled(server.address, slices)
    assert refused(f"{server.address}/9").startswith(f"{server.address}/9: there is no data here:")
    assert f"There is no queue jobz in the journals of {server.address}." in refused(queues="jobz")
    server.ask("UPDATE kestrelpy.slice SET importing = true WHERE id = 2")
    assert refused().startswith(f"{server.address}/2: a data directory is being moved in")
    server.ask("UPDATE kestrelpy.version SET number = number + 1")
    assert "install the newer kestrelpy that made them" in refused()


def test_spark_says_the_sentence_and_nothing_of_the_secret(spark: SparkSession) -> None:
    path = "postgresql://k:sekret@127.0.0.1:1/kestrel"
    frame = spark.read.format("kestrel").load(path)

    with pytest.raises(Exception, match="the engine cannot be read") as found:
        frame.collect()

    assert sentence_of(found.value).startswith("postgresql://k@127.0.0.1:1/kestrel: the engine ")
    plan = frame._jdf.queryExecution().toString()  # type: ignore[operator, unused-ignore]  # Java's
    assert "sekret" not in f"{found.value}{plan}"


def test_only_addresses_of_engines_are_taken_for_engines() -> None:
    assert all(map(is_engine, ("postgresql://k@db/kestrel", "postgres://db/k/3", "s3://b/p")))
    assert not any(map(is_engine, ("postgres", "/srv/s3", "file:/srv", "s3a://b/p", os.sep)))
