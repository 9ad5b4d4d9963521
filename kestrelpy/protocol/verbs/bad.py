"""The reply to a request that cannot be executed, and its line in the log.

    get jobs/opn          CLIENT_ERROR unknown option opn, did you mean open?
    a byte of TLS         no reply: the connection is closed, and the log names the remedy

One rule: a flood of mistakes costs little: at most one suggestion and one line per second.
"""

from __future__ import annotations

import logging
from typing import Final

from kestrelpy.access import with_user
from kestrelpy.errors import fitted
from kestrelpy.protocol.log_limit import address_of
from kestrelpy.protocol.parse import Bad, nearest
from kestrelpy.protocol.ports import Talk

_log = logging.getLogger("kestrelpy.conversation")

# The shortest time between two suggestions of an option to one connection: a suggestion takes as
# long as some twenty requests.
SUGGESTION_MS: Final = 1000


def answer_bad(talk: Talk, command: Bad, now_ms: int) -> None:
    """Reply to a request that is malformed, and close the connection if its end is not known."""
    talk.replies.count_error(not command.line.startswith(b"SERVER_ERROR"))
    if command.log:
        _complain(talk, command.log, now_ms)
    if command.closes:
        talk.closing = True
    if not command.noreply:
        line = command.line
        if command.unknown and now_ms >= talk.suggests_ms:
            talk.suggests_ms = now_ms + SUGGESTION_MS
            line = fitted(line + nearest(command.unknown).encode("ascii"))
        talk.replies.say(line + b"\r\n")
    elif not command.log:
        talk.broker.counters.refused_quietly += 1


def _complain(talk: Talk, text: str, now_ms: int) -> None:
    """Log a mistake of the client."""
    peer = talk.holder.name
    end = talk.host.log_limit.take(address_of(peer), now_ms)
    if end is not None:
        _log.warning("%s: %s%s", with_user(peer, talk.user), text, end)
