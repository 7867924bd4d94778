"""Calls about the worker: version, plugins, loggers, health and metrics."""

from __future__ import annotations

import logging

from starlette.responses import Response

from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import empty_answer, json_answer
from kafkeep.connect.rest.call import Call, parse_config, parse_object
from kafkeep.connect.service import operations
from kafkeep.connect.service.service import ConnectService
from kafkeep.errors import KafkeepError

log = logging.getLogger(__name__)

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MESSAGES = {
    "healthy": "Worker has completed startup and is ready to handle requests.",
    "starting": "Worker is still starting up.",
    "unhealthy": "Worker was unable to handle this request and may be unable to handle other "
    "requests.",
}


def root(service: ConnectService, call: Call) -> Response:
    """Answer with the version and the id of the Kafka cluster."""
    return json_answer(service.root())


def plugins(service: ConnectService, call: Call) -> Response:
    """List connector classes, with ``connectorsOnly=false`` all plugins."""
    only = call.flag("connectorsOnly", default=True)
    return json_answer(service.plugins(connectors_only=only))


def plugin_config(service: ConnectService, call: Call) -> Response:
    """List the keys of a plugin."""
    return json_answer(service.plugin_config(call.path["plugin"]))


def validate(service: ConnectService, call: Call) -> Response:
    """Answer with the verdict on a configuration; 200 also when it is wrong."""
    return json_answer(service.validate(call.path["plugin"], parse_config(call.body)))


def loggers(service: ConnectService, call: Call) -> Response:
    """List every logger with a level of its own."""
    return json_answer(service.loggers())


def logger(service: ConnectService, call: Call) -> Response:
    """Answer with the level of one logger."""
    return json_answer(service.logger(call.path["logger"]))


def set_logger(service: ConnectService, call: Call) -> Response:
    """List the changed loggers; with ``scope=cluster`` 204 without a body, for Strimzi."""
    scope = (call.query.get("scope") or ["worker"])[0].lower()
    if scope not in ("worker", "cluster"):
        raise RestError(400, f"scope must be worker or cluster, not {scope!r}")
    level = parse_object(call.body, ("level",)).get("level")
    if level is None:
        raise RestError(400, "Desired 'level' parameter was not specified in request.")
    if not isinstance(level, str):
        raise RestError(400, "The level must be a text")
    if scope == "cluster":
        service.change(operations.set_logger_everywhere, call.path["logger"], level)
        service.set_logger(call.path["logger"], level)  # here at once
        return empty_answer(204)
    return json_answer(service.set_logger(call.path["logger"], level))


def metrics(service: ConnectService, call: Call) -> Response:
    """Answer with all metrics in Prometheus's text format."""
    return Response(service.metrics(), headers={"Content-Type": METRICS_TYPE})


def health(service: ConnectService, call: Call) -> Response:
    """Answer 200 when the worker is healthy, 503 when it is starting or unhealthy."""
    try:
        found = service.health()
    except KafkeepError as error:
        log.warning("cannot read the worker's health: %s", error.message)
        found = {"status": "unhealthy"}
    status = str(found.get("status"))
    status = status if status in _MESSAGES else "healthy"
    # Probes need no credentials, and see no names of connectors.
    more = found if call.role is not None else {}
    body = {**_health(status), **{key: more[key] for key in more if key != "status"}}
    return json_answer(body, 200 if status == "healthy" else 503)


def ready(service: ConnectService, call: Call) -> Response:
    """Answer 200 when connectors can run, 503 until then."""
    if service.is_ready():
        return json_answer(_health("healthy"))
    return json_answer(_health("starting"), 503)


def _health(status: str) -> Json:
    return {"status": status, "message": _MESSAGES[status]}
