# ruff: noqa: PLC0415
"""The commands `queues ...`, `items ...` and `schedules ...` with their flags, implemented in the
other files.

One rule: as in `app`: nothing is imported before the command that needs it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kestrelpy.cli.at import DEFAULT_SERVER, DEFAULT_TIMEOUT, at
from kestrelpy.cli.commands import Commands
from kestrelpy.cli.options import HELP_FLAGS, Json, Queue, Server, Timeout, Watch, Yes
from kestrelpy.cli.usage import whole

queues = Commands(
    help="List, create, pause, flush and delete queues.", no_args_is_help=True,
    rich_markup_mode=None, context_settings=HELP_FLAGS,
)  # fmt: skip
items = Commands(
    help="List and show the items of a queue by marker.", no_args_is_help=True,
    rich_markup_mode=None, context_settings=HELP_FLAGS,
)  # fmt: skip
schedules = Commands(
    help="List schedules and their run times.", no_args_is_help=True, rich_markup_mode=None,
    context_settings=HELP_FLAGS,
)  # fmt: skip

Body = Annotated[bool, typer.Option("--body", help="Print the body as well.")]


@queues.command("ls")
def queues_ls(
    server: Server = DEFAULT_SERVER, timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False,
    watch: Watch = None,
) -> None:  # fmt: skip
    """List the queues with their counts and a total."""
    from kestrelpy.cli.queues import listing

    listing.queues_ls(at(server, timeout), as_json, watch)


@queues.command("create")
def queues_create(
    queue: Queue,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, like lease=5m; repeatable."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Settings as TOML; -: standard input."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Create a queue with declared settings.

    The queue is on disk when this returns. Exit code 1: it exists with other declared settings,
    and keeps them.
    """
    from kestrelpy.cli.queues import queues as commands

    commands.create(at(server, timeout), queue, settings or [], source, as_json)


@queues.command("show")
def queues_show(
    queue: Queue, server: Server = DEFAULT_SERVER, timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False, watch: Watch = None,
) -> None:  # fmt: skip
    """Show a queue's settings, where each comes from, and its counts."""
    from kestrelpy.cli.queues import queues as commands

    commands.show(at(server, timeout), queue, as_json, watch)


@queues.command("pause")
def queues_pause(
    queue: Queue, server: Server = DEFAULT_SERVER, timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Stop leasing items of a queue until it is resumed.

    A paused queue stores, confirms and shows items as before.
    """
    from kestrelpy.cli.items import item as single

    single.pause(at(server, timeout), queue, True, as_json)


@queues.command("resume")
def queues_resume(
    queue: Queue, server: Server = DEFAULT_SERVER, timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Lease items of a paused queue again.

    Waiting clients are served first.
    """
    from kestrelpy.cli.items import item as single

    single.pause(at(server, timeout), queue, False, as_json)


@queues.command("acknowledge")
def queues_acknowledge(
    queue: Queue, yes: Yes = False, server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False,
) -> None:  # fmt: skip
    """Give up the items of a queue that cannot be read.

    Their bodies on the disk are damaged. The queue is healthy again after it. Asks first, with the
    number of items.
    """
    from kestrelpy.cli.queues import queues as commands

    commands.acknowledge(at(server, timeout), queue, yes, as_json)


@queues.command("flush")
def queues_flush(
    queue: Queue, yes: Yes = False, server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False,
) -> None:  # fmt: skip
    """Remove the ready and delayed items of a queue.

    Leased items and dead letters stay. Asks first, with the number of items.
    """
    from kestrelpy.cli.queues import queues as commands

    commands.flush(at(server, timeout), queue, yes, as_json)


@queues.command("delete")
def queues_delete(
    queue: Queue, yes: Yes = False, server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False,
) -> None:  # fmt: skip
    """Delete a queue with all its items and files.

    Fan-out children keep their items. Asks first, with the number of items.
    """
    from kestrelpy.cli.queues import queues as commands

    commands.delete(at(server, timeout), queue, yes, as_json)


@items.command("ls")
def items_ls(
    queue: Queue,
    after: Annotated[
        int,
        typer.Option(
            metavar="MARKER", help="Begin after this marker.", parser=whole("--after", 0)
        ),
    ] = 0,
    count: Annotated[
        int,
        typer.Option(
            "--count", "-n", metavar="N", help="At most this many.", parser=whole("--count", 1)
        ),
    ] = 20,
    body: Body = False,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """List the items of a queue in the order of their markers.

    Ready and leased items, those that were given back with a delay, dead letters, and done items
    where the queue retains them. Items stored with a delay come last: they have no marker until
    they are due. Nothing is taken.
    """
    from kestrelpy.cli.items import browsing

    browsing.ls(at(server, timeout), queue, after, count, body, as_json)


@items.command("show")
def items_show(
    queue: Queue,
    marker: Annotated[
        int,
        typer.Argument(
            metavar="MARKER", help="The item's marker, as items ls prints it.",
            parser=whole("MARKER", 1), show_default=False,
        ),
    ],
    body: Body = False,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Show one item by its marker.

    Exit code 1: there is no item with this marker.
    """
    from kestrelpy.cli.items import browsing

    browsing.show(at(server, timeout), queue, marker, body, as_json)


@schedules.command("ls")
def schedules_ls(
    server: Server = DEFAULT_SERVER, timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False
) -> None:
    """List the schedules with their next and last run times."""
    from kestrelpy.cli.queues import schedules as commands

    commands.ls(at(server, timeout), as_json)
