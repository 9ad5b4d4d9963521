# ruff: noqa: PLC0415
"""Completion for bash, zsh and fish: the script that a shell reads, and names of queues.

    eval "$(kestrelpy completion bash)"        kestrelpy queues sh<TAB>   kestrelpy put jo<TAB>

One rule: completion never fails and never holds a terminal up: a server that does not answer at
once has no queues to propose.
"""

from __future__ import annotations

import os
from typing import Final

import typer

from kestrelpy.cli.at import DEFAULT_SERVER, At
from kestrelpy.cli.commands import OPTIONS
from kestrelpy.cli.errors import CommandError

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_KESTRELPY_COMPLETE"
_PATIENCE_MS: Final = 500


def request_of(shell: str) -> str:
    """Return the value of `VARIABLE` with which typer prints a shell's script; raise
    CommandError."""
    if shell not in SHELLS:
        raise CommandError(f"there is no completion for {shell!r}, but for {', '.join(SHELLS)}")
    return f"source_{shell}"


def complete_shell(incomplete: str) -> list[str]:
    """Return the shells that begin like this."""
    return [shell for shell in SHELLS if shell.startswith(incomplete)]


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the server's queues that begin like this."""
    from kestrelpy.cli.remote import connected
    from kestrelpy.cli.wire import all_stats
    from kestrelpy.wire.dial import access_of

    server = ctx.params.get("server") or os.environ.get("KESTRELPY_SERVER") or DEFAULT_SERVER
    said = {name: value for name in OPTIONS if (value := ctx.params.get(name))}
    try:
        with connected(At(server, _PATIENCE_MS, access_of(**said))) as client:
            names = [name for name, _ in all_stats(client).queues]
    except (CommandError, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]
