"""HTTP over the slices of several members, as real processes: any member answers for all of them.

Promise stored: kill of a member under requests by HTTP.
Promise takeover: a member of HTTP clients dies, or sleeps.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from kestrelpy.placement import Placement
from tests.process.router.members import SLICES, Fleet
from tests.process.router.test_http import VIEW, check_rights, client_of, is_waiting
from tests.process.router.test_members import QUEUES
from tests.process.router.test_slices import eventually, slices_of
from tests.process.router.test_users import ANNA, ROOT
from tests.support.daemon import DaemonProcess
from tests.support.guarded import certificate

AGAIN = (502, 503)
PLACES = {each: Placement(SLICES).slice_of(each.encode()) for each in QUEUES}
ZAQAR = {"Client-ID": "3381af92-2b9e-11e3-b191-71861300734c", "X-Project-ID": "p"}


def start(fleet: Fleet, *names: str) -> list[DaemonProcess]:
    """Start members with HTTP, and wait until they own all slices."""
    for name in names:
        made = fleet.member(name)
        made.http_port = "0"
        made.start()
    fleet.wait_for_shares()
    return [fleet.members[name] for name in names]


def queue_of(fleet: Fleet, owner: str) -> str:
    """A queue whose slice this member owns."""
    owners = fleet.owners()
    return next(
        each for each in QUEUES if owners[Placement(SLICES).slice_of(each.encode())] == owner
    )


def places_in(client: httpx.Client) -> dict[str, int]:
    """The slices of the queues that the page shows."""
    rows = client.get("/views?view=queues").json()["queues"]["rows"]
    return {name: row["slice"] for name, row in rows.items()}


def test_any_member_answers_for_all_slices(fleet: Fleet) -> None:
    with (
        client_of((members := start(fleet, "a", "b"))[0]) as one, client_of(members[1]) as other,
    ):  # fmt: skip
        for name in QUEUES:
            assert one.post(f"/queues/{name}/items", content=name).status_code == 201
        for client in (one, other):
            said = client.get("/admin/queues").json()
            assert [row["name"] for row in said["queues"]] == sorted(QUEUES)
            assert client.get("/stats.json").json()["server"]["curr_items"] == SLICES
            metrics = client.get("/metrics").text
            for name in QUEUES:
                assert f'kestrelpy_items{{queue="{name}",state="ready"}} 1.0' in metrics
            assert client.get("/health").json()["status"] == "ok"
            assert client.get("/ready").json() == {"ready": True, "why": None, "warning": None}
            # A view leaves out a slice whose owner is late; it names it.
            eventually(lambda client=client: places_in(client) == PLACES)
            with client.stream("GET", "/events?view=overview") as stream:
                lines = stream.iter_lines()
                assert next(line for line in lines if line.startswith("event")) == "event: whole"
        for name in QUEUES:
            leased = other.post(f"/queues/{name}/leases").json()["leases"]
            assert [each["body"] for each in leased] == [name]
            done = one.delete(f"/queues/{name}/leases/{leased[0]['token']}")
            assert done.status_code == 204
        for name in QUEUES:
            path = f"/v2/queues/{name}/messages"
            message = {"messages": [{"body": f"z{name}", "ttl": 60}]}
            assert one.post(path, json=message, headers=ZAQAR).status_code == 201
            said = other.get(f"{path}?echo=true", headers=ZAQAR).json()
            assert [each["body"] for each in said["messages"]] == [f"z{name}"]


def test_nothing_is_stored_twice_or_lost_and_no_list_is_short_as_a_member_dies(
    fleet: Fleet,
) -> None:
    a, b = start(fleet, "a", "b")
    lost = queue_of(fleet, "b")
    stop, kept, wrong = threading.Event(), {name: list[int]() for name in QUEUES}, list[object]()

    def produce(name: str) -> None:
        with client_of(a) as client:
            for number in range(1_000_000):
                if stop.is_set():
                    return
                said = client.post(f"/queues/{name}/items", content=f"{number}")
                if said.status_code == 201:
                    kept[name].append(number)
                elif said.status_code not in AGAIN:
                    wrong.append(said.text)

    def watch() -> None:
        with client_of(a) as client:
            while not stop.is_set():
                said = client.get("/admin/queues")
                is_whole = said.is_success and said.json()["matched"] == SLICES
                if not is_whole and said.status_code not in AGAIN:
                    wrong.append(said.text)

    with client_of(a) as client, ThreadPoolExecutor() as others:
        for name in QUEUES:
            assert client.post(f"/queues/{name}/items", content="-1").status_code == 201
        waits = others.submit(lambda: client_of(a).post(f"/queues/w{{{lost}}}/leases?wait=20s"))
        eventually(lambda: is_waiting(client))
        threads = [threading.Thread(target=produce, args=(each,)) for each in QUEUES]
        threads.append(threading.Thread(target=watch))
        for each in threads:
            each.start()
        eventually(lambda: all(len(each) > 20 for each in kept.values()))
        b.kill()
        said = waits.result()
        assert said.status_code == 502
        assert "may have been carried out, or not" in said.json()["description"]
        before = {name: len(each) for name, each in kept.items()}
        eventually(lambda: all(len(kept[name]) > before[name] + 20 for name in QUEUES))
        stop.set()
        for each in threads:
            each.join()
        assert wrong == []
        assert set(fleet.owners().values()) == {"a"}
        for name in QUEUES:
            numbers = list[int]()
            while leased := client.post(f"/queues/{name}/leases?count=100").json()["leases"]:
                numbers += [int(each["body"]) for each in leased]
            assert set(kept[name]) <= set(numbers)
            assert numbers == sorted(set(numbers))


def test_no_request_waits_for_a_member_that_sleeps(fleet: Fleet) -> None:
    a, b = start(fleet, "a", "b")
    name = queue_of(fleet, "b")
    with client_of(a) as client, ThreadPoolExecutor() as threads:
        assert client.post(f"/queues/{name}/items", content="1").status_code == 201
        assert client.post(f"/queues/{name}/leases").json()["leases"][0]["body"] == "1"
        waiting = threads.submit(lambda: client_of(a).post(f"/queues/{name}/leases?wait=60s"))
        eventually(lambda: is_waiting(client))
        asleep = [b.pid, *slices_of(b).values()]
        for pid in asleep:
            os.kill(pid, signal.SIGSTOP)
        assert waiting.result().status_code == 502
        assert client.post(f"/queues/{name}/items", content="2").status_code == 201
        eventually(lambda: client.get("/health").status_code == 200)
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
        fleet.wait_for_shares()
        eventually(lambda: client_of(b).get("/ready").status_code == 200)
        assert client_of(b).post(f"/queues/{name}/leases").json()["leases"][0]["body"] == "2"


def test_a_member_is_ready_while_a_slice_of_another_one_is_away(fleet: Fleet) -> None:
    a, b = start(fleet, "a", "b")
    number = Placement(SLICES).slice_of(queue_of(fleet, "b").encode())
    sentence = f"slice {number} does not serve: b owns it and does not serve it now"
    with client_of(a) as client:
        os.kill(slices_of(a)[number], signal.SIGSTOP)  # nobody takes it over
        fleet.send(b, signal.SIGSTOP)
        # The other slices of that member are taken over.
        eventually(lambda: client.get("/ready").json()["warning"] == sentence)
        assert client.get("/ready").json()["ready"]
        said = client.get("/health")
        assert (said.status_code, said.json()["status"]) == (503, "failed")
        assert sentence in said.json()["reason"]
        for path in ("/metrics", "/admin/queues", "/stats.json"):
            said = client.get(path)
            assert said.status_code == 503, path
            assert f"slice {number} does not serve" in said.text
        view = client.get(VIEW).json()
        assert sentence in [line["text"] for line in view["verdict"]["lines"]]
        os.kill(slices_of(a)[number], signal.SIGCONT)
        fleet.send(b, signal.SIGCONT)
        eventually(lambda: client.get("/health").status_code == 200)


def test_users_have_the_same_rights_at_every_member_over_tls(tmp_path: Path, fleet: Fleet) -> None:
    certificate(tmp_path, "server", "127.0.0.1,IP:127.0.0.2,IP:127.0.0.3")
    tls = '[server]\ntls_cert = "server.pem"\ntls_key = "server.key"\n'
    fleet.more = ANNA + ROOT
    for name in ("a", "b"):
        made = fleet.member(name)
        made.config_file.write_text(made.config_file.read_text().replace("[server]\n", tls))
        made.http_port = "0"
        made.start()
    fleet.wait_for_shares()
    for each in fleet.members.values():
        with client_of(each, str(tmp_path / "server.pem")) as client:
            check_rights(client, others=QUEUES[1:])
