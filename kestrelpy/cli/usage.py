"""Mistakes in the words of a command line, each as one sentence with exit code 2.

One rule: the sentence shows the word as it was typed, and says what is allowed instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from typer.exceptions import TyperException

from kestrelpy.cli.errors import CommandError
from kestrelpy.durations import shown
from kestrelpy.wire.names import NAME_FORM, is_name

_DIGITS_MAX: Final = 18
_WHOLE: Final = re.compile(f"-?[0-9]{{1,{_DIGITS_MAX}}}")


def sentence(error: TyperException) -> str:
    """Return the sentence for a command line that cannot be understood."""
    text = error.format_message().rstrip(".")
    near = getattr(error, "possibilities", None)
    if near:
        text = f"{getattr(error, 'message', text)}, did you mean {near[0]}?"
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "kestrelpy"
    text = text.replace(". Did you mean", ", did you mean")
    return f"{text[:1].lower()}{text[1:]} ({command} -h shows what it takes)"


def port_or_off(name: str) -> Callable[[str | int], int | str]:
    """Return a parser of a port, or of the word `off`; it raises CommandError."""
    port = whole(name, 0, 65535)

    def parse(text: str | int) -> int | str:
        if text == "off":
            return text
        try:
            return port(text)
        except CommandError as error:
            raise CommandError(f'{error}, or "off"') from None

    return parse


def whole(name: str, least: int, most: int | None = None) -> Callable[[str | int], int]:
    """Return a parser of whole numbers for an option or argument; it raises CommandError."""
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str | int) -> int:
        number = int(text) if _WHOLE.fullmatch(str(text)) else None
        if number is None or number < least or (most is not None and number > most):
            raise CommandError(f"{name}: {shown(str(text))} must be a whole number {allowed}")
        return number

    return parse


def queue_name(text: str) -> str:
    """Return the name of a queue as it is; raise CommandError if no queue can have it."""
    if not is_name(text):
        what = f"{_shown_name(text)} is not a queue's name"
        raise CommandError(f"{what}: it must be {NAME_FORM} or /")
    return text


def queue_key(text: str) -> str:
    """Return a queue's name, perhaps with options of the protocol, like jobs/key=A, as it is;
    raise CommandError if the name before the first / is none."""
    name, _, options = text.partition("/")
    if not is_name(name) or not options.isascii() or re.search(r"[\0-\x20\x7f]", options):
        raise CommandError(f"{_shown_name(text)} is not a queue's name: it must be {NAME_FORM}")
    return text


def _shown_name(text: str) -> str:
    return shown(text) if text else "the empty text"
