"""The list of connectors, and the page of one connector: its tabs and its buttons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.responses import Response

from kafkeep.connect.model import RestError, RunState, TargetState
from kafkeep.connect.service import operations
from kafkeep.connect.service.overview import ConnectorOverview, ServiceOverview
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError
from kafkeep.ui.frame import ROOT, NavLink
from kafkeep.ui.pages.overview import chart_values
from kafkeep.ui.visit import PageRoute, Responder, Visit, connector_path, see_other

NAV = NavLink("Connectors", "/connectors", "c", "connectors")
T = TypeVar("T")
OBJECTS_SHOWN = 100
TABS = (
    ("overview", "Overview", ""),
    ("tasks", "Tasks", "/tasks"),
    ("config", "Configuration", "/config"),
    ("offsets", "Offsets", "/offsets"),
    ("topics", "Topics", "/topics"),
    ("objects", "Objects", "/objects"),
)
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


def show_list(visit: Visit) -> Response:
    """List the connectors whose name holds the search text, of one state if asked for."""
    return visit.page("connectors/list.html", title="Connectors", **_listed(visit))


def _listed(visit: Visit) -> dict[str, Any]:
    overview = visit.service.overview()
    q, state = visit.query.get("q", "").strip(), visit.query.get("state", "")
    return {
        "overview": overview,
        "connectors": [one for one in overview.connectors if _matches(one, q, state)],
        "q": q,
        "state": state,
        "states": [one.value for one in RunState],
    }


def _matches(one: ConnectorOverview, q: str, state: str) -> bool:
    if state and one.state.value != state and not (state == "FAILED" and one.has_failed):
        return False
    return q.lower() in one.name.lower()


def list_live(visit: Visit) -> dict[str, str]:
    """Return the rows of the list."""
    found = _listed(visit)
    return {
        "rows": visit.fragment("connectors/rows.html", connectors=found["connectors"], q=found["q"])
    }


def _facts(visit: Visit) -> dict[str, Any]:
    """Return what every tab of a connector shows; 404 when there is none."""
    status = visit.service.status(visit.name)
    overview: ServiceOverview = visit.service.overview()
    return {
        "connector": visit.service.connector(visit.name),
        "status": status,
        "one": overview.find(visit.name)
        or ConnectorOverview(name=visit.name, type=status.type, state=status.state),
        "tabs": TABS,
    }


def detail_live(visit: Visit) -> dict[str, str]:
    """Return the head, the numbers and the tasks of one connector."""
    facts = _facts(visit)
    return {
        "head": visit.fragment("connectors/head.html", **facts),
        "facts": visit.fragment("connectors/facts.html", **facts),
        "tasks": visit.fragment("connectors/task_list.html", **facts),
    }


def tab_page(visit: Visit, tab: str, *, http_status: int = 200, **values: Any) -> Response:
    """Return one tab of a connector."""
    return visit.page(
        f"connectors/{tab}.html",
        title=visit.name,
        http_status=http_status,
        tab=tab,
        **_facts(visit),
        **values,
    )


def show_overview(visit: Visit) -> Response:
    """Show state, lag, rate and why it failed."""
    return tab_page(visit, "overview")


def show_growth(visit: Visit) -> Response:
    """Answer with the chart of its archive."""
    visit.service.status(visit.name)
    try:
        points, problem = tuple(visit.service.growth(visit.name)), ""
    except KafkeepError as error:
        points, problem = (), error.message
    return visit.part(
        "connectors/growth.html", points=points, problem=problem, **chart_values(points)
    )


def show_tasks(visit: Visit) -> Response:
    """Show each task with its trace."""
    return tab_page(visit, "tasks")


def show_config(visit: Visit) -> Response:
    """Show the configuration with its secrets masked."""
    config = visit.shown(visit.service.connector(visit.name).config)
    return tab_page(visit, "config", config=dict(sorted(config.items())))


def show_topics(visit: Visit) -> Response:
    """Show the topics that the connector has used."""
    none: list[str] = []
    rows, problem = tolerant(visit, lambda: visit.service.topics(visit.name), none)
    return tab_page(visit, "topics", topics=rows, problem=problem)


def show_objects(visit: Visit) -> Response:
    """Show the newest objects of its log."""
    visit.service.status(visit.name)
    try:
        rows, problem = list(visit.service.objects(visit.name, OBJECTS_SHOWN)), ""
    except KafkeepError as error:
        rows, problem = [], error.message
    return tab_page(visit, "objects", objects=rows, problem=problem)


def tolerant(visit: Visit, read: Callable[[], T], otherwise: T) -> tuple[T, str]:
    """Return what ``read`` reads from stores that may not answer, or ``otherwise`` and why."""
    visit.service.status(visit.name)
    try:
        return read(), ""
    except RestError as error:
        if error.status == 404:
            raise
        return otherwise, error.message
    except KafkeepError as error:
        return otherwise, error.message


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


LIVE = {"connectors": list_live, "connector": detail_live}
ROUTES = (
    PageRoute(path="/connectors", run=show_list),
    PageRoute(path="/connectors/{name}", run=show_overview),
    PageRoute(path="/connectors/{name}/growth", run=show_growth),
    PageRoute(path="/connectors/{name}/tasks", run=show_tasks),
    PageRoute(path="/connectors/{name}/config", run=show_config),
    PageRoute(path="/connectors/{name}/topics", run=show_topics),
    PageRoute(path="/connectors/{name}/objects", run=show_objects),
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
