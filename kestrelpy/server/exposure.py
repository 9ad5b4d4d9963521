"""The checks of a start before it listens, and of `check-config`: open addresses, TLS files, and
places on this machine that no server can use.

One rule: a server that others can reach has users, or its operator has said that it needs none.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from kestrelpy.aside import TookTooLong, run_aside
from kestrelpy.config import Config, ServerConfig, read_plain
from kestrelpy.fleet import NoPatroni, patroni_version, why_bad_patroni, why_other_slices

log = logging.getLogger("kestrelpy")

_LOOKUP_SECONDS: Final = 5.0
_SECRET_LENGTH_MIN: Final = 16  # characters
_SECRET_LENGTH_MAX: Final = 256

_SOCKET_PATH_BYTES_MAX: Final = 107  # Linux's; others allow a few less
_NEW_SOCKET_BYTES: Final = 8  # a socket has another name in its folder until it listens


class Unservable(Exception):
    """This machine cannot serve with this configuration."""


class Exposed(Unservable):
    """Others can reach an address, and no login keeps them out."""


async def refuse_exposed(config: Config, handed: Sequence[tuple[str, socket.socket]]) -> None:
    """Raise Exposed if other machines can reach the server and it has no users.

    `handed` are sockets that were handed over, which take the place of `host`.
    """
    server = config.server
    if config.auth and (server.text_port is not None or any(n == "text" for n, _ in handed)):
        raise Exposed("[server] text_port cannot be open with [auth]: its protocol has no login")
    if server.insecure or config.auth:
        return
    places = [] if handed else [("host", server.host)]
    if handed and server.text_port is not None:
        places.append(("host", server.host))
    if server.http_port is not None:
        places.append(("http_host", server.http_host))
    for sock in (sock for _, sock in handed if sock.family != socket.AF_UNIX):
        places.append(("a socket that was handed over,", sock.getsockname()[0]))
    for key, host in places:
        if not await _is_loopback(host):
            raise Exposed(
                f"[server] {key} {host} is reached from other machines, and anybody there could do "
                "anything: name users in [auth], or set insecure = true if the network is yours"
            )


async def refuse_unservable(config: Config, handed: Sequence[tuple[str, socket.socket]]) -> None:
    """Raise Unservable if a server with this configuration would not start here.

    `handed` are sockets that were handed over, which take the place of `host`.
    """
    await refuse_exposed(config, handed)
    try:
        await run_aside(partial(_check, config, not handed), _LOOKUP_SECONDS)
        await run_aside(partial(_check_patroni, config.fleet.patroni), _LOOKUP_SECONDS)
    except TookTooLong:
        seconds = f"{_LOOKUP_SECONDS:.0f} s"
        raise Unservable(
            f"[server] a name or a file of it gave no answer within {seconds}"
        ) from None


async def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = await run_aside(partial(socket.getaddrinfo, host, None), _LOOKUP_SECONDS)
    except TookTooLong:
        raise Exposed(f"the name {host}: nobody says which address that is") from None
    except OSError:
        return True  # nothing listens there: that is said when it is tried
    return all(ipaddress.ip_address(each[4][0]).is_loopback for each in found)


class TlsFiles(NamedTuple):
    """The contents of a certificate's files when they were read."""

    cert: bytes
    key: bytes | None
    names: str


class Tls:
    """The TLS context of all listeners. New connections have the certificate loaded last."""

    __slots__ = ("context",)

    def __init__(self) -> None:
        self.context: ssl.SSLContext | None = None

    def begin(self, server: ServerConfig) -> None:
        """Load the files that the configuration names, if it does; raise Exposed. Blocks."""
        found = _read(server)
        self.context = _context(server, found) if found is not None else None

    @staticmethod
    def check(server: ServerConfig) -> TlsFiles | None:
        """Return what is in the files, for `renew`; raise Exposed if they cannot be used.
        Blocks."""
        found = _read(server)
        if found is not None:
            _context(server, found)
        return found

    def renew(self, found: TlsFiles | None) -> None:
        """Take another certificate, if there was one at the start; raise Exposed."""
        if self.context is not None and found is not None:
            _load(self.context, found)


def _read(server: ServerConfig) -> TlsFiles | None:
    if server.tls_cert is None:
        return None
    names, key = f"tls_cert {server.tls_cert} and tls_key {server.tls_key}", None
    try:
        cert = read_plain(server.tls_cert)
        if server.tls_key is not None:
            key = read_plain(server.tls_key)
    except (OSError, ValueError) as error:
        raise Exposed(f"[server] {names}: {_why(error)}") from error
    return TlsFiles(cert, key, names)


