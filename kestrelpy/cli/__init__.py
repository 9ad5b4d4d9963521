"""The command `kestrelpy`. `app` declares the subcommands; each one is implemented in its own
file."""

from kestrelpy.cli.app import main

__all__ = ["main"]
