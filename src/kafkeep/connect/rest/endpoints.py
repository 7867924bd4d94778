"""The table of endpoints: method, path, role, handler and answers of each."""

from __future__ import annotations

from kafkeep.connect.model import TargetState
from kafkeep.connect.rest import connectors as c
from kafkeep.connect.rest import worker_calls as w
from kafkeep.connect.rest.call import Endpoint, Query, get_endpoint
from kafkeep.connect.rest.v1 import registry as v1
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import Role

_ONE = "/connectors/{connector}"
_PLUGIN = "/connector-plugins/{plugin}/config"


_READ = (
    get_endpoint("/", w.root, "Worker", "Version, commit and the id of the Kafka cluster."),
    get_endpoint(
        "/connectors",
        c.list_connectors,
        "Connectors",
        "Names of all connectors; with expand, an object of what was asked for, by name.",
        (
            Query(
                name="expand",
                help="status or info; repeat it for both. Others add nothing.",
                type="array",
            ),
        ),
        quick=True,
    ),
    *(
        get_endpoint(_ONE + path, run, schema, text, quick=True)
        for path, run, schema, text in (
            ("", c.get, "Connector", "A connector, its configuration, its tasks."),
            ("/config", c.get_config, "Config", "Its configuration alone."),
            ("/status", c.status, "Status", "Its state, and the state of each task."),
            ("/tasks", c.tasks, "Tasks", "Its tasks and their configurations."),
            ("/tasks/{task}/status", c.task_status, "TaskStatus", "One task's state."),
        )
    ),
    get_endpoint(f"{_ONE}/topics", c.topics, "Topics", "Topics it has read or written."),
    get_endpoint(f"{_ONE}/offsets", c.offsets, "Offsets", "How far it is in each partition."),
    get_endpoint(
        "/connector-plugins",
        w.plugins,
        "Plugins",
        "Connector classes known here.",
        (Query(name="connectorsOnly", help="false: converters, transforms and others as well."),),
    ),
    get_endpoint(
        _PLUGIN, w.plugin_config, "KeyList", "The keys of a plugin, as forms are built from."
    ),
    get_endpoint("/admin/loggers", w.loggers, "Loggers", "Loggers with a level of their own."),
    get_endpoint("/admin/loggers/{logger}", w.logger, "Logger", "One logger's level."),
)

_OPERATE = (
    # Strimzi's operator expects exactly these statuses.
    *(
        Endpoint(
            method="PUT",
            path=_ONE + path,
            role=Role.OPERATE,
            run=c.changes(operations.set_target, status, target),
            help=text,
            answers={status: None},
        )
        for path, text, status, target in (
            ("/pause", "Pause it.", 202, TargetState.PAUSED),
            ("/resume", "Let it run.", 202, TargetState.RUNNING),
            ("/stop", "Stop it.", 204, TargetState.STOPPED),
        )
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/restart",
        role=Role.OPERATE,
        run=c.restart,
        help="Restart it; 204 for the connector alone, else 202 with its status.",
        answers={204: None, 202: "Status"},
        query=(
            Query(name="includeTasks", help="Its tasks as well."),
            Query(name="onlyFailed", help="Only what has failed."),
        ),
    ),
    Endpoint(
        method="POST",
        path=f"{_ONE}/tasks/{{task}}/restart",
        role=Role.OPERATE,
        run=c.restart_task,
        help="Restart a task.",
        answers={204: None},
    ),
    Endpoint(
        method="PUT",
        path=f"{_ONE}/topics/reset",
        role=Role.OPERATE,
        run=c.reset_topics,
        help="Reset the set of its active topics.",
        answers={202: None},
    ),
    Endpoint(
        method="PUT",
        path=f"{_PLUGIN}/validate",
        role=Role.OPERATE,
        run=w.validate,
        help="Check a configuration: every key, with all errors at once.",
        answers={200: "Validation"},
        body="Config",
    ),
)

_CHANGE = (
    Endpoint(
        method="POST",
        path="/connectors",
        role=Role.ADMIN,
        run=c.create,
        help="Define a connector. 409 when the name is taken.",
        answers={201: "Connector"},
        body="Creation",
    ),
    Endpoint(
        method="PUT",
        path=f"{_ONE}/config",
        role=Role.ADMIN,
        run=c.put_config,
        help="Define a connector or change it.",
        answers={200: "Connector", 201: "Connector"},
        body="Config",
    ),
    Endpoint(
        method="PATCH",
        path=f"{_ONE}/config",
        role=Role.ADMIN,
        run=c.patch_config,
        help="Change some keys; null removes a key.",
        answers={200: "Connector"},
        body="Config",
    ),
    Endpoint(
        method="DELETE",
        path=_ONE,
        role=Role.ADMIN,
        run=c.changes(operations.delete, 204),
        help="Delete it. Its archive stays; a connector of the same name continues it.",
        answers={204: None},
    ),
    Endpoint(
        method="PATCH",
        path=f"{_ONE}/offsets",
        role=Role.ADMIN,
        run=c.alter_offsets,
        help="Move a stopped connector.",
        answers={200: "Message"},
        body="NewOffsets",
    ),
    Endpoint(
        method="DELETE",
        path=f"{_ONE}/offsets",
        role=Role.ADMIN,
        run=c.reset_offsets,
        help="Move a stopped connector back to the beginning.",
        answers={200: "Message"},
    ),
    Endpoint(
        method="PUT",
        path="/admin/loggers/{logger}",
        role=Role.ADMIN,
        run=w.set_logger,
        help="Set a logger and those under it; 204 without a body for the cluster.",
        answers={200: "Names", 204: None},
        body="Level",
        query=(Query(name="scope", help="worker or cluster.", type="string"),),
    ),
)

_MONITOR = (
    Endpoint(
        method="GET",
        path="/health",
        role=None,
        run=w.health,
        help="Whether the worker works.",
        answers={200: "Health", 503: "Health"},
    ),
    Endpoint(
        method="GET",
        path="/health/ready",
        role=None,
        run=w.ready,
        help="Whether connectors can be run here or are run by another worker.",
        answers={200: "Health", 503: "Health"},
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        role=Role.READ,
        run=w.metrics,
        help="Every metric, as Prometheus reads them.",
        answers={200: "Text"},
        media_type="text/plain",
    ),
)

SERVICE_ENDPOINTS = (*_READ, *v1.ENDPOINTS, *_OPERATE, *_CHANGE, *_MONITOR)
"""All endpoints of the service; app.py adds the two pages about the API itself."""
