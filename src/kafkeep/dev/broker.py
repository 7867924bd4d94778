"""Kafka brokers (KRaft, each a controller too): settings, start, readiness, command-line tools."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from kafkeep.dev.downloads import KAFKA_VERSION, cache_folder, kafka_home
from kafkeep.dev.process import HOST, Server, launch
from kafkeep.dev.secure import SCRAM_ARGUMENTS, secure_properties
from kafkeep.dev.state import DevState
from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.spark import java_version, require_java

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
    ports, nodes = state.ports, range(1, state.brokers + 1)
    voters = ",".join(f"{node}@{HOST}:{ports[f'controller-{node}']}" for node in nodes)
    client = f"PLAINTEXT://{HOST}:{ports[f'broker-{node_id}']}"
    replicas = str(min(3, state.brokers))
    in_sync = "1" if state.brokers == 1 else "2"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": f"{client},CONTROLLER://{HOST}:{ports[f'controller-{node_id}']}",
        "advertised.listeners": client,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(broker_folder(folder, node_id) / "data"),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.min.isr": in_sync,
        # Fifty partitions each are for large clusters; here they only slow the first use.
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.num.partitions": "8",
        "share.coordinator.state.topic.num.partitions": "8",
        "group.initial.rebalance.delay.ms": "0",
        "message.max.bytes": _MAX_MESSAGE_BYTES,
        "replica.fetch.max.bytes": _MAX_MESSAGE_BYTES,
        **(secure_properties(folder, ports, node_id) if state.secure else {}),
        **state.broker_properties,
    }


def format_properties(properties: Mapping[str, str]) -> str:
    """Write settings as a Java properties file."""
    escaped = ((key, value.replace("\\", "\\\\")) for key, value in properties.items())
    return "".join(f"{key}={value}\n" for key, value in escaped)


def launch_broker(folder: Path, state: DevState, node_id: int) -> Server:
    """Start one broker's process, formatting its log directory the first time."""
    home, java = kafka_home(), require_java()
    own = broker_folder(folder, node_id)
    own.mkdir(exist_ok=True)
    settings = own / "server.properties"
    settings.write_text(format_properties(broker_properties(folder, state, node_id)))
    settings.chmod(0o600)
    if not (own / "data" / "meta.properties").exists():
        _format(state, settings, java)
    argv = [
        java,
        *_JVM,
        *_class_archive_flags(java, settings),
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
    home = kafka_home()
    argv = [
        java,
        *_shared_classes(java),
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        "-cp",
        f"{home / 'libs'}/*",
        "kafka.tools.StorageTool",
        "format",
        "--cluster-id",
        state.cluster_id,
        "--config",
        str(settings),
        *(SCRAM_ARGUMENTS if state.secure else ()),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentFault(
            f"{settings.parent.name} could not be formatted",
            hint="Kafka's output:\n" + (done.stderr or done.stdout).strip()[-2000:],
        )


def _class_archive(java: str) -> Path:
    """Return the file that lets a JVM load Kafka's classes at once; it halves a broker's start.

    It fits one Java version alone, hence the name. A broker that starts without one writes one
    when it ends (see ``keep_class_archive``).
    """
    return cache_folder() / f"kafka-{KAFKA_VERSION}-java-{java_version(java)}.jsa"


def _new_class_archive(archive: Path, settings: str) -> Path:
    # Named after the broker, so that nobody takes another one's half-written file.
    return archive.with_name(f"{archive.name}.{sha256(settings.encode()).hexdigest()[:12]}")


def _shared_classes(java: str) -> list[str]:
    archive = _class_archive(java)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def _class_archive_flags(java: str, settings: Path) -> list[str]:
    archive = _class_archive(java)
    if shared := _shared_classes(java):
        return shared
    new = _new_class_archive(archive, str(settings))
    new.unlink(missing_ok=True)
    return [f"-XX:ArchiveClassesAtExit={new}"]


def keep_class_archive(settings: str, *, whole: bool) -> None:
    """Keep the class archive that a broker wrote when it ended, if it wrote one and wrote it all.

    Call it when the broker's process is gone; ``settings`` is the path it was started with.
    """
    with contextlib.suppress(OSError, EnvironmentFault):
        archive = _class_archive(require_java())
        new = _new_class_archive(archive, settings)
        if whole:
            os.replace(new, archive)
        else:
            new.unlink(missing_ok=True)


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


_TOOLS = "org.apache.kafka.tools"
_CLASSES = {
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "DumpLogSegments": "kafka.tools.DumpLogSegments",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-groups": f"{_TOOLS}.GroupsCommand",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
    "connect-distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
    "connect-standalone": "org.apache.kafka.connect.cli.ConnectStandalone",
}

_TOOL_NAMES = tuple(sorted(name for name in _CLASSES if name.startswith("kafka-")))
_WITHOUT_SERVER = ("kafka-dump-log", "kafka-producer-perf-test", "kafka-storage")


def tool_for_server(name: str, bootstrap_servers: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs one of Kafka's tools, by its script's name, on a cluster.

    The address is added if the tool takes one and the arguments have none.
    """
    bare = name.removesuffix(".sh")
    if bare not in _TOOL_NAMES:
        raise UsageError(
            f"Kafka has no tool {name!r}", hint=f"Choose one of {', '.join(_TOOL_NAMES)}."
        )
    if bare in _WITHOUT_SERVER or "--bootstrap-server" in arguments:
        return kafka_tool(bare, *arguments)
    return kafka_tool(bare, "--bootstrap-server", bootstrap_servers, *arguments)


def kafka_tool(name: str, *args: str) -> list[str]:
    """Return the command that runs one of Kafka's tools, by script name or class name.

    Its warnings go to stderr, so stdout is the tool's own output. Downloads Kafka if need be.
    """
    home, java = kafka_home(), require_java()
    return [
        java,
        *_shared_classes(java),
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        "-cp",
        f"{home / 'libs'}/*",
        _CLASSES.get(name.removesuffix(".sh"), name),
        *args,
    ]
