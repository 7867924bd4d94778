"""Fill offsets without a record: with batches of filler records or with empty transactions.

A transaction that only names partitions writes one control record to each. It takes one offset and
is invisible to consumers.
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from kafkeep.errors import KafkeepError, PreflightError, TransientError, UnknownOutcomeError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.batch.compression import Codec, compress
from kafkeep.kafka.batch.layout import CRC_START, HEADER_BYTES
from kafkeep.kafka.client.errors import RETRIABLE, refusal
from kafkeep.kafka.client.metadata import TopicPartition
from kafkeep.numba_setup import Bytes, copy_bytes, kernel, varlong_size, write_varlong
from kafkeep.retry import TRANSACTION

LARGEST_FILLER = 1_000_000
TIMEOUT_MS = 60_000
_TRANSACTION_KEY = 1
_LAST_VERSION_OF_CLIENTS = 3
_CONCURRENT = 51
_FENCED = frozenset({47, 90})
_LOST = frozenset({48, 49})
"""The state of the coordinator differs from this client's: fence and start again."""


@kernel
def _fill(out: Bytes, count: int, key: Bytes) -> int:
    """Encode ``count`` records without value, under ``key`` (empty for none); return the size."""
    at = 0
    for delta in range(count):
        size = 1 + 1 + varlong_size(delta) + varlong_size(len(key)) + len(key) + 2
        at = write_varlong(out, at, size)
        out[at] = 0
        out[at + 1] = 0
        at = write_varlong(out, at + 2, delta)
        if len(key) == 0:
            out[at] = 1
            at += 1
        else:
            at = write_varlong(out, at, len(key))
            copy_bytes(out, at, key, 0, len(key))
            at += len(key)
        out[at] = 1
        out[at + 1] = 0
        at += 2
    return at


@lru_cache(maxsize=4)
def _packed(count: int, key: bytes) -> bytes:
    out = np.empty(count * (16 + len(key)), dtype=np.uint8)
    size = _fill(out, count, np.frombuffer(key, dtype=np.uint8).copy())
    return bytes(compress(Codec.ZSTD, out[:size]))


def filler_batch(count: int, timestamp: int, key: bytes = b"") -> bytearray:
    """Return a batch of ``count`` records without value, ready for ``rewrite.stamp``.

    They have no key unless one is given. The records of the last few sizes are cached.
    """
    records = _packed(count, key)
    body = bytearray(HEADER_BYTES + len(records))
    body[HEADER_BYTES:] = records
    struct.pack_into(">qiibI", body, 0, 0, len(body) - 12, -1, 2, 0)
    struct.pack_into(">hiqq", body, CRC_START, Codec.ZSTD, count - 1, timestamp, timestamp)
    struct.pack_into(">qhii", body, 43, -1, -1, -1, count)
    return body


class Transactions:
    """Empty transactions under one transactional id. Blocking; not thread-safe."""

    def __init__(self, admin: Admin, transactional_id: str) -> None:
        self.id = transactional_id
        self._admin = admin
        self._link = admin.wire.link
        self._node: int | None = None
        self._producer = (-1, -1)

    def fence(self) -> None:
        """Fence earlier producers with this id, and wait until their transactions have ended.

        Afterwards none of their markers can be written.
        """

        def make() -> Any:
            return InitProducerIdRequest(
                transactional_id=self.id,
                transaction_timeout_ms=TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            )

        answer = self._ask(make, lambda found: [found.error_code], repeat=True)
        self._producer = (answer.producer_id, answer.producer_epoch)

    def mark(self, partitions: Collection[TopicPartition]) -> None:
        """Begin and commit an empty transaction that names the partitions.

        Its markers may be written after this returns: wait for the end offsets. After
        UnknownOutcomeError they may or may not be written: call ``fence`` and read the end offsets.
        PreflightError when another run has begun.
        """
        named: dict[str, list[int]] = defaultdict(list)
        for topic, partition in sorted(partitions):
            named[topic].append(partition)
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        producer_id, epoch = self._producer

        def add() -> Any:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[kind(name=n, partitions=p) for n, p in named.items()],
                max_version=_LAST_VERSION_OF_CLIENTS,
            )

        def end() -> Any:
            return EndTxnRequest(
                transactional_id=self.id,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=True,
                max_version=_LAST_VERSION_OF_CLIENTS,
            )

        self._ask(add, _added_codes)
        self._ask(end, lambda found: [found.error_code])

    def _ask(self, make: Any, codes: Any, *, repeat: bool = False) -> Any:
        """Send a request to the coordinator; retry while it is busy."""
        retries = TRANSACTION.begin()
        while True:
            failure: KafkeepError
            try:
                answer = self._admin.wire.call(self._send, make)
                bad = [code for code in codes(answer) if code]
                if not bad:
                    return answer
                failure = self._judge(bad)
            except TransientError as error:
                self._node = None
                failure = error
            unknown = isinstance(failure, UnknownOutcomeError) and not repeat
            final = unknown or not isinstance(failure, TransientError)
            wait_s = retries.next_wait_s()
            if final or wait_s is None:
                raise failure
            time.sleep(wait_s)

    def _judge(self, bad: list[int]) -> KafkeepError:
        code = next((code for code in bad if code != _CONCURRENT), _CONCURRENT)
        if code in _FENCED:
            return PreflightError(
                f"another run uses the transactional id {self.id}",
                hint="Wait until it ends, then run the same command again to check or resume.",
            )
        if code in _LOST:
            return UnknownOutcomeError(
                f"transaction {self.id} is in an unexpected state (code {code})"
            )
        if code == _CONCURRENT:
            return TransientError(f"transaction {self.id} is still ending")
        if code in RETRIABLE:
            self._node = None
        return refusal(code, f"transactional id {self.id}")

    async def _send(self, make: Any) -> Any:
        await self._link.connect()
        if self._node is None:
            self._node = await self._find()
        return await self._link.send(make(), self._node, deadline=time.monotonic() + 10)

    async def _find(self) -> int:
        version = int(
            self._link.connections.broker_version_data.api_version(FindCoordinatorRequest)
        )

        def make() -> Any:
            if version >= 4:
                return FindCoordinatorRequest(key_type=_TRANSACTION_KEY, coordinator_keys=[self.id])
            return FindCoordinatorRequest(key=self.id, key_type=_TRANSACTION_KEY)

        answer = await self._admin.routes.any_broker(make, lambda _: ())
        found = answer.coordinators[0] if version >= 4 else answer
        if found.error_code:
            raise refusal(found.error_code, f"transactional id {self.id}")
        node: int = found.node_id
        return node


def _added_codes(answer: Any) -> list[int]:
    return [
        part.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]
