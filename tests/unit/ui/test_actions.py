"""Changes from the pages, without JavaScript: forms, tokens, roles, the audit log."""

from __future__ import annotations

import html
import json
import logging
import re
from collections.abc import Callable

import pytest
from tests.unit.ui.conftest import GOOD, Browser, ConsoleService

from kafkeep.connect.model import TargetState

AT = "/ui/connectors/orders"


@pytest.fixture(autouse=True)
def orders(service: ConsoleService) -> None:
    service.create("orders", GOOD, TargetState.RUNNING)


@pytest.mark.parametrize(
    ("action", "target"),
    [("pause", TargetState.PAUSED), ("stop", TargetState.STOPPED), ("resume", TargetState.RUNNING)],
)
def test_an_action_changes_the_connector_and_leads_back_to_it(
    action: str, target: TargetState, service: ConsoleService, browser: Browser
) -> None:
    answer = browser.post(f"{AT}/{action}", browser.token(AT))
    assert answer.headers["location"] == f"{AT}?done={action}"
    assert service.connector("orders").target is target
    assert 'role="status">The connector' in browser.get(answer.headers["location"])


def test_restarts_lead_back(browser: Browser) -> None:
    token = browser.token(AT)
    for what in ("all", "failed", "connector"):
        browser.post(f"{AT}/restart", token, what=what)
    browser.post(f"{AT}/restart", token, 400, what="everything")
    browser.post(f"{AT}/tasks/0/restart", token)
    browser.post(f"{AT}/tasks/x/restart", token, 404)


@pytest.mark.parametrize("token", ["", "0" * 64, "ü"])
def test_a_form_without_its_token_is_refused(
    token: str, service: ConsoleService, browser: Browser
) -> None:
    browser.token(AT)
    answer = browser.post(f"{AT}/pause", token, 403)
    assert "no valid token" in answer.text
    assert service.connector("orders").target is TargetState.RUNNING


def test_a_token_is_worth_nothing_with_another_browser(
    open_browser: Callable[..., Browser], browser: Browser
) -> None:
    stranger = open_browser()
    stranger.get("/ui/")
    stranger.post(f"{AT}/pause", browser.token(AT), 403)


