"""What a server shows to other machines: addresses, and TLS.

One rule: a server that others can reach has users, or its operator has said that it needs none.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Sequence

from kestrelpy.config import Config, ServerConfig


class Exposed(Exception):
    """An address that others can reach, and nothing that keeps them out."""


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


async def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError:
        return True  # nothing listens there: that is said when it is tried
    return all(ipaddress.ip_address(each[4][0]).is_loopback for each in found)


class Tls:
    """The TLS context of all listeners. New connections have the certificate loaded last."""

    __slots__ = ("context",)

    def __init__(self) -> None:
        self.context: ssl.SSLContext | None = None

    def begin(self, server: ServerConfig) -> None:
        """Load the files that the configuration names, if it does; raise Exposed."""
        self.context = _context(server) if server.tls_cert is not None else None

    @staticmethod
    def check(server: ServerConfig) -> None:
        """Raise Exposed if the files cannot be used."""
        if server.tls_cert is not None:
            _context(server)

    def renew(self, server: ServerConfig) -> None:
        """Load the certificate again, if there was one at the start; raise Exposed."""
        if self.context is not None and server.tls_cert is not None:
            _load(self.context, server)


def _context(server: ServerConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, server)
    if (authority := server.tls_client_ca) is not None:
        try:
            context.load_verify_locations(authority)
        except (OSError, ValueError) as error:
            raise Exposed(f"[server] tls_client_ca {authority}: {_why(error)}") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, server: ServerConfig) -> None:
    assert server.tls_cert is not None
    try:
        context.load_cert_chain(server.tls_cert, server.tls_key, password=lambda: "")
    except (OSError, ValueError) as error:
        files = f"tls_cert {server.tls_cert} and tls_key {server.tls_key}"
        raise Exposed(f"[server] {files}: {_why(error)}") from error


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"OpenSSL cannot read them ({error.reason or 'bad PEM'})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
