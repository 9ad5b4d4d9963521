"""Commands that talk to a server: each takes the options of a login and of TLS as well.

    kestrelpy queues ls --server queue.example:22133 --user anna --password-file anna.secret

A password is no option: every user of a machine sees the words of every command.

One rule: a command with `--server` has these options; none of them has to name them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any, Final

import typer

# What the running command was told, by the names of `access_of`.
_said: ContextVar[dict[str, Any] | None] = ContextVar("said", default=None)


def said() -> dict[str, Any]:
    """Return the options of login and TLS of the running command."""
    return _said.get() or {}


class Commands(typer.Typer):
    """A group of commands."""

    def command(self, *words: Any, **settings: Any) -> Callable[[Any], Any]:
        """Return a decorator for a command of this group."""
        register = super().command(*words, **settings)

        def take(function: Any) -> Any:
            register(_with_access(function))
            return function

        return take


def _option(name: str, metavar: str, text: str) -> inspect.Parameter:
    variable = f"KESTRELPY_{name.upper().replace('-', '_')}"
    info = typer.Option(f"--{name}", metavar=metavar, help=text, envvar=variable)
    return _parameter(name, Annotated[str | None, info], None)


def _parameter(name: str, kind: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name.replace("-", "_"), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
    )


_TLS: Final = typer.Option("--tls", help="Speak TLS.", envvar="KESTRELPY_TLS")
_OPTIONS: Final = (
    _option("user", "NAME", "Who you are, if the server has users."),
    _option("password-file", "FILE", "A file with your password. Or set KESTRELPY_PASSWORD."),
    _parameter("tls", Annotated[bool, _TLS], False),
    _option("tls-ca", "FILE", "TLS: the authority of the server's certificate."),
    _option("tls-cert", "FILE", "TLS: your own certificate."),
    _option("tls-key", "FILE", "TLS: the key of your certificate."),
)

# By their names as parameters.
OPTIONS: Final = tuple(each.name for each in _OPTIONS)


def _with_access(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function, eval_str=True)
    if "server" not in signature.parameters:
        return function

    @wraps(function)
    def run(**options: Any) -> Any:
        _said.set({each.name: options.pop(each.name) for each in _OPTIONS})
        return function(**options)

    whole = signature.replace(parameters=[*signature.parameters.values(), *_OPTIONS])
    vars(run)["__signature__"] = whole  # where inspect.signature, and so Typer, looks first
    return run
