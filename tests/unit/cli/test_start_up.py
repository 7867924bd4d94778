from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.invoke import Cli

from kafkeep.cli.flags import start_spark
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.storage import StorageOptions
from kafkeep.spark import jvm
from kafkeep.store.local.store import LocalStore

ARCHIVE = Path(__file__).parents[2] / "golden" / "2" / "whole"
HEAVY = ("re2", "numpy", "pyarrow", "numba", "pyspark", "boto3", "kafka", "obstore", "zstandard")


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys, kafkeep.cli.main; print([m for m in {HEAVY} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_verb_imports_no_other_verb() -> None:
    code = (
        "import sys\nfrom kafkeep.cli.main import main\ntry:\n    main(['ls', '--help'])\n"
        "except SystemExit:\n    print([m for m in sys.modules if m.startswith('kafkeep.cli.')])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout.splitlines()[-1]
    assert "'kafkeep.cli.archive.ls'" in loaded
    assert "'kafkeep.cli.archive.info'" not in loaded and "'kafkeep.cli.backup'" not in loaded


@pytest.mark.parametrize("verb", ["info", "ls", "du"])
def test_verbs_that_read_only_the_log_load_no_compiler_and_no_pandas(verb: str) -> None:
    code = (
        "import sys\nfrom kafkeep.cli.main import main\ntry:\n"
        f"    main(['{verb}', '--archive', '{ARCHIVE}', '--output', 'json'])\n"
        "except SystemExit as ended:\n"
        "    print(ended.code, [m for m in ('numba', 'pandas', 'pyspark') if m in sys.modules])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 []"


@pytest.mark.parametrize("arguments", [("--help", "backup"), ("-h",), ("--debug", "--help")])
def test_help_lists_every_verb(cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli.run(*arguments) == 0
    assert all(verb.encode() in cli.out for verb in (" backup ", " cat ", " retention "))


@pytest.mark.parametrize(("flags", "compiles"), [((), True), (("-c", "10"), False)])
def test_cat_compiles_nothing_to_print_a_few_records(
    tmp_path: Path, flags: tuple[str, ...], compiles: bool
) -> None:
    build_archive(LocalStore(str(tmp_path)), {"orders": [partition(0, 3000, 6000)]})
    arguments = ["cat", "--archive", str(tmp_path), *flags]
    code = (
        "import sys\nfrom kafkeep.cli.main import main\ntry:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as ended:\n"
        "    print(ended.code, 'numba' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *printed, last = ran.stdout.splitlines()
    assert last == f"0 {compiles}"
    assert [json.loads(line)["offset"] for line in printed] == list(range(len(printed)))
    assert len(printed) == (6000 if compiles else 10)


@pytest.fixture
def started_jvms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which a Java that does nothing else notes each JVM it is to start."""
    log = tmp_path / "started"
    log.touch()
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    version = "echo 'openjdk version \"17.0.1\"'"
    java.write_text(f"#!/bin/sh\ncase $1 in -version) {version};; *) echo x >> {log};; esac\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setattr(jvm, "_prelaunched", [])
    # A process that has imported pyspark does not start a JVM ahead of its session.
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    return log


VERBS = {
    "backup": ("backup", "--topics", "t"),
    "restore": ("restore", "--topics", "t"),
    "verify": ("verify", "--against"),
    "drill": ("drill",),
}


def command(verb: str, brokers: str, archive: Path, *more: str) -> list[str]:
    name, *flags = VERBS[verb]
    at = [] if flags == ["--against"] else ["--bootstrap-servers"]
    return [name, *flags, *at, brokers, "--archive", str(archive), *more]


@pytest.mark.parametrize("verb", VERBS)
def test_no_jvm_starts_when_no_broker_answers(
    cli: Cli, tmp_path: Path, started_jvms: Path, verb: str
) -> None:
    archive = shutil.copytree(ARCHIVE, tmp_path / "archive")
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{bound.getsockname()[1]}"
        assert cli.run(*command(verb, nobody, archive)) == 1
    assert f"error: cannot reach Kafka at {nobody}: connection refused" in cli.err
    assert started_jvms.read_text() == ""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "wrong",
    [
        ("--spark-conf", "spark.master=nowhere"),
        ("--command-config", "/nothing/is/here"),
        ("--no-such-flag",),
    ],
)
def test_no_jvm_starts_when_a_flag_is_wrong(
    cli: Cli, tmp_path: Path, started_jvms: Path, verb: str, wrong: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        answers = f"127.0.0.1:{broker.getsockname()[1]}"
        assert cli.run(*command(verb, answers, tmp_path, *wrong)) == 2
    assert started_jvms.read_text() == ""


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_host_ends_a_command_before_a_jvm_starts(
    cli: Cli, tmp_path: Path, started_jvms: Path, verb: str
) -> None:
    archive = shutil.copytree(ARCHIVE, tmp_path / "archive")
    assert cli.run(*command(verb, "nobody.invalid:9092", archive)) == 1
    assert "error: cannot reach Kafka at nobody.invalid:9092" in cli.err
    assert started_jvms.read_text() == ""


def test_a_jvm_starts_when_the_addresses_are_right(
    cli: Cli, tmp_path: Path, started_jvms: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker:
        answers = f"127.0.0.1:{broker.getsockname()[1]}"
        locations = Locations(
            kafka=KafkaOptions(answers), archive=str(tmp_path), storage=StorageOptions()
        )
        start_spark(None, locations)
    [(_, waiting)] = jvm._prelaunched
    waiting.process.wait(10)
    waiting.stop()
    assert started_jvms.read_text() == "x\n"


def test_no_jvm_starts_when_the_endpoint_of_s3_does_not_listen(started_jvms: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as broker, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        locations = Locations(
            kafka=KafkaOptions(f"127.0.0.1:{broker.getsockname()[1]}"),
            archive="s3://bucket/prefix",
            storage=StorageOptions(endpoint=f"http://127.0.0.1:{bound.getsockname()[1]}"),
        )
        start_spark(None, locations)
    assert jvm._prelaunched == []
    assert started_jvms.read_text() == ""
