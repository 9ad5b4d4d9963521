"""Logins: users and secrets, checked on threads, failures delayed and counted.

    user, secret ──▶ checked a moment ago? ──▶ the grant
                         └─ no ──▶ in line ──▶ scrypt on a thread ──▶ the grant, or a second
                                                                      later: nothing

One rule: a login never blocks the loop, and an unknown user costs as much as a wrong secret.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Final

from kestrelpy.access import SECRET_BYTES_MAX, Grant, Role, is_secret
from kestrelpy.config import Config
from kestrelpy.errors import ServerError
from kestrelpy.operations import Caller
from kestrelpy.protocol import LogLimit, Talk, address_of

log = logging.getLogger("kestrelpy")

# How long a failed login waits for its answer.
FAILURE_SECONDS: Final = 1.0
# Each check takes 16 MiB and a core.
_CHECKS_AT_ONCE: Final = 2
# Logins that wait for their check or are checked: in all, and of one peer and user. The difference
# is a reserve for others.
PENDING_MAX: Final = 256
PENDING_EACH_MAX: Final = 192
# How often one login is checked: again when a reload changed its user during the check.
_CHECKS_MAX: Final = 4
# Secrets that were right stay here: HTTP sends them with each request.
_KNOWN_MAX: Final = 1024
# Checked for an unknown user; no secret has this hash.
_NOBODY: Final = f"scrypt$16384$8$1${'A' * 22}==${'A' * 43}="


_TOO_MANY: Final = "too many logins at this moment: try again later"
# The address of a peer, and the user that it claims to be; all unknown users count as one.
Origin = tuple[str, str]


class Attempt:
    """A login of a conversation under way."""

    __slots__ = ("_line", "at_end", "grant", "is_over", "refusal", "task")

    def __init__(self, line: WaitingLogins) -> None:
        self._line = line
        self.at_end = False  # True if the client sends no more, and may be gone
        self.is_over = False
        self.grant: Grant | None = None
        self.refusal = ""
        self.task: asyncio.Task[object] | None = None  # None: it has not begun

    def give_up(self) -> None:
        """End it: the client is gone."""
        self.is_over = True
        if self.task is not None:
            self.task.cancel()

    def note_eof(self) -> None:
        """End it if it waits for its check: the client sends no more, and may be gone."""
        self.at_end = True
        if self.task in self._line.waiting_tasks:
            self.refusal = _TOO_MANY
            self.give_up()


class WaitingLogins:
    """The line of logins: origins take turns, so that many logins of one hold up no other."""

    __slots__ = ("_counts", "_free", "_waiting", "count", "waiting_tasks")

    def __init__(self) -> None:
        self._free = _CHECKS_AT_ONCE
        self._waiting: dict[Origin, deque[asyncio.Future[None]]] = {}  # the next one first
        self._counts: Counter[Origin] = Counter()
        self.count = 0
        self.waiting_tasks: set[asyncio.Task[object] | None] = set()

    @property
    def is_free(self) -> bool:
        """True if the next check begins at once."""
        return self._free > 0

    async def enter(self, origin: Origin) -> None:
        """Return when a check may begin, which `leave` ends; raise ServerError if too many wait."""
        if self.count >= PENDING_MAX or self._counts[origin] >= PENDING_EACH_MAX:
            raise ServerError(_TOO_MANY)
        self.count += 1
        self._counts[origin] += 1
        if self._free:
            self._free -= 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(origin, deque()).append(future)
        task = asyncio.current_task()
        self.waiting_tasks.add(task)
        try:
            await future
        except BaseException:
            if future.done() and not future.cancelled():  # its turn had come
                self.leave(origin)
            else:
                self._drop(origin, future)
                self._forget(origin)
            raise
        finally:
            self.waiting_tasks.discard(task)

    def leave(self, origin: Origin) -> None:
        """End a check, and begin the next one."""
        self._forget(origin)
        self._free += 1
        while self._waiting and self._free:
            following = next(iter(self._waiting))
            future = self._waiting[following][0]
            line = self._waiting[following]
            self._drop(following, future)
            if line:  # the others come first now
                self._waiting[following] = self._waiting.pop(following)
            if not future.done():
                self._free -= 1
                future.set_result(None)

    def _drop(self, origin: Origin, future: asyncio.Future[None]) -> None:
        line = self._waiting.get(origin)
        if line is not None and future in line:
            line.remove(future)
            if not line:
                del self._waiting[origin]

    def _forget(self, origin: Origin) -> None:
        self.count -= 1
        self._counts[origin] -= 1
        if not self._counts[origin]:
            del self._counts[origin]


class Logins:
    """The users of one server. `failed` counts the logins that failed."""

    def __init__(
        self, log_limit: LogLimit, now_ms: Callable[[], int],
        start: Callable[[Coroutine[object, object, None]], object],
        wake: Callable[[Caller], None],
    ) -> None:  # fmt: skip
        """`start` begins a task of the server, `wake` lets a client go on in the next turn."""
        self._start, self._wake = start, wake
        self.users: dict[str, tuple[Grant, str]] = {}  # each with the stored form of its secret
        self.are_needed = False  # True if clients have to log in: there are users
        self.failed = 0
        self._log_limit, self._now_ms = log_limit, now_ms
        self._known: dict[bytes, Grant] = {}
        self._key = os.urandom(32)
        self._line = WaitingLogins()
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

    def grant_of(self, name: str) -> Grant | None:
        """Return what this user may do; None: there is no such user."""
        found = self.users.get(name)
        return None if found is None else found[0]

    def known(self, name: str, secret: bytes) -> Grant | None:
        """Return the grant of a login that was right a moment ago, without a check."""
        return self._known.get(self._digest(name, secret))

    async def check(self, name: str, secret: bytes, peer: str) -> Grant | None:
        """Return what this user may do; None, after a moment: the user or the secret is wrong.

        Raise ServerError if too many logins are under way.
        """
        if (grant := self.known(name, secret)) is not None:
            return grant
        for _ in range(_CHECKS_MAX):
            grant, is_right = await self._checked(name, secret, peer)
            if grant is None or not is_right:
                break
            if self.is_current(grant):
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known[self._digest(name, secret)] = grant
                return grant
        self._note_failure(peer)
        await asyncio.sleep(FAILURE_SECONDS)  # meanwhile another login may be checked
        return None

    async def _checked(self, name: str, secret: bytes, peer: str) -> tuple[Grant | None, bool]:
        """Return the user's grant, and whether the secret is right; raise ServerError."""
        if len(secret) > SECRET_BYTES_MAX:
            return None, False
        origin = address_of(peer), name if name in self.users else ""
        await self._line.enter(origin)
        if (known := self.known(name, secret)) is not None:  # another one was checked meanwhile
            self._line.leave(origin)
            return known, True
        grant, stored = self.users.get(name, (None, _NOBODY))
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_CHECKS_AT_ONCE, "login")
        loop = asyncio.get_running_loop()
        check = loop.run_in_executor(self._threads, is_secret, secret, stored)
        # The thread goes on if the client hangs up: its place is free when it ends.
        check.add_done_callback(lambda _: self._line.leave(origin))
        return grant, await asyncio.shield(check)

    def begin(self, name: str, secret: bytes, talk: Talk) -> Attempt:
        """Check a login, and let the conversation go on when that is over."""
        attempt = Attempt(self._line)
        self._start(self._attempt(attempt, name, secret, talk))
        return attempt

    async def _attempt(self, attempt: Attempt, name: str, secret: bytes, talk: Talk) -> None:
        if attempt.is_over:
            return
        attempt.task = asyncio.current_task()
        try:
            if attempt.at_end and not self._line.is_free:
                raise ServerError(_TOO_MANY)
            attempt.grant = await self.check(name, secret, talk.holder.name)
        except ServerError as error:
            attempt.refusal = str(error)
        finally:
            attempt.is_over, attempt.task = True, None
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
