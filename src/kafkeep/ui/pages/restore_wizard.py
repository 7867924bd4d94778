"""The restore wizard: choose the archive, what and where, then check and start.

Its state is a draft in the service, so every step has an address that can be opened later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.catalog.topics.logged_topics import LoggedTopic, summarize_log
from kafkeep.connect.model import RestError
from kafkeep.connect.runs import restore
from kafkeep.connect.runs.restore import ARCHIVE_ID, IN_SERVICE, STATE
from kafkeep.connect.runs.run import Run, RunStage
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import Role
from kafkeep.errors import KafkeepError, UsageError
from kafkeep.maintenance.inspect.commit_summary import CommitSummary, summarize
from kafkeep.restore.preflight import plan_json
from kafkeep.ui import restore_form as rf
from kafkeep.ui.config_form import PREFIX, ConfigForm, build_form
from kafkeep.ui.frame import ROOT
from kafkeep.ui.visit import PageRoute, Visit, see_other

STEPS = (("what", "What"), ("where", "Where"), ("check", "Check and start"))
_NEWEST_READ, _SAMPLED = 40, 64
"""How many commits the timeline has: of the newest ones, and from the whole length of the log."""
_TOPICS_SHOWN = 200
_TIMELINE_WIDTH = 1000


def restore_path(id: str, more: str = "") -> str:
    """Return the address of a restore's page."""
    return f"{ROOT}/restores/{quote(id, safe='')}{more}"


def choose(visit: Visit) -> Response:
    """Ask which archive to restore from."""
    return _choose(visit, {}, "", 200)


def _choose(visit: Visit, form: Mapping[str, str], problem: str, status: int) -> Response:
    places = visit.service.catalog.archives.places()
    shown = {key: "" if "secret" in key else form.get(PREFIX + key, "") for key in rf.NEW_ARCHIVE}
    return visit.page(
        "restores/new.html",
        title="New restore",
        http_status=status,
        places=places,
        chosen=form.get(ARCHIVE_ID) or visit.query.get("archive", ""),
        topics=form.get("topics") or visit.query.get("topics", ""),
        values=shown,
        problem=problem,
    )


def create(visit: Visit) -> Response:
    """Store a draft and lead to its first step."""
    try:
        asked = rf.new_archive(visit.form)
        if topics := visit.form.get("topics", "").strip():
            asked[rf.TOPICS] = topics
        form = _validated(visit, asked)
    except RestError as error:
        if error.status not in (400, 404):
            raise
        return _choose(visit, visit.form, error.message, 400)
    if form.error_count:
        return _choose(visit, visit.form, _first_error(form), 400)
    run = visit.service.change(operations.create_run, restore.NAME, asked, visit.caller.name)
    return see_other(restore_path(run.id, "/what"))


def _first_error(form: ConfigForm) -> str:
    errors = [text for field in form.fields for text in field.errors]
    return next(iter((*errors, *form.other_errors)), "The archive is not complete.")


def _validated(visit: Visit, asked: Mapping[str, str]) -> ConfigForm:
    """Return the fields of all keys with what is wrong about them."""
    config = visit.service.restores.connector_config(asked)
    answer = visit.service.validate(config["connector.class"], dict(config))
    shown = visit.shown({**config, **asked})
    return build_form(answer, shown, with_errors=True)


def draft_of(visit: Visit) -> Run | None:
    """Return the draft in the path, None when it is started: then it has a page of its own."""
    run = visit.service.runs.find(visit.path["id"], restore.NAME)
    return run if run.stage is RunStage.DRAFT else None


def show_what(visit: Visit) -> Response:
    """Ask for topics, a point in time and parts of them."""
    run = draft_of(visit)
    if run is None:
        return see_other(restore_path(visit.path["id"]))
    return _what(visit, run, visit.shown(run.asked), "", 200)


def _what(visit: Visit, run: Run, asked: Mapping[str, str], problem: str, status: int) -> Response:
    log, unread = _chosen_log(visit, asked)
    topics = _topics_of(log)
    form = _validated(visit, asked)
    chosen = _chosen(asked)
    few = set(chosen) <= {one.info.topic for one in topics}
    return visit.page(
        "restores/what.html",
        title="Restore: what",
        http_status=status,
        run=run,
        step="what",
        steps=STEPS,
        archive=_archive_name(visit, asked),
        log=log,
        unread=unread,
        topics=topics if few else [],
        chosen=chosen,
        points=_timeline(visit, log if topics else None, asked.get(rf.COMMIT, "")),
        commit=asked.get(rf.COMMIT, ""),
        topic_fields=[] if few and topics else rf.fields_of(form, (rf.TOPICS,)),
        commit_fields=[] if log else rf.fields_of(form, (rf.COMMIT,)),
        times=rf.fields_of(form, rf.TIMES),
        parts=rf.fields_of(form, rf.PARTS),
        problem=problem,
        pick=rf.PICK,
    )


