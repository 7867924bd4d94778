"""Start, stop and describe a development environment; stop, kill and pause its brokers."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkeep.dev.broker import keep_class_archive, launch_broker, live_brokers
from kafkeep.dev.downloads import Progress, kafka_home, locked, registry_home
from kafkeep.dev.plan import plan_state
from kafkeep.dev.process import HOST, Ports, Server, wait_ready
from kafkeep.dev.secure import make_secrets, secure_status
from kafkeep.dev.services import (
    ACCESS_KEY,
    BUCKET,
    REGION,
    SECRET_KEY,
    bucket_ready,
    launch_registry,
    launch_s3,
    registry_answers,
    registry_url,
    remove_sockets,
    s3_answers,
    s3_command,
)
from kafkeep.dev.state import (
    STATE_FILE,
    BrokerStatus,
    DevOptions,
    DevState,
    DevStatus,
    RegistryStatus,
    S3Status,
    ServerState,
    load_state,
    save_state,
)
from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.spark import require_java

_BROKER_STOP_S = 30.0
_OTHER_STOP_S = 1.5  # SeaweedFS never ends by itself, and loses nothing when killed


@dataclass(frozen=True)
class ServerLauncher:
    """How one server of the environment is started, and how it shows that it is ready."""

    name: str
    launch: Callable[[], Server]
    ready: Callable[[], bool]


def start(
    options: DevOptions,
    *,
    progress: Progress = lambda _: None,
    timeout_s: float | None = None,
) -> DevStatus:
    """Bring everything up that is not up; every server asked for is ready when this returns.

    Waits as long as their processes live. When ``timeout_s`` seconds are over first it raises
    EnvironmentFault, and the servers continue to start. Data and ports of an earlier start in the
    same folder are kept. When a server ends, those started by this call are stopped again.
    """
    folder = options.folder.absolute()
    require_java()
    s3_command(options.s3)
    kafka_home(progress)
    if options.registry:
        registry_home(progress)
    _make_folder(folder)
    with Ports() as ports:
        started: list[Server] = []
        try:
            with locked(folder / "lock"):
                state = plan_state(options, load_state(folder), ports)
                save_state(folder, state)
                if state.secure:
                    make_secrets(folder)
                awaited = _launch_missing(folder, state, options, started, progress)
            _wait_for(folder, state, awaited, progress, timeout_s)
        except _StillStartingError:
            raise
        except BaseException:
            _undo(folder, started)
            raise
    return status(folder)


class _StillStartingError(EnvironmentFault):
    """Servers are alive and not ready, and nobody waits any longer."""


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
        stopped = dataclasses.replace(state, servers={}, ready=[])
        # A registry comes back when it is asked for again; its data and its port are kept.
        save_state(folder, dataclasses.replace(stopped, registry=False))
    seen = _describe(folder, stopped)
    if purge:
        _remove(folder, state)
    return seen


def _remove(folder: Path, state: DevState) -> None:
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
    return _describe(folder, state)


def _describe(folder: Path, state: DevState) -> DevStatus:
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
            server.stop(timeout_s=_OTHER_STOP_S)
    for server in brokers:
        ended = server.stop(timeout_s=_BROKER_STOP_S)
        keep_class_archive(server.mark, whole=ran and ended)


def _launch_missing(
    folder: Path, state: DevState, options: DevOptions, started: list[Server], progress: Progress
) -> list[ServerLauncher]:
    """Start what does not run, all at once; return what has not been ready yet.

    A registry that runs and was not asked for is neither started nor waited for.
    """
    asked = [s for s in _launchers(folder, state) if s.name != "registry" or options.registry]
    for service in asked:
        if service.name not in state.servers:
            progress(f"starting {service.name}")
            started.append(service.launch())
            state.servers[service.name] = started[-1]
            save_state(folder, state)
    return [service for service in asked if service.name not in state.ready]


def _wait_for(
    folder: Path,
    state: DevState,
    services: list[ServerLauncher],
    progress: Progress,
    timeout_s: float | None,
) -> None:
    """Wait for one after the other; the folder is not locked, so that others can stop them."""
    began = time.monotonic()
    for service in services:
        server = state.servers[service.name]
        left_s = None if timeout_s is None else timeout_s - (time.monotonic() - began)
        on_wait = _tell_waiting(server, progress)
        if not wait_ready(server, service.ready, timeout_s=left_s, on_wait=on_wait):
            raise _still_starting(status(folder), service.name, timeout_s)
        mark_ready(folder, server)
        progress(f"{service.name} is ready")


def _tell_waiting(server: Server, progress: Progress) -> Callable[[float], None]:
    return lambda waited_s: progress(
        f"{server.name} is still starting after {waited_s:.0f} s; its log is {server.log}"
    )


def _still_starting(now: DevStatus, name: str, timeout_s: float | None) -> EnvironmentFault:
    states = ", ".join(f"{server} is {state}" for server, state in now.states.items())
    return _StillStartingError(
        f"{name} was not ready within {timeout_s:g} s: {states}",
        hint="The servers continue to start. Wait for them with kafkeep dev up, check them with"
        f" kafkeep dev status, or stop them with kafkeep dev down; their logs are in {now.folder}.",
    )


def mark_ready(folder: Path, server: Server) -> None:
    """Remember that a server has been ready, unless it was replaced meanwhile."""
    with locked(folder / "lock"):
        state = load_state(folder)
        if state is not None and state.servers.get(server.name) == server:
            state.ready[:] = sorted({*state.ready, server.name})
            save_state(folder, state)


def _undo(folder: Path, started: list[Server]) -> None:
    """Stop the servers that this process started, and forget them."""
    if not started:
        return
    with locked(folder / "lock"):
        stop_servers(started, ran=False)
        state = load_state(folder)
        if state is not None:
            for server in started:
                if state.servers.get(server.name) == server:
                    del state.servers[server.name]
            save_state(folder, state)


def _launchers(folder: Path, state: DevState) -> list[ServerLauncher]:
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
    services.extend(broker_launcher(folder, state, node) for node in range(1, state.brokers + 1))
    return services


def broker_launcher(folder: Path, state: DevState, node: int) -> ServerLauncher:
    """Say how one broker is started; it is ready when it sees the whole cluster."""
    port = state.ports[f"broker-{node}"]
    return ServerLauncher(
        f"broker-{node}",
        lambda: launch_broker(folder, state, node),
        lambda: live_brokers(port) >= state.brokers,
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


def _is_alive(state: ServerState) -> bool:
    return state is not ServerState.DOWN


def _process(folder: Path, state: DevState, name: str) -> tuple[int | None, ServerState]:
    """Return a server's pid and what state it is in; one never seen ready is asked."""
    server = state.servers.get(name)
    if server is None:
        return None, ServerState.DOWN
    if not server.alive:
        return server.pid, ServerState.DOWN
    [service] = [one for one in _launchers(folder, state) if one.name == name]
    is_ready = name in state.ready or service.ready()
    return server.pid, ServerState.UP if is_ready else ServerState.STARTING


