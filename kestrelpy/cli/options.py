"""The flags and arguments that several commands share, with the same help."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from kestrelpy.cli.completion import complete_queue
from kestrelpy.cli.usage import queue_key, queue_name, whole

# The settings of every Typer: -h beside --help.
HELP_FLAGS: Final[dict[str, list[str]]] = {"help_option_names": ["-h", "--help"]}

Queue = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE", help="The queue's name.", show_default=False, parser=queue_name,
        autocompletion=complete_queue,
    ),
]  # fmt: skip
QueueKey = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE", help="The queue's name.", show_default=False, parser=queue_key,
        autocompletion=complete_queue,
    ),
]  # fmt: skip
Server = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="The server: host:port, or the path of a Unix socket.",
        envvar="KESTRELPY_SERVER",
    ),
]  # fmt: skip
Timeout = Annotated[
    str,
    typer.Option(
        metavar="DURATION", help="How long to wait for the server's answer.",
        envvar="KESTRELPY_TIMEOUT",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Watch = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Repeat until Ctrl-C, this long apart, like 2s."),
]
Number = Annotated[
    int,
    typer.Argument(
        metavar="NUMBER", help="The item's number.", parser=whole("NUMBER", 1), show_default=False
    ),
]
Numbers = Annotated[
    list[int] | None,
    typer.Argument(metavar="NUMBER", help="Numbers of items.", parser=whole("NUMBER", 1)),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
