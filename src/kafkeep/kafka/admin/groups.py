"""Consumer groups: read the committed offsets of all of them, write those of one.

Requests go to the coordinator of each group and are repeated when the coordinator moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from kafkeep.errors import KafkeepError, PreflightError, TransientError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.errors import DENIED, RETRIABLE, is_final, refusal
from kafkeep.kafka.client.large_answers import GroupAnswer
from kafkeep.kafka.client.metadata import Routes, TopicPartition, format_partition
from kafkeep.retry import KAFKA_GROUPS

_GROUP_KEY = 0
_FIRST_VERSION_WITH_MANY_KEYS = 4
_FIRST_VERSION_WITH_MANY_GROUPS = 8
_LAST_VERSION_WITH_NAMES = 9
_GROUPS_PER_REQUEST = 200
_GROUP_NOT_FOUND = 69
_NO_EPOCH = -1
"""With a leader epoch of another cluster, consumers would detect a truncated log."""
_ACTIVE = frozenset({22, 25, 27, 68, 110, 113})
"""The group has active members, so Kafka refuses offsets from other clients."""


@dataclass(slots=True)
class GroupOffsets:
    """Committed offsets by group; ``denied`` names the groups this user may not read."""

    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)


class Coordinators:
    """Requests to group coordinators, as coroutines."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._link = routes.link

    async def all_ids(self) -> list[str]:
        """Return every group that may hold committed offsets."""
        listed = await self.listed()
        return sorted({g.group_id for g in listed if g.group_type.lower() != "share"})

    async def listed(self) -> list[Any]:
        """Return every group as its coordinator lists it."""
        retries = KAFKA_GROUPS.begin(self._routes.deadline())
        while True:
            answers = await self._routes.each_broker(ListGroupsRequest)
            failure = _first_failure(answers)
            if failure is None:
                return [group for answer in answers for group in answer.groups]
            wait_s = retries.next_wait_s()
            if is_final(failure) or wait_s is None:
                raise failure
            await self._link.net.sleep(wait_s)

    async def fetch(self, groups: Sequence[str]) -> GroupOffsets:
        """Fetch the offsets of all groups, several per request."""
        deadline = self._routes.deadline()
        retries = KAFKA_GROUPS.begin(deadline)
        found = GroupOffsets()
        todo = list(groups)
        await self._link.connect()
        while todo:
            coordinators = await self._coordinators(todo, found)
            calls = [
                partial(self._fetch_from, node, chunk, found, deadline)
                for node, members in coordinators.items()
                for chunk in _chunks(members, self._groups_per_request())
            ]
            for outcome in await self._link.gather(calls):
                if isinstance(outcome, Exception) and not isinstance(outcome, TransientError):
                    raise outcome
            todo = [g for g in todo if g not in found.offsets and g not in found.denied]
            if todo:
                wait_s = retries.next_wait_s()
                if wait_s is None:
                    raise TransientError(f"group {todo[0]}: no coordinator answers")
                await self._link.net.sleep(wait_s)
        return found

    def _version(self, request: Any, last: int | None = None) -> int:
        versions = self._link.connections.broker_version_data
        version = int(versions.api_version(request))
        return version if last is None else min(version, last)

    def _groups_per_request(self) -> int:
        version = self._version(OffsetFetchRequest)
        return _GROUPS_PER_REQUEST if version >= _FIRST_VERSION_WITH_MANY_GROUPS else 1

    async def _coordinators(
        self, groups: Sequence[str], found: GroupOffsets
    ) -> dict[int, list[str]]:
        """Return the groups by coordinator, without groups whose coordinator is unknown."""
        grouped: dict[int, list[str]] = defaultdict(list)
        many = self._version(FindCoordinatorRequest) >= _FIRST_VERSION_WITH_MANY_KEYS
        for chunk in _chunks(groups, _GROUPS_PER_REQUEST if many else 1):
            for group, code, node in await self._find(chunk, many):
                if code in DENIED:
                    found.denied.append(group)
                elif code == 0:
                    grouped[node].append(group)
        return grouped

    async def _find(self, groups: Sequence[str], many: bool) -> list[tuple[str, int, int]]:
        def make() -> Any:
            if many:
                return FindCoordinatorRequest(key_type=_GROUP_KEY, coordinator_keys=list(groups))
            return FindCoordinatorRequest(key=groups[0], key_type=_GROUP_KEY)

        answer = await self._routes.any_broker(make, lambda _: ())
        if many:
            return [(c.key, c.error_code, c.node_id) for c in answer.coordinators]
        return [(groups[0], answer.error_code, answer.node_id)]

    async def _fetch_from(
        self, node: int, groups: Sequence[str], found: GroupOffsets, deadline: float
    ) -> None:
        version = self._version(OffsetFetchRequest, _LAST_VERSION_WITH_NAMES)
        if version >= _FIRST_VERSION_WITH_MANY_GROUPS:
            kind = OffsetFetchRequest.OffsetFetchRequestGroup
            asked = [kind(version=version, group_id=group, topics=None) for group in groups]
            request = OffsetFetchRequest(version=version, groups=asked, require_stable=False)
        else:
            request = OffsetFetchRequest(version=version, group_id=groups[0], topics=None)
        answer = await self._link.send(request, node, deadline=deadline)
        for group in answer.groups:
            _take_group(group.group_id or groups[0], group, found)

    async def coordinator(self, group: str) -> int:
        """Return the node that coordinates a group."""
        many = self._version(FindCoordinatorRequest) >= _FIRST_VERSION_WITH_MANY_KEYS
        [(_, code, node)] = await self._find([group], many)
        if code:
            raise refusal(code, f"group {group}")
        return node

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit as a client that is not a member; only an empty group accepts this."""
        await self._change(group, lambda: self._commit_request(group, offsets))

    async def forget(self, group: str, partitions: Collection[TopicPartition]) -> None:
        """Delete offsets; a group accepts this for topics that it does not consume."""
        await self._change(group, lambda: _forget_request(group, partitions))

    async def delete(self, group: str) -> None:
        """Delete a group that has no members."""
        await self._change(group, lambda: DeleteGroupsRequest(groups_names=[group]))

    async def _change(self, group: str, make: Callable[[], Any]) -> None:
        deadline = self._routes.deadline()
        retries = KAFKA_GROUPS.begin(deadline)
        await self._link.connect()
        while True:
            failure = await self._try_change(group, make, deadline)
            if failure is None:
                return
            wait_s = retries.next_wait_s()
            if is_final(failure) or wait_s is None:
                raise failure
            await self._link.net.sleep(wait_s)

    async def _try_change(
        self, group: str, make: Callable[[], Any], deadline: float
    ) -> KafkeepError | None:
        try:
            node = await self.coordinator(group)
            answer = await self._link.send(make(), node, deadline=deadline)
        except KafkeepError as error:
            return error
        for code, what in _outcomes(group, answer):
            if code in _ACTIVE:
                return PreflightError(
                    f"group {group} is active: Kafka refused its offsets (code {code})",
                    hint="Stop the consumers of the group, then run the same command again.",
                )
            if code and code != _GROUP_NOT_FOUND:
                return refusal(code, what)
        return None

    def _commit_request(self, group: str, offsets: Mapping[TopicPartition, int]) -> Any:
        kind = OffsetCommitRequest.OffsetCommitRequestTopic
        grouped: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), offset in offsets.items():
            grouped[topic].append(
                kind.OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=_NO_EPOCH,
                    committed_metadata="",
                )
            )
        return OffsetCommitRequest(
            version=self._version(OffsetCommitRequest, _LAST_VERSION_WITH_NAMES),
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[kind(name=name, partitions=parts) for name, parts in grouped.items()],
        )


def _forget_request(group: str, partitions: Collection[TopicPartition]) -> Any:
    kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
    grouped: dict[str, list[Any]] = defaultdict(list)
    for topic, partition in partitions:
        grouped[topic].append(kind.OffsetDeleteRequestPartition(partition_index=partition))
    return OffsetDeleteRequest(
        group_id=group,
        topics=[kind(name=name, partitions=parts) for name, parts in grouped.items()],
    )


def _outcomes(group: str, answer: Any) -> Iterator[tuple[int, str]]:
    """Yield each error code in the answer to a change, and the resource it concerns."""
    yield getattr(answer, "error_code", 0), f"group {group}"
    for result in getattr(answer, "results", ()):
        yield result.error_code, f"group {result.group_id}"
    for topic in getattr(answer, "topics", ()):
        for part in topic.partitions:
            where = format_partition((topic.name, part.partition_index))
            yield part.error_code, f"group {group} on {where}"


def _take_group(name: str, group: GroupAnswer, found: GroupOffsets) -> None:
    if group.error_code in DENIED:
        found.denied.append(name)
    elif group.error_code == _GROUP_NOT_FOUND:
        found.offsets[name] = {}
    elif group.error_code and group.error_code not in RETRIABLE:
        raise refusal(group.error_code, f"group {name}")
    elif not group.error_code:
        errors = group.partitions.errors()
        offsets = group.partitions.values("committed_offset")
        found.offsets[name] = {
            key: offset for key, offset in offsets.items() if offset >= 0 and key not in errors
        }


def _first_failure(answers: Sequence[Any]) -> KafkeepError | None:
    for answer in answers:
        if isinstance(answer, KafkeepError):
            return answer
        if isinstance(answer, Exception):
            raise answer
        if answer.error_code:
            return refusal(answer.error_code, "the list of groups")
    return None


def _chunks(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


__all__ = [
    "GroupOffsets",
    "active_groups",
    "commit_offsets",
    "delete_group",
    "delete_offsets",
    "list_groups",
    "load_group_offsets",
]

_IDLE_STATES = frozenset({"", "empty", "dead", "unknown"})


def list_groups(admin: Admin) -> list[str]:
    """Return the ids of all groups that may hold committed offsets, active or not."""
    return admin.wire.call(Coordinators(admin.routes).all_ids)


def active_groups(admin: Admin, groups: Collection[str]) -> list[str]:
    """Return the groups that have members; brokers before 2.6 report none."""
    listed = admin.wire.call(Coordinators(admin.routes).listed)
    wanted = set(groups)
    return sorted(
        {
            group.group_id
            for group in listed
            if group.group_id in wanted and (group.group_state or "").lower() not in _IDLE_STATES
        }
    )


def load_group_offsets(
    admin: Admin, topics: Collection[str] | None, groups: Collection[str] | None = None
) -> GroupOffsets:
    """Return the committed offsets of each group on ``topics``, without groups that have none.

    None stands for all topics. All groups unless some are named, including active groups.
    """
    call = Coordinators(admin.routes)
    names = list(groups) if groups is not None else admin.wire.call(call.all_ids)
    found = admin.wire.call(call.fetch, names)
    wanted = None if topics is None else set(topics)
    kept = {
        group: {
            tp: offset
            for tp, offset in sorted(offsets.items())
            if wanted is None or tp[0] in wanted
        }
        for group, offsets in sorted(found.offsets.items())
    }
    found.offsets = {group: offsets for group, offsets in kept.items() if offsets}
    found.denied.sort()
    return found


def commit_offsets(admin: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group; PreflightError when it has active members.

    Not atomic: the error names the first partition that was refused.
    """
    if offsets:
        admin.wire.call(Coordinators(admin.routes).commit, group, offsets)


def delete_group(admin: Admin, group: str) -> None:
    """Delete a group with its offsets; no error when it does not exist.

    PreflightError when it has active members.
    """
    admin.wire.call(Coordinators(admin.routes).delete, group)


def delete_offsets(admin: Admin, group: str, partitions: Collection[TopicPartition]) -> None:
    """Delete the committed offsets of a group on partitions; no error when there are none."""
    if partitions:
        admin.wire.call(Coordinators(admin.routes).forget, group, partitions)
