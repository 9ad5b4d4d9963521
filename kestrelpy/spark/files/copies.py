"""Groups of places with files of one journal, and the best copy of each segment.

    /a/jobs.1     1  2  3        /archive   1  2          one journal, each segment once
    /b/jobs.1     1  2  3'                                3' is no copy of 3: not mixed in

One rule: copies have the same first bytes; a file with the same number and other first bytes is of
another history.
"""

from __future__ import annotations

from kestrelpy.spark.files.discovery import Contents, FoundSegment, Problem


def by_journal(contents: list[Contents], problems: list[Problem]) -> list[list[Contents]]:
    """Group the places by journal; leave out a place whose history differs from the others'."""
    groups: dict[bytes, list[Contents]] = {}
    for each in contents:
        if not each.segments:
            continue
        group = groups.setdefault(each.chain.identity, [])
        other = next((o for one in group for o in one.segments for m in each.segments
                      if _differ(o, m)), None)  # fmt: skip
        if other is None:
            group.append(each)
            continue
        problems.append(
            Problem(
                f"{each.place.folder}: goes on otherwise than {other.place.folder}, though it is "
                f"the same journal (a restored backup beside its original?); not read. Read the "
                f"two apart."
            )
        )
    return list(groups.values())


def _differ(one: FoundSegment, other: FoundSegment) -> bool:
    """True if the two have one number but are no copies of each other."""
    if one.file.number != other.file.number:
        return False
    if not (one.file.lsn_first and other.file.lsn_first):
        return False  # one holds no record: a start may have given a spare's number again
    return bool(one.file.header and other.file.header) and one.header != other.header


def best_copies(group: list[Contents]) -> list[FoundSegment]:
    """Return each segment once, by number."""
    best: dict[int, FoundSegment] = {}
    for contents in group:
        for found in contents.segments:
            number = found.file.number
            there = best.setdefault(number, found)
            if there is found:
                continue
            first, second = (found, there) if _is_better(found, there, group) else (there, found)
            if first.footer is not None and second.goodness == first.goodness:
                first.copies = [*first.copies, *second.copies, second]
            best[number] = first
    return [best[number] for number in sorted(best)]


def _is_better(one: FoundSegment, other: FoundSegment, group: list[Contents]) -> bool:
    if one.goodness != other.goodness or one.footer is not None:
        return one.goodness > other.goodness
    scans = []
    for each in (one, other):  # both were still written to when they were copied
        chain = next(e.chain for e in group if e.place is each.place)
        scans.append(chain.scan(each.file).lsn_next)
    return scans[0] > scans[1]
