"""Files that an operator names and that are none."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kestrelpy.config import ConfigError, load_config, plain_file, read_plain


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to(path.with_name("pipe"))


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [a_pipe, a_link_to_a_pipe, a_device])
def test_what_is_no_regular_file_is_refused_by_its_name(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "kestrelpy.toml"
    make(path)
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ={}, overrides={})
    [problem] = caught.value.problems
    kind = make.__name__.removeprefix("a_link_to_").replace("_", " ")
    assert problem == f"{path}: cannot be read: it is {kind}, not a regular file."


def test_a_socket_cannot_be_read(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match=r"such device or address|a socket"):
            read_plain(tmp_path / "socket")


def test_a_link_to_a_file_and_no_file_at_all_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x = 1")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_plain(tmp_path / "link") == b"x = 1"
    assert read_plain(Path(os.devnull)) == b""


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_file, "FILE_BYTES_MAX", 1 << 20)
    (tmp_path / "file").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(OSError, match="more than 1 MiB"):
        read_plain(tmp_path / "file")
