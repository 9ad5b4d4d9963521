"""Whether all is well, as the server's own page says it: its verdict and figures, over HTTP.

    `stats` says the port of HTTP ──▶ GET /views?view=overview ──▶ lines, the worst first

One rule: the server judges. Without HTTP, or without the right to read, there is no verdict, and a
sentence says why.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple

from rich.text import Text

from kestrelpy.cli.at import At
from kestrelpy.cli.queues.listing import number
from kestrelpy.cli.remote import parse_address
from kestrelpy.cli.screen import duration, size
from kestrelpy.cli.wire import Facts
from kestrelpy.client import Access
from kestrelpy.wire.dial import why

LINES_MAX: Final = 5
_PATH: Final = "/views?view=overview&range=5m"
_SECONDS_MAX: Final = 5.0
_BYTES_MAX: Final = 4 << 20
_LOCAL: Final = "127.0.0.1"
_STYLES: Final = {"ok": "green", "warn": "yellow", "bad": "bold red"}


class ServerVerdict(NamedTuple):
    """What the server says of itself; `why_not` is a sentence if it says nothing."""

    view: dict[str, Any]
    why_not: str = ""


def ask_verdict(at: At, server: Facts) -> ServerVerdict:
    """Return the verdict of the server whose `stats` these are."""
    port = number(server, "http_port")
    if not port:
        return ServerVerdict({}, "no verdict: HTTP is off on this server")
    try:
        return ServerVerdict(_asked(at, port))
    except (OSError, ValueError, HTTPException) as error:
        text = why(error) if isinstance(error, OSError) else str(error)
        return ServerVerdict({}, f"no verdict from HTTP port {port}: {text}")


def _asked(at: At, port: int) -> dict[str, Any]:
    access, address = at.access or Access(), parse_address(at.server)
    host = _LOCAL if isinstance(address, str) else address[0]
    seconds = min(at.timeout_ms / 1000, _SECONDS_MAX)
    is_encrypted = access.tls and not isinstance(address, str)
    if is_encrypted:
        connection: HTTPConnection = HTTPSConnection(
            host, port, timeout=seconds, context=access.context()
        )
    else:
        connection = HTTPConnection(host, port, timeout=seconds)
    try:
        connection.connect()
        # The server knows itself by its address, whatever name led here.
        peer = connection.sock.getpeername()[0]
        headers = {"Host": f"[{peer}]:{port}" if ":" in peer else f"{peer}:{port}"}
        if access.user is not None:
            said = access.credentials().replace(b" ", b":", 1)
            headers["Authorization"] = "Basic " + b64encode(said).decode()
        connection.request("GET", _PATH, headers=headers)
        answer = connection.getresponse()
        data = answer.read(_BYTES_MAX)
        found = json.loads(data)
    except ssl.SSLError as error:
        raise OSError(why(error)) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(str(found.get("description", answer.reason)))
    view: dict[str, Any] = found
    return view


def lines_of(verdict: ServerVerdict) -> list[Text]:
    """Return the verdict as lines: the worst first, then the figures of the server."""
    view = verdict.view
    if not view:
        return [Text(verdict.why_not, "dim")]
    found = [_line(each, view["now_ms"]) for each in view["verdict"]["lines"][:LINES_MAX]]
    more = len(view["verdict"]["lines"]) - LINES_MAX
    if more > 0:
        found.append(Text(f"and {more} more", "dim"))
    if not found:
        found.append(Text("all well", _STYLES["ok"]))
    rates = view["rates"]
    figures = [f"{word} {rates[word]:,.1f}/s" for word in ("stored", "delivered", "confirmed")]
    figures += [f"oldest {duration(view['oldest_ms'])}", f"wait p99 {_ms(view['wait_p99_ms'])}",
                f"sync p99 {_ms(view['sync_p99_ms'])}"]  # fmt: skip
    if view.get("disk_free") is not None:
        figures.append(f"{size(view['disk_free'])} free")
    return [*found, Text("  ".join(figures))]


def _ms(figure: float | None) -> str:
    """Return a time in milliseconds; None: nothing was measured."""
    return "-" if figure is None else f"{figure:,.4g} ms"


def _line(line: dict[str, Any], now_ms: int) -> Text:
    since_ms = line.get("since_ms")
    seconds = max(now_ms - since_ms, 0) // 1000 if since_ms is not None else 0
    since = f" (for {duration(seconds * 1000)})" if seconds else ""
    return Text(f"{line['level']}: {line['text']}{since}", _STYLES.get(line["level"], ""))
