"""The registries that the configurations of connectors name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kafkeep.connect.catalog.registries import registry_places
from kafkeep.connect.jobs.job import JobContext
from kafkeep.options.kafka import KafkaOptions


def places_of(configs: Mapping[str, Mapping[str, str]], **defaults: str) -> dict[str, list[str]]:
    context = JobContext(
        kafka=KafkaOptions("kafka:9092"),
        run_tasks=list,
        slots=lambda: 1,
        state_address="state",
        defaults={key.replace("_", "."): text for key, text in defaults.items()},
    )
    found = registry_places(lambda: configs, lambda _: context)()
    return {one.address: list(one.connectors) for one in found}


def test_registries_of_converters_and_of_backups_are_found(tmp_path: Path) -> None:
    file = tmp_path / "registry.properties"
    file.write_text("bearer.auth.credentials.source=STATIC_TOKEN\nbearer.auth.token=hidden\n")
    found = places_of(
        {
            "sink": {"value.converter.schema.registry.url": "http://ann:hidden@one:8081,http://x"},
            "keys": {"key.converter.schema.registry.url": "http://one:8081/"},
            "backup": {"schema.registry": "http://two", "schema.registry.config": str(file)},
            "restore": {"restore.schema.registry": "http://three"},
            "none": {"topics": "orders"},
        }
    )
    assert found == {
        "http://one:8081": ["keys", "sink"],
        "http://two": ["backup"],
        "http://three": ["restore"],
    }


def test_the_worker_s_default_counts_for_its_connectors() -> None:
    found = places_of({"a": {}}, value_converter_schema_registry_url="http://default")
    assert found == {"http://default": ["a"]}


def test_settings_that_cannot_be_read_name_no_registry(tmp_path: Path) -> None:
    wrong = {
        "a": {"value.converter.schema.registry.url": "ftp://x"},
        "b": {"schema.registry": "nowhere"},
        "c": {"schema.registry.config": str(tmp_path / "missing")},
    }
    assert places_of(wrong) == {}
