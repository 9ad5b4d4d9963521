"""A question before something is gone for good.

One rule: only a clear yes is one; without anybody there to answer, nothing happens.
"""

from __future__ import annotations

import sys


def asked(question: str) -> bool:
    """Yes from standard input; anything else, and its end, is no."""
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
