"""The login of a router's client: checked here, and told to each slice that the client asks.

    client memcache 127.0.0.1:5555 anna    the first line on a connection to a slice, without reply
    client memcache unix /                 of a client on the Unix socket, which needs no login
    client text 127.0.0.1:5555 /           of one on the text port: what follows is of that wire

A slice checks the rights of that user at each request, as it does for clients of its own.

One rule: before its login a client's requests reach no slice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, cast
from urllib.parse import quote

from kestrelpy.access import Grant, Need
from kestrelpy.core import Holder
from kestrelpy.errors import Refused
from kestrelpy.protocol import rights
from kestrelpy.protocol.login import LoginGate, LoginPort
from kestrelpy.protocol.parse import Command, Plain
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import Replies
from kestrelpy.protocol.steps import Steps
from kestrelpy.protocol.verbs import NO_LOGIN, VERBS, Verbs

# A slice says so before it closes a connection that is idle: the client holds nothing there.
IDLE: Final = b"IDLE\r\n"


class Waking(Protocol):
    """Whom a login wakes when it is over."""

    def wake(self) -> None:
        """Go on."""


def _right(command: Command, aliases: rights.Aliases) -> list[Need]:
    """Return what the router itself has to check: the slices check the rest."""
    is_here = isinstance(command, Plain) and command.verb == b"shutdown"
    return rights.everything(command, aliases) if is_here else []


_NO_ALIASES: Final[rights.Aliases] = {}
_VERBS: Final[Verbs] = {kind: row._replace(right=_right) for kind, row in VERBS.items()}


class RoutedLogin:
    """The part of a conversation that a login sees: `say` gets its answer, `wake` its end."""

    __slots__ = (
        "_gate", "_port", "_told", "_wire_name", "aliases", "holder", "replies", "say", "stream",
        "wake",
    )  # fmt: skip

    def __init__(
        self, port: LoginPort | None, peer: str, say: Callable[[bytes], None],
        wake: Callable[[], None], wire_name: str = "memcache",
    ) -> None:  # fmt: skip
        """`port` are the users; None: this client needs no login."""
        self._port, self._wire_name = port, wire_name
        self._gate = None if port is None else LoginGate(port, _VERBS)
        self._told: Grant | None = None  # whom the slices were told of
        self.aliases = _NO_ALIASES
        self.holder = Holder(peer)
        self.say, self.wake = say, wake
        self.replies = Replies(self)
        self.stream: Steps = None  # the check of a secret

    @property
    def is_strange(self) -> bool:
        """True if the client has to log in and never did, so it may send only little."""
        return self._gate is not None and self._gate.is_strange

    @property
    def introduction(self) -> bytes:
        """The first line on a connection to a slice."""
        user = NO_LOGIN
        if self._gate is not None:
            self._told = self._gate.grant
            user = "" if self._told is None else quote(self._told.name, safe="")
        peer = quote(self.holder.name, safe=":")
        return f"client {self._wire_name} {peer} {user}".rstrip().encode() + b"\r\n"

    @property
    def is_another(self) -> bool:
        """True if the slices know the client as another user, or as none."""
        return self._gate is not None and self._gate.grant is not self._told

    def passes(self, command: Command) -> bool:
        """True if a command needs no login, or the client has logged in and may be let through."""
        if self._port is None or self._gate is None or not self._port.are_needed:
            return True
        return not self._gate.is_closed and not _right(command, _NO_ALIASES)

    def admits(self, command: Command) -> bool:
        """True if the command may be executed; if not, it is a login. Raise ClientError."""
        return self._gate is None or self._gate.admits(cast(Talk, self), command)

    def go_on(self) -> bool:
        """Go on with a login; return whether it is over. Raise Refused."""
        if self.stream is None:
            return True
        try:
            if next(self.stream, None) is not None:
                return False
        except Refused:
            self.stream = None
            raise
        self.stream = None
        if said := self.replies.take():
            self.say(said)
        return True

    def note_eof(self) -> None:
        """Note that the client sends no more."""
        if self._gate is not None:
            self._gate.note_eof()

    def hang_up(self) -> None:
        """End a login under way: the client is gone."""
        if self._gate is not None:
            self._gate.hang_up()
        self.stream = None
