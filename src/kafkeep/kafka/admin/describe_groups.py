"""Describe consumer groups: state, protocol and members. Reads only."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest

from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.groups import Coordinators
from kafkeep.kafka.client.errors import is_final, refusal
from kafkeep.kafka.client.metadata import TopicPartition
from kafkeep.retry import KAFKA_GROUPS

_LAST_VERSION_WITHOUT_NOT_FOUND = 5
"""Later versions answer with an error for a group that does not exist, earlier ones with Dead."""
CLASSIC, SHARE = "classic", "share"
_MOST_ASSIGNED = 100_000


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it; brokers before 2.6 report no state."""

    id: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer of a group, with the partitions that it reads."""

    id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


def list_described(admin: Admin) -> dict[str, ListedGroup]:
    """Return all groups that may hold committed offsets, with their state, by id."""
    listed = admin.wire.call(Coordinators(admin.routes).listed)
    found = [
        ListedGroup(one.group_id, one.group_state or "", (one.group_type or CLASSIC).lower())
        for one in listed
    ]
    return {one.id: one for one in sorted(found, key=lambda g: g.id) if one.type != SHARE}


def load_members(admin: Admin, group: str) -> list[GroupMember]:
    """Return the members of a classic group; none for a group that does not exist.

    Groups of the newer protocol answer with no members: their request is not implemented.
    """
    described = admin.wire.call(_Describer(admin.routes).describe, group)
    members = [
        GroupMember(
            one.member_id,
            one.client_id,
            one.client_host.removeprefix("/"),
            parse_assignment(bytes(one.member_assignment or b"")),
        )
        for one in described.members
    ]
    return sorted(members, key=lambda member: (member.client_id, member.id))


class _Describer(Coordinators):
    async def describe(self, group: str) -> Any:
        """Ask the coordinator of a group; repeated while the coordinator moves."""
        deadline = self._routes.deadline()
        retries = KAFKA_GROUPS.begin(deadline)
        await self._link.connect()
        while True:
            answer = await self._try_describe(group, deadline)
            if not isinstance(answer, KafkeepError):
                return answer
            wait_s = retries.next_wait_s()
            if is_final(answer) or wait_s is None:
                raise answer
            await self._link.net.sleep(wait_s)

    async def _try_describe(self, group: str, deadline: float) -> Any:
        version = self._version(DescribeGroupsRequest, _LAST_VERSION_WITHOUT_NOT_FOUND)
        request = DescribeGroupsRequest(version=version, groups=[group])
        try:
            node = await self.coordinator(group)
            answer = await self._link.send(request, node, deadline=deadline)
        except KafkeepError as error:
            return error
        [described] = answer.groups
        if described.error_code:
            return refusal(described.error_code, f"group {group}")
        return described


def parse_assignment(body: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a member; none when the bytes are not a consumer's assignment."""
    try:
        return tuple(sorted(_assigned(body)))
    except (struct.error, UnicodeDecodeError, ValueError):
        return ()


def _assigned(body: bytes) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    if not body:
        return found
    _, topics = struct.unpack_from(">hi", body)
    at = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", body, at)
        name = body[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", body, at + 2 + length)
        at += 6 + length
        if length < 0 or not 0 <= count <= _MOST_ASSIGNED - len(found):
            raise ValueError("not an assignment")
        found += [(name, number) for number in struct.unpack_from(f">{count}i", body, at)]
        at += 4 * count
    return found
