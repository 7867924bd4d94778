"""The restore wizard without JavaScript, and the pages of restores in every stage."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.waiting import until
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService

from kafkeep.archive.commit import Changes
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.v1.restores import newest_proof
from kafkeep.connect.runs.run import Run, RunProgress, RunStage
from kafkeep.connect.service import operations
from kafkeep.connect.worker.rest_security import RestSecurity
from kafkeep.errors import UsageError
from kafkeep.maintenance.report import ReportPage, Table, Timeline, report_to_json
from kafkeep.store.open import open_store

SECRET = "sasl.jaas.config=org.x.PlainLoginModule required username=a password='hunter2';"
RESULT = {
    "records": 5,
    "already_there": 2,
    "bytes": 100,
    "objects": 1,
    "commit": 3,
    "log": "backup",
    "topics": {"t": 5},
    "seconds": 2.0,
    "warnings": [SCRIPT],
    "commands": ["kafka-configs"],
    "targets": [{"topic": "orders", "target": "copy"}],
}
PAGE = ReportPage(
    title="Restore",
    verdict="done",
    mood="good",
    summary=SCRIPT,
    facts=[("archive", SCRIPT)],
    sections=[
        Table("Topics", ("topic", "records"), [(SCRIPT, 7), (None, 1)]),
        Timeline("When", [("t-0", 0.5, 1.0, "fast")]),
    ],
    document={"verdict": "done", "topic": SCRIPT},
)


@pytest.fixture
def place(service: ConsoleService, tmp_path: Path) -> ArchivePlace:
    topics = {"orders": [partition(0, 10)], "users": [partition(0, 5)]}
    build_archive(open_store(str(tmp_path)), topics)
    made = ArchivePlace(address=str(tmp_path), connectors=("sink",))
    service.places.append(made)
    return made


@pytest.fixture
def draft(service: ConsoleService, place: ArchivePlace, browser: Browser) -> Run:
    token = browser.token("/ui/new-restore")
    sent = browser.post("/ui/new-restore", token, **{"archive.id": place.id})
    id = re.fullmatch(r"/ui/restores/([0-9a-z-]+)/what", sent.headers["location"])
    assert id is not None
    return service.runs.find(id[1], "restore")


def store(service: ConsoleService, run: Run, **changes: object) -> Run:
    """Put a run into a stage that takes a cluster to reach."""
    return service.runs._next(run, **changes)


def test_the_wizard_makes_a_restore_step_by_step(
    service: ConsoleService, browser: Browser, draft: Run
) -> None:
    here = f"/ui/restores/{draft.id}"
    what = browser.get(f"{here}/what")
    assert "10 records" in what
    assert "<circle" in what
    token = browser.token(f"{here}/what")
    sent = browser.post(f"{here}/what", token, **{"pick:orders": "on", "key:restore.commit": ""})
    assert sent.headers["location"] == f"{here}/where"
    assert 'name="target:orders"' in browser.get(f"{here}/where")
    form = {
        "target:orders": "copy",
        "key:producer.override.bootstrap.servers": "other:9092",
        "client": f"security.protocol=SASL_SSL\n{SECRET}",
        "key:restore.exact.offsets": "true",
        "other": "transforms=x",
    }
    wrong = browser.post(f"{here}/where", token, 400, **form)
    assert "transforms" in wrong.text
    sent = browser.post(f"{here}/where", token, **{**form, "other": ""})
    assert sent.headers["location"] == f"{here}/check"
    asked = service.runs.find(draft.id).asked
    assert asked["topics"] == "orders:copy"
    assert asked["restore.exact.offsets"] == "true"
    assert "hunter2" in asked["producer.override.sasl.jaas.config"]
    for path in ("/what", "/where", "/check", "/plan"):
        assert "hunter2" not in browser.get(here + path)
    plan = browser.get(f"{here}/plan")
    assert "1 check fails" in plan
    assert "Restore into another topic." in plan
    assert "copy" in plan
    # Sending the masked form again keeps the secret.
    browser.post(
        f"{here}/where",
        token,
        **{**form, "other": "", "client": "security.protocol=SASL_SSL\nsasl.jaas.config=******"},
    )
    assert service.runs.find(draft.id).asked == asked
    moved = {**form, "other": "", "client": "security.protocol=SASL_SSL\nsasl.jaas.config=******"}
    moved["key:producer.override.bootstrap.servers"] = "evil:9092"
    page = browser.post(f"{here}/where", token, 400, **moved).text
    assert "must be written out again" in page
    assert service.runs.find(draft.id).asked == asked


def test_the_state_of_a_restore_from_a_read_only_archive_is_kept_in_the_service(
    service: ConsoleService, browser: Browser, draft: Run
) -> None:
    here = f"/ui/restores/{draft.id}/where"
    assert '<option value="service">' in browser.get(here)
    token = browser.token(here)
    browser.post(here, token, **{"key:restore.state": "service"})
    asked = service.runs.find(draft.id).asked
    assert asked["restore.state"] == "service"
    assert service.restores.parse(asked).is_state_in_service
    assert '<option value="service" selected>' in browser.get(here)
    browser.post(here, token, **{"key:restore.state": ""})
    assert not service.restores.parse(service.runs.find(draft.id).asked).is_state_in_service
    with pytest.raises(UsageError, match=r"restore\.state"):
        service.restores.parse({**asked, "restore.state": "elsewhere"})


def test_a_restore_that_filtered_records_cannot_be_proven(
    service: ConsoleService, draft: Run
) -> None:
    asked = {**draft.asked, "restore.filter": "key=5"}
    store(service, draft, stage=RunStage.DONE, result=RESULT, asked=asked)
    with pytest.raises(RestError, match="filtered"):
        service.runs.check("proof", {"restore": draft.id})


def test_pages_of_a_topic_and_an_archive_lead_to_the_wizard(
    service: ConsoleService, browser: Browser, place: ArchivePlace
) -> None:
    archive = browser.get(f"/ui/archive/{place.id}")
    assert f'href="/ui/new-restore?archive={place.id}"' in archive
    link = re.search(r'href="(/ui/new-restore[^"]+)"', browser.get("/ui/topics/users"))
    assert link is not None
    page = browser.get(link[1].replace("&amp;", "&"))
    assert 'name="topics" value="users"' in page
    token = browser.token("/ui/new-restore")
    sent = browser.post("/ui/new-restore", token, **{"archive.id": place.id, "topics": "users"})
    draft = service.runs.find(sent.headers["location"].split("/")[3])
    assert draft.asked == {"archive.id": place.id, "topics": "users"}


def test_an_archive_of_no_connector_is_reached_by_its_address(
    service: ConsoleService, browser: Browser
) -> None:
    form = {
        "archive.id": "",
        "key:archive": "s3://elsewhere/prefix",
        "key:aws.access.key.id": "AKIA",
        "key:aws.secret.access.key": "hunter2",
    }
    token = browser.token("/ui/new-restore")
    assert (
        "hunter2"
        not in browser.post(
            "/ui/new-restore", token, 400, **{**form, "key:archive": "ftp://x"}
        ).text
    )
    sent = browser.post("/ui/new-restore", token, **form)
    here = sent.headers["location"].removesuffix("/what")
    page = browser.get(f"{here}/what")
    assert 'name="key:topics"' in page
    assert 'name="key:restore.commit"' in page
    browser.post(f"{here}/what", token, **{"key:topics": "a:b", "key:restore.commit": "3"})
    assert 'value="b"' in browser.get(f"{here}/where")
    asked = service.runs.find(here.rpartition("/")[2]).asked
    assert asked["aws.secret.access.key"] == "hunter2"
    assert "hunter2" not in browser.get(f"{here}/check")


def test_wrong_input_is_shown_again_with_one_clear_sentence(
    service: ConsoleService, browser: Browser, draft: Run
) -> None:
    here = f"/ui/restores/{draft.id}"
    token = browser.token(f"{here}/what")
    page = browser.post(f"{here}/what", token, 400, **{"key:restore.partitions": "x"}).text
    assert "is not a partition" in page
    page = browser.post(f"{here}/where", token, 400, client="no equals sign").text
    assert "Line 1 is not key=value" in page
    page = browser.post(f"{here}/where", token, 400, other="topics=a").text
    assert "has a field of its own" in page
    page = browser.post("/ui/new-restore", token, 400).text
    assert "Choose an archive" in page
    assert service.runs.find(draft.id).asked == draft.asked


def test_a_started_restore_shows_its_stage_and_what_may_be_done(
    service: ConsoleService, browser: Browser, draft: Run
) -> None:
    here = f"/ui/restores/{draft.id}"
    moving = RunProgress(phase="Writing", done=50, total=100, per_second=5.0, seconds_left=10.0)
    run = store(
        service,
        draft,
        stage=RunStage.PAUSED,
        progress=moving,
        asked={**draft.asked, "topics": SCRIPT, "producer.override.ssl.key.password": "hunter2"},
    )
    page = browser.get(here)
    assert "50 of 100 records" in page
    assert "Resume" in page
    assert "Pause<" not in page
    assert SCRIPT not in page
    assert "hunter2" not in page
    assert SCRIPT not in browser.get("/ui/restores")
    token = browser.token(here)
    browser.post(f"{here}/pause", token, 409)
    browser.post(f"{here}/cancel", token)
    assert "after 50 of 100 records were written" in browser.get(here)
    run = service.runs.find(run.id)
    store(service, run, stage=RunStage.FAILED, error=SCRIPT, hint="Use another topic.")
    failed = browser.get(here)
    assert "Use another topic." in failed
    assert SCRIPT not in failed
    page = browser.post(f"{here}/delete", token, 400, confirm="no").text
    assert "That is not the id" in page
    browser.post(f"{here}/delete", token, confirm=run.id)
    assert "Nothing was restored here yet" in browser.get("/ui/restores")
    browser.get(here, 404)


def test_a_restore_that_is_done_has_a_report_and_can_be_proven(
    service: ConsoleService, browser: Browser, draft: Run
) -> None:
    here = f"/ui/restores/{draft.id}"
    browser.get(f"{here}/report", 404)
    report = service.runs._documents.save_report(draft.id, report_to_json(PAGE))
    ended = {"result": RESULT, "verdict": "warn", "report": report, "ended_ms": 1}
    store(service, draft, stage=RunStage.DONE, **ended)
    page = browser.get(here)
    assert "Done, with warnings" in page
    assert SCRIPT not in page
    shown = browser.get(f"{here}/report")
    assert SCRIPT not in shown
    assert "1.0 s" in shown
    assert SCRIPT not in browser.get(f"{here}/report.html")
    assert '"verdict": "done"' in browser.get(f"{here}/report.json")
    browser.post(f"{here}/proof", browser.token(here))

    def proof() -> Run:
        found = newest_proof(service, draft.id)
        assert found is not None
        return found

    until(lambda: proof().progress is not None, "the comparison begins")
    proof_id = proof().id
    service.change(operations.cancel_run, proof_id)
    until(lambda: not service.runs._attempts, "it ends")
    differs = {
        "matched": 3,
        "archived": 5,
        "differences": [SCRIPT],
        "notes": [],
    }
    run = replace(proof(), result=differs, verdict="bad", stage=RunStage.DONE, report=report)
    store(service, run)
    page = browser.get(here)
    assert "3 of 5 records" in page
    assert SCRIPT not in page


def test_roles_decide_what_is_shown_and_done(
    open_browser: Callable[..., Browser], secured: RestSecurity, draft: Run
) -> None:
    here = f"/ui/restores/{draft.id}"
    reader = open_browser(secured, Authorization="Bearer READ")
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    assert "New restore" not in reader.get("/ui/restores").replace("<title>New", "")
    reader.get(f"{here}/plan", 403)
    assert "check" in operator.get(f"{here}/plan")
    assert "Start the restore" not in operator.get(f"{here}/check")
    operator.get("/ui/new-restore", 403)
    admin = open_browser(secured, Authorization="Bearer ADMIN")
    token = admin.token(f"{here}/check")
    assert "Start the restore" in admin.get(f"{here}/check")
    admin.client.headers["Authorization"] = "Bearer OPERATE"
    admin.post(f"{here}/start", token, 403)


def test_a_restore_into_topics_with_records_starts_only_when_its_id_is_typed(
    service: ConsoleService, browser: Browser, draft: Run
) -> None:
    here = f"/ui/restores/{draft.id}"
    assert "to confirm" not in browser.get(f"{here}/check")
    token = browser.token(f"{here}/where")
    browser.post(f"{here}/where", token, **{"key:restore.into.non.empty": "true"})
    assert "add records to topics that already hold some" in browser.get(f"{here}/check")
    refused = browser.post(f"{here}/start", token, 400)
    assert "Nothing was started." in refused.text
    assert service.runs.find(draft.id).stage is RunStage.DRAFT
    browser.post(f"{here}/start", token, confirm=draft.id)
    assert service.runs.find(draft.id).stage is not RunStage.DRAFT


def test_the_timeline_reaches_back_to_the_first_commit_of_a_long_log(
    service: ConsoleService, browser: Browser, place: ArchivePlace, draft: Run
) -> None:
    built = build_archive(open_store(place.address), {"more": [partition(0, 1)]}, name="second")
    for _ in range(400):
        built.log.append(Changes(note="x"))
    browser.post(
        f"/ui/restores/{draft.id}/what",
        browser.token(f"/ui/restores/{draft.id}/what"),
        **{"key:restore.log": "second", "key:restore.commit": "37"},
    )
    page = browser.get(f"/ui/restores/{draft.id}/what")
    numbers = [int(one) for one in re.findall(r'id="commit-(\d+)"', page)]
    assert numbers[0] >= 392 and numbers[-1] == 0
    assert max(a - b for a, b in pairwise(numbers)) <= 8  # no part of the time is left out
    assert 'value="37" checked' in page  # though it is not one of the sample
    assert numbers == [int(one) for one in re.findall(r'data-option="commit-(\d+)"', page)]
    assert f"{len(numbers)} of {built.log.state.commits} commits are listed" in page
