"""The keys of objects, built and parsed.

All keys are relative to the archive's prefix::

    topics/<folder>/partition=<p>/<topic>+<p>+<start><extension>     data
    _kafkeep/<log>/log/<number>.json                                 commits
    _kafkeep/<log>/checkpoint/<10^20-1-number>-<number>.json.zst     checkpoint roots, newest first
    _kafkeep/<log>/table/<first>-<last>[-<try>].json.zst             entry tables
    _kafkeep/<log>/schemas/<sha256>.json.zst                         schemas of a registry
"""

from __future__ import annotations

import hashlib
import re

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.names import ROOT, check_log_name

DATA_FOLDER = "topics"
"""The folder of data objects, unless topics.dir names another."""
START_DIGITS = 10
LAST_NUMBER = 10**20 - 1
MAX_STEM = 200
"""File systems refuse file names over 255 bytes, so longer topic names are shortened."""

_CHECKPOINT = re.compile(r"_kafkeep/([^/]+)/checkpoint/([0-9]{20})-([0-9]+)\.json\.zst")


def data_key(partition_id: PartitionId, start: int, extension: str, pad: int = START_DIGITS) -> str:
    """Return the key of an object whose first offset is ``start``, in the default layout.

    ``pad`` is greater than 10 when other objects have the shorter names; see ``padded_again``.
    """
    topic, _, partition = partition_id
    name = f"{_stem(topic)}+{partition}+{start:0{pad}d}{extension}"
    return f"{DATA_FOLDER}/{partition_id.folder}/partition={partition}/{name}"


def padded_again(key: str) -> str:
    """Return ``key`` with one more zero before its offset: the next name when it is taken."""
    head, plus, tail = key.rpartition("+")
    if not plus or not tail[:1].isdigit():
        raise ValueError(f"no offset in the key {key!r}")
    return f"{head}+0{tail}"


def log_prefix(name: str) -> str:
    """Return the folder of a log's commits."""
    return f"{ROOT}{check_log_name(name)}/log/"


def log_key(name: str, number: int) -> str:
    """Return the key of one commit."""
    return f"{log_prefix(name)}{number:020d}.json"


def checkpoint_prefix(name: str) -> str:
    """Return the folder of a log's checkpoint roots."""
    return f"{ROOT}{check_log_name(name)}/checkpoint/"


def checkpoint_key(name: str, number: int) -> str:
    """Return the key of the checkpoint at a commit; later checkpoints sort first."""
    return f"{checkpoints_after(name, number)}-{number}.json.zst"


def checkpoints_after(name: str, number: int) -> str:
    """Return where to begin a listing of the checkpoints up to ``number``, newest first."""
    return f"{checkpoint_prefix(name)}{LAST_NUMBER - number:020d}"


def parse_checkpoint_key(key: str) -> int | None:
    """Return the commit of a checkpoint, or None for the key of something else."""
    match = _CHECKPOINT.fullmatch(key)
    if match is None or int(match[2]) + int(match[3]) != LAST_NUMBER:
        return None
    return int(match[3])


def table_key(name: str, first: int, last: int, attempt: int = 0) -> str:
    """Return the key of the entries of commits ``first`` to ``last``, both included."""
    tried = f"-{attempt}" if attempt else ""
    return f"{ROOT}{check_log_name(name)}/table/{first:020d}-{last:020d}{tried}.json.zst"


def schemas_key(name: str, digest: str) -> str:
    """Return the key of a document of schemas."""
    return f"{ROOT}{check_log_name(name)}/schemas/{digest}.json.zst"


def is_schemas_key(key: str) -> bool:
    """Return whether a key is that of a document of schemas."""
    return key.startswith(ROOT) and key.split("/")[2:3] == ["schemas"]


def _stem(topic: str) -> str:
    if len(topic) <= MAX_STEM:
        return topic
    return f"{topic[:180]}~{hashlib.sha256(topic.encode()).hexdigest()[:16]}"
