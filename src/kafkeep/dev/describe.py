"""Describe a development environment: where everything is, and what of it runs."""

from __future__ import annotations

from pathlib import Path

from kafkeep.dev.launchers import server_launchers
from kafkeep.dev.process import HOST
from kafkeep.dev.secure import secure_status
from kafkeep.dev.services import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ZOOKEEPER, registry_url
from kafkeep.dev.state import (
    BrokerStatus,
    DevState,
    DevStatus,
    RegistryStatus,
    S3Status,
    ServerState,
    ZookeeperStatus,
    load_state,
)
from kafkeep.errors import UsageError


def status(folder: Path) -> DevStatus:
    """Say where everything is and what of it runs. UsageError when nothing was ever started."""
    folder = folder.absolute()
    state = load_state(folder)
    if state is None:
        raise UsageError(
            f"there is no development environment in {folder}",
            hint="Start one with kafkeep dev up, or name its folder with --folder.",
        )
    return describe(folder, state)


def describe(folder: Path, state: DevState) -> DevStatus:
    """Return the status of an environment whose state is known."""
    brokers = tuple(_broker_status(folder, state, node) for node in state.nodes)
    secure = secure_status(folder, state.ports, state.brokers) if state.secure else ()
    return DevStatus(
        folder=str(folder),
        kafka=state.kafka,
        bootstrap_servers=",".join(broker.address for broker in brokers),
        brokers=brokers,
        s3=_s3_status(folder, state),
        registry=_registry_status(folder, state) if state.registry else None,
        secure=secure,
        zookeeper=_zookeeper_status(folder, state) if state.needs_zookeeper else None,
    )


def _broker_status(folder: Path, state: DevState, node: int) -> BrokerStatus:
    name = f"broker-{node}"
    address = f"{HOST}:{state.ports[name]}"
    pid, now = _process(folder, state, name)
    return BrokerStatus(node, address, pid, _is_alive(now), str(folder / f"{name}.log"), now)


def _s3_status(folder: Path, state: DevState) -> S3Status:
    pid, now = _process(folder, state, "s3")
    return S3Status(
        kind=state.s3,
        endpoint=f"http://{HOST}:{state.ports['s3']}",
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        bucket=BUCKET,
        pid=pid,
        alive=_is_alive(now),
        log=str(folder / "s3.log"),
        state=now,
    )


def _registry_status(folder: Path, state: DevState) -> RegistryStatus:
    pid, now = _process(folder, state, "registry")
    url = registry_url(state.ports["registry"])
    return RegistryStatus(url, pid, _is_alive(now), str(folder / "registry.log"), now)


def _zookeeper_status(folder: Path, state: DevState) -> ZookeeperStatus:
    pid, now = _process(folder, state, ZOOKEEPER)
    address = f"{HOST}:{state.ports[ZOOKEEPER]}"
    return ZookeeperStatus(address, pid, _is_alive(now), str(folder / "zookeeper.log"), now)


def _is_alive(state: ServerState) -> bool:
    return state is not ServerState.DOWN


def _process(folder: Path, state: DevState, name: str) -> tuple[int | None, ServerState]:
    """Return a server's pid and what state it is in; one never seen ready is asked."""
    server = state.servers.get(name)
    if server is None:
        return None, ServerState.DOWN
    if not server.alive:
        return server.pid, ServerState.DOWN
    [service] = [one for one in server_launchers(folder, state) if one.name == name]
    is_ready = name in state.ready or service.ready()
    return server.pid, ServerState.UP if is_ready else ServerState.STARTING
