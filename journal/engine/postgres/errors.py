"""What a PostgreSQL refuses, as one sentence with the remedy.

A server refuses a login in the language that it is set to: only the English words are known here.

One rule: a text of the driver that may quote the address is not shown.
"""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import errors

from journal.engine.address import FORM

HOW_TO_INIT: Final = "make them with `kestrelpy fleet init`"
HOW_TO_GRANT: Final = "`kestrelpy fleet init --role NAME` grants what the daemon's role needs"

_BY_CLASS: Final[dict[type[psycopg.Error], str]] = {
    errors.InvalidSchemaName: f"the tables of kestrelpy are not there; {HOW_TO_INIT}",
    errors.UndefinedTable: f"the tables of kestrelpy are not there; {HOW_TO_INIT}",
    errors.UndefinedColumn: f"the tables are of another kestrelpy; {HOW_TO_INIT}",
    errors.InsufficientPrivilege: f"{{}}; {HOW_TO_GRANT}",
    errors.DiskFull: "{}: the disk of the server is full; with room it goes on by itself",
    errors.ReadOnlySqlTransaction: (
        "this server is a standby, or takes no writes; name the primary as well, and add "
        "?target_session_attrs=read-write"
    ),
}  # fmt: skip
# The remedy, by the words of a refused connection: such an error has no code.
_BY_WORDS: Final = (
    ("password authentication failed", "the password is wrong; ~/.pgpass or PGPASSFILE has it"),
    ("no password supplied", "give the password in ~/.pgpass, or name its file in PGPASSFILE"),
    ("no pg_hba.conf entry", "the server's pg_hba.conf must allow this role from this machine"),
    ("session is read-only", "no server of these takes writes now: wait for a failover, or start "
     "the primary"),
    ("certificate verify failed", "sslrootcert must name the file of the authority that has signed "
     "the server's certificate"),
    ("does not match host name", "name the server as its certificate does"),
    ("root certificate file", "sslrootcert must name the file of the authority that has signed the "
     "server's certificate"),
    ("does not support SSL", "turn ssl on in the server, or ask for less with sslmode"),
    ("resolve host", "is the name right?"),
    ("Connection refused", "is the server running, and is the port right?"),
)  # fmt: skip
# The server's or the driver's own advice begins with these words; ours takes its place.
_ADVICE: Final = (" Is the server running", " LINE 1:", " HINT:", " Either provide the file")


def reason(error: psycopg.Error) -> str:
    """Return what happened and what helps, as one line."""
    text = _one_line(error)
    for kind, sentence in _BY_CLASS.items():
        if isinstance(error, kind):
            return sentence.format(text)
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        return f"the address cannot be read: it must be like {FORM}"
    if 'database "' in text and "does not exist" in text:
        return f"{text}; make it with createdb, or name another one"
    if 'role "' in text and "does not exist" in text:
        return f"{text}; make it with createuser, or name another one"
    for words, remedy in _BY_WORDS:
        if words in text:
            return f"{text}: {remedy}"
    return text


def _one_line(error: psycopg.Error) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    words = words.removeprefix("connection failed: ")
    for advice in _ADVICE:
        words = words.partition(advice)[0]
    return words
