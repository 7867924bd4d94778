"""What lies in deploy/ fits the code: keys, ports, paths and variables are those there are."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from kafkeep.cli.main import app
from kafkeep.config.connector import ConnectorConfig
from kafkeep.config.properties import parse_properties
from kafkeep.connect.rest.endpoints import SERVICE_ENDPOINTS
from kafkeep.connect.serve import STOP_SECONDS
from kafkeep.connect.worker.env_file import (
    DEFAULTS,
    REQUIRED,
    read_env_file,
    sinetstream_connectors,
)
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.connect.worker.table import HEADING, format_part, iter_rows

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = [DEPLOY / "compose.yaml", DEPLOY / "sinetstream" / "compose.yaml"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
PATHS = {endpoint.path for endpoint in SERVICE_ENDPOINTS if endpoint.method == "GET"}
OPEN = {endpoint.path for endpoint in SERVICE_ENDPOINTS if endpoint.role is None}
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?::?([-?])([^{}]*))?\}")


def _filled(value: Any, given: dict[str, str]) -> Any:
    """Fill variables in as Compose does, with what ``given`` has or their defaults."""
    if isinstance(value, dict):
        return {key: _filled(one, given) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, given) for one in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: given.get(m[1]) or (m[3] if m[2] == "-" else ""), value)
    return value


def _compose(path: Path, given: dict[str, str] | None = None) -> dict[str, Any]:
    return _filled(yaml.safe_load(path.read_text()), given or {})


def _instructions(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            found[name].append(rest.strip())
    return found


def _image_environment() -> dict[str, str]:
    words = [word for line in _instructions(DOCKERFILE)["ENV"] for word in shlex.split(line)]
    return dict(word.split("=", 1) for word in words)


def _worker_of(service: dict[str, Any]) -> WorkerOptions:
    """Load the worker that a Compose service of ours would be."""
    environ = {**_image_environment(), **{k: str(v) for k, v in service["environment"].items()}}
    return WorkerOptions.load(DEPLOY / "worker.properties", environ)


def _manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def _deployment() -> dict[str, Any]:
    [found] = [one for one in _manifests("kafkeep.yaml") if one["kind"] == "Deployment"]
    return found["spec"]["template"]["spec"]


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.parent.name)
def test_compose_services_name_what_is_there(path: Path) -> None:
    compose = _compose(path)
    services = compose["services"]
    for service in services.values():
        depends = service.get("depends_on", [])
        assert set(depends) <= set(services)
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("."):
                made = source in ("./data", "./.env")  # by Docker, and by the user
                assert made or (path.parent / source).is_file(), source
            else:
                assert source in compose["volumes"]
        if "build" in service:
            context = (path.parent / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).is_file()
            assert context == ROOT


@pytest.mark.parametrize("path", COMPOSE, ids=lambda p: p.parent.name)
def test_compose_opens_ports_to_this_machine_alone_and_each_once(path: Path) -> None:
    ports = [p for s in _compose(path)["services"].values() for p in s.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len(set(ports)) == len(ports)


def test_compose_commands_are_ones_there_are() -> None:
    command = _compose(COMPOSE[1])["services"]["kafka-connect"]["command"]
    _check_command(["kafkeep", *command])
    text = COMPOSE[1].read_text()
    [line] = re.findall(r"exec kafka-connect (kafkeep .*)", text)
    _check_command(line.split())


def test_compose_has_the_services_people_expect() -> None:
    services = _compose(COMPOSE[0])["services"]
    always = {name for name, service in services.items() if "profiles" not in service}
    assert always == {"kafka", "seaweedfs", "create-bucket", "kafkeep", "kafka-ui"}
    assert services["minio"]["profiles"] == ["minio"]
    assert "127.0.0.1:8083:8083" in services["kafkeep"]["ports"]
    assert "127.0.0.1:8080:8080" in services["kafka-ui"]["ports"]


def test_the_worker_in_compose_is_one_that_starts() -> None:
    services = _compose(COMPOSE[0])["services"]
    worker = _worker_of(services["kafkeep"])
    assert worker.notes == ()
    assert worker.kafka.bootstrap_servers == "kafka:9092"
    assert [str(one) for one in worker.rest.listening] == ["http://0.0.0.0:8083"]
    ui = services["kafka-ui"]["environment"]
    assert ui["KAFKA_CLUSTERS_0_KAFKACONNECT_0_ADDRESS"] == worker.rest.url()
    assert worker.security.allows_host("kafkeep:8083")
    assert services["kafkeep"]["hostname"] == worker.rest.advertised_host
    assert (
        "PLAINTEXT://kafka:9092" in services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    )


def test_the_state_in_compose_lies_on_a_volume() -> None:
    for path in COMPOSE:
        service = next(
            s
            for s in _compose(path)["services"].values()
            if "CONNECT_REST_ADVERTISED_HOST_NAME" in s.get("environment", {})
        )
        [target] = [m.split(":")[1] for m in service["volumes"] if not m.startswith(".")]
        environ = {"CONNECT_BOOTSTRAP_SERVERS": "kafka:9092", **service["environment"]}
        state = _worker_of({"environment": environ}).state_address
        assert state.startswith(target + "/")


def test_the_store_in_compose_is_the_one_that_connectors_and_the_bucket_use() -> None:
    services = _compose(COMPOSE[0])["services"]
    keys = json.loads((DEPLOY / "s3.json").read_text())["identities"][0]["credentials"][0]
    for name in ("create-bucket", "kafkeep"):
        environ = services[name]["environment"]
        assert environ["AWS_ACCESS_KEY_ID"] == keys["accessKey"]
        assert environ["AWS_SECRET_ACCESS_KEY"] == keys["secretKey"]
        assert environ["AWS_ENDPOINT_URL_S3"] == "http://seaweedfs:8333"
    command = services["seaweedfs"]["command"]
    assert "-s3.port=8333" in command
    assert "-s3.config=/etc/kafkeep/s3.json" in command


def test_the_minio_profile_takes_sinetstreams_env() -> None:
    values = read_env_file(DEPLOY / "sinetstream" / "example.env")
    assert set(values) == {*REQUIRED, *DEFAULTS, "S3_ENDPOINT_URL"}
    sinetstream_connectors(values)
    services = _compose(COMPOSE[0], values)["services"]
    assert services["kafkeep"]["environment"]["AWS_ENDPOINT_URL_S3"] == values["S3_ENDPOINT_URL"]
    for name in ("kafkeep", "create-bucket"):
        environ = services[name]["environment"]
        assert environ["AWS_SECRET_ACCESS_KEY"] == values["AWS_SECRET_KEY"]
    minio = services["minio"]["environment"]
    assert minio["MINIO_ROOT_USER"] == values["AWS_ACCESS_KEY_ID"]
    assert minio["MINIO_ROOT_PASSWORD"] == values["AWS_SECRET_KEY"]
    assert _worker_of(services["kafkeep"]).kafka.bootstrap_servers == "kafka.example.org:9092"


def test_sinetstreams_compose_is_as_its_readers_know_it() -> None:
    services = _compose(COMPOSE[1], {"REST_PORT": "8090"})["services"]
    assert {name for name, s in services.items() if "profiles" not in s} == {"kafka-connect"}
    assert {name for name, s in services.items() if s.get("profiles") == ["minio"]} == {
        "minio",
        "create-bucket",
    }
    assert services["kafka-connect"]["ports"] == ["127.0.0.1:8090:8083"]
    environ = {**services["kafka-connect"]["environment"], "CONNECT_BOOTSTRAP_SERVERS": "k:9092"}
    worker = _worker_of({"environment": environ})
    assert [str(one) for one in worker.rest.listening] == ["http://0.0.0.0:8083"]
    assert worker.rest.worker_id() == "kafka-connect:8083"


def test_the_image_copies_what_is_there_and_its_ignore_file_lets_it() -> None:
    copied = [line.split()[:-1] for line in _instructions(DOCKERFILE)["COPY"]]
    sources = [one for words in copied if "--from=build" not in words for one in words]
    assert {"pyproject.toml", "constraints.txt", "src"} <= set(sources)
    ignore = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignore


def test_the_image_is_not_root_and_ends_in_the_service() -> None:
    found = _instructions(DOCKERFILE)
    assert found["USER"] == ["10001:10001"]
    assert all(line.split()[0].startswith("python:3.11-slim") for line in found["FROM"])
    assert "openjdk-17-jre-headless" in DOCKERFILE
    assert "--constraint constraints.txt" in DOCKERFILE
    entry, command = json.loads(found["ENTRYPOINT"][0]), json.loads(found["CMD"][0])
    _check_command([*entry, *command][2:])
    assert found["EXPOSE"] == ["8083"]


def test_the_images_health_check_asks_an_open_path() -> None:
    [path] = re.findall(r"127\.0\.0\.1:8083(/[a-z/]+)", DOCKERFILE)
    assert path in OPEN


def test_the_images_worker_does_not_start_open_to_everyone() -> None:
    with pytest.raises(Exception, match="open to everyone"):
        _worker_of({"environment": {"CONNECT_BOOTSTRAP_SERVERS": "kafka:9092"}})


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
    _check_command(["kafkeep", *container["args"]])


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
        assert mounts == {"/cache"} or {"/tmp", _image_environment()["KAFKEEP_CACHE"]} <= mounts


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
    _check_command(["kafkeep", *command[1:]])
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
        _check_command(["kafkeep", *words[at + 1 :]])
        confs = [words[n + 1] for n, word in enumerate(words) if word == "--conf"]
        assert "spark.speculation=false" in confs
    assert masters == ["spark", "yarn", "k8s"]
    assert (DEPLOY / "spark_main.py").is_file()


def test_the_page_has_the_table_that_the_declarations_make() -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    hint = "make it anew: python -m kafkeep.connect.worker.table"
    assert page[page.index(HEADING) :] == format_part(), (
        f"the table in docs/serve.md is old; {hint}"
    )


def test_the_page_names_every_file_of_deploy() -> None:
    page = (ROOT / "docs" / "serve.md").read_text()
    for path in [*COMPOSE, DEPLOY / "Dockerfile", DEPLOY / "spark-submit.md"]:
        assert f"deploy/{path.relative_to(DEPLOY)}" in page


def _check_command(words: list[str]) -> None:
    """Check that a command line has a verb and flags there are."""
    assert words[0] == "kafkeep"
    command = get_command(app).commands[words[1]]
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {word for word in words[2:] if word.startswith("--")} <= known
