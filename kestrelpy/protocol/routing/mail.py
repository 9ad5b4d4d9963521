"""Messages of other slices: they begin, send items, and say which originals are gone.

One rule: a letter under a permit that is not valid any more ends its connection: its sender has
begun again since, and knows from the list whether the item is here.
"""

from __future__ import annotations

from kestrelpy.core import DUPLICATE, REUSED, Letter
from kestrelpy.errors import ClientError, NoRoomYet, Refused, ServerError
from kestrelpy.operations import Durable, Received, Receiving, why_reused
from kestrelpy.protocol.mail import (
    MailBegin,
    MailBegun,
    MailGone,
    MailHeard,
    MailSend,
    MailSent,
    reply_bytes,
    request_of,
    terms_of,
)
from kestrelpy.protocol.parse import Mail
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply
from kestrelpy.protocol.steps import Steps
from kestrelpy.protocol.verbs import STORED, word_of


def take_mail(talk: Talk, command: Mail, now_ms: int) -> Steps:
    """`mail <slice> <bytes>`; raise Refused."""
    request = request_of(command.body)
    if isinstance(request, MailBegin):
        _begin(talk, request)
    elif isinstance(request, MailSend):
        _receive(talk, request, now_ms)
    else:
        assert isinstance(request, MailGone)
        talk.broker.moves.remote.arrivals.settle(request.origins, now_ms)
        talk.replies.say(reply_bytes(MailHeard()))
    return None


def _begin(talk: Talk, request: MailBegin) -> None:
    """List what is open, once all of it is on disk."""
    begun = talk.broker.moves.remote.arrivals.begin(request.server)
    reply = MailBegun(talk.broker.server_id, begun.number, begun.arrivals)
    rests = JointReply()
    for log, lsn in begun.rests:
        rests.hold(b"", Durable(log), lsn)
    talk.replies.hold(reply_bytes(reply), rests, 1)


def _receive(talk: Talk, request: MailSend, now_ms: int) -> None:
    """Store a letter, or refuse it for good."""
    letter = request.letter
    if not talk.broker.moves.remote.arrivals.is_valid(letter.origin.server, request.permit):
        talk.closing = True
        raise ServerError("a permit that is not valid any more: begin again")
    receiving = Receiving(talk.broker, talk.host)
    if (found := receiving.find(letter.origin)) is not None:
        _say_stored(talk, found)
        return
    try:
        if letter.terms:
            _hand_off(talk, receiving, letter, now_ms)
        else:
            _say_stored(talk, receiving.move(letter, now_ms))
    except NoRoomYet:
        raise
    except Refused as refused:
        talk.replies.say(reply_bytes(MailSent.refused(refused)))


def _hand_off(talk: Talk, receiving: Receiving, letter: Letter, now_ms: int) -> None:
    said = terms_of(letter.terms)
    received, lsn = receiving.hand_off(letter, said.terms, now_ms)
    if received is not None:
        _say_stored(talk, received)
        return
    queue = talk.broker.queues.get(letter.target)
    if lsn == REUSED and queue is not None and not queue.policy.dedupe_same_body:
        lsn = DUPLICATE
    if lsn == REUSED:
        sent = MailSent.refused(ClientError(why_reused(letter.target, said.terms.id)))
    else:
        word = STORED if lsn >= 0 else word_of(said.verb, lsn)
        sent = MailSent(is_repeated=True) if word is STORED else MailSent(word=word)
    if queue is None:
        talk.replies.say(reply_bytes(sent))
    else:  # an answer about what was stored before rests on that
        queue.log.wait_durable(queue.log.lsn_appended)
        talk.replies.hold(reply_bytes(sent), Durable(queue.log), queue.log.lsn_appended)


def _say_stored(talk: Talk, received: Received) -> None:
    """Answer once the copy is on disk."""
    rest = Durable(received.log)
    talk.replies.hold(reply_bytes(MailSent(received.copy)), rest, received.lsn)
