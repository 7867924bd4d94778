"""Archives, verifications and drills in Chromium on real Kafka, S3 and Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import check_pages
from tests.support.connect.serve_processes import Service, World
from tests.support.waiting import until

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
SLOW_MS = 120_000
NAME = "kept"
API = "/kafkeep/v1"
CHECKS = ("drills", "verifications")


@pytest.fixture(scope="module")
def archive(world: World, service: Service) -> str:
    """Return the address of the page of an archive that holds a topic."""
    topic = world.topic("drilled")
    topic.send(4)
    config = {
        "connector.class": "kafkeep.Backup",
        "topics": topic.name,
        "archive": f"s3://{world.services.s3.bucket}/{world.folder}-archive",
        "segment.age": "500ms",
    }
    service.call("POST", "/connectors", {"name": NAME, "config": config}, expect=201)

    def stored() -> Any:
        status = service.call("GET", f"/connectors/{NAME}/status").get("kafkeep", {})
        if status.get("lag_records") != 0 or "last_progress" not in status:
            return None
        [found] = service.call("GET", "/kafkeep/v1/archives")["archives"]
        return found["logs"] and found["logs"][0]["records"] == topic.sent and found["id"]

    return f"/ui/archive/{until(stored, 'every record is archived')}"


def test_the_tree_leads_to_an_object_and_its_messages(archive: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/ui/")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.get_by_role("rowheader").get_by_role("link").first.click()
    page.get_by_role("link", name="Objects").click()
    page.get_by_role("rowheader").get_by_role("link").first.click()
    page.get_by_role("link", name="Partition 1").click()
    page.get_by_role("rowheader").get_by_role("link").first.click()
    expect(page.get_by_text("SHA-256")).to_be_visible()
    page.get_by_role("link", name="Show its messages").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("drilled")


def test_left_overs_are_searched_without_leaving_the_page(
    archive: str, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(f"{archive}/warnings")
    page.get_by_role("button", name="Search now").click()
    expect(page.get_by_text("Nothing was left over.")).to_be_visible(timeout=SLOW_MS)


def test_an_archive_is_read_and_searched_without_javascript(
    archive: str, open_page: OpenPage
) -> None:
    page = open_page(javascript=False)
    page.goto(f"{archive}/storage")
    expect(page.locator("main")).to_contain_text("Show as a table")
    page.goto(f"{archive}/warnings")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url("**/left-overs")

    def is_over() -> bool:
        page.reload()
        return page.get_by_text("Nothing was left over.").is_visible()

    until(is_over, "the search is over")


def test_an_archive_is_verified_and_a_drill_proves_it(archive: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{archive}/verification")
    page.get_by_label("Depth").select_option("true")
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("h1 .badge")).to_have_text("Intact", timeout=SLOW_MS)
    page.goto(f"{archive}/verification")
    page.get_by_text("Verify it on a schedule").click()
    page.get_by_label("When").select_option("monday")
    page.get_by_role("button", name="Add the schedule").click()
    expect(page.get_by_text("Every Monday at 03:00")).to_be_visible()
    page.goto("/ui/drills")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("h1 .badge")).to_have_text("Proven", timeout=SLOW_MS)
    page.get_by_role("link", name="Report").click()
    expect(page.get_by_role("heading", name="Restore drill")).to_be_visible()
    page.goto("/ui/drills")
    page.get_by_text("Run it on a schedule").click()
    page.get_by_label("When").select_option("sunday")
    page.get_by_role("button", name="Add the schedule").click()
    expect(page.get_by_text("Every Sunday at 03:00")).to_be_visible()
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("to confirm").fill(page.locator("label strong").inner_text())
    page.get_by_role("button", name="Delete the schedule").click()
    expect(page.get_by_text("The schedule was deleted.")).to_be_visible()
    page.goto("/ui/")
    expect(page.get_by_text("records proven")).to_be_visible()


def test_a_failed_check_is_started_again(
    archive: str, service: Service, open_page: OpenPage
) -> None:
    # One broker cannot hold so many replicas.
    asked = {"archive.id": archive.rpartition("/")[2], "replication.factor": "5"}
    failing = service.call("POST", f"{API}/drills", asked, expect=201)["id"]
    page = open_page()
    page.goto(f"/ui/checks/{failing}")
    expect(page.locator("h1 .badge")).to_have_text("Failed", timeout=SLOW_MS)
    expect(page.get_by_role("alert")).to_contain_text("replication")
    check_pages(page, {"drill-failed": f"/ui/checks/{failing}"})
    page.get_by_role("button", name="Start again").click()
    expect(page.get_by_text("was started")).to_be_visible()
    expect(page.locator("h1 .badge")).to_have_text("Failed", timeout=SLOW_MS)


def test_a_check_is_cancelled_repeated_and_deleted(
    archive: str, service: Service, open_page: OpenPage
) -> None:
    def is_over(run: Mapping[str, Any]) -> bool:
        return run["state"] in ("done", "cancelled") and not run["is_stopping"]

    asked = {"archive.id": archive.rpartition("/")[2]}
    # Two run at once, so that the last one waits.
    ids = [service.call("POST", f"{API}/drills", asked, expect=201)["id"] for _ in range(4)]
    page = open_page()
    page.goto(f"/ui/checks/{ids[-1]}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("h1 .badge")).to_have_text("Cancelled", timeout=SLOW_MS)
    others = [f"{API}/drills/{one}" for one in ids[:-1]]
    for one in others:  # they only kept it waiting; those that are done already refuse
        service.http.post(f"{one}/cancel")
    # The topics of a drill that still runs would be a warning.
    until(lambda: all(is_over(service.call("GET", one)) for one in others), "the others are over")
    page.get_by_role("button", name="Run again").click()
    expect(page).not_to_have_url(re.compile(ids[-1]))
    expect(page.locator("h1 .badge")).to_have_text("Proven", timeout=SLOW_MS)

    page.goto(f"/ui/checks/{ids[-1]}")
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("to confirm").fill("another")
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("Nothing was deleted.")).to_be_visible()
    page.get_by_label("to confirm").fill(ids[-1])
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("The check was deleted.")).to_be_visible()
    assert ids[-1] not in [run["id"] for run in service.call("GET", f"{API}/drills")["runs"]]


def test_every_page_is_accessible_and_fits(
    archive: str, service: Service, open_page: OpenPage
) -> None:
    page = open_page()
    drill, verification = (
        next(f"/ui/checks/{run['id']}" for run in found if run["state"] == "done")
        for found in (service.call("GET", f"{API}/{one}")["runs"] for one in CHECKS)
    )
    [*_, stored] = service.call("GET", f"{API}/connectors/{NAME}/objects")["objects"]
    folder = f"{archive}/objects/{stored['topic']}"
    stored_page = f"{archive}/object?key={quote(stored['key'])}"
    page.goto(stored_page)
    commit = page.locator("dt", has_text="Commit").locator("+ dd a").get_attribute("href")
    assert commit is not None
    pages = {
        "archives": "/ui/archive",
        "archive": archive,
        "archive-commits": f"{archive}/commits",
        "archive-commit": commit,
        "archive-objects": f"{archive}/objects",
        "archive-topic": folder,
        "archive-partition": f"{folder}/{stored['partition']}",
        "archive-object": stored_page,
        "archive-storage": f"{archive}/storage",
        "archive-warnings": f"{archive}/warnings",
        "archive-verification": f"{archive}/verification",
        "verification": verification,
        "verification-report": f"{verification}/report",
        "check-delete": f"{verification}/delete",
        "drills": "/ui/drills",
        "drill": drill,
        "drill-report": f"{drill}/report",
    }
    chart = page.locator(".chart canvas")
    check_pages(page, pages, {"archive-storage": lambda: expect(chart).to_be_visible()})
