"""Objects on their way to the store: many small ones side by side, few large ones."""

from __future__ import annotations

import threading

from tests.support.waiting import PATIENCE_S

from kafkeep.objects.range_writer import AT_ONCE, SMALL_AT_ONCE, SMALL_BYTES, Uploads

LARGE = {"size_bytes": SMALL_BYTES + 1}


def test_small_objects_go_side_by_side() -> None:
    together = threading.Barrier(SMALL_AT_ONCE, timeout=PATIENCE_S)

    def finish() -> None:
        together.wait()

    with Uploads() as uploads:
        for _ in range(2 * SMALL_AT_ONCE):
            uploads.add(finish, size_bytes=SMALL_BYTES)
        uploads.wait()


def test_a_large_object_waits_until_few_are_under_way() -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def finish() -> None:
        begun.release()
        assert go_on.wait(PATIENCE_S)

    with Uploads() as uploads:
        for _ in range(AT_ONCE):
            uploads.add(finish, **LARGE)
        adds = threading.Thread(target=uploads.add, args=[finish], kwargs=LARGE)
        adds.start()
        assert all(begun.acquire(timeout=PATIENCE_S) for _ in range(AT_ONCE))
        assert not begun.acquire(timeout=0.2)
        go_on.set()
        adds.join(PATIENCE_S)
        uploads.wait()
    assert begun.acquire(timeout=PATIENCE_S)
