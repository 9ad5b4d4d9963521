"""The address of an engine: its forms, and the name that logs show."""

from __future__ import annotations

import pytest

from journal.engine import (
    is_address,
    is_object_store,
    name_of,
    split_slice,
    why_no_address,
    without_secret,
)

SECRETS = [
    "postgresql://kestrel:sekret@db1,db2:5433/queues?sslmode=require",
    "postgresql://kestrel:sekret@db1/queues?password=sekret&sslpassword=sekret",
    "postgres://:sekret@db1",
    "postgresql://kestrel:se@sekret@db1/queues",
    "postgresql://kestrel:se/sekret@db1/queues",
    "postgresql://kestrel:se?sekret@db1/queues",
    "postgresql://db1/queues?password=a@sekret",
    "postgresql://kestrel:sekret@[::1/queues",
]


@pytest.mark.parametrize("address", SECRETS)
def test_the_name_of_an_address_has_no_secret_whatever_its_form(address: str) -> None:
    assert "sekret" not in name_of(address)
    assert "sekret" not in without_secret(f"engine = {address}, but must be another")
    assert "sekret" not in without_secret(address.replace("//", "/"))
    assert "sekret" not in why_no_address(address)
    try:
        split_slice(address + "/7/7")
    except ValueError as error:
        assert "sekret" not in str(error)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (SECRETS[0], "postgresql://kestrel@db1,db2:5433/queues"),
        ("postgresql://db1/queues", "postgresql://db1/queues"),
        ("postgres://kestrel@[::1]:5432/queues", "postgresql://kestrel@[::1]:5432/queues"),
        ("postgresql:///queues?host=/run", "postgresql:///queues"),
        ("postgresql://kestrel:a?b@db1/q", "postgresql://kestrel@db1/q"),
    ],
)
def test_the_name_says_who_and_where(address: str, name: str) -> None:
    assert name_of(address) == name


@pytest.mark.parametrize("address", [*SECRETS[3:5], "mysql://db", "postgresql://a b/c", ""])
def test_an_address_that_libpq_would_read_otherwise_is_refused(address: str) -> None:
    assert "postgresql://user@host:port/database" in why_no_address(address)


@pytest.mark.parametrize("address", SECRETS[:3])
def test_an_address_may_have_a_secret(address: str) -> None:
    assert why_no_address(address) == ""


@pytest.mark.parametrize(
    ("text", "address", "number"),
    [
        ("postgresql://a:b@db/queues/1?x=y", "postgresql://a:b@db/queues?x=y", 1),
        ("postgresql://a:b@db/queues/16?x=y", "postgresql://a:b@db/queues?x=y", 16),
        ("postgresql://a:b@db/queues?x=y", "postgresql://a:b@db/queues?x=y", 0),
        ("postgresql://db/1", "postgresql://db/1", 0),
        ("postgresql://db", "postgresql://db", 0),
    ],
)  # fmt: skip
def test_a_slice_stands_behind_the_database(text: str, address: str, number: int) -> None:
    assert split_slice(text) == (address, number)


@pytest.mark.parametrize("text", ["postgresql://db/queues/0", "postgresql://db/queues/one"])
def test_a_slice_is_a_number_from_one_on(text: str) -> None:
    with pytest.raises(ValueError, match="a slice is a number, like postgresql://db/queues/1"):
        split_slice(text)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("postgresql://db/q", True), ("mysql://db", True), ("postgresql:/db", True), ("data", False),
     ("/data", False), ("./a:b/c", False), ("C", False)],
)  # fmt: skip
def test_a_folder_is_no_address(text: str, is_one: bool) -> None:
    assert is_address(text) is is_one


@pytest.mark.parametrize("address", [
    "s3://bucket/fleet", "s3://my.bucket/a/b?region=eu-1",
    "s3://bucket/fleet?endpoint=https://s3.example:9000&region=us-east-1",
])  # fmt: skip
def test_an_object_store_has_an_address(address: str) -> None:
    place = address.partition("?")[0]

    assert why_no_address(address) == ""
    assert is_address(address)
    assert is_object_store(address)
    assert name_of(address) == place
    assert split_slice(address) == (address, 0)
    assert split_slice(f"{place}/7{address[len(place):]}") == (address, 7)


@pytest.mark.parametrize("address", [
    "s3://bucket", "s3://bucket/", "s3://key:sekret@bucket/fleet", "s3://bucket/fleet?secret=sekret",
    "s3://bucket/fleet?endpoint=https://key:sekret@host", "s3://bucket/fleet?endpoint=host",
])  # fmt: skip
def test_an_address_of_an_object_store_has_no_key(address: str) -> None:
    assert "s3://bucket/prefix" in why_no_address(address)
    assert "sekret" not in why_no_address(address)
    assert "sekret" not in name_of(address)
    assert "sekret" not in without_secret(address) or "@" not in address
