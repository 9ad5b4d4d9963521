"""A question before something is gone for good, and what was done after it.

One rule: only a clear yes counts; without an answer nothing happens. Standard output has what was
done and nothing else, for programs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping


def asked(question: str) -> bool:
    """Return True for a yes on standard input; anything else, and its end, is no."""
    print(f"{question} [y/N] ", end="", flush=True, file=sys.stderr)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def report(as_json: bool, facts: Mapping[str, object], text: str) -> None:
    """Print what was done: as an object of JSON, or as text."""
    print(json.dumps(facts) if as_json else text)
