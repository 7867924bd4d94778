"""Calls about connectors. The HTTP statuses are those of a real Connect worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Concatenate, ParamSpec
from urllib.parse import quote

from starlette.responses import Response

from kafkeep.connect.model import Connector, Json, RestError, TargetState, invalid_config
from kafkeep.connect.rest.answers import (
    connector_json,
    empty_answer,
    json_answer,
    status_json,
    task_status_json,
    tasks_json,
)
from kafkeep.connect.rest.call import (
    Call,
    Responder,
    as_config,
    check_name,
    parse_config,
    parse_creation,
    parse_object,
    without_nulls,
)
from kafkeep.connect.service import operations
from kafkeep.connect.service.operations import Operation
from kafkeep.connect.service.service import ConnectService

P = ParamSpec("P")


def list_connectors(service: ConnectService, call: Call) -> Response:
    """List names, or with ``expand`` the details asked for; unknown values are ignored."""
    wanted = call.query.get("expand")
    if wanted is None:
        return json_answer(service.names())
    found: Json = {}
    for name in service.names():
        try:
            found[name] = _expanded(service, call, name, wanted)
        except RestError as error:
            if error.status != 404:  # deleted meanwhile
                raise
    return json_answer(found)


def _expanded(service: ConnectService, call: Call, name: str, wanted: Any) -> Json:
    parts: Json = {}
    if "status" in wanted:
        parts["status"] = status_json(service.status(name))
    if "info" in wanted:
        parts["info"] = _info(service, call, service.connector(name))
    return parts


def _info(service: ConnectService, call: Call, connector: Connector) -> Json:
    task_count = len(service.task_configs(connector.name))
    return connector_json(_shown(call, connector), service.type_of(connector.name), task_count)


def _shown(call: Call, connector: Connector) -> Connector:
    """Return a connector as the caller may see it."""
    return replace(connector, config=call.shown(connector.config))


def create(service: ConnectService, call: Call) -> Response:
    """Answer 201 with Location. The tasks are created later, so the list is empty."""
    request = parse_creation(call.body)
    name = _wanted_name(request.get("name"))
    if request.get("config") is None:
        raise RestError(400, "The body needs a config, which is an object of texts")
    config = _with_name(name, as_config(request["config"]))
    target = _initial_state(request.get("initial_state"))
    if not name:
        raise _no_name(config)
    connector = service.change(operations.create, name, without_nulls(config), target)
    return _created(service, call, connector)


def _wanted_name(name: Any) -> str:
    if name is None:
        return ""
    if not isinstance(name, str):
        raise RestError(400, "A connector's name must be a text")
    check_name(name)
    return name.strip()


def _no_name(config: dict[str, str | None]) -> RestError:
    if "connector.class" not in config:
        return RestError(400, "Connector config {name=} contains no connector type")
    return invalid_config(['Missing required configuration "name" which has no default value.'])


def _with_name(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    """Return the configuration with its connector's name; 400 when it has another name."""
    _check_same_name(name, config)
    return {**config, "name": name}


def _check_same_name(name: str, config: dict[str, str | None]) -> None:
    inner = config.get("name")
    if inner is not None and inner != name:
        raise RestError(
            400,
            f"Connector name configuration ({inner}) doesn't match connector name "
            f"in the URL ({name})",
        )


def _initial_state(value: Any) -> TargetState:
    if value is None:
        return TargetState.RUNNING
    try:
        return TargetState(str(value).upper())
    except ValueError:
        known = ", ".join(target.value for target in TargetState)
        raise RestError(400, f"initial_state must be one of {known}, not {value!r}") from None


def _created(service: ConnectService, call: Call, connector: Connector) -> Response:
    place = f"/connectors/{quote(connector.name, safe='')}"
    body = connector_json(_shown(call, connector), service.type_of(connector.name), 0)
    return json_answer(body, 201, {"Location": place})


def get(service: ConnectService, call: Call) -> Response:
    """Answer with the configuration and the tasks."""
    return json_answer(_info(service, call, service.connector(call.name)))


def get_config(service: ConnectService, call: Call) -> Response:
    """Answer with the configuration alone."""
    return json_answer(call.shown(service.connector(call.name).config))


