"""The objects of a fleet in a bucket of S3's protocol: the only door to the client.

One rule: no request that writes is repeated here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import obstore
from obstore import exceptions
from obstore.store import S3Store

from journal.engine.address import name_of, why_no_address
from journal.engine.engine import EngineAway, EngineFull
from journal.engine.object_store.bucket import Found, ListedObject

_CONNECT: Final = "2s"
_ANSWER: Final = "20s"  # a request and its answer; a pack is the largest
_NO_ROOM: Final = ("507 Insufficient", "QuotaExceeded", "StorageFull", "InsufficientCapacity")
_DELETED_AT_ONCE: Final = 1000
_CONFLICT: Final = "another request for the same object was under way"
# What happened, by its words, and what helps.
_REMEDIES: Final = (
    ("NoSuchBucket", "make the bucket, or name another one"),
    ("SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY is wrong"),
    ("InvalidAccessKeyId", "AWS_ACCESS_KEY_ID is wrong"),
    ("AccessDenied", "`kestrelpy fleet init --print` prints the policy that the key needs"),
    ("RequestTimeTooSkewed", "set the clock of this machine"),
    ("169.254.169.254", "give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a "
     "role"),
    ("error sending request", "is the store running, and is its endpoint right?"),
)  # fmt: skip
T = TypeVar("T")


class S3Bucket:
    """`ObjectBucket` by the address of an engine."""

    def __init__(self, address: str) -> None:
        """Connect to nothing yet; raise EngineAway if the address cannot be read."""
        self.name = name_of(address)
        why = why_no_address(address)
        if why:
            raise EngineAway(self.name, why)
        place, _, query = address.partition("?")
        bucket, _, prefix = place.partition("://")[2].partition("/")
        options = dict(parse_qsl(query))
        endpoint = options.get("endpoint")
        how: dict[str, Any] = {"virtual_hosted_style_request": not endpoint}
        if endpoint:
            how["endpoint"] = endpoint
        if "region" in options:
            how["region"] = options["region"]
        self._store = S3Store(
            bucket, prefix=prefix.strip("/"),
            client_options={
                "timeout": _ANSWER, "connect_timeout": _CONNECT,
                "allow_http": bool(endpoint and endpoint.startswith("http://")),
            },
            retry_config={"max_retries": 0}, **how,
        )  # fmt: skip

    def put_new(self, key: str, data: bytes) -> bool:
        try:
            obstore.put(self._store, key, data, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            found = self.get(key)
            if found is None:
                raise EngineAway(self.name, _CONFLICT) from None
            return found.data == data
        except (OSError, exceptions.BaseError) as error:
            raise self._refused(error) from None
        return True

    def put(self, key: str, data: bytes) -> None:
        self._raising(lambda: obstore.put(self._store, key, data, use_multipart=False))

    def get(self, key: str, bytes_max: int | None = None) -> Found | None:
        def ask() -> Found | None:
            try:
                if bytes_max is None:
                    found = obstore.get(self._store, key)
                else:
                    found = obstore.get(self._store, key, options={"range": (0, bytes_max)})
                return Found(bytes(found.bytes()), found.meta["last_modified"])
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise self._refused(error) from None
                return None

        return self._twice(ask)

    def parts(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, ends = [each[0] for each in ranges], [each[1] for each in ranges]

        def ask() -> list[bytes]:
            found = obstore.get_ranges(self._store, key, starts=starts, ends=ends)
            return [bytes(each) for each in found]

        return self._twice(ask)

    def listed(self, folder: str, after: str = "") -> list[ListedObject]:
        def ask() -> list[ListedObject]:
            pages = obstore.list(self._store, folder, offset=after or None)
            return sorted(
                ListedObject(each["path"], each["size"], each["last_modified"])
                for page in pages for each in page
            )  # fmt: skip

        return self._twice(ask)

    def folders(self, folder: str) -> list[str]:
        def ask() -> list[str]:
            found = obstore.list_with_delimiter(self._store, folder)
            return [each.rsplit("/", 1)[-1] for each in found["common_prefixes"]]

        return self._twice(ask)

    def delete(self, keys: Sequence[str]) -> None:
        for at in range(0, len(keys), _DELETED_AT_ONCE):
            some = keys[at : at + _DELETED_AT_ONCE]
            with contextlib.suppress(FileNotFoundError):
                self._raising(partial(obstore.delete, self._store, some))

    def _twice(self, ask: Callable[[], T]) -> T:
        """Return what a read returns; a connection may have been closed while it was unused."""
        try:
            return self._raising(ask)
        except EngineAway:
            return self._raising(ask)

    def _raising(self, ask: Callable[[], T]) -> T:
        """Return what a call returns; raise EngineAway instead of the client's errors."""
        try:
            return ask()
        except (EngineAway, FileNotFoundError):
            raise
        except (OSError, exceptions.BaseError) as error:
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> EngineAway:
        text = reason(error)
        kind = EngineFull if any(words in text for words in _NO_ROOM) else EngineAway
        return kind(self.name, text)


def reason(error: Exception) -> str:
    """Return what happened and what helps, as one line."""
    text = " ".join(str(error).partition("Debug source")[0].split())
    code, message = re.search("<Code>(.*?)</Code>", text), re.search("<Message>(.*?)</M", text)
    head = text.partition("<?xml")[0].partition("<Error>")[0].strip(" :")
    if code is not None:
        head = f"{head}: {code[1]}" + (f": {message[1]}" if message is not None else "")
    for words, remedy in _REMEDIES:
        if words in text:
            return f"{head}; {remedy}"
    return head or type(error).__name__
