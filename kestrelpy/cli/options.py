"""The flags and arguments that several commands share, with the same help."""

from __future__ import annotations

from typing import Annotated

import typer

Queue = Annotated[str, typer.Argument(help="The queue's name.", show_default=False)]
Server = Annotated[
    str, typer.Option(help="host:port, or a Unix socket's path.", envvar="KESTRELPY_SERVER")
]
Json = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]
DEFAULT_SERVER = "127.0.0.1:22133"
Number = Annotated[int, typer.Argument(metavar="ID", min=1, help="The item's number.")]
Numbers = Annotated[list[int] | None, typer.Argument(metavar="[ID]...", min=1)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
