"""The pages of topics: the list, and one topic with its coverage."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.archive_builder import FIRST_MS, build_archive, partition, records
from tests.support.connect.memory_cluster import log_of
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog import readings
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.catalog.topics.topic_catalog import GroupOnTopic
from kafkeep.errors import TransientError
from kafkeep.kafka.admin.admin import ConfigValue
from kafkeep.kafka.admin.groups import GroupOffsets
from kafkeep.store.open import open_store

TABS = ("", "/partitions", "/settings", "/groups", "/objects")


@pytest.fixture
def scene(
    service: ConsoleService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ConsoleService:
    """orders is archived up to 30 of 40 with a gap; users is live only; gone is archived only."""
    store = open_store(str(tmp_path))
    build_archive(
        store,
        {
            "orders": [partition(0, 10), partition(0, 10)],
            "orders~2": [partition(0, 10, 20, gaps=[OffsetRange(20, 30)]), partition(0, 5)],
            "gone": [partition(0, 3)],
        },
    )
    service.places.append(ArchivePlace(address=str(tmp_path), connectors=("sink",)))
    service.cluster.add(
        "orders", log_of(records(0, 40), start=30), log_of(records(0, 5)), topic_id="id-orders~2"
    )
    service.cluster.add("users", log_of(records(0, 3)))
    service.cluster.add("__offsets", log_of([]), internal=True)
    service.cluster.settings["orders"] = {
        "retention.ms": ConfigValue("2000", "topic"),
        "cleanup.policy": ConfigValue(SCRIPT, "default"),
    }
    groups = GroupOffsets({SCRIPT: {("orders", 0): 33}}, ["secret"])
    monkeypatch.setattr(
        "kafkeep.connect.catalog.topics.topic_catalog.load_group_offsets",
        lambda admin, topics: groups,
    )
    return service


def row(text: str, name: str) -> str:
    """Return the text of a topic's row."""
    found = re.search(rf'<tr>\s*<th scope="row"><a href="/ui/topics/{name}">.*?</tr>', text, re.S)
    assert found is not None, text
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split())


def test_the_list_shows_live_topics_beside_archived_ones(
    scene: ConsoleService, browser: Browser
) -> None:
    text = browser.get("/ui/topics")
    assert "hx-get" in text
    assert "Archived with gaps" in row(text, "orders")
    assert "2 incarnations" in row(text, "orders")
    assert "Not archived" in row(text, "users")
    assert "Only in the archive" in row(text, "gone")
    assert "__offsets" not in text
    live = browser.get("/ui/topics?live=yes")
    assert row(live, "orders").startswith("orders 2 incarnations Archived with gaps 2 15 ")
    assert re.search(r" 25 .* 10 10 2023-11-14", row(live, "orders"))
    assert "hx-get" not in live


