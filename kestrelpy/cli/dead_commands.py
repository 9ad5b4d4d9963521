# ruff: noqa: PLC0415
"""The commands `dead ...` and `move` with their flags, implemented in the other files.

One rule: as in `app`: nothing is imported before the command that needs it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kestrelpy.cli.options import DEFAULT_SERVER, Json, Numbers, Queue, Server, Yes

dead = typer.Typer(help="The dead letters of a queue.", no_args_is_help=True, rich_markup_mode=None)

Everything = Annotated[bool, typer.Option("--all", help="All that are dead now.")]
Rate = Annotated[
    str | None, typer.Option(help="At most this many a second, like 100/s. Default: no limit.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the items, and change nothing.")]


@dead.command("ls")
def dead_ls(queue: Queue, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """List the dead items of QUEUE, oldest first, with attempts and reason."""
    from kestrelpy.cli import dead as line

    line.ls(server, queue, as_json)


@dead.command("purge")
def dead_purge(
    queue: Queue,
    numbers: Numbers = None,
    everything: Everything = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Remove dead items for good: those named, or --all. Leased ones stay."""
    from kestrelpy.cli import dead as line

    line.purge(server, queue, numbers or [], everything, yes)


@dead.command("redrive")
def dead_redrive(
    queue: Queue,
    numbers: Numbers = None,
    everything: Everything = False,
    to: Annotated[
        str | None, typer.Option(help="Another queue. Default: the end of their own.")
    ] = None,
    containing: Annotated[
        str | None,
        typer.Option("--filter", metavar="TEXT", help="Only those with TEXT in reason or body."),
    ] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Make dead items available again, with no attempts: those named, or --all.

    Each is dead or available, never both or neither, even after a crash. Leased ones stay.
    """
    from kestrelpy.cli import moving

    which = moving.Which(queue, to, numbers or [], everything, containing)
    moving.redrive(server, which, rate, dry_run, yes)


def move(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The queue of the items.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Created if it does not exist.")],
    count: Annotated[
        int | None, typer.Option(min=1, help="At most this many. Default: all that wait now.")
    ] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Move waiting items from one queue to the end of another, in their order.

    Each is in one of the two, never in both or neither, even after a crash. Items that are leased
    or dead stay.
    """
    from kestrelpy.cli import moving

    moving.move(server, source, target, count, rate, dry_run, yes)
