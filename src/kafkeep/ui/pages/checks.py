"""Checks of archives: verifications, drills, their schedules, and the page of one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import HTMLResponse, Response

from kafkeep.connect.catalog.archives.stored_objects import paged
from kafkeep.connect.model import RestError
from kafkeep.connect.runs.kind import ARCHIVE, DUE, SCHEDULE
from kafkeep.connect.runs.latest_checks import DRILL, VERIFICATION, latest_checks
from kafkeep.connect.runs.run import Run
from kafkeep.connect.runs.schedules import EVERY_DAY, WEEKDAYS, RunSchedule
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError, UsageError
from kafkeep.maintenance.report import render_html, report_from_json
from kafkeep.ui.frame import HEADERS, ROOT, NavLink
from kafkeep.ui.pages.archive import archive_tab, archive_visit
from kafkeep.ui.paging import page_number
from kafkeep.ui.visit import PageRoute, Visit, see_other

NAV = NavLink("Drills", "/drills", "d", "drills")
MESSAGES = {
    "scheduled": "The schedule was added.",
    "unscheduled": "The schedule was deleted. Its runs stay.",
    "cancelled": "The check stops.",
    "started": "The check was started.",
    "removed": "The check was deleted.",
}
_ROWS = 25
_KINDS = (VERIFICATION, DRILL)
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    VERIFICATION: (ARCHIVE, "name", "topics", "deep"),
    DRILL: (ARCHIVE, "name", "topics", "sample", "rate", "replication.factor"),
}
_SECTIONS_SHOWN = 200


def run_path(run: Run) -> str:
    """Return the address of a run's page."""
    return f"{ROOT}/checks/{run.id}"


def show_verification(visit: Visit) -> Response:
    """Show the verifications of an archive, and the form that starts one."""
    return _verification(visit, "", 200)


def _verification(visit: Visit, problem: str, status: int) -> Response:
    at = archive_visit(visit)
    runs = [
        run
        for run in visit.service.runs.find_all(VERIFICATION)
        if run.asked.get(ARCHIVE) == at.place.id
    ]
    return archive_tab(
        visit,
        "verification",
        at,
        runs=paged(runs, page_number(visit.query), _ROWS),
        latest=latest_checks(runs).newest(VERIFICATION),
        problem=problem,
        form=visit.form,
        schedules=[
            one
            for one in visit.service.runs.schedules.find_all()
            if one.kind == VERIFICATION and one.asked.get(ARCHIVE) == at.place.id
        ],
        days=(EVERY_DAY, *WEEKDAYS),
        http_status=status,
    )


def verify(visit: Visit) -> Response:
    """Start a verification of an archive."""
    asked = {**_asked(visit, VERIFICATION), ARCHIVE: visit.path["archive"]}
    return _started(visit, VERIFICATION, asked, _verification)


def show_drills(visit: Visit) -> Response:
    """Show drills, their schedules, and the form that starts one."""
    return _drills(visit, "", 200)


def _drills(visit: Visit, problem: str, status: int) -> Response:
    return visit.page(
        "checks/drills.html",
        title="Drills",
        http_status=status,
        problem=problem,
        form=visit.form,
        places=visit.service.catalog.archives.places(),
        schedules=[one for one in visit.service.runs.schedules.find_all() if one.kind == DRILL],
        days=(EVERY_DAY, *WEEKDAYS),
        **_drill_rows(visit),
    )


def _drill_rows(visit: Visit) -> dict[str, Any]:
    runs = visit.service.runs.find_all(DRILL)
    return {
        "runs": paged(runs, page_number(visit.query), _ROWS),
        "latest": latest_checks(runs).newest(DRILL),
        "addresses": _addresses(visit),
    }


def _addresses(visit: Visit) -> dict[str, str]:
    """Return the addresses of archives by id; runs may name archives that are gone."""
    return {one.id: one.address for one in visit.service.catalog.archives.places()}


def start_drill(visit: Visit) -> Response:
    """Start a drill."""
    return _started(visit, DRILL, _asked(visit, DRILL), _drills)


