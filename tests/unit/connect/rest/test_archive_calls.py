"""``/kafkeep/v1/archives``: every answer on a real archive, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.archive_builder import FIRST_MS, Built, build_archive, partition
from tests.support.connect.memory_service import MemoryService
from tests.support.connect.rest_server import serving

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.archives.archives import ArchivePlace
from kafkeep.connect.rest.app import make_app
from kafkeep.connect.worker.rest_security import RestSecurity
from kafkeep.store.open import open_store


class Scene:
    """A service that knows one archive."""

    def __init__(self, folder: Path) -> None:
        self.built: Built = build_archive(
            open_store(str(folder)),
            {
                "orders": [partition(0, 10, 25, gaps=[OffsetRange(25, 30)])],
                "users~2": [partition(0, 3)],
            },
        )
        self.service = MemoryService()
        self.place = ArchivePlace(address=str(folder), connectors=("backup",))
        self.service.places = [self.place]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def api(scene: Scene) -> Iterator[httpx.Client]:
    with (
        serving(make_app(scene.service, RestSecurity())) as url,
        httpx.Client(base_url=f"{url}/kafkeep/v1/archives") as client,
    ):
        yield client


def test_archives_are_listed_with_their_logs(scene: Scene, api: httpx.Client) -> None:
    [found] = api.get("").json()["archives"]
    assert api.get(f"/{scene.place.id}").json() == found
    assert (found["id"], found["connectors"]) == (scene.place.id, ["backup"])
    [log] = found["logs"]
    assert (log["name"], log["commits"], log["records"], log["gaps"]) == ("backup", 3, 28, 1)
    assert (log["lost_offsets"], log["last_verification"], log["problem"]) == (5, None, None)


def test_commits_topics_partitions_objects_and_days(scene: Scene, api: httpx.Client) -> None:
    log = f"/{scene.place.id}/logs/backup"
    listed = api.get(f"{log}/commits", params={"limit": 2}).json()
    assert listed["newest"] == 2
    assert [one["number"] for one in listed["commits"]] == [2, 1]
    older = api.get(f"{log}/commits", params={"before": 1}).json()["commits"]
    assert [one["number"] for one in older] == [0]
    assert api.get(f"{log}/commits/1").json() == listed["commits"][1]
    assert listed["commits"][1]["lost_offsets"] == 5
    topics = api.get(f"{log}/topics").json()["topics"]
    assert [(one["folder"], one["records"]) for one in topics] == [("orders", 25), ("users~2", 3)]
    [only] = api.get(f"{log}/topics/orders/partitions").json()["partitions"]
    assert (only["first_offset"], only["last_offset"], only["objects"]) == (0, 24, 2)
    objects = api.get(f"{log}/topics/orders/objects", params={"offset": 12}).json()
    assert (objects["total"], objects["objects"][0]["first_offset"]) == (1, 10)
    assert objects["objects"][0]["sha256"] == scene.built.entries[1].sha256
    days = api.get(f"{log}/days").json()["days"]
    assert [(one["day"], one["records"]) for one in days] == [("2023-11-14", 28)]


def test_warnings_and_left_overs(scene: Scene, api: httpx.Client) -> None:
    found = api.get(f"/{scene.place.id}/warnings").json()
    assert (found["gap_count"], found["small_objects"]) == (1, [])
    [gap] = found["gaps"]
    assert (gap["first_offset"], gap["last_offset"], gap["reason"]) == (25, 29, "retention")
    assert gap["found_at"] == "2023-11-14T22:13:20.000Z"
    assert FIRST_MS == 1_700_000_000_000
    searched = api.get(f"/{scene.place.id}/left-overs").json()
    assert (searched["left_overs"], searched["foreign"]) == ([], 0)


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/0123456789", 404, "uses an archive '0123456789'"),
        ("/{id}/logs/none/topics", 404, "has no log named 'none'"),
        ("/{id}/logs/backup/commits/3", 404, "has no commit 3"),
        ("/{id}/logs/backup/commits/x", 404, "has no commit x"),
        ("/{id}/logs/backup/commits?limit=101", 400, "limit must be a whole number from 1 to 100"),
        ("/{id}/logs/backup/commits?before=0", 400, "before must be a whole number from 1"),
        ("/{id}/logs/backup/topics/a~1/objects", 404, "There is no topic 'a~1'"),
        ("/{id}/logs/backup/topics/orders/objects?offset=-1", 400, "offset must be a whole number"),
    ],
)
def test_what_is_not_there_or_no_number_is_refused_in_a_sentence(
    scene: Scene, api: httpx.Client, path: str, status: int, sentence: str
) -> None:
    answer = api.get(path.format(id=scene.place.id))
    assert answer.status_code == status
    assert sentence in answer.json()["message"]


def test_an_incarnation_out_of_bounds_is_a_topic_without_objects(
    scene: Scene, api: httpx.Client
) -> None:
    path = f"/{scene.place.id}/logs/backup/topics/orders~{10**30}"
    assert api.get(f"{path}/partitions").json() == {"partitions": []}
    assert api.get(f"{path}/objects", params={"partition": 10**18}).json()["total"] == 0
