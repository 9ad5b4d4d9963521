"""The files for a fleet in containers, tested without a container runtime."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

PACKAGING = Path(__file__).parents[3] / "packaging" / "fleet"


def checked(folder: Path, environment: dict[str, str], config: str = "") -> None:
    """`check-config` takes these settings, as the container would."""
    (folder / "kestrelpy.toml").write_text(config)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KESTRELPY_")}
    command = [sys.executable, "-m", "kestrelpy", "check-config", "--config"]
    done = subprocess.run(
        [*command, str(folder / "kestrelpy.toml")], env={**clean, **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_members_of_the_compose_file_have_settings_that_hold(tmp_path: Path) -> None:
    compose = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
    services = compose["services"]
    image = {"KESTRELPY_SERVER_HOST": "0.0.0.0", "KESTRELPY_SERVER_INSECURE": "true"}
    for name in ("a", "b"):
        environment = dict(services[name]["environment"])
        assert environment["KESTRELPY_FLEET_NAME"] == name
        checked(tmp_path, image | {
            key: value.replace("${POSTGRES_PASSWORD:?}", "secret")
            for key, value in environment.items()
        })  # fmt: skip
    (proxy,) = re.findall(r"server a (\S+)", (PACKAGING / "haproxy.cfg").read_text())
    assert proxy == "a:22133"
    volumes = {
        each.partition(":")[0] for one in services.values() for each in one.get("volumes", ())
    }
    assert {each for each in volumes if not each.startswith("./")} == set(compose["volumes"])
    for each in volumes:
        if each.startswith("./"):
            assert (PACKAGING / each).exists(), each


def test_the_scripts_of_the_compose_file_parse() -> None:
    for script in PACKAGING.glob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)


def test_the_stateful_set_routes_to_the_owner_and_has_settings_that_hold(tmp_path: Path) -> None:
    parts: dict[tuple[str, str], Any] = {
        (each["kind"], each["metadata"]["name"]): each
        for each in yaml.safe_load_all((PACKAGING / "kubernetes.yaml").read_text())
    }
    stateful = parts["StatefulSet", "kestrelpy"]["spec"]
    pod = stateful["template"]
    (container,) = pod["spec"]["containers"]
    config = parts["ConfigMap", "kestrelpy"]["data"]["kestrelpy.toml"]
    checked(tmp_path, {
        "KESTRELPY_FLEET_ENGINE": "postgresql://kestrel:secret@kestrel-db-rw:5432/kestrel",
        "KESTRELPY_FLEET_NAME": "kestrelpy-0",
        "KESTRELPY_FLEET_ADDRESS": "kestrelpy-0.kestrelpy-members",
    }, config)  # fmt: skip

    # A standby is never ready: the service leads to the owner, and nothing waits for the standby.
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert stateful["podManagementPolicy"] == "Parallel"
    assert stateful["updateStrategy"]["type"] == "OnDelete"
    for name in ("kestrelpy", "kestrelpy-members"):
        selector = parts["Service", name]["spec"]["selector"]
        assert selector.items() <= pod["metadata"]["labels"].items()
    assert stateful["serviceName"] == "kestrelpy-members"
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["spec"]["volumes"]}
    for each in (*pod["spec"]["initContainers"], container):
        assert "KESTRELPY_FLEET_ENGINE" in {one["name"] for one in each["env"]}
    # Each commit is on every standby that may be promoted.
    cluster = parts["Cluster", "kestrel-db"]["spec"]
    assert cluster["postgresql"]["synchronous"]["number"] == cluster["instances"] - 1
