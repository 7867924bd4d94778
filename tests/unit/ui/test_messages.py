"""Messages of a topic in pages and REST, from Kafka and from archives, with hostile content."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.archive_builder import (
    FIRST_MS,
    ObjectPlan,
    PartitionPlan,
    build_archive,
    partition,
    records,
)
from tests.support.connect.memory_cluster import log_of
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService

from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.kafka.batch.layout import Record
from kafkeep.store.open import open_store

RTL = "\u202e"
HOSTILE = [
    Record(0, FIRST_MS, SCRIPT.encode(), SCRIPT.encode(), [(SCRIPT.encode(), SCRIPT.encode())]),
    Record(1, FIRST_MS, b"\x00\x1b[31m", f"{RTL}drow{RTL} \x07".encode()),
    Record(2, FIRST_MS, b"\xff\xfe", b"\xc3\x28 not UTF-8"),
    Record(3, -1, None, None, [(b"", None)]),
    Record(4, 2**63 - 1, b"", b""),
    Record(5, FIRST_MS, b"large", b"<b>" * 1_700_000),
    Record(6, FIRST_MS, b"json", json.dumps({"<script>alert": [1, 2]}).encode()),
    Record(7, FIRST_MS, b"x" * 70_000, b"small", [(b"h%d" % n, b"v") for n in range(500)]),
]


@pytest.fixture
def scene(service: ConsoleService, tmp_path: Path) -> ConsoleService:
    """hostile and plain are live and archived; gone is archived only."""
    store = open_store(str(tmp_path))
    build_archive(
        store,
        {
            "hostile": [PartitionPlan(objects=[ObjectPlan(records=HOSTILE)])],
            "plain": [partition(0, 40, 80, 120), partition(0, 30)],
            "gone": [partition(0, 3)],
            "gone~2": [partition(0, 5)],
        },
    )
    service.places.append(ArchivePlace(address=str(tmp_path), connectors=("sink",)))
    service.cluster.add("hostile", log_of(HOSTILE, batch=1))
    service.cluster.add("plain", log_of(records(0, 150), start=20), log_of(records(0, 30)))
    return service


def offsets(text: str) -> list[str]:
    """Return partition:offset of each row."""
    return re.findall(r'<span class="faint">(\d+):</span>(\S+?)</a>', text.replace("\n", ""))


def numbers(text: str) -> list[tuple[int, int]]:
    return [(int(p), int(o)) for p, o in offsets(text)]  # type: ignore[misc]


def link(text: str, label: str) -> str:
    found = re.search(rf'<a class="button" href="([^"]+)"[^>]*>{label}</a>', text)
    assert found is not None, f"no link {label}"
    return html.unescape(found[1])


@pytest.mark.parametrize("source", ["live", "archive"])
def test_messages_are_paged_from_the_newest_to_the_oldest_and_back(
    scene: ConsoleService, browser: Browser, source: str
) -> None:
    end, start = (150, 20) if source == "live" else (120, 0)
    path = f"/ui/topics/plain/messages?source={source}&partition=0&limit=100"
    text = browser.get(path)
    assert numbers(text) == [(0, n) for n in range(end - 1, max(start, end - 100) - 1, -1)]
    older = browser.get(link(text, "Older"))
    assert numbers(older) == [(0, n) for n in range(end - 101, start - 1, -1)]
    assert ">Older<" not in older
    assert numbers(browser.get(link(older, "Newer"))) == [(0, n) for n in range(end - 100, end)]


@pytest.mark.parametrize("source", ["live", "archive"])
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("start=oldest", {"live": (1, 0), "archive": (0, 0)}),
        ("start=offset&at=33&partition=0", {"live": (0, 33), "archive": (0, 33)}),
        (
            f"start=time&at={FIRST_MS + 55}&partition=0",
            {"live": (0, 55), "archive": (0, 55)},
        ),
    ],
)
def test_messages_begin_where_they_are_asked_for(
    scene: ConsoleService,
    browser: Browser,
    source: str,
    query: str,
    first: dict[str, tuple[int, int]],
) -> None:
    text = browser.get(f"/ui/topics/plain/messages?source={source}&{query}")
    assert numbers(text)[0] == first[source]
    assert len(numbers(text)) == 50


@pytest.mark.parametrize("source", ["live", "archive"])
def test_a_search_finds_keys_values_and_headers(
    scene: ConsoleService, browser: Browser, source: str
) -> None:
    def found(query: str) -> list[tuple[int, int]]:
        path = f"/ui/topics/plain/messages?source={source}&start=oldest&partition=0&{query}"
        return numbers(browser.get(path))

    assert found("search=key+77&in=key") == [(0, 77)]
    assert found("search=value+77") == [(0, 77)]
    assert found("search=value+77&in=key") == []
    assert found("search=77&in=header") == [(0, 77)]
    text = browser.get(f"/ui/topics/plain/messages?source={source}&search=no+such+text")
    assert re.search(r"Searched \d+ records and found 0", text)
    assert "No record here has that text" in text


@pytest.mark.parametrize("source", ["live", "archive"])
def test_hostile_content_shows_harmlessly(
    scene: ConsoleService, browser: Browser, source: str
) -> None:
    text = browser.get(f"/ui/topics/hostile/messages?source={source}&start=oldest")
    assert len(numbers(text)) == len(HOSTILE)
    assert len(text) < 100_000
    pages = [text]
    for offset in range(len(HOSTILE)):
        for decode in ("auto", "json", "avro", "text", "hex"):
            pages.append(
                browser.get(
                    f"/ui/topics/hostile/messages/0/{offset}?source={source}&decode={decode}"
                )
            )
    for page in pages:
        assert "<script>alert" not in page
        assert "<b>" not in page
        assert RTL not in page
        assert not re.search("[\x00-\x08\x0b-\x1f]", page)
        assert not re.search(r"<[^>]+\s(style|on\w+)=", page)
        assert len(page) < 400_000
    assert "⟨U+202E⟩drow" in text
    assert "9223372036854775807 ms" in text
    assert "This is only the beginning of 4.9 MiB" in browser.get("/ui/topics/hostile/messages/0/5")
    assert "The first 200 of 500 headers" in browser.get("/ui/topics/hostile/messages/0/7")


@pytest.mark.parametrize("source", ["live", "archive"])
def test_content_and_selections_are_downloaded_whole(
    scene: ConsoleService, browser: Browser, source: str
) -> None:
    at = "/ui/topics/hostile/messages"
    answer = browser.client.get(f"{at}/0/5/value?source={source}")
    assert answer.content == HOSTILE[5].value
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert browser.client.get(f"{at}/0/2/key?source={source}").content == b"\xff\xfe"
    browser.get(f"{at}/0/3/value?source={source}", 404)
    answer = browser.client.get(f"{at}.jsonl?source={source}&start=oldest")
    assert answer.headers["content-disposition"] == 'attachment; filename="hostile.jsonl"'
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [row["offset"] for row in rows] == list(range(len(HOSTILE)))
    assert rows[5]["payload"] == "<b>" * 1_700_000
    assert rows[2]["key_b64"] == "//4="
    assert rows[3]["payload"] is None
    found = browser.client.get(f"{at}.jsonl?source={source}&search=large").text
    assert [json.loads(line)["offset"] for line in found.splitlines()] == [5]


def test_an_incarnation_in_a_log_can_be_chosen(scene: ConsoleService, browser: Browser) -> None:
    text = browser.get("/ui/topics/gone/messages")
    assert len(numbers(text)) == 5
    place = scene.places[0].id
    old = browser.get(f"/ui/topics/gone/messages?source=archive&log={place}/backup/1")
    assert len(numbers(old)) == 3


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("source=both", "source must be live or archive"),
        ("partition=x", "partition must be a number"),
        ("partition=99", "has no partition 99"),
        ("start=offset&at=-1", "at must be a number"),
        ("start=time&at=yesterday", "is not a time"),
        ("start=now", "start must be one of"),
        ("in=body", "in must be one of"),
        ("decode=xml", "decode must be one of"),
        ("from=1", "position of the page cannot be read"),
        ("limit=9999", "limit must be a number from 0 to 500"),
        ("log=none&source=archive", "in a log"),
    ],
)
def test_a_wrong_selection_is_shown_with_the_form(
    scene: ConsoleService, browser: Browser, query: str, problem: str
) -> None:
    answer = browser.client.get(f"/ui/topics/plain/messages?{query}")
    assert answer.status_code in (200, 400, 404)
    text = html.unescape(answer.text)
    assert problem in text
    assert "Show messages" in text
    rest = browser.client.get(f"/kafkeep/v1/topics/plain/messages?{query}")
    assert query.startswith("decode") or rest.status_code in (400, 404), rest.text


def test_what_kafka_refuses_is_shown(scene: ConsoleService, browser: Browser) -> None:
    scene.cluster.is_down = True
    text = browser.get("/ui/topics/plain/messages?source=live", 503)
    assert "no broker of memory:9092 answers" in text
    text = browser.get("/ui/topics/plain/messages?source=archive&partition=0")
    assert len(numbers(text)) == 50


def test_a_damaged_object_is_named(scene: ConsoleService, browser: Browser, tmp_path: Path) -> None:
    for stored in tmp_path.rglob("plain+0+*.log.zst"):
        stored.write_bytes(b"x" * stored.stat().st_size)
    text = browser.get("/ui/topics/plain/messages?source=archive&partition=0&start=oldest")
    assert "plain+0+0000000000.log.zst" in text
    assert len(numbers(browser.get("/ui/topics/plain/messages?source=archive&partition=1"))) == 30


def test_messages_need_the_role_operate(
    scene: ConsoleService, open_browser: Callable[..., Browser], secured: Any
) -> None:
    reader = open_browser(secured, Authorization="Bearer READ")
    assert "/messages" not in reader.get("/ui/topics/plain")
    for path in ("messages", "messages.jsonl", "messages/0/30", "messages/0/30/value"):
        assert "role operate" in reader.get(f"/ui/topics/plain/{path}", 403)
    for path in ("messages", "messages.jsonl"):
        assert reader.client.get(f"/kafkeep/v1/topics/plain/{path}").status_code == 403
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    assert "/messages" in operator.get("/ui/topics/plain")
    assert numbers(operator.get("/ui/topics/plain/messages"))


@pytest.mark.parametrize("source", ["live", "archive"])
def test_rest_answers_with_the_fields_of_cat_and_cursors(
    scene: ConsoleService, browser: Browser, source: str
) -> None:
    path = f"/kafkeep/v1/topics/plain/messages?source={source}&start=offset&at=30&partition=0"
    found = browser.client.get(f"{path}&limit=2").json()
    assert found["source"] == source
    assert found["messages"][0] == {
        "topic": "plain",
        "partition": 0,
        "offset": 30,
        "tstype": "create",
        "ts": FIRST_MS + 30,
        "headers": ["n", "30"],
        "key": "key 30",
        "payload": "value 30",
        "position": 30,
        "key_bytes": 6,
        "value_bytes": 8,
    }
    assert (found["older"], found["newer"], found["is_end"]) == ("0:30", "0:32", False)
    more = browser.client.get(f"{path}&limit=2&from={found['newer']}").json()
    assert [one["offset"] for one in more["messages"]] == [32, 33]
    back = browser.client.get(f"{path}&limit=2&before={found['older']}").json()
    assert [one["offset"] for one in back["messages"]] == [29, 28]
    lines = browser.client.get(f"{path}".replace("/messages?", "/messages.jsonl?"))
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert json.loads(lines.text.splitlines()[0])["offset"] == 30
