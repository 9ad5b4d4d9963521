"""Queues of an alias are in one slice, or the configuration is refused; targets may be in any."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.access import hash_secret
from kestrelpy.config import Config, ConfigError, load_config, place_of
from kestrelpy.placement import Placement

OFF = '[server]\nhttp_port = "off"\n'
REMEDY = "give them one group, by a {tag} in their names or in [fleet] groups"
ENGINE = 'slices = 2\nengine = "postgresql://db/kestrel"\n'
USER = f'[auth.a]\nsecret = "{hash_secret(b"pear")}"\nrole = "admin"\nqueues = ["*"]\n'


def read(tmp_path: Path, text: str, **environ: str) -> Config:
    path = tmp_path / "kestrelpy.toml"
    path.write_text(text)
    return load_config(path, environ=environ, overrides={})


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)
    return str(raised.value)


def test_a_and_c_are_in_two_slices() -> None:
    assert Placement(3).slice_of(b"a") != Placement(3).slice_of(b"c")


@pytest.mark.parametrize(
    "text",
    [
        '[queues.a]\ndead_letter_to = "c"\n',
        '[queues.a]\nexpire_to = "c"\n',
        '[queues."a+x"]\ndead_letter_to = "c"\n',
        '[queue_defaults]\ndead_letter_to = "c"\n[queues.c]\ndead_letter_to = "none"\n',
    ],
)
def test_items_may_be_sent_to_queues_of_other_slices(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, f"{OFF}[fleet]\nslices = 3\n{text}").is_router


def test_an_alias_of_queues_in_two_slices_is_refused(tmp_path: Path) -> None:
    text = '[aliases.a]\nto = ["b", "c"]\n'
    said = refused(tmp_path, f"{OFF}[fleet]\nslices = 3\n{text}")
    assert REMEDY in said
    assert read(tmp_path, f'{OFF}[fleet]\nslices = 3\ngroups = ["*"]\n{text}').is_router
    assert not read(tmp_path, OFF + text).is_router


def test_an_alias_in_another_slice_than_its_queues_is_refused(tmp_path: Path) -> None:
    slice_of = Placement(3).slice_of
    assert slice_of(b"a") != slice_of(b"c")
    alias = next(name for n in range(99) if slice_of((name := f"x{n}").encode()) == slice_of(b"c"))
    for name, is_taken in (("a", False), (alias, True)):
        text = f'{OFF}[fleet]\nslices = 3\n[aliases.{name}]\nto = ["c"]\n'
        if is_taken:
            assert read(tmp_path, text).is_router
        else:
            assert "c is in another slice" in refused(tmp_path, text)


def test_http_leads_to_slices_here_and_to_those_of_an_engine(tmp_path: Path) -> None:
    assert read(tmp_path, "[fleet]\nslices = 3\n").is_router
    assert read(tmp_path, f'[fleet]\n{ENGINE}address = "h:1"\n').is_router


def test_the_text_port_leads_to_slices(tmp_path: Path) -> None:
    text = '[server]\nhttp_port = "off"\ntext_port = 2222\n[fleet]\nslices = 3\n'
    assert read(tmp_path, text).is_router


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("slices = 65", "1 to 64"),
        ("slices = 0", "1 to 64"),
        ('groups = "a"', "a list of patterns"),
        ('groups = ["a b"]', "a list of patterns"),
        ('groups = ["a+b"]', "a list of patterns"),
        ("slices = 2\nslice = 3", "there is none"),
        (ENGINE, "address must be a host and a port"),
        (f'{ENGINE}address = "db1"', "address must be a host and a port"),
        (f'{ENGINE}address = "db1:"', "address must be a host and a port"),
        (f'{ENGINE}address = "db1:65536"', "address must be a host and a port"),
        (f'{ENGINE}address = ":22133"', "address must be a host and a port"),
        (f'{ENGINE}address = "db1:22133"\n{USER}', "secret_file is needed"),
        ('secret_file = "s"', "secret_file without engine"),
    ],
)
def test_bad_values_are_named(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in refused(tmp_path, f"{OFF}[fleet]\n{text}\n")


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("db1:22133", ("db1", 22133)), ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("db1", None), ("::1", None), ("fe80::1:22133", None), ("db1:x", None),
        (":1", None), ("db1:0", None),
    ],
)  # fmt: skip
def test_an_address_of_a_member_is_a_host_and_a_port(
    address: str, place: tuple[str, int] | None
) -> None:
    assert place_of(address) == place


def test_a_slice_has_what_concerns_its_queues(tmp_path: Path) -> None:
    text = (
        f"{OFF}[fleet]\nslices = 3\n"
        '[queues.a]\nmax_items = 1\n[queues."a+x"]\n[queues.c]\nmax_items = 2\n'
        '[schedules.one]\nqueue = "a"\ncron = "0 0 * * *"\n'
        '[schedules.two]\nqueue = "c"\ncron = "0 0 * * *"\n'
        '[aliases.b]\nto = ["a"]\n'
    )
    found = {}
    for number in ("1", "2", "3"):
        config = read(tmp_path, text, KESTRELPY_FLEET_SLICE=number).of_slice()
        assert not config.is_router
        found[int(number)] = config
    placement = Placement(3)
    of_a, of_c = found[placement.slice_of(b"a")], found[placement.slice_of(b"c")]
    assert (list(of_a.queues), list(of_a.schedules), list(of_a.aliases)) == (
        ["a", "a+x"], ["one"], ["b"],
    )  # fmt: skip
    assert (list(of_c.queues), list(of_c.schedules), list(of_c.aliases)) == (["c"], ["two"], [])
    assert of_a.children(b"a") == (b"x",)
    assert of_c.queue(b"c").max_items == 2
    whole = read(tmp_path, text)
    assert whole.of_slice() is whole


def test_the_largest_item_is_that_of_any_queue(tmp_path: Path) -> None:
    assert read(tmp_path, OFF).largest_item_bytes == 8 << 20
    assert (
        read(tmp_path, OFF + '[queues.a]\nmax_item_size = "9MiB"\n').largest_item_bytes == 9 << 20
    )


def test_the_port_may_be_off_beside_a_socket(tmp_path: Path) -> None:
    assert read(tmp_path, '[server]\nport = "off"\nsocket = "s"\n').server.port is None
    assert "needs a socket" in refused(tmp_path, '[server]\nport = "off"\n')