def _asked(visit: Visit, kind: str) -> dict[str, str]:
    given = {key: visit.form.get(key, "").strip() for key in _OPTIONS[kind]}
    return {key: text for key, text in given.items() if text}


def _started(visit: Visit, kind: str, asked: Mapping[str, str], again: Any) -> Response:
    """Add a schedule if the form asks for one, else start a run; show what is wrong with it."""
    service, who = visit.service, visit.caller.name
    try:
        service.runs.check(kind, asked)
        if visit.form.get("when") == "schedule":
            when = {name: visit.form.get(name, "").strip() for name in ("every", "at")}
            service.change(operations.create_schedule, kind, asked, when, who)
            here = f"{ROOT}/drills" if kind == DRILL else _verification_path(asked[ARCHIVE])
            return see_other(f"{here}?done=scheduled")
        draft = service.change(operations.create_run, kind, asked, who)
        run = service.change(operations.start_run, draft.id, who)
    except (UsageError, RestError) as error:
        if isinstance(error, RestError) and error.status not in (400, 404):
            raise
        page: Response = again(visit, error.message, 400)
        return page
    return see_other(run_path(run))


def _verification_path(archive: str) -> str:
    return f"{ROOT}/archive/{archive}/verification"


def ask_delete_schedule(visit: Visit) -> Response:
    """Show what deleting a schedule means, and ask for its id."""
    return _ask_schedule(visit, "", 200)


def _ask_schedule(visit: Visit, problem: str, status: int) -> Response:
    schedule = _schedule(visit)
    return visit.page(
        "checks/delete_schedule.html",
        title="Delete a schedule",
        http_status=status,
        schedule=schedule,
        list=_schedules_path(schedule),
        problem=problem,
    )


def delete_schedule(visit: Visit) -> Response:
    """Delete a schedule when its id was typed as it is."""
    schedule = _schedule(visit)
    if visit.form.get("confirm", "").strip() != schedule.id:
        wrong = "That is not the id of this schedule. Nothing was deleted."
        return _ask_schedule(visit, wrong, 400)
    visit.service.change(operations.delete_schedule, schedule.id)
    return see_other(f"{_schedules_path(schedule)}?done=unscheduled")


def _schedule(visit: Visit) -> RunSchedule:
    id = visit.path["id"]
    for one in visit.service.runs.schedules.find_all():
        if one.id == id:
            return one
    raise RestError(404, f"There is no schedule {id}")


def _schedules_path(schedule: RunSchedule) -> str:
    return (
        f"{ROOT}/drills" if schedule.kind == DRILL else _verification_path(schedule.asked[ARCHIVE])
    )


def _run(visit: Visit) -> Run:
    return visit.service.runs.find(visit.path["name"], *_KINDS)


def _run_values(visit: Visit) -> dict[str, Any]:
    run = _run(visit)
    archive = run.asked.get(ARCHIVE, "")
    return {
        "run": run,
        "address": _addresses(visit).get(archive) or run.result.get("archive") or archive,
        "archive": archive,
        "asked": {
            key: text for key, text in run.asked.items() if key not in (ARCHIVE, SCHEDULE, DUE)
        },
        "is_scheduled": SCHEDULE in run.asked,
    }


def show_run(visit: Visit) -> Response:
    """Show one verification or drill: progress, result, findings."""
    values = _run_values(visit)
    title = "Drill" if values["run"].kind == DRILL else "Verification"
    return visit.page("checks/run.html", title=title, **values)


def run_live(visit: Visit) -> dict[str, str]:
    """Return the state of a run."""
    return {"run": visit.fragment("checks/run_state.html", **_run_values(visit))}


def drills_live(visit: Visit) -> dict[str, str]:
    """Return the rows of the newest drills."""
    return {"rows": visit.fragment("checks/rows.html", **_drill_rows(visit))}


def show_report(visit: Visit) -> Response:
    """Show the report of a run, in the console's own style."""
    run = _run(visit)
    report = _report(visit, run)
    return visit.page(
        "checks/report.html", title=report.title, run=run, report=report, most=_SECTIONS_SHOWN
    )


