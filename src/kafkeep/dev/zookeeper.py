"""ZooKeeper, for releases of Kafka that need it."""

from __future__ import annotations

import socket
from pathlib import Path

from kafkeep.dev.downloads import kafka_home
from kafkeep.dev.process import HOST, Server, launch, wait_until
from kafkeep.dev.state import DevState
from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import require_java

ZOOKEEPER = "zookeeper"
SESSION_MS = 6000
_TICK_MS = 1000
_PATIENCE_S = 120.0


def launch_zookeeper(folder: Path, state: DevState) -> Server:
    """Start ZooKeeper's process; its data is under ``zookeeper/`` in the folder."""
    home, own = kafka_home(state.kafka_version), folder / ZOOKEEPER
    (own / "data").mkdir(parents=True, exist_ok=True)
    settings = own / "zookeeper.properties"
    lines = {
        "dataDir": str(own / "data"),
        "clientPort": str(state.ports[ZOOKEEPER]),
        "clientPortAddress": HOST,
        "tickTime": str(_TICK_MS),
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "dump",
    }
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    argv = [require_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    argv += [f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}"]
    argv += ["-cp", f"{home / 'libs'}/*"]
    argv += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)]
    return launch(ZOOKEEPER, argv, log=folder / "zookeeper.log", mark=settings, cwd=own)


def zookeeper_answers(port: int) -> bool:
    """Say whether it serves requests."""
    return "SessionTracker dump" in _sessions(port)


def wait_for_zookeeper(state: DevState, node_id: int) -> None:
    """Wait until a broker can register: its registration outlives a killed one for some seconds."""
    port, server = state.ports[ZOOKEEPER], state.servers.get(ZOOKEEPER)
    name = f"/brokers/ids/{node_id}"

    def is_free() -> bool:
        if server is not None and not server.alive:
            raise EnvironmentFault(f"{ZOOKEEPER} ended", hint=f"Its log is {server.log}.")
        answer = _sessions(port).split()
        return bool(answer) and name not in answer

    if not wait_until(is_free, timeout_s=_PATIENCE_S):
        raise EnvironmentFault(f"{ZOOKEEPER} was not ready within {_PATIENCE_S:.0f} s")


def _sessions(port: int) -> str:
    """Return ZooKeeper's list of sessions and their nodes; empty if it does not answer."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as link:
            link.sendall(b"dump")
            answer = link.makefile("rb").read()
    except OSError:
        return ""
    return answer.decode(errors="replace")
