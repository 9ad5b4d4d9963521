"""Where segments may be archived: checked when the file is read, made when a daemon starts."""

import os
from pathlib import Path

import pytest

from kestrelpy.config.archives import make_archives
from kestrelpy.config.mistakes import ConfigError
from tests.unit.config.files import load, problems


def test_an_archive_is_made_by_a_daemon_that_starts_not_by_reading(file: Path) -> None:
    file.write_text('[queues.jobs]\narchive_to = "old/jobs"\n')

    config = load(file)
    assert not (file.parent / "old").exists()
    make_archives(config)
    make_archives(config)

    assert (file.parent / "old/jobs").is_dir()


def test_no_archive_is_set_unless_it_is_asked_for(file: Path) -> None:
    file.write_text("[queues.jobs]\narchive_to = \"none\"\n")

    assert load(file).archives() == {}


def test_an_impossible_archive_is_reported_in_one_sentence(file: Path) -> None:
    (file.parent / "taken").touch()
    file.write_text('[queues.jobs]\narchive_to = "taken/jobs"\n')

    assert problems(file) == (
        f'{file}: [queues.jobs] archive_to = "taken/jobs", but must be a directory that can be '
        "written or made, and taken is not."
    )


@pytest.mark.parametrize("inside", ["data", "data/old", "old/../data/x"])
def test_an_archive_inside_the_data_directory_is_refused(file: Path, inside: str) -> None:
    file.write_text(f'[queue_defaults]\narchive_to = "{inside}"\n')

    assert problems(file).endswith("but must be a directory outside data_dir.")


def test_an_archive_on_another_file_system_is_refused(file: Path) -> None:
    if os.stat("/proc").st_dev == os.stat(file.parent).st_dev or not os.access("/dev/shm", os.W_OK):
        pytest.skip("no second file system here")
    file.write_text('[queue_defaults]\narchive_to = "/dev/shm/kestrelpy-archive"\n')

    assert problems(file).endswith(
        "but must be on the same file system as data_dir: segments are linked there."
    )


def test_a_link_to_nowhere_or_to_itself_is_reported(file: Path) -> None:
    (file.parent / "cycle").symlink_to("cycle")
    (file.parent / "nowhere").symlink_to("missing")
    for name in ("cycle", "nowhere/x"):
        file.write_text(f'[queue_defaults]\narchive_to = "{name}"\n')

        assert "must be a directory that can be written or made" in problems(file)


def test_an_archive_that_cannot_be_made_is_reported(file: Path) -> None:
    file.write_text('[queues.jobs]\narchive_to = "old/jobs"\n')
    config = load(file)
    (file.parent / "old").touch()

    with pytest.raises(ConfigError) as refusal:
        make_archives(config)

    assert str(refusal.value).endswith(" cannot be made: Not a directory.")
