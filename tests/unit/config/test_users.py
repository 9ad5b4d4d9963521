"""`[auth.<user>]` in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.access import hash_secret
from kestrelpy.config import Config, ConfigError, load_config

HASH = hash_secret(b"letmein")


def load(folder: Path, text: str) -> Config:
    file = folder / "kestrelpy.toml"
    file.write_text(text)
    return load_config(file, environ={}, overrides={})


def test_a_user_reads_all_queues_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    config = load(tmp_path, f'[auth.anna]\nsecret = "{HASH}"\n')
    assert (config.auth["anna"].role, config.auth["anna"].queues) == ("read", ("*",))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must have secret"),
        ('secret = "letmein"', "kestrelpy hash-secret"),
        (f'secret = "{HASH}"\nrole = "root"', "'read', 'write' or 'admin'"),
        (f'secret = "{HASH}"\nqueues = []', "1 to 64"),
        (f'secret = "{HASH}"\nqueues = ["a b"]', "1 to 64"),
        (f'secret = "{HASH}"\nsecrets = "x"', "not a known key"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, f"[auth.anna]\n{text}\n")
    assert why in str(error.value)
    assert len(error.value.problems) == 1


def test_the_files_of_tls_go_together(tmp_path: Path) -> None:
    for text in ('tls_cert = "a"', 'tls_key = "a"', 'tls_client_ca = "a"'):
        with pytest.raises(ConfigError, match="tls_"):
            load(tmp_path, f"[server]\n{text}\n")
    config = load(tmp_path, '[server]\ntls_cert = "a"\ntls_key = "b"\n')
    assert config.server.tls_cert == tmp_path / "a"
