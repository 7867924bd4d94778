"""The servers beside Kafka: an S3 server, a schema registry, and ZooKeeper for old releases.

S3 is SeaweedFS, which comes with kafkeep[dev], or MinIO, which is built once. The registry is
Apicurio, which speaks Confluent's API.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from kafkeep.dev.downloads import Progress, kafka_home, minio_command, registry_home
from kafkeep.dev.process import HOST, Server, launch, wait_until
from kafkeep.dev.state import DevState
from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import require_java

# Throw-away keys of a server that listens on the loopback address alone.
ACCESS_KEY = "kafkeep"
SECRET_KEY = "kafkeep-dev-secret"
REGION = "us-east-1"
BUCKET = "kafka-backup"

# Each SeaweedFS part has a gRPC port beside its own.
SEAWEEDFS_PORTS = ("master", "volume", "filer", "s3")
ZOOKEEPER = "zookeeper"
SESSION_MS = 6000
_TICK_MS = 1000
_PATIENCE_S = 120.0


def launch_s3(folder: Path, state: DevState) -> Server:
    """Start the S3 server's process; its data is under ``s3/`` in the folder."""
    data = folder / "s3"
    data.mkdir(exist_ok=True)
    environment = {}
    if state.s3 == "minio":
        environment = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}
        address = f"{HOST}:{state.ports['s3']}"
        argv = [s3_command("minio"), "server", "--quiet", "--address", address, str(data)]
    else:
        argv = _seaweedfs(folder, data, state.ports)
    log = folder / "s3.log"
    return launch("s3", argv, log=log, mark=data, cwd=folder, environment=environment)


def _seaweedfs(folder: Path, data: Path, ports: dict[str, int]) -> list[str]:
    keys = folder / "s3.json"
    keys.write_text(json.dumps(_identities()))
    argv = [s3_command("seaweedfs"), "server", f"-dir={data}", f"-ip={HOST}", f"-ip.bind={HOST}"]
    argv += ["-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=0"]
    # Made for clusters, the defaults cost 20 s at the second start and 10 s at every stop.
    argv += ["-master.peers=none", "-master.electionTimeout=1s", "-volume.preStopSeconds=0"]
    argv += ["-filer", "-s3", f"-s3.config={keys}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    for part in SEAWEEDFS_PORTS:
        argv += [f"-{part}.port={ports[part]}", f"-{part}.port.grpc={ports[f'{part}-grpc']}"]
    return argv


def _identities() -> dict[str, object]:
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    return {"identities": [{"name": "dev", "credentials": credentials, "actions": actions}]}


def s3_command(kind: str, progress: Progress = lambda _: None) -> str:
    """Return the path of the S3 server ``kind``; EnvironmentFault when it cannot be had."""
    if kind == "minio":
        return str(minio_command(progress))
    # Beside this Python first: `weed` is installed there with kafkeep[dev], PATH or no PATH.
    beside = str(Path(sys.executable).parent)
    found = shutil.which("weed", path=beside) or shutil.which("weed")
    if found is None:
        raise EnvironmentFault(
            "the command weed is not installed",
            hint="Install it: pip install 'kafkeep[dev]'.",
        )
    return found


def remove_sockets(ports: Mapping[str, int]) -> None:
    """Remove the local sockets that SeaweedFS leaves in /tmp under its ports' numbers."""
    for part in SEAWEEDFS_PORTS:
        for name in (f"{part}-{ports[part]}", f"{part}-grpc-{ports[f'{part}-grpc']}"):
            Path(f"/tmp/seaweedfs-{name}.sock").unlink(missing_ok=True)


def s3_answers(port: int) -> bool:
    """Say whether the server answers requests, be it with a refusal."""
    try:
        urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=2).close()
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 500
    except OSError:
        return False
    return True


def bucket_ready(port: int) -> bool:
    """Create the default bucket if it is not there, and say whether it now takes an object."""
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{HOST}:{port}",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name=REGION,
        config=Config(
            s3={"addressing_style": "path"}, retries={"max_attempts": 1}, connect_timeout=2
        ),
    )
    try:
        if BUCKET not in {one["Name"] for one in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=BUCKET)
        # The server answers before it can store; the first object also makes its volumes.
        client.put_object(Bucket=BUCKET, Key=".kafkeep-dev", Body=b"ready")
        client.delete_object(Bucket=BUCKET, Key=".kafkeep-dev")
    except (BotoCoreError, ClientError):
        return False
    finally:
        client.close()
    return True


def registry_url(port: int) -> str:
    """Return where Confluent's API is."""
    return f"http://{HOST}:{port}/apis/ccompat/v7"


def launch_registry(folder: Path, state: DevState) -> Server:
    """Start the registry's process; its data is a database file under ``registry/``."""
    home, data = registry_home(), folder / "registry"
    data.mkdir(exist_ok=True)
    settings = {
        "quarkus.http.host": HOST,
        "quarkus.http.port": str(state.ports["registry"]),
        "quarkus.http.insecure-requests": "enabled",
        "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{data}/registry",
        "user.home": str(data),
    }
    argv = [require_java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    argv += [f"-D{key}={value}" for key, value in settings.items()]
    argv += ["-jar", str(next(home.glob("*-runner.jar")))]
    return launch("registry", argv, log=folder / "registry.log", mark=data, cwd=folder)


def registry_answers(port: int) -> bool:
    """Say whether the registry lists its subjects."""
    try:
        with urllib.request.urlopen(f"{registry_url(port)}/subjects", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def launch_zookeeper(folder: Path, state: DevState) -> Server:
    """Start ZooKeeper's process; its data is under ``zookeeper/`` in the folder."""
    home, own = kafka_home(state.kafka_version), folder / ZOOKEEPER
    (own / "data").mkdir(parents=True, exist_ok=True)
    settings = own / "zookeeper.properties"
    lines = {
        "dataDir": str(own / "data"),
        "clientPort": str(state.ports[ZOOKEEPER]),
        "clientPortAddress": HOST,
        "tickTime": str(_TICK_MS),
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "dump",
    }
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    argv = [require_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    argv += [f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}"]
    argv += ["-cp", f"{home / 'libs'}/*"]
    argv += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)]
    return launch(ZOOKEEPER, argv, log=folder / "zookeeper.log", mark=settings, cwd=own)


def zookeeper_answers(port: int) -> bool:
    """Say whether it serves requests."""
    return "SessionTracker dump" in _sessions(port)


def wait_for_zookeeper(state: DevState, node_id: int) -> None:
    """Wait until a broker can register: its registration outlives a killed one for some seconds."""
    port, server = state.ports[ZOOKEEPER], state.servers.get(ZOOKEEPER)
    name = f"/brokers/ids/{node_id}"

    def is_free() -> bool:
        if server is not None and not server.alive:
            raise EnvironmentFault(f"{ZOOKEEPER} ended", hint=f"Its log is {server.log}.")
        answer = _sessions(port).split()
        return bool(answer) and name not in answer

    if not wait_until(is_free, timeout_s=_PATIENCE_S):
        raise EnvironmentFault(f"{ZOOKEEPER} was not ready within {_PATIENCE_S:.0f} s")


def _sessions(port: int) -> str:
    """Return ZooKeeper's list of sessions and their nodes; empty if it does not answer."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as link:
            link.sendall(b"dump")
            answer = link.makefile("rb").read()
    except OSError:
        return ""
    return answer.decode(errors="replace")
