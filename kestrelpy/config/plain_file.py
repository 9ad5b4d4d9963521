"""Reading a small file that an operator names: it may be anything.

One rule: only a regular file is read. To open a pipe waits until somebody writes to it, a device
may never end, and a file without a bound fills the memory.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

FILE_BYTES_MAX: Final = 16 << 20
_KINDS: Final = (
    (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)  # fmt: skip


def read_plain(path: Path) -> bytes:
    """Return the content of the file; raise OSError. The call blocks while the disk does."""
    if str(path) == os.devnull:
        return b""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        for is_kind, kind in _KINDS:
            if is_kind(found.st_mode):
                raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES_MAX:
        raise OSError(errno.EFBIG, f"it has more than {FILE_BYTES_MAX >> 20} MiB", str(path))
    return data
