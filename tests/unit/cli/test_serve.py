"""The state that `serve` carries from one life of its process to the next."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kestrelpy.cli import serve as serve_module
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.logs import JsonLines
from kestrelpy.config import Config
from kestrelpy.server import StartError


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The signals, the log and the collector are as before afterwards."""
    signals = {each: signal.getsignal(each) for each in signal.valid_signals()}
    monkeypatch.setattr(serve_module, "_log_as_it_says", lambda config: None)
    # The process goes on after this `serve`: nothing may end it five seconds later.
    monkeypatch.setattr(serve_module, "_end_in_any_case", lambda: None)
    yield
    for number, handler in signals.items():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, handler)
    logging.captureWarnings(False)
    gc.unfreeze()


@pytest.mark.usefixtures("own_process")
def test_a_standby_that_was_an_owner_goes_on_with_the_reloaded_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_with, reloaded = list[Config](), Config.model_validate({"server": {"max_queues": 7}})

    class FencedDaemon:
        """An owner that takes a reload, and is fenced; then a standby that ends."""

        def __init__(self, config: Config, *_: object, **__: object) -> None:
            began_with.append(config)
            self.config = config
            self.membership = SimpleNamespace(begins_again=True)

        async def run(self) -> None:
            if len(began_with) > 1:
                raise StartError("the end of the test")
            self.config = reloaded

    monkeypatch.setattr(serve_module, "Daemon", FencedDaemon)
    file = tmp_path / "kestrelpy.toml"
    file.write_text("")
    with pytest.raises(CommandError, match="the end of the test"):
        serve_module.serve(file, {})

    assert began_with[1] is reloaded


@pytest.mark.parametrize(
    ("formatter", "said"), [(logging.Formatter, "ready"), (JsonLines, '"message": "ready"')]
)
def test_the_first_lines_have_the_format_that_the_log_has_now(
    formatter: Callable[[], logging.Formatter], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, lines = logging.NullHandler(), list[str]()
    handler.setFormatter(formatter())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    output = SimpleNamespace(say=lines.append, flush=lambda: None)
    monkeypatch.setattr(serve_module, "_standard_output", lambda: output)

    serve_module._say("ready")

    assert said in lines[0]
    assert lines[0].startswith("{") is (formatter is JsonLines)
