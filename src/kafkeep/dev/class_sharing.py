"""Let a JVM load Kafka's classes at once, which halves a broker's start."""

from __future__ import annotations

import contextlib
import os
from hashlib import sha256
from pathlib import Path

from kafkeep.dev.downloads import cache_folder
from kafkeep.dev.kafka_version import KafkaVersion
from kafkeep.errors import EnvironmentFault
from kafkeep.options.spark import java_version, require_java


def class_archive(java: str, version: KafkaVersion) -> Path:
    """Return the file of the classes.

    It fits one Java and one Kafka alone, hence the name. A broker that starts without one writes
    one when it ends (see ``keep_class_archive``).
    """
    return cache_folder() / f"kafka-{version}-java-{java_version(java)}.jsa"


def shared_classes(java: str, version: KafkaVersion) -> list[str]:
    """Return the flags that use the file, if it is there."""
    archive = class_archive(java, version)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def class_archive_flags(java: str, version: KafkaVersion, settings: Path) -> list[str]:
    """Return the flags that use the file, or have this broker write it."""
    if shared := shared_classes(java, version):
        return shared
    new = _new_class_archive(class_archive(java, version), str(settings))
    new.unlink(missing_ok=True)
    return [f"-XX:ArchiveClassesAtExit={new}"]


def _new_class_archive(archive: Path, settings: str) -> Path:
    # Named after the broker, so that nobody takes another one's half-written file.
    return archive.with_name(f"{archive.name}.{sha256(settings.encode()).hexdigest()[:12]}")


def keep_class_archive(version: KafkaVersion, settings: str, *, whole: bool) -> None:
    """Keep the class archive that a broker wrote when it ended, if it wrote one and wrote it all.

    Call it when the broker's process is gone; ``settings`` is the path it was started with.
    """
    with contextlib.suppress(OSError, EnvironmentFault):
        archive = class_archive(require_java(), version)
        new = _new_class_archive(archive, settings)
        if whole:
            os.replace(new, archive)
        else:
            new.unlink(missing_ok=True)
