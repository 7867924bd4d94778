"""A restore that goes on: what an archive gains is appended to its topics, round by round.

What a round restores are offsets that were written down before it began. On the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.keys import log_key
from kafkeep.archive.reader import ArchiveView, load_view
from kafkeep.config.restore import RestoreOptions
from kafkeep.errors import DamagedError, KeyMissingError
from kafkeep.failpoint import failpoint
from kafkeep.restore.followed import (
    Followed,
    load_followed,
    picks_of,
    plan_round,
    save_followed,
    sweep_followed,
)
from kafkeep.restore.job import RestoreJob
from kafkeep.restore.rounds import KEPT_MS, Rounds
from kafkeep.restore.source import choose_log

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Follower(Rounds[Followed]):
    """One restore that follows a log.

    With a commit, a time or a selection of its own among its options there is one round.
    """

    view: ArchiveView | None = field(init=False, default=None)
    """The archive as it was last looked at."""
    _warned: frozenset[str] = field(init=False, default=frozenset())

    def begin(self) -> None:
        """Read how far it has come; NoSuchArchiveError where there is no log of ours."""
        found = load_followed(self.state)
        if found is None:
            found = Followed(log=choose_log(self.store, self.options), revision=-1)
        self.followed = self._other_log(found)
        self.sweep()

    def _other_log(self, found: Followed) -> Followed:
        """Turn to the log that has the topics asked for, if nothing of them was restored yet."""
        asked = {source for source, _ in self.options.topics}
        met = {pid.topic for pid in found.positions}
        if found.revision < 0 or not asked or found.round is not None or asked & met:
            return found
        log = choose_log(self.store, self.options)
        return found if log == found.log else replace(found.move({}), log=log, targets={})

    def _forget(self, topics: Collection[str]) -> None:
        self.followed = self.followed.forget(self.followed.targets if self.is_one_shot else topics)
        save_followed(self.state, self.followed)

    def _finish(self, job: RestoreJob) -> None:
        self.followed = self.followed.finish()
        save_followed(self.state, self.followed)

    @property
    def is_one_shot(self) -> bool:
        """Whether what is to be restored was fixed by the options."""
        options = self.options
        fixed = options.commit is not None or options.at_ms is not None or options.groups
        return bool(fixed or options.partitions or options.offsets or self._picks_records())

    def _picks_records(self) -> bool:
        options = self.options
        return options.cuts_times or options.exact_offsets or bool(options.incarnations)

    def targets(self) -> dict[str, str]:
        """Return archived topics and the names they are restored under, of the last view."""
        known = sorted({name for name, _ in self.view.topics}) if self.view else []
        names = dict(self.options.topics)
        return {name: names.get(name, name) for name in known if self.options.wants(name)}

    def _open(self) -> bool:
        """Write down what the next round restores, if there is anything."""
        if not self._has_news():
            return False
        options, followed = self.options, self.followed
        view = load_view(self.store, followed.log, commit=options.commit, at_ms=options.at_ms)
        self.view = view
        targets = self.targets()
        self._warn_missing(targets)
        most = 2**62 if self.is_one_shot else self.most_bytes
        ends = plan_round(view, targets, followed.positions, most_bytes=most)
        if not ends or (self.is_one_shot and followed.positions):
            self.followed = followed.reached(view.commit)
            return False
        self.followed = followed.begin(view.commit, ends, targets)
        failpoint("follow.planned")
        save_followed(self.state, self.followed)
        failpoint("follow.opened")
        return True

    def _has_news(self) -> bool:
        """Look for the commit after the last: two requests when there is none.

        DamagedError when the last one was removed meanwhile: waiting for more would hide that.
        """
        last = self.followed.commit
        if last < 0:
            return True
        if self.options.commit is not None or self.options.at_ms is not None:
            return False
        try:
            self.store.head(log_key(self.followed.log, last + 1))
        except KeyMissingError:
            self._check_last(last)
            return False
        return True

    def _check_last(self, last: int) -> None:
        log = self.followed.log
        try:
            self.store.head(log_key(log, last))
        except KeyMissingError as error:
            load_view(self.store, log)  # says more where a checkpoint proves the loss
            raise DamagedError(
                f"{log}: commit {last} was removed from the log after it was restored",
                hint="Bring it back from older versions of the objects in the bucket, or from a "
                "copy of it; kafkeep verify lists what is missing.",
            ) from error

    def _job(self) -> RestoreJob:
        opened = self.followed.round
        assert opened is not None
        view = self.view
        if view is None or view.commit != opened.commit:
            view = self.view = load_view(self.store, self.followed.log, commit=opened.commit)
        begun = self.followed.targets  # the names the round began with
        options = replace(
            self.options,
            topics=tuple((topic, begun.get(topic, name)) for topic, name in self.options.topics),
            name=self.followed.log,
            commit=opened.commit,
            at_ms=None,
        )
        if not self.is_one_shot:
            options = self._options_of_round(options, opened.ends, begun)
            self._grow(view, opened.ends, begun)
        return RestoreJob(
            options=options,
            places=self.places,
            admin=self.admin,
            store=self.store,
            documents=self.open_round(opened.number),
            cores=self.cores,
            now_ms=self.now_ms,
            id=self.round_id(opened.number),
            is_round=not self.is_one_shot,
        )

    def _options_of_round(
        self,
        options: RestoreOptions,
        ends: Mapping[PartitionId, int],
        targets: Mapping[str, str],
    ) -> RestoreOptions:
        met = {pid.topic for pid in self.followed.positions}
        topics = sorted({pid.topic for pid in ends})
        return replace(
            options,
            topics=tuple((topic, targets[topic]) for topic in topics),
            topics_regex=None,
            offsets=picks_of(self.followed.positions, ends),
            into_non_empty=options.into_non_empty or all(topic in met for topic in topics),
        )

    def _grow(
        self, view: ArchiveView, topics: Collection[PartitionId], targets: Mapping[str, str]
    ) -> None:
        """Give a target the partitions its source has got since it was first restored."""
        if self.options.partition_count is not None or self.options.partition_map:
            return  # its own number of partitions was asked for
        met = {pid.topic for pid in self.followed.positions}
        for source in sorted({pid.topic for pid in topics} & met):
            info = view.state.latest_incarnation(source)
            there = self.admin.topics([targets[source]]).get(targets[source])
            if info is not None and there is not None and there.partition_count < info.partitions:
                self.admin.create_partitions(targets[source], info.partitions)

    def _warn_missing(self, targets: Mapping[str, str]) -> None:
        missing = frozenset(source for source, _ in self.options.topics) - targets.keys()
        if missing - self._warned:
            logger.warning("not in the archive yet: %s; waiting", ", ".join(sorted(missing)))
        self._warned = missing

    def sweep(self) -> None:
        """See Rounds; revisions of the document are swept, too."""
        sweep_followed(self.state, self.followed, before_ms=self.now_ms() - KEPT_MS)
        super().sweep()
