"""The file `server-id`: the id of the server in this data directory, made once.

Origins of moved items name their server. Under another id a start would take a copy for another
server's and leave the original there. Every segment of a journal opens with the id as well: if
the file is damaged or missing, the journals give it. Files of earlier versions hold the id in 33
bytes, without a checksum; they are read once, compared with the journals, and written anew.

One rule: a new id is never made while a journal names one.
"""

from __future__ import annotations

import errno
import operator
import os
import re
import uuid
from collections import Counter
from typing import Final

from journal.files import Files
from journal.format import FILE_HEADER_BYTES, Checkpoint, Kind, parse_folder_name
from journal.store import ordered_segments
from kestrelpy.server.directory.word_file import FILE_BYTES, WordFile, content

NAME: Final = "server-id"
_ID: Final = re.compile(rb"[0-9a-f]{32}")


def take_server_id(files: Files, folder: str) -> tuple[str, str]:
    """Return the id of this data directory and a sentence on damage; make a first id. Blocks."""
    file = WordFile(files, os.path.join(folder, NAME))
    if not file.is_there:
        said = _most_said(files, folder)
        taken = said or new_id()
        make_server_id(files, folder, taken)
        missing = f"{file.path}: missing; this server is {taken.decode()}, as the journals say"
        return taken.decode(), missing if said else ""
    copies = file.read()
    whole = [word for word in copies.whole if _ID.fullmatch(word)]
    damaged = ""
    if copies.old is not None and _ID.fullmatch(copies.old[:-1]) and copies.old[-1:] == b"\n":
        whole = [copies.old[:-1]]
        for each in _said_by_journals(files, folder)[0]:
            if sum(map(operator.ne, each, whole[0])) == 1:
                damaged, whole = f"{file.path}: damaged in one character", []
                break
    elif not whole:
        damaged = f"{file.path}: {'damaged' if copies.old is not None else 'both copies damaged'}"
    if whole:
        taken = whole[0]
        if None in copies.words:
            damaged = f"{file.path}: one of its two copies was damaged; the other one holds"
    else:
        said = _most_said(files, folder)
        taken = said or new_id()
        source = "as the journals say" if said else "a new one, for no journal says it"
        damaged += f"; this server is {taken.decode()}, {source}"
    try:
        file.repair(copies, taken)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise  # on a full disk the next start does it
    return taken.decode(), damaged


def read_server_id(files: Files, folder: str) -> str:
    """Return the id in the file; empty if there is none, or it is damaged. Blocks."""
    file = WordFile(files, os.path.join(folder, NAME))
    if not file.is_there:
        return ""
    copies = file.read()
    words = copies.whole if copies.old is None else [copies.old.strip()]
    return next((word.decode() for word in words if _ID.fullmatch(word)), "")


def make_server_id(files: Files, folder: str, server: bytes) -> None:
    """Make the file; on disk on return. Blocks."""
    files.create(os.path.join(folder, NAME), content(server), FILE_BYTES).close()


def new_id() -> bytes:
    """Return an id that no other server has."""
    return uuid.uuid4().hex.encode()


def _most_said(files: Files, folder: str) -> bytes:
    """Return the id that most journals here say; empty: none says one. Raise OSError."""
    said, unread = _said_by_journals(files, folder)
    if not said and unread is not None:
        raise unread  # that journal may name the server, once it can be read
    return said.most_common(1)[0][0] if said else b""


def _said_by_journals(files: Files, folder: str) -> tuple[Counter[bytes], OSError | None]:
    """Count the ids with which the newest segments of the journals here open. Return also the error
    of a journal that could not be read."""
    said, unread = Counter[bytes](), None
    for name in files.names(folder):
        if not parse_folder_name(name)[1]:
            continue
        try:
            for frames, _ in ordered_segments(files, os.path.join(folder, name))[-1:]:
                opening = frames.record(FILE_HEADER_BYTES)
                if opening is not None and opening.kind == Kind.CHECKPOINT:
                    said[Checkpoint.from_record(opening).server] += 1
        except OSError as error:
            unread = error
    ids = {server: votes for server, votes in said.items() if _ID.fullmatch(server)}
    return Counter(ids), unread
