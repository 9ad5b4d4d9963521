"""`kestrelpy serve` and `check-config`: first lines, ends, and every way not to start."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheServerError

from kestrelpy.compiled import KIND
from tests.process.cli.command import SECONDS, Command, Ended
from tests.support.daemon import DaemonProcess


@pytest.fixture
def kestrelpy(tmp_path: Path) -> Command:
    """No server is needed here."""
    return Command(1, tmp_path)


def config(folder: Path, text: str) -> str:
    path = folder / "some.toml"
    path.write_text(text)
    return str(path)


def first_lines(process: subprocess.Popen[bytes]) -> list[str]:
    assert process.stdout is not None
    lines = [process.stdout.readline().decode()]
    while lines[-1] and not re.search(r'^ready|"ready', lines[-1]):
        lines.append(process.stdout.readline().decode())
    return lines


def test_serve_says_where_it_listens_then_ready_and_ends_with_0(
    kestrelpy: Command, tmp_path: Path
) -> None:
    path = str(tmp_path / "s")
    where = config(
        tmp_path, f'[server]\nsocket = "{path}"\n[queue_defaults]\narchive_to = "old/all"'
    )
    process = kestrelpy.start(
        "serve", "--config", where, "--data-dir", "d", "--port", "0", "--http-port", "off"
    )
    tcp, unix, ready = first_lines(process)
    process.send_signal(signal.SIGTERM)
    ended = kestrelpy.finish(process)

    assert re.fullmatch(r"listening: memcache on 127\.0\.0\.1:[1-9]\d*\n", tcp)
    assert unix == f"listening: memcache on {path}\n"
    assert ready.startswith(f"ready: data in {tmp_path}/d, 0 queues, 0 items, ")
    assert ready.endswith(f", {KIND}\n")
    assert (ended.code, ended.out) == (0, b"")
    assert re.fullmatch(r"\S+Z INFO kestrelpy: stopped: SIGTERM; it took \d+ ms\n", ended.err)
    assert (tmp_path / "old/all").is_dir()


def test_more_signals_to_end_change_nothing(kestrelpy: Command) -> None:
    for number in (signal.SIGTERM, signal.SIGINT) * 3:
        process = kestrelpy.start(
            "serve", "--data-dir", "d", "--port", "0", "--http-port", "off"
        )
        first_lines(process)
        while process.poll() is None:
            process.send_signal(number)
            time.sleep(0.002)
        ended = kestrelpy.finish(process)
        assert (ended.code, ended.err.count("\n")) == (0, 1), ended.err


def test_a_wrong_configuration_is_one_sentence_a_problem(
    kestrelpy: Command, tmp_path: Path
) -> None:
    where = config(tmp_path, '[server]\nprt = 1\nidle_timeout = "5"\n')

    for command in ("serve", "check-config"):
        ended = kestrelpy(command, "--config", where)

        assert ended.code == 2
        assert ended.out == b""
        one, two = sorted(ended.err.splitlines())
        assert one.startswith(f'kestrelpy: {where}: [server] idle_timeout = "5", but must be')
        assert two.startswith(f"kestrelpy: {where}: [server] prt = 1 is not a known key; the")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "nowhere.toml"], "nowhere.toml: cannot be read: No such file"),
        (["--port", "65536"], '--port: "65536" must be a whole number from 0 to 65535'),
        (["--port", "http"], '--port: "http" must be a whole number from 0 to 65535'),
        (["--host", "no.invalid"], "[server] host no.invalid: this name has no address"),
        (["--host", "no host"], "flag --host: [server] host"),
        (["--host", "192.0.2.1"], "192.0.2.1 is reached from other machines"),
        (["--data-dir", "/dev/null"], "/dev/null: Not a directory"),
        (["--data-dir", "/proc/none/d"], "/proc/none/d: No such file or directory"),
        (["--http-port", "x"], '--http-port: "x" must be a whole number from 0 to 65535, or "off"'),
    ],
)
def test_every_reason_not_to_start_is_one_sentence(
    kestrelpy: Command, words: list[str], said: str
) -> None:
    port = [] if "--port" in words else ["--port", "0", "--http-port", "off"]

    ended = kestrelpy("serve", *port, *words)

    assert ended.is_sentence(2), ended
    assert said in ended.err
    assert ended.out == b""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('host = "0.0.0.0"', "[server] host 0.0.0.0 is reached from other machines"),
        ('host = "::"', "[server] host :: is reached from other machines"),
        ('http_host = "0.0.0.0"\nhttp_port = 0', "[server] http_host 0.0.0.0 is reached"),
        ('host = "192.0.2.1"\ninsecure = true', "host 192.0.2.1: Cannot assign requested address"),
        ('http_host = "no.invalid"\nhttp_port = 0', "http_host no.invalid: this name has no"),
        ("port = 4001\nhttp_port = 4001", "port and http_port are both 4001: each listener needs"),
        ("port = 4001\ntext_port = 4001", "port and text_port are both 4001: each listener needs"),
        ("text_port = 4001\nhttp_port = 4001", "text_port and http_port are both 4001: each"),
        ('tls_cert = "no.pem"\ntls_key = "no.key"', "no.key: No such file or directory"),
        ('tls_cert = "kestrelpy.toml"\ntls_key = "kestrelpy.toml"', "OpenSSL cannot read them"),
        ('tls_cert = "."\ntls_key = "."', "Is a directory"),
        ('socket = "none/s"', "/none/s: its folder does not exist"),
        ('socket = "kestrelpy.toml"', "/kestrelpy.toml: another file has this name"),
        (f'socket = "{"s" * 120}"', "the path is longer than 107 bytes"),
        ('socket = "data"', "data: data_dir has this name"),
        ('socket = "link"', "/link: another file has this name"),
        ('socket = "loop"', "/loop: another file has this name"),
        ('port = 4001\nhttp_port = 4001\nhttp_host = "localhost"', "both 4001 of 127.0.0.1"),
        ('port = 4001\nhttp_port = 4001\nhost = "::1"\nhttp_host = "0:0:0:0:0:0:0:1"',
         "both 4001 of ::1"),
        (f'data_dir = "{"d" * 300}"', "File name too long"),
        ('data_dir = "kestrelpy.toml"', "kestrelpy.toml: "),
        ('data_dir = "kestrelpy.toml/data"', "kestrelpy.toml/data: "),
    ],
)
def test_what_a_start_refuses_a_check_refuses(
    kestrelpy: Command, tmp_path: Path, lines: str, said: str
) -> None:
    given = [line.split(" =")[0] for line in lines.splitlines()]
    rest = [line for line in ("port = 0", 'http_port = "off"') if line.split(" =")[0] not in given]
    (tmp_path / "kestrelpy.toml").write_text("\n".join(["[server]", *rest, lines, ""]))
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")

    for command in ("check-config", "serve"):
        ended = kestrelpy(command)
        assert ended.is_sentence(2), ended
        assert said in ended.err, command
        assert ended.out == b""


def test_a_configuration_may_begin_with_a_byte_order_mark(
    kestrelpy: Command, tmp_path: Path
) -> None:
    (tmp_path / "kestrelpy.toml").write_bytes(b"\xef\xbb\xbf[server]\nport = 0\n")

    assert kestrelpy("check-config").code == 0


def test_a_socket_in_a_data_directory_that_is_not_there_yet_is_allowed(
    kestrelpy: Command, tmp_path: Path
) -> None:
    (tmp_path / "kestrelpy.toml").write_text('[server]\nport = 0\nsocket = "data/s"\n')

    assert kestrelpy("check-config").code == 0


def test_a_port_in_use_is_one_sentence(kestrelpy: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = kestrelpy("serve", "--port", str(port), "--http-port", "off")

    assert ended.is_sentence(2), ended
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in ended.err
    assert b"ready" not in ended.out


def test_a_second_daemon_on_a_directory_is_one_sentence(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as first:
        ended = kestrelpy(
            "serve", "--port", "0", "--http-port", "off", "--data-dir", str(tmp_path / "data")
        )

        assert ended.is_sentence(2), ended
        assert f"{tmp_path}/data: another kestrelpy is using this data directory" in ended.err
        assert first.client().set("q", b"the first one goes on")


def test_check_config_names_the_file_it_looked_at(kestrelpy: Command, tmp_path: Path) -> None:
    assert kestrelpy("check-config").out.startswith(b"ok: no configuration file")

    (tmp_path / "kestrelpy.toml").write_text('[queue_defaults]\nlease = "5m"\n')

    assert kestrelpy("check-config").out == f"ok: {tmp_path}/kestrelpy.toml\n".encode()


def test_check_config_looks_at_the_environment_too(kestrelpy: Command) -> None:
    ended = kestrelpy("check-config", KESTRELPY_SERVER_PORT="often")

    assert ended.is_sentence(2), ended
    assert "environment variable KESTRELPY_SERVER_PORT" in ended.err


def test_the_shipped_configuration_is_right(kestrelpy: Command) -> None:
    shipped = Path(__file__).parents[3] / "kestrelpy.toml"

    assert kestrelpy("check-config", "--config", str(shipped)).code == 0


def test_the_log_follows_the_configuration_and_its_reload(
    kestrelpy: Command, tmp_path: Path
) -> None:
    where = config(tmp_path, '[server]\nlog_format = "json"')
    process = kestrelpy.start("serve", "--config", where, "--port", "0", "--http-port", "off")
    assert process.stderr is not None
    said = [json.loads(line)["message"] for line in first_lines(process)]
    port = int(said[0].rpartition(":")[2])
    client = Client(("127.0.0.1", port), timeout=SECONDS)

    process.send_signal(signal.SIGHUP)
    first = json.loads(process.stderr.readline())
    config(tmp_path, '[server]\nlog_format = "text"\nlog_level = "error"')
    assert client.raw_command("reload") == b"Reloaded config."  # an info: no longer logged
    config(tmp_path, "[server]\nlog_level = 1")
    with pytest.raises(MemcacheServerError, match="log_level = 1, but must be"):
        client.raw_command("reload")
    process.terminate()
    second = kestrelpy.finish(process).err

    assert first["message"] == "configuration reloaded"
    assert first["level"] == "info"
    assert first["logger"] == "kestrelpy"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert re.match(r"\d{4}-\S+Z ERROR kestrelpy: configuration not reloaded: ", second)
    assert second.count("\n") == 1


def test_every_line_is_json_when_the_configuration_says_so(
    kestrelpy: Command, tmp_path: Path
) -> None:
    where = config(tmp_path, f'[server]\nlog_format = "json"\nsocket = "{tmp_path}/s"')
    process = kestrelpy.start("serve", "--config", where, "--port", "0", "--http-port", "off")
    out = first_lines(process)
    port = int(json.loads(out[0])["message"].rpartition(":")[2])
    client = Client(("127.0.0.1", port), timeout=SECONDS, default_noreply=False)
    client.set("q", b"x")
    client.flush_all()
    with socket.create_connection(("127.0.0.1", port)) as web:
        web.sendall(b"GET / HTTP/1.1\r\n\r\n")
        web.recv(1)
    process.send_signal(signal.SIGHUP)
    client.raw_command("reload")
    process.send_signal(signal.SIGINT)
    ended = kestrelpy.finish(process)
    again = kestrelpy(
        "serve", "--config", where, "--port", "0", "--http-port", "off",
        "--host", "nosuchhost.invalid",
    )  # fmt: skip

    lines = [json.loads(line) for line in (*out, *ended.err.splitlines())]
    messages = [line["message"] for line in lines]
    assert [message.partition(":")[0] for message in messages[:3]] == [
        "listening", "listening", "ready",
    ]  # fmt: skip
    assert {tuple(line) for line in lines} == {("time", "level", "logger", "message")}
    assert any(
        re.fullmatch(r"flush_all by 127\.0\.0\.1:\d+ empties 1 queues", message)
        for message in messages
    ), messages
    assert re.fullmatch(r"stopped: SIGINT; it took \d+ ms", messages[-1])
    assert (again.code, again.out) == (2, b"")
    assert "this name has no address" in json.loads(again.err)["message"]


def test_a_stop_by_a_client_names_the_client(kestrelpy: Command, tmp_path: Path) -> None:
    where = config(tmp_path, "[server]\nallow_shutdown = true")
    process = kestrelpy.start("serve", "--config", where, "--port", "0", "--http-port", "off")
    port = int(first_lines(process)[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as client:
        peer = "{}:{}".format(*client.getsockname())
        client.sendall(b"shutdown\r\n")
        client.recv(1)
    ended = kestrelpy.finish(process)

    assert ended.code == 0
    assert f"INFO kestrelpy: stopped: shutdown by {peer}; it took " in ended.err


def test_a_refused_reload_leaves_the_log_as_it_is(
    kestrelpy: Command, tmp_path: Path
) -> None:
    where = config(tmp_path, "")
    process = kestrelpy.start("serve", "--config", where, "--port", "0", "--http-port", "off")
    port = int(first_lines(process)[0].rpartition(":")[2])
    client = Client(("127.0.0.1", port), timeout=SECONDS, default_noreply=False)
    client.set("jobs/key=A", b"x")
    config(tmp_path, '[server]\nlog_format = "json"\n[queue_defaults]\nkey_match = "any"')
    with pytest.raises(MemcacheServerError, match="key settings cannot change"):
        client.raw_command("reload")
    process.terminate()

    said = kestrelpy.finish(process).err

    assert re.match(r"\d{4}-\S+Z ERROR kestrelpy: configuration not reloaded: ", said)


def test_help_is_quick_because_nothing_heavy_is_imported(kestrelpy: Command) -> None:
    heavy = {"uvloop", "asyncio", "pydantic", "pymemcache", "kestrelpy.server", "journal"}
    code = (
        "import sys, kestrelpy.cli\n"
        "try: kestrelpy.cli.main()\n"
        f"finally: print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "--help"],
        capture_output=True, timeout=SECONDS, check=False,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    ended = Ended(process.returncode, process.stdout, process.stderr.decode())

    assert (ended.code, ended.err) == (0, "[]\n"), ended
    for word in (b"serve", b"check-config", b"status", b"queues", b"put", b"get", b"work"):
        assert word in ended.out


def test_the_version_is_the_package_s(kestrelpy: Command) -> None:
    import kestrelpy as package  # noqa: PLC0415

    assert kestrelpy("--version").out == f"kestrelpy {package.__version__} ({KIND})\n".encode()
