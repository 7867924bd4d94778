"""The permissions of docs/operate/permissions.md suffice, and a command uses each of them.

For each command, a user of Kafka gets exactly the rights of the page, and a proxy before the store
refuses every other action. The broker's authorizer logs what was used.
"""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
import httpx
import pytest
from tests.support import permissions_page as page
from tests.support.cluster import Cluster
from tests.support.connect.jobs import group_offsets
from tests.support.faults.s3_recorder import Recorder, Seen
from tests.support.limited_user import Asked, LimitedUser, log_every_decision
from tests.support.permissions_page import KafkaRight, StoreRight
from tests.support.run_kafkeep import Driver, Outcome, kafkeep
from tests.support.waiting import until

from kafkeep.dev import DevStatus
from kafkeep.options.maintenance import DAY_MS
from kafkeep.store.s3.store import S3Store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
INSTEAD = {("cluster", "Create"), ("cluster", "Delete"), ("cluster", "IdempotentWrite")}
"""Kafka asks for these first, and then for the right on the topic."""


Used = tuple[str, str, str]
"""An IAM action, the prefix of the key, and the rest of the key; both empty for the bucket."""


def actions(seen: Seen, prefixes: Iterable[str]) -> set[Used]:
    """Return the IAM actions that a request needs."""
    url = urlsplit(seen.target)
    _, _, key = unquote(url.path).lstrip("/").partition("/")
    query = parse_qs(url.query, keep_blank_values=True)
    if not key:
        listed = query.get("prefix", [""])[0]
        known = "lifecycle" in query or "uploads" in query or listed.startswith(tuple(prefixes))
        return {(_of_bucket(seen.method, query), "", "" if known else f"listing of {listed}")}
    prefix = next((one for one in prefixes if key.startswith(one)), "")
    found = {_of_object(seen.method, query)}
    if "x-amz-tagging" in seen.headers:
        found.add("s3:PutObjectTagging")
    return {(one, prefix, key.removeprefix(prefix)) for one in found}


def _of_bucket(method: str, query: Mapping[str, object]) -> str:
    if "lifecycle" in query:
        kind = "Get" if method == "GET" else "Put"
        return f"s3:{kind}LifecycleConfiguration"
    assert method == "GET"
    return "s3:ListBucketMultipartUploads" if "uploads" in query else "s3:ListBucket"


def _of_object(method: str, query: Mapping[str, object]) -> str:
    if method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"
    if method in ("GET", "HEAD"):
        return "s3:GetObject"
    return "s3:PutObjectTagging" if "tagging" in query else "s3:PutObject"


@dataclass
class World:
    """A secured cluster with an archived topic, and the proxy before its store."""

    services: DevStatus
    cluster: Cluster
    proxy: Recorder
    folder: Path
    topic: str
    group: str
    prefix: str

    @property
    def archive(self) -> str:
        return f"s3://{self.services.s3.bucket}/{self.prefix}"

    def user(self) -> LimitedUser:
        return LimitedUser(self.services, f"user-{uuid.uuid4().hex[:8]}", self.folder)

    def s3(self) -> Any:
        return boto3.client("s3", endpoint_url=self.services.s3.endpoint)

    def check(
        self,
        command: str,
        run: Callable[[LimitedUser], Outcome],
        *,
        names: Mapping[str, str] | None = None,
        places: Mapping[str, str] | None = None,
        optional: bool = False,
        codes: tuple[int, ...] = (0,),
    ) -> Outcome:
        """Run a command with its rights alone; fail unless it works and uses each of them.

        ``places`` names the command of the page's S3 table for each prefix that it uses.
        """
        known = {"each topic": self.topic, "each group": self.group, **(names or {})}
        user, kafka = self.user(), kafka_of(command, optional=optional)
        user.grant(kafka, known)
        there = {f"{p}/": one for p, one in (places or {self.prefix: command}).items()}
        store = {prefix: store_of(one, optional=optional) for prefix, one in there.items()}
        before, refused = len(self.proxy.seen), set[Used]()

        def allows(seen: Seen) -> bool:
            denied = actions(seen, there) - {u for u in actions(seen, there) if _allowed(u, store)}
            refused.update(denied)
            return not denied

        self.proxy.allows = allows
        try:
            outcome = run(user).expect(*codes)
        finally:
            self.proxy.allows = lambda _seen: True
        most = {prefix: store_of(one, optional=True) for prefix, one in there.items()}
        surprises = {one for one in refused if not _allowed(one, most)}
        assert not surprises, f"{command} also needs {sorted(surprises)}"
        used = {one for seen in self.proxy.seen[before:] for one in actions(seen, there)}
        for prefix, rights in store.items():
            idle = {r for r in rights if not any(_allowed(one, {prefix: {r}}) for one in used)}
            assert not idle, f"{there[prefix]} does not use {sorted(idle)} of S3"
        _check_kafka(command, user, kafka, kafka_of(command, optional=True), known)
        return outcome


