# ruff: noqa: PLC0415
"""The command `kestrelpy`: the subcommands and their flags, implemented in the other files.

One rule: nothing is imported before the command that needs it runs, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import kestrelpy
from kestrelpy.cli.dead_commands import dead, move
from kestrelpy.cli.errors import NOTHING, UNUSABLE, CommandError
from kestrelpy.cli.options import DEFAULT_SERVER, Json, Number, Queue, Server, Yes
from kestrelpy.cli.spark import spark

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration file. Default: ./kestrelpy.toml, else /etc/kestrelpy/kestrelpy.toml.",
    ),
]

queues = typer.Typer(
    help="The queues and their settings.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(queues, name="queues")
schedules = typer.Typer(
    help="The schedules and their run times.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(schedules, name="schedules")
item = typer.Typer(help="Single items.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(item, name="item")
app.add_typer(dead, name="dead")
journal = typer.Typer(
    help="The journals of a data directory.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(journal, name="journal")
app.add_typer(spark, name="spark")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kestrelpy {kestrelpy.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A queue daemon for memcache clients, and its tools."""


def main() -> None:
    """Run one command and exit."""
    try:
        try:
            app(prog_name="kestrelpy")
        finally:
            sys.stdout.flush()
    except CommandError as error:
        _end(str(error), error.code)
    except OSError as error:  # most likely a full disk behind standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end(error.strerror or str(error), UNUSABLE)


def _end(text: str, code: int) -> NoReturn:
    for line in text.splitlines():
        print(f"kestrelpy: {line}", file=sys.stderr)
    sys.exit(code)


