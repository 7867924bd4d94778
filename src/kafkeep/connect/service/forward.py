"""Send an operation to the worker that leads, and carry out what another worker sends.

A request is JSON: ``{"operation": …, "name": …}`` and the operation's other arguments under their
names. Both workers share a secret in the state store. The forwarding worker has checked the
caller's role. No request is forwarded twice: a worker that no longer leads answers 409.
"""

from __future__ import annotations

import inspect
import secrets
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, ParamSpec, TypeVar, get_type_hints

import orjson
import urllib3

from kafkeep.archive.document import as_dict, as_int, as_list, as_str, reading
from kafkeep.archive.object_store import ObjectStore
from kafkeep.connect.model import Connector, ConnectorStatus, Json, RestError, TargetState
from kafkeep.connect.runs.run import Run
from kafkeep.connect.runs.schedules import RunSchedule
from kafkeep.connect.service.journal import dump_state_document, load_state_document
from kafkeep.connect.service.leader import Leader
from kafkeep.connect.service.operations import OPERATIONS, Operation
from kafkeep.connect.service.state import (
    connector_from_json,
    connector_to_json,
    status_from_json,
    status_to_json,
)
from kafkeep.errors import KeyExistsError

P = ParamSpec("P")
R = TypeVar("R")

PATH = "/internal/forward"
HEADER = "x-kafkeep-worker"
LARGEST_BODY = 32 << 20
NO_LEADER = (
    "Cannot complete request momentarily: no worker leads at the moment, for example because one "
    "has died or has just started; try again in a few seconds"
)
_TOKEN = "secret/workers.json"
_TOKEN_HINT = (
    "Stop all workers of this state, delete this document and start them: they create a new one."
)
_TIMEOUT = urllib3.Timeout(connect=3.0, read=100.0)


def shared_token(store: ObjectStore) -> str:
    """Return the secret that all workers of a state share; the first worker creates it."""
    if all(row.key != _TOKEN for row in store.list(_TOKEN)):
        with suppress(KeyExistsError):
            store.put_new(_TOKEN, dump_state_document({"token": secrets.token_urlsafe(32)}))
    document = load_state_document(store, _TOKEN, ("token",), hint=_TOKEN_HINT)
    with reading(_TOKEN):
        return as_str(document["token"])


class JsonForm(NamedTuple):
    """How values of one type travel between workers."""

    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]
    """Raises KeyError, TypeError or ValueError for what is no such value."""


def _as_is(value: Any) -> Any:
    return value


def _as_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is neither true nor false")
    return value


def _as_config(value: Any) -> dict[str, str]:
    return {key: as_str(text) for key, text in as_dict(value).items()}


def _as_changes(value: Any) -> dict[str, str | None]:
    return {key: None if text is None else as_str(text) for key, text in as_dict(value).items()}


def _put_to_json(result: tuple[Connector, bool]) -> Json:
    return {"connector": connector_to_json(result[0]), "is_new": result[1]}


def _put_from_json(value: Any) -> tuple[Connector, bool]:
    return connector_from_json(value["connector"]), value["is_new"] is True


_FORMS: Mapping[Any, JsonForm] = {
    type(None): JsonForm(_as_is, lambda _: None),
    str: JsonForm(_as_is, as_str),
    int: JsonForm(_as_is, as_int),
    bool: JsonForm(_as_is, _as_bool),
    Mapping[str, str]: JsonForm(dict, _as_config),
    Mapping[str, str | None]: JsonForm(dict, _as_changes),
    Sequence[Json]: JsonForm(list, as_list),
    TargetState: JsonForm(lambda target: target.value, TargetState),
    Connector: JsonForm(connector_to_json, connector_from_json),
    ConnectorStatus: JsonForm(status_to_json, status_from_json),
    Run: JsonForm(Run.to_json, Run.from_json),
    RunSchedule: JsonForm(RunSchedule.to_json, RunSchedule.from_json),
    tuple[Connector, bool]: JsonForm(_put_to_json, _put_from_json),
}


class WireForm:
    """How one operation travels, read off its signature."""

    def __init__(self, operation: Operation[..., Any]) -> None:
        self._operation = operation
        self._signature = inspect.signature(operation.run)
        forms = {
            name: _FORMS[kind]
            for name, kind in get_type_hints(operation.run).items()
            if kind is not Leader
        }
        self.result = forms.pop("return")
        self._arguments = forms

    def request(self, *args: Any, **kwargs: Any) -> bytes:
        """Return the body that asks for the operation with these arguments."""
        given = dict(self._signature.bind(None, *args, **kwargs).arguments)
        arguments = {name: form.to_json(given[name]) for name, form in self._arguments.items()}
        return orjson.dumps({"operation": self._operation.name, **arguments})

    def run(self, leader: Leader, document: Json) -> Any:
        """Carry out a request and return the result as JSON; 400 for arguments it has not."""
        try:
            if document.keys() != self._arguments.keys():
                raise ValueError(self._operation.name)
            given = {name: form.from_json(document[name]) for name, form in self._arguments.items()}
        except (KeyError, TypeError, ValueError):
            raise _invalid_request() from None
        return self.result.to_json(self._operation.run(leader, **given))


_WIRE_FORMS = {name: WireForm(one) for name, one in OPERATIONS.items()}


def carry_out(leader: Leader, body: bytes) -> Any:
    """Run the operation that another worker asks for and return the result as JSON."""
    try:
        document = as_dict(orjson.loads(body))
        form = _WIRE_FORMS[as_str(document.pop("operation"))]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise _invalid_request() from None
    return form.run(leader, document)


def _invalid_request() -> RestError:
    return RestError(400, "The body is not a request of a worker")


class Forwarder:
    """Sends operations to the worker that leads."""

    def __init__(self, token: str, tls: ssl.SSLContext | None) -> None:
        self._token = token
        self._pool = urllib3.PoolManager(maxsize=8, ssl_context=tls)

    def close(self) -> None:
        """Close the connections to other workers."""
        self._pool.clear()

    def send(self, url: str, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation on the worker at ``url`` and return its result; RestError as there."""
        form = _WIRE_FORMS[operation.name]
        status, body = self._post(url.rstrip("/") + PATH, form.request(*args, **kwargs))
        try:
            document = as_dict(orjson.loads(body))
            if status == 200:
                result: R = form.result.from_json(document["result"])
                return result
            raise RestError(int(document["error_code"]), as_str(document["message"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise RestError(
                500, f"The worker that leads answered with status {status} and an invalid body"
            ) from None

    def _post(self, url: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", HEADER: self._token}
        try:
            answer = self._pool.request(
                "POST",
                url,
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
                f"check the listener's trust stores ({error.args[0]})",
            ) from error
        except urllib3.exceptions.HTTPError as error:
            raise RestError(
                500,
                f"The worker that leads gave no answer ({type(error).__name__}); check whether "
                "the request was carried out before you send it again",
            ) from error
        return answer.status, answer.data
