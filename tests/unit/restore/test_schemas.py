"""Schemas of a registry: read, kept, ordered, compared with another registry, brought into it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.support.confluent_registry import ConfluentRegistry, serving

from kafkeep.archive.commit import Changes
from kafkeep.archive.log import CommitLog
from kafkeep.archive.schemas import (
    RegisteredSchema,
    RegistrySubject,
    SchemaReference,
    SchemaSet,
    SchemaVersion,
    load_schemas,
    save_schemas,
)
from kafkeep.archive.view import check_log, load_view
from kafkeep.backup.schemas import QUIET_MS, SchemaKeeper
from kafkeep.check_result import CheckStatus
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.safety.secrets import mask
from kafkeep.errors import DamagedError, PreflightError, TransientError, UsageError
from kafkeep.options.backup import BackupOptions
from kafkeep.options.option import ConfigErrors
from kafkeep.options.registry import bare_address
from kafkeep.options.restore import RestoreOptions
from kafkeep.registry.apicurio import import_zip
from kafkeep.registry.client import Registry
from kafkeep.registry.schemas import ImportMethod, RegistryReader, in_order
from kafkeep.restore.document import Phase, RestoreDocument
from kafkeep.restore.schemas import (
    SchemaStep,
    plan_ids,
    plan_map,
    plan_schemas,
    same_schema,
    without_more,
)
from kafkeep.restore.summary import RestoreSummary
from kafkeep.retry import RetryPolicy
from kafkeep.store.memory import MemoryStore

URL = "http://registry:8081"
ITEM = RegisteredSchema("AVRO", '{"type":"record","name":"Item","fields":[]}')
BOX = RegisteredSchema("AVRO", '{"type":"Item"}', (SchemaReference("Item", "z-item", 1),))
LONG = RegisteredSchema("AVRO", '"long"')
PLACE = RegisteredSchema("JSON", '{"title":"Place"}')
PRICE = RegisteredSchema("PROTOBUF", 'syntax = "proto3";')
SCHEMAS = SchemaSet(
    {
        "a-box": RegistrySubject((SchemaVersion(1, 5), SchemaVersion(2, 9)), "FULL"),
        "place": RegistrySubject((SchemaVersion(1, 6, deleted=True), SchemaVersion(3, 7))),
        "z-item": RegistrySubject((SchemaVersion(1, 4),)),
    },
    {4: ITEM, 5: BOX, 6: PLACE, 7: PRICE, 9: LONG},
    "BACKWARD",
)


@pytest.fixture
def registry() -> Iterator[tuple[ConfluentRegistry, str]]:
    made = ConfluentRegistry()
    with serving(made) as url:
        yield made, url


def read(url: str) -> SchemaSet:
    return RegistryReader(Registry((url,))).read()


def fails(checks: tuple[object, ...]) -> list[str]:
    return [check.what for check in checks if check.verdict is CheckStatus.FAIL]  # type: ignore[attr-defined]


def filled(made: ConfluentRegistry) -> None:
    """Two subjects with a reference, one deleted version, levels."""
    made.add("z-item", ITEM.text)
    made.add("a-box", BOX.text, references=[{"name": "Item", "subject": "z-item", "version": 1}])
    made.add("place", PLACE.text, schemaType="JSON")
    made.add("place", '{"title":"P2"}', schemaType="JSON", metadata={"tags": {"x": ["PII"]}})
    made.subjects["place"][1]["deleted"] = True
    made.levels["place"] = "NONE"


# What is read, and kept.


def test_everything_a_registry_holds_is_read(registry: tuple[ConfluentRegistry, str]) -> None:
    made, url = registry
    filled(made)
    found = read(url)
    assert found.compatibility == "BACKWARD"
    assert found.subjects == {
        "a-box": RegistrySubject((SchemaVersion(1, 2),)),
        "place": RegistrySubject((SchemaVersion(1, 3, deleted=True), SchemaVersion(2, 4)), "NONE"),
        "z-item": RegistrySubject((SchemaVersion(1, 1),)),
    }
    assert found.schemas[2] == BOX and found.schemas[3] == PLACE
    assert json.loads(found.schemas[4].more) == {"metadata": {"tags": {"x": ["PII"]}}}


def test_only_what_is_new_is_read_again(registry: tuple[ConfluentRegistry, str]) -> None:
    made, url = registry
    filled(made)
    reader = RegistryReader(Registry((url,)))
    first = reader.read()
    made.asked.clear()
    assert reader.read() == first
    assert "GET /subjects/place/versions/1" not in made.asked
    del made.subjects["place"]
    made.add("place", '{"title":"again"}', schemaType="JSON")
    assert reader.read().schemas[5].text == '{"title":"again"}'


def test_the_document_is_stored_when_the_registry_has_changed(
    registry: tuple[ConfluentRegistry, str],
) -> None:
    made, url = registry
    filled(made)
    store = MemoryStore()
    keeper = SchemaKeeper(RegistryReader(Registry((url,))), store, "backup")
    first = keeper.keep("", 0, records=False)
    assert load_schemas(store, "backup", first) == read(url)
    assert keeper.keep(first, 1, records=True) == ""
    made.add("new", '"int"')
    assert keeper.keep(first, 2, records=False) == "", "not yet"
    second = keeper.keep(first, 2, records=True)
    assert keeper.keep(first, 1 + QUIET_MS * 2, records=False) == second
    assert len(list(store.list("_kafkeep/backup/schemas/"))) == 2


def test_a_registry_that_is_away_ends_a_backup_but_not_one_that_follows(
    registry: tuple[ConfluentRegistry, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(
        "kafkeep.registry.client.REGISTRY", RetryPolicy(first_wait_s=0.001, attempts=4)
    )
    made, url = registry
    made.down = True
    store = MemoryStore()
    reader = RegistryReader(Registry((url,)))
    with pytest.raises(TransientError, match="503"):
        SchemaKeeper(reader, store, "backup").check()
    patient = SchemaKeeper(reader, store, "backup", tolerates_outage=True)
    patient.check()
    assert patient.keep("", 0, records=True) == ""
    assert "schemas are archived in a later cycle" in caplog.text
    assert list(store.list("")) == []
    made.down = False
    assert patient.keep("", 1, records=False) != ""


def test_what_is_no_registry_is_named() -> None:
    with serving(ConfluentRegistry()) as url, pytest.raises(UsageError, match="does not answer"):
        RegistryReader(Registry((f"{url}/nowhere",))).check()


def test_each_commit_names_the_schemas_of_its_time() -> None:
    store = MemoryStore()
    clock = iter(range(1000, 9000, 1000))
    log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: next(clock))
    one = save_schemas(store, "backup", SCHEMAS)
    other = save_schemas(store, "backup", replace(SCHEMAS, compatibility="FULL"))
    log.append(Changes(schemas=one))
    log.append(Changes(note="nothing about schemas"))
    log.append(Changes(schemas=other))
    log.checkpoint()
    found = [load_view(store, "backup", commit=number).schemas for number in range(4)]
    assert found == ["", one, one, other]
    assert load_view(store, "backup", at_ms=3500).schemas == one
    assert CommitLog.open(store, "backup", writer="x", now_ms=lambda: 0).state.schemas == other


@pytest.mark.parametrize(("what", "told"), [("gone", "missing"), ("other", "SHA-256")])
def test_verify_names_a_document_that_is_not_what_a_commit_names(what: str, told: str) -> None:
    store = MemoryStore()
    log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: 0)
    digest = save_schemas(store, "backup", SCHEMAS)
    log.append(Changes(schemas=digest))
    log.append(Changes(schemas=save_schemas(store, "backup", SchemaSet())))
    assert check_log(store, "backup") == []
    [key, other] = [info.key for info in store.list("_kafkeep/backup/schemas/")]
    if digest not in key:
        key, other = other, key
    body = store.get(other)
    store.delete(key)
    if what == "other":
        store.put_new(key, body)
    [finding] = check_log(store, "backup")
    assert finding.fatal and finding.key == key and told in finding.problem
    with pytest.raises(DamagedError, match=key):
        load_schemas(store, "backup", digest)
    if what == "other":
        with pytest.raises(DamagedError):
            save_schemas(store, "backup", SCHEMAS)


# The order, and what a plan says.


def test_what_is_referred_to_comes_first_and_versions_in_their_order() -> None:
    order = [(name, one.version) for name, one in in_order(SCHEMAS)]
    assert order == [("z-item", 1), ("a-box", 1), ("place", 1), ("place", 3), ("a-box", 2)]


def test_references_in_a_circle_are_named() -> None:
    one = RegisteredSchema("AVRO", "1", (SchemaReference("b", "b", 1),))
    two = RegisteredSchema("AVRO", "2", (SchemaReference("a", "a", 1),))
    both = SchemaSet(
        {
            "a": RegistrySubject((SchemaVersion(1, 1),)),
            "b": RegistrySubject((SchemaVersion(1, 2),)),
        },
        {1: one, 2: two},
    )
    with pytest.raises(DamagedError, match="circle"):
        in_order(both)


def test_schemas_are_the_same_however_their_json_is_written() -> None:
    spaced = replace(ITEM, text=json.dumps(json.loads(ITEM.text), indent=2))
    assert same_schema(ITEM, spaced)
    assert not same_schema(ITEM, replace(ITEM, type="JSON"))
    assert not same_schema(PRICE, replace(PRICE, text=PRICE.text + " "))
    assert not same_schema(BOX, replace(BOX, references=()))


def test_ids_of_an_empty_registry_are_free() -> None:
    plan = plan_ids(SCHEMAS, SchemaSet({}, {}, "NONE"), ImportMethod.CONFLUENT, registry=URL)
    assert [name for name, _ in plan.missing] == ["z-item", "a-box", "place", "place", "a-box"]
    assert plan.levels == {"": "BACKWARD", "a-box": "FULL"}
    assert fails(plan.checks) == []


def test_another_schema_under_an_id_is_refused_by_name() -> None:
    there = SchemaSet({"mine": RegistrySubject((SchemaVersion(1, 5),))}, {5: ITEM})
    plan = plan_ids(SCHEMAS, there, ImportMethod.CONFLUENT, registry=URL)
    assert fails(plan.checks) == ["id 5 is another schema there, of mine"]
    assert plan.missing == ()
    there = SchemaSet({"place": RegistrySubject((SchemaVersion(3, 5),))}, {5: BOX})
    plan = plan_ids(SCHEMAS, there, ImportMethod.CONFLUENT, registry=URL)
    assert fails(plan.checks) == ["version 3 of place has id 5 there, 7 in the archive"]
    there = SchemaSet({"mine": RegistrySubject((SchemaVersion(1, 50),))}, {50: PRICE})
    plan = plan_ids(SCHEMAS, there, ImportMethod.APICURIO, registry=URL)
    assert fails(plan.checks) == ["it holds the schema of id 7 as 50, and can hold it only once"]
    twice = replace(SCHEMAS, schemas={**SCHEMAS.schemas, 9: ITEM})
    plan = plan_ids(twice, SchemaSet(), ImportMethod.APICURIO, registry=URL)
    assert fails(plan.checks) == ["ids 4 and 9 are the same schema, which it can hold only once"]
    assert fails(plan_ids(twice, SchemaSet(), ImportMethod.CONFLUENT, registry=URL).checks) == []
    plan = plan_ids(SCHEMAS, SchemaSet(), ImportMethod.NONE, registry=URL)
    assert "neither IMPORT mode nor" in fails(plan.checks)[0]


def test_what_is_there_already_is_fine_and_its_levels_stay() -> None:
    mine = {"mine": RegistrySubject((SchemaVersion(1, 50),))}
    there = replace(
        SCHEMAS,
        subjects={
            **SCHEMAS.subjects,
            "a-box": RegistrySubject((SchemaVersion(1, 5),), "NONE"),
            **mine,
        },
        schemas={**SCHEMAS.schemas, 50: replace(PRICE, text="mine")},
        compatibility="NONE",
    )
    plan = plan_ids(SCHEMAS, there, ImportMethod.APICURIO, registry=URL)
    assert plan.missing == (("a-box", SchemaVersion(2, 9)),)
    assert plan.levels == {}
    warned = [check.what for check in plan.checks if check.verdict is CheckStatus.WARN]
    assert warned == [
        "a-box has compatibility NONE there, not FULL: unchanged",
        "its compatibility is NONE, not BACKWARD: unchanged",
    ]


def test_a_registry_without_metadata_gets_none_and_that_is_reported() -> None:
    rich = replace(SCHEMAS, schemas={**SCHEMAS.schemas, 4: replace(ITEM, more='{"metadata":{}}')})
    bare, [check] = without_more(rich, URL)
    assert bare == SCHEMAS
    assert check.what == "it does not support metadata and rules: those of 1 schemas are left out"
    assert without_more(SCHEMAS, URL) == (SCHEMAS, [])


def test_a_reference_to_what_was_deleted_is_refused() -> None:
    broken = replace(SCHEMAS, subjects={k: v for k, v in SCHEMAS.subjects.items() if k[0] != "z"})
    for plan in (
        plan_ids(broken, SchemaSet(), ImportMethod.CONFLUENT, registry=URL),
        plan_map(broken, SchemaSet(), {}, registry=URL),
    ):
        [what] = fails(plan.checks)
        assert what == "schema 5 refers to version 1 of z-item, which is not in the archive"


def test_a_map_finds_what_is_there_by_content_with_other_versions() -> None:
    moved = replace(BOX, references=(SchemaReference("Item", "z-item", 8),))
    there = SchemaSet(
        {
            "z-item": RegistrySubject((SchemaVersion(7, 60), SchemaVersion(8, 61))),
            "a-box": RegistrySubject((SchemaVersion(1, 62),)),
        },
        {60: PRICE, 61: ITEM, 62: moved},
    )
    plan = plan_map(SCHEMAS, there, {4: 61, 5: 62}, registry=URL)
    assert plan.ids == {4: 61, 5: 62}
    assert plan.places == {("z-item", 1): ("z-item", 8), ("a-box", 1): ("a-box", 1)}
    assert [one.id for _, one in plan.missing] == [6, 7, 9]
    assert fails(plan.checks) == []
    lost = plan_map(SCHEMAS, there, {4: 61, 6: 99}, registry=URL)
    assert fails(lost.checks) == [
        "schema 6 had id 99 there when this restore started, but no longer has it"
    ]


# What is brought into a registry of Confluent's kind; Apicurio is in tests/integration.


def step(
    url: str, store: MemoryStore, how: str, begun: RestoreDocument | None = None
) -> SchemaStep:
    options = RestoreOptions(schemas=how, schema_registry=url)
    return plan_schemas(options, load_view(store, "backup"), store, begun, lambda: 0)


@pytest.fixture
def archive() -> MemoryStore:
    store = MemoryStore()
    log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: 0)
    log.append(Changes(schemas=save_schemas(store, "backup", SCHEMAS)))
    return store


def test_import_mode_brings_everything_back(
    registry: tuple[ConfluentRegistry, str], archive: MemoryStore
) -> None:
    made, url = registry
    told = step(url, archive, "ids").put(RestoreSummary())
    assert read(url) == SCHEMAS
    assert made.modes == {}, "subjects take schemas as usual"
    assert told["mode"] == "ids" and told["ids"] == {}
    again = step(url, archive, "ids")
    assert again.plan.missing == () and again.put(RestoreSummary()) == told


def test_an_import_that_died_is_gone_on_with(
    registry: tuple[ConfluentRegistry, str], archive: MemoryStore
) -> None:
    made, url = registry
    made.modes = {"z-item": "IMPORT", "place": "IMPORT"}
    body = {"schema": ITEM.text, "id": 4, "version": 1}
    assert made.answer("POST", "/subjects/z-item/versions", body)[0] == 200
    step(url, archive, "ids").put(RestoreSummary())
    assert read(url) == SCHEMAS
    assert made.modes == {}


def test_a_map_registers_in_order_and_comes_to_the_same_when_run_again(
    archive: MemoryStore,
) -> None:
    made = ConfluentRegistry(first_id=100)
    made.add("z-item", '"mine"')
    with serving(made) as url:
        summary = RestoreSummary()
        told = step(url, archive, "map").put(summary)
        assert told["ids"] == {"4": 101, "5": 102, "6": 103, "7": 104, "9": 105}
        assert summary.schemas == {"registered": 5, "there": 0}
        assert (summary.schema_notes, summary.exit_code) == ([], 0)
        assert made.schemas[102]["references"][0]["version"] == 2, "the version that Item has now"
        assert made.subjects["place"][1]["deleted"] and not made.subjects["place"][2]["deleted"]
        assert made.levels == {"": "BACKWARD", "a-box": "FULL"}
        again = step(url, archive, "map")
        assert again.plan.missing == ()
        assert again.put(summary) == told
        document = RestoreDocument(
            id="x", revision=1, phase=Phase.WRITING, log="backup", commit=1, cluster_id="c",
            at_ms=0, targets=(), schemas=told,
        )  # fmt: skip
        made.levels["a-box"] = "NONE"
        step(url, archive, "map").put(summary)
        assert summary.schema_notes == ["a-box has compatibility NONE there, not FULL: unchanged"]
        assert summary.exit_code == 3
        del made.subjects["a-box"][1]
        begun = step(url, archive, "map", document)
        assert fails(begun.checks) == [
            "schema 5 had id 102 there when this restore started, but no longer has it"
        ]


def test_a_commit_without_schemas_is_refused(registry: tuple[ConfluentRegistry, str]) -> None:
    store = MemoryStore()
    CommitLog.open(store, "backup", writer="w", now_ms=lambda: 0)
    with pytest.raises(PreflightError, match="names no schemas"):
        step(registry[1], store, "ids")


def test_the_zip_for_apicurio_has_contents_before_versions() -> None:
    body = import_zip(SCHEMAS, in_order(SCHEMAS), {"a-box": 2, "place": 3, "z-item": 1}, 77)
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        names = file.namelist()
        rows = [json.loads(file.read(name)) for name in names if name.endswith(".json")]
    versions = [row for row in rows if "versionId" in row]
    contents = [row["contentId"] for row in rows if "contentHash" in row]
    assert contents == [4, 5, 6, 7, 9]
    assert [(v["artifactId"], v["version"], v["contentId"]) for v in versions][:2] == [
        ("z-item", "1", 4),
        ("a-box", "1", 5),
    ]
    assert [v["isLatest"] for v in versions] == [True, False, False, True, True]
    assert [v["state"] for v in versions].count("DISABLED") == 1
    assert names[0].endswith(".Content.json") and names[1].endswith(".Content.data")


# The options.


def test_options_that_have_no_meaning_are_refused(tmp_path: object) -> None:
    with pytest.raises(UsageError, match="schemas needs schema-registry"):
        RestoreOptions(schemas="map")
    with pytest.raises(UsageError, match="schema-registry needs schemas"):
        RestoreOptions(schema_registry=URL)
    with pytest.raises(UsageError, match="schema-ids-in needs schemas=map"):
        RestoreOptions(schemas="ids", schema_registry=URL, schema_ids_in="keys")
    with pytest.raises(UsageError, match="not a list of http"):
        BackupOptions(topics=("a",), schema_registry="registry:8081")


def test_the_file_says_how_to_log_in(tmp_path: object) -> None:
    file = f"{tmp_path}/registry.properties"
    with open(file, "w") as out:
        out.write("basic.auth.credentials.source=USER_INFO\nbasic.auth.user.info=me:hidden\n")
    options = BackupOptions(topics=("a",), schema_registry=URL, schema_registry_config=file)
    settings = options.registry()
    assert settings is not None and settings.basic_auth_user_info == "me:hidden"
    assert "hidden" not in repr(options)
    selection = RestoreOptions(schemas="map", schema_registry="http://me:pw@r:1").selection()
    assert selection == {"schemas": "map", "schema_registry": "http://r:1"}
    with open(file, "a") as out:
        out.write("basic.auth.user=me\n")
    with pytest.raises(UsageError, match=r"unknown key: basic\.auth\.user"):
        BackupOptions(topics=("a",), schema_registry=URL, schema_registry_config=file)


def test_a_connector_of_ours_keeps_schemas_too() -> None:
    given = {
        "connector.class": "kafkeep.Backup",
        "topics": "a",
        "archive": "file:///tmp/archive",
        "schema.registry": "http://me:hidden@registry:8081",
    }
    config = ConnectorConfig.from_map(given, name="c")
    options = replace(BackupOptions(topics=("a",)), **config.extra)
    settings = options.registry()
    assert settings is not None and bare_address(settings) == URL
    assert "hidden" not in str(mask(given))
    with pytest.raises(ConfigErrors, match="registry"):
        ConnectorConfig.from_map({**given, "schema.registry": "registry:8081"}, name="c")
