"""An engine's address, as it may be printed: without its secret.

    postgresql://kestrel:secret@db1,db2/queues?sslmode=require     where to connect
    postgresql://kestrel@db1,db2/queues                            its name, for logs and errors
    postgresql://kestrel@db1,db2/queues/1                          a slice there: a data directory
    s3://bucket/fleet?endpoint=https://s3.example&region=eu-1      a bucket, and a prefix in it
    s3://bucket/fleet/1                                            a slice there

One rule: no printed text has a password in it, even if the address is wrong.
"""

from __future__ import annotations

import re
from typing import Final

SLICE: Final = 1  # of an engine that has one
FORM: Final = "postgresql://user@host:port/database"
S3_FORM: Final = "s3://bucket/prefix?endpoint=https://host"
_SCHEMES: Final = ("postgresql://", "postgres://")
_S3: Final = "s3://"
_S3_ADDRESS: Final = re.compile(
    r"s3://[a-z0-9][a-z0-9.-]*(/[\w.-]+)+"
    r"(\?(endpoint=https?://[\w.:\[\]-]+/?|region=[\w-]+)(&(endpoint=https?://[\w.:\[\]-]+/?|"
    r"region=[\w-]+))*)?",
    re.ASCII,
)


def is_address(text: str) -> bool:
    """True if this is meant as an engine's address, and not as a folder's path."""
    return text.startswith(_SCHEMES) or re.match(r"[a-z][a-z0-9]+:/", text) is not None


def is_engine(text: str) -> bool:
    """True if this begins as the address of an engine does, and so is no URL of anything else."""
    return text.startswith((*_SCHEMES, _S3))


def is_object_store(address: str) -> bool:
    """True if this engine is an object store, and not a PostgreSQL."""
    return address.startswith(_S3)


def why_no_address(text: str) -> str:
    """Return what is wrong with the form of an address, without its secret; "": nothing."""
    if is_object_store(text):
        return "" if _S3_ADDRESS.fullmatch(text) else (
            f"an object store has an address like {S3_FORM}, where `&region=` may follow; the key "
            "is in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )  # fmt: skip
    if not text.startswith(_SCHEMES):
        return f"an engine has an address like {FORM}, or like {S3_FORM}"
    place = text.partition("://")[2].partition("?")[0]
    authority, _, database = place.partition("/")
    if authority.count("@") > 1 or "@" in database or not re.fullmatch("[!-~]+", text):
        return (
            f"an engine has an address like {FORM}; in a password, every character that is "
            "no letter and no digit is written as % and two digits, or the password is left to "
            "~/.pgpass"
        )
    return ""


def without_secret(text: str) -> str:
    """Return a text without the passwords of the addresses in it, whatever their form."""
    text = re.sub(r"(:/{1,2}[^:@/\s]*):\S*@", r"\1@", text)
    return re.sub(r"(?i)(password=)[^&\s]*", r"\1...", text)


def name_of(address: str) -> str:
    """Return an address for logs and errors."""
    rest = address.partition("://")[2]
    authority, slash, behind = rest.partition("/")
    if "@" in authority:
        user, _, hosts = authority.rpartition("@")
        authority = f"{re.split('[:@?]', user)[0]}@{hosts}"
    elif "@" in behind.partition("?")[0]:  # a secret with a slash in it
        authority, behind = "", behind.rpartition("@")[2]
    scheme = _S3 if is_object_store(address) else "postgresql://"
    return f"{scheme}{authority.partition('?')[0]}{slash}{behind.partition('?')[0]}"


def slice_name(address: str, number: int = SLICE) -> str:
    """Return the name of a slice as a data directory."""
    return f"{name_of(address)}/{number}"


def split_slice(text: str) -> tuple[str, int]:
    """Return the engine's address and the slice of an address that may name one; 0: it names none.
    Raise ValueError, without a secret."""
    why = why_no_address(text)
    if why:
        raise ValueError(why)
    place, mark, query = text.partition("?")
    head, _, last = place.rpartition("/")
    number = 0
    if head.partition("://")[2].count("/") >= 1:  # after the database, or the prefix
        if last.isdecimal():
            number, place = int(last), head
        if not number and not is_object_store(text):
            raise ValueError(f"{name_of(text)}: a slice is a number, like {slice_name(head)}")
    return place + mark + query, number
