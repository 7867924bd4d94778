"""In which order versions are registered: what is referred to first, each subject in its own order.

Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from kafkeep.archive.schemas import RegisteredSchema, SchemaSet, SchemaVersion
from kafkeep.errors import DamagedError

Place = tuple[str, int]
"""A subject and one of its versions."""


def in_order(found: SchemaSet) -> list[tuple[str, SchemaVersion]]:
    """Return every version behind those it refers to, and behind the earlier ones of its subject.

    Of those that may come next the lowest id is first, as they were registered. References to
    what is not in the set are for others to refuse. DamagedError when they go in a circle.
    """
    places = {(name, one.version): one for name, one in found.versions()}
    before = {place: set(_before(found, place, places)) for place in places}
    after: dict[Place, list[Place]] = {place: [] for place in places}
    for place, earlier in before.items():
        for one in earlier:
            after[one].append(place)
    ready = [(places[p].id, p) for p, earlier in before.items() if not earlier]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, place = heapq.heappop(ready)
        ordered.append((place[0], places[place]))
        for other in after[place]:
            before[other].discard(place)
            if not before[other]:
                heapq.heappush(ready, (places[other].id, other))
    if len(ordered) < len(places):
        stuck = min(place for place, earlier in before.items() if earlier)
        raise DamagedError(f"version {stuck[1]} of {stuck[0]} refers to itself in a circle")
    return ordered


def missing_references(found: SchemaSet) -> Iterator[tuple[int, str]]:
    """Yield schemas that refer to what the set does not hold: their ids, and what it is."""
    for id, schema in sorted(found.schemas.items()):
        for one in schema.references:
            subject = found.subjects.get(one.subject)
            if subject is None or subject.find(one.version) is None:
                yield id, f"version {one.version} of {one.subject}"


def _before(found: SchemaSet, place: Place, places: dict[Place, SchemaVersion]) -> Iterator[Place]:
    name, version = place
    earlier = [one.version for one in found.subjects[name].versions if one.version < version]
    if earlier:
        yield name, max(earlier)
    schema: RegisteredSchema = found.schemas[places[place].id]
    for one in schema.references:
        if (one.subject, one.version) in places:
            yield one.subject, one.version
