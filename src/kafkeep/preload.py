"""The modules that Spark's Python workers load before they fork, for each kind of job.

The code that starts Spark passes these names in ``SparkOptions.preload``. Without it, the first
task of a worker starts up to a second later. The names are strings because Spark's driver must not
import the modules: the command line starts the JVM before it imports anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkeep.options.backup import BackupOptions

LOAD_S3 = "kafkeep.store.s3.store:load_models"
_SHARED = ("kafkeep.objects.compile_kernels:compile_kernels", LOAD_S3)

BACKUP = ("kafkeep.backup.task", "kafkeep.objects.compile_kernels:compile_backup_kernels", LOAD_S3)
_SINK_WRITER = "kafkeep.objects.sink.writer"
_ROW_READER = "kafkeep.objects.records"
RESTORE = ("kafkeep.restore.task", *_SHARED)
COMPARE = ("kafkeep.compare.task", *_SHARED)
SERVICE = (
    *dict.fromkeys((*BACKUP, *RESTORE)),
    "kafkeep.objects.compile_kernels:load_sink_kernels",
)
"""Of sinks only what is compiled already: a service, or a session, may never run one."""
DRILL = tuple(dict.fromkeys((*RESTORE, *COMPARE)))
RESIDENT = tuple(dict.fromkeys((*SERVICE, *COMPARE)))
DEMO = tuple(dict.fromkeys((*BACKUP, *RESTORE)))


def for_backup(options: BackupOptions) -> tuple[str, ...]:
    """Return what the workers of a backup load: of a sink only what its options need.

    Kernels that are not in the cache are compiled then, which takes seconds for each format.
    """
    if options.sink is None:
        return BACKUP
    from kafkeep.options.sink.converters import ConverterClass  # noqa: PLC0415 - for sinks alone

    sink = options.sink.options
    kinds = [sink.format.format_class.value]
    if sink.value.kind is ConverterClass.JSON and sink.has_schemas:
        kinds.append("typed")
    return (*BACKUP, _SINK_WRITER, *(_KERNELS[kind] for kind in kinds if kind in _KERNELS))


def for_restore(*, reads_rows: bool) -> tuple[str, ...]:
    """Return what the workers of a restore load: readers of all formats only on request.

    Workers that meet rows of a sink without it load them by themselves.
    """
    return (*RESTORE, _ROW_READER) if reads_rows else RESTORE


_KERNELS = {
    kind: f"kafkeep.objects.compile_kernels:compile_{kind}_kernels"
    for kind in ("avro", "json", "parquet", "typed")
}
