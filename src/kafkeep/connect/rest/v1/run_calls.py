"""Calls about one kind of run: list, start, follow, stop and delete its runs, and read reports.

``run_json`` is the answer about a run, whatever its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response

from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.answers import empty_answer, format_time, json_answer
from kafkeep.connect.rest.call import (
    Call,
    Endpoint,
    Query,
    Responder,
    get_endpoint,
    parse_config,
    without_nulls,
)
from kafkeep.connect.rest.json_schemas import (
    MAYBE_NUMBER,
    MAYBE_TIME,
    NUMBER,
    TEXT,
    TIME,
    Schema,
    list_schema,
    map_schema,
    object_schema,
    ref,
)
from kafkeep.connect.rest.v1.root import ROOT, maybe_time, query_number, query_text
from kafkeep.connect.runs.kind import ARCHIVE
from kafkeep.connect.runs.run import Run, RunStage
from kafkeep.connect.service import operations
from kafkeep.connect.service.operations import Operation
from kafkeep.connect.service.service import ConnectService
from kafkeep.connect.worker.rest_security import Role
from kafkeep.maintenance.report import render_html, report_from_json

_LIMIT, _MOST = 20, 200


def run_json(run: Run, call: Call) -> Json:
    """Return a run; secrets in what it asks for are masked unless the caller may see them."""
    progress = run.progress
    return {
        "id": run.id,
        "state": run.stage.value,
        "is_stopping": run.is_stopping,
        "config": call.shown(run.asked),
        "created": format_time(run.created_ms),
        "created_by": run.created_by,
        "started": maybe_time(run.started_ms),
        "started_by": run.started_by,
        "ended": maybe_time(run.ended_ms),
        "worker_id": run.worker_id,
        "progress": None
        if progress is None
        else {
            "phase": progress.phase,
            "done": progress.done,
            "total": progress.total,
            "unit": progress.unit,
            "bytes": progress.bytes,
            "per_second": progress.per_second,
            "seconds_left": progress.seconds_left,
            "note": progress.note,
        },
        "verdict": run.verdict,
        "result": dict(run.result),
        "has_report": bool(run.report),
        "error": run.error,
        "hint": run.hint,
    }


_PROGRESS: Schema = {
    **object_schema(
        {
            "phase": TEXT,
            "done": NUMBER,
            "total": {"type": ["integer", "null"]},
            "unit": TEXT,
            "bytes": NUMBER,
            "per_second": MAYBE_NUMBER,
            "seconds_left": MAYBE_NUMBER,
            "note": {"type": "string", "description": "Why it waits and tries again, if it does."},
        }
    ),
    "type": ["object", "null"],
}
RUN: Schema = object_schema(
    {
        "id": TEXT,
        "state": {"type": "string", "enum": [stage.value for stage in RunStage]},
        "is_stopping": {"type": "boolean"},
        "config": map_schema(TEXT),
        "created": TIME,
        "created_by": TEXT,
        "started": MAYBE_TIME,
        "started_by": TEXT,
        "ended": MAYBE_TIME,
        "worker_id": TEXT,
        "progress": _PROGRESS,
        "verdict": {"type": "string", "enum": ["", "good", "warn", "bad"]},
        "result": {"type": "object"},
        "has_report": {"type": "boolean"},
        "error": TEXT,
        "hint": TEXT,
    }
)


@dataclass(frozen=True, slots=True)
class RunCalls:
    """What can be asked about each run of a kind, below ``root``: the same for every kind."""

    kind: str
    root: str
    schema: str = "Run"
    report_schema: str = "CheckReport"

    @property
    def one(self) -> str:
        """The path of one run."""
        return f"{self.root}/{{run}}"

    def find(self, service: ConnectService, call: Call) -> Run:
        """Return the run in the path; 404 when there is none of this kind."""
        return service.runs.find(call.path["run"], self.kind)

    def created(self, run: Run, call: Call) -> Response:
        """Answer 201 with a new run and where it is."""
        location = f"{self.root}/{quote(run.id)}"
        return json_answer(run_json(run, call), 201, {"Location": location})

    def change_by_caller(self, operation: Operation[[str, str], Run]) -> Responder:
        """Return what does an operation that notes who asked for it."""

        def run(service: ConnectService, call: Call) -> Response:
            found = service.change(operation, self.find(service, call).id, call.caller)
            return json_answer(run_json(found, call), 202)

        return run

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the calls to read, resume, stop and delete a run."""

        def post(action: str, run: Responder, text: str) -> Endpoint:
            return post_endpoint(f"{self.one}/{action}", run, Role.OPERATE, self.schema, text)

        return (
            get_endpoint(self.one, self._get, self.schema, f"A {self.kind}: state, progress."),
            get_endpoint(
                f"{self.one}/report",
                self._report,
                self.report_schema,
                "Its report, as the command writes it with --report.",
            ),
            report_page_endpoint(f"{self.one}/report.html", self._report_page),
            post(
                "resume",
                self.change_by_caller(operations.resume_run),
                "Continue one that was paused or has failed.",
            ),
            post(
                "pause",
                self._change(operations.pause_run),
                "Stop within seconds; it can be resumed.",
            ),
            post("cancel", self._change(operations.cancel_run), "Stop for good."),
            Endpoint(
                method="DELETE",
                path=self.one,
                role=Role.ADMIN,
                run=self._delete,
                help="Delete it and its report from the history.",
                answers={204: None},
            ),
        )

    def _get(self, service: ConnectService, call: Call) -> Response:
        return json_answer(run_json(self.find(service, call), call))

    def _report(self, service: ConnectService, call: Call) -> Response:
        return report_of(service, self.find(service, call))

    def _report_page(self, service: ConnectService, call: Call) -> Response:
        return report_page_of(service, self.find(service, call))

    def _change(self, operation: Operation[[str], Run]) -> Responder:
        def run(service: ConnectService, call: Call) -> Response:
            found = service.change(operation, self.find(service, call).id)
            return json_answer(run_json(found, call), 202)

        return run

    def _delete(self, service: ConnectService, call: Call) -> Response:
        service.change(operations.delete_run, self.find(service, call).id)
        return empty_answer(204)


