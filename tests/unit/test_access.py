"""Users: what each may do, and how their secrets are stored."""

from __future__ import annotations

import pytest

from kestrelpy.access import ALL, Grant, Need, Role, hash_secret, is_hash, is_secret


def test_only_the_secret_matches_its_stored_form() -> None:
    stored = hash_secret(b"letmein")
    assert is_hash(stored)
    assert is_secret(b"letmein", stored)
    for other in (b"", b"letmein ", b"Letmein", b"x" * 1000):
        assert not is_secret(other, stored)
    assert hash_secret(b"letmein") != stored


@pytest.mark.parametrize(
    "text",
    [
        "", "letmein", "scrypt", "scrypt$1$8$1$AAAA$AAAA", "bcrypt$16384$8$1$AAAA$AAAA",
        f"scrypt$16383$8$1$AAAA${'A' * 43}=", f"scrypt$1048576$8$1$AAAA${'A' * 43}=",
        f"scrypt$16384$800$1$AAAA${'A' * 43}=", f"scrypt$16384$8$1$${'A' * 43}=",
        f"scrypt$16384$8$1$AAAA${'A' * 42}", f"scrypt$x$8$1$AAAA${'A' * 43}=",
    ],
)  # fmt: skip
def test_other_forms_are_no_secret_and_cost_nothing(text: str) -> None:
    assert not is_hash(text)
    assert not is_secret(b"letmein", text)


def test_a_role_may_do_what_those_before_it_may() -> None:
    for role in Role:
        grant = Grant("anna", role, ["*"])
        for needed in Role:
            assert grant.may(Need(needed, b"jobs")) == (needed <= role)
            assert grant.may(Need(needed, ALL)) == (needed <= role)


@pytest.mark.parametrize(
    ("pattern", "queue", "may"),
    [
        ("ax?", b"ax?", True), ("ax?", b"axb", False), ("a[bc]", b"ab", False),
        ("a[bc]", b"a[bc]", True), ("a[!b]", b"ac", False), ("a[!b]*", b"a[!b]c", True),
        ("[a].b", b"[a].b", True), ("[a].b", b"a.b", False), ("a.b", b"axb", False),
        ("a*]", b"ab]", True), ("a]", b"a]", True), ("*?", b"ab", False), ("*?", b"ab?", True),
        ("a*b*c", b"a1b2c", True), ("a\\*", b"a\\b", True), ("a|b", b"a", False),
    ],
)
def test_only_a_star_is_special_in_a_pattern(pattern: str, queue: bytes, may: bool) -> None:
    grant = Grant("anna", Role.ADMIN, [pattern])
    assert grant.may(Need(Role.READ, queue)) is may
    assert not grant.may(Need(Role.READ, ALL))


def test_patterns_name_queues_and_never_all_of_them() -> None:
    grant = Grant("anna", Role.ADMIN, ["jobs", "mail*"])
    for queue, may in (
        (b"jobs", True), (b"mail", True), (b"mail+audit", True), (b"jobs2", False),
        (b"xjobs", False), (b"Jobs", False), (b"jobs\n", False), (ALL, False), (b"\xff", False),
    ):  # fmt: skip
        assert grant.may(Need(Role.READ, queue)) == may, queue
