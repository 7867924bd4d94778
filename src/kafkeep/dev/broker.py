"""Kafka brokers: settings, start and readiness.

With KRaft each broker is a controller too; older releases have a ZooKeeper beside them.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from kafkeep.dev.class_sharing import class_archive_flags
from kafkeep.dev.downloads import kafka_home
from kafkeep.dev.process import HOST, Server, launch
from kafkeep.dev.secure import SCRAM_ARGUMENTS, SCRAM_COMMANDS, secure_properties
from kafkeep.dev.services import SESSION_MS, ZOOKEEPER, wait_for_zookeeper
from kafkeep.dev.state import DevState
from kafkeep.dev.tools import kafka_tool, tool_for_server
from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import require_java

_JVM = ("-Xmx1g", "-XX:+UseSerialGC")
_MAX_MESSAGE_BYTES = str(32 * 1024 * 1024)


def new_cluster_id() -> str:
    """Return a random id in Kafka's own spelling, never one that starts with a dash."""
    while (made := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def broker_folder(folder: Path, node_id: int) -> Path:
    """Return where one broker keeps its settings and its log directory."""
    return folder / f"broker-{node_id}"


def broker_properties(folder: Path, state: DevState, node_id: int) -> dict[str, str]:
    """Return one broker's server.properties; what the user asked for comes last and wins."""
    client = f"PLAINTEXT://{HOST}:{state.ports[f'broker-{node_id}']}"
    replicas = str(min(3, state.brokers))
    in_sync = "1" if state.brokers == 1 else "2"
    common = {
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": client,
        "advertised.listeners": client,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        "log.dirs": str(broker_folder(folder, node_id) / "data"),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        # Fifty partitions each are for large clusters; here they only slow the first use.
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.num.partitions": "8",
        "group.initial.rebalance.delay.ms": "0",
        "message.max.bytes": _MAX_MESSAGE_BYTES,
        "replica.fetch.max.bytes": _MAX_MESSAGE_BYTES,
        **(secure_properties(folder, state.ports, node_id) if state.secure else {}),
    }
    if state.kafka_version.has_share_groups:
        common |= {
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": "8",
        }
    elect = _zookeeper_settings if state.needs_zookeeper else _kraft_settings
    return {**elect(state, node_id, common), **state.broker_properties}


def _kraft_settings(state: DevState, node_id: int, common: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a broker that is a controller too."""
    controllers = {n: f"{HOST}:{state.ports[f'controller-{n}']}" for n in state.nodes}
    own = controllers[node_id]
    return {
        **common,
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(f"{n}@{at}" for n, at in controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{common['listeners']},CONTROLLER://{own}",
        "listener.security.protocol.map": f"{common['listener.security.protocol.map']},"
        "CONTROLLER:PLAINTEXT",
        **(_authorizer("org.apache.kafka.metadata.authorizer.StandardAuthorizer", state)),
    }


def _zookeeper_settings(state: DevState, node_id: int, common: Mapping[str, str]) -> dict[str, str]:
    return {
        **common,
        "broker.id": str(node_id),
        "zookeeper.connect": f"{HOST}:{state.ports[ZOOKEEPER]}",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        **(_authorizer("kafka.security.authorizer.AclAuthorizer", state)),
    }


def _authorizer(name: str, state: DevState) -> dict[str, str]:
    return {"authorizer.class.name": name} if state.secure else {}


def format_properties(properties: Mapping[str, str]) -> str:
    """Write settings as a Java properties file."""
    escaped = ((key, value.replace("\\", "\\\\")) for key, value in properties.items())
    return "".join(f"{key}={value}\n" for key, value in escaped)


def launch_broker(folder: Path, state: DevState, node_id: int) -> Server:
    """Start one broker's process, formatting its log directory the first time."""
    version, java = state.kafka_version, require_java()
    home = kafka_home(version)
    own = broker_folder(folder, node_id)
    own.mkdir(exist_ok=True)
    settings = own / "server.properties"
    settings.write_text(format_properties(broker_properties(folder, state, node_id)))
    settings.chmod(0o600)
    if state.needs_zookeeper:
        wait_for_zookeeper(state, node_id)
    elif not (own / "data" / "meta.properties").exists():
        _format(state, settings, java)
    argv = [
        java,
        *_JVM,
        *class_archive_flags(java, version, settings),
        "-Dkafkeep.level=info",
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        "-cp",
        f"{home / 'libs'}/*",
        "kafka.Kafka",
        str(settings),
    ]
    name = f"broker-{node_id}"
    return launch(name, argv, log=folder / f"{name}.log", mark=settings, cwd=own)


def _format(state: DevState, settings: Path, java: str) -> None:
    scram = SCRAM_ARGUMENTS if state.secure else ()
    argv = kafka_tool(
        "kafka-storage",
        *("format", "--cluster-id", state.cluster_id, "--config", str(settings), *scram),
        kafka=state.kafka,
    )
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentFault(
            f"{settings.parent.name} could not be formatted",
            hint="Kafka's output:\n" + (done.stderr or done.stdout).strip()[-2000:],
        )


def add_scram_users(state: DevState, bootstrap_servers: str) -> None:
    """Add the users of the secured listeners to brokers with ZooKeeper, all at once.

    KRaft brokers get theirs when their log directories are formatted.
    """
    running = [
        subprocess.Popen(
            tool_for_server("kafka-configs", bootstrap_servers, arguments, kafka=state.kafka),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for arguments in SCRAM_COMMANDS
    ]
    for one in running:
        output, _ = one.communicate()
        if one.returncode != 0:
            raise EnvironmentFault(
                "the users of the secured listeners could not be added",
                hint=f"Kafka's output:\n{output.strip()[-2000:]}",
            )


def live_brokers(port: int) -> int:
    """Ask the broker at ``port`` how many brokers of the cluster are in service; 0: no answer.

    A Metadata request (version 1, no topics) by hand: it needs no client, and says what a client
    would see.
    """
    body = struct.pack(">hhih4si", 3, 1, 1, 4, b"kdev", 0)
    try:
        with socket.create_connection((HOST, port), timeout=2) as link:
            link.sendall(struct.pack(">i", len(body)) + body)
            answer = link.makefile("rb").read(12)
    except OSError:
        return 0
    return int(struct.unpack(">iii", answer)[2]) if len(answer) == 12 else 0
