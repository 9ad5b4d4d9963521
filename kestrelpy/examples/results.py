"""The results that the workers of `lines` recorded, and the verdict on them.

One rule: every repetition needs a reason that was recorded: for each further time that a line was
handled, a process was killed that had it leased.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kestrelpy.examples.producer import numbered_lines, standard_library_files

_SHOWN: Final = 10


class Results:
    """The workers' files, read as they grow."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._offsets = [0] * len(files)
        self._last: list[int | None] = [None] * len(files)
        self.numbers: Counter[int] = Counter()
        self.checksums: dict[int, set[bytes]] = {}
        self.unsure: list[int] = []

    @property
    def handled(self) -> int:
        """How many different lines were handled."""
        return len(self.numbers)

    def last_done(self, worker: int) -> int | None:
        """Return the line that a worker recorded last."""
        return self._last[worker]

    def read(self) -> bool:
        """Read the new results; return False if there is none."""
        grown = False
        for worker, path in enumerate(self._files):
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._offsets[worker])
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # being written
                    self._offsets[worker] += len(line)
                    self._take(worker, line.split())
                    grown = True
        return grown

    def _take(self, worker: int, words: list[bytes]) -> None:
        number = int(words[1])
        if words[0] == b"unsure":
            self.unsure.append(number)
            return
        self.numbers[number] += 1
        self.checksums.setdefault(number, set()).add(words[2])
        self._last[worker] = number


def expected_checksums(lines_max: int) -> list[bytes]:
    """Return the checksum of every line, by its number."""
    lines = numbered_lines(standard_library_files(), lines_max)
    return [b"%08x" % zlib.crc32(line) for _, line in lines]


def verdict(
    expected: Sequence[bytes], results: Results, reasons: Mapping[int, Sequence[str]]
) -> tuple[list[str], bool]:
    """Return the result in sentences, and True if all is well."""
    lost = [number for number in range(len(expected)) if number not in results.numbers]
    wrong = [
        number
        for number, sums in results.checksums.items()
        if number >= len(expected) or sums != {expected[number]}
    ]
    again = {number: count - 1 for number, count in results.numbers.items() if count > 1}
    causes: Counter[str] = Counter()
    unexplained = []
    for number, count in again.items():
        causes.update(reasons.get(number, ())[:count])
        if count > len(reasons.get(number, ())):
            unexplained.append(number)
    sentences = [
        f"{results.handled:,} of {len(expected):,} lines handled, {len(lost):,} lost",
        f"handled twice: {sum(again.values()):,}",
        *(f"    {count:,} {why}" for why, count in sorted(causes.items())),
    ]
    for what, numbers in (
        ("LOST", lost),
        ("NOT AS IT WAS SENT", wrong),
        ("TWICE WITHOUT A REASON", unexplained),
    ):
        if numbers:
            sentences.append(f"{what}: {len(numbers):,}, for instance {numbers[:_SHOWN]}")
    return sentences, not (lost or wrong or unexplained)
