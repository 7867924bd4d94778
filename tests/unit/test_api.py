from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import PATIENCE_S

import kafkeep
from kafkeep import api
from kafkeep.api import make_options
from kafkeep.errors import NoSuchArchiveError, UsageError
from kafkeep.options.backup import BackupOptions
from kafkeep.options.restore import RestoreOptions

HEAVY = ("pyspark", "numba", "pyarrow", "kafka", "obstore", "boto3", "numpy", "typer")


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return done.stdout.strip()


def test_importing_kafkeep_loads_nothing_heavy() -> None:
    loaded = _run(f"import kafkeep, sys; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded == "[]"


def test_backup_and_restore_stay_functions_after_their_packages_are_imported() -> None:
    code = """
import kafkeep
import kafkeep.restore.run
from kafkeep.backup import run as backup_run
from kafkeep import backup, restore
print(kafkeep.backup.__name__, restore.__name__, backup_run.__name__)
"""
    assert _run(code) == "backup restore kafkeep.backup.run"


def test_tools_see_the_arguments_of_the_call() -> None:
    assert inspect.signature(kafkeep.backup) == inspect.signature(api.backup)
    assert "bootstrap_servers" in inspect.signature(kafkeep.restore).parameters


def test_names_may_be_a_list_a_text_or_a_tuple() -> None:
    for topics in (["orders", "events"], "orders,events", ("orders", "events")):
        assert make_options(BackupOptions, {"topics": topics}).topics == ("orders", "events")


def test_restored_topics_may_be_renamed_by_a_mapping_or_by_pairs() -> None:
    wanted = (("a", "a"), ("b", "new-b"))
    for topics in (["a", "b:new-b"], {"a": "a", "b": "new-b"}, [("a", "a"), ("b", "new-b")]):
        assert make_options(RestoreOptions, {"topics": topics}).topics == wanted


def test_text_is_read_as_the_command_line_reads_it() -> None:
    options = make_options(
        BackupOptions, {"topics": ["t"], "segment_bytes": "64MiB", "cycle_ms": "2s"}
    )
    assert (options.segment_bytes, options.cycle_ms) == (64 * 1024**2, 2000)


def test_python_values_are_taken_as_they_are() -> None:
    options = make_options(BackupOptions, {"topics": ["t"], "segment_bytes": 5, "follow": True})
    assert (options.segment_bytes, options.follow) == (5, True)


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError) as caught:
        make_options(BackupOptions, {"topcs": ["t"]})
    assert "topcs" in caught.value.message
    assert caught.value.hint == "Did you mean topics?"


def test_a_value_that_cannot_be_read_names_its_option() -> None:
    with pytest.raises(UsageError, match="segment_bytes: "):
        make_options(BackupOptions, {"topics": ["t"], "segment_bytes": "a lot"})


def test_no_topics_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="topics"):
        make_options(BackupOptions, {"topics": []})


def test_bad_servers_are_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="host:port"):
        kafkeep.backup(archive="x", bootstrap_servers=["nowhere"], topics=["t"])


@pytest.mark.integration
def test_a_restore_from_nothing_says_so(tmp_path: Path, services: object) -> None:
    servers = services.bootstrap_servers  # type: ignore[attr-defined]
    with pytest.raises(NoSuchArchiveError):
        kafkeep.restore(archive=tmp_path, bootstrap_servers=servers, dry_run=True)


@pytest.mark.parametrize("option", ["interval_ms", "segment_age_ms"])
def test_what_only_a_backup_that_follows_heeds_is_refused_without_it(option: str) -> None:
    for value in (5000, "5s"):
        with pytest.raises(UsageError, match=f"{option} requires follow"):
            make_options(BackupOptions, {"topics": "a", option: value})
        made = make_options(BackupOptions, {"topics": "a", "follow": True, option: value})
        assert getattr(made, option) == 5000
    assert make_options(BackupOptions, {"topics": "a", option: ""}) == BackupOptions(topics=("a",))