def test_the_offsets_of_many_partitions_are_shown_from_a_moment_ago(
    scene: ConsoleService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, rest = "/ui/topics?live=yes", "topics?offsets=true"
    seconds = 100.0
    monkeypatch.setattr(readings, "LARGE", 1)
    monkeypatch.setattr(scene.cluster, "readings", readings.Readings(lambda: seconds))
    before = browser.get(at)
    scene.cluster.logs["orders", 0].end += 1000
    seconds += 1.5
    assert row(browser.get(at), "orders") == row(before, "orders")
    assert "those of 2 s ago" in browser.get(at)
    lags = {one["name"]: one["lag"] for one in call(browser, rest)["topics"]}
    assert lags["orders"] >= 1000, "a script gets present offsets"


def test_the_list_is_searched_filtered_and_paged(scene: ConsoleService, browser: Browser) -> None:
    def names(query: str) -> set[str]:
        return set(re.findall(r'<a href="/ui/topics/([^"]+)">', browser.get(f"/ui/topics?{query}")))

    assert names("q=ORD") == {"orders"}
    assert names("show=uncovered") == {"users"}
    assert names("show=covered") == {"orders"}
    assert names("show=archive-only") == {"gone"}
    assert names("show=gaps") == {"orders"}
    assert names("show=re-created") == {"orders"}
    assert names("show=internal") == {"__offsets"}
    assert names("q=none") == set()
    for number in range(120):
        scene.cluster.add(f"many-{number:03}", log_of([]))
    second = browser.get("/ui/topics?q=many&page=2")
    assert "of 120" in second
    assert row(second, "many-050")
    assert row(browser.get("/ui/topics?q=many&page=99"), "many-119")


def test_coverage_names_what_is_archived_waits_and_is_lost(
    scene: ConsoleService, browser: Browser
) -> None:
    text = browser.get("/ui/topics/orders")
    assert "Partition 0, offsets 0 to 40: 20 archived, 10 not yet archived, 10 lost" in text
    assert "Partition 1, offsets 0 to 5: 5 archived, 0 not yet archived, 0 lost" in text
    for kind in ("archived", "waiting", "gap", "live"):
        assert f'class="k-{kind}"' in text
    assert "incarnation 2" in text
    assert "only in the archive" in text
    assert "By time" in text


def test_a_log_can_be_chosen_when_several_hold_the_topic(
    scene: ConsoleService, browser: Browser, tmp_path: Path
) -> None:
    second = str(tmp_path / "second")
    Path(second).mkdir()
    build_archive(
        open_store(second), {"orders~2": [partition(18, 35), partition(0, 5)]}, name="json"
    )
    scene.places.append(ArchivePlace(address=second, connectors=("other",)))
    both = browser.get("/ui/topics/orders")
    assert "Partition 0, offsets 0 to 40: 35 archived, 5 not yet archived, 0 lost" in both
    place = scene.places[1].id
    assert f"log={place}%2Fjson" in both
    alone = browser.get(f"/ui/topics/orders?log={place}%2Fjson")
    assert "Partition 0, offsets 18 to 40: 17 archived, 5 not yet archived, 0 lost" in alone


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("name", ["orders", "users", "gone"])
def test_every_tab_of_every_topic_answers(
    scene: ConsoleService, browser: Browser, name: str, tab: str
) -> None:
    text = browser.get(f"/ui/topics/{name}{tab}")
    assert f"<title>{name} · kafkeep</title>" in text
    assert "<script>alert" not in text
    assert not re.search(r"<[^>]+\s(style|on\w+)=", text)


def test_settings_and_groups_are_shown_with_what_differs(
    scene: ConsoleService, browser: Browser
) -> None:
    settings = browser.get("/ui/topics/orders/settings")
    assert "<code>2000</code>" in settings
    assert "<code>1000</code>" in settings
    assert "differs" in settings
    groups = browser.get("/ui/topics/orders/groups")
    assert "/ui/groups/~" in groups
    assert "0: 33" in groups
    assert '<td data-label="Lag" class="number">7</td>' in groups
    assert "1 group: secret" in groups


def test_pages_work_while_kafka_does_not_answer(scene: ConsoleService, browser: Browser) -> None:
    scene.cluster.is_down = True
    text = browser.get("/ui/topics?live=yes")
    assert "Kafka cannot be read now: no broker of memory:9092 answers" in text
    assert row(text, "orders")
    for tab in TABS:
        assert "/ui/topics/gone" in browser.get(f"/ui/topics/gone{tab}")
    assert "Wait a moment" in browser.get("/ui/topics/users", 503)
    scene.cluster.is_down = False
    assert "Neither Kafka nor an archive has a topic nothing" in browser.get(
        "/ui/topics/nothing", 404
    )


def test_an_archive_that_cannot_be_read_is_named(
    scene: ConsoleService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(place: ArchivePlace) -> None:
        raise TransientError("the bucket does not answer")

    monkeypatch.setattr(scene.catalog.archives, "logs", fail)
    text = browser.get("/ui/topics")
    assert "cannot be read now: the bucket does not answer" in text
    assert row(text, "users")
    browser.get("/ui/topics/gone", 503)


def call(browser: Browser, path: str, status: int = 200) -> Any:
    answer = browser.client.get(f"/kafkeep/v1/{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


def test_rest_lists_topics_and_their_coverage(scene: ConsoleService, browser: Browser) -> None:
    found = call(browser, "topics?offsets=true&search=o")
    assert found["count"] == 2
    assert [one["name"] for one in found["topics"]] == ["gone", "orders"]
    assert found["topics"][1] == {
        "name": "orders",
        "in_kafka": True,
        "is_archived": True,
        "is_internal": False,
        "partitions": 2,
        "incarnations": 2,
        "records": 25,
        "bytes": found["topics"][1]["bytes"],
        "lost_offsets": 10,
        "lag": 10,
        "newest_record_ms": FIRST_MS + 19,
    }
    assert call(browser, "topics?limit=1&start=1")["topics"][0]["name"] == "orders"
    one = call(browser, "topics/orders")
    assert one["live"]["partitions"][0]["end"] == 40
    assert {log["incarnation"] for log in one["logs"]} == {1, 2}
    assert one["settings"] == {"retention.ms": "2000"}
    newest, oldest = call(browser, "topics/orders/coverage")["incarnations"]
    assert newest["partitions"][0] == {
        "partition": 0,
        "position": 30,
        "records": 20,
        "holes": 0,
        "live": [30, 40],
        "archived": [[0, 20]],
        "waiting": [[30, 40]],
        "gaps": [[20, 30]],
    }
    assert (oldest["incarnation"], oldest["in_kafka"]) == (1, False)
    call(browser, "topics/nothing", 404)
    assert "show must be one of" in call(browser, "topics?show=all", 400)["message"]
    assert "limit must be" in call(browser, "topics?limit=0", 400)["message"]


def test_rest_has_records_by_time_one_log_and_the_groups_of_a_topic(
    scene: ConsoleService, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = call(browser, "topics/orders/coverage")
    archived = sum(log["records"] for log in call(browser, "topics/orders")["logs"])
    assert sum(one["records"] for one in found["times"]) == archived
    assert {"from", "to", "records", "kind"} == found["times"][0].keys()
    log = f"{scene.places[0].id}/{found['incarnations'][0]['logs'][0]}"
    assert call(browser, f"topics/orders/coverage?log={log}")["incarnations"]
    assert "in a log" in call(browser, "topics/orders/coverage?log=x/y", 404)["message"]
    known = (GroupOnTopic("billing", {1: 5, 0: 3}, 7),), ("hidden",)
    monkeypatch.setattr(scene.catalog.topics, "groups", lambda topic: known)
    assert call(browser, "topics/orders/groups") == {
        "groups": [
            {
                "group": "billing",
                "lag": 7,
                "offsets": [{"partition": 0, "offset": 3}, {"partition": 1, "offset": 5}],
            }
        ],
        "denied": ["hidden"],
    }
