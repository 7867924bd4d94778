"""Start, stop and look at a whole development environment."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkeep.config.java import require_java
from kafkeep.dev.broker import keep_class_archive, launch_broker, live_brokers
from kafkeep.dev.cache import Progress, kafka_home, locked, registry_home
from kafkeep.dev.plan import plan_state
from kafkeep.dev.ports import HOST, Ports
from kafkeep.dev.process import Server, wait_ready
from kafkeep.dev.registry import launch_registry, registry_answers, registry_url
from kafkeep.dev.s3 import (
    ACCESS_KEY,
    BUCKET,
    REGION,
    SECRET_KEY,
    bucket_ready,
    launch_s3,
    remove_sockets,
    s3_answers,
    s3_command,
)
from kafkeep.dev.secure import make_secrets, secure_status
from kafkeep.dev.state import (
    STATE_FILE,
    BrokerStatus,
    DevOptions,
    DevStatus,
    RegistryStatus,
    S3Status,
    State,
    load_state,
    save_state,
)
from kafkeep.errors import UsageError

READY_S = 90.0
_BROKER_PATIENCE_S = 30.0
_OTHER_PATIENCE_S = 1.5  # SeaweedFS never ends by itself, and loses nothing when killed


@dataclass(frozen=True)
class Service:
    """How one server of the environment is started, and how it shows that it is ready."""

    name: str
    launch: Callable[[], Server]
    ready: Callable[[], bool]


def start(options: DevOptions, *, progress: Progress = lambda _: None) -> DevStatus:
    """Bring everything up that is not up; every server is ready when this returns.

    Data and ports of an earlier start in the same folder are kept. When a server does not come
    up, those started by this call are stopped again.
    """
    folder = options.folder.absolute()
    require_java()
    s3_command(options.s3)
    kafka_home(progress)
    if options.registry:
        registry_home(progress)
    _make_folder(folder)
    with locked(folder / "lock"), Ports() as ports:
        state = plan_state(options, load_state(folder), ports)
        save_state(folder, state)
        if state.secure:
            make_secrets(folder)
        _bring_up(folder, state, progress)
    return status(folder)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make folder {folder}: {error.strerror}",
            hint="Name another one with --folder.",
        ) from error


def stop(folder: Path, *, purge: bool = False) -> DevStatus | None:
    """Stop every server; data stays for the next start, unless ``purge`` removes it.

    Returns what was there, None when nothing was. A pid that is not ours any more is left alone.
    """
    folder = folder.absolute()
    if load_state(folder) is None:
        return None
    with locked(folder / "lock"):
        state = load_state(folder)
        if state is None:
            return None
        stop_servers(list(state.servers.values()))
        if state.s3 == "seaweedfs":
            remove_sockets(state.ports)
        state = dataclasses.replace(state, servers={})
        save_state(folder, state)
    seen = status(folder)
    if purge:
        _remove(folder, state)
    return seen


def _remove(folder: Path, state: State) -> None:
    """Remove what an environment made, and the folder only if nothing else is in it."""
    brokers = [f"broker-{node}" for node in range(1, state.brokers + 1)]
    for name in (*brokers, "s3", "registry", "secrets"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / f"{name}.log").unlink(missing_ok=True)
    for name in ("s3.json", "lock", STATE_FILE):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def status(folder: Path) -> DevStatus:
    """Say where everything is and what of it runs. UsageError when nothing was ever started."""
    folder = folder.absolute()
    state = load_state(folder)
    if state is None:
        raise UsageError(
            f"there is no development environment in {folder}",
            hint="Start one with kafkeep dev up, or name its folder with --folder.",
        )
    brokers = tuple(_broker_status(folder, state, node) for node in range(1, state.brokers + 1))
    secure = secure_status(folder, state.ports, state.brokers) if state.secure else ()
    return DevStatus(
        folder=str(folder),
        bootstrap_servers=",".join(broker.address for broker in brokers),
        brokers=brokers,
        s3=_s3_status(folder, state),
        registry=_registry_status(folder, state) if state.registry else None,
        secure=secure,
    )


def stop_servers(servers: list[Server], *, ran: bool = True) -> None:
    """Stop servers, brokers with the time they need to close their logs.

    ``ran`` is False for those that never got ready.
    """
    brokers = [server for server in servers if server.name.startswith("broker-")]
    for server in brokers:
        server.terminate()
    for server in servers:
        if server not in brokers:
            server.stop(patience_s=_OTHER_PATIENCE_S)
    for server in brokers:
        ended = server.stop(patience_s=_BROKER_PATIENCE_S)
        keep_class_archive(server.mark, whole=ran and ended)


def _bring_up(folder: Path, state: State, progress: Progress) -> None:
    """Start what does not run, all at once, then wait for each; undo it all on a failure."""
    missing = [one for one in _services(folder, state) if one.name not in state.servers]
    started: list[Server] = []
    try:
        for service in missing:
            progress(f"starting {service.name}")
            started.append(service.launch())
            state.servers[service.name] = started[-1]
            save_state(folder, state)
        for service, server in zip(missing, started, strict=True):
            wait_ready(server, service.ready, timeout_s=READY_S)
            progress(f"{service.name} is ready")
    except BaseException:
        stop_servers(started, ran=False)
        for server in started:
            state.servers.pop(server.name, None)
        save_state(folder, state)
        raise


def _services(folder: Path, state: State) -> list[Service]:
    ports = state.ports
    services = [
        Service(
            "s3",
            lambda: launch_s3(folder, state),
            lambda: s3_answers(ports["s3"]) and bucket_ready(ports["s3"]),
        )
    ]
    if state.registry:
        services.append(
            Service(
                "registry",
                lambda: launch_registry(folder, state),
                lambda: registry_answers(ports["registry"]),
            )
        )
    services.extend(broker_service(folder, state, node) for node in range(1, state.brokers + 1))
    return services


def broker_service(folder: Path, state: State, node: int) -> Service:
    """Say how one broker is started; it is ready when it sees the whole cluster."""
    port = state.ports[f"broker-{node}"]
    return Service(
        f"broker-{node}",
        lambda: launch_broker(folder, state, node),
        lambda: live_brokers(port) >= state.brokers,
    )


def _broker_status(folder: Path, state: State, node: int) -> BrokerStatus:
    name = f"broker-{node}"
    address = f"{HOST}:{state.ports[name]}"
    pid, alive = _process(state, name)
    return BrokerStatus(node, address, pid, alive, str(folder / f"{name}.log"))


def _s3_status(folder: Path, state: State) -> S3Status:
    pid, alive = _process(state, "s3")
    return S3Status(
        kind=state.s3,
        endpoint=f"http://{HOST}:{state.ports['s3']}",
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        bucket=BUCKET,
        pid=pid,
        alive=alive,
        log=str(folder / "s3.log"),
    )


def _registry_status(folder: Path, state: State) -> RegistryStatus:
    pid, alive = _process(state, "registry")
    url = registry_url(state.ports["registry"])
    return RegistryStatus(url, pid, alive, str(folder / "registry.log"))


def _process(state: State, name: str) -> tuple[int | None, bool]:
    server = state.servers.get(name)
    return (server.pid, server.alive) if server else (None, False)
