"""The pages of archives, for a browser without JavaScript."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.waiting import until
from tests.unit.ui.conftest import GOOD, SCRIPT, Browser, ConsoleService

from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.catalog.archives.stored_objects import newest_objects
from kafkeep.connect.model import TargetState
from kafkeep.connect.worker.rest_security import RestSecurity
from kafkeep.store.open import open_store


@pytest.fixture
def at(service: ConsoleService, tmp_path: Path) -> str:
    """Return the address of an archive that has two logs, a gap and a hostile note."""
    store = open_store(str(tmp_path))
    built = build_archive(
        store,
        {
            "orders": [partition(0, 10, 25, gaps=[OffsetRange(25, 30)])],
            "orders~2": [partition(0, 2)],
        },
        checkpoint=True,
    )
    built.log.append(Changes(note=SCRIPT))
    build_archive(store, {"users": [partition(0, 3)]}, name="second")
    service.create("backup", GOOD, TargetState.RUNNING)
    place = ArchivePlace(address=str(tmp_path), connectors=("backup",))
    service.places = [place]
    return f"/ui/archive/{place.id}"


def links(text: str) -> set[str]:
    found = re.findall(r'(?:href|src|hx-get)="([^"#]+)', text)
    return {html.unescape(one) for one in found}


def test_every_page_of_an_archive_is_reached_by_links_and_escapes_its_content(
    at: str, browser: Browser
) -> None:
    seen: set[str] = set()
    waiting = {"/ui/archive"}
    while waiting:
        path = waiting.pop()
        seen.add(path)
        answer = browser.client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text[-600:]}"
        assert "<script>alert" not in answer.text
        assert not re.search(r"<[^>]+\s(style|on\w+)=", answer.text)
        mine = {one for one in links(answer.text) if one.startswith("/ui/archive")}
        waiting |= mine - seen
    for part in ("commits/1", "objects/orders~2/0", "object?log=", "storage", "warnings"):
        assert any(f"{at}/{part}" in one for one in seen), part
    assert len(seen) > 20


def test_the_tree_leads_from_topic_to_partition_to_object_to_messages(
    at: str, browser: Browser
) -> None:
    topics = browser.get(f"{at}/objects?log=backup")
    assert f"{at}/objects/orders?log=backup" in topics
    assert "re-created" in topics
    assert "Partition 0" in browser.get(f"{at}/objects/orders?log=backup")
    partition_page = browser.get(f"{at}/objects/orders/0?log=backup&offset=12")
    assert "10\N{EN DASH}24" in partition_page
    assert "0\N{EN DASH}9" not in partition_page
    link = next(one for one in links(partition_page) if "/object?" in one)
    page = browser.get(link)
    assert "10 to 24" in page
    assert re.search(r"<code>[0-9a-f]{64}</code>", page)
    assert "between" in page  # the checkpoint has merged its commits
    [messages] = [one for one in links(page) if "/messages?" in one]
    assert messages in links(partition_page)
    shown = re.findall(r"/messages/0/(\d+)\?", browser.get(messages))
    assert shown[0] == "10" and shown[-1] == "24"  # of this object, in this log and incarnation


def test_commits_show_what_they_brought_and_when_older_ones_follow(
    at: str, browser: Browser
) -> None:
    newest = browser.get(f"{at}/commits?log=backup")
    assert html.escape(SCRIPT) in newest
    assert "settings of 1 topic" in newest
    older = browser.get(f"{at}/commits?log=backup&before=1")
    assert f"{at}/commits/0?log=backup" in older
    assert f"{at}/commits/1?log=backup" not in older
    commit = browser.get(f"{at}/commits/1?log=backup")
    assert "5 offsets lost" in commit
    assert "retention" in commit
    browser.get(f"{at}/commits?before=x", 400)
    browser.get(f"{at}/commits/99?log=backup", 404)


def test_storage_has_a_chart_by_day_and_a_table_by_topic(at: str, browser: Browser) -> None:
    page = browser.get(f"{at}/storage")
    assert 'data-kind="bars"' in page
    assert "2023-11-14" in page
    assert "/objects/users?log=second" in page
    one = browser.get(f"{at}/storage?log=second")
    assert "/objects/orders?" not in one


def test_warnings_list_gaps_and_the_search_for_left_overs(
    at: str, browser: Browser, tmp_path: Path
) -> None:
    page = browser.get(f"{at}/warnings")
    assert "5 offsets were never archived, in 1 gap" in page
    assert "25\N{EN DASH}29" in page
    open_store(str(tmp_path)).put_new(
        "topics/orders/partition=0/orders+0+9.log.zst", b"x", {"kafkeep-writer": "backup"}
    )
    assert "Search now" in browser.get(f"{at}/left-overs")
    browser.post(f"{at}/left-overs", browser.token(f"{at}/warnings"))
    until(lambda: "The search runs" not in browser.get(f"{at}/left-overs"), "the search ends")
    assert "Search again" in browser.get(f"{at}/warnings")
    found = browser.get(f"{at}/left-overs")
    assert "orders+<wbr>0+<wbr>9.<wbr>log" in found
    assert "kafkeep gc --archive" in found
    assert len(list(tmp_path.glob("topics/orders/partition=0/orders+0+9.log.zst"))) == 1


def test_an_archive_without_a_commit_says_so_on_every_tab(
    service: ConsoleService, browser: Browser, tmp_path: Path
) -> None:
    place = ArchivePlace(address=str(tmp_path / "later"), connectors=("backup",))
    service.places = [place]
    for tab in ("", "/commits", "/objects", "/storage", "/warnings"):
        text = browser.get(f"/ui/archive/{place.id}{tab}")
        assert "Nothing was committed yet" in text or "no object yet" in text or "No gap" in text
    browser.get(f"/ui/archive/{place.id}/object?key=x", 404)


def test_what_is_not_there_is_a_page_with_a_sentence(at: str, browser: Browser) -> None:
    assert "uses an archive" in browser.get("/ui/archive/0123456789", 404)
    assert "no log named" in browser.get(f"{at}/objects?log=none", 404)
    browser.get(f"{at}/objects/none?log=backup", 404)
    browser.get(f"{at}/objects/{quote(SCRIPT, safe='')}?log=backup", 404)
    browser.get(f"{at}/objects/orders/x?log=backup", 400)
    browser.get(f"{at}/object?log=backup&key=none", 404)


def test_a_console_without_archives_says_how_to_begin(browser: Browser) -> None:
    assert "No connector of this service writes an archive yet." in browser.get("/ui/archive")


def test_the_objects_of_a_connector_lead_into_its_archive(
    at: str, service: ConsoleService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = service.catalog.archives.log(service.places[0], "second")
    monkeypatch.setattr(service, "objects", lambda name, limit: newest_objects(log, limit))
    page = browser.get("/ui/connectors/backup/objects")
    [link] = [one for one in links(page) if "/object?" in one]
    assert link.startswith(f"{at}/object?log=second&key=")
    assert "0 to 2" in browser.get(link)


def test_only_an_operator_has_the_bucket_listed_and_it_is_logged(
    at: str,
    open_browser: Callable[..., Browser],
    secured: RestSecurity,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    reader = open_browser(secured, Authorization="Bearer READ")
    assert "Search now" not in reader.get(f"{at}/warnings")
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    rest = f"{at.replace('/ui/archive', '/kafkeep/v1/archives')}/left-overs"
    assert reader.client.get(rest).status_code == 403
    assert operator.client.get(rest).status_code == 200
    assert "for left-over objects" in caplog.text
    operator.post(f"{at}/left-overs", operator.token(f"{at}/warnings"))
    assert f"POST {at}/left-overs: 303" in caplog.text
    until(lambda: "The search runs" not in operator.get(f"{at}/left-overs"), "the search ends")
    assert "role operate" in reader.post(f"{at}/left-overs", "0" * 64, 403).text
