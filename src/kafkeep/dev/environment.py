"""Start and stop a development environment; stop, kill and pause its brokers."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from kafkeep.dev.broker import add_scram_users
from kafkeep.dev.class_sharing import keep_class_archive
from kafkeep.dev.describe import describe, status
from kafkeep.dev.downloads import Progress, kafka_home, locked, registry_home
from kafkeep.dev.kafka_version import DEFAULT_KAFKA, KafkaVersion
from kafkeep.dev.launchers import ServerLauncher, broker_launcher, server_launchers
from kafkeep.dev.plan import plan_state
from kafkeep.dev.process import HOST, Ports, Server, wait_ready
from kafkeep.dev.secure import make_secrets
from kafkeep.dev.services import ZOOKEEPER, remove_sockets, s3_command
from kafkeep.dev.state import (
    STATE_FILE,
    DevOptions,
    DevState,
    DevStatus,
    load_state,
    save_state,
)
from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.options.spark import require_java

_BROKER_STOP_S = 30.0
_OTHER_STOP_S = 1.5  # SeaweedFS never ends by itself, and loses nothing when killed


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
    s3_command(options.s3, progress)
    kafka_home(_requested_kafka(options), progress)
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
            _add_users(folder, state)
        except _StillStartingError:
            raise
        except BaseException:
            _undo(folder, started)
            raise
    return status(folder)


def _requested_kafka(options: DevOptions) -> KafkaVersion:
    stored = load_state(options.folder) if options.folder.is_dir() else None
    held = DEFAULT_KAFKA if stored is None else stored.kafka
    return KafkaVersion.parse(options.kafka or held)


def _add_users(folder: Path, state: DevState) -> None:
    """Add the users of the secured listeners once, where formatting a log directory did not."""
    done = folder / "secrets" / "scram-users"
    if state.secure and state.needs_zookeeper and not done.exists():
        add_scram_users(state, f"{HOST}:{state.ports['broker-1']}")
        done.touch()


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
        stop_servers(list(state.servers.values()), state.kafka_version)
        if state.s3 == "seaweedfs":
            remove_sockets(state.ports)
        stopped = dataclasses.replace(state, servers={}, ready=[])
        # A registry comes back when it is asked for again; its data and its port are kept.
        save_state(folder, dataclasses.replace(stopped, registry=False))
    seen = describe(folder, stopped)
    if purge:
        _remove(folder, state)
    return seen


def _remove(folder: Path, state: DevState) -> None:
    """Remove what an environment made, and the folder only if nothing else is in it."""
    brokers = [f"broker-{node}" for node in state.nodes]
    for name in (*brokers, ZOOKEEPER, "s3", "registry", "secrets"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / f"{name}.log").unlink(missing_ok=True)
    for name in ("s3.json", "lock", STATE_FILE):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def stop_servers(servers: list[Server], version: KafkaVersion, *, ran: bool = True) -> None:
    """Stop servers, brokers with the time they need to close their logs; ZooKeeper after them.

    ``ran`` is False for those that never got ready.
    """
    brokers = [server for server in servers if server.name.startswith("broker-")]
    for server in brokers:
        server.terminate()
    for server in servers:
        if server not in brokers and server.name != ZOOKEEPER:
            server.stop(timeout_s=_OTHER_STOP_S)
    for server in brokers:
        ended = server.stop(timeout_s=_BROKER_STOP_S)
        keep_class_archive(version, server.mark, whole=ran and ended)
    for server in servers:
        if server.name == ZOOKEEPER:
            server.stop(timeout_s=_OTHER_STOP_S)


def _launch_missing(
    folder: Path, state: DevState, options: DevOptions, started: list[Server], progress: Progress
) -> list[ServerLauncher]:
    """Start what does not run, all at once; return what has not been ready yet.

    A registry that runs and was not asked for is neither started nor waited for.
    """
    asked = [s for s in server_launchers(folder, state) if s.name != "registry" or options.registry]
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
        state = load_state(folder)
        if state is not None:
            stop_servers(started, state.kafka_version, ran=False)
            for server in started:
                if state.servers.get(server.name) == server:
                    del state.servers[server.name]
            save_state(folder, state)


def stop_broker(folder: Path, node_id: int) -> None:
    """Stop one broker in order, as for maintenance; returns when it is gone."""
    version = _state(folder.absolute(), node_id).kafka_version
    stop_servers([_server(folder, node_id)], version)


def kill_broker(folder: Path, node_id: int) -> None:
    """End one broker with SIGKILL; returns when it is gone."""
    _server(folder, node_id).kill()


def pause_broker(folder: Path, node_id: int) -> None:
    """Make one broker hang (SIGSTOP): its connections stay open and nothing answers."""
    _server(folder, node_id).pause()


def resume_broker(folder: Path, node_id: int) -> None:
    """Let a paused broker continue."""
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