def stop_broker(folder: Path, node_id: int) -> None:
    """Stop one broker in order, as for maintenance; returns when it is gone."""
    stop_servers([_server(folder, node_id)])


def kill_broker(folder: Path, node_id: int) -> None:
    """End one broker with SIGKILL; returns when it is gone."""
    _server(folder, node_id).kill()


def pause_broker(folder: Path, node_id: int) -> None:
    """Make one broker hang (SIGSTOP): its connections stay open and nothing answers."""
    _server(folder, node_id).pause()


def resume_broker(folder: Path, node_id: int) -> None:
    """Let a paused broker go on."""
    _server(folder, node_id).signal(signal.SIGCONT)


def start_broker(folder: Path, node_id: int) -> None:
    """Start a stopped or killed broker again, on its port and with its data; waits until ready.

    Ready means that it answers and sees as many brokers as have a living process.
    """
    folder = folder.absolute()
    with locked(folder / "lock"):
        state = _state(folder, node_id)
        name = f"broker-{node_id}"
        if name in state.servers and state.servers[name].alive:
            return
        server = broker_launcher(folder, state, node_id).launch()
        state.servers[name] = server
        state.ready[:] = [one for one in state.ready if one != name]
        save_state(folder, state)
    living = sum(one.alive for key, one in state.servers.items() if key.startswith("broker-"))
    expected = dataclasses.replace(state, brokers=living)
    wait_ready(server, broker_launcher(folder, expected, node_id).ready)
    mark_ready(folder, server)


def _server(folder: Path, node_id: int) -> Server:
    state = _state(folder.absolute(), node_id)
    server = state.servers.get(f"broker-{node_id}")
    if server is None:
        raise UsageError(f"broker {node_id} in {folder} was not started")
    return server


def _state(folder: Path, node_id: int) -> DevState:
    state = load_state(folder)
    if state is None or not 1 <= node_id <= state.brokers:
        raise UsageError(f"there is no broker {node_id} in {folder}")
    return state
