"""A daemon that asks its clients to identify themselves: with users, with TLS, or with both."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from kestrelpy.access import hash_secret
from kestrelpy.wire.dial import Access, connect
from tests.support.daemon import DaemonProcess

PASSWORD: Final = "letmein"
KINDS: Final = ("users", "tls", "both")


def certificate(folder: Path, name: str, address: str = "127.0.0.1") -> None:
    """Make `name`.pem and `name`.key, signed by themselves, for an address."""
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"),
            "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}",
        ],
        check=True, capture_output=True,
    )  # fmt: skip


@cache
def _stored(password: str) -> str:
    return hash_secret(password.encode())


def user(name: str, role: str = "admin", queues: Sequence[str] = (), secret: str = PASSWORD) -> str:
    """The configuration of a user; without queues it is for all of them."""
    only = f"queues = {list(queues)!r}\n" if queues else ""
    return f'[auth.{name}]\nsecret = "{_stored(secret)}"\nrole = "{role}"\n{only}'


USERS: Final = user("anna") + user("reader", "read", ["jobs"])


class Guarded:
    """A daemon of one kind, and the access of a client that may use it."""

    def __init__(self, folder: Path, kind: str, more: str = "", http_port: str = "off") -> None:
        """`more` are settings of [server]; the kind "open" has neither users nor TLS."""
        self.kind, self.folder = kind, folder
        config = f"[server]\n{more}\n"
        if kind in ("tls", "both"):
            certificate(folder, "server")
            config += f'tls_cert = "{folder}/server.pem"\ntls_key = "{folder}/server.key"\n'
        if kind in ("users", "both"):
            config += USERS
        (folder / "secret").write_text(PASSWORD + "\n")
        (folder / "wrong").write_text("letmeout\n")
        self.daemon = DaemonProcess(folder / "data", config=config, http_port=http_port)

    def access(self, **more: Any) -> Access:
        """Return the access of a user with all rights; `more` changes it."""
        said: dict[str, Any] = {}
        if self.kind in ("users", "both"):
            said = {"user": "anna", "password_file": str(self.folder / "secret")}
        if self.kind in ("tls", "both"):
            said["tls_ca"] = str(self.folder / "server.pem")
        return Access(**{**said, **more})

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a command with that access."""
        access = self.access()
        names = ("user", "password_file", "tls_ca")
        said = {f"KESTRELPY_{name.upper()}": getattr(access, name) for name in names}
        return {**{name: value for name, value in said.items() if value}, **more}

    def ask(self, request: bytes, end: bytes = b"\r\n") -> bytes:
        """Send a request on a connection of its own; return the answer up to `end`."""
        with connect(("127.0.0.1", self.daemon.port), self.access(), 20, 20) as sock:
            sock.sendall(request)
            answer = b""
            while not answer.endswith(end):
                more = sock.recv(1 << 16)
                assert more, answer
                answer += more
        return answer

    def put(self, queue: str, *bodies: bytes) -> None:
        for body in bodies:
            assert self.ask(b"set %b 0 0 %d\r\n%b\r\n" % (queue.encode(), len(body), body)) == (
                b"STORED\r\n"
            )

    def change_anna(self) -> None:
        """Reload with another form of the same password: all of anna's connections log in again."""
        stored = hash_secret(PASSWORD.encode())
        file = self.daemon.config_file
        file.write_text(file.read_text().replace(_stored(PASSWORD), stored))
        assert self.ask(b"reload\r\n").startswith(b"Reloaded")

    def counts(self, queue: str) -> dict[str, int]:
        """The figures of a queue."""
        prefix = f"queue_{queue}_"
        lines = self.ask(f"stats {queue}\r\n".encode(), b"END\r\n").decode().splitlines()[:-1]
        facts = dict(line.removeprefix("STAT ").split(" ", 1) for line in lines)
        return {
            name.removeprefix(prefix): int(text) for name, text in facts.items() if text.isdigit()
        }
