"""Restores in Chromium: a deleted topic restored and proven, another cluster, two browsers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Page, expect
from tests.browser.conftest import check_pages
from tests.support.cluster import Cluster
from tests.support.connect.serve_processes import PARTITIONS, Service, World
from tests.support.independent_client import assert_same, dump
from tests.support.waiting import PATIENCE_S, until

from kafkeep.dev import DevOptions, start, stop

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
SLOW_MS = 120_000
RECORDS = 1_500
"""Of half a kilobyte each, in each partition."""
RATE = "20KiB"
API = "/kafkeep/v1"


@pytest.fixture(scope="module")
def topics(world: World, service: Service) -> tuple[str, str]:
    """Return two topics that a connector has archived."""
    made = [world.topic(name) for name in ("deleted", "kept")]
    # Small batches: a restore of one large batch makes no progress until it ends.
    settings = {"bootstrap.servers": world.services.bootstrap_servers, "batch.size": 32_768}
    producer = Producer(settings)
    for one in made:
        for number in range(RECORDS):
            for partition in range(PARTITIONS):
                value = f"{number:08}".encode() * 64
                producer.produce(one.name, value, key=str(number), partition=partition)
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    kept = ("s3.region", "store.url", "aws.")
    config = {k: v for k, v in world.config(made[0]).items() if k.startswith(kept)}
    config |= {
        "connector.class": "kafkeep.Backup",
        "topics": ",".join(one.name for one in made),
        "archive": f"s3://{world.services.s3.bucket}/{world.folder}-archive",
        "interval": "500ms",
        "segment.age": "500ms",
    }
    service.call("POST", "/connectors", {"name": "keep", "config": config}, expect=201)

    def archived() -> bool:
        points = service.call("GET", f"{API}/connectors/keep/growth")["points"]
        return bool(points) and points[-1]["records"] == RECORDS * PARTITIONS * len(made)

    until(archived, "everything is archived")
    return made[0].name, made[1].name


def state_of(service: Service, id: str) -> str:
    return str(service.call("GET", f"{API}/restores/{id}")["state"])


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a second Kafka, which the service does not know."""
    folder = tmp_path_factory.mktemp("other")
    try:
        yield Cluster(start(DevOptions(folder=folder)).bootstrap_servers)
    finally:
        stop(folder)


def choose(page: Page, topic: str) -> None:
    """Go through the wizard up to the point in time."""
    page.goto("/ui/restores")
    page.get_by_role("link", name="New restore").click()
    page.get_by_role("button", name="Continue").click()
    page.locator(f'[name="pick:{topic}"]').check()


def plan(page: Page, topic: str) -> None:
    """Go through the wizard up to the target."""
    choose(page, topic)
    page.get_by_role("button", name="Continue").click()


def test_a_deleted_topic_is_restored_and_proven(
    world: World, topics: tuple[str, str], open_page: OpenPage
) -> None:
    topic, _ = topics
    before = dump(world.services.bootstrap_servers, topic)
    page = open_page()
    plan(page, topic)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("1 check fails.")).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_text("it is not empty")).to_be_visible()
    expect(page.get_by_text("Restore into another topic")).to_be_visible()
    world.cluster.delete(topic)
    until(lambda: not world.cluster.partitions(topic), "the topic is gone")
    page.reload()
    expect(page.get_by_text("All checks pass.")).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("button", name="Start the restore").click()
    expect(page.locator("h1 .badge")).to_have_text("Done", timeout=SLOW_MS)
    assert_same(before, dump(world.services.bootstrap_servers, topic))

    page.get_by_role("button", name="Compare with the archive").click()
    records = RECORDS * PARTITIONS
    proven = page.get_by_text(f"Proven: all {records:,} records are as archived.")
    expect(proven).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("link", name="Report of the proof").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download HTML").click()
    assert "clean" in download.value.path().read_text()


def test_a_topic_is_restored_into_another_cluster_and_proven_there(
    world: World, other: Cluster, topics: tuple[str, str], open_page: OpenPage
) -> None:
    _, topic = topics
    page = open_page()
    choose(page, topic)
    commits = page.locator('[name="key:restore.commit"]')
    newest = commits.nth(1).get_attribute("value")  # the one before leaves the choice open
    commits.nth(1).check()
    page.get_by_role("button", name="Continue").click()
    page.locator(f'[name="target:{topic}"]').fill(f"{topic}-moved")
    page.locator('[name="key:producer.override.bootstrap.servers"]').fill(other.bootstrap)
    page.locator('[name="client"]').fill("security.protocol=PLAINTEXT")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("All checks pass.")).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("button", name="Start the restore").click()
    expect(page.locator("h1 .badge")).to_have_text("Done", timeout=SLOW_MS)
    for key, value in (
        ("producer.override.bootstrap.servers", other.bootstrap),
        ("restore.commit", newest),
    ):
        expect(page.get_by_role("row", name=key)).to_contain_text(str(value))
    moved = dump(other.bootstrap, f"{topic}-moved")
    assert_same(dump(world.services.bootstrap_servers, topic), moved)
    assert not world.cluster.partitions(f"{topic}-moved")
    page.get_by_role("button", name="Compare with the archive").click()
    expect(page.get_by_text("Proven: all")).to_be_visible(timeout=SLOW_MS)


