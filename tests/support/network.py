"""Hosts of a network of their own, each a network namespace of the kernel, whose ways can be cut.

    a 10.0.1.2 ──┐
    b 10.0.2.2 ──┤ hub: forwards every packet, but those from a host to another one that are cut
    c 10.0.3.2 ──┘

    with Network("a", "b") as network, network.inside("a"):
        ...                      # sockets of this thread, and processes that it starts, are in a
        network.cut("a", "b")    # what a sends to b vanishes; b still reaches a

A packet on a cut way vanishes without an error for its sender.

One rule: nothing here has a name or a file, so that nothing stays when this process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from types import TracebackType
from typing import Self

_CLONE_NEWNET = 0x40000000
_HERE = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


def why_no_network() -> str:
    """Return why no network can be made here; "": one can."""
    try:
        with Network("a", "b") as network:
            network.cut("a", "b")
            network.heal()
    except (OSError, AttributeError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or error
        return f"network namespaces cannot be made here (iproute2, root): {said}".strip()
    return ""


class Network:
    """A context: inside it the hosts are there."""

    def __init__(self, *hosts: str) -> None:
        self.addresses = {name: f"10.0.{n}.2" for n, name in enumerate(hosts, 1)}
        self._files: dict[str, int] = {}
        self._cuts: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._close()

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread is in the host, with the threads and processes that it starts."""
        before = os.open(_HERE, os.O_RDONLY)
        try:
            _enter(self._files[host])
            yield
        finally:
            _enter(before)
            os.close(before)

    def cut(self, sender: str, receiver: str) -> None:
        """Drop all packets from this sender to this receiver."""
        if (sender, receiver) not in self._cuts:
            self._cuts.add((sender, receiver))
            self._rule("add", sender, receiver)

    def heal(self) -> None:
        """Undo all cuts: every packet arrives again."""
        while self._cuts:
            self._rule("del", *self._cuts.pop())

    def _rule(self, verb: str, sender: str, receiver: str) -> None:
        with self.inside("hub"):
            _ip("rule", verb, "from", self.addresses[sender], "to", self.addresses[receiver],
                "blackhole")  # fmt: skip

    def _make(self) -> None:
        for name in ("hub", *self.addresses):
            self._files[name] = _new_namespace()
        with self.inside("hub"), open("/proc/sys/net/ipv4/ip_forward", "w") as forward:
            forward.write("1")
        for name, address in self.addresses.items():
            gate = address.removesuffix("2") + "1"
            there = f"/proc/{os.getpid()}/fd/{self._files[name]}"
            with self.inside("hub"):
                _ip("link", "add", "name", name, "type", "veth", "peer", "name", "eth0",
                    "netns", there)  # fmt: skip
                _ip("address", "add", f"{gate}/30", "dev", name)
                _ip("link", "set", "dev", name, "up")
            with self.inside(name):
                _ip("link", "set", "lo", "up")
                _ip("address", "add", f"{address}/30", "dev", "eth0")
                _ip("link", "set", "eth0", "up")
                _ip("route", "add", "default", "via", gate)

    def _close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


def _new_namespace() -> int:
    """Return a descriptor of a new network namespace."""
    before = os.open(_HERE, os.O_RDONLY)
    try:
        if _libc.unshare(_CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return os.open(_HERE, os.O_RDONLY)
    finally:
        _enter(before)
        os.close(before)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
