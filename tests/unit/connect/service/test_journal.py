"""The journal where its store allows less than it should."""

from __future__ import annotations

import pytest

from kafkeep.connect.service.journal import Journal
from kafkeep.connect.service.state import StateChange
from kafkeep.errors import AccessDeniedError
from kafkeep.store.memory import MemoryStore


class Kept(MemoryStore):
    """A store from which nothing may be deleted."""

    def delete(self, key: str) -> None:
        raise AccessDeniedError(f"{key} may not be deleted")


def test_a_change_that_is_made_succeeds_though_older_ones_cannot_be_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Kept()
    journal = Journal(store, snapshot_every=2)
    for number in range(7):
        state = journal.commit(
            lambda _, number=number: StateChange(kind="define", name=f"c{number}")
        )  # type: ignore[misc]
        assert f"c{number}" in state.connectors
    assert "journal/000000000000.json may not be deleted" in caplog.text
    assert list(Journal(store).refresh().connectors) == [f"c{number}" for number in range(7)]
