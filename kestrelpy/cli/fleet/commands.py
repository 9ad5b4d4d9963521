# ruff: noqa: PLC0415
"""`kestrelpy fleet ...`: the words of each command, and what it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kestrelpy.cli.options import HELP_FLAGS, Json, Watch
from kestrelpy.cli.usage import whole
from kestrelpy.placement import SLICES_MAX

fleet = typer.Typer(
    help="Make, look at and move the data of a fleet in an engine.",
    no_args_is_help=True, rich_markup_mode=None, context_settings=HELP_FLAGS,
)  # fmt: skip

Address = Annotated[
    str | None,
    typer.Argument(
        metavar="ADDRESS", show_default=False,
        help="The engine, postgresql://... or s3://... Default: the configuration's.",
    ),
]  # fmt: skip
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="The configuration whose [fleet] names the engine."
    ),
]
Single = Annotated[
    bool,
    typer.Option("--single", help="One PostgreSQL without a standby is enough."),
]


@fleet.command("init")
def fleet_init(
    address: Address = None,
    config: ConfigFile = None,
    single: Single = False,
    role: Annotated[
        str,
        typer.Option(metavar="NAME", help="The daemon's role: it gets the rights that it needs."),
    ] = "",
    print_: Annotated[
        bool,
        typer.Option("--print", help="Print the statements or the policy, and do nothing."),
    ] = False,
) -> None:
    """Make the tables, and name what the server's settings lack.

    It may be run again: tables of this version stay as they are. Exit code 1: the tables are there,
    and the daemon would refuse the server for what is named.
    """
    from kestrelpy.cli.fleet import fleet as tools

    if print_:
        tools.print_schema(address or "")
    else:
        tools.init(tools.engine_at(address, config, single), role)


@fleet.command("status")
def fleet_status(
    address: Address = None, config: ConfigFile = None, as_json: Json = False, watch: Watch = None
) -> None:
    """Show the member that owns the data, and those that wait for it.

    Exit code 1: no member owns it now.
    """
    from kestrelpy.cli.fleet import fleet as tools

    tools.status(tools.engine_at(address, config, False), as_json, watch)


@fleet.command("release")
def fleet_release(
    address: Address = None,
    config: ConfigFile = None,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait for the owner.")
    ] = "10s",
) -> None:
    """Let the owner give the data up and a standby take over.

    The owner answers what it has begun, and is a standby then; it leaves the data to the others for
    ten times its `takeover`. Exit code 1: no member owns it.
    """
    from kestrelpy.cli.fleet import fleet as tools

    tools.release(tools.engine_at(address, config, False, may_be_slice=True), timeout)


@fleet.command("members")
def fleet_members(
    address: Address = None, config: ConfigFile = None, as_json: Json = False, watch: Watch = None
) -> None:
    """Show the members, and which slices each owns and waits for."""
    from kestrelpy.cli.fleet import fleet as tools
    from kestrelpy.cli.fleet import members

    members.members(tools.engine_at(address, config, False), as_json, watch)


@fleet.command("owners")
def fleet_owners(
    address: Address = None, config: ConfigFile = None, as_json: Json = False
) -> None:
    """Show where the owner of each slice answers.

    A client that knows it can ask the owner of a queue itself; any other member sends it on.
    """
    from kestrelpy.cli.fleet import fleet as tools
    from kestrelpy.cli.fleet import members

    members.owners(tools.engine_at(address, config, False), as_json)


@fleet.command("takeovers")
def fleet_takeovers(
    address: Address = None, config: ConfigFile = None, as_json: Json = False
) -> None:
    """Show the last takeovers: when, why, and how long they took.

    `idle` is how long the owner before had said nothing, `took` the time from the claim until the
    new owner served. Of each slice the last 20 are kept.
    """
    from kestrelpy.cli.fleet import fleet as tools
    from kestrelpy.cli.fleet import members

    members.takeovers(tools.engine_at(address, config, False), as_json)


@fleet.command("drain")
def fleet_drain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The member.", show_default=False)],
    address: Address = None,
    config: ConfigFile = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let it take slices again.")] = False,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait for it.")
    ] = "1m",
) -> None:
    """Let the other members take the slices of one.

    It gives up one after the other and takes none, also after a restart, until --undo. Exit code 1:
    no member has this name.
    """
    from kestrelpy.cli.fleet import fleet as tools
    from kestrelpy.cli.fleet import members

    members.drain(tools.engine_at(address, config, False), name, undo, timeout)


@fleet.command("where")
def fleet_where(
    queues: Annotated[
        list[str],
        typer.Argument(metavar="QUEUE...", help="Queues or children.", show_default=False),
    ],
    config: ConfigFile = None,
    slices: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="With so many slices. Default: the configuration's.",
            parser=whole("--slices", 1, SLICES_MAX),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which slice has a queue, and its group.

    Queues of one group are in one slice. It asks no server: the name decides.
    """
    from kestrelpy.cli.fleet import where

    where.show(queues, config, slices, as_json)


@fleet.command("reslice")
def fleet_reslice(
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR", show_default=False,
            help="The data directory. Default: the configuration's.",
        ),
    ] = None,
    config: ConfigFile = None,
    slices: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="So many slices. Default: the configuration's.",
            parser=whole("--slices", 1, SLICES_MAX),
        ),
    ] = None,
) -> None:
    """Spread the queues of a stopped server over other slices.

    Write the new `slices` or `groups` of [fleet] before: the server is refused until this has run.
    Nothing is copied, and the old slices stay until the new ones are whole. After an end halfway,
    run it again: it goes on.
    """
    from kestrelpy.cli.fleet import reslice

    reslice.run(folder, config, slices)


First = Annotated[
    str, typer.Argument(metavar="DIR", help="A data directory.", show_default=False)
]
Second = Annotated[
    str | None,
    typer.Argument(
        metavar="ADDRESS", show_default=False,
        help="The engine, postgresql://... or s3://... Default: the configuration's.",
    ),
]  # fmt: skip


@fleet.command("import")
def fleet_import(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="A data directory.", show_default=False),
    ] = None,
    address: Second = None,
    config: ConfigFile = None,
    single: Single = False,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up",
            help="Without DIR: remove what an import that ended halfway has brought.",
        ),
    ] = False,
) -> None:
    """Move a data directory into an engine, compared and verified.

    No daemon may use the directory or the engine's data, and the engine must have none. After an
    end halfway, run it again: it goes on; or give it up. Nothing is served before all of it is
    there. DIR stays as it is.
    """
    from kestrelpy.cli.fleet import engine_moves as tools

    words = (folder, address)
    if give_up:
        tools.give_up(tools.engine_alone(words, config, single))
    else:
        tools.move_in(*tools.sorted_out(words, config, single))


@fleet.command("export")
def fleet_export(
    folder: First, address: Second = None, config: ConfigFile = None, single: Single = False
) -> None:
    """Move an engine's data into a folder, compared and verified.

    No daemon may use the engine's data. After an end halfway, run it again: it goes on. DIR exists
    when all of it is there; the engine's data stays as it is.
    """
    from kestrelpy.cli.fleet import engine_moves as tools

    tools.move_out(*tools.sorted_out((folder, address), config, single))
