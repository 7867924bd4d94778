from __future__ import annotations

import pytest

from kafkeep.archive.commit import Changes
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.expiry import (
    DAY_MS,
    Expiry,
    Retention,
    RulePeriod,
    load_retention,
    record_retention,
)
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import list_logs, load_view

PID = PartitionId("orders", 1, 0)
T0 = 1_700_000_000_000


def test_rules_are_remembered_with_the_time_they_held(store) -> None:
    record_retention(store, "backup", ["orders", "events"], 7, T0)
    record_retention(store, "backup", ["orders"], 7, T0 + 1)
    record_retention(store, "backup", ["orders"], 30, T0 + 2)
    record_retention(store, "backup", ["orders", "never"], None, T0 + 3)
    rules = load_retention(store, "backup")
    assert rules == Retention(
        2,
        {
            "orders": (RulePeriod(7, T0, T0 + 2), RulePeriod(30, T0 + 2, T0 + 3)),
            "events": (RulePeriod(7, T0, None),),
        },
    )
    assert rules.active() == {"events": 7}
    assert list_logs(store) == [], "no log of its own"


@pytest.mark.parametrize("checkpoint_every", [2, 100])
def test_only_what_is_old_enough_may_have_expired(store, make_entry, checkpoint_every) -> None:
    at = [T0]
    log = CommitLog.open(
        store, "backup", writer="w", now_ms=lambda: at[0], checkpoint_every=checkpoint_every
    )
    for day in range(5):
        at[0] = T0 + day * DAY_MS
        entry = make_entry(day * 10, day * 10 + 10)
        log.append(Changes(entries=(entry,), positions={PID: entry.range.end}))
        log.checkpoint_if_due()
    record_retention(store, "backup", ["orders"], 2, T0 + DAY_MS)

    def expired(now_ms: int) -> list[int]:
        view = load_view(store, "backup")
        expiry = Expiry(store, view, now_ms)
        return [e.range.start for e in view.entries() if expiry.reason(e) is not None]

    assert expired(T0 + 4 * DAY_MS) == [0, 10, 20]
    assert expired(T0 + 9 * DAY_MS) == [0, 10, 20, 30, 40]
    assert expired(T0 + 2 * DAY_MS - 1) == []
    record_retention(store, "backup", ["orders"], None, T0 + 3 * DAY_MS)
    assert expired(T0 + 9 * DAY_MS) == [0, 10], "a rule that is gone deletes no more"
    view = load_view(store, "backup")
    reason = Expiry(store, view, T0 + 9 * DAY_MS).reason(view.entries()[0])
    assert reason == "expired by the retention rule of 2 days"


def test_without_a_rule_nothing_is_explained(store, make_entry) -> None:
    log = CommitLog.open(store, "backup", writer="w", now_ms=lambda: T0)
    log.append(Changes(entries=(make_entry(0, 5),), positions={PID: 5}))
    record_retention(store, "backup", ["others"], 1, T0)
    view = load_view(store, "backup")
    assert Expiry(store, view, T0 * 2).reason(view.entries()[0]) is None
