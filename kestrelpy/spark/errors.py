"""Errors for users of the source: one sentence, then the remedy; and how to get it out of Spark.

Spark carries an exception of a planner or an executor to the driver as the text of its traceback,
inside a text of its own, inside one of Java. `sentence_of` finds the sentence in it.

    raise KestrelError  ->  "... KestrelError: No server at a:1. ..."  ->  "No server at a:1. ..."

One rule: the text of a KestrelError is one line that can always be printed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from journal.engine import is_engine, name_of

_OURS: Final = re.compile(r"\bKestrelError: (.+)")
# The line of a Python traceback that names the error, and the start of a line of Java's.
_RAISED: Final = re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Interrupt): .+)", re.M)
_SPARK_PREFIX: Final = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")


class KestrelError(Exception):
    """A read or a job cannot be done; the text is a sentence, then the remedy."""

    def __init__(self, text: str) -> None:
        line = " ".join(text.split())
        super().__init__(line.encode(errors="backslashreplace").decode())


def refuse_engine(path: str) -> None:
    """Raise KestrelError if a path is an engine's address."""
    if is_engine(path):
        raise KestrelError(
            f"{name_of(path)} is an engine, and the jobs over journals read folders. Make one with "
            "kestrelpy backup DEST --data-dir ADDRESS, also while a daemon runs, and read that."
        )


# A traceback names it as users import it.
KestrelError.__module__ = "kestrelpy.spark"


def sentence_of(error: BaseException) -> str:
    """Return the error in one line: our sentence if it has one, else the best line of Spark's."""
    text = str(error)
    if isinstance(error, KestrelError):
        return text
    for pattern in (_OURS, _RAISED):
        found = pattern.search(text)
        if found:
            return found[1].strip()
    lines = [line.strip().removeprefix(": ") for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("An error occurred while")]
    return _SPARK_PREFIX.sub("", lines[0]) if lines else type(error).__name__


@contextmanager
def one_sentence(*others: type[Exception]) -> Iterator[None]:
    """Wrap a call from Spark, so that no traceback goes with our sentence.

    `others` are errors of our other packages whose text is such a sentence. Spark reads the
    variable when it formats the error; the process ends after that, so no other error is affected.
    """
    ours: tuple[type[Exception], ...] = (KestrelError, *others)
    try:
        yield
    except ours as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise KestrelError(str(error)) from None
