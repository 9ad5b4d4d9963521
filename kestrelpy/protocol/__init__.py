"""The protocols of the daemon's ports: bytes to commands, commands to replies, one conversation per
connection. The memcache text protocol, and Kestrel's own in `text`.

One rule: no sockets, no files, no clock. Bytes and the time come in as arguments; a reply leaves
when it is true.
"""

from kestrelpy.operations import check_name
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.log_limit import LogLimit, address_of
from kestrelpy.protocol.login import Login, LoginPort
from kestrelpy.protocol.mail import (
    MailBegin,
    MailBegun,
    MailGone,
    MailHeard,
    MailReply,
    MailRequest,
    MailSend,
    MailSent,
    reply_of,
    request_bytes,
)
from kestrelpy.protocol.parse import Lines
from kestrelpy.protocol.ports import ConnectionRoom, Host, Talk
from kestrelpy.protocol.routing import (
    IDLE,
    ROUTED_MAIL,
    ROUTED_MEMCACHE,
    RoutedConversation,
    RoutedWire,
    RouterCounts,
    RouterHost,
    SlicedQueues,
    SlicedQueuesPort,
    Waking,
    merged_word,
)
from kestrelpy.protocol.wire import MEMCACHE, ROUTED, Wire, routed_wire, wire_named

__all__ = [
    "IDLE",
    "MEMCACHE",
    "ROUTED",
    "ROUTED_MAIL",
    "ROUTED_MEMCACHE",
    "ConnectionRoom",
    "Conversation",
    "Host",
    "Lines",
    "LogLimit",
    "Login",
    "LoginPort",
    "MailBegin",
    "MailBegun",
    "MailGone",
    "MailHeard",
    "MailReply",
    "MailRequest",
    "MailSend",
    "MailSent",
    "RoutedConversation",
    "RoutedWire",
    "RouterCounts",
    "RouterHost",
    "SlicedQueues",
    "SlicedQueuesPort",
    "Talk",
    "Waking",
    "Wire",
    "address_of",
    "check_name",
    "merged_word",
    "reply_of",
    "request_bytes",
    "routed_wire",
    "wire_named",
]
