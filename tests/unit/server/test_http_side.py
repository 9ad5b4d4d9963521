"""HTTP is loaded only if it is on, and has a part of the connections."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kestrelpy.server.http_side import HttpSide

IMPORTED = """
import asyncio, sys
from kestrelpy.config import Config
from kestrelpy.server import Daemon
async def main():
    config = Config.model_validate(
        {"server": {"port": 0, "http_port": eval(sys.argv[2]), "data_dir": sys.argv[1]}}
    )
    daemon = Daemon(config, lambda: config, print)
    await daemon.start()
    await daemon.stop()
asyncio.run(main())
print([name for name in ("fastapi", "starlette", "uvicorn", "httptools") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("port", "said"), [("'off'", "[]"), ("0", "['starlette', 'uvicorn', 'httptools']")]
)
def test_with_off_nothing_of_it_is_imported(tmp_path: Path, port: str, said: str) -> None:
    out = subprocess.run(
        [sys.executable, "-c", IMPORTED, str(tmp_path / "data"), port],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert out[-1] == said
    assert any(line.startswith("listening: http on 127.0.0.1:") for line in out) == (port == "0")


def test_http_has_a_quarter_of_the_connections() -> None:
    side = HttpSide(lambda: 8, lambda: 1 << 20, lambda: 1)
    assert [side.may_enter() for _ in range(3)] == [True, True, False]
    side.leave()
    assert side.may_enter()
