# ruff: noqa: PLC0415
"""`kestrelpy spark <job>`: the jobs of `kestrelpy.spark.jobs`, each with its flags.

    kestrelpy spark audit DIR        exit code 0: the books balance, 1: they do not, 2: unusable
    kestrelpy spark lifecycle DIR --out TABLES
    kestrelpy spark report DIR --out FOLDER

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
    help="Run Spark jobs over the journals of many servers.",
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

    It may be run again.
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

    The figures of its plots are beside it as CSV.
    """
    _check()
    from kestrelpy.spark.jobs.common.job import Request
    from kestrelpy.spark.jobs.report import report as job

    request = Request(tuple(paths), out, as_json, summary, master=master)
    raise typer.Exit(job.command(request, job.Look(title or job.TITLE, queues, interval)))


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

    work = import_module(f"kestrelpy.spark.jobs.{job}.{job}").work
    request = Request(tuple(paths), out, as_json, summary, examples, master)
    raise typer.Exit(run(job, work, request))
