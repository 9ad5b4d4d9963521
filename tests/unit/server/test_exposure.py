"""Addresses that others can reach, and TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
from pathlib import Path

import pytest

from kestrelpy.access import hash_secret
from kestrelpy.config import Config
from kestrelpy.fleet import NoPatroni
from kestrelpy.server import exposure
from kestrelpy.server.exposure import (
    Exposed,
    Tls,
    Unservable,
    refuse_exposed,
    refuse_unservable,
    secret_of,
    tls_between_members,
)
from tests.support.guarded import certificate

USER = {"anna": {"secret": hash_secret(b"letmein")}}


def config(auth: object = None, **server: object) -> Config:
    return Config.model_validate({"server": server, "auth": auth or {}})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"])
@pytest.mark.parametrize("key", ["host", "http_host"])
async def test_an_address_that_others_reach_is_refused(key: str, host: str) -> None:
    with pytest.raises(Exposed, match=f"{key} {host}"):
        await refuse_exposed(config(**{key: host}), [])
    await refuse_exposed(config(**{key: host}, insecure=True), [])
    await refuse_exposed(config(USER, **{key: host}), [])


def test_members_trust_the_certificate_that_is_named_and_none_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("server", "system"):
        certificate(tmp_path, name)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    files = {"tls_cert": str(tmp_path / "server.pem"), "tls_key": str(tmp_path / "server.key")}

    context = tls_between_members(config(**files))

    assert context is not None
    assert context.cert_store_stats()["x509"] == 1
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN


def test_the_refusal_of_a_secret_shows_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"a-secret-of-m\xe9mbers")
    made = Config.model_validate({"fleet": {
        "engine": "postgresql://k@db1/queues", "secret_file": str(tmp_path / "secret"),
    }})  # fmt: skip

    with pytest.raises(Unservable) as refused:
        secret_of(made)

    assert str(refused.value).endswith("/secret: it has a character that is not ASCII")


async def test_loopback_is_not_refused() -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        await refuse_exposed(config(host=host, http_host=host, text_port=1), [])
    await refuse_exposed(config(http_host="0.0.0.0", http_port="off"), [])


@pytest.mark.parametrize(
    ("version", "is_refused"), [("3.0.2", True), ("4.1.5", False), ("", False)]
)
async def test_a_patroni_that_loses_commits_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str,
    is_refused: bool,
) -> None:  # fmt: skip
    def ask(url: str) -> str:
        if not version:
            raise NoPatroni(f"the Patroni at {url} does not answer")
        return version

    monkeypatch.setattr(exposure, "patroni_version", ask)
    made = Config.model_validate({"fleet": {"engine": "postgresql://db1/kestrel", "patroni": "http://db1:8008"}})
    if is_refused:
        with pytest.raises(Unservable, match=r"\[fleet\] patroni: Patroni 3\.0\.2 at .* or newer"):
            await refuse_unservable(made, [])
    else:
        await refuse_unservable(made, [])
    assert ("does not answer" in caplog.text) is (version == "")


async def test_a_socket_that_was_handed_over_counts_as_well() -> None:
    with socket.create_server(("0.0.0.0", 0)) as sock, pytest.raises(Exposed, match="handed over"):
        await refuse_exposed(config(), [("memcache", sock)])
    with socket.create_server(("127.0.0.1", 0)) as sock:
        await refuse_exposed(config(host="0.0.0.0"), [("memcache", sock)])
        with pytest.raises(Exposed, match="text_port"):
            await refuse_exposed(config(USER), [("text", sock)])


async def test_the_text_port_has_no_login() -> None:
    with pytest.raises(Exposed, match="text_port cannot be open"):
        await refuse_exposed(config(USER, text_port=1), [])


def test_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("x")
    for name in ("missing", "bad"):
        server = config(tls_cert=str(tmp_path / name), tls_key=str(tmp_path / name)).server
        for load in (Tls().begin, Tls.check):
            with pytest.raises(Exposed, match=name):
                load(server)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_a_reload_neither_begins_nor_ends_tls(tmp_path: Path) -> None:
    certificate(tmp_path, "one")
    named = config(tls_cert=str(tmp_path / "one.pem"), tls_key=str(tmp_path / "one.key")).server
    with_tls, without = Tls(), Tls()
    with_tls.begin(named)
    before = with_tls.context

    with_tls.renew(Tls.check(config().server))
    without.renew(Tls.check(named))

    assert with_tls.context is before is not None
    assert without.context is None
