"""Do to single brokers what happens to them in real life."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

from kafkeep.dev.downloads import locked
from kafkeep.dev.environment import broker_launcher, mark_ready, stop_servers
from kafkeep.dev.process import Server, wait_ready
from kafkeep.dev.state import DevState, load_state, save_state
from kafkeep.errors import UsageError


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