def _context(server: ServerConfig, found: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, found)
    if (authority := server.tls_client_ca) is not None:
        try:
            with _as_file(read_plain(authority)) as path:
                context.load_verify_locations(path)
        except (OSError, ValueError) as error:
            raise Exposed(f"[server] tls_client_ca {authority}: {_why(error)}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, found: TlsFiles) -> None:
    try:
        with _as_file(found.cert) as cert, _as_file(found.key or b"") as key:
            has_key_file = found.key is not None
            context.load_cert_chain(cert, key if has_key_file else None, password=lambda: "")
    except (OSError, ValueError) as error:
        raise Exposed(f"[server] {found.names}: {_why(error)}") from error


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Yield a path with these bytes, because OpenSSL takes only paths.

    The bytes were read within a limit of time. The files that they came from may have been replaced
    since, or may not answer any more.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("kestrelpy-tls", os.MFD_CLOEXEC), "wb", buffering=0) as file:
            file.write(data)
            yield f"/proc/self/fd/{file.fileno()}"
    else:  # no such files on this system: one that its owner alone may read, for the moment
        with tempfile.NamedTemporaryFile(buffering=0) as named:
            named.write(data)
            yield named.name


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"OpenSSL cannot read them ({error.reason or 'bad PEM'})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _check(config: Config, is_listening: bool) -> None:
    """Raise Unservable if a file, address or folder of these settings cannot be used. Blocks."""
    server = config.server
    Tls.check(server)
    secret_of(config)
    hosts = {"host": server.host} if is_listening and server.port is not None else {}
    if server.http_port is not None:
        hosts["http_host"] = server.http_host
    found = {f"{key} {host}": _why_not_ours(host) for key, host in hosts.items()}
    if is_listening and server.socket is not None:
        found[f"socket {server.socket}"] = _why_no_socket(server.socket, server.data_dir)
    found[f"data_dir {server.data_dir}"] = _why_no_data(config)
    for setting, why in found.items():
        if why:
            raise Unservable(f"[server] {setting}: {why}")
    if is_listening:
        _refuse_shared(server)


def secret_of(config: Config) -> str:
    """Return the secret of the fleet, "" if it has none; raise Unservable. Blocks."""
    path = config.fleet.secret_file
    if path is None:
        return ""
    named = f"[fleet] secret_file {path}"
    try:
        secret = read_plain(path).decode("ascii").strip()
    except UnicodeDecodeError:  # whose text quotes the file
        raise Unservable(f"{named}: it has a character that is not ASCII") from None
    except (OSError, ValueError) as error:
        raise Unservable(f"{named}: {_why(error)}") from error
    if not _SECRET_LENGTH_MIN <= len(secret) <= _SECRET_LENGTH_MAX or len(secret.split()) != 1:
        raise Unservable(
            f"{named}: it needs one word of {_SECRET_LENGTH_MIN} to {_SECRET_LENGTH_MAX} characters"
        )
    return secret


def tls_between_members(config: Config) -> ssl.SSLContext | None:
    """Return how this process connects to other members; None: without TLS. The certificate of a
    member must be of tls_client_ca, or the same as this one's. Raise Unservable. Blocks."""
    server = config.server
    found = _read(server)
    if found is None or server.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which trusts no authority of the system
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # tls_cert may be no authority itself
    _load(context, found)
    authority = server.tls_client_ca or server.tls_cert
    try:
        with _as_file(read_plain(authority)) as path:
            context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise Exposed(f"[server] {authority}: {_why(error)}") from error
    return context


def _check_patroni(url: str | None) -> None:
    """Raise Unservable for a Patroni that loses what was acknowledged. Blocks."""
    try:
        why = "" if url is None else why_bad_patroni(patroni_version(url), url)
    except NoPatroni as error:
        log.warning("%s", error)
        return
    if why:
        raise Unservable(f"[fleet] patroni: {why}")


def _refuse_shared(server: ServerConfig) -> None:
    """Raise Unservable if two listeners would have one address, by whatever names."""
    taken: dict[tuple[str, int], str] = {}
    for key, host, port in (
        ("port", server.host, server.port), ("text_port", server.host, server.text_port),
        ("http_port", server.http_host, server.http_port),
    ):  # fmt: skip
        for address in _addresses(host) if port else ():
            other = taken.setdefault((address, port or 0), key)
            if other != key:
                raise Unservable(
                    f"[server] {other} and {key} are both {port} of {address}: each listener needs "
                    "its own"
                )


def _addresses(host: str) -> set[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {str(address[0]) for *_, address in found}


def _why_not_ours(host: str) -> str:
    """Return why no socket can listen at this address; "" if one can."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, None, type=socket.SOCK_STREAM
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.bind((address[0], 0, *address[2:]))
    except socket.gaierror:
        return "this name has no address"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _why_no_socket(path: Path, data_dir: Path) -> str:
    if len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
        return f"the path is longer than {_SOCKET_PATH_BYTES_MAX} bytes"
    folder_bytes_max = _SOCKET_PATH_BYTES_MAX - _NEW_SOCKET_BYTES
    if len(os.fsencode(path.parent)) > folder_bytes_max:
        return f"its folder's path is longer than {folder_bytes_max} bytes"
    if path == data_dir:
        return "data_dir has this name"
    if path.parent == data_dir and not os.path.lexists(data_dir):
        return ""  # the start makes it
    if not path.parent.is_dir():
        return "its folder does not exist"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return "its folder cannot be written"
    return "another file has this name" if os.path.lexists(path) and not path.is_socket() else ""


def _why_no_data(config: Config) -> str:
    data_dir = config.server.data_dir
    try:
        data_dir.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:  # its name is too long, for instance
        return error.strerror or str(error)
    nearest = next(p for p in (data_dir, *data_dir.parents) if os.path.lexists(p))
    if not nearest.is_dir():
        return f"{nearest.name} is not a directory"
    if not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        return f"{nearest.name or nearest} cannot be written"
    return why_of_other_slices(config)


def why_of_other_slices(config: Config) -> str:
    """Return why the queues of the data directory are not for this configuration; "": they are.
    Blocks."""
    is_whole = config.fleet.engine is None and config.fleet.slice is None
    if not is_whole:
        return ""
    return why_other_slices(
        config.server.data_dir, config.placement, lambda name: config.queue(name).sliced
    )
