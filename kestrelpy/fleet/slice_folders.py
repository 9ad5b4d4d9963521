"""The folders of the slices in a data directory.

    data/slices-4/1 ... data/slices-4/4      each is the data directory of one slice
    data/reslice                             another number of slices is being made of them

One rule: the name of the folder has the number of slices, so that a start with another number finds
no empty queues, but is refused; and so is one with other groups, which would send clients past a
queue.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from journal.files import Disk, Files
from journal.format import FILE_HEADER_BYTES, Checkpoint, Kind, is_cut_name, parse_folder_name
from journal.store import ordered_segments
from kestrelpy.placement import Placement

_SLICES: Final = "slices-"
RESLICE_NOTE: Final = "reslice"  # the file that `fleet reslice` has until its end


def make_slice_folders(files: Files, data_dir: Path, slices: int) -> list[Path]:
    """Make the folder of the slices, if it is not there; return the data directory of each. Raise
    OSError. Blocks."""
    folder = data_dir / f"{_SLICES}{slices}"
    files.make_folder(str(data_dir))
    files.make_folder(str(folder))
    return [folder / str(number) for number in range(1, slices + 1)]


def slices_in(data_dir: Path) -> list[Path]:
    """Return the data directory of each slice that has its folder here, by number. Blocks."""
    return sorted(
        (each for each in data_dir.glob(f"{_SLICES}*/*") if each.name.isdecimal()),
        key=lambda each: int(each.name),
    )


def slice_of_folder(folder: Path) -> tuple[int, int]:
    """Return the number of the slice that is in this folder, and of how many: data/slices-4/3."""
    of, number = folder.parent.name.removeprefix(_SLICES), folder.name
    is_one = folder.parent.name.startswith(_SLICES) and of.isdecimal() and number.isdecimal()
    return (int(number), int(of)) if is_one else (1, 1)


def why_other_slices(
    data_dir: Path, placement: Placement, is_sliced: Callable[[bytes], bool] = lambda name: False
) -> str:
    """Return why the queues in this directory cannot have these places; "" if they can. `is_sliced`
    says of a queue whether it may be in any slice. Blocks."""
    slices = placement.slices
    try:
        names = [each.name for each in data_dir.iterdir()]
    except OSError:
        return ""  # whatever it is, another check names it
    if why := why_resliced(data_dir):
        return why
    own = f"{_SLICES}{slices}" if slices > 1 else ""
    other = next((each for each in names if each.startswith(_SLICES) and each != own), None)
    if other is not None:
        number = other.removeprefix(_SLICES)
        return (
            f"its queues are in {number} slices: write slices = {number} in [fleet], or move them "
            "with `kestrelpy fleet reslice`"
        )
    if own and any(parse_folder_name(each)[1] for each in names):
        return (
            "its queues are in no slice: leave out slices in [fleet], or move them with `kestrelpy "
            "fleet reslice`"
        )
    return _why_other_place(data_dir / own, placement, is_sliced) if own in names else ""


def why_resliced(data_dir: Path) -> str:
    """Return why nobody can use this directory, or the slice that it is, before `fleet reslice` has
    ended; "" if it does not run. Blocks."""
    whole = data_dir if slice_of_folder(data_dir)[1] == 1 else data_dir.parent.parent
    if not (whole / RESLICE_NOTE).is_file():
        return ""
    return (
        f"the queues of {whole} are on their way to other slices: run `kestrelpy fleet reslice` "
        "again, and it goes on"
    )


def _why_other_place(
    folder: Path, placement: Placement, is_sliced: Callable[[bytes], bool]
) -> str:
    """Return which queue is in another slice than the one that clients would be sent to."""
    for number in range(1, placement.slices + 1):
        try:
            names = sorted(each.name for each in (folder / str(number)).iterdir())
        except OSError:
            continue  # it is made at the start, which names what is wrong
        for name in names:
            queue = _queue_in(folder / str(number) / name)
            if not queue or is_sliced(queue):
                continue
            if (wanted := placement.slice_of(queue)) != number:
                return (
                    f"queue {queue.decode('ascii', 'replace')} is in slice {number}, and by groups "
                    f"in [fleet] its place is slice {wanted}: write the groups that it was made "
                    "with, or move it with `kestrelpy fleet reslice`; if it was sliced, write "
                    "sliced = true in its block"
                )
    return ""


def _queue_in(folder: Path) -> bytes:
    """Return the name of the queue in this folder; empty: it is no queue's, or nothing says it."""
    name, generation = parse_folder_name(folder.name)
    if not generation or not is_cut_name(folder.name):
        return name if generation else b""
    with suppress(OSError):
        for frames, _ in ordered_segments(Disk(), str(folder)):
            opening = frames.record(FILE_HEADER_BYTES)
            if opening is not None and opening.kind == Kind.CHECKPOINT:
                return Checkpoint.from_record(opening).name
    return b""