def test_another_archive_is_restored_as_it_was_at_a_time_without_javascript(
    world: World, service: Service, topics: tuple[str, str], open_page: OpenPage
) -> None:
    _, topic = topics
    [known] = service.call("GET", f"{API}/archives")["archives"]
    page = open_page(javascript=False)
    page.goto("/ui/restores")
    page.get_by_role("link", name="New restore").click()
    page.get_by_label("Another archive").check()
    page.locator("summary").filter(has_text="Another archive").click()
    for key, text in {
        "archive": known["address"],
        "s3.region": world.services.s3.region,
        "store.url": world.services.s3.endpoint,
        "aws.access.key.id": world.services.s3.access_key,
        "aws.secret.access.key": world.services.s3.secret_key,
    }.items():
        page.locator(f'[name="key:{key}"]').fill(text)
    page.get_by_role("button", name="Continue").click()
    page.locator('[name="key:topics"]').fill(f"{topic}:{topic}-plain")
    page.locator('[name="key:restore.at"]').fill("2001-01-01T00:00:00Z")
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="Show plan and checks").click()
    expect(page.get_by_role("alert")).to_contain_text("keep begins later")
    page.go_back()
    page.get_by_role("link", name="1. What").click()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    page.locator('[name="key:restore.at"]').fill(now)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("link", name="Show plan and checks").click()
    expect(page.get_by_text("All checks pass.")).to_be_visible(timeout=SLOW_MS)
    page.go_back()
    page.get_by_role("button", name="Start the restore").click()
    here = page.url.partition("?")[0]
    id = here.rpartition("/")[2]
    until(lambda: state_of(service, id) == "done", "the restore is done")
    page.goto(here)
    expect(page.locator("h1 .badge")).to_have_text("Done")
    bootstrap = world.services.bootstrap_servers
    assert_same(dump(bootstrap, topic), dump(bootstrap, f"{topic}-plain"))


def test_a_restore_whose_target_was_taken_fails_and_says_why(
    world: World, service: Service, topics: tuple[str, str], open_page: OpenPage
) -> None:
    _, topic = topics
    taken = f"{topic}-taken"
    page = open_page()
    plan(page, topic)
    page.locator(f'[name="target:{topic}"]').fill(taken)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("All checks pass.")).to_be_visible(timeout=SLOW_MS)
    world.cluster.create(taken, PARTITIONS)
    world.cluster.produce(taken, [{"value": b"mine", "partition": 0}])
    page.get_by_role("button", name="Start the restore").click()
    expect(page.locator("h1 .badge")).to_have_text("Failed", timeout=SLOW_MS)
    expect(page.get_by_text(f"{taken}: it is not empty")).to_be_visible()
    check_pages(page, {"restore-failed": page.url.partition("?")[0]})


def test_two_browsers_pause_and_resume_the_same_restore(
    topics: tuple[str, str], open_page: OpenPage
) -> None:
    _, topic = topics
    first, second = open_page(), open_page(theme="dark", width=390)
    plan(first, topic)
    first.locator(f'[name="target:{topic}"]').fill(f"{topic}-copy")
    first.locator('[name="key:restore.rate"]').fill(RATE)
    first.get_by_role("button", name="Continue").click()
    expect(first.get_by_text("All checks pass.")).to_be_visible(timeout=SLOW_MS)
    first.get_by_role("button", name="Start the restore").click()
    second.goto(first.url.partition("?")[0])
    expect(second.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    check_pages(second, {"restore-running": second.url})
    expect(second.locator("h1 .badge")).to_have_text("Running")
    first.get_by_role("button", name="Pause").click()
    expect(second.locator("h1 .badge")).to_have_text("Paused", timeout=SLOW_MS)
    second.get_by_role("button", name="Resume").click()
    expect(first.locator("h1 .badge")).to_have_text("Running", timeout=SLOW_MS)
    first.get_by_role("button", name="Cancel").click()
    expect(second.get_by_text("What was written stays in the target.")).to_be_visible(
        timeout=SLOW_MS
    )


def test_a_cancelled_restore_is_deleted_from_the_history(
    service: Service, topics: tuple[str, str], open_page: OpenPage
) -> None:
    page = open_page()
    page.goto("/ui/restores")
    page.get_by_role("row").filter(has_text="Cancelled").get_by_role("link").first.click()
    id = page.url.rpartition("/")[2]
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("to confirm").fill("another")
    page.get_by_role("button", name="Delete the restore").click()
    expect(page.get_by_text("Nothing was deleted.")).to_be_visible()
    page.get_by_label("to confirm").fill(id)
    page.get_by_role("button", name="Delete the restore").click()
    expect(page.get_by_text("The restore was deleted from the history.")).to_be_visible()
    assert id not in [run["id"] for run in service.call("GET", f"{API}/restores")["restores"]]


def test_every_page_of_restores_is_accessible_and_fits(
    service: Service, topics: tuple[str, str], open_page: OpenPage
) -> None:
    _, topic = topics
    found = service.call("GET", f"{API}/restores")["restores"]
    proofs = {one["id"]: service.http.get(f"{API}/restores/{one['id']}/proof") for one in found}
    done = next(id for id, proof in proofs.items() if proof.is_success)
    archive = service.call("GET", f"{API}/archives")["archives"][0]["id"]
    body = {"config": {"archive.id": archive, "topics": f"{topic}:{topic}-again"}}
    draft = service.call("POST", f"{API}/restores", body, expect=201)["id"]
    pages = {
        "restores": "",
        "restore": f"/{done}",
        "restore-report": f"/{done}/report",
        "restore-proof": f"/{done}/proof/report",
        "restore-delete": f"/{done}/delete",
        "restore-what": f"/{draft}/what",
        "restore-where": f"/{draft}/where",
        "restore-check": f"/{draft}/check",
    }
    page = open_page()
    addresses = {name: f"/ui/restores{path}" for name, path in pages.items()}
    passed = page.get_by_text("All checks pass.")
    check_pages(
        page,
        {"restore-new": "/ui/new-restore", **addresses},
        {"restore-check": lambda: expect(passed).to_be_visible(timeout=SLOW_MS)},
    )
