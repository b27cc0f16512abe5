"""How fast a new peer gets a long log from two that serve, and what that costs those who store meanwhile.

The rate is compared with that of `hyphae node rebuild` on the same log: folding alone, without network, commits
and indexes.  Stores go, at a modest even pace, to one of the two peers that the newcomer pulls from, and wait
for the other one (w = 2) before and during.  Three peers, NATS and the caller share the machine.
"""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

from tests.benchmarks.long_log import LongLog, Say
from tests.benchmarks.rebuilding import copy_log, rebuild_rate
from tests.benchmarks.texts import memories
from tests.support.http_agent import HttpAgent
from tests.support.hyphae_command import eventually
from tests.support.nats_server import NatsServer
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer

STORES_PER_S = 20
WARM_UP = 40
LONGEST_S = 1_800.0


@dataclass(frozen=True, slots=True)
class JoiningFigures:
    """What was seen.

    Args:
        events: that the newcomer got.
        rebuild_per_s, catch_up_per_s: events a second; catching up counts from the newcomer's first events.
        exec_s: from exec of the newcomer until it held them all.
        idle_ms, busy_ms: of each store, before and meanwhile.
    """

    events: int
    rebuild_per_s: float
    catch_up_per_s: float
    exec_s: float
    idle_ms: list[float]
    busy_ms: list[float]

    @property
    def rate_ratio(self) -> float:
        return self.catch_up_per_s / self.rebuild_per_s

    @property
    def p99_ratio(self) -> float:
        return p99(self.busy_ms) / p99(self.idle_ms)


def p99(values: list[float]) -> float:
    """Return the value that one in a hundred exceeds."""
    return statistics.quantiles(values, n=100)[98]


def measure_joining(events: int, idle_s: float, say: Say) -> JoiningFigures:
    """Have two peers with the same log, then a third one."""
    with _pair() as (nats_url, one, two):
        _fill(one, two, events, say)
        rebuilt = rebuild_rate(one.directory)
        say(f"  rebuild: {rebuilt.per_s:,} events/s")
        one.start()
        two.start()
        author = one.agent()
        eventually(lambda: author("status")["peers_up"] == 2, "both peers hear each other")
        texts = iter(memories(200_000, seed=5))
        _stores(author, texts, lambda: False, WARM_UP)
        until = perf_counter() + idle_s
        idle = _stores(author, texts, lambda: perf_counter() > until)
        say(f"  stores before: p50 {statistics.median(idle):.1f}, p99 {p99(idle):.1f} ms")
        third = RunningPeer(one.root, "--nats-url", nats_url, environment=_SHARED, name="three")
        third.options += ("--join", one.operator()("invite_peer")["token"])
        try:
            began = perf_counter()
            third.launch()
            progress = _Progress(third.directory, rebuilt.events, say)
            busy = _stores(author, texts, progress.is_over)
            exec_s = perf_counter() - began
        finally:
            third.kill()
        say(f"  stores meanwhile: p50 {statistics.median(busy):.1f}, p99 {p99(busy):.1f} ms")
        return JoiningFigures(rebuilt.events, rebuilt.per_s, progress.per_s(), exec_s, idle, busy)


def _stores(
    author: HttpAgent, texts: Iterator[str], is_over: Callable[[], bool], most: int = 10**9
) -> list[float]:
    """Store at an even pace until it is over; return the milliseconds of each."""
    took: list[float] = []
    due = perf_counter()
    while len(took) < most and not is_over():
        sleep(max(0.0, due - perf_counter()))
        began = perf_counter()
        author("store", content=next(texts), cell_type="Fact")
        took.append((perf_counter() - began) * 1_000)
        due = max(due + 1 / STORES_PER_S, perf_counter())
    return took


class _Progress:
    """Watches how many events the log of a newcomer holds."""

    def __init__(self, directory: Path, wanted: int, say: Say) -> None:
        self._log, self._wanted, self._say = directory / "log.db", wanted, say
        self._began = self._said = perf_counter()
        self._first: tuple[float, int] | None = None  # when it was first seen to hold some, and how many
        self._last = self._began, 0

    def is_over(self) -> bool:
        """Tell whether it has them all.

        Raises:
            RuntimeError: it takes too long.
        """
        held, now = held_events(self._log), perf_counter()
        self._last = now, held
        if self._first is None and held:
            self._first = self._last
        if now - self._said > 10:
            self._said = now
            self._say(f"  {held:,} of {self._wanted:,} events caught up after {now - self._began:.0f} s")
        if now - self._began > LONGEST_S:
            raise RuntimeError(f"after {LONGEST_S:.0f} s the newcomer held {held} of {self._wanted} events")
        return held >= self._wanted

    def per_s(self) -> float:
        """Return the events a second from the first that were seen to the last."""
        assert self._first is not None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])


def held_events(log: Path) -> int:
    """Return how many events a log holds durably; 0 when there is none yet."""
    with contextlib.suppress(sqlite3.OperationalError):
        db = sqlite3.connect(f"file:{log}?mode=ro", uri=True)
        with contextlib.closing(db):
            return int(db.execute("SELECT ifnull(sum(head), 0) FROM streams").fetchone()[0])
    return 0


def _fill(one: RunningPeer, two: RunningPeer, events: int, say: Say) -> None:
    """Give both the same log, written by both in turns: they have stopped."""
    LongLog(one.directory, two.directory).write(events, say=say)
    copy_log(one.directory, two.directory)


_SHARED = {"HYPHAE_EMBED_SPINNING": "false"}  # as `hyphae up` sets it for several peers on one machine


@contextlib.contextmanager
def _pair() -> Iterator[tuple[str, RunningPeer, RunningPeer]]:
    """Yield the address of NATS and two members that have run once."""
    with short_directory() as root:
        nats = NatsServer(root)
        nats.start()
        concern = {**_SHARED, "HYPHAE_WRITE_CONCERN": "2"}
        one, two = (
            RunningPeer(root, "--nats-url", nats.url, environment=concern, name=n) for n in ("one", "two")
        )
        try:
            one.start()
            two.options += ("--join", one.operator()("invite_peer")["token"])
            two.start()
            for peer in (one, two):
                agent = peer.caller(one.secret("agent"))
                eventually(lambda agent=agent: agent("status")["peers_up"] == 2, "they hear each other")  # type: ignore[misc]
            two.stop()
            one.stop()
            two.options = one.options
            yield nats.url, one, two
        finally:
            two.kill()
            one.kill()
            nats.kill()
