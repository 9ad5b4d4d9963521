# ruff: noqa: PLC0415
"""`kestrelpy spark <job>`: the jobs of `kestrelpy.spark.jobs`, each with its flags.

    kestrelpy spark audit DIR        exit code 0: the books balance, 1: they do not, 2: unusable
    kestrelpy spark lifecycle DIR --out TABLES
    kestrelpy spark report DIR --out FOLDER
    kestrelpy spark lag --servers A,B        over servers, without Spark
    kestrelpy spark redrive --servers A,B
    kestrelpy spark drain --servers A,B --queues Q --out TABLES
    kestrelpy spark backfill FILE --servers A,B --queue Q
    kestrelpy spark copy --servers A,B --queues Q --to C,D

One rule: nothing of Spark is imported before a job runs; if it is missing, the error says what to
install.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.options import HELP_FLAGS
from kestrelpy.cli.usage import whole

spark = typer.Typer(
    help="Run jobs over many servers, and Spark jobs over their journals.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=HELP_FLAGS,
)

_EXAMPLES: Final = 20

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...", help="Data directories, backups, archives; wildcards are expanded.",
        show_default=False,
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="One line of JSON, for programs.")]
Summary = Annotated[
    str | None, typer.Option("--summary", metavar="FILE", help="Also write that line to this file.")
]
Master = Annotated[
    str | None, typer.Option(help="Spark's master. Default: as configured, else this machine.")
]


Servers = Annotated[
    str,
    typer.Option(
        metavar="LIST", help="The servers, like a:22133,b:22133.", envvar="KESTRELPY_SERVER",
        show_default=False,
    ),
]  # fmt: skip
Queues = Annotated[str, typer.Option(metavar="LIST", help="Names or wildcards, with commas.")]
Words = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", show_default=False,
        help="An option of the source, like readTimeout=60s or skipUnreachable=true.",
    ),
]  # fmt: skip
ToWords = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", show_default=False,
        help="An option of the sink, like writeTimeout=10m.",
    ),
]  # fmt: skip


@spark.command()
def audit(
    paths: Paths,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="For the full lists of findings, as Parquet.")
    ] = None,
    examples: Annotated[int, typer.Option(
        metavar="N", help="Rows printed of each list.", parser=whole("--examples", 1)
    )] = (
        _EXAMPLES
    ),
    as_json: Json = False,
    summary: Summary = None,
    master: Master = None,
) -> None:
    """Check whether anything was lost, doubled or out of order.

    A daemon may be running. Exit code 0: the books of every queue balance; 1: they do not;
    2: this is unknown.
    """
    _run("audit", paths, out, as_json, summary, examples, master)


@spark.command()
def lifecycle(
    paths: Paths,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where the tables go.")],
    as_json: Json = False,
    summary: Summary = None,
    master: Master = None,
) -> None:
    """Write one row for each item, as Parquet by date, server and queue.

    A second run reads what is new since the last one.
    """
    _run("lifecycle", paths, out, as_json, summary, _EXAMPLES, master)


@spark.command()
def report(
    paths: Paths,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Where the page and its tables go.")
    ] = "kestrelpy-report",
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
    queues: Annotated[
        int,
        typer.Option(
            metavar="N", help="Busiest queues with plots of their own.",
            parser=whole("--queues", 1, 100),
        ),
    ] = 12,
    interval: Annotated[
        str | None, typer.Option(help="Width of a point in time, like 5m. Default: by the span.")
    ] = None,
    as_json: Json = False,
    summary: Summary = None,
    master: Master = None,
) -> None:
    """Write an HTML page with rates, depth, latencies and dead letters.

    The figures of its plots are in the same folder, as CSV.
    """
    _check()
    from kestrelpy.spark.jobs import report as job
    from kestrelpy.spark.jobs.common.job import Request

    request = Request(tuple(paths), out, as_json, summary, master=master)
    raise typer.Exit(job.command(request, job.PageLook(title or job.TITLE, queues, interval)))


@spark.command()
def lag(
    servers: Servers,
    queues: Queues = "*",
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Between the two looks.")
    ] = "5s",
    most_items: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="More unfinished items are exit code 1.",
            parser=whole("--most-items", 0), show_default=False,
        ),
    ] = None,
    most_age: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="An older item is exit code 1.", show_default=False
        ),
    ] = None,
    option: Words = None,
    as_json: Json = False,
    summary: Summary = None,
) -> None:
    """Show how far each consumer is behind, and the time to drain.

    It looks at the servers twice and takes no item. Each child or cursor is a consumer of its own.
    """
    _check_packages()
    from kestrelpy.spark.jobs import lag as job

    watch = job.Watch(interval, most_items, most_age)
    raise typer.Exit(job.command(servers, queues, option or [], watch, as_json, summary))


@spark.command()
def redrive(
    servers: Servers,
    queues: Queues,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="QUEUE", help="To this queue. Default: to the queue where they died.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only with this in their reason.", show_default=False),
    ] = None,
    attempts: Annotated[
        int,
        typer.Option(
            metavar="N", help="Only with N attempts or more.",
            parser=whole("--attempts", 0),
        ),
    ] = 0,
    died_from: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only since then, like 2026-01-31T12:00.", show_default=False
        ),
    ] = None,
    died_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only before then.", show_default=False)
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="N/s", help="At most N a second, over all servers.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    option: Words = None,
    as_json: Json = False,
    summary: Summary = None,
) -> None:
    """Put dead letters of many servers back to queues.

    It may be run again: each death is redriven once. Exit code 1: some that were chosen stay.
    """
    _check_packages()
    from kestrelpy.spark.jobs import redrive as job

    choice = job.Choice(to, reason, attempts, rate, dry_run)
    times = {"startingTimestamp": died_from, "endingTimestamp": died_before}
    raise typer.Exit(
        job.command(servers, queues, option or [], times, choice, as_json, summary)
    )


@spark.command()
def drain(
    servers: Servers,
    queues: Queues,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where the tables go.")],
    at_once: Annotated[
        int,
        typer.Option(
            metavar="N", help="Items of one commit, about.", parser=whole("--at-once", 1)
        ),
    ] = 1_000_000,
    option: Words = None,
    as_json: Json = False,
    summary: Summary = None,
    master: Master = None,
) -> None:
    """Move items to Parquet by date, each of them once.

    Items are confirmed once they are committed. It may be killed and run again.
    """
    _check()
    from kestrelpy.spark.jobs import drain as job

    raise typer.Exit(
        job.command(servers, queues, option or [], out, at_once, master, as_json, summary)
    )


@spark.command()
def backfill(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files, folders, wildcards.", show_default=False),
    ],
    servers: Servers,
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="Where the items go.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", show_default=False,
            help="text, json, csv or parquet. Default: by the names of the files.",
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The body. Default: the row, as JSON.", show_default=False
        ),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Default: made of the content.", show_default=False
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Rows of one key go to one server.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Of the write. Default: made of the paths and the queue.", show_default=False
        ),
    ] = None,
    option: ToWords = None,
    as_json: Json = False,
    summary: Summary = None,
) -> None:
    """Store the rows of files in a queue, each once, in their order.

    It may be run again with the same words: rows that are stored already are not stored again. A
    file that cannot be read whole is refused with the line, and nothing is stored. Exit code 1:
    rows of one id differ, and only the first is stored.
    """
    _check_packages()
    from kestrelpy.spark.jobs import backfill as job

    files = job.InputFiles(tuple(paths), form, value, id_, key)
    raise typer.Exit(job.command(files, servers, queue, name, option or [], as_json, summary))


@spark.command()
def copy(
    servers: Servers,
    queues: Queues,
    to: Annotated[
        str,
        typer.Option(metavar="LIST", help="The servers to copy to.", show_default=False),
    ],
    to_queue: Annotated[
        str | None,
        typer.Option(metavar="QUEUE", help="Default: the same names.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Of the write. Default: made of the queues.", show_default=False),
    ] = None,
    option: Words = None,
    to_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", show_default=False,
            help="An option of the sink, like writeTimeout=10m.",
        ),
    ] = None,
    as_json: Json = False,
    summary: Summary = None,
    master: Master = None,
) -> None:
    """Copy items to queues of other servers, each of them once.

    It may be run again with the same words, and copies what came since.
    """
    _check()
    from kestrelpy.spark.jobs import copy as job

    ways = job.Ways(servers, queues, to, to_queue, name)
    raise typer.Exit(
        job.command(ways, option or [], to_option or [], as_json, summary, master)
    )


def _check_packages() -> None:
    """Check that the packages are installed that a job without Spark needs; raise CommandError."""
    from kestrelpy.spark.session import NEEDED_BY_SERVERS, missing_packages

    missing = missing_packages(NEEDED_BY_SERVERS)
    if missing is not None:
        raise CommandError(missing)


def _check() -> None:
    """Check that everything that Spark needs is installed; raise CommandError."""
    from kestrelpy.spark.session import NEEDED_BY_JOBS, what_is_missing

    missing = what_is_missing(NEEDED_BY_JOBS)
    if missing is not None:
        raise CommandError(missing)


def _run(
    job: str, paths: list[str], out: str | None, as_json: bool, summary: str | None, examples: int,
    master: str | None,
) -> None:  # fmt: skip
    """Run one of the jobs and exit."""
    _check()
    from importlib import import_module

    from kestrelpy.spark.jobs.common.job import Request, run

    work = import_module(f"kestrelpy.spark.jobs.{job}").work
    request = Request(tuple(paths), out, as_json, summary, examples, master)
    raise typer.Exit(run(job, work, request))
