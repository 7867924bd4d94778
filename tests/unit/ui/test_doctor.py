"""The checks on the page of the settings, and in the REST API."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.ui.conftest import SCRIPT, Browser, ConsoleService

from kafkeep.check_result import Check, CheckStatus
from kafkeep.connect.catalog.doctor import CheckedPart

PART = CheckedPart(
    title="Kafka",
    place=SCRIPT,
    checks=(
        Check(CheckStatus.PASS, "kafka", "cluster c"),
        Check(CheckStatus.WARN, "kafka topics", SCRIPT, "Grant Describe."),
        Check(CheckStatus.FAIL, "kafka groups", "denied", None, 12),
    ),
)


@pytest.fixture(autouse=True)
def doctor(service: ConsoleService) -> None:
    found: Any = SimpleNamespace(doctor=SimpleNamespace(examine=lambda: [PART]))
    service.catalog = found


def test_the_checks_are_run_by_a_button_with_and_without_htmx(browser: Browser) -> None:
    token = browser.token("/ui/settings")
    page = browser.post("/ui/settings/doctor", token, 200).text
    for word in ("Passed", "Warning", "Failed", "cluster c", "Grant Describe.", "denied"):
        assert word in page
    assert SCRIPT not in page
    assert "<html" in page
    browser.client.headers["HX-Request"] = "true"
    assert "<html" not in browser.post("/ui/settings/doctor", token, 200).text


def test_a_reader_may_not_run_them(open_browser: Callable[..., Browser], secured: object) -> None:
    reader = open_browser(secured, Authorization="Bearer READ")
    assert "needs the role operate" in reader.get("/ui/settings")
    reader.post("/ui/settings/doctor", "", 403)
    assert reader.client.post("/kafkeep/v1/doctor").status_code == 403


def test_scripts_run_the_same_checks(browser: Browser) -> None:
    [part] = browser.client.post("/kafkeep/v1/doctor").json()["parts"]
    assert part["verdict"] == "fail"
    assert [one["verdict"] for one in part["checks"]] == ["pass", "warn", "fail"]
    assert part["checks"][2]["exit_code"] == 12
