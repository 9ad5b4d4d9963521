"""Reading servers with users and TLS, by the options of the source."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import partitions as live
from kestrelpy.spark.live.wire import ServerUnreachable
from kestrelpy.spark.options import Options, parse_options
from tests.support.guarded import KINDS, PASSWORD, Guarded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=KINDS)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp(request.param), request.param)
    with made.daemon:
        made.put("jobs", *(b"%d" % number for number in range(50)))
        yield made


def options_of(guarded: Guarded, **said: str) -> Options:
    quick = {"fetchRetryInterval": "1ms", "fetchRetries": "0"}
    return parse_options({"servers": f"127.0.0.1:{guarded.daemon.port}", **quick, **said})


def who(guarded: Guarded) -> dict[str, str]:
    said = {}
    if guarded.kind != "tls":
        said = {"user": "anna", "passwordFile": str(guarded.folder / "secret")}
    if guarded.kind != "users":
        said["tlsCa"] = str(guarded.folder / "server.pem")
    return said


def bodies(options: Options) -> list[bytes]:
    slices = [each for partition in live.plan(options) for each in partition]
    return [values.bodies for _, values in live.read(slices, options)]


def test_items_are_read_by_a_user_and_over_tls(guarded: Guarded) -> None:
    sent = pickle.loads(pickle.dumps(options_of(guarded, **who(guarded))))

    assert b"".join(bodies(sent)) == b"".join(b"%d" % number for number in range(50))


def test_the_environment_says_it_too(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in guarded.environment().items():
        monkeypatch.setenv(name, value)

    assert bodies(options_of(guarded))


def test_an_executor_needs_no_file_of_a_password(guarded: Guarded) -> None:
    if guarded.kind == "tls":
        return
    access = options_of(guarded, **who(guarded)).access

    assert (access.user, access.password, access.password_file) == ("anna", PASSWORD, None)
    assert PASSWORD not in repr(options_of(guarded, **who(guarded)))


def test_what_is_refused_is_one_sentence(guarded: Guarded) -> None:
    if guarded.kind == "tls":
        return
    given = who(guarded)
    for said, text in (
        ({**given, "passwordFile": str(guarded.folder / "wrong")}, "refused: no such user, or ano"),
        ({**given, "user": "reader"}, "refused: forbidden: this needs the role read in all queues"),
    ):
        with pytest.raises(KestrelError, match=text):
            live.plan(options_of(guarded, **said))


def test_tls_and_a_plain_port_are_one_sentence_either_way(guarded: Guarded) -> None:
    given, said = who(guarded), "this port speaks TLS"
    given.pop("tlsCa", None)
    if guarded.kind == "users":
        given["tls"], said = "true", "this port speaks no TLS"
    with pytest.raises(ServerUnreachable, match=said):
        live.plan(options_of(guarded, **given))


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"servers": "a:1", "user": "anna"}, "user anna has no password"),
        ({"servers": "a:1", "tlsCa": "/none"}, "tls_ca /none: No such file"),
        ({"path": "/tmp", "user": "anna"}, "Option user goes only with servers"),
        ({"path": "/tmp", "tlsCa": "/none"}, "Option tlsCa goes only with servers"),
    ],
)
def test_options_that_cannot_be_are_one_sentence(said: dict[str, str], text: str) -> None:
    with pytest.raises(KestrelError, match=text):
        parse_options(said)
