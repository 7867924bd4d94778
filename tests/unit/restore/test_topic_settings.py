from __future__ import annotations

from typing import Any

from kafkeep.restore.topic_settings import (
    LARGEST,
    WHILE_WRITING,
    final_settings,
    settings_while_writing,
    unknown_settings,
)

DAY = 86_400_000
NOW = 1_700_000_000_000
NEW = (4, 1)
DEFAULTS = {"retention.ms": str(7 * DAY), "retention.bytes": "-1", "cleanup.policy": "delete"}


def final(archived: dict[str, str], **changes: Any) -> Any:
    values: dict[str, Any] = {
        "kafka": NEW,
        "replicas": None,
        "oldest_ms": NOW - DAY,
        "largest_partition_bytes": 1000,
        "now_ms": NOW,
        "apply_retention": False,
    }
    return final_settings("t", archived, DEFAULTS, **{**values, **changes})


def test_nothing_is_refused_changed_or_deleted_while_writing() -> None:
    made = settings_while_writing(
        {"cleanup.policy": "compact", "retention.ms": "1", "x.y": "z"}, None, NEW
    )
    assert made["cleanup.policy"] == "delete" and made["retention.ms"] == "-1"
    assert made["message.timestamp.type"] == "CreateTime" and made["x.y"] == "z"
    assert int(made["max.message.bytes"]) >= 64 << 20


def test_a_larger_archived_message_size_is_kept_while_writing() -> None:
    made = settings_while_writing({"max.message.bytes": str(100 << 20)}, None, NEW)
    assert made["max.message.bytes"] == str(100 << 20)


def test_archived_settings_are_put_back_and_ours_taken_away() -> None:
    made = final({"cleanup.policy": "compact", "retention.ms": "9"})
    assert made.set == {"cleanup.policy": "compact", "retention.ms": "9"}
    assert set(made.delete) == {*WHILE_WRITING, "max.message.bytes"} - set(made.set)
    assert made.held_back == ()


def test_retention_that_would_delete_restored_records_is_held_back() -> None:
    made = final({"retention.ms": str(DAY // 2), "retention.bytes": "10"})
    assert made.set == {"retention.ms": "-1", "retention.bytes": "-1"}
    assert [(h.key, h.value) for h in made.held_back] == [
        ("retention.ms", str(DAY // 2)),
        ("retention.bytes", "10"),
    ]
    assert "--entity-name t --add-config retention.ms=" in made.held_back[0].command


def test_the_clusters_own_retention_is_held_back_too() -> None:
    made = final({}, oldest_ms=NOW - 8 * DAY)
    assert made.set == {"retention.ms": "-1"} and "retention.ms" not in made.delete
    assert [h.key for h in made.held_back] == ["retention.ms"]


def test_retention_wide_enough_is_put_back() -> None:
    assert final({"retention.ms": str(2 * DAY), "retention.bytes": "1000"}).held_back == ()


def test_apply_retention_holds_nothing_back() -> None:
    made = final({"retention.ms": "1"}, apply_retention=True)
    assert made.set == {"retention.ms": "1"} and made.held_back == ()


def test_an_empty_topic_has_nothing_to_lose() -> None:
    assert final({"retention.ms": "1"}, oldest_ms=None).held_back == ()


def test_compact_and_delete_together_still_delete() -> None:
    assert final({"cleanup.policy": "compact,delete", "retention.ms": "1"}).held_back


def test_a_topic_that_is_made_with_fewer_replicas_can_be_written() -> None:
    archived = {"min.insync.replicas": "2", "x.y": "z"}
    assert "min.insync.replicas" not in settings_while_writing(archived, 1, NEW)
    made = final(archived, replicas=1)
    assert made.set == {"x.y": "z"}
    assert [(h.key, h.value, h.reason) for h in made.held_back] == [
        ("min.insync.replicas", "2", "the topic has 1 replica")
    ]
    for replicas in (2, None):  # enough; or as many as ever, whatever its owner wants with them
        assert settings_while_writing(archived, replicas, NEW)["min.insync.replicas"] == "2"
        assert final(archived, replicas=replicas).held_back == ()


def test_an_old_target_gets_the_settings_by_its_own_names() -> None:
    archived = {"message.timestamp.after.max.ms": "5", "compression.zstd.level": "9", "x.y": "z"}
    old = settings_while_writing(archived, None, (2, 8))
    assert old["message.timestamp.difference.max.ms"] == LARGEST
    assert not {"message.timestamp.after.max.ms", "compression.zstd.level"} & set(old)
    made = final(archived, kafka=(2, 8))
    assert made.set == {"message.timestamp.difference.max.ms": "5", "x.y": "z"}
    assert "message.timestamp.before.max.ms" not in made.delete
    assert unknown_settings(archived, (2, 8)) == ["compression.zstd.level"]


def test_settings_of_an_old_cluster_come_back_in_a_new_one() -> None:
    archived = {"message.timestamp.difference.max.ms": "5", "message.format.version": "2.8-IV1"}
    made = final(archived)
    assert made.set == {
        "message.timestamp.before.max.ms": "5",
        "message.timestamp.after.max.ms": "5",
    }
    assert unknown_settings(archived, NEW) == ["message.format.version"]
    assert final(archived, kafka=(3, 9)).set == archived