def download_report(visit: Visit) -> Response:
    """Answer with the report as a file that needs nothing else."""
    run = _run(visit)
    headers = {
        **HEADERS,
        "Content-Disposition": f'attachment; filename="{run.kind}-{run.id}.html"',
    }
    return HTMLResponse(render_html(_report(visit, run)), headers=headers)


def _report(visit: Visit, run: Run) -> Any:
    found = visit.service.runs.report(run)
    if found is None:
        raise RestError(404, f"The {run.kind} {run.id} has no report")
    return report_from_json(found)


def cancel(visit: Visit) -> Response:
    """Stop a check for good."""
    run = _run(visit)
    visit.service.change(operations.cancel_run, run.id)
    return see_other(f"{run_path(run)}?done=cancelled")


def resume(visit: Visit) -> Response:
    """Begin a check again that was paused or has failed."""
    run = _run(visit)
    visit.service.change(operations.resume_run, run.id, visit.caller.name)
    return see_other(f"{run_path(run)}?done=started")


def repeat(visit: Visit) -> Response:
    """Start a new check that asks for the same."""
    run, who = _run(visit), visit.caller.name
    asked = {key: text for key, text in run.asked.items() if key not in (SCHEDULE, DUE)}
    visit.service.runs.check(run.kind, asked)
    draft = visit.service.change(operations.create_run, run.kind, asked, who)
    made = visit.service.change(operations.start_run, draft.id, who)
    return see_other(f"{run_path(made)}?done=started")


def ask_delete(visit: Visit) -> Response:
    """Show what deleting means, and ask for the id of the check."""
    return _ask(visit, "", 200)


def _ask(visit: Visit, problem: str, status: int) -> Response:
    run = _run(visit)
    return visit.page(
        "checks/delete.html",
        title=f"Delete a {run.kind}",
        http_status=status,
        run=run,
        problem=problem,
    )


def delete(visit: Visit) -> Response:
    """Delete a check from the history when its id was typed as it is."""
    run = _run(visit)
    if visit.form.get("confirm", "").strip() != run.id:
        return _ask(visit, "That is not the id of this check. Nothing was deleted.", 400)
    visit.service.change(operations.delete_run, run.id)
    here = f"{ROOT}/drills" if run.kind == DRILL else _list_of(visit, run)
    return see_other(f"{here}?done=removed")


def _list_of(visit: Visit, run: Run) -> str:
    """Return where verifications are listed; the archive may be gone."""
    try:
        place = visit.service.catalog.archives.place(run.asked.get(ARCHIVE, ""))
    except KafkeepError:
        return f"{ROOT}/archive"
    return _verification_path(place.id)


LIVE = {"check": run_live, "drills": drills_live}
ROUTES = (
    PageRoute(path="/archive/{archive}/verification", run=show_verification),
    PageRoute(path="/archive/{archive}/verification", run=verify, role=Role.OPERATE, method="POST"),
    PageRoute(path="/drills", run=show_drills),
    PageRoute(path="/drills", run=start_drill, role=Role.OPERATE, method="POST"),
    PageRoute(path="/schedules/{id}/delete", run=ask_delete_schedule, role=Role.OPERATE),
    PageRoute(path="/schedules/{id}/delete", run=delete_schedule, role=Role.OPERATE, method="POST"),
    PageRoute(path="/checks/{name}", run=show_run),
    PageRoute(path="/checks/{name}/report", run=show_report),
    PageRoute(path="/checks/{name}/report.html", run=download_report),
    *(
        PageRoute(path=f"/checks/{{name}}/{action}", run=run, role=Role.OPERATE, method="POST")
        for action, run in (("cancel", cancel), ("start", resume), ("again", repeat))
    ),
    PageRoute(path="/checks/{name}/delete", run=ask_delete, role=Role.ADMIN),
    PageRoute(path="/checks/{name}/delete", run=delete, role=Role.ADMIN, method="POST"),
)
