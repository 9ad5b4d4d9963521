# ruff: noqa: PLC0415
"""The commands `dead ...` and `move` with their flags, implemented in the other files.

One rule: as in `app`: nothing is imported before the command that needs it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kestrelpy.cli.at import DEFAULT_SERVER, DEFAULT_TIMEOUT, at
from kestrelpy.cli.commands import Commands
from kestrelpy.cli.completion import complete_queue
from kestrelpy.cli.options import HELP_FLAGS, Json, Numbers, Queue, Server, Timeout, Yes
from kestrelpy.cli.usage import queue_name, whole

dead = Commands(
    help="List, redrive and purge dead letters.", no_args_is_help=True, rich_markup_mode=None,
    context_settings=HELP_FLAGS,
)  # fmt: skip

Everything = Annotated[bool, typer.Option("--all", help="Take all dead letters of the queue.")]
Rate = Annotated[
    str | None,
    typer.Option(metavar="N/s", help="At most this many a second, like 100/s. Default: no limit."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the items and change nothing.")]


@dead.command("ls")
def dead_ls(
    queue: Queue, server: Server = DEFAULT_SERVER, timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """List the dead letters of a queue, oldest first, with the reasons."""
    from kestrelpy.cli.dead import dead as line

    line.ls(at(server, timeout), queue, as_json)


@dead.command("purge")
def dead_purge(
    queue: Queue,
    numbers: Numbers = None,
    everything: Everything = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Remove dead letters for good.

    Name their numbers, or say --all. Dead letters that are leased stay.
    """
    from kestrelpy.cli.dead import dead as line

    line.purge(at(server, timeout), queue, numbers or [], everything, yes, as_json)


@dead.command("redrive")
def dead_redrive(
    queue: Queue,
    numbers: Numbers = None,
    everything: Everything = False,
    to: Annotated[
        str | None,
        typer.Option(metavar="QUEUE", help="Another queue. Default: the end of their own."),
    ] = None,
    containing: Annotated[
        str | None,
        typer.Option("--filter", metavar="TEXT", help="Only items with it in reason or body."),
    ] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Make dead letters available again, with no attempts counted.

    They have no expiry then. Name their numbers, or say --all. Each item is dead or available,
    never both or neither, even after a crash. Dead letters that are leased stay.
    """
    from kestrelpy.cli.dead import moving

    which = moving.Which(queue, to, numbers or [], everything, containing)
    moving.redrive(at(server, timeout), which, rate, dry_run, yes, as_json)


def move(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM", help="The queue of the items.", parser=queue_name,
            autocompletion=complete_queue,
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO", help="The queue they go to; created if it does not exist.",
            parser=queue_name, autocompletion=complete_queue,
        ),
    ],
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="At most this many. Default: all that wait now.",
            parser=whole("--count", 1),
        )
    ] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Move waiting items from one queue to another.

    They go to its end, in their order. Each is in one of the two, never in both or neither, even
    after a crash. Items that are leased or dead stay.
    """
    from kestrelpy.cli.dead import moving

    moving.move(at(server, timeout), source, target, count, rate, dry_run, yes, as_json)
