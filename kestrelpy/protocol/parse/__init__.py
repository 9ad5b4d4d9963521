"""The parser: from bytes to requests."""

from kestrelpy.protocol.parse.commands import (
    Bad,
    Command,
    Confirm,
    Delete,
    Ending,
    Fetch,
    Form,
    Formed,
    Mail,
    Monitor,
    Plain,
    Remove,
    Store,
    StoreLine,
    Target,
    Touch,
    Upto,
    Withdraw,
)
from kestrelpy.protocol.parse.foreign import FOREIGN, is_http, refuse_foreign, refuse_http
from kestrelpy.protocol.parse.meta import SILENT
from kestrelpy.protocol.parse.option_values import BrowseView, parse_number
from kestrelpy.protocol.parse.options import nearest, refuse_later
from kestrelpy.protocol.parse.parser import (
    BODY_BYTES_ABSURD,
    LINE_BYTES_MAX,
    Lines,
    Parser,
    bad,
)
from kestrelpy.protocol.parse.requests import Requests
from kestrelpy.protocol.parse.set_conditions import Handoff

__all__ = [
    "BODY_BYTES_ABSURD",
    "FOREIGN",
    "LINE_BYTES_MAX",
    "SILENT",
    "Bad",
    "BrowseView",
    "Command",
    "Confirm",
    "Delete",
    "Ending",
    "Fetch",
    "Form",
    "Formed",
    "Handoff",
    "Lines",
    "Mail",
    "Monitor",
    "Parser",
    "Plain",
    "Remove",
    "Requests",
    "Store",
    "StoreLine",
    "Target",
    "Touch",
    "Upto",
    "Withdraw",
    "bad",
    "is_http",
    "nearest",
    "parse_number",
    "refuse_foreign",
    "refuse_http",
    "refuse_later",
]  # fmt: skip
