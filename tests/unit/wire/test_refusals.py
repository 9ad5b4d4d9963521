"""The server's "no" has its class, its text, and whether it may pass."""

from __future__ import annotations

import pickle

import pytest

from kestrelpy.wire.refusals import (
    CLIENT_ERROR,
    ERROR,
    SERVER_ERROR,
    LoginRefused,
    ServerRefusal,
    is_refusal,
)


@pytest.mark.parametrize(
    ("line", "kind", "said", "may_pass", "is_lease_over"),
    [
        (b"ERROR", ERROR, "the server does not know the verb", False, False),
        (b"CLIENT_ERROR no such option", CLIENT_ERROR, "no such option", False, False),
        (b"CLIENT_ERROR token 7 of q is not valid", CLIENT_ERROR, "token 7 of q is not valid",
         False, True),
        (b"SERVER_ERROR lease expired: of q", SERVER_ERROR, "lease expired: of q", True, True),
        (b"CLIENT_ERROR unauthenticated", CLIENT_ERROR,
         "this server has users, and needs a user and a password", False, False),
    ],
)  # fmt: skip
def test_a_refusal_says_its_class_and_its_text_and_whether_it_may_pass(
    line: bytes, kind: bytes, said: str, may_pass: bool, is_lease_over: bool
) -> None:
    refusal = ServerRefusal(line)

    assert is_refusal(line)
    assert (refusal.kind, str(refusal)) == (kind, said)
    assert (refusal.may_pass, refusal.is_lease_over) == (may_pass, is_lease_over)


@pytest.mark.parametrize("line", [b"END", b"STORED", b"ERRORS of a queue", b"STAT ERROR 1"])
def test_another_line_is_no_refusal(line: bytes) -> None:
    assert not is_refusal(line)


def test_a_login_that_is_not_known_is_a_refusal_as_well() -> None:
    refusal = LoginRefused(b"NOT_STORED")
    assert isinstance(refusal, ServerRefusal)
    assert str(refusal) == "the server knows no login"


@pytest.mark.parametrize("kind", [ServerRefusal, LoginRefused])
def test_a_refusal_can_be_pickled(kind: type[ServerRefusal]) -> None:
    refused = pickle.loads(pickle.dumps(kind(b"SERVER_ERROR disk full")))

    assert type(refused) is kind
    assert (str(refused), refused.may_pass) == ("disk full", True)