def save_what(visit: Visit) -> Response:
    """Store the first step and go on to the second, unless something in it is wrong."""
    run = draft_of(visit)
    if run is None:
        return see_other(restore_path(visit.path["id"]))
    asked = rf.with_what(visit.shown(run.asked), visit.form)
    if problem := _problem(visit, asked, rf.WHAT):
        return _what(visit, run, asked, problem, 400)
    try:
        visit.service.change(operations.change_run, run.id, asked)
    except (RestError, UsageError) as error:
        return _what(visit, run, asked, error.message, 400)
    return see_other(restore_path(run.id, "/where"))


def show_where(visit: Visit) -> Response:
    """Ask for the cluster, the names and how to write."""
    run = draft_of(visit)
    if run is None:
        return see_other(restore_path(visit.path["id"]))
    return _where(visit, run, visit.shown(run.asked), "", 200)


def _where(visit: Visit, run: Run, asked: Mapping[str, str], problem: str, status: int) -> Response:
    form = _validated(visit, asked)
    return visit.page(
        "restores/where.html",
        title="Restore: where",
        http_status=status,
        run=run,
        step="where",
        steps=STEPS,
        archive=_archive_name(visit, asked),
        renames=_renames(asked),
        target=rf.TARGET,
        servers=rf.fields_of(form, (rf.SERVERS,)),
        servers_key=rf.SERVERS,
        servers_value=asked.get(rf.SERVERS, ""),
        client=visit.form.get(rf.CLIENT) or rf.client_lines(asked),
        other=visit.form.get(rf.OTHER) or rf.other_lines(asked),
        often=rf.fields_of(form, rf.OFTEN),
        more=rf.fields_of(form, rf.MORE),
        state_key=STATE,
        in_service=IN_SERVICE,
        is_state_in_service=asked.get(STATE) == IN_SERVICE,
        problem=problem,
    )


def save_where(visit: Visit) -> Response:
    """Store the second step and go on to the checks, unless something in it is wrong."""
    run = draft_of(visit)
    if run is None:
        return see_other(restore_path(visit.path["id"]))
    shown = visit.shown(run.asked)
    try:
        asked = rf.with_where(shown, visit.form)
    except RestError as error:
        return _where(visit, run, shown, error.message, 400)
    if problem := _problem(visit, asked, None):
        return _where(visit, run, asked, problem, 400)
    try:
        visit.service.change(operations.change_run, run.id, asked)
    except (RestError, UsageError) as error:  # such as a mask whose secret is for another address
        return _where(visit, run, asked, error.message, 400)
    return see_other(restore_path(run.id, "/check"))


def show_check(visit: Visit) -> Response:
    """Show the plan and the checks, which the page loads, and the button that starts."""
    run = draft_of(visit)
    if run is None:
        return see_other(restore_path(visit.path["id"]))
    return _check(visit, run, "", 200)


def _check(visit: Visit, run: Run, problem: str, status: int) -> Response:
    asked = visit.shown(run.asked)
    return visit.page(
        "restores/check.html",
        title="Restore: check",
        http_status=status,
        appends=rf.may_append(asked),
        problem=problem,
        run=run,
        step="check",
        steps=STEPS,
        archive=_archive_name(visit, asked),
        asked=asked,
    )


def show_plan(visit: Visit) -> Response:
    """Answer with what would be written and all checks; reads Kafka and the archive."""
    run = visit.service.runs.find(visit.path["id"], restore.NAME)
    plan: dict[str, Any] | None = None
    problem, hint = "", ""
    try:
        plan = plan_json(visit.service.plan_restore(run.asked))
    except KafkeepError as error:
        problem, hint = error.message, error.hint or ""
    return visit.part("restores/plan.html", plan=plan, problem=problem, hint=hint, run=run)


def start(visit: Visit) -> Response:
    """Start the restore; one that adds to topics only when its id was typed as it is."""
    run = draft_of(visit)
    typed = visit.form.get("confirm", "").strip()
    if run is not None and rf.may_append(run.asked) and typed != run.id:
        wrong = "That is not the id of this restore. Nothing was started."
        return _check(visit, run, wrong, 400)
    visit.service.change(operations.start_run, visit.path["id"], visit.caller.name)
    return see_other(restore_path(visit.path["id"], "?done=restore-started"))


