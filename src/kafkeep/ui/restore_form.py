"""The wizard's forms: which keys each step asks for, and what a sent form asks for. Pure.

The fields come from the keys that the class ``kafkeep.Restore`` declares. A key without a place in
a step of its own is among the further options of the second step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkeep.connect.connectors.source_keys import PRODUCER, RESTORE, restore_options
from kafkeep.connect.model import RestError
from kafkeep.connect.runs.restore import ARCHIVE_ID, STATE
from kafkeep.options.selection import parse_renames
from kafkeep.ui.config_form import PREFIX, ConfigField, ConfigForm, parse_lines

TOPICS = "topics"
COMMIT = "restore.commit"
INTO_NON_EMPTY = "restore.into.non.empty"
SERVERS = f"{PRODUCER}bootstrap.servers"
PICK, TARGET = "pick:", "target:"
"""Before a topic's name in the names of form fields: it is chosen; its name in the target."""
CLIENT, OTHER = "client", "other"
NEW_ARCHIVE = ("archive", "s3.region", "store.url", "aws.access.key.id", "aws.secret.access.key")
"""How an archive is reached that no connector of the service writes."""
TIMES = ("restore.at", "restore.from", "restore.until")
PARTS = (
    *("restore.topics.regex", "restore.log", "restore.partitions", "restore.offsets"),
    *("restore.incarnation", "restore.filter"),
)
WHAT = (TOPICS, COMMIT, *TIMES, *PARTS)
OFTEN = (
    *("restore.exact.offsets", "restore.groups", "restore.replication.factor"),
    *(INTO_NON_EMPTY, "restore.rate"),
)
MORE = tuple(
    key for key in (RESTORE + one.name for one in restore_options()) if key not in (*WHAT, *OFTEN)
)
WHERE = (SERVERS, *OFTEN, *MORE, STATE)


@dataclass(frozen=True, slots=True)
class TopicRename:
    """A chosen topic, and its name in the target."""

    topic: str
    target: str


def fields_of(form: ConfigForm, keys: Sequence[str]) -> list[ConfigField]:
    """Return the fields of these keys, in the order of the keys; all of them are of a restore."""
    known = {
        field.key: replace(field, label=field.label.removeprefix("Restore ").capitalize())
        for field in form.fields
    }
    return [known[key] for key in keys if key in known]


def renames(asked: Mapping[str, str]) -> list[TopicRename]:
    """Return the chosen topics; none when all are restored."""
    text = asked.get(TOPICS, "").strip()
    return [TopicRename(*pair) for pair in parse_renames(text)] if text else []


def may_append(asked: Mapping[str, str]) -> bool:
    """Return whether records may be added to topics that already hold some."""
    return asked.get(INTO_NON_EMPTY, "").strip().lower() not in ("", "false")


def client_lines(asked: Mapping[str, str]) -> str:
    """Return the client properties of another cluster as lines."""
    return _lines(
        {
            key.removeprefix(PRODUCER): text
            for key, text in asked.items()
            if key.startswith(PRODUCER) and key != SERVERS
        }
    )


def other_lines(asked: Mapping[str, str]) -> str:
    """Return the keys without a field, such as those of transforms, as lines."""
    return _lines({key: text for key, text in asked.items() if _is_other(key)})


def with_what(asked: Mapping[str, str], form: Mapping[str, str]) -> dict[str, str]:
    """Return what is asked for after the first step was sent; renames of topics stay."""
    found = {key: text for key, text in asked.items() if key not in WHAT} | _given(form, WHAT)
    picked = [name.removeprefix(PICK) for name in form if name.startswith(PICK)]
    if picked:
        known = {one.topic: one.target for one in renames(asked)}
        found[TOPICS] = _topics([TopicRename(name, known.get(name, name)) for name in picked])
    return found


def with_where(asked: Mapping[str, str], form: Mapping[str, str]) -> dict[str, str]:
    """Return what is asked for after the second step was sent."""
    kept = {
        key: text
        for key, text in asked.items()
        if key not in WHERE and not key.startswith(PRODUCER) and not _is_other(key)
    }
    client = parse_lines(form.get(CLIENT, "").splitlines())
    others = parse_lines(form.get(OTHER, "").splitlines())
    for key in others:
        if not _is_other(key):
            raise RestError(400, f"{key} has a field of its own; leave it out of the other keys.")
    kept |= _given(form, WHERE) | others
    kept |= {f"{PRODUCER}{key}": text for key, text in client.items()}
    named = [
        TopicRename(one.topic, form.get(TARGET + one.topic, "").strip() or one.topic)
        for one in renames(asked)
    ]
    if named:
        kept[TOPICS] = _topics(named)
    return kept


def new_archive(form: Mapping[str, str]) -> dict[str, str]:
    """Return the archive that the first page was sent with: a known one or another bucket."""
    if id := form.get(ARCHIVE_ID, "").strip():
        return {ARCHIVE_ID: id}
    found = _given(form, NEW_ARCHIVE)
    if "archive" not in found:
        raise RestError(400, "Choose an archive, or enter the address of one: s3://bucket/prefix.")
    return found


def _is_other(key: str) -> bool:
    known = (*WHAT, *WHERE, *NEW_ARCHIVE, ARCHIVE_ID)
    return key not in known and not key.startswith(PRODUCER)


def _given(form: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    texts = {key: form.get(PREFIX + key, "").strip() for key in keys}
    return {key: text for key, text in texts.items() if text}


def _topics(named: Sequence[TopicRename]) -> str:
    return ",".join(
        one.topic if one.topic == one.target else f"{one.topic}:{one.target}" for one in named
    )


def _lines(config: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={text}" for key, text in sorted(config.items()))
