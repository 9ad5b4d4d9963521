"""Access to commands: memcached's ASCII authentication, and the rights of users.

    set any 0 0 11        the first set of a connection carries `user password`:
    anna secret           STORED, or CLIENT_ERROR authentication failure a moment later

    before that           CLIENT_ERROR unauthenticated
    after it              each command needs a role in each queue it names

One rule: a command that no table of verbs has needs the role admin in all queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from kestrelpy.access import Grant, Need
from kestrelpy.errors import ClientError, ServerError
from kestrelpy.protocol.parse import Bad, Command, Plain, Store
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.verbs import Verbs, needs

# The largest body before a login.
LOGIN_BYTES_MAX: Final = 2 << 10
_OPEN: Final = frozenset({b"quit", b"version", b"mn", b"client", b"unwait"})
_NEEDS_NO_DATA: Final = _OPEN | {b"stats", b"verbosity"}
_STORED: Final = b"STORED\r\n"


class Login(Protocol):
    """A login under way. `grant` is its result; None: it failed, `refusal` may say why."""

    is_over: bool
    grant: Grant | None
    refusal: str

    def give_up(self) -> None:
        """End the login: the client is gone."""

    def note_eof(self) -> None:
        """Note that the client sends no more: end the login if that is sensible."""


class LoginPort(Protocol):
    """The users of the server."""

    @property
    def are_needed(self) -> bool:
        """True if clients have to log in."""

    def is_current(self, grant: Grant) -> bool:
        """True if this is still what the user may do."""

    def grant_of(self, name: str) -> Grant | None:
        """Return what this user may do; None: there is no such user."""

    def begin(self, name: str, secret: bytes, talk: Talk) -> Login:
        """Check a login, and let the conversation go on when that is over."""


class ClosedGate:
    """Stands before every command while the server has no data to serve."""

    __slots__ = ("_admitted", "_why")

    def __init__(self, why: str, needs_login: bool) -> None:
        """`needs_login`: only the commands pass that need no login, since no client can log in."""
        self._why = why
        self._admitted = _OPEN if needs_login else _NEEDS_NO_DATA

    def admits(self, talk: Talk, command: Command) -> bool:
        """True if the command needs none of the data; else raise ServerError.

        `stats markers` does: without the data it would say that there are no queues.
        """
        if isinstance(command, Bad) or (
            isinstance(command, Plain)
            and command.verb in self._admitted
            and (command.verb != b"stats" or not command.words)
        ):
            return True
        raise ServerError(self._why)


class LoginGate:
    """The login of one conversation."""

    __slots__ = ("_at_end", "_grant", "_is_free", "_login", "_port", "_verbs")

    def __init__(self, port: LoginPort, verbs: Verbs) -> None:
        self._port = port
        self._verbs = verbs
        self._at_end = False
        self._is_free = False  # True if this client needs no login
        self._grant: Grant | None = None
        self._login: Login | None = None

    @property
    def user(self) -> str | None:
        """The name of the logged-in user; None: no user is logged in."""
        return self._grant.name if self._grant is not None else None

    @property
    def grant(self) -> Grant | None:
        """What the logged-in user may do, or might before a reload; None: no user is logged in."""
        return self._grant

    @property
    def is_waiting(self) -> bool:
        """True while a login is checked."""
        return self._login is not None and not self._login.is_over

    @property
    def is_closed(self) -> bool:
        """True if the client has to log in first."""
        if not self._port.are_needed or self._is_free:
            return False
        return self._grant is None or not self._port.is_current(self._grant)

    @property
    def is_strange(self) -> bool:
        """True if the client has to log in and never did, so it may send only little."""
        return self._port.are_needed and self._grant is None and not self._is_free

    @property
    def is_revoked(self) -> bool:
        """True if what is under way began with rights that are gone: a reload has changed the user,
        or has made a login necessary. A login itself goes on."""
        return self._login is None and self.is_closed

    def enter(self, name: str | None) -> None:
        """Be this user, as the router says that has checked its secret; None: no login is needed.
        """
        self._is_free = name is None
        self._grant = None if name is None else self._port.grant_of(name)

    def judge_by(self, verbs: Verbs) -> None:
        """Let these verbs say from here on which rights a command needs."""
        self._verbs = verbs

    def note_eof(self) -> None:
        """Note that the client sends no more, and may be gone."""
        self._at_end = True
        if self._login is not None:
            self._login.note_eof()

    def hang_up(self) -> None:
        """End a login under way: the client is gone."""
        login, self._login = self._login, None
        if login is not None:
            login.give_up()

    def admits(self, talk: Talk, command: Command) -> bool:
        """True if the command may be executed; if not, it is answered here. Raise ClientError."""
        if not self._port.are_needed or self._is_free or isinstance(command, Bad):
            return True
        if not self.is_closed:
            assert self._grant is not None
            for need in needs(self._verbs, command, talk.aliases):
                if not self._grant.may(need):
                    raise ClientError(_refusal(self._grant, need))
            return True
        if isinstance(command, Plain) and command.verb in _OPEN:
            return True
        if self._grant is not None:
            # A reload has changed its user. This command is no login: the next `set` may be.
            self._grant = None
            raise ClientError("unauthenticated")
        if not isinstance(command, Store) or command.line.verb != b"set":
            raise ClientError("unauthenticated")
        talk.stream = self._log_in(talk, command.body)
        return False

    def _log_in(self, talk: Talk, body: bytes) -> Iterator[bytes]:
        name, _, secret = body.partition(b" ")
        login = self._login = self._port.begin(name.decode("utf-8", "replace"), secret, talk)
        if self._at_end:
            login.note_eof()
        while not login.is_over:
            yield b""
        self._grant, self._login = login.grant, None
        if login.grant is not None:
            talk.replies.say(_STORED)
        elif login.refusal:
            raise ServerError(login.refusal)
        else:
            raise ClientError("authentication failure")


def _refusal(grant: Grant, need: Need) -> str:
    where = f"in queue {need.queue.decode('ascii', 'replace')}" if need.queue else "in all queues"
    return f"forbidden: this needs the role {need.role.name.lower()} {where}"