def put_config(service: ConnectService, call: Call) -> Response:
    """Answer 201 for a new connector, 200 for a changed one."""
    config = without_nulls(_with_name(call.name, parse_config(call.body)))
    connector, is_new = service.change(operations.put_config, call.name, config)
    if is_new:
        return _created(service, call, connector)
    return json_answer(_info(service, call, connector))


def patch_config(service: ConnectService, call: Call) -> Response:
    """Change some keys; null removes one."""
    changes = parse_config(call.body)
    _check_same_name(call.name, changes)
    if "name" in changes and changes["name"] is None:
        raise RestError(400, "A connector's name cannot be removed")
    connector = service.change(operations.patch_config, call.name, changes)
    return json_answer(_info(service, call, connector))


def status(service: ConnectService, call: Call) -> Response:
    """Answer with the states of the connector and its tasks."""
    return json_answer(status_json(service.status(call.name)))


def changes(
    operation: Operation[Concatenate[str, P], None],
    status: int,
    *args: P.args,
    **kwargs: P.kwargs,
) -> Responder:
    """Return what runs an operation on the connector of the path and answers without a body."""

    def respond(service: ConnectService, call: Call) -> Response:
        service.change(operation, call.name, *args, **kwargs)
        return empty_answer(status)

    return respond


def restart(service: ConnectService, call: Call) -> Response:
    """Answer 204 for the connector alone, 202 with its status for tasks or failures."""
    include_tasks = call.flag("includeTasks", default=False)
    only_failed = call.flag("onlyFailed", default=False)
    after = service.change(
        operations.restart, call.name, include_tasks=include_tasks, only_failed=only_failed
    )
    if include_tasks or only_failed:
        return json_answer(status_json(after), 202)
    return empty_answer(204)


def tasks(service: ConnectService, call: Call) -> Response:
    """List each task with its configuration."""
    configs = [call.shown(config) for config in service.task_configs(call.name)]
    return json_answer(tasks_json(call.name, configs))


def task_status(service: ConnectService, call: Call) -> Response:
    """Answer with the state of one task."""
    task = service.task_status(call.name, call.task)
    return json_answer(task_status_json(task, service.status(call.name).version))


def restart_task(service: ConnectService, call: Call) -> Response:
    """Restart one task."""
    service.change(operations.restart_task, call.name, call.task)
    return empty_answer(204)


def topics(service: ConnectService, call: Call) -> Response:
    """List the topics that the connector has used."""
    return json_answer({call.name: {"topics": service.topics(call.name)}})


def reset_topics(service: ConnectService, call: Call) -> Response:
    """Empty the list of topics."""
    service.check_topics_reset()
    service.change(operations.reset_topics, call.name)
    return empty_answer(202)


def offsets(service: ConnectService, call: Call) -> Response:
    """List the offset of each partition."""
    return json_answer({"offsets": service.offsets(call.name)})


def alter_offsets(service: ConnectService, call: Call) -> Response:
    """Move a stopped connector; ``"offset": null`` resets one partition."""
    wanted = parse_object(call.body, ("offsets",)).get("offsets")
    if wanted is None or wanted == []:
        raise RestError(
            400, "Partitions / offsets need to be provided for an alter offsets request"
        )
    if not isinstance(wanted, list):
        raise RestError(400, "offsets must be a list of objects with partition and offset")
    for item in wanted:
        _check_offset(item)
    message = service.change(operations.alter_offsets, call.name, wanted)
    return json_answer({"message": message})


def _check_offset(item: Any) -> None:
    if not isinstance(item, dict) or set(item) - {"partition", "offset"}:
        raise RestError(400, "each of offsets must be an object with partition and offset alone")
    if not isinstance(item.get("partition"), dict):
        raise RestError(400, "the partition of an offset must be an object")
    if not isinstance(item.get("offset"), dict | None):
        raise RestError(400, "the offset of a partition must be an object, or null to reset it")


def reset_offsets(service: ConnectService, call: Call) -> Response:
    """Move a stopped connector back to the beginning."""
    return json_answer({"message": service.change(operations.reset_offsets, call.name)})
