"""What changes something, done by the worker that leads: this one, or another that is asked."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping, Sequence

import urllib3

from kafkeep.connect.duty import Duty
from kafkeep.connect.forward import NO_LEADER, RemoteOperations
from kafkeep.connect.model import Connector, ConnectorStatus, Json, RestError, Target
from kafkeep.connect.operations import LocalOperations, Operations

_PATIENCE_S = 10.0
_PAUSE_S = 0.02


class LeaderOperations:
    """``Operations`` wherever the leader is; ``answered`` is called when another one answered."""

    def __init__(
        self, duty: Duty, local: LocalOperations, token: str, tls: ssl.SSLContext | None
    ) -> None:
        self._duty = duty
        self._local = local
        self._token = token
        self._pool = urllib3.PoolManager(maxsize=8, ssl_context=tls)

    def close(self) -> None:
        """Close connections to other workers."""
        self._pool.clear()

    def answered(self) -> None:
        """Hear that another worker has changed something."""

    def local_operations(self) -> Operations:
        """Return the operations of this worker; 409 when it does not lead."""
        if not self._duty.leads():
            raise RestError(409, NO_LEADER)
        return self._local

    def _operations(self) -> Operations:
        """Return those of the worker that leads; one that is just beginning is waited for."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._duty.leads():
            leader = self._duty.lease.leader()
            if leader is not None and not self._duty.lease.holds():
                return RemoteOperations(self._pool, leader.url, self._token, self.answered)
            if time.monotonic() > deadline:
                raise RestError(409, NO_LEADER)
            time.sleep(_PAUSE_S)
        return self._local

    def create(self, name: str, config: Mapping[str, str], initial: Target) -> Connector:
        """Define a connector."""
        return self._operations().create(name, config, initial)

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]:
        """Define or change it."""
        return self._operations().put_config(name, config)

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Connector:
        """Change some keys."""
        return self._operations().patch_config(name, changes)

    def delete(self, name: str) -> None:
        """Forget it."""
        self._operations().delete(name)

    def set_target(self, name: str, target: Target) -> None:
        """Pause, resume or stop it."""
        self._operations().set_target(name, target)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restart it, with its tasks or without, or only what failed."""
        return self._operations().restart(
            name, include_tasks=include_tasks, only_failed=only_failed
        )

    def restart_task(self, name: str, task: int) -> None:
        """Restart one task."""
        self._operations().restart_task(name, task)

    def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Move a stopped connector."""
        return self._operations().alter_offsets(name, offsets)

    def reset_offsets(self, name: str) -> str:
        """Move a stopped connector back to the beginning."""
        return self._operations().reset_offsets(name)

    def reset_topics(self, name: str) -> None:
        """Forget its topics."""
        self._operations().reset_topics(name)

    def set_logger_everywhere(self, name: str, level: str) -> None:
        """Set a logger of all workers."""
        self._operations().set_logger_everywhere(name, level)
