"""What a request says against what its route declares, and the sentences that refuse it."""

from kestrelpy.http.checks.declared import DeclaredRoute, Parameter, checked
from kestrelpy.http.checks.sentences import allowed, meant, of_msgspec, of_pydantic

__all__ = [
    "DeclaredRoute", "Parameter", "allowed", "checked", "meant", "of_msgspec", "of_pydantic",
]  # fmt: skip
