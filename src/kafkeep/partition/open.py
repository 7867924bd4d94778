"""The partitioner that options ask for."""

from __future__ import annotations

from kafkeep.config.partition import PartitionOptions
from kafkeep.partition.default import DefaultPartitioner, SchemaNamePartitioner
from kafkeep.partition.extract import Extractor
from kafkeep.partition.field import FieldPartitioner, FieldPaths
from kafkeep.partition.joda import PathFormat
from kafkeep.partition.partitioner import Partitioner
from kafkeep.partition.time import TimePartitioner, TimePaths
from kafkeep.partition.zone import Zone


def open_partitioner(options: PartitionOptions) -> Partitioner:
    """Return the partitioner; cheap, to be called in each task."""
    raw = options.partition_path_encoding == "raw"
    affix = options.s3_schema_partition_affix_type
    inner = _open_inner(options, raw=raw)
    if affix == "NONE":
        return inner
    return SchemaNamePartitioner(inner, is_prefix=affix == "PREFIX", raw=raw)


def _open_inner(options: PartitionOptions, *, raw: bool) -> Partitioner:
    extractor = Extractor(options.extractor, options.timestamp_field)
    fields = FieldPaths(options.partition_field_name, raw) if options.is_field else None
    if options.is_time_based:
        path_format = PathFormat(options.pattern, Zone(options.timezone), options.locale)
        return TimePartitioner(TimePaths(path_format, options.duration_ms), extractor, fields)
    if fields is not None:
        return FieldPartitioner(fields, extractor)
    return DefaultPartitioner(extractor)