def _problem(visit: Visit, asked: Mapping[str, str], keys: Sequence[str] | None) -> str:
    """Return a sentence when a key of this step is wrong; the fields say what."""
    try:
        form = _validated(visit, asked)
    except UsageError as error:
        return error.message
    wrong = [one for one in form.fields if one.errors and (keys is None or one.key in keys)]
    texts = [f"{one.key}: {' '.join(one.errors)}" for one in wrong]
    return " ".join((*texts, *(form.other_errors if keys is None else ())))


def _archive_name(visit: Visit, asked: Mapping[str, str]) -> str:
    try:
        return str(visit.service.restores.connector_config(asked).get("archive", ""))
    except RestError:
        return "an archive that no connector of this service uses any more"


def _chosen_log(visit: Visit, asked: Mapping[str, str]) -> tuple[ArchiveLog | None, str]:
    """Return the log to restore from; None without one, and the reason."""
    id = asked.get(ARCHIVE_ID)
    if id is None:
        return None, "The topics and commits of this archive are shown once it is checked."
    archives = visit.service.catalog.archives
    try:
        place = archives.place(id)
        names = list(archives.log_names(place))
        name = asked.get("restore.log", "").strip() or (names[0] if len(names) == 1 else "")
        if name:
            return archives.log(place, name), ""
    except KafkeepError as error:
        return None, error.message
    if not names:
        return None, "The archive has no log yet: no connector has committed to it."
    return (
        None,
        f"The archive has several logs; name one under Parts of topics: {', '.join(names)}.",
    )


def _topics_of(log: ArchiveLog | None) -> list[LoggedTopic]:
    """Return the newest incarnation of each topic of a log; none when there are many."""
    if log is None or len(log.view.topics) > _TOPICS_SHOWN:
        return []
    found = summarize_log(log)
    return [max(of, key=lambda one: one.info.incarnation) for _, of in sorted(found.items())]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePoint:
    """A commit on the timeline; ``x`` is its place between the first and the last one."""

    commit: CommitSummary
    x: int


def _timeline(visit: Visit, log: ArchiveLog | None, chosen: str) -> list[TimelinePoint]:
    """Return the newest commits that brought records, and some of all, the newest first.

    The chosen one is always among them.
    """
    if log is None:
        return []
    history = visit.service.catalog.commits
    newest = history.page(log, None, _NEWEST_READ).commits
    found = [one for one in newest if isinstance(one, CommitSummary) and one.sums.records]
    found += history.sample(log, _SAMPLED)
    if re.fullmatch("[0-9]{1,18}", chosen):
        with suppress(KafkeepError):  # the plan says what is wrong with it
            found.append(summarize(history.commit(log, int(chosen))))
    points = [one for _, one in sorted({one.number: one for one in found}.items(), reverse=True)]
    first, last = points[-1].at_ms, points[0].at_ms
    room = _TIMELINE_WIDTH - 20
    return [
        TimelinePoint(commit=one, x=10 + room * (one.at_ms - first) // max(1, last - first))
        for one in points
    ]


def _renames(asked: Mapping[str, str]) -> list[rf.TopicRename]:
    try:
        return rf.renames(asked)
    except UsageError:
        return []


def _chosen(asked: Mapping[str, str]) -> list[str]:
    return [one.topic for one in _renames(asked)]


_ONE = "/restores/{id}"
ROUTES = (
    PageRoute(path="/new-restore", run=choose, role=Role.ADMIN),
    PageRoute(path="/new-restore", run=create, role=Role.ADMIN, method="POST"),
    PageRoute(path=f"{_ONE}/what", run=show_what, role=Role.OPERATE),
    PageRoute(path=f"{_ONE}/what", run=save_what, role=Role.ADMIN, method="POST"),
    PageRoute(path=f"{_ONE}/where", run=show_where, role=Role.OPERATE),
    PageRoute(path=f"{_ONE}/where", run=save_where, role=Role.ADMIN, method="POST"),
    PageRoute(path=f"{_ONE}/check", run=show_check, role=Role.OPERATE),
    PageRoute(path=f"{_ONE}/plan", run=show_plan, role=Role.OPERATE),
    PageRoute(path=f"{_ONE}/start", run=start, role=Role.ADMIN, method="POST"),
)
MESSAGES = {"restore-started": "The restore was started. It continues when you close this page."}
