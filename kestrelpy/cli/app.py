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
from typer.exceptions import TyperException

import kestrelpy
from kestrelpy.cli.at import DEFAULT_SERVER, DEFAULT_TIMEOUT, at
from kestrelpy.cli.commands import Commands
from kestrelpy.cli.completion import complete_shell
from kestrelpy.cli.dead.commands import dead, move
from kestrelpy.cli.errors import NOTHING, UNUSABLE, CommandError
from kestrelpy.cli.fleet.commands import fleet
from kestrelpy.cli.options import (
    HELP_FLAGS,
    Json,
    Number,
    Queue,
    QueueKey,
    Server,
    Timeout,
    Watch,
    Yes,
)
from kestrelpy.cli.queues.commands import items, queues, schedules
from kestrelpy.cli.spark import spark
from kestrelpy.cli.usage import port_or_off, sentence, whole
from kestrelpy.compiled import KIND

app = Commands(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=HELP_FLAGS,
)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file. Default: ./kestrelpy.toml, else /etc/kestrelpy/kestrelpy.toml.",
    ),
]

app.add_typer(queues, name="queues")
app.add_typer(items, name="items")
app.add_typer(schedules, name="schedules")
item = Commands(
    help="Show, cancel and retry single items.", no_args_is_help=True, rich_markup_mode=None,
    context_settings=HELP_FLAGS,
)  # fmt: skip
app.add_typer(item, name="item")
app.add_typer(dead, name="dead")
journal = typer.Typer(
    help="Check, print and repair the journals of a data directory.", no_args_is_help=True,
    rich_markup_mode=None, context_settings=HELP_FLAGS,
)  # fmt: skip
app.add_typer(journal, name="journal")
app.add_typer(fleet, name="fleet")
app.add_typer(spark, name="spark")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kestrelpy {kestrelpy.__version__} ({KIND})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """A queue daemon for memcache clients, and its tools."""


def main() -> None:
    """Run one command and exit."""
    try:
        try:
            code = app(prog_name="kestrelpy", standalone_mode=False)
        finally:
            if sys.stdout is not None:  # it was closed before the start
                sys.stdout.flush()
    except CommandError as error:
        _end(str(error), error.code)
    except TyperException as error:
        if "\n" in error.format_message():  # the help of a command that needs a subcommand
            print(error.format_message())
            sys.exit(UNUSABLE)
        _end(sentence(error), UNUSABLE)
    except typer.Abort:
        _end("nothing was changed", NOTHING)
    except OSError as error:  # most likely a full disk behind standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end(error.strerror or str(error), UNUSABLE)
    if code:
        sys.exit(code)


def _end(text: str, code: int) -> NoReturn:
    for line in text.splitlines():
        print(f"kestrelpy: {line}", file=sys.stderr)
    sys.exit(code)


@app.command()
def serve(
    config: ConfigFile = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the journals live.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Port to listen on; 0: any free one.",
            parser=whole("--port", 0, 65535),
        ),
    ] = None,
    http_port: Annotated[
        str | None,
        typer.Option(
            metavar="PORT", help="Port for HTTP, or off; 0: any free one.",
            parser=port_or_off("--http-port"),
        ),
    ] = None,
) -> None:
    """Run the daemon.

    SIGTERM ends it cleanly; SIGHUP reads the configuration again.
    """
    from kestrelpy.cli import serve as daemon

    flags = {"data_dir": data_dir, "host": host, "port": port, "http_port": http_port}
    daemon.serve(config, {("server", key): value for key, value in flags.items()})


@app.command("check-config")
def check_config(config: ConfigFile = None) -> None:
    """Check the configuration and report every problem in it."""
    from kestrelpy.cli import serve as daemon

    daemon.check_config(config)


@app.command("hash-secret")
def hash_secret() -> None:
    """Print the scrypt form of a secret, read from standard input."""
    from kestrelpy.cli import serve as daemon

    daemon.hash_secret()