def test_the_cookie_is_not_for_scripts_or_other_sites(browser: Browser) -> None:
    cookie = browser.client.get("/ui/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "set-cookie" not in browser.client.get("/ui/").headers


def test_a_connector_is_deleted_only_by_its_name(service: ConsoleService, browser: Browser) -> None:
    token = browser.token(f"{AT}/delete")
    assert "Nothing was deleted" in browser.post(f"{AT}/delete", token, 400, confirm="order").text
    assert service.names() == ["orders"]
    assert browser.post(f"{AT}/delete", token, confirm="orders").headers["location"] == (
        "/ui/connectors?done=deleted"
    )
    assert service.names() == []


def test_every_change_is_in_the_audit_log(
    browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    token = browser.token(AT)
    with caplog.at_level(logging.INFO, "kafkeep.ui"):
        browser.post(f"{AT}/pause", token)
        browser.post(f"{AT}/pause", "", 403)
    assert [record.getMessage() for record in caplog.records] == [
        "'everyone' POST /ui/connectors/orders/pause: 303",
        "'everyone' POST /ui/connectors/orders/pause: 403",
    ]


def test_a_reader_may_not_change_and_an_operator_may_not_delete(
    service: ConsoleService, open_browser: Callable[..., Browser], secured: object
) -> None:
    reader = open_browser(secured, Authorization="Bearer READ")
    reader.get("/ui/")
    reader.post(f"{AT}/pause", "", 403)
    operator = open_browser(secured, Authorization="Bearer OPERATE")
    token = operator.token(AT)
    operator.post(f"{AT}/pause", token)
    operator.post(f"{AT}/delete", token, 403, confirm="orders")
    assert service.names() == ["orders"]


def fields_of(text: str) -> dict[str, str]:
    """Return what a browser would send of the form of a configuration."""
    form = text.split('id="config"', 1)[1].split("</form>", 1)[0]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if "name" in attributes:
            found[attributes["name"]] = html.unescape(attributes.get("value", ""))
    for name, inner in re.findall(r'<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.S):
        chosen = re.search(r"<option selected>([^<]*)", inner)
        found[name] = html.unescape(chosen[1]) if chosen else ""
    for name, inner in re.findall(
        r'<textarea[^>]*name="([^"]+)"[^>]*>(.*?)</textarea>', form, re.S
    ):
        found[name] = html.unescape(inner)
    return found


def test_a_form_saved_as_it_is_keeps_every_key_and_the_secrets(
    service: ConsoleService, browser: Browser
) -> None:
    config = {**GOOD, "name": "orders", "value.converter.schemas.enable": "false", "note": "<a b>"}
    service.put_config("orders", config)
    text = browser.get(f"{AT}/edit")
    fields = fields_of(text)
    token = fields.pop("csrf")
    answer = browser.post(f"{AT}/edit", token, **fields)
    assert answer.headers["location"] == f"{AT}/config?done=unchanged"
    assert service.connector("orders").config == config


def test_form_and_json_hold_the_same_configuration(browser: Browser) -> None:
    fields = fields_of(browser.get(f"{AT}/edit"))
    token = fields.pop("csrf")
    as_json = browser.post("/ui/check-config", token, 200, **{**fields, "show": "json"}).text
    again = fields_of(as_json)
    assert json.loads(again["json"])["flush.size"] == "3"
    assert json.loads(again["json"])["aws.secret.access.key"] == "******"
    again.pop("csrf")
    back = browser.post("/ui/check-config", token, 200, **{**again, "show": "form"}).text
    shown = fields_of(back)
    shown.pop("csrf")
    assert shown == fields


def test_a_connector_is_created_from_a_template(service: ConsoleService, browser: Browser) -> None:
    fields = fields_of(browser.get("/ui/new-connector?template=json-to-s3"))
    token = fields.pop("csrf")
    wrong = {**fields, "connector": "", "key:topics": "events"}
    assert "needs a name" in browser.post("/ui/new-connector", token, 400, **wrong).text
    right = {**wrong, "connector": "events", "key:s3.bucket.name": "b"}
    answer = browser.post("/ui/new-connector", token, **right)
    assert answer.headers["location"] == "/ui/connectors/events?done=created"
    assert service.connector("events").config["flush.size"] == "1000"
    taken = browser.post("/ui/new-connector", token, 409, **right).text
    assert "already exists" in taken
    assert 'value="events"' in taken


def test_a_check_names_the_wrong_keys_and_changes_nothing(
    service: ConsoleService, browser: Browser
) -> None:
    fields = fields_of(browser.get(f"{AT}/edit"))
    token = fields.pop("csrf")
    wrong = {**fields, "key:flush.size": "many"}
    text = browser.post("/ui/check-config", token, 200, **wrong).text
    assert "Not a number" in text
    assert 'aria-invalid="true"' in text
    browser.client.headers["HX-Request"] = "true"
    live = browser.post("/ui/check-config", token, 200, **wrong).text
    assert "<html" not in live
    assert re.search(r'id="e-flush_2esize" hx-swap-oob="true">[^<]*Not a number', live)
    assert service.connector("orders").config["flush.size"] == "3"


@pytest.mark.parametrize("raw", ["{", "[]", '{"a": {}}', ""])
def test_json_that_is_no_configuration_is_shown_again(raw: str, browser: Browser) -> None:
    token = browser.token(f"{AT}/edit")
    sent = {"mode": "json", "json": raw, "connector": "orders", "is_new": "no"}
    text = browser.post(f"{AT}/edit", token, 400, **sent).text
    assert "was not accepted" in text
    assert fields_of(text)["json"] == raw


def test_a_verdict_on_raw_json_names_no_field_that_is_not_on_the_page(browser: Browser) -> None:
    token = browser.token(f"{AT}/edit")
    browser.client.headers["HX-Request"] = "true"
    config = json.dumps({"connector.class": GOOD["connector.class"], "flush.size": "x"})
    raw = browser.post("/ui/check-config", token, 200, mode="json", json=config, connector="a").text
    assert "flush.size" in raw
    assert "hx-swap-oob" not in raw
    assert "#f-" not in raw
    fields = {f"key:{key}": text for key, text in json.loads(config).items()}
    form = browser.post("/ui/check-config", token, 200, mode="form", connector="a", **fields).text
    assert "hx-swap-oob" in form