def kafka_of(command: str, *, optional: bool) -> set[KafkaRight]:
    rights = page.kafka_rights(command)
    return rights | page.kafka_rights(command, table="kafka optional") if optional else rights


def store_of(command: str, *, optional: bool) -> set[StoreRight]:
    rights = page.store_rights(command)
    return rights | page.store_rights(command, table="s3 optional") if optional else rights


def _allowed(used: Used, store: Mapping[str, set[StoreRight]]) -> bool:
    action, prefix, key = used
    places = [prefix] if key else list(store)
    return any(right.covers(action, key) for one in places for right in store.get(one, ()))


def _check_kafka(
    command: str,
    user: LimitedUser,
    granted: set[KafkaRight],
    documented: set[KafkaRight],
    names: Mapping[str, str],
) -> None:
    asked = user.asked()

    def covers(right: KafkaRight, one: Asked) -> bool:
        same = (right.resource, right.operation) == (one.resource, one.operation)
        return same and fnmatchcase(one.name, names.get(right.name, right.name))

    idle = {
        right for right in granted if not any(one.allowed and covers(right, one) for one in asked)
    }
    assert not idle, f"{command} does not use {sorted(idle)} of Kafka"
    surprises = {
        one
        for one in asked
        if not one.allowed
        and (one.resource, one.operation) not in INSTEAD
        and not any(covers(right, one) for right in documented)
        and not _filters_a_list(one, [names.get(right.name, right.name) for right in documented])
    }
    assert not surprises, f"{command} also asks Kafka for {sorted(surprises)}"


def _filters_a_list(one: Asked, ours: Collection[str]) -> bool:
    """Return whether Kafka only left a topic out of a list, such as the offsets of a group."""
    return (one.resource, one.operation) == ("topic", "Describe") and one.name not in ours


