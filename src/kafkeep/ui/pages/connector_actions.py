"""What changes a connector without editing it: pause, stop, resume, restart, delete."""

from __future__ import annotations

from starlette.responses import Response

from kafkeep.connect.model import RestError, TargetState
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import Role
from kafkeep.ui.frame import ROOT
from kafkeep.ui.visit import PageRoute, Responder, Visit, connector_path, see_other

_TARGETS = {
    "pause": TargetState.PAUSED,
    "stop": TargetState.STOPPED,
    "resume": TargetState.RUNNING,
}
_RESTARTS = {"connector": (False, False), "all": (True, False), "failed": (True, True)}
"""What to restart → include tasks, only what failed."""


MESSAGES = {
    "pause": "The connector pauses: it finishes its current cycle first.",
    "stop": "The connector stops and releases its tasks.",
    "resume": "The connector runs again.",
    "restart": "The connector was asked to restart.",
    "restart-task": "The task was asked to restart.",
    "deleted": "The connector was deleted. Its archive stays in the bucket.",
}


def _set_target(action: str) -> Responder:
    def run(visit: Visit) -> Response:
        visit.service.change(operations.set_target, visit.name, _TARGETS[action])
        return see_other(connector_path(visit.name, f"?done={action}"))

    return run


def restart(visit: Visit) -> Response:
    """Restart the connector, its tasks, or what failed of them."""
    what = visit.form.get("what", "all")
    if what not in _RESTARTS:
        raise RestError(400, f"What to restart must be one of {', '.join(_RESTARTS)}")
    include_tasks, only_failed = _RESTARTS[what]
    visit.service.change(
        operations.restart, visit.name, include_tasks=include_tasks, only_failed=only_failed
    )
    return see_other(connector_path(visit.name, "?done=restart"))


def restart_task(visit: Visit) -> Response:
    """Restart one task."""
    number = visit.path["task"]
    if not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise RestError(404, f"There is no task {number}")
    visit.service.change(operations.restart_task, visit.name, int(number))
    return see_other(connector_path(visit.name, "/tasks?done=restart-task"))


def ask_delete(visit: Visit) -> Response:
    """Show what deleting means, and ask for the connector's name."""
    return _ask(visit, "", 200)


def _ask(visit: Visit, problem: str, status: int) -> Response:
    visit.service.connector(visit.name)
    return visit.page(
        "connectors/delete.html", title=f"Delete {visit.name}", http_status=status, problem=problem
    )


def delete(visit: Visit) -> Response:
    """Delete the connector when its name was typed as it is."""
    if visit.form.get("confirm", "") != visit.name:
        return _ask(visit, "That is not the name of this connector. Nothing was deleted.", 400)
    visit.service.change(operations.delete, visit.name)
    return see_other(f"{ROOT}/connectors?done=deleted")


ROUTES = (
    *(
        PageRoute(
            path=f"/connectors/{{name}}/{action}",
            run=_set_target(action),
            role=Role.OPERATE,
            method="POST",
        )
        for action in _TARGETS
    ),
    PageRoute(path="/connectors/{name}/restart", run=restart, role=Role.OPERATE, method="POST"),
    PageRoute(
        path="/connectors/{name}/tasks/{task}/restart",
        run=restart_task,
        role=Role.OPERATE,
        method="POST",
    ),
    PageRoute(path="/connectors/{name}/delete", run=ask_delete, role=Role.ADMIN),
    PageRoute(path="/connectors/{name}/delete", run=delete, role=Role.ADMIN, method="POST"),
)
