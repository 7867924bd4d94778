"""Where a worker takes what another one forwards: beside the REST API, behind the shared secret.

A worker that does not lead sends what changes connectors to the one that does.

Both know a secret that lies in the state store, and the caller was let in by the worker it asked.
Nothing is sent on a second time: a worker that no longer leads answers 409.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
import urllib3

from kafkeep.archive.document import as_dict, as_str, reading
from kafkeep.archive.object_store import ObjectStore
from kafkeep.connect.model import Connector, ConnectorStatus, Json, RestError, TargetState
from kafkeep.connect.service.journal import load_state_document, seal_state
from kafkeep.connect.service.operations import Operations
from kafkeep.connect.service.state import (
    connector_from_json,
    connector_to_json,
    status_from_json,
    status_to_json,
)
from kafkeep.errors import KeyExistsError

PATH = "/internal/forward"
HEADER = "x-kafkeep-worker"
LARGEST_BODY = 32 << 20
NO_LEADER = (
    "Cannot complete request momentarily: no worker leads right now, as when one has died or has "
    "just started; try again in some seconds"
)
_TOKEN = "secret/workers.json"
_TOKEN_HINT = "Stop all workers of this state, delete it and start them: they make a new one."
_TIMEOUT = urllib3.Timeout(connect=3.0, read=100.0)


def shared_token(store: ObjectStore) -> str:
    """Return the secret all workers of a state share; the first one makes it."""
    if all(row.key != _TOKEN for row in store.list(_TOKEN)):
        with suppress(KeyExistsError):
            store.put_new(_TOKEN, seal_state({"token": secrets.token_urlsafe(32)}))
    document = load_state_document(store, _TOKEN, ("token",), hint=_TOKEN_HINT)
    with reading(_TOKEN):
        return as_str(document["token"])


class RemoteOperations:
    """Operations of the worker at ``url``; ``after`` is called when one was answered."""

    def __init__(
        self, pool: urllib3.PoolManager, url: str, token: str, after: Callable[[], None]
    ) -> None:
        self._pool = pool
        self._after = after
        self._url = url.rstrip("/") + PATH
        self._token = token

    def create(self, name: str, config: Mapping[str, str], initial: TargetState) -> Connector:
        """Define a connector there; so for all of them."""
        return connector_from_json(self._call("create", name, config=config, target=initial.value))

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]:
        """Define or change it."""
        answer = self._call("put_config", name, config=config)
        return connector_from_json(answer["connector"]), answer["is_new"] is True

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Connector:
        """Change some keys."""
        return connector_from_json(self._call("patch_config", name, changes=changes))

    def delete(self, name: str) -> None:
        """Forget it."""
        self._call("delete", name)

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop it."""
        self._call("set_target", name, target=target.value)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restart it."""
        return status_from_json(
            self._call("restart", name, include_tasks=include_tasks, only_failed=only_failed)
        )

    def restart_task(self, name: str, task: int) -> None:
        """Restart one task."""
        self._call("restart_task", name, task=task)

    def reset_topics(self, name: str) -> None:
        """Forget its topics."""
        self._call("reset_topics", name)

    def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Move it."""
        return str(self._call("alter_offsets", name, offsets=list(offsets)))

    def reset_offsets(self, name: str) -> str:
        """Move it back."""
        return str(self._call("reset_offsets", name))

    def set_logger_everywhere(self, name: str, level: str) -> None:
        """Set a logger of all workers."""
        self._call("set_logger_everywhere", name, level=level)

    def _call(self, operation: str, name: str, **arguments: Any) -> Any:
        body = orjson.dumps({"operation": operation, "name": name, **arguments})
        headers = {"Content-Type": "application/json", HEADER: self._token}
        try:
            answer = self._pool.request(
                "POST",
                self._url,
                body=body,
                headers=headers,
                timeout=_TIMEOUT,
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError):
            raise RestError(409, NO_LEADER) from None
        except urllib3.exceptions.SSLError as error:
            raise RestError(
                500,
                "This worker and the one that leads do not trust each other's certificates: "
                f"look at the listener's trust stores ({error.args[0]})",
            ) from error
        except urllib3.exceptions.HTTPError as error:
            raise RestError(
                500,
                f"The worker that leads gave no answer ({type(error).__name__}); look whether "
                "the request was carried out before you send it again",
            ) from error
        self._after()
        return _answered(answer.status, answer.data)


def _answered(status: int, body: bytes) -> Any:
    try:
        document = as_dict(orjson.loads(body))
        if status == 200:
            return document["result"]
        raise RestError(int(document["error_code"]), as_str(document["message"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise RestError(
            500, f"The worker that leads answered with status {status} and no sense"
        ) from None


def carry_out(operations: Operations, body: bytes) -> Any:
    """Do what another worker asks for and return what to answer; RestError 400 for nonsense."""
    try:
        asked = as_dict(orjson.loads(body))
        operation, name = as_str(asked.pop("operation")), as_str(asked.pop("name"))
        if operation not in _CARRIED_OUT:
            raise ValueError(operation)
        arguments = {**asked}
        if "target" in arguments:
            arguments["target"] = TargetState(arguments["target"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise RestError(400, "This is nothing a worker asks another for") from None
    return _CARRIED_OUT[operation](operations, name, arguments)


def _put(operations: Operations, name: str, config: Mapping[str, str]) -> Any:
    connector, is_new = operations.put_config(name, config)
    return {"connector": connector_to_json(connector), "is_new": is_new}


_CARRIED_OUT: Mapping[str, Any] = {
    "create": lambda o, n, a: connector_to_json(o.create(n, a["config"], a["target"])),
    "put_config": lambda o, n, a: _put(o, n, a["config"]),
    "patch_config": lambda o, n, a: connector_to_json(o.patch_config(n, a["changes"])),
    "delete": lambda o, n, a: o.delete(n),
    "set_target": lambda o, n, a: o.set_target(n, a["target"]),
    "restart": lambda o, n, a: status_to_json(o.restart(n, **a)),
    "restart_task": lambda o, n, a: o.restart_task(n, a["task"]),
    "reset_topics": lambda o, n, a: o.reset_topics(n),
    "alter_offsets": lambda o, n, a: o.alter_offsets(n, a["offsets"]),
    "reset_offsets": lambda o, n, a: o.reset_offsets(n),
    "set_logger_everywhere": lambda o, n, a: o.set_logger_everywhere(n, as_str(a["level"])),
}
