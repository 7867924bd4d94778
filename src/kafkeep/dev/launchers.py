"""The servers of an environment: how each is started, and how it shows that it is ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkeep.dev.broker import launch_broker, live_brokers
from kafkeep.dev.process import Server
from kafkeep.dev.services import (
    ZOOKEEPER,
    bucket_ready,
    launch_registry,
    launch_s3,
    launch_zookeeper,
    registry_answers,
    s3_answers,
    zookeeper_answers,
)
from kafkeep.dev.state import DevState


@dataclass(frozen=True)
class ServerLauncher:
    """How one server of the environment is started, and how it shows that it is ready."""

    name: str
    launch: Callable[[], Server]
    ready: Callable[[], bool]


def server_launchers(folder: Path, state: DevState) -> list[ServerLauncher]:
    """Return one for each server, in the order in which they are started."""
    ports = state.ports
    services = [
        ServerLauncher(
            "s3",
            lambda: launch_s3(folder, state),
            lambda: s3_answers(ports["s3"]) and bucket_ready(ports["s3"]),
        )
    ]
    if state.registry:
        services.append(
            ServerLauncher(
                "registry",
                lambda: launch_registry(folder, state),
                lambda: registry_answers(ports["registry"]),
            )
        )
    if state.needs_zookeeper:
        services.append(
            ServerLauncher(
                ZOOKEEPER,
                lambda: launch_zookeeper(folder, state),
                lambda: zookeeper_answers(ports[ZOOKEEPER]),
            )
        )
    services.extend(broker_launcher(folder, state, node) for node in state.nodes)
    return services


def broker_launcher(folder: Path, state: DevState, node: int) -> ServerLauncher:
    """Say how one broker is started; it is ready when it sees the whole cluster."""
    port = state.ports[f"broker-{node}"]
    return ServerLauncher(
        f"broker-{node}",
        lambda: launch_broker(folder, state, node),
        lambda: live_brokers(port) >= state.brokers,
    )
