"""Kafka's own command line tools, by the names of their scripts."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kafkeep.dev.class_sharing import shared_classes
from kafkeep.dev.downloads import kafka_home
from kafkeep.dev.kafka_version import DEFAULT_KAFKA, KafkaVersion
from kafkeep.errors import UsageError
from kafkeep.options.spark import require_java

_NEW, _OLD, _FIRST = "org.apache.kafka.tools", "kafka.tools", "kafka.admin"
# Tools moved from Scala to Java one by one: the first class that a release has is the one.
_CLASSES = {
    "kafka-acls": (f"{_NEW}.AclCommand", f"{_FIRST}.AclCommand"),
    "kafka-broker-api-versions": (
        f"{_NEW}.BrokerApiVersionsCommand",
        f"{_FIRST}.BrokerApiVersionsCommand",
    ),
    "kafka-configs": (f"{_NEW}.ConfigCommand", f"{_FIRST}.ConfigCommand"),
    "kafka-console-consumer": (f"{_NEW}.consumer.ConsoleConsumer", f"{_OLD}.ConsoleConsumer"),
    "kafka-console-producer": (f"{_NEW}.ConsoleProducer", f"{_OLD}.ConsoleProducer"),
    "kafka-consumer-groups": (
        f"{_NEW}.consumer.group.ConsumerGroupCommand",
        f"{_FIRST}.ConsumerGroupCommand",
    ),
    "kafka-consumer-perf-test": (f"{_NEW}.ConsumerPerformance", f"{_OLD}.ConsumerPerformance"),
    "kafka-delete-records": (f"{_NEW}.DeleteRecordsCommand", f"{_FIRST}.DeleteRecordsCommand"),
    "kafka-dump-log": (f"{_NEW}.DumpLogSegments", f"{_OLD}.DumpLogSegments"),
    "kafka-get-offsets": (f"{_NEW}.GetOffsetShell", f"{_OLD}.GetOffsetShell"),
    "kafka-groups": (f"{_NEW}.GroupsCommand",),
    "kafka-leader-election": (
        f"{_NEW}.LeaderElectionCommand",
        f"{_FIRST}.LeaderElectionCommand",
    ),
    "kafka-log-dirs": (f"{_NEW}.LogDirsCommand", f"{_FIRST}.LogDirsCommand"),
    "kafka-metadata-quorum": (
        f"{_NEW}.MetadataQuorumCommand",
        f"{_FIRST}.MetadataQuorumCommand",
    ),
    "kafka-producer-perf-test": (f"{_NEW}.ProducerPerformance",),
    "kafka-reassign-partitions": (
        f"{_NEW}.reassign.ReassignPartitionsCommand",
        f"{_FIRST}.ReassignPartitionsCommand",
    ),
    "kafka-storage": (f"{_NEW}.StorageTool", f"{_OLD}.StorageTool"),
    "kafka-topics": (f"{_NEW}.TopicCommand", f"{_FIRST}.TopicCommand"),
    "kafka-transactions": (f"{_NEW}.TransactionsCommand",),
    "kafka-verifiable-consumer": (f"{_NEW}.VerifiableConsumer",),
    "kafka-verifiable-producer": (f"{_NEW}.VerifiableProducer",),
}
_WITHOUT_SERVER = ("kafka-dump-log", "kafka-producer-perf-test", "kafka-storage")


def tool_for_server(
    name: str, bootstrap_servers: str, arguments: Sequence[str], *, kafka: str = DEFAULT_KAFKA
) -> list[str]:
    """Return the command that runs one of Kafka's tools, by its script's name, on a cluster.

    The address is added if the tool takes one and the arguments have none.
    """
    bare = name.removesuffix(".sh")
    if bare not in _CLASSES:
        raise UsageError(
            f"Kafka has no tool {name!r}", hint=f"Choose one of {', '.join(sorted(_CLASSES))}."
        )
    if bare not in _WITHOUT_SERVER and "--bootstrap-server" not in arguments:
        arguments = ["--bootstrap-server", bootstrap_servers, *arguments]
    return kafka_tool(bare, *arguments, kafka=kafka)


def kafka_tool(name: str, *args: str, kafka: str = DEFAULT_KAFKA) -> list[str]:
    """Return the command that runs one of Kafka's tools, by script name or class name.

    Its warnings go to stderr, so stdout is the tool's own output. Downloads Kafka if need be.
    """
    version = KafkaVersion.parse(kafka)
    home, java = kafka_home(version), require_java()
    return [
        java,
        *shared_classes(java, version),
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        "-cp",
        f"{home / 'libs'}/*",
        _class_of(name.removesuffix(".sh"), home, version),
        *args,
    ]


def _class_of(name: str, home: Path, version: KafkaVersion) -> str:
    """Return the class of a tool in a release; a name that is no tool's is a class itself."""
    if name not in _CLASSES:
        return name
    held = _class_files(home / "libs")
    for candidate in _CLASSES[name]:
        if f"{candidate.replace('.', '/')}.class" in held:
            return candidate
    raise UsageError(f"Kafka {version} has no tool {name!r}")


@cache
def _class_files(libs: Path) -> frozenset[str]:
    names: set[str] = set()
    for jar in (*libs.glob("kafka_2.13-*.jar"), *libs.glob("kafka-tools-*.jar")):
        with zipfile.ZipFile(jar) as opened:
            names.update(opened.namelist())
    return frozenset(names)
