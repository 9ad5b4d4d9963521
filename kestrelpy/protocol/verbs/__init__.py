"""The verbs: the effect and the reply of each request."""

from kestrelpy.protocol.verbs.admin import NO_LOGIN, answer_plain
from kestrelpy.protocol.verbs.browse import Browser
from kestrelpy.protocol.verbs.get import OPEN_FIRST, GetHandler
from kestrelpy.protocol.verbs.monitor import confirm, monitor
from kestrelpy.protocol.verbs.set import STORED, SetHandler, word_of
from kestrelpy.protocol.verbs.table import VERBS, Verbs, needs, row

__all__ = [
    "NO_LOGIN",
    "OPEN_FIRST",
    "STORED",
    "VERBS",
    "Browser",
    "GetHandler",
    "SetHandler",
    "Verbs",
    "answer_plain",
    "confirm",
    "monitor",
    "needs",
    "row",
    "word_of",
]
