"""The pages of verifications, drills and schedules, for a browser without JavaScript."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.archive_builder import Built, build_archive, partition
from tests.support.waiting import until
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService

from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.runs.run import ENDED
from kafkeep.store.open import open_store


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return build_archive(open_store(str(tmp_path)), {"orders": [partition(0, 10, 25)]})


@pytest.fixture
def place(service: ConsoleService, built: Built, tmp_path: Path) -> ArchivePlace:
    place = ArchivePlace(address=str(tmp_path), connectors=("backup",))
    service.places = [place]
    return place


@pytest.fixture
def at(place: ArchivePlace) -> str:
    return f"/ui/archive/{place.id}/verification"


def wait_ended(service: ConsoleService) -> None:
    until(lambda: all(one.stage in ENDED for one in service.runs.find_all()), "all runs ended")


def start(browser: Browser, service: ConsoleService, path: str, **form: str) -> str:
    """Start a check and return the address of its page."""
    answer = browser.post(path, browser.token(path), when="now", **form)
    wait_ended(service)
    return str(answer.headers["location"])


def test_an_archive_is_verified_from_its_page(
    at: str, service: ConsoleService, browser: Browser
) -> None:
    assert "No verification was run from here yet." in browser.get(at)
    run = start(browser, service, at, deep="true", topics="orders")
    page = browser.get(run)
    assert "Intact" in page
    assert "all decoded" in page
    assert "Every object matches the log." in browser.get(f"{run}/report")
    listed = browser.get(at)
    assert "The archive was intact" in listed
    assert f'href="{run}"' in listed
    download = browser.client.get(f"{run}/report.html")
    assert download.headers["content-disposition"].startswith("attachment")
    assert "<h1>Archive verified</h1>" in download.text


def test_damage_is_shown_with_its_object_on_the_run_and_the_overview(
    at: str, built: Built, tmp_path: Path, service: ConsoleService, browser: Browser
) -> None:
    (tmp_path / built.entries[0].key).unlink()
    page = browser.get(start(browser, service, at))
    assert "Damaged" in page
    assert "missing" in page
    assert "0000000000.<wbr>log" in page
    assert "The archive was damaged" in browser.get(at)
    assert "The last verification found damage" in browser.get("/ui/")


def test_a_drill_is_run_and_reported_and_what_it_says_is_escaped(
    place: ArchivePlace, service: ConsoleService, browser: Browser
) -> None:
    assert "No drill was run yet." in browser.get("/ui/drills")
    run = start(browser, service, "/ui/drills", **{"archive.id": place.id, "sample": "5%"})
    for path in (run, f"{run}/report", "/ui/drills"):
        text = browser.get(path)
        assert "<script>alert" not in text
        assert not re.search(r"<[^>]+\s(style|on\w+)=", text)
    assert html.escape(SCRIPT) in browser.get(run)
    assert "Proven" in browser.get("/ui/drills")
    again = browser.post(f"{run}/again", browser.token(run))
    wait_ended(service)
    assert again.headers["location"] != f"{run}?done=started"
    assert "5%" in browser.get(again.headers["location"].partition("?")[0])
    token = browser.token(f"{run}/delete")
    refused = browser.post(f"{run}/delete", token, 400, confirm="it")
    assert "Nothing was deleted." in refused.text
    removed = browser.post(f"{run}/delete", token, confirm=run.rpartition("/")[2])
    assert removed.headers["location"] == "/ui/drills?done=removed"
    browser.get(run, 404)


def test_schedules_are_added_shown_and_deleted(
    at: str, place: ArchivePlace, service: ConsoleService, browser: Browser
) -> None:
    when = {"when": "schedule", "every": "sunday", "at": "03:30"}
    for path, more in ((at, {}), ("/ui/drills", {"archive.id": place.id})):
        answer = browser.post(path, browser.token(path), **when, **more)
        assert answer.headers["location"] == f"{path}?done=scheduled"
        page = browser.get(answer.headers["location"])
        assert "Every Sunday at 03:30" in page
        [delete] = re.findall(r'href="(/ui/schedules/[^"]+)"', page)
        token = browser.token(delete)
        assert "Nothing was deleted." in browser.post(delete, token, 400, confirm="yes").text
        assert len(service.runs.schedules.find_all()) == 1
        gone = browser.post(delete, token, confirm=delete.split("/")[3])
        assert gone.headers["location"] == f"{path}?done=unscheduled"
    assert service.runs.schedules.find_all() == []


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"sample": "much"}, "is not a sample"),
        ({"archive.id": "none"}, "uses an archive"),
        ({"when": "schedule", "every": "day", "at": "25:00"}, "must be a time"),
        ({"topics": "a b"}, "is not a valid topic name"),
    ],
)
def test_a_form_with_a_mistake_is_shown_again_with_a_sentence(
    form: dict[str, str], sentence: str, place: ArchivePlace, browser: Browser
) -> None:
    sent = {"archive.id": place.id, "when": "now", **form}
    text = browser.post("/ui/drills", browser.token("/ui/drills"), 400, **sent).text
    assert sentence in html.unescape(text)
    if "sample" in form:
        assert 'value="much"' in text


def test_the_live_parts_are_those_of_the_page(
    place: ArchivePlace, service: ConsoleService, browser: Browser
) -> None:
    run = start(browser, service, "/ui/drills", **{"archive.id": place.id})
    for query, part in (
        (f"page=check&name={run.rpartition('/')[2]}", "run"),
        ("page=drills", "rows"),
    ):
        with browser.client.stream("GET", f"/ui/events?{query}") as stream:
            lines = (line for line in stream.iter_lines() if line.startswith("event:"))
            assert next(lines) == f"event: {part}"


def test_the_overview_shows_the_last_verification_and_drill(
    at: str, place: ArchivePlace, service: ConsoleService, browser: Browser
) -> None:
    before = browser.get("/ui/")
    assert before.count("none yet") == 2
    start(browser, service, at)
    start(browser, service, "/ui/drills", **{"archive.id": place.id})
    after = browser.get("/ui/")
    assert "none yet" not in after
    service.drills.verdict = "bad"
    start(browser, service, "/ui/drills", **{"archive.id": place.id})
    assert "The last drill found differences" in browser.get("/ui/")


def test_a_reader_starts_and_schedules_nothing(
    at: str,
    place: ArchivePlace,
    service: ConsoleService,
    open_browser: Callable[..., Browser],
    secured: object,
) -> None:
    reader = open_browser(secured, Authorization="Bearer READ")
    for path in (at, "/ui/drills"):
        text = reader.get(path)
        assert "<button" not in text.split("<main", 1)[1].split("</main", 1)[0]
        reader.post(path, "", 403, when="now")
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    run = start(operator, service, at)
    assert "/delete" not in operator.get(run)
    operator.post(f"{run}/delete", operator.token(run), 403)
    assert reader.get(run)