@app.command()
def status(
    server: Server = DEFAULT_SERVER,
    set_: Annotated[
        str | None,
        typer.Option("--set", metavar="MODE", help="Change it: up, readonly or quiescent."),
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
    watch: Watch = None,
) -> None:
    """Show a server's mode, health, counts and totals."""
    from kestrelpy.cli.queues import listing

    listing.status(at(server, timeout), set_, as_json, watch)


@app.command()
def top(
    sort: Annotated[
        str, typer.Option(metavar="COLUMN", help="The order: name, items, in, out, age, ...")
    ] = "items",
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="How long from one print to the next.")
    ] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    count: Annotated[
        int,
        typer.Option(
            "--count", "-n", metavar="N", help="At most this many queues.",
            parser=whole("--count", 1),
        ),
    ] = 30,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Show the busiest queues, live.

    At a terminal the table is renewed until q or Ctrl-C; the last line names the keys that sort it.
    In a pipe it is printed once.
    """
    from kestrelpy.cli.status import top as live

    live.top(at(server, timeout), sort, interval, once, count, as_json)


@app.command()
def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL", help="bash, zsh or fish.", autocompletion=complete_shell,
            show_default=False,
        ),
    ],
) -> None:
    """Print the completion script of a shell.

    Once for this shell: eval "$(kestrelpy completion bash)". For good: kestrelpy
    --install-completion.
    """
    from kestrelpy.cli import completion as shells

    os.environ[shells.VARIABLE] = shells.request_of(shell)
    app(prog_name="kestrelpy")


@app.command()
def put(
    queue: QueueKey,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The body; without it or -: standard input.")
    ] = "-",
    lines: Annotated[bool, typer.Option("--lines", help="Store every line as an item.")] = False,
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Available after this time, like 90s.")
    ] = None,
    at_: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="DATE", help="Available at this time, like 2030-01-31T18:00:00Z."
        ),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Store nothing if the queue has seen this id."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="TEXT", help="Items with the same key are leased one after the other; "
            "repeatable for a key of several values.",
        ),
    ] = None,
    expire: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Remove it after this time, like 1h."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Store an item.

    The item is on disk when this returns.
    """
    from kestrelpy.cli.items import items as commands

    options = commands.PutOptions(delay, at_, id_, key or [], expire)
    commands.put(at(server, timeout), queue, text, lines, options, as_json)


@app.command()
def get(
    queue: QueueKey,
    wait: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to wait for an item, like 5s.")
    ] = None,
    peek: Annotated[bool, typer.Option("--peek", help="Leave it in the queue.")] = False,
    server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:
    """Take one item and print its body.

    The body is printed byte for byte, and confirmed then. Exit code 1: no item is ready.
    """
    from kestrelpy.cli.items import items as commands

    if not peek:
        commands.get(at(server, timeout), queue, wait, as_json)
    elif wait is None:
        commands.peek(at(server, timeout), queue, as_json)
    else:
        raise CommandError("--peek and --wait do not go together")


@app.command()
def peek(
    queue: QueueKey, server: Server = DEFAULT_SERVER, timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Print the next item's body and leave it in the queue.

    Exit code 1: no item is ready.
    """
    from kestrelpy.cli.items import items as commands

    commands.peek(at(server, timeout), queue, as_json)


@app.command()
def work(
    queue: Queue,
    command: Annotated[
        list[str], typer.Argument(metavar="CMD", help="The command, after --.")
    ],
    wait: Annotated[str, typer.Option(help="How long one fetch waits for an item.")] = "5s",
    lease: Annotated[
        str, typer.Option(help="How long a lease lasts; it is renewed while CMD runs.")
    ] = "30s",
    jobs: Annotated[
        int,
        typer.Option(metavar="N", help="How many at a time.", parser=whole("--jobs", 1, 1000)),
    ] = 1,
    items_max: Annotated[
        int | None,
        typer.Option(
            "--max", metavar="N", help="End after this many items.", parser=whole("--max", 1)
        ),
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
    """Run a command for every item.

    CMD gets the body on standard input. Exit code 0 confirms the item, others give it back:
    it is tried again after --retry-delay. 75 defers it: it comes again after --delay,
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
    queue: Queue, number: Number, server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False,
) -> None:  # fmt: skip
    """Show where an item is and why it is not delivered.

    Exit code 1: the item is gone.
    """
    from kestrelpy.cli.items import item as single

    if not single.show(at(server, timeout), queue, number, as_json):
        raise typer.Exit(NOTHING)


