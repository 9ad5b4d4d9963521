"""Logins: users and secrets, checked on threads, failures delayed and counted.

    user, secret ──▶ checked a moment ago? ──▶ the grant
                         └─ no ──▶ scrypt on a thread ──▶ the grant, or a second later: nothing

One rule: a login never blocks the loop, and an unknown user costs as much as a wrong secret.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Final

from kestrelpy.access import SECRET_BYTES_MAX, Grant, Role, is_secret
from kestrelpy.config import Config
from kestrelpy.errors import ServerError
from kestrelpy.operations import Caller
from kestrelpy.protocol import LogLimit, Talk

log = logging.getLogger("kestrelpy")

# How long a failed login waits for its answer.
FAILURE_SECONDS: Final = 1.0
# Logins under way; each check takes 16 MiB and a core.
_CHECKS_AT_ONCE: Final = 2
PENDING_MAX: Final = 256
# Secrets that were right: HTTP sends them with each request.
_KNOWN_MAX: Final = 1024
# Checked for an unknown user; no secret has this hash.
_NOBODY: Final = f"scrypt$16384$8$1${'A' * 22}==${'A' * 43}="


class Attempt:
    """A login of a conversation under way."""

    __slots__ = ("grant", "is_over", "refusal")

    def __init__(self) -> None:
        self.is_over = False
        self.grant: Grant | None = None
        self.refusal = ""


class Logins:
    """The users of one server. `failed` counts the logins that failed."""

    def __init__(
        self, log_limit: LogLimit, now_ms: Callable[[], int],
        start: Callable[[Coroutine[object, object, None]], None], wake: Callable[[Caller], None],
    ) -> None:  # fmt: skip
        """`start` begins a task of the server, `wake` lets a client go on in the next turn."""
        self._start, self._wake = start, wake
        self.users: dict[str, tuple[Grant, str]] = {}  # each with the stored form of its secret
        self.are_needed = False  # True if clients have to log in: there are users
        self.failed = 0
        self._log_limit, self._now_ms = log_limit, now_ms
        self._known: dict[bytes, Grant] = {}
        self._key = os.urandom(32)
        self._pending = 0
        self._threads: ThreadPoolExecutor | None = None

    def put_in_force(self, config: Config) -> None:
        """Take the users of a configuration; those that changed have to log in again."""
        before, self.users = self.users, {}
        for name, user in config.auth.items():
            if name in before and before[name][1] == user.secret:
                grant = before[name][0]
                if grant.is_same(Role[user.role.upper()], user.queues):
                    self.users[name] = before[name]
                    continue
            self.users[name] = (Grant(name, Role[user.role.upper()], user.queues), user.secret)
        self._known = {key: g for key, g in self._known.items() if self.is_current(g)}
        self.are_needed = bool(self.users)

    def is_current(self, grant: Grant) -> bool:
        """True if this is still what the user may do."""
        found = self.users.get(grant.name)
        return found is not None and found[0] is grant

    def known(self, name: str, secret: bytes) -> Grant | None:
        """Return the grant of a login that was right a moment ago, without a check."""
        return self._known.get(self._digest(name, secret))

    async def check(self, name: str, secret: bytes, peer: str) -> Grant | None:
        """Return what this user may do; None, after a moment: it is no user, or not the secret.

        Raise ServerError if too many logins are under way.
        """
        if (grant := self.known(name, secret)) is not None:
            return grant
        if self._pending >= PENDING_MAX:
            raise ServerError("too many logins at this moment: try again later")
        self._pending += 1
        try:
            grant, stored = self.users.get(name, (None, _NOBODY))
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_CHECKS_AT_ONCE, "login")
            loop = asyncio.get_running_loop()
            is_right = len(secret) <= SECRET_BYTES_MAX and await loop.run_in_executor(
                self._threads, is_secret, secret, stored
            )
            if is_right and grant is not None and self.is_current(grant):
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[self._digest(name, secret)] = grant
                return grant
            self._note_failure(peer)
            await asyncio.sleep(FAILURE_SECONDS)
            return None
        finally:
            self._pending -= 1

    def begin(self, name: str, secret: bytes, talk: Talk) -> Attempt:
        """Check a login, and let the conversation go on when that is over."""
        attempt = Attempt()
        self._start(self._attempt(attempt, name, secret, talk))
        return attempt

    async def _attempt(self, attempt: Attempt, name: str, secret: bytes, talk: Talk) -> None:
        try:
            attempt.grant = await self.check(name, secret, talk.holder.name)
        except ServerError as error:
            attempt.refusal = str(error)
        finally:
            attempt.is_over = True
            self._wake(talk)

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _note_failure(self, peer: str) -> None:
        self.failed += 1
        end = self._log_limit.take("login", self._now_ms())
        if end is not None:
            log.warning("a login by %s failed, the %d. since the start%s", peer, self.failed, end)

    def _digest(self, name: str, secret: bytes) -> bytes:
        made = blake2b(name.encode("utf-8", "surrogatepass"), key=self._key, digest_size=32)
        made.update(b"\0" + secret)
        return made.digest()
