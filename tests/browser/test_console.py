"""The web console in Chromium on real Kafka, S3 and Spark. The tests share a service, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect
from tests.browser.conftest import AWAY, check_pages
from tests.support.connect.serve_processes import PARTITIONS, Service, Topic, World
from tests.support.independent_client import assert_same, dump
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
SLOW_MS = 60_000


def fill(page: Page, key: str, text: str) -> None:
    """Fill in the field of a key, wherever its group is."""
    page.locator(f'[name="key:{key}"]').evaluate(
        "(field) => { const group = field.closest('details'); if (group) group.open = true; }"
    )
    page.locator(f'[name="key:{key}"]').fill(text)


def objects_of(service: Service, connector: str) -> list[Any]:
    answer = service.call("GET", f"/kafkeep/v1/connectors/{connector}/objects")
    return list(answer["objects"])


def test_a_connector_is_created_broken_mended_and_deleted(
    world: World, service: Service, open_page: OpenPage
) -> None:
    topic = world.topic("console")
    topic.send(2)
    config = world.config(topic)
    page = open_page()
    page.goto("/")
    expect(page).to_have_url(f"{service.ready['url']}/ui/")
    page.get_by_role("link", name="New connector").click()
    page.get_by_role("link", name="JSON to S3").click()
    page.locator("#connector").fill("shop")
    for key in ("topics", "topics.dir", "s3.bucket.name", "s3.region", "store.url", "flush.size"):
        fill(page, key, config[key])
    for key in ("aws.access.key.id", "aws.secret.access.key"):
        fill(page, key, config[key])
    expect(page.get_by_text("The configuration is valid.")).to_be_visible()
    fill(page, "flush.size", "many")
    expect(page.locator("#e-flush_2esize")).to_contain_text("Not a number")
    fill(page, "flush.size", config["flush.size"])
    expect(page.get_by_text("The configuration is valid.")).to_be_visible()
    page.get_by_role("button", name="Create").last.click()
    expect(page.get_by_text("The connector was created.")).to_be_visible()
    topic.expect_all()
    expect(page.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    until(lambda: objects_of(service, "shop"), "the objects are committed")
    page.get_by_role("link", name="Objects").click()
    expect(page.get_by_role("rowheader").first).to_contain_text(topic.name)

    page.get_by_role("link", name="Edit").first.click()
    page.get_by_role("button", name="Raw JSON").click()
    raw = page.get_by_label("Configuration as JSON")
    wrong = raw.input_value().replace(config["s3.bucket.name"], "no-such-bucket-here")
    raw.fill(wrong)
    page.get_by_role("button", name="Save").last.click()
    expect(page.locator("h1 .badge")).to_have_text("Failed", timeout=SLOW_MS)
    page.get_by_role("link", name="Tasks").click()
    expect(page.locator("pre").first).to_contain_text("no-such-bucket-here")
    here = "/ui/connectors/shop"
    check_pages(page, {"connector-failed": here, "tasks-failed": f"{here}/tasks"})
    page.goto(here)

    page.get_by_role("link", name="Edit").first.click()
    fill(page, "s3.bucket.name", config["s3.bucket.name"])
    page.get_by_role("button", name="Save").last.click()
    expect(page.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    topic.send(1)
    topic.expect_all()

    page.get_by_role("link", name="Delete").click()
    page.get_by_label("to confirm").fill("shop")
    page.get_by_role("button", name="Delete the connector").click()
    expect(page.get_by_text("The connector was deleted.")).to_be_visible()
    assert service.call("GET", "/connectors") == []


@pytest.fixture
def typed(world: World) -> Topic:
    """A topic whose values have a schema."""
    fields = [{"type": "int32", "field": "n", "optional": False}]
    schema = {"type": "struct", "fields": fields, "optional": False}
    topic = world.topic("typed")
    producer = Producer({"bootstrap.servers": world.services.bootstrap_servers})
    for n in range(20):
        value = json.dumps({"schema": schema, "payload": {"n": n}})
        producer.produce(topic.name, value, key=f"k{n}", partition=n % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return topic


def create(page: Page, name: str, start: Callable[[], None], keys: Mapping[str, str]) -> None:
    """Create a connector from a template or a class, and wait until it runs."""
    page.goto("/ui/new-connector")
    start()
    page.locator("#connector").fill(name)
    for key, text in keys.items():
        fill(page, key, text)
    expect(page.get_by_text("The configuration is valid.")).to_be_visible()
    page.get_by_role("button", name="Create").last.click()
    expect(page.get_by_text("The connector was created.")).to_be_visible()
    expect(page.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)


def test_templates_and_a_class_make_connectors_that_do_what_they_say(
    world: World, service: Service, typed: Topic, open_page: OpenPage
) -> None:
    page = open_page()
    config = world.config(typed)
    places = ("s3.bucket.name", "s3.region", "store.url", "aws.")
    where = {key: text for key, text in config.items() if key.startswith(places)}
    sink = {**where, "topics": typed.name, "topics.dir": f"{world.folder}-days", "flush.size": "5"}

    def template(title: str) -> Callable[[], None]:
        named = page.get_by_text(title, exact=True)
        return lambda: page.locator("a.choice", has=named).click()

    def from_class() -> None:
        page.get_by_label("Connector class").select_option(config["connector.class"])
        page.get_by_role("button", name="Continue").click()

    create(page, "days", template("Parquet by day"), sink)
    backup = {**where, "topics": typed.name, "segment.age": "500ms"}
    create(page, "whole", template("Lossless backup"), backup)
    needed = ("storage.class", "format.class", "value.converter")
    classed = {
        **sink,
        "topics.dir": f"{world.folder}-class",
        **{key: config[key] for key in needed},
    }
    create(page, "classed", from_class, classed)
    for name, end in (("days", ".parquet"), ("whole", ".log.zst"), ("classed", ".json")):
        found = until(lambda name=name: objects_of(service, name), f"{name} commits objects")
        assert {one["key"].endswith(end) for one in found} == {True}

    back = {**where, "topics": f"{typed.name}:{typed.name}-back", "restore.log": "whole"}
    create(page, "back", template("Restore"), back)
    before = dump(world.services.bootstrap_servers, typed.name)

    def is_back() -> bool:
        parts = range(PARTITIONS)
        return all(world.cluster.end(f"{typed.name}-back", n) == len(before[n]) for n in parts)

    until(lambda: world.cluster.partitions(f"{typed.name}-back"), "the topic is there")
    until(is_back, "every record is back")
    assert_same(before, dump(world.services.bootstrap_servers, f"{typed.name}-back"))
    for name in ("days", "whole", "classed", "back"):
        service.call("DELETE", f"/connectors/{name}", expect=204)


def test_two_browsers_see_the_same_connector_pause_and_resume(
    world: World, service: Service, open_page: OpenPage
) -> None:
    topic = world.topic("pair")
    service.call("POST", "/connectors", {"name": "pair", "config": world.config(topic)}, expect=201)
    topic.send(3)
    topic.expect_all()
    first, second = open_page(), open_page(theme="dark", width=390)
    for page in (first, second):
        page.goto("/ui/connectors/pair")
        expect(page.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    first.get_by_role("button", name="Pause").click()
    expect(second.locator("h1 .badge")).to_have_text("Paused", timeout=SLOW_MS)
    second.get_by_role("button", name="Resume").click()
    expect(first.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)


def test_a_connector_and_a_task_are_restarted_and_stopped(
    world: World, service: Service, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto("/ui/connectors/pair")
    page.get_by_label("What to restart").select_option("all")
    page.get_by_role("button", name="Restart", exact=True).click()
    expect(page.get_by_text("The connector was asked to restart.")).to_be_visible()
    expect(page.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    page.get_by_role("link", name="Tasks").click()
    page.get_by_role("button", name="Restart task 0").click()
    expect(page.get_by_text("The task was asked to restart.")).to_be_visible()
    page.goto("/ui/connectors/pair")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("h1 .badge")).to_have_text("Stopped", timeout=SLOW_MS)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    until(lambda: set(service.states("pair")[1]) == {"RUNNING"}, "its tasks run again")


def test_keys_lead_to_pages_and_the_theme_is_kept(service: Service, open_page: OpenPage) -> None:
    page = open_page()
    page.goto("/ui/")
    with page.expect_navigation():  # a key that comes while the page changes is lost
        page.keyboard.press("g")
        page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Connectors", level=1)).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search by name")).to_be_focused()
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name="Theme: light").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


PAGES = {
    "overview": "/ui/",
    "connectors": "/ui/connectors",
    "connector": "/ui/connectors/pair",
    "tasks": "/ui/connectors/pair/tasks",
    "configuration": "/ui/connectors/pair/config",
    "offsets": "/ui/connectors/pair/offsets",
    "topics": "/ui/connectors/pair/topics",
    "objects": "/ui/connectors/pair/objects",
    "edit": "/ui/connectors/pair/edit",
    "delete": "/ui/connectors/pair/delete",
    "new": "/ui/new-connector",
    "form": "/ui/new-connector?template=json-to-s3",
    "settings": "/ui/settings",
    "missing": "/ui/nothing",
}


def test_every_page_is_accessible_and_fits(open_page: OpenPage) -> None:
    page = open_page()
    chart = page.locator(".chart canvas")
    ready = dict.fromkeys(("overview", "connector"), lambda: expect(chart).to_be_visible())
    check_pages(page, PAGES, ready, refused=["missing"])


def test_without_javascript_a_connector_is_created_changed_and_deleted(
    world: World, service: Service, open_page: OpenPage
) -> None:
    topic = world.topic("plain")
    topic.send(1)
    page = open_page(javascript=False)
    page.goto("/ui/")
    page.get_by_role("link", name="New connector").click()
    page.get_by_role("link", name="JSON to S3").click()
    page.locator("#connector").fill("plain")
    page.get_by_role("button", name="Raw JSON").click()
    for config in (world.config(topic, **{"flush.size": "many"}), world.config(topic)):
        page.get_by_label("Configuration as JSON").fill(json.dumps(config))
        page.get_by_role("button", name="Create").last.click()
        if config["flush.size"] == "many":
            expect(page.get_by_role("alert")).to_contain_text("flush.size")
    expect(page.get_by_text("The connector was created.")).to_be_visible()
    topic.expect_all()

    for action, state in (("Pause", "PAUSED"), ("Resume", "RUNNING"), ("Stop", "STOPPED")):
        page.get_by_role("button", name=action).click()
        until(lambda state=state: service.states("plain")[0] == state, f"{action} is done")
        page.goto("/ui/connectors/plain")
        expect(page.locator("h1 .badge")).to_have_text(state.capitalize())
    page.goto("/ui/connectors")
    expect(page.get_by_role("row", name="plain")).to_contain_text("Stopped")
    page.get_by_role("link", name="plain").click()
    page.get_by_role("link", name="Show it as a table").click()
    expect(page.get_by_text("objects, 10 records")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("to confirm").fill("plain")
    page.get_by_role("button", name="Delete the connector").click()
    expect(page.get_by_text("The connector was deleted.")).to_be_visible()
    assert "plain" not in service.call("GET", "/connectors")


def test_an_open_page_outlives_a_restart_of_the_service(
    world: World, service: Service, open_page: OpenPage
) -> None:
    port = int(service.ready["url"].rpartition(":")[2])
    page = open_page(tolerates=AWAY)
    page.goto("/ui/connectors/pair")
    expect(page.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    assert service.end() == 0
    expect(page.get_by_text("Connection lost, retrying.")).to_be_visible(timeout=SLOW_MS)
    again = world.start(port=port).wait_ready()
    expect(page.get_by_text("Connection lost, retrying.")).to_be_hidden(timeout=SLOW_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1 .badge")).to_have_text("Paused", timeout=SLOW_MS)
    until(lambda: again.states("pair")[0] == "PAUSED", "the connector pauses")
