"""Kafka's own command-line tools, by the names of its shell scripts."""

from __future__ import annotations

from kafkeep.config.java import require_java
from kafkeep.dev.cache import kafka_home

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


def kafka_tool(name: str, *args: str) -> list[str]:
    """Return the command that runs one of Kafka's tools, by script name or class name.

    Its warnings go to stderr, so stdout is the tool's own output. Downloads Kafka if need be.
    """
    home = kafka_home()
    return [
        require_java(),
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}",
        "-cp",
        f"{home / 'libs'}/*",
        _CLASSES.get(name.removesuffix(".sh"), name),
        *args,
    ]