def report_of(service: ConnectService, run: Run) -> Response:
    """Answer with the report of a run; 404 when it has none."""
    return json_answer(_report(service, run)["document"])


def report_page_of(service: ConnectService, run: Run) -> Response:
    """Answer with the report as a file that needs nothing else; a browser downloads it."""
    page = render_html(report_from_json(_report(service, run)))
    name = f'attachment; filename="{run.kind}-{run.id}.html"'
    return HTMLResponse(page, headers={"Content-Disposition": name})


def _report(service: ConnectService, run: Run) -> Json:
    found = service.runs.report(run)
    if found is None:
        raise RestError(404, f"The {run.kind} {run.id} has no report")
    return found


def report_page_endpoint(path: str, run: Responder) -> Endpoint:
    """Return an endpoint that answers with a report as HTML."""
    return Endpoint(
        method="GET",
        path=path,
        role=Role.READ,
        run=run,
        help="The report as one HTML file, as the command writes it with --report.",
        answers={200: "Text"},
        media_type="text/html",
    )


def post_endpoint(path: str, run: Responder, role: Role, schema: str, text: str) -> Endpoint:
    """Return an endpoint that starts or stops work: POST, answered with 202."""
    return Endpoint(method="POST", path=path, role=role, run=run, help=text, answers={202: schema})


def run_endpoints(kind: str, plural: str, title: str) -> tuple[Endpoint, ...]:
    """Return the calls about a kind of run that starts at once, ``/kafkeep/v1/<plural>``."""
    calls = RunCalls(kind, f"{ROOT}/{plural}")

    def list_runs(service: ConnectService, call: Call) -> Response:
        limit = query_number(call, "limit", _LIMIT, _MOST, least=1)
        archive = query_text(call, "archive")
        found = [
            run
            for run in service.runs.find_all(kind)
            if not archive or run.asked.get(ARCHIVE) == archive
        ]
        return json_answer(
            {"total": len(found), "runs": [run_json(r, call) for r in found[:limit]]}
        )

    def create(service: ConnectService, call: Call) -> Response:
        asked = without_nulls(parse_config(call.body))
        service.runs.check(kind, asked)
        draft = service.change(operations.create_run, kind, asked, call.caller)
        return calls.created(service.change(operations.start_run, draft.id, call.caller), call)

    return (
        get_endpoint(
            calls.root,
            list_runs,
            "Runs",
            f"The {plural}, the newest first.",
            (
                Query(name="archive", help="Only those of this archive.", type="string"),
                Query(name="limit", help=f"How many, at most {_MOST}.", type="string"),
            ),
        ),
        Endpoint(
            method="POST",
            path=calls.root,
            role=Role.OPERATE,
            run=create,
            help=f"{title}. The body has the options of the command as texts.",
            answers={201: "Run"},
            body="Config",
        ),
        *calls.endpoints(),
    )


RUN_SCHEMAS: dict[str, Schema] = {
    "Run": RUN,
    "Runs": object_schema({"total": NUMBER, "runs": list_schema(ref("Run"))}),
    "CheckReport": {"type": "object", "description": "As the command writes it with --report."},
}
