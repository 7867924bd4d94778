"""The pages that move a group, over moves that are made up."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService
from tests.unit.ui.test_groups import HOSTILE, SAVED, FakeGroups

from kafkeep.check_result import Check, CheckStatus
from kafkeep.connect.catalog.group_moves import (
    GroupMovePlan,
    GroupMoveRequest,
    OffsetSnapshot,
    PlannedMove,
)
from kafkeep.connect.model import RestError
from kafkeep.connect.rest.call import to_segment
from kafkeep.errors import PreflightError
from kafkeep.restore.groups.plan import GroupMove, GroupPlan
from kafkeep.ui.display import visible
from kafkeep.ui.pages.group_moves import ROWS_SHOWN

AT = f"/ui/groups/{to_segment(HOSTILE)}"
MOVE = GroupMove(HOSTILE, SCRIPT, 0, 40, 50, "the archive starts at 50")


class FakeMoves:
    """Answers as ``GroupMoves`` does; remembers what was set."""

    def __init__(self) -> None:
        self.applied: list[tuple[GroupMoveRequest, str]] = []
        self.returned: list[OffsetSnapshot] = []
        self.checks: tuple[Check, ...] = ()
        self.error: Exception | None = None
        self.live = 1050
        self.kept = OffsetSnapshot(
            archive="0123456789",
            address="s3://b/prod",
            restore="abc",
            revision=4,
            at_ms=1_700_000_000_000,
            offsets={(SCRIPT, 0): 30, ("orders", 1): None},
            is_finished=False,
        )

    def plan(self, request: GroupMoveRequest) -> GroupMovePlan:
        return GroupMovePlan(
            request=replace(request, archive="0123456789", log="nightly"),
            address="s3://b/prod",
            log="nightly",
            moves=(PlannedMove(move=MOVE, live=self.live),),
            checks=self.checks,
            digest="d1",
        )

    def apply(self, request: GroupMoveRequest, digest: str) -> GroupPlan:
        if self.error is not None:
            raise self.error
        self.applied.append((request, digest))
        return GroupPlan((MOVE,))

    def snapshots(self, group: str) -> list[OffsetSnapshot]:
        return [self.kept] if group == HOSTILE else []

    def snapshot(self, group: str, archive: str, restore: str, revision: int) -> OffsetSnapshot:
        if (archive, restore, revision) != ("0123456789", "abc", 4):
            raise RestError(404, "There are no stored offsets")
        return self.kept

    def split_missing(self, snapshot: OffsetSnapshot) -> Any:
        return {(SCRIPT, 0): 30}, [("orders", 1)]

    def live_offsets(self, group: str) -> dict[tuple[str, int], int]:
        return {(SCRIPT, 0): 50}

    def roll_back(self, group: str, snapshot: OffsetSnapshot) -> list[tuple[str, int]]:
        if self.error is not None:
            raise self.error
        self.returned.append(snapshot)
        return [("orders", 1)]


@pytest.fixture
def moves(service: ConsoleService) -> FakeMoves:
    groups, fake = FakeGroups(), FakeMoves()
    groups.saved = lambda group: [SAVED] if group == HOSTILE else []  # type: ignore[attr-defined]
    service.catalog = SimpleNamespace(  # type: ignore[assignment]
        groups=groups, group_moves=fake
    )
    return fake


def hidden_fields(page: str) -> dict[str, str]:
    """Return what the form that changes something would send."""
    form = page.partition('<form method="post"')[2].partition("</form>")[0]
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


def test_a_plan_is_applied_when_the_name_is_typed(browser: Browser, moves: FakeMoves) -> None:
    page = browser.get(f"{AT}/plan?plan=yes&commit=7&topics=a:b")
    assert SCRIPT not in page
    assert "limited: the archive starts at 50" in page
    assert "-1000" in page
    fields = hidden_fields(page)
    token = fields.pop("csrf")
    wrong = browser.post(f"{AT}/apply", token, 400, **fields, confirm="billing").text
    assert "That is not the name of this group" in wrong
    assert hidden_fields(wrong) == {"csrf": token, **fields}
    assert moves.applied == []
    answer = browser.post(f"{AT}/apply", token, **fields, confirm=visible(HOSTILE))
    [(request, digest)] = moves.applied
    assert digest == "d1"
    assert request == GroupMoveRequest(
        group=HOSTILE, archive="0123456789", log="nightly", commit=7, topics=(("a", "b"),)
    )
    assert "The offsets of the group were set" in browser.get(answer.headers["location"])


@pytest.mark.usefixtures("moves")
def test_the_form_comes_first_and_the_plan_by_a_link_or_by_htmx(browser: Browser) -> None:
    page = browser.get(f"{AT}/plan?commit=7")
    assert "What would be set" not in page
    assert 'value="7"' in page
    link = re.search(r'hx-get="([^"]+)"', page)
    assert link is not None
    assert "What would be set, from commit 7" in browser.get(link[1].replace("&amp;", "&"))


def test_a_plan_that_changes_nothing_is_not_applied(browser: Browser, moves: FakeMoves) -> None:
    moves.live = 50
    page = browser.get(f"{AT}/plan?plan=yes")
    assert "already has these offsets" in page
    assert 'method="post"' not in page


@pytest.mark.usefixtures("moves")
@pytest.mark.parametrize("query", ["", "?plan=yes", "?plan=yes&log=&commit=3"])
def test_every_tab_answers_for_a_group_without_saved_offsets(query: str, browser: Browser) -> None:
    page = browser.get(f"/ui/groups/only-in-kafka/plan{query}")
    assert "No archive has offsets of this group" in page
    assert "<form" not in page.partition('id="plan"')[0].partition("Parts of the group")[2]
    assert "kafkeep has not changed" in browser.get("/ui/groups/only-in-kafka/history")


def test_a_refused_plan_cannot_be_applied(browser: Browser, moves: FakeMoves) -> None:
    moves.checks = (Check(CheckStatus.FAIL, "group g", "it has active members", "Stop them."),)
    page = browser.get(f"{AT}/plan?plan=yes")
    assert "it has active members. Stop them." in page
    assert 'method="post"' not in page


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (RestError(409, "The plan has changed"), 409, "The plan has changed"),
        (PreflightError("group g is active", hint="Stop it."), 409, "Nothing was set: group g is"),
    ],
)
def test_a_move_that_is_refused_late_shows_the_plan_again(
    error: Exception, status: int, words: str, browser: Browser, moves: FakeMoves
) -> None:
    fields = hidden_fields(browser.get(f"{AT}/plan?plan=yes"))
    moves.error = error
    confirm = visible(HOSTILE)
    page = browser.post(f"{AT}/apply", fields.pop("csrf"), status, **fields, confirm=confirm).text
    assert words in page
    assert "What would be set" in page


@pytest.mark.usefixtures("moves")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("commit=x", "commit must be a whole number"),
        ("at=soon", "soon"),
        ("topics=a:", "is not a topic"),
    ],
)
def test_a_wrong_field_is_named_and_kept(query: str, words: str, browser: Browser) -> None:
    page = browser.get(f"{AT}/plan?plan=yes&{query}", 400)
    assert words in page
    assert f'value="{query.partition("=")[2]}"' in page


def test_the_history_leads_to_a_roll_back(browser: Browser, moves: FakeMoves) -> None:
    page = browser.get(f"{AT}/history")
    assert "The change was interrupted" in page
    link = re.search(r'href="([^"]+/roll-back[^"]+)"', page)
    assert link is not None
    asked = browser.get(link[1].replace("&amp;", "&"))
    assert "orders-1" in asked  # left out
    assert "-20" in asked
    fields = hidden_fields(asked)
    token = fields.pop("csrf")
    browser.post(f"{AT}/roll-back", token, 400, **fields, confirm="")
    moves.error = PreflightError("group g is active")
    refused = browser.post(f"{AT}/roll-back", token, 409, **fields, confirm=visible(HOSTILE)).text
    assert "Nothing was set: group g is active" in refused
    assert moves.returned == []
    moves.error = None
    answer = browser.post(f"{AT}/roll-back", token, **fields, confirm=visible(HOSTILE))
    assert moves.returned == [moves.kept]
    assert "has the offsets of the snapshot again" in browser.get(answer.headers["location"])
    browser.get(f"{AT}/roll-back?archive=x&restore=abc&revision=4", 404)
    assert "kafkeep has not changed" in browser.get("/ui/groups/billing/history")


@pytest.mark.usefixtures("moves")
def test_only_an_administrator_may_set_offsets(
    open_browser: Callable[..., Browser], secured: object
) -> None:
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    page = operator.get(f"{AT}/plan?plan=yes")
    assert "Only an administrator" in page
    assert 'method="post"' not in page
    assert "roll-back" not in operator.get(f"{AT}/history")
    operator.get(f"{AT}/roll-back?archive=0123456789&restore=abc&revision=4", 403)
    operator.post(f"{AT}/apply", "", 403)
    answer = operator.client.post(f"/kafkeep/v1/groups/{to_segment(HOSTILE)}/apply", json={})
    assert answer.status_code == 403


def test_scripts_plan_apply_and_roll_back(browser: Browser, moves: FakeMoves) -> None:
    at = f"/kafkeep/v1/groups/{to_segment(HOSTILE)}"
    plan = browser.client.get(f"{at}/plan", params={"commit": "7"}).json()
    assert plan["moves"][0]["live"] == 1050
    assert plan["refused"] is False
    assert browser.client.post(f"{at}/apply", json={"commit": 7}).status_code == 400
    body = {"digest": plan["digest"], "commit": 7, "exact_offsets": True}
    assert browser.client.post(f"{at}/apply", json=body).json()["moved"][0]["offset"] == 50
    assert moves.applied[0][0].exact_offsets
    [kept] = browser.client.get(f"{at}/history").json()["snapshots"]
    place = {name: kept[name] for name in ("archive", "restore", "revision")}
    answer = browser.client.post(f"{at}/rollback", json=place)
    assert answer.json() == {"left_out": ["orders-1"]}
    assert browser.client.post(f"{at}/rollback", json={"revision": []}).status_code == 400


def test_a_large_plan_shows_its_first_rows_and_leads_to_all(
    browser: Browser, moves: FakeMoves
) -> None:
    many = tuple(
        PlannedMove(move=GroupMove(HOSTILE, "orders", n, n, n, ""), live=n) for n in range(20_000)
    )
    one_plan = moves.plan
    moves.plan = lambda request: replace(one_plan(request), moves=many)  # type: ignore[method-assign]
    page = browser.get(f"{AT}/plan?plan=yes&commit=7")
    assert page.count('<th scope="row">') == ROWS_SHOWN
    assert f"The first {ROWS_SHOWN} of 20,000 partitions are shown" in page
    assert f'href="/kafkeep/v1/groups/{to_segment(HOSTILE)}/plan?commit=7"' in page
    assert len(page) < 200_000


def test_a_large_roll_back_shows_its_first_rows_and_leads_to_all(
    browser: Browser, moves: FakeMoves
) -> None:
    offsets: dict[tuple[str, int], int | None] = {("orders", n): n for n in range(20_000)}
    moves.kept = replace(moves.kept, offsets=offsets)
    moves.split_missing = lambda snapshot: (offsets, [])  # type: ignore[method-assign]
    page = browser.get(f"{AT}/roll-back?archive=0123456789&restore=abc&revision=4")
    assert page.count('<th scope="row">') == ROWS_SHOWN
    for text in (page, browser.get(f"{AT}/history")):
        assert f"The first {ROWS_SHOWN} of 20,000" in text
        assert f'href="/kafkeep/v1/groups/{to_segment(HOSTILE)}/history"' in text
        assert len(text) < 200_000
