"""`python -m bench [--quick] [--dir DIR]`: run the comparison, print the table, write it down.

`python -m bench backlog`, `spark` and `stalls` measure something else: see `bench/growth.py`.
`python -m bench path` counts instructions: see `bench/path.py`.

One rule: if something cannot be measured here, one sentence says so, and the rest goes on. The
exit code is 0 if everything was measured, whatever the figures, else 1.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from types import FrameType

from bench import growth, loadgen, path, peers, plots, report
from bench.grid import FULL, QUICK
from bench.servers import (
    BEANSTALKD,
    COMPILED,
    ECHO,
    KESTRELPY,
    MEMCACHED,
    REDIS,
    EchoServer,
    Kestrelpy,
    Server,
    file_system,
)

ALL: tuple[Server, ...] = (KESTRELPY, COMPILED, REDIS, BEANSTALKD, MEMCACHED, ECHO)
MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs", "devtmpfs"}
SYNC_PROBES = 200


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some 3 minutes; without it some 12")
    parser.add_argument(
        "--dir", type=Path, default=loadgen.OUT, help="where data goes: on a real disk"
    )
    parser.add_argument("--python", default=sys.executable, help="what kestrelpy runs on")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {','.join(s.name for s in ALL)}")
    wanted = parser.parse_args(words)
    unknown = set(wanted.only.split(",") if wanted.only else ()) - {s.name for s in ALL}
    if unknown:
        parser.error(f"--only does not know {', '.join(sorted(unknown))}")
    return wanted


def chosen(only: str | None, python: str) -> tuple[list[Server], list[str]]:
    """Return the servers to run, and a sentence for each wanted one that cannot run."""
    wanted = only.split(",") if only else [server.name for server in ALL]
    servers: list[Server] = []
    notes: list[str] = []
    for server in (Kestrelpy(python=python), *ALL[1:]):
        if server.name not in wanted:
            continue
        missing = server.missing()
        if missing and server is COMPILED and not only:
            continue
        if missing:
            notes.append(missing)
        else:
            servers.append(server)
    return servers, notes


def sync_us(folder: Path) -> float:
    """Return the median time of a 100-byte append and fdatasync on the disk of all figures."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(SYNC_PROBES):
            began = time.perf_counter()
            os.write(file.fileno(), bytes(100))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return median(times) * 1e6


def versions(servers: Sequence[Server]) -> str:
    """Return the versions of the programs, one clause each."""
    flags = {"redis": "--version", "beanstalkd": "-v"}
    said = []
    for server in servers:
        is_python = isinstance(server, Kestrelpy | EchoServer)
        name = f"{server.name} on Python" if is_python else server.name
        asked = [server.command(Path(), 0)[0], flags.get(server.name, "-V")]
        shown = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
        words = [w.lstrip("v=") for w in shown.stdout.split()]
        number = next((w for w in words if w[:1].isdigit()), "?")
        said.append(f"{name} {number} ({server.settings.replace('{folder}', 'DIR')})")
    return "; ".join(said)


def stop_on_term(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words and words[0] in growth.SETS:
        signal.signal(signal.SIGTERM, stop_on_term)
        return growth.main(words[0], words[1:])
    if words and words[0] == "path":
        signal.signal(signal.SIGTERM, stop_on_term)
        return path.main(words[1:])
    wanted = arguments(words)
    mode = QUICK if wanted.quick else FULL
    signal.signal(signal.SIGTERM, stop_on_term)
    if sys.platform != "linux":
        say("bench: the load generator needs Linux (epoll).")
        return 1
    kind = file_system(wanted.dir)
    if kind in MEMORY_FILE_SYSTEMS:
        say(f"bench: {wanted.dir} is on {kind}, where a sync means nothing; use --dir on a disk.")
        return 1
    try:
        binary = loadgen.build()
    except loadgen.LoadFailed as failure:
        say(f"bench: {failure}")
        return 1
    servers, notes = chosen(wanted.only, wanted.python)
    for note in notes:
        say(f"bench: {note}")
    if not servers:
        say("bench: nothing to measure.")
        return 1
    wanted.dir.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="data-", dir=wanted.dir))
    try:
        sync = f"{kind}, append and sync of 100 bytes {sync_us(data):.0f} µs (median)"
        found = peers.run(binary, servers, mode, parent=data, say=say)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    about = {
        "run": f"{mode.name}, {mode.rounds} rounds, {mode.seconds:g} s per job, "
        f"{found.seconds:.0f} s in all, {time.strftime('%Y-%m-%d %H:%M')}",
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"{platform.machine()}",
        "disk": sync,
        "servers": versions(servers),
    }
    text = report.markdown(found, about, notes)
    loadgen.OUT.mkdir(parents=True, exist_ok=True)
    (loadgen.OUT / "peers.md").write_text(text)
    as_json = json.dumps(report.as_json(found, about, notes), indent=1)
    (loadgen.OUT / "peers.json").write_text(as_json + "\n")
    print(text)
    say(f"bench: written to {loadgen.OUT / 'peers.md'} and {loadgen.OUT / 'peers.json'}")
    if why := plots.missing():
        say(f"bench: {why}")
    else:
        for picture in plots.of_peers(found, f"{about['run']}; {about['machine']}", loadgen.OUT):
            say(f"bench: drawn in {picture}")
    return 1 if notes or found.failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("bench: stopped; nothing was written")
