"""The modules that Spark's Python workers load before they fork, for each kind of job.

The code that starts Spark passes these names in ``SparkOptions.preload``. Without it, the first
task of a worker starts up to a second later. The names are strings because Spark's driver must not
import the modules: the command line starts the JVM before it imports anything else.
"""

from __future__ import annotations

_SHARED = ("kafkeep.objects.compile_kernels:compile_kernels", "kafkeep.store.s3:load_models")

BACKUP = ("kafkeep.backup.task", *_SHARED)
SINK = (*BACKUP, "kafkeep.objects.compile_kernels:compile_sink_kernels")
RESTORE = ("kafkeep.restore.task", *_SHARED)
COMPARE = ("kafkeep.compare.task", *_SHARED)
SERVICE = tuple(dict.fromkeys((*SINK, *RESTORE)))
DRILL = tuple(dict.fromkeys((*RESTORE, *COMPARE)))
RESIDENT = tuple(dict.fromkeys((*SERVICE, *COMPARE)))
DEMO = tuple(dict.fromkeys((*BACKUP, *RESTORE)))
