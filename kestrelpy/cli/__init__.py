"""The command `kestrelpy`. `app` declares the subcommands, and a package for each noun has theirs.

    queues/  dead/  fleet/    `commands` declares the flags of the noun, the others do the work
    items/                    put and taken, looked at by marker, changed one at a time
    journals/                 backups, the journals of Kestrel, repairs: without a server
    status/                   whether all is well, and the busiest queues
"""

from kestrelpy.cli.app import main

__all__ = ["main"]
