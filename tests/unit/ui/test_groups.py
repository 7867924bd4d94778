"""The pages of consumer groups, over groups that are made up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService

from kafkeep.archive.entry import PartitionId
from kafkeep.connect.catalog.groups import (
    GroupDetails,
    GroupList,
    GroupOffset,
    GroupSummary,
    SavedGroup,
)
from kafkeep.errors import TransientError
from kafkeep.kafka.admin.describe_groups import GroupMember

HOSTILE = f"{SCRIPT}/..\u202e\n"
SAVED = SavedGroup(
    archive="0123456789",
    address="s3://b/prod",
    log="nightly",
    commit=7,
    at_ms=1_700_000_000_000,
    offsets={PartitionId("orders", 1, 0): 40},
    archived_to={PartitionId("orders", 1, 0): 90},
    topic_ids={("orders", 1): "id"},
)


class FakeGroups:
    """Answers as ``ConsumerGroups`` does; remembers how it was asked."""

    def __init__(self) -> None:
        self.problem = ""
        self.asked: dict[str, Any] = {}
        self.fails_at_lag = False
        names = [HOSTILE, *(f"group-{n:04d}" for n in range(150))]
        self.groups = tuple(
            GroupSummary(id=name, state="Empty", saved=tuple(SAVED.offsets)) for name in names
        )
        self.details_found = GroupDetails(
            id=HOSTILE,
            state="Stable",
            type="classic",
            members=(GroupMember("m-1", SCRIPT, "10.0.0.7", (("orders", 0),)),),
            saved=SAVED,
            choices=(SAVED,),
            rows=(
                GroupOffset(
                    topic=SCRIPT,
                    partition=0,
                    incarnation=2,
                    saved=40,
                    archived_to=90,
                    live=1050,
                    end=2000,
                ),
            ),
            row_count=1,
        )

    def list_all(self) -> GroupList:
        return GroupList(groups=self.groups, problem=self.problem)

    def with_lag(self, groups: list[GroupSummary]) -> list[GroupSummary]:
        if self.fails_at_lag:
            raise TransientError("no broker answers")
        return [replace(one, lag=1234) for one in groups]

    def details(self, group: str, **asked: Any) -> GroupDetails:
        self.asked = {"group": group, **asked}
        return self.details_found


@pytest.fixture
def groups(service: ConsoleService) -> FakeGroups:
    fake = FakeGroups()
    service.catalog = SimpleNamespace(groups=fake)  # type: ignore[attr-defined]
    return fake


@pytest.mark.usefixtures("groups")
def test_the_list_is_paged_and_searched(browser: Browser) -> None:
    first = browser.get("/ui/groups")
    assert first.count("<tr>") == 101
    assert "100 of 151" in first
    second = browser.get("/ui/groups?q=&page=2")
    assert second.count("<tr>") == 52
    assert "group-0149" in second
    found = browser.get("/ui/groups?q=GROUP-0007")
    assert found.count("<tr>") == 2
    assert "No group has “nobody”" in browser.get("/ui/groups?q=nobody")


@pytest.mark.usefixtures("groups")
def test_lag_comes_by_a_link_or_by_htmx(browser: Browser) -> None:
    assert "1,234" not in browser.get("/ui/groups")
    assert "1,234" in browser.get("/ui/groups?lag=yes")
    browser.client.headers["HX-Request"] = "true"
    part = browser.get("/ui/groups?q=&page=1")
    assert "<html" not in part
    assert "1,234" in part


def test_the_list_says_when_kafka_does_not_answer(browser: Browser, groups: FakeGroups) -> None:
    groups.fails_at_lag = True
    assert "Kafka does not answer: no broker answers" in browser.get("/ui/groups?lag=yes")
    groups.problem, groups.groups = "no broker", ()
    page = browser.get("/ui/groups")
    assert "Kafka does not answer: no broker" in page
    assert "hx-get" not in page.partition("<section")[2]


def test_a_hostile_name_leads_to_its_page_and_stays_text(
    browser: Browser, groups: FakeGroups
) -> None:
    listed = browser.get("/ui/groups")
    assert SCRIPT not in listed
    assert "\\u202e\\x0a" in listed
    link = listed.partition('href="/ui/groups/')[2].partition('"')[0]
    page = browser.get(f"/ui/groups/{link}")
    assert groups.asked["group"] == HOSTILE
    assert SCRIPT not in page
    assert "10.0.0.7" in page


def test_a_group_shows_saved_and_live_offsets(browser: Browser, groups: FakeGroups) -> None:
    page = browser.get("/ui/groups/billing?log=0123456789:nightly&commit=7")
    assert groups.asked == {
        "group": "billing",
        "archive": "0123456789",
        "log": "nightly",
        "commit": 7,
        "start": 0,
        "count": 200,
    }
    for text in ("commit 7", "+1010", "1,050", "2,000", "950", "~2"):
        assert text in page
    browser.get("/ui/groups/billing?commit=seven", 400)


def test_a_group_that_only_an_archive_has_is_shown(browser: Browser, groups: FakeGroups) -> None:
    rows = (replace(groups.details_found.rows[0], live=None, end=None, note="Not in Kafka."),)
    groups.details_found = replace(groups.details_found, state=None, type="", members=(), rows=rows)
    page = browser.get("/ui/groups/billing")
    assert "only an archive has it" in page
    assert "Not in Kafka." in page


def test_scripts_read_the_same(browser: Browser, groups: FakeGroups) -> None:
    listed = browser.client.get("/kafkeep/v1/groups", params={"limit": "2", "lag": "true"}).json()
    assert listed["total"] == 151
    assert [one["group"] for one in listed["groups"]] == [HOSTILE, "group-0000"]
    assert listed["groups"][0]["lag"] == 1234
    one = browser.client.get("/kafkeep/v1/groups/billing", params={"commit": "7"}).json()
    assert groups.asked["commit"] == 7
    assert one["saved"]["log"] == "nightly"
    assert one["offsets"][0] == {
        "topic": SCRIPT,
        "partition": 0,
        "incarnation": 2,
        "saved": 40,
        "archived_to": 90,
        "live": 1050,
        "end": 2000,
        "lag": 950,
        "note": None,
    }
    wrong = browser.client.get("/kafkeep/v1/groups", params={"limit": "-1"})
    assert wrong.status_code == 400
    assert "limit must be a whole number" in wrong.json()["message"]
