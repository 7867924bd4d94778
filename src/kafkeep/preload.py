"""What Spark's Python workers load before they fork, for each kind of job.

Whoever starts Spark passes these names in ``SparkOptions.preload``. A worker that loads them by
itself starts its first task up to a second later. The names are strings because Spark's driver must
not import the modules: the command line starts the JVM before it imports anything else.
"""

from __future__ import annotations

BACKUP = ("kafkeep.backup.task",)
SINK = (*BACKUP, "kafkeep.objects.compile_kernels:compile_sink_kernels")
RESTORE = ("kafkeep.restore.task",)
COMPARE = ("kafkeep.compare.task",)
SERVICE = (*SINK, *RESTORE)
DRILL = (*RESTORE, *COMPARE)
DEMO = (*BACKUP, *RESTORE)
