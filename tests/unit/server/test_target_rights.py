"""The right to write the queue to which declared settings send items."""

from __future__ import annotations

import pytest

from kestrelpy.access import hash_secret
from kestrelpy.config.settings import Config
from kestrelpy.errors import Forbidden
from kestrelpy.server.policies import Policies, policy_in

SECRET = hash_secret(b"x")


def policies(**users: tuple[str, list[str]]) -> Policies:
    auth = {
        name: {"secret": SECRET, "role": role, "queues": queues}
        for name, (role, queues) in users.items()
    }
    return Policies(Config.model_validate({"auth": auth}))


@pytest.mark.parametrize("key", ["dead_letter_to", "expire_to"])
@pytest.mark.parametrize(
    ("role", "queues", "target", "may"),
    [
        ("admin", ["a*"], "b", False), ("admin", ["a*"], "ab", True),
        ("admin", ["a*", "b"], "b", True), ("admin", ["*"], "b", True),
        ("admin", ["a", "b?"], "bc", False), ("read", ["*"], "b", False),
    ],
)  # fmt: skip
def test_a_target_needs_the_right_to_write_it(
    key: str, role: str, queues: list[str], target: str, may: bool
) -> None:
    known = policies(anna=(role, queues), root=("admin", ["*"]))
    declared = f'{key} = "{target}"\n'.encode()

    if may:
        known.refuse_targets(b"a", declared, b"", "anna")
    else:
        with pytest.raises(Forbidden, match=f"{key} needs the role write in queue {target}"):
            known.refuse_targets(b"a", declared, b"", "anna")
        known.refuse_targets(b"a", declared, declared, "anna")  # it was there: nothing is sent anew


def test_without_users_anybody_may() -> None:
    Policies(Config()).refuse_targets(b"a", b'expire_to = "b"\n', b"", None)


@pytest.mark.parametrize("key", ["dead_letter_to", "expire_to"])
def test_a_target_ends_with_the_rights_of_who_declared_it_and_comes_back_with_them(
    key: str,
) -> None:
    wide = policies(anna=("admin", ["a*", "b"]), root=("admin", ["*"]))
    narrow = policies(anna=("admin", ["a*"]), root=("admin", ["*"])).config
    gone = policies(root=("admin", ["*"])).config
    declared = f'{key} = "b"\n'.encode()
    wide.refuse_targets(b"a", declared, b"", "anna")

    assert getattr(wide.of(b"a", declared), key) == b"b"
    for config in (narrow, gone):
        assert getattr(policy_in(config, b"a", declared, wide.owners), key) == b""
    assert getattr(policy_in(wide.config, b"a", declared, wide.owners), key) == b"b"
    wide.config = narrow
    assert (key, "none") in [each[:2] for each in wide.settings(b"a", declared)]


@pytest.mark.parametrize(("queues", "there"), [(["a*"], b""), (["*"], b"b"), (["a", "b"], b"b")])
def test_a_target_from_before_the_start_needs_some_user_who_may_declare_it(
    queues: list[str], there: bytes
) -> None:
    known = policies(anna=("admin", queues), reader=("read", ["*"]))
    assert known.of(b"a", b'dead_letter_to = "b"\n').dead_letter_to == there


def test_what_the_file_says_needs_no_user() -> None:
    auth = {"anna": {"secret": SECRET, "role": "admin", "queues": ["a*"]}}
    config = Config.model_validate({"auth": auth, "queues": {"a": {"dead_letter_to": "b"}}})
    assert Policies(config).of(b"a", b'dead_letter_to = "b"\n').dead_letter_to == b"b"


TO_B, TO_C, NONE = b'dead_letter_to = "b"\n', b'dead_letter_to = "c"\n', b"max_items = 5\n"


def test_who_declared_a_target_is_forgotten_with_it() -> None:
    known = policies(anna=("admin", ["*"]), root=("admin", ["*"]))
    known.refuse_targets(b"a", TO_B, b"", "anna")
    assert dict(known.owners) == {b"a": "anna"}
    known.refuse_targets(b"a", NONE, TO_B, "root")
    assert dict(known.owners) == {}

    known.refuse_targets(b"a", TO_B, b"", "anna")
    known.config = Config()  # a reload takes the users away
    known.refuse_targets(b"a", TO_C, TO_B, None)
    assert dict(known.owners) == {}, "no user has these rights"


def test_who_declares_a_target_that_is_there_is_not_its_owner() -> None:
    """Otherwise the target would depend on the rights of a user who never had any for it."""
    known = policies(anna=("admin", ["a", "b"]), bob=("admin", ["a"]))
    known.refuse_targets(b"a", TO_B, b"", "anna")
    known.refuse_targets(b"a", TO_B + NONE, TO_B, "bob")
    assert known.of(b"a", TO_B + NONE).dead_letter_to == b"b"


def test_owners_of_deleted_queues_are_forgotten_and_others_are_not() -> None:
    known = policies(anna=("admin", ["*"]))
    there: dict[bytes, bytes] = {}
    known.declared_of = lambda name: there.get(name, b"")
    for number in range(50):
        name = b"stays-%d" % number
        there[name] = TO_B
        known.refuse_targets(name, TO_B, b"", "anna")
    for number in range(500):
        known.refuse_targets(b"goes-%d" % number, TO_B, b"", "anna")
    assert {*known.owners} >= {*there}
    assert len(known.owners) < 2 * len(there) + 9
