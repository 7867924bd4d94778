"""The list of restores, and the page of one that was started: progress, result, proof."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import HTMLResponse, Response

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.v1.restores import newest_proof, prove
from kafkeep.connect.runs import restore
from kafkeep.connect.runs.restore import has_log
from kafkeep.connect.runs.run import Run, RunStage
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import Role
from kafkeep.maintenance.report import ReportPage, render_html, report_from_json
from kafkeep.ui.frame import HEADERS, ROOT, NavLink
from kafkeep.ui.pages.restore_wizard import restore_path
from kafkeep.ui.paging import page_number
from kafkeep.ui.visit import PageRoute, Responder, Visit, see_other

NAV = NavLink("Restores", "/restores", "r", "restores")
_ROWS = 50
_NOTES_SHOWN = 100
MESSAGES = {
    "restore-pause": "The restore pauses. What is written stays, and it can be resumed.",
    "restore-resume": "The restore continues where it stopped.",
    "restore-cancel": "The restore is cancelled. What was written stays.",
    "restore-deleted": "The restore was deleted from the history. What it wrote stays.",
    "restore-proof": "The comparison was started.",
}


def show_list(visit: Visit) -> Response:
    """List all restores."""
    return visit.page("restores/list.html", title="Restores", **_listed(visit))


def _listed(visit: Visit) -> dict[str, Any]:
    found = visit.service.runs.find_all(restore.NAME)
    first = (page_number(visit.query) - 1) * _ROWS
    return {
        "restores": found[first : first + _ROWS],
        "count": len(found),
        "more": page_number(visit.query) + 1 if len(found) > first + _ROWS else None,
    }


def list_live(visit: Visit) -> dict[str, str]:
    """Return the rows of the list."""
    return {"rows": visit.fragment("restores/rows.html", **_listed(visit))}


def _find(visit: Visit, id: str) -> Run:
    return visit.service.runs.find(id, restore.NAME)


def show(visit: Visit) -> Response:
    """Show a restore; a draft is shown in the wizard."""
    run = _find(visit, visit.path["id"])
    if run.stage is RunStage.DRAFT:
        return see_other(restore_path(run.id, "/what"))
    return visit.page("restores/run.html", title=f"Restore {run.id}", **_facts(visit, run))


def _facts(visit: Visit, run: Run) -> dict[str, Any]:
    asked = {key: text for key, text in visit.shown(run.asked).items() if text}
    return {
        "run": run,
        "asked": asked,
        "archive": _archive(visit, run),
        "proof": newest_proof(visit.service, run.id),
        "can_be_proven": run.stage is RunStage.DONE and has_log(run.result),
        "notes_shown": _NOTES_SHOWN,
    }


def _archive(visit: Visit, run: Run) -> str:
    try:
        return str(visit.service.restores.connector_config(run.asked).get("archive", ""))
    except RestError:
        return "an archive that no connector of this service uses any more"


def live(visit: Visit) -> dict[str, str]:
    """Return the parts of a restore's page that change by themselves."""
    facts = _facts(visit, _find(visit, visit.name))
    return {
        "head": visit.fragment("restores/head.html", **facts),
        "state": visit.fragment("restores/state.html", **facts),
        "proof": visit.fragment("restores/proof.html", **facts),
    }


def _act(action: str) -> Responder:
    def run(visit: Visit) -> Response:
        id = _find(visit, visit.path["id"]).id
        if action == "resume":
            visit.service.change(operations.resume_run, id, visit.caller.name)
        else:
            stopping = {"pause": operations.pause_run, "cancel": operations.cancel_run}
            visit.service.change(stopping[action], id)
        return see_other(restore_path(id, f"?done=restore-{action}"))

    return run


def start_proof(visit: Visit) -> Response:
    """Start to compare the target with the archive."""
    id = _find(visit, visit.path["id"]).id
    prove(visit.service, id, visit.caller.name)
    return see_other(restore_path(id, "?done=restore-proof"))


def ask_delete(visit: Visit) -> Response:
    """Show what deleting means, and ask for the restore's id."""
    return _ask(visit, "", 200)


def _ask(visit: Visit, problem: str, status: int) -> Response:
    run = _find(visit, visit.path["id"])
    return visit.page(
        "restores/delete.html",
        title="Delete a restore",
        http_status=status,
        run=run,
        problem=problem,
    )


def delete(visit: Visit) -> Response:
    """Delete the restore from the history when its id was typed as it is."""
    if visit.form.get("confirm", "").strip() != visit.path["id"]:
        return _ask(visit, "That is not the id of this restore. Nothing was deleted.", 400)
    visit.service.change(operations.delete_run, _find(visit, visit.path["id"]).id)
    return see_other(f"{ROOT}/restores?done=restore-deleted")


def _report(visit: Visit, of_proof: bool) -> ReportPage:
    run = _find(visit, visit.path["id"])
    chosen = newest_proof(visit.service, run.id) if of_proof else run
    found = visit.service.runs.report(chosen) if chosen is not None else None
    if found is None:
        raise RestError(404, "There is no such report yet.")
    return report_from_json(found)


def _show_report(*, of_proof: bool) -> Responder:
    def run(visit: Visit) -> Response:
        page = _report(visit, of_proof)
        here = restore_path(visit.path["id"], "/proof/report" if of_proof else "/report")
        return visit.page("restores/report.html", title=page.title, page=page, here=here)

    return run


def _download(kind: str, *, of_proof: bool) -> Responder:
    def run(visit: Visit) -> Response:
        page = _report(visit, of_proof)
        name = f"{'proof' if of_proof else 'restore'}-{visit.path['id']}.{kind}"
        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
        if kind == "html":
            return HTMLResponse(render_html(page), headers=headers)
        body = orjson.dumps(page.document, option=orjson.OPT_INDENT_2)
        return Response(body, 200, headers, media_type="application/json")

    return run


_ONE = "/restores/{id}"
ROUTES = (
    PageRoute(path="/restores", run=show_list),
    PageRoute(path=_ONE, run=show),
    *(
        PageRoute(path=f"{_ONE}/{action}", run=_act(action), role=Role.OPERATE, method="POST")
        for action in ("pause", "resume", "cancel")
    ),
    PageRoute(path=f"{_ONE}/proof", run=start_proof, role=Role.OPERATE, method="POST"),
    PageRoute(path=f"{_ONE}/delete", run=ask_delete, role=Role.ADMIN),
    PageRoute(path=f"{_ONE}/delete", run=delete, role=Role.ADMIN, method="POST"),
    *(
        PageRoute(path=f"{_ONE}{path}", run=_show_report(of_proof=of_proof))
        for path, of_proof in (("/report", False), ("/proof/report", True))
    ),
    *(
        PageRoute(path=f"{_ONE}{path}.{kind}", run=_download(kind, of_proof=of_proof))
        for path, of_proof in (("/report", False), ("/proof/report", True))
        for kind in ("html", "json")
    ),
)
LIVE = {"restores": list_live, "restore": live}
