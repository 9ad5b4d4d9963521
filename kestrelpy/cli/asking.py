"""A question before something is gone for good.

One rule: only a clear yes counts; without an answer nothing happens.
"""

from __future__ import annotations

import sys


def asked(question: str) -> bool:
    """Return True for a yes on standard input; anything else, and its end, is no."""
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
