"""The server's "no": its class, its text, and whether the same request may be accepted later.

    ERROR                  the server does not know the verb
    CLIENT_ERROR <text>    the request is refused
    SERVER_ERROR <text>    the server cannot do this now

One rule: the text is the server's own, except for two that name no remedy.
"""

from __future__ import annotations

from typing import Final, Self

# The class of a refusal, as the wire spells it.
ERROR: Final = b"ERROR"
CLIENT_ERROR: Final = b"CLIENT_ERROR"
SERVER_ERROR: Final = b"SERVER_ERROR"
_KINDS: Final = (ERROR, CLIENT_ERROR, SERVER_ERROR)
# The answers to a token that names no lease, whichever kind of error they are.
_LEASE_IS_OVER: Final = (b"lease expired", b"token ")
_PLAIN: Final = {
    "unauthenticated": "this server has users, and needs a user and a password",
    "authentication failure": "no such user, or another password",
}


class ServerRefusal(Exception):
    """The server refused a request; `may_pass` is true if it may accept the same one later."""

    nothing_said = "the server does not know the verb"

    def __init__(self, line: bytes) -> None:
        kind, _, text = line.partition(b" ")
        super().__init__(plain(text.decode("ascii", "replace") or self.nothing_said))
        self.line: Final = line
        self.kind: Final = kind
        self.text: Final = text
        self.may_pass: Final = kind == SERVER_ERROR
        self.is_lease_over: Final = text.startswith(_LEASE_IS_OVER)

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        """Pickle the line, as a task of Celery does with what it raised."""
        return type(self), (self.line,)


class LoginRefused(ServerRefusal):
    """The server refused a login; `may_pass` is true if that may change."""

    nothing_said = "the server knows no login"


def is_refusal(line: bytes) -> bool:
    """True if a line is an error of the server."""
    return line.partition(b" ")[0] in _KINDS


def is_logged_out(line: bytes) -> bool:
    """True if a line says that this connection has to log in, maybe once more."""
    return line == b"CLIENT_ERROR unauthenticated"


def plain(text: str) -> str:
    """Return what a server said, in words that say what to do."""
    return _PLAIN.get(text, text)
