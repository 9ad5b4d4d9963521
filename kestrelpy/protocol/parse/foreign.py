"""Protocols that are not spoken here: the connection is closed, and the log names the remedy.

One rule: a web page can make a browser send a request to any port, and executes nothing by it.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.protocol.parse.commands import Bad

# The first byte of such a protocol, and the log line.
FOREIGN: Final = {
    0x80: "binary memcache protocol refused: set the client to the text (ASCII) protocol",
    0x16: "TLS refused: this port speaks plain text, so turn TLS off in the client or let a proxy "
    "in front of this port end it",
}
_REMEDY: Final = "HTTP has a port of its own (http_port)"


def refuse_foreign(first: int) -> Bad:
    """Return the refusal of a protocol with this first byte, one of `FOREIGN`."""
    return Bad(b"ERROR", closes=True, noreply=True, log=FOREIGN[first])


def is_http(words: list[bytes]) -> bool:
    """True for a line of an HTTP request."""
    return words[-1].startswith(b"HTTP/1.") or words[0].lower().startswith(b"host:")


def refuse_http(port: str) -> Bad:
    """Return the refusal of an HTTP request by the port of this name."""
    text = f"HTTP request refused on the {port} port: {_REMEDY}"
    return Bad(b"ERROR", closes=True, noreply=True, log=text)
