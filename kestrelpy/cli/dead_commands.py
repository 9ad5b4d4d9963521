# ruff: noqa: PLC0415
"""The commands `dead ...` and `move` with their flags; what they do is in the files beside.

One rule: as in `app`: nothing is imported before the command that needs it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kestrelpy.cli.options import DEFAULT_SERVER, Json, Numbers, Queue, Server, Yes

dead = typer.Typer(help="The dead line of a queue.", no_args_is_help=True, rich_markup_mode=None)

Everything = Annotated[bool, typer.Option("--all", help="All that are dead now.")]
Rate = Annotated[
    str | None, typer.Option(help="At most so many a second, for instance 100/s. Default: any.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would go, and no more.")]


@dead.command("ls")
def dead_ls(queue: Queue, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """List the dead items of QUEUE in the order of dying, with attempts and reason."""
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
    """Remove dead items for good: those named, or --all. What somebody holds stays."""
    from kestrelpy.cli import dead as line

    line.purge(server, queue, numbers or [], everything, yes)


@dead.command("redrive")
def dead_redrive(
    queue: Queue,
    numbers: Numbers = None,
    everything: Everything = False,
    to: Annotated[
        str | None, typer.Option(help="Another queue. Default: back to the end of their own.")
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

    Each is dead or available, never both or neither, whatever crashes. What somebody holds stays.
    """
    from kestrelpy.cli import moving

    which = moving.Which(queue, to, numbers or [], everything, containing)
    moving.redrive(server, which, rate, dry_run, yes)


def move(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The queue they wait in.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Made if it is not there.")],
    count: Annotated[
        int | None, typer.Option(min=1, help="At most so many. Default: all that wait now.")
    ] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Move items that wait from one queue to the end of another, in their order.

    Each is in one of the two, never in both or neither, whatever crashes. What is lent or dead
    stays.
    """
    from kestrelpy.cli import moving

    moving.move(server, source, target, count, rate, dry_run, yes)