@item.command("cancel")
def item_cancel(
    queue: Queue, number: Number, yes: Yes = False, server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False,
) -> None:  # fmt: skip
    """Remove a waiting item.

    An item that is leased or dead stays.
    """
    from kestrelpy.cli.items import item as single

    single.cancel(at(server, timeout), queue, number, yes, as_json)


@item.command("retry")
def item_retry(
    queue: Queue, number: Number, server: Server = DEFAULT_SERVER,
    timeout: Timeout = DEFAULT_TIMEOUT, as_json: Json = False,
) -> None:  # fmt: skip
    """Make a delayed item available now."""
    from kestrelpy.cli.items import item as single

    single.retry(at(server, timeout), queue, number, as_json)


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
        int,
        typer.Option(
            "--from-lsn", "--lsn-from", metavar="LSN", help="Begin at this record.",
            parser=whole("--from-lsn", 0),
        ),
    ] = 0,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Only records of this queue.")
    ] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="Print bodies in full.")] = False,
    as_json: Json = False,
) -> None:
    """Print every record as a sentence.

    A daemon may be running.
    """
    from kestrelpy.cli.journals import journal as tools

    words = [f"--from-lsn={from_lsn}"]
    words += [f"--queue={queue}"] if queue is not None else []
    words += ["--bodies"] if bodies else []
    words += ["--json"] if as_json else []
    raise typer.Exit(tools.run("dump", folder, data_dir, *words))


@journal.command()
def verify(folder: Folder = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Check every file and name each damage.

    A daemon may be running. Exit code 0: no damage; 1: damage; 2: something cannot be read.
    """
    from kestrelpy.cli.journals import journal as tools

    words = ["--json"] if as_json else []
    raise typer.Exit(tools.run("verify", folder, data_dir, *words))


@journal.command()
def repair(
    folder: Folder = None,
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would do and change nothing.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Set damaged parts aside and keep all the rest.

    No daemon may be running.
    """
    from kestrelpy.cli.journals import journal as tools

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
    """Back up every queue as of one moment.

    The backup is on disk when this returns. A daemon may be running.
    """
    from kestrelpy.cli.journals import backup as tools

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
    """Restore the queues of a backup.

    Each becomes a new generation of its queue. No daemon may be running.
    """
    from kestrelpy.cli.journals import restore as tools

    tools.restore(backup, data_dir, replace, yes)


@app.command("import-kestrel")
def import_kestrel(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Kestrel's queuePath.")],
    data_dir: DataDir = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Only this queue; repeatable.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would import, and write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Import the queues of Kestrel 1.x or 2.x.

    Neither Kestrel nor a daemon may be running. After an end halfway, run it again: it goes on.
    Exit code 1: something in SRC is damaged or left out, and named.
    """
    from kestrelpy.cli.journals import import_kestrel as tools
    from kestrelpy.cli.journals.place import data_folder, plain_folder

    folder = plain_folder(source, "SRC")
    request = tools.ImportRequest(folder, data_folder(data_dir), queue or [], dry_run)
    tools.import_kestrel(request, as_json)


@app.command("export-kestrel")
def export_kestrel(
    dest: Annotated[str, typer.Argument(metavar="DEST", help="An empty or new directory.")],
    data_dir: DataDir = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="Only this queue; repeatable.")
    ] = None,
) -> None:
    """Write the queues as journals of Kestrel; no daemon may be running."""
    from kestrelpy.cli.journals import export_kestrel as tools
    from kestrelpy.cli.journals.place import data_folder, plain_folder

    tools.export_kestrel(plain_folder(dest, "DEST"), data_folder(data_dir), queue or [])
