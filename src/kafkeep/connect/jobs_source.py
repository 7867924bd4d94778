"""A source connector's run: a restore that follows a log, or one restore and no more."""

from __future__ import annotations

import hashlib
import threading
from functools import partial

from kafkeep.archive.reader import load_view
from kafkeep.archive.store import ObjectStore
from kafkeep.clock import now_ms
from kafkeep.config.places import Places
from kafkeep.config.source import SourceConfig
from kafkeep.connect.job import Surroundings
from kafkeep.connect.jobs_sink import kafka_of
from kafkeep.connect.jobs_wait import run_patiently
from kafkeep.connect.model import ConnectorType, Progress
from kafkeep.contents.options import load_read_options
from kafkeep.kafka.admin import Admin
from kafkeep.kafka.wire import Wire
from kafkeep.restore.follow import Follower
from kafkeep.restore.followed import Followed
from kafkeep.restore.summary import RestoreSummary
from kafkeep.store.open import open_store


def state_folder(config: SourceConfig, cluster_id: str, surroundings: Surroundings) -> str:
    """Return where a source keeps how far it has come.

    By connector, archive, log and cluster: re-created under its name, it goes on where it was.
    """
    told = "\n".join((config.archive, config.instance or "", cluster_id))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return f"{surroundings.state_address.rstrip('/')}/sources/{config.name}-{digest}"


def open_round(folder: str, number: int) -> ObjectStore:
    """Open the place for the documents of one round."""
    return open_store(f"{folder}/rounds/{number:08d}", create=True)


class SourceJob:
    """One run of a source; see ``ConnectorJob``."""

    type: ConnectorType = "source"

    def __init__(self, config: SourceConfig, surroundings: Surroundings) -> None:
        self._config = config
        self._surroundings = surroundings
        self.task_count = config.tasks_max or 1
        self.progress = Progress()

    def run(self, stop: threading.Event) -> None:
        """Restore until stopped, or until all is there if it does not poll for more."""
        run_patiently(self._config.name, partial(self._run, stop), stop)

    def _run(self, stop: threading.Event) -> None:
        config, around = self._config, self._surroundings
        kafka = kafka_of(around.kafka, config.kafka)
        with Wire(kafka) as wire:
            admin = Admin(wire)
            folder = state_folder(config, admin.cluster_id(), around)
            follower = Follower(
                options=config.restore,
                places=Places(kafka=kafka, archive=config.archive, storage=config.storage),
                admin=admin,
                store=open_store(config.archive, config.storage),
                state=open_store(folder, create=True),
                open_round=partial(open_round, folder),
                run_tasks=partial(around.run_tasks, pool=config.name),
                cores=min(around.cores, config.tasks_max or around.cores),
                now_ms=now_ms,
                on_round=self._count,
            )
            follower.begin()
            self._check_converters(follower)
            self._follow(follower, stop)

    def _follow(self, follower: Follower, stop: threading.Event) -> None:
        poll_ms = None if follower.is_one_shot else self._config.poll_interval_ms
        while not stop.is_set():
            more = follower.step()
            self._measure(follower)
            if more:
                continue
            if poll_ms is None:
                return
            stop.wait(poll_ms / 1000)

    def _check_converters(self, follower: Follower) -> None:
        if not self._config.converters:
            return
        view = load_view(follower.store, follower.followed.log)
        self._config.check_converters(load_read_options(follower.store, view).texts)

    def _count(self, summary: RestoreSummary) -> None:
        progress = self.progress
        progress.records += summary.records
        progress.bytes += summary.bytes
        progress.objects += summary.objects
        progress.commits += 1
        progress.gaps += len(summary.gaps)
        progress.last_commit_ms = now_ms()
        progress.topics = progress.topics | set(summary.topics)

    def _measure(self, follower: Follower) -> None:
        """Say how far the archive is ahead of what is restored."""
        followed, view = follower.followed, follower.view
        progress, now = self.progress, now_ms()
        progress.positions = _by_number(followed)
        if view is None:
            return
        targets = follower.targets()
        lag = {
            (pid.topic, pid.partition): max(0, end - followed.positions.get(pid, 0))
            for pid, end in sorted(view.positions.items())
            if pid.topic in targets and followed.commit < view.commit
        }
        before = progress.lag_since_ms
        progress.lag_records = lag or dict.fromkeys(progress.positions, 0)
        progress.lag_since_ms = {key: before.get(key, now) for key, at in lag.items() if at}
        most = self._config.tasks_max or 1
        self.task_count = max(1, min(most, len(progress.positions) or most))


def _by_number(followed: Followed) -> dict[tuple[str, int], int]:
    return {(pid.topic, pid.partition): at for pid, at in sorted(followed.positions.items())}
