"""What lies in deploy/ fits the code: keys, ports, paths and variables are those there are."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.deploy_files import (
    COMPOSE,
    DEPLOY,
    DOCKERFILE,
    ROOT,
    check_command,
    image_environment,
    instructions,
    worker_of,
)

from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.rest.endpoints import SERVICE_ENDPOINTS
from kafkeep.connect.serve import STOP_SECONDS
from kafkeep.connect.worker.keys_page import HEADING, format_part, iter_rows
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.errors import UsageError
from kafkeep.options.config_files import parse_properties

PATHS = {endpoint.path for endpoint in SERVICE_ENDPOINTS if endpoint.method == "GET"}
OPEN = {endpoint.path for endpoint in SERVICE_ENDPOINTS if endpoint.role is None}


def _manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def _deployment() -> dict[str, Any]:
    [found] = [one for one in _manifests("kafkeep.yaml") if one["kind"] == "Deployment"]
    return found["spec"]["template"]["spec"]


def test_the_image_copies_what_is_there_and_its_ignore_file_lets_it() -> None:
    copied = [line.split()[:-1] for line in instructions(DOCKERFILE)["COPY"]]
    sources = [one for words in copied if "--from=build" not in words for one in words]
    assert {"pyproject.toml", "constraints.txt", "src"} <= set(sources)
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignore


def test_the_package_carries_the_license_it_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    [text] = [(ROOT / name).read_text() for name in project["license-files"]]
    assert re.search(r"Apache License\s+Version 2\.0, January 2004", text)
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_image_is_not_root_and_ends_in_the_service() -> None:
    found = instructions(DOCKERFILE)
    assert found["USER"] == ["10001:10001"]
    assert all(line.split()[0].startswith("python:3.11-slim") for line in found["FROM"])
    assert "openjdk-17-jre-headless" in DOCKERFILE
    assert "--constraint constraints.txt" in DOCKERFILE
    entry, command = json.loads(found["ENTRYPOINT"][0]), json.loads(found["CMD"][0])
    check_command([*entry, *command][2:])
    assert found["EXPOSE"] == ["8083"]


def test_the_images_health_check_asks_an_open_path() -> None:
    [path] = re.findall(r"127\.0\.0\.1:8083(/[a-z/]+)", DOCKERFILE)
    assert path in OPEN


def test_the_images_worker_does_not_start_open_to_everyone() -> None:
    with pytest.raises(UsageError, match="open to everyone"):
        worker_of({"environment": {"CONNECT_BOOTSTRAP_SERVERS": "kafka:9092"}})


def test_every_worker_key_in_deploy_is_one_there_is() -> None:
    [config] = [one for one in _manifests("kafkeep.yaml") if one["kind"] == "ConfigMap"]
    texts = [(DEPLOY / "worker.properties").read_text(), config["data"]["worker.properties"]]
    known = {row.key for row in iter_rows()}
    for text in texts:
        for key in parse_properties(text):
            shape = re.sub(r"^(config\.providers)\.\w+\.", r"\1.<name>.", key)
            assert shape in known, key


def test_the_workers_in_kubernetes_start_and_share_a_bucket(tmp_path: Path) -> None:
    [config] = [one for one in _manifests("kafkeep.yaml") if one["kind"] == "ConfigMap"]
    (tmp_path / "tokens").write_text("admin:0123456789abcdef")
    text = config["data"]["worker.properties"].replace("/run/secrets/kafkeep/", f"{tmp_path}/")
    (tmp_path / "worker.properties").write_text(text)
    environ = {"CONNECT_REST_ADVERTISED_HOST_NAME": "10.1.2.3"}
    worker = WorkerOptions.load(tmp_path / "worker.properties", environ)
    assert worker.notes == ()
    assert worker.state_address.startswith("s3://")
    assert worker.rest.worker_id() == "10.1.2.3:8083"
    assert worker.security.has_auth
    service = next(one for one in _manifests("kafkeep.yaml") if one["kind"] == "Service")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    for host in (name, f"{name}.{namespace}", f"{name}.{namespace}.svc.cluster.local"):
        assert worker.security.allows_host(f"{host}:8083")


def test_kubernetes_parts_belong_together() -> None:
    manifests = _manifests("kafkeep.yaml")
    kinds = {one["kind"]: one for one in manifests if one["kind"] != "Secret"}
    deployment = kinds["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["replicas"] == 2
    assert deployment["selector"]["matchLabels"] == labels
    assert kinds["Service"]["spec"]["selector"] == labels
    assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert {one["metadata"]["namespace"] for one in manifests} == {"kafkeep"}
    pod = _deployment()
    volumes = {one["name"] for one in pod["volumes"]}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    [container] = pod["containers"]
    [port] = container["ports"]
    assert port["containerPort"] == 8083
    assert kinds["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    check_command(["kafkeep", *container["args"]])


def test_probes_ask_open_paths_and_stopping_is_given_time() -> None:
    pod = _deployment()
    [container] = pod["containers"]
    for name, path in (
        ("startupProbe", "/health"),
        ("livenessProbe", "/health"),
        ("readinessProbe", "/health/ready"),
    ):
        assert container[name]["httpGet"] == {"path": path, "port": "rest"}
        assert path in OPEN & PATHS
    assert pod["terminationGracePeriodSeconds"] > STOP_SECONDS
    for path in COMPOSE:
        graces = re.findall(r"stop_grace_period: (\d+)s", path.read_text())
        assert graces
        assert all(int(grace) > STOP_SECONDS for grace in graces)


def test_pods_run_without_rights() -> None:
    pod = _deployment()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"/cache"} or {"/tmp", image_environment()["KAFKEEP_CACHE"]} <= mounts


def test_strimzis_examples_are_connectors_of_ours() -> None:
    for manifest in _manifests("strimzi-connectors.yaml"):
        assert manifest["kind"] == "KafkaConnector"
        spec = manifest["spec"]
        config = {
            **spec["config"],
            "connector.class": spec["class"],
            "tasks.max": spec["tasksMax"],
        }
        read = ConnectorConfig.from_map(config, name=manifest["metadata"]["name"], environ={})
        assert read.connector_class == spec["class"]


def _unit() -> dict[str, list[str]]:
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    text = (DEPLOY / "systemd" / "kafkeep.service").read_text()
    parser.read_string(text)
    assert parser.sections() == ["Unit", "Service", "Install"]
    found: dict[str, list[str]] = defaultdict(list)
    for name, value in re.findall(r"(?m)^([A-Za-z]+)=(.*)$", text):
        found[name].append(value)
    return found


def test_the_unit_starts_the_service_and_gives_it_time_to_stop() -> None:
    unit = _unit()
    command = shlex.split(unit["ExecStart"][0])
    assert command[0].endswith("/bin/kafkeep")
    check_command(["kafkeep", *command[1:]])
    assert int(unit["TimeoutStopSec"][0].rstrip("s")) > STOP_SECONDS
    assert unit["KillMode"] == ["mixed"]
    environ = dict(one.split("=", 1) for one in unit["Environment"])
    environ["CONNECT_BOOTSTRAP_SERVERS"] = "kafka:9092"
    worker = WorkerOptions.load(None, environ)
    assert worker.state_address == f"/var/lib/{unit['StateDirectory'][0]}/state/kafkeep"
    assert environ["KAFKEEP_CACHE"] == f"/var/cache/{unit['CacheDirectory'][0]}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("CapabilityBoundingSet", ""),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
        ("SystemCallFilter", "@system-service"),
        ("UMask", "0077"),
    ],
)
def test_the_unit_is_hardened(name: str, value: str) -> None:
    assert _unit()[name] == [value]


def test_recipes_for_clusters_run_commands_there_are() -> None:
    text = (DEPLOY / "spark-submit.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    masters = []
    for block in blocks:
        words = shlex.split(block.replace("\\\n", " "))
        if words[0] != "spark-submit":
            continue
        masters.append(words[words.index("--master") + 1].split(":")[0])
        at = next(n for n, word in enumerate(words) if word.endswith("spark_main.py"))
        check_command(["kafkeep", *words[at + 1 :]])
        confs = [words[n + 1] for n, word in enumerate(words) if word == "--conf"]
        assert "spark.speculation=false" in confs
    assert masters == ["spark", "yarn", "k8s"]
    assert (DEPLOY / "spark_main.py").is_file()


def test_recipes_for_clusters_install_the_wheel_that_is_built() -> None:
    """They installed a package that is not published."""
    text = (DEPLOY / "spark-submit.md").read_text()
    lines = re.findall(r"(?m)^.*pip install .*$", text)
    assert lines
    for line in lines:
        words = shlex.split(line)[shlex.split(line).index("install") + 1 :]
        assert "kafkeep" not in words
        assert any(word.endswith("kafkeep-*.whl") for word in words), line
    assert re.search(r"(?m)^make build$", text)
    assert re.search(r"(?m)^build:", (ROOT / "Makefile").read_text())


def test_the_page_has_the_table_that_the_declarations_make() -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    hint = "make it anew: python -m kafkeep.connect.worker.keys_page"
    assert page[page.index(HEADING) :] == format_part(), (
        f"the table in docs/serve.md is old; {hint}"
    )


def test_the_page_names_every_file_of_deploy() -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    for path in [*COMPOSE, DEPLOY / "Dockerfile", DEPLOY / "spark-submit.md"]:
        assert f"deploy/{path.relative_to(DEPLOY)}" in page