@pytest.fixture(scope="module")
def world(secure_services: DevStatus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One topic with a transaction, so that exact offsets have a hole, and a group on it."""
    log_every_decision(secure_services)
    cluster, topic = Cluster(secure_services.bootstrap_servers), f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create(topic, 2)
    for partition in range(2):
        cluster.produce(
            topic, ({"value": f'{{"n": {n}}}', "partition": partition} for n in range(50))
        )
    cluster.transaction(topic, ['{"in": "a transaction"}'], commit=True)
    for partition in range(2):
        cluster.commit_offset(f"{topic}-billing", topic, 10, partition)
    folder = tmp_path_factory.mktemp("permissions")
    with Recorder(secure_services.s3.endpoint) as proxy, pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        for name, value in secure_services.s3.environment.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", proxy.url)
        prefix = f"archive-{topic}"
        made = World(secure_services, cluster, proxy, folder, topic, f"{topic}-billing", prefix)
        flags = ("--bootstrap-servers", cluster.bootstrap, "--archive", made.archive)
        kafkeep("backup", *flags, "--topics", topic).expect(0)
        yield made


def as_user(*arguments: object) -> Callable[[LimitedUser], Outcome]:
    """Return what runs a command of kafkeep as a user of Kafka."""

    def run(user: LimitedUser) -> Outcome:
        servers = ("--bootstrap-servers", user.bootstrap_servers)
        return kafkeep(*arguments, *servers, "--command-config", user.properties_file)

    return run


@pytest.mark.parametrize("optional", [False, True], ids=["least", "with optional"])
def test_backup(world: World, optional: bool) -> None:
    prefix = f"backup-{uuid.uuid4().hex[:8]}"
    archive = f"s3://{world.services.s3.bucket}/{prefix}"
    backup = as_user("backup", "--topics", world.topic, "--archive", archive)
    world.check("backup", backup, places={prefix: "backup"}, optional=optional)
    shown = kafkeep("groups", "show", "--archive", archive, "--output", "json").expect(0).json
    assert {one["group"] for one in shown["groups"]} == ({world.group} if optional else set())


@pytest.mark.parametrize("optional", [False, True], ids=["least", "with optional"])
def test_backup_in_a_format_with_a_dead_letter_queue(world: World, optional: bool) -> None:
    topic, letters = f"mixed-{uuid.uuid4().hex[:8]}", f"letters-{uuid.uuid4().hex[:8]}"
    world.cluster.create(topic)
    world.cluster.produce(topic, [{"value": "{}"}, {"value": "{no document"}])
    world.cluster.commit_offset(f"{topic}-readers", topic, 1)
    keys = {
        "s3.object.tagging": "true",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    archive = ("--archive", f"s3://{world.services.s3.bucket}/{topic}")
    world.check(
        "backup --format json",
        as_user("backup", "--topics", topic, *archive, "--format", "json", *settings),
        names={"each topic": topic, "the dead letter queue, if there is one": letters},
        places={topic: "backup --format json"},
        optional=optional,
        codes=(3,),
    )
    assert world.cluster.end(letters) == 1


RESTORES = {
    "restore": (),
    "restore --exact-offsets": ("--exact-offsets",),
    "restore --groups": ("--groups", "all"),
}


@pytest.mark.parametrize("command", RESTORES)
def test_restore(world: World, command: str) -> None:
    target = f"back-{uuid.uuid4().hex[:8]}"
    topics = ("--archive", world.archive, "--topics", f"{world.topic}:{target}")
    world.check(
        command,
        as_user("restore", *topics, *RESTORES[command]),
        names={"each target": target},
        optional=command == "restore",
    )


def test_groups(world: World) -> None:
    target = f"moved-{uuid.uuid4().hex[:8]}"
    topics = ("--archive", world.archive, "--topics", f"{world.topic}:{target}")
    kafkeep("restore", *topics, "--bootstrap-servers", world.cluster.bootstrap).expect(0)
    world.cluster.commit_offset(world.group, target, 3)  # rollback sets one offset, removes one
    for verb in ("plan", "apply", "rollback"):
        world.check(
            f"groups {verb}",
            as_user("groups", verb, *topics, "--groups", world.group),
            names={"each target": target},
        )


def test_verify_against(world: World) -> None:
    def run(user: LimitedUser) -> Outcome:
        against = ("--against", user.bootstrap_servers, "--command-config", user.properties_file)
        return kafkeep("verify", "--archive", world.archive, "--topics", world.topic, *against)

    world.check("verify --against", run)


def test_drill(world: World) -> None:
    world.check("drill", as_user("drill", "--archive", world.archive, "--sample", "10%"))


@pytest.mark.parametrize("optional", [False, True], ids=["least", "with optional"])
def test_doctor(world: World, optional: bool) -> None:
    doctor = as_user("doctor", "--no-spark", "--archive", world.archive)
    world.check("doctor", doctor, optional=optional)


def test_doctor_of_exact_offsets(world: World) -> None:
    world.check("doctor --exact", as_user("doctor", "--no-spark", "--exact"))


READERS = ["info", "ls", "du", "commits", "diff", "groups show", "schemas list"]


@pytest.mark.parametrize("command", READERS)
def test_readers(world: World, command: str) -> None:
    commits = (0, 1) if command == "diff" else ()

    def run(_user: LimitedUser) -> Outcome:
        return kafkeep(*command.split(), *commits, "--archive", world.archive)

    world.check(command, run, codes=(10,) if command == "schemas list" else (0,))
    assert not page.kafka_rights(command)


@pytest.mark.parametrize("optional", [False, True], ids=["least", "with optional"])
def test_verify(world: World, optional: bool) -> None:
    verify = ("verify", "--archive", world.archive)
    world.check("verify", lambda _user: kafkeep(*verify), optional=optional)


def test_cat(world: World) -> None:
    cat = ("cat", "--archive", world.archive, "-t", world.topic)
    assert len(world.check("cat", lambda _user: kafkeep(*cat)).stdout.splitlines()) == 101


def test_find(world: World) -> None:
    find = ("find", "--archive", world.archive, "-t", world.topic, "--key", "none")
    world.check("find", lambda _user: kafkeep(*find), codes=(10,))


def test_gc(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    s3, bucket = world.s3(), world.services.s3.bucket
    folder = f"{world.prefix}/topics/{world.topic}/partition=0/{world.topic}+0+"
    again = {
        "Bucket": bucket,
        "CopySource": {"Bucket": bucket, "Key": f"{folder}0000000000.log.zst"},
    }
    s3.copy_object(**again, Key=f"{folder}00000000000.log.zst")
    s3.create_multipart_upload(Bucket=bucket, Key=f"{folder}0000000099.log.zst")
    told = S3Store.now_ms
    monkeypatch.setattr(S3Store, "now_ms", lambda store: told(store) + DAY_MS + 1000)
    gc = ("gc", "--archive", world.archive, "--output", "json")
    done = world.check("gc", lambda _user: kafkeep(*gc)).json
    assert sorted(one["kind"] for one in done["left_overs"] if one["fate"] == "removed") == [
        "object",
        "upload",
    ]


def test_retention(world: World) -> None:
    for verb in ("set", "show", "remove"):
        words = ("retention", verb, "--archive", world.archive, "--name", "backup")
        days = ("--days", "400") if verb == "set" else ()
        world.check(f"retention {verb}", lambda _user, w=words, d=days: kafkeep(*w, *d))


def test_serve_with_a_sink(world: World) -> None:
    name, log = f"sink-{uuid.uuid4().hex[:8]}", f"serve-{uuid.uuid4().hex[:8]}"
    bucket = world.services.s3.bucket
    config = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": world.topic,
        "archive": f"s3://{bucket}/{log}",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "flush.size": "10",
    }

    def run(user: LimitedUser) -> Outcome:
        worker = world.folder / "worker.properties"
        servers = f"bootstrap.servers={user.bootstrap_servers}\n"
        worker.write_text(servers + user.properties_file.read_text())
        state = ("--state", f"s3://{bucket}/{log}-state", "--port", "0", "--output", "json")
        driver = Driver(world.folder / log, "serve", "--config", worker, *state)
        try:
            ready = until(lambda: driver.runs() and driver.stdout.read_text(), "it is ready")
            url = json.loads(ready)["url"]
            until(lambda: httpx.get(f"{url}/health").status_code == 200, "it leads")
            httpx.put(f"{url}/connectors/{name}/config", json=config).raise_for_status()
            moved, group = {(world.topic, 0): 50, (world.topic, 1): 50}, f"connect-{name}"
            until(lambda: group_offsets(world.cluster, group, world.topic) == moved, "it commits")
            driver.signal(signal.SIGTERM)
            return driver.wait()
        finally:
            driver.kill()

    world.check(
        "serve",
        run,
        names={"connect-<name>": f"connect-{name}"},
        places={f"{log}-state": "serve --state", log: "serve"},
    )
