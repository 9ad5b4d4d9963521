"""The configuration says where the data is: in a folder, or in an engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from journal.files import Disk
from kestrelpy.config import Config
from kestrelpy.server.directory.joining import data_path, directory_of, member_of
from kestrelpy.server.exposure import Unservable


def config(**fleet: object) -> Config:
    return Config.model_validate({"server": {"data_dir": "data"}, "fleet": fleet})


def test_without_a_fleet_the_data_is_in_a_folder() -> None:
    assert data_path(config()) == "data"
    assert member_of(config()) is None
    assert directory_of(config(), Disk()).path == "data"


def test_an_engine_has_small_segments_and_snapshots_more_often() -> None:
    engine = {"engine": "postgresql://db1/kestrel"}
    for least, most, wanted in ((64, 65536, 8192), (64, 4096, 4096), (16384, 65536, 16384)):
        journal = {"segment_min": f"{least}KiB", "segment_max": f"{most}KiB"}
        read = Config.model_validate({"fleet": engine, "journal": journal})
        sizes = directory_of(read, Disk()).sizes
        assert (sizes.segment_min, sizes.segment_max) == (least << 10, wanted << 10)
        assert sizes.snapshot_bytes == 4 << 20
    assert directory_of(config(), Disk()).sizes.segment_max == 64 << 20
    assert not directory_of(config(), Disk()).sizes.snapshot_bytes


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("postgresql://kestrel:secret@db1,db2/kestrel?sslmode=require",
         "postgresql://kestrel@db1,db2/kestrel/1"),
        ("postgresql://db1/kestrel", "postgresql://db1/kestrel/1"),
        ("postgres://:se%40cret@db1:5433/kestrel?password=secret", "postgresql://@db1:5433/kestrel/1"),
    ],
)  # fmt: skip
def test_the_name_of_an_engine_has_no_secret(engine: str, said: str) -> None:
    assert data_path(config(engine=engine)) == said


def test_a_member_has_the_name_of_its_host_unless_it_has_one_of_its_own() -> None:
    unnamed = member_of(config(engine="postgresql://db1/kestrel"))
    named = member_of(config(engine="postgresql://db1/kestrel", name="a", address="there:1"))

    assert unnamed is not None and unnamed.member.name and unnamed.member.address == ""
    assert named is not None and named.member == ("a", "there:1")
    assert not Path("data/cache-1").exists(), "nothing is opened yet"


def test_without_the_extra_one_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "journal.engine.postgres", None)

    with pytest.raises(Unservable, match=r"pip install 'kestrelpy\[fleet\]'"):
        member_of(config(engine="postgresql://db1/kestrel"))
