"""Stalls of one queue: what a single command does to very many items of it.

The one rule: as in `bench/stalls.py`: one operation, one entry.
"""

from bench.stalls import Operation

OPERATIONS: dict[str, Operation] = {}