@app.command()
def serve(
    config: ConfigFile = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the journals live.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0: any free one.")] = None,
    http_port: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Run the daemon. SIGTERM ends it cleanly, SIGHUP reads its configuration again."""
    from kestrelpy.cli import serve as daemon

    if http_port:
        raise CommandError("--http-port: HTTP is not in this version yet; leave it out")
    flags = {"data_dir": data_dir, "host": host, "port": port}
    daemon.serve(config, {("server", key): value for key, value in flags.items()})


@app.command("check-config")
def check_config(config: ConfigFile = None) -> None:
    """Check the configuration and report every problem in it."""
    from kestrelpy.cli import serve as daemon

    daemon.check_config(config)


@app.command()
def status(
    server: Server = DEFAULT_SERVER,
    set_: Annotated[
        str | None, typer.Option("--set", help="Change it: up, readonly or quiescent.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the facts of a server."""
    from kestrelpy.cli import listing

    listing.status(server, set_, as_json)


@queues.command("ls")
def queues_ls(server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """List the queues with their counts."""
    from kestrelpy.cli import listing

    listing.queues_ls(server, as_json)


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
) -> None:
    """Create a queue with declared settings; on disk when this returns.

    Exit code 1: it has other declared settings, and keeps them.
    """
    from kestrelpy.cli import queues as commands

    commands.create(server, queue, settings or [], source)


@queues.command("show")
def queues_show(queue: Queue, server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """Show a queue's settings in force with their sources, and its counts."""
    from kestrelpy.cli import queues as commands

    commands.show(server, queue, as_json)


@queues.command("pause")
def queues_pause(queue: Queue, server: Server = DEFAULT_SERVER) -> None:
    """Lease nothing from QUEUE until it is resumed; it stores, confirms and shows as ever."""
    from kestrelpy.cli import item as single

    single.pause(server, queue, True)


@queues.command("resume")
def queues_resume(queue: Queue, server: Server = DEFAULT_SERVER) -> None:
    """Lease from a paused QUEUE again; waiting clients are served first."""
    from kestrelpy.cli import item as single

    single.pause(server, queue, False)


@schedules.command("ls")
def schedules_ls(server: Server = DEFAULT_SERVER, as_json: Json = False) -> None:
    """List the schedules: the next run of each, and the last one (at first: its start)."""
    from kestrelpy.cli import schedules as commands

    commands.ls(server, as_json)


@app.command()
def put(
    queue: Queue,
    text: Annotated[str, typer.Argument(help="The body. Without it, or -: standard input.")] = "-",
    lines: Annotated[bool, typer.Option("--lines", help="Store every line as an item.")] = False,
    expire: Annotated[int, typer.Option(min=0, metavar="SECONDS", help="0: never.")] = 0,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Store an item; on disk when this returns."""
    from kestrelpy.cli import items

    items.put(server, queue, text, lines, expire)


@app.command()
def get(
    queue: Queue,
    wait: Annotated[str | None, typer.Option(help="How long to wait for one, like 5s.")] = None,
    peek: Annotated[bool, typer.Option("--peek", help="Leave it in the queue.")] = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Take one item and print its body, exactly; exit code 1 when there is none."""
    from kestrelpy.cli import items

    if not peek:
        items.get(server, queue, wait)
    elif wait is None:
        items.peek(server, queue)
    else:
        raise CommandError("--peek and --wait do not go together")


@app.command()
def peek(queue: Queue, server: Server = DEFAULT_SERVER) -> None:
    """Print the next item's body and leave it in the queue; exit code 1 when there is none."""
    from kestrelpy.cli import items

    items.peek(server, queue)


@app.command()
def work(
    queue: Queue,
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="The command, after --.")],
    wait: Annotated[str, typer.Option(help="How long one fetch waits for an item.")] = "5s",
    lease: Annotated[
        str, typer.Option(help="How long a lease lasts; it is renewed while CMD runs.")
    ] = "30s",
    jobs: Annotated[int, typer.Option(min=1, max=1000, help="How many at a time.")] = 1,
    items_max: Annotated[
        int | None, typer.Option("--max", min=1, help="End after this many items.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="One item; exit code 1 if none comes, or it fails.")
    ] = False,
    defer_after: Annotated[
        str | None, typer.Option(help="SIGTERM to CMD after this time; its item is deferred.")
    ] = None,
    delay: Annotated[str, typer.Option(help="How long a deferred item waits.")] = "10s",
    bury: Annotated[
        str, typer.Option(metavar="CODES", help="Exit codes that make a dead letter, like 65,66.")
    ] = "",
    retry_delay: Annotated[
        str,
        typer.Option(help="How long a failed item waits; doubles up to 1m, ±10 %. 0s: not at all."),
    ] = "1s",
    max_attempts: Annotated[
        int | None,
        typer.Option(min=1, help="Failures that make a dead letter. Default: the queue's setting."),
    ] = None,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Run CMD per item, its body on standard input: exit code 0 confirms, others give it back.

    A failed item is tried again after --retry-delay. 75 defers it: it comes again after --delay,
    and no attempt is counted. With --bury and --max-attempts, the last line of CMD's standard error
    is the reason. CMD's environment has KESTREL_QUEUE, KESTREL_ITEM, KESTREL_ATTEMPTS, KESTREL_KEY
    and KESTREL_DEADLINE. The lease is renewed while CMD runs; if it is lost,
    CMD gets SIGTERM. SIGTERM lets the running one finish, a second one is passed on. If the server
    is away, the worker waits for it.
    """
    from kestrelpy.cli import work as worker

    worker.work(
        worker.WorkOptions(
            server, queue, command, wait, lease, jobs, items_max, once, defer_after, delay,
            worker.parse_codes(bury), retry_delay, max_attempts,
        )
    )  # fmt: skip


@item.command("show")
def item_show(
    queue: Queue, number: Number, server: Server = DEFAULT_SERVER, as_json: Json = False
) -> None:
    """Show where an item is, and why it is not delivered; exit code 1 when it is gone."""
    from kestrelpy.cli import item as single

    if not single.show(server, queue, number, as_json):
        raise typer.Exit(NOTHING)


@item.command("cancel")
def item_cancel(
    queue: Queue, number: Number, yes: Yes = False, server: Server = DEFAULT_SERVER
) -> None:
    """Remove a waiting item; one that is leased or dead stays."""
    from kestrelpy.cli import item as single

    single.cancel(server, queue, number, yes)


@item.command("retry")
def item_retry(queue: Queue, number: Number, server: Server = DEFAULT_SERVER) -> None:
    """Make a delayed item available now."""
    from kestrelpy.cli import item as single

    single.retry(server, queue, number)


Folder = Annotated[
    str | None,
    typer.Argument(help="A data directory, or a queue's folder. Default: the configuration's."),
]
DataDir = Annotated[
    str | None, typer.Option(help="The data directory. Default: the configuration's.")
]


@journal.command()
def dump(
    folder: Folder = None,
    data_dir: DataDir = None,
    from_lsn: Annotated[
        int, typer.Option("--from-lsn", "--lsn-from", min=0, help="Begin at this record.")
    ] = 0,
    queue: Annotated[str | None, typer.Option(help="Only this queue's.")] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="Bodies in full.")] = False,
    as_json: Json = False,
) -> None:
    """Print every record as a sentence; a daemon may be running."""
    from kestrelpy.cli import journal as tools

    words = [f"--from-lsn={from_lsn}"]
    words += [f"--queue={queue}"] if queue is not None else []
    words += ["--bodies"] if bodies else []
    words += ["--json"] if as_json else []
    raise typer.Exit(tools.run("dump", folder, data_dir, *words))


@journal.command()
def verify(folder: Folder = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show what is there and what is damaged; a daemon may be running.

    Exit code 0: no damage; 1: damage; 2: something cannot be read.
    """
    from kestrelpy.cli import journal as tools

    words = ["--json"] if as_json else []
    raise typer.Exit(tools.run("verify", folder, data_dir, *words))


@journal.command()
def repair(
    folder: Folder = None,
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would do, and change nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Set damage aside and keep all the rest; no daemon may be running."""
    from kestrelpy.cli import journal as tools

    words = ["--dry-run"] if dry_run else []
    words += ["--yes"] if yes else []
    raise typer.Exit(tools.run("repair", folder, data_dir, *words))


app.command("move")(move)


@app.command()
def backup(
    dest: Annotated[str, typer.Argument(metavar="DEST", help="An empty or new folder.")],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Copy every queue as of one moment, on disk when it returns; a daemon may be running."""
    from kestrelpy.cli import backup as tools

    tools.backup(dest, data_dir, as_json)


@app.command()
def restore(
    backup: Annotated[str, typer.Argument(metavar="BACKUP", help="A backup's folder.")],
    data_dir: DataDir = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace existing queues; their items are lost.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Restore the queues of a backup as new generations; no daemon may be running."""
    from kestrelpy.cli import restore as tools

    tools.restore(backup, data_dir, replace, yes)
