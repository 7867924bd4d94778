"""What is left of a damaged object: the stretches of a segment whose frames are sound. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.contents.frames import Frame, FrameFacts, check_frame, plan_frames
from kafkeep.contents.windows import SEGMENT
from kafkeep.errors import DamagedError

SoundFrame = tuple[Frame, FrameFacts]


def sound_parts(data: bytes, entry: Entry) -> tuple[Entry, ...]:
    """Return the sound stretches of a damaged segment, as entries to read it by; none of others.

    Where every frame is sound nobody can tell what was changed, so nothing of it counts.
    """
    frames = plan_frames(entry.stored) if entry.format == SEGMENT else None
    if frames is None:
        return ()
    checked = [_checked(data, frame, entry) for frame in frames]
    if None not in checked:
        return ()
    parts = (_part(entry, stretch) for stretch in _stretches(checked))
    return tuple(part for part in parts if part is not None)


def lost_ranges(entry: Entry, parts: Sequence[Entry]) -> Iterator[OffsetRange]:
    """Yield the offsets of an entry that none of its parts answers for."""
    reached = entry.range.start
    for part in parts:
        if part.range.start > reached:
            yield OffsetRange(reached, part.range.start)
        reached = part.range.end
    if reached < entry.range.end:
        yield OffsetRange(reached, entry.range.end)


def _checked(data: bytes, frame: Frame, entry: Entry) -> SoundFrame | None:
    if frame.end > len(data):
        return None
    try:
        facts = check_frame(data[frame.start : frame.end], frame, entry, deep=False)
    except DamagedError:
        return None
    return (frame, facts) if facts.problem is None else None


def _stretches(checked: Sequence[SoundFrame | None]) -> Iterator[list[SoundFrame]]:
    """Group sound frames that are neighbours."""
    stretch: list[SoundFrame] = []
    for frame in (*checked, None):
        if frame is not None:
            stretch.append(frame)
        elif stretch:
            yield stretch
            stretch = []


def _part(entry: Entry, stretch: Sequence[SoundFrame]) -> Entry | None:
    """Return an entry that reads these frames alone, or None when it answers for nothing of them.

    Positions of its index are those in the object.
    """
    first, last = stretch[0][0], stretch[-1][0]
    range = OffsetRange(first.offsets.start, last.offsets.end).overlap(entry.range)
    if range is None:
        return None
    points = [frame.point for frame, _ in stretch]
    return replace(
        entry,
        range=range,
        records=sum(facts.wanted for _, facts in stretch),
        raw_bytes=sum(facts.raw_bytes for _, facts in stretch),
        size_bytes=last.end,
        index=tuple(p._replace(records=p.records - points[0].records) for p in points),
        min_timestamp=min(point.min_timestamp for point in points),
        max_timestamp=max(point.max_timestamp for point in points),
        whole_end=0,
        whole_records=0,
    )
