"""Settings of the replication engine.  All times are milliseconds of the engine's clock."""

from __future__ import annotations

from dataclasses import dataclass

from proto import limits
from proto.errors import Invalid


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What may be tuned; the defaults suit two to some tens of peers on one network.

    Args:
        digest_interval_ms: between two digests, before jitter.  Bounds how long a lost live event goes
            unnoticed.  Too high: repair and the news of a silent peer come late.  Too low: N * (N - 1)
            messages a period, and a pull for every difference that live events would have closed anyway.
        digest_jitter: share of the interval, spread evenly around it.  Too high: irregular repair.  Too low:
            peers that started together stay in step and their pulls collide.
        reconnect_jitter_ms: the first digest after (re)connecting comes within this.  Too low: after a
            restart of NATS everybody speaks at once.
        greet_jitter_ms: a process heard for the first time is answered with a digest within this, so that a
            newcomer need not wait for a whole interval.
        silent_after_ms: without a digest for so long a process is not asked and counts as silent in routing.
            At least three intervals, or one lost digest silences a peer.  Too high: pulls go to the dead.
        forget_after_ms: a process silent for so long is forgotten.  Above `silent_after_ms`.
        boots_per_peer: processes remembered under one peer id (restarts, copied directories).
        settle_ms: a difference seen in a digest must last so long before it is pulled: live events under way
            and group commits close most of them.  Above one fsync.  Too high: repair comes late.
        coalesce_ms: own events that follow a flush wait so long for company.  The first after a pause goes
            out at once.  Too high: latency of a busy peer.  Too low: one message per group commit.
        live_backlog_bytes: own live events that wait to be sent; beyond it they are dropped, being hints.
        intake_bytes: received live events that wait for the log; beyond it they are dropped, being hints.
            A few pages; too low: bursts become pulls.
        page_bytes: events in one message, at most `limits.PAGE_EVENTS_BYTES`; an event that is larger goes
            alone.  Too low: a round trip for a few events.
        pull_timeout_ms: for the answer to one page.  Above the time to read a page plus the ping time-out of
            a link.  Too high: a dead server blocks its streams so long.  Too low: pages arrive for nobody.
        outbound_pulls: under way at once from here, each from another process.
        inbound_pulls: pages read at once for others; further requests are told `busy`.
        serve_bytes_per_s: of pages for others, with two seconds' worth at once; beyond it requests are told
            `busy`.  Above what one peer can apply, or catching up slows down.  Too high: peers that come back
            together leave this one no time for its own agents.
        back_off_ms, back_off_max_ms: first and longest wait before a process that failed or was busy is
            asked again; doubled each time, half of it random.
    """

    digest_interval_ms: int = 1_000
    digest_jitter: float = 0.2
    reconnect_jitter_ms: int = 200
    greet_jitter_ms: int = 100
    silent_after_ms: int = 5_000
    forget_after_ms: int = 60_000
    boots_per_peer: int = 4
    settle_ms: int = 60
    coalesce_ms: int = 3
    live_backlog_bytes: int = 4 * 1024 * 1024
    intake_bytes: int = 4 * 1024 * 1024
    page_bytes: int = limits.PAGE_EVENTS_BYTES
    pull_timeout_ms: int = 3_000
    outbound_pulls: int = 3
    inbound_pulls: int = limits.INBOUND_PULLS
    serve_bytes_per_s: int = 32 * 1024 * 1024
    back_off_ms: int = 200
    back_off_max_ms: int = 10_000

    def __post_init__(self) -> None:
        """Refuse settings under which replication cannot work.

        Raises:
            Invalid: a value is not positive, or out of its relation to another.
        """
        for name in self.__dataclass_fields__:
            if getattr(self, name) < (0 if name in _MAY_BE_ZERO else 1):
                raise Invalid(f"{name} is {getattr(self, name)}; it must be positive.")
        if not self.digest_jitter < 1:
            raise Invalid(f"digest_jitter is {self.digest_jitter}; it must be below 1.")
        if self.silent_after_ms < 3 * self.digest_interval_ms:
            raise Invalid(
                f"silent_after_ms is {self.silent_after_ms}; it must be 3 digest intervals or more."
            )
        if self.forget_after_ms <= self.silent_after_ms:
            raise Invalid(f"forget_after_ms is {self.forget_after_ms}; it must be above silent_after_ms.")
        if self.page_bytes > limits.PAGE_EVENTS_BYTES:
            raise Invalid(f"page_bytes is {self.page_bytes}; the most is {limits.PAGE_EVENTS_BYTES}.")


_MAY_BE_ZERO = ("digest_jitter", "reconnect_jitter_ms", "greet_jitter_ms", "settle_ms", "coalesce_ms")
