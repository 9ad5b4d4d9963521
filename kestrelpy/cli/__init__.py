"""The command `kestrelpy`. Every subcommand stands in `app`; what it does, in a file of its own."""

from kestrelpy.cli.app import main

__all__ = ["main"]
