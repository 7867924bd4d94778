"""The state of a development environment: its options and its servers."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kafkeep.dev.kafka_version import DEFAULT_KAFKA, KafkaVersion
from kafkeep.dev.process import Server
from kafkeep.errors import UsageError

STATE_VERSION = 1
STATE_FILE = "state.json"


@dataclass(frozen=True)
class DevOptions:
    """What to start. Ports left out are chosen free, and kept over ``stop`` and ``start``."""

    folder: Path
    kafka: str | None = None
    """The release of Kafka; None is the one that the folder holds, else the default."""
    brokers: int = 1
    registry: bool = False
    s3: str = "seaweedfs"
    secure: bool = False
    kafka_port: int | None = None
    s3_port: int | None = None
    registry_port: int | None = None
    broker_properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kafka is not None:
            KafkaVersion.parse(self.kafka)
        if not 1 <= self.brokers <= 9:
            raise UsageError(f"{self.brokers} brokers were requested; 1 to 9 are possible")
        if self.s3 not in ("seaweedfs", "minio"):
            raise UsageError(f"unknown S3 server {self.s3}", hint="Use seaweedfs or minio.")


class ServerState(StrEnum):
    """The state of a server: ready, starting, or down."""

    UP = "up"
    STARTING = "starting"
    DOWN = "down"


@dataclass(frozen=True)
class BrokerStatus:
    """One broker: ``alive`` means its process is there (a paused one is)."""

    node_id: int
    address: str
    pid: int | None
    alive: bool
    log: str
    state: ServerState


@dataclass(frozen=True)
class S3Status:
    """The S3 server and the keys that open it; path-style addresses, no TLS."""

    kind: str
    endpoint: str
    access_key: str
    secret_key: str
    region: str
    bucket: str
    pid: int | None
    alive: bool
    log: str
    state: ServerState

    @property
    def environment(self) -> dict[str, str]:
        """The standard variables that make any S3 client use this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
        }


@dataclass(frozen=True)
class ZookeeperStatus:
    """The ZooKeeper of releases that need one."""

    address: str
    pid: int | None
    alive: bool
    log: str
    state: ServerState


@dataclass(frozen=True)
class RegistryStatus:
    """The schema registry; ``url`` speaks Confluent's API."""

    url: str
    pid: int | None
    alive: bool
    log: str
    state: ServerState


@dataclass(frozen=True)
class SecureStatus:
    """One secured way in: where, and the client.properties that opens it."""

    name: str
    bootstrap_servers: str
    properties_file: str


@dataclass(frozen=True)
class DevStatus:
    """A development environment as it is now."""

    folder: str
    kafka: str
    bootstrap_servers: str
    brokers: tuple[BrokerStatus, ...]
    s3: S3Status
    registry: RegistryStatus | None
    secure: tuple[SecureStatus, ...]
    zookeeper: ZookeeperStatus | None = None

    @property
    def states(self) -> dict[str, ServerState]:
        """The state of each server, by its name."""
        found = {"s3": self.s3.state}
        if self.zookeeper is not None:
            found["zookeeper"] = self.zookeeper.state
        if self.registry is not None:
            found["registry"] = self.registry.state
        return found | {f"broker-{one.node_id}": one.state for one in self.brokers}

    @property
    def alive(self) -> bool:
        """Whether the process of every server runs."""
        return ServerState.DOWN not in self.states.values()

    @property
    def is_up(self) -> bool:
        """Whether every server runs and has been ready."""
        return set(self.states.values()) == {ServerState.UP}

    def secured(self, name: str) -> SecureStatus:
        """Return the secured way in called ``name`` (scram, plain, mtls, tls, ...)."""
        return next(one for one in self.secure if one.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return the whole status, keys of this throw-away S3 server included."""
        return {**dataclasses.asdict(self), "alive": self.alive}


@dataclass(frozen=True)
class DevState:
    """What is stored in the folder: choices that must hold over restarts, and pids."""

    brokers: int
    s3: str
    registry: bool
    secure: bool
    cluster_id: str
    ports: dict[str, int]
    kafka: str = DEFAULT_KAFKA
    broker_properties: dict[str, str] = field(default_factory=dict)
    servers: dict[str, Server] = field(default_factory=dict)
    ready: list[str] = field(default_factory=list)
    """The servers that have been ready since they were started."""

    @property
    def kafka_version(self) -> KafkaVersion:
        """The release of its brokers."""
        return KafkaVersion.parse(self.kafka)

    @property
    def nodes(self) -> range:
        """The ids of its brokers."""
        return range(1, self.brokers + 1)

    @property
    def needs_zookeeper(self) -> bool:
        """Whether its brokers need ZooKeeper."""
        return self.kafka_version.needs_zookeeper(secure=self.secure)


def load_state(folder: Path) -> DevState | None:
    """Read the stored state; None where no environment was ever made."""
    try:
        document = json.loads((folder / STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{folder / STATE_FILE} is not readable: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{folder / STATE_FILE} is not readable: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{folder / STATE_FILE} is not readable: it is not a JSON object")
    if document.pop("version", None) != STATE_VERSION:
        raise UsageError(
            f"{folder} was made by another version of kafkeep",
            hint="Stop it with that version, or use another folder.",
        )
    servers = {name: Server(**one) for name, one in document.pop("servers").items()}
    return DevState(**document, servers=servers)


def save_state(folder: Path, state: DevState) -> None:
    """Store the state, whole or not at all."""
    document = {"version": STATE_VERSION, **dataclasses.asdict(state)}
    scratch = folder / f"{STATE_FILE}.new"
    scratch.write_text(json.dumps(document, indent=2) + "\n")
    os.replace(scratch, folder / STATE_FILE)
