# ruff: noqa: PLC0415
"""The command `kestrelpy`: every subcommand with its flags. What they do is in the files beside.

One rule: nothing is imported before the command that needs it runs, so that `--help` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kestrelpy.cli.errors import CommandError

app = typer.Typer(
    help="A queue daemon for memcache clients, and its tools.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file. Default: ./kestrelpy.toml, if it is there."),
]


def main() -> None:
    """Run one command and exit."""
    try:
        app(prog_name="kestrelpy")
    except CommandError as error:
        for line in str(error).splitlines():
            print(f"kestrelpy: {line}", file=sys.stderr)
        sys.exit(error.code)


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
    """Say whether the configuration is right, or everything that is wrong with it."""
    from kestrelpy.cli import serve as daemon

    daemon.check_config(config)
