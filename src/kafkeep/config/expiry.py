"""Whether objects can expire by topic: a rule of the bucket is about a folder. Pure."""

from __future__ import annotations

from kafkeep.config.sink import SinkOptions

_ROUTERS = frozenset({"RegexRouter", "TimestampRouter"})


def why_not_by_topic(sink: SinkOptions | None, *, is_pair: bool) -> str | None:
    """Return why ``s3.retention.days`` cannot be had; None when every topic has a folder."""
    if is_pair:
        return "is not for a pair: a snapshot that expires is none"
    if sink is None:
        return None
    naming = sink.naming
    if naming.directory_delim != "/":
        return f"needs directory.delim /, not {naming.directory_delim!r}"
    if naming.name_template is not None and not naming.name_template.startswith("{{topic}}/"):
        return f"is by topic: names like {naming.name_template} do not begin with its folder"
    for spec in sink.transforms:
        if spec.kind in _ROUTERS:
            return f"is by topic, and {spec.kind} gives objects folders of other topics"
    return None
