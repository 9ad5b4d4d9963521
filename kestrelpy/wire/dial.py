"""The one way to a daemon: a socket, TLS on it if that is wanted, and a login if one is asked for.

    options, environment ──▶ Access ──▶ connect(address, access) ──▶ a socket for requests

    verbosity 0                      does the server want a login?
    CLIENT_ERROR unauthenticated     it does:
    set login 0 0 12
    anna letmein                     STORED, or CLIENT_ERROR authentication failure

A Unix socket has neither: the permissions of its file decide which users may connect.

One rule: a password goes only to a server that asks for one. For any other, that `set` is an item.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kestrelpy.wire.answers import NO_ANSWER
from kestrelpy.wire.refusals import LoginRefused, is_logged_out

Address = tuple[str, int] | str  # host and port, or the path of a Unix socket

NO_LOGIN: Final = "the server closed the connection before a login"
_PASSWORD_BYTES_MAX: Final = 1 << 10
_LINE_BYTES_MAX: Final = 1 << 10
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})
_WRONG_WAY_SECONDS: Final = 2.0
_ASKS: Final = "the server asks for a certificate of its clients (--tls-cert)"
_REFUSES: Final = "the server refuses the certificate of this client (--tls-cert)"


class TlsRefused(ConnectionError):
    """One side speaks TLS and the other does not, or a certificate is not trusted."""


@dataclass(frozen=True, slots=True)
class Access:
    """The login of a client, and whether it speaks TLS; `Access()` has no login and no TLS.

    - `password` or `password_file`: the file is read at each login, so it may change.
    - `tls_ca`: the authorities that the server's certificate may come from. None: the system's.
    - `tls_cert`, `tls_key`: the client's own certificate; without `tls_key` both are in one file.

    A named file of TLS means TLS. Raises ValueError with one sentence.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    def __post_init__(self) -> None:
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("tls_key goes with tls_cert: name the certificate of this key")
        if self.tls_ca is not None or self.tls_cert is not None:
            object.__setattr__(self, "tls", True)
        has_password = self.password is not None or self.password_file is not None
        if self.user is None and has_password:
            raise ValueError("there is a password and no user: name the user as well")
        if self.user is not None:
            if not self.user or any(each.isspace() for each in self.user):
                raise ValueError(f"{self.user!r} is not a user's name: it has no blanks")
            if not has_password:
                raise ValueError(
                    f"user {self.user} has no password: name a file with it (password_file, "
                    "KESTRELPY_PASSWORD_FILE), or set KESTRELPY_PASSWORD"
                )
            self.credentials()
        if self.tls:
            self.context()

    def credentials(self) -> bytes:
        """Return the body of a login. Raises ValueError."""
        secret = self._secret()
        if not 0 < len(secret) <= _PASSWORD_BYTES_MAX:
            where = self.password_file or "the password"
            raise ValueError(f"{where} must have 1 to {_PASSWORD_BYTES_MAX} bytes")
        return f"{self.user} ".encode("utf-8", "surrogateescape") + secret

    def with_password(self) -> Access:
        """Return the same with the password in place of its file, for another machine."""
        if self.password_file is None or self.password is not None:
            return self
        secret = self._secret().decode("utf-8", "surrogateescape")
        return replace(self, password=secret, password_file=None)

    def context(self) -> ssl.SSLContext:
        """Return what a TLS connection needs, with the files as they are now. Raises ValueError."""
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
        except (OSError, ValueError) as error:
            raise ValueError(f"tls_ca {self.tls_ca}: {_why_file(error)}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.tls_cert is not None:
            try:
                context.load_cert_chain(self.tls_cert, self.tls_key, password=lambda: "")
            except (OSError, ValueError) as error:
                files = " and ".join(filter(None, (self.tls_cert, self.tls_key)))
                raise ValueError(f"tls_cert {files}: {_why_file(error)}") from None
        return context

    def _secret(self) -> bytes:
        if self.password is not None:
            return self.password.encode("utf-8", "surrogateescape")
        assert self.password_file is not None
        try:
            with Path(self.password_file).open("rb") as file:
                found = file.read(_PASSWORD_BYTES_MAX + 3)
        except OSError as error:
            raise ValueError(f"{self.password_file}: {error.strerror}") from None
        return found.removesuffix(b"\n").removesuffix(b"\r")


NOBODY: Final = Access()


def access_of(
    *, user: str | None = None, password: str | None = None, password_file: str | None = None,
    tls: bool = False, tls_ca: str | None = None, tls_cert: str | None = None,
    tls_key: str | None = None, environ: Mapping[str, str] | None = None,
) -> Access:  # fmt: skip
    """Return an access of options, and of KESTRELPY_USER, KESTRELPY_PASSWORD_FILE,
    KESTRELPY_PASSWORD, KESTRELPY_TLS, KESTRELPY_TLS_CA, KESTRELPY_TLS_CERT and KESTRELPY_TLS_KEY
    for what they leave open.

    An empty variable counts as none. Raises ValueError with one sentence.
    """
    said = os.environ if environ is None else environ

    def or_of(value: str | None, name: str) -> str | None:
        return value if value is not None else said.get(f"KESTRELPY_{name}") or None

    if password is None:
        password_file = or_of(password_file, "PASSWORD_FILE")
        if password_file is None:
            password = or_of(None, "PASSWORD")
    if tls_cert is None:
        tls_cert, tls_key = or_of(None, "TLS_CERT"), or_of(tls_key, "TLS_KEY")
    return Access(
        or_of(user, "USER"), password, password_file, tls or _flag(said.get("KESTRELPY_TLS", "")),
        or_of(tls_ca, "TLS_CA"), tls_cert, tls_key,
    )


def context_of(access: Access) -> ssl.SSLContext | None:
    """Return the TLS context of a connection; None: it has no TLS. Raises TlsRefused."""
    try:
        return access.context() if access.tls else None
    except ValueError as error:  # a file was removed since the start; it may come back
        raise TlsRefused(str(error)) from None


def login(access: Access) -> Generator[bytes, bytes, None]:
    """Yield the requests of a login; each is answered with one line, which is sent in.

    Raises LoginRefused.
    """
    if access.user is None:
        return
    line = yield b"verbosity 0\r\n"
    if line.startswith(b"SERVER_ERROR"):
        raise LoginRefused(line)
    if not is_logged_out(line):
        return
    try:
        body = access.credentials()
    except ValueError as error:  # the file was removed since the start
        raise LoginRefused(b"CLIENT_ERROR " + str(error).encode("ascii", "replace")) from None
    line = yield b"set login 0 0 %d\r\n%b\r\n" % (len(body), body)
    if line != b"STORED":
        raise LoginRefused(line)


def connect(
    address: Address, access: Access, connect_seconds: float, answer_seconds: float
) -> socket.socket:
    """Return a connection that is logged in; its answers may take `answer_seconds`.

    Raises OSError, LoginRefused.
    """
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    else:
        sock = socket.create_connection(address, connect_seconds)
    try:
        if isinstance(address, str):
            sock.settimeout(connect_seconds)
            sock.connect(address)
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if access.tls:
                sock = _encrypted(sock, address, access)
            sock.settimeout(answer_seconds)
            _log_in(sock, address, access)
        sock.settimeout(answer_seconds)
    except BaseException:
        sock.close()
        raise
    return sock


def end_sending(sock: socket.socket) -> None:
    """Close the sending direction: the server ends a wait. Its answers can still be read."""
    with contextlib.suppress(OSError):
        # A TLS socket's own `shutdown` forgets the keys, so that nothing can be read any more.
        socket.socket.shutdown(sock, socket.SHUT_WR)


def explained(error: OSError, address: Address, access: Access) -> OSError:
    """Return what is wrong with a connection that ended before its first answer."""
    if isinstance(error, TlsRefused | ConnectionRefusedError | socket.gaierror):
        return error
    if isinstance(address, str):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsRefused(why(error))
    if access.tls and _answers_without_tls(address):
        return TlsRefused("this port speaks no TLS: leave TLS out")
    if isinstance(error, TimeoutError) or not _answers_with_tls(address):
        return error
    if not access.tls:
        return TlsRefused("this port speaks TLS: say so (--tls or --tls-ca, KESTRELPY_TLS)")
    # With TLS 1.3 a server that refuses the client's certificate hangs up without a word.
    if not _answers_with_tls(address, ssl.TLSVersion.TLSv1_2):
        return TlsRefused(_REFUSES if access.tls_cert is not None else _ASKS)
    return error


def why(error: OSError) -> str:
    """Return in a few words why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
            return _ASKS
        return f"TLS failed: {reason.replace('_', ' ').lower() or error}"
    return error.strerror or str(error) or type(error).__name__


def _flag(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(f"KESTRELPY_TLS: {text!r} is neither true nor false")
    return text.lower() in _TRUE


def _encrypted(sock: socket.socket, address: tuple[str, int], access: Access) -> ssl.SSLSocket:
    context = context_of(access)
    assert context is not None
    try:
        return context.wrap_socket(sock, server_hostname=address[0])
    except OSError as error:
        raise explained(error, address, access) from None


def _log_in(sock: socket.socket, address: Address, access: Access) -> None:
    steps = login(access)
    try:
        request = next(steps)
        while True:
            sock.sendall(request)
            request = steps.send(_line(sock))
    except StopIteration:
        return
    except OSError as error:
        raise explained(error, address, access) from None


def _line(sock: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\r\n"):
        got = sock.recv(_LINE_BYTES_MAX)
        if not got:
            raise ConnectionError(NO_LOGIN)
        if len(line) > _LINE_BYTES_MAX:
            raise ConnectionError(NO_ANSWER)
        line += got
    return line[:-2]


def _answers_without_tls(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, _WRONG_WAY_SECONDS) as sock:
            sock.sendall(b"version\r\n")
            return sock.recv(_LINE_BYTES_MAX).startswith((b"VERSION", b"SERVER_ERROR"))
    except OSError:
        return False


def _answers_with_tls(
    address: tuple[str, int], newest: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED
) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = newest
    try:
        with (
            socket.create_connection(address, _WRONG_WAY_SECONDS) as sock,
            context.wrap_socket(sock),
        ):
            return True
    except OSError:
        return False


def _why_file(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"OpenSSL cannot read it ({error.reason or 'bad PEM'})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
