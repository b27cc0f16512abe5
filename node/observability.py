"""Metrics of a peer in the Prometheus text format.  No agent, tenant or project is ever a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class _Gauges(Collector):
    def __init__(self, read: Callable[[], Mapping[str, float]]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in sorted(self._read().items()):
            yield GaugeMetricFamily(f"hyphae_{name}", GAUGES.get(name, name.replace("_", " ")), value)


GAUGES = {
    "nats_connected": "1 while the connections to NATS are up",
    "peers_up": "peers heard lately, this one included",
    "calls_under_way": "calls of keys that have not been answered yet",
    "waiting_writes": "calls that wait for the log",
    "cells": "cells that are known here",
    "vectors": "vectors in the index: cells that can be searched by meaning",
    "degraded": "1 while something is wrong; /v1/status says what",
}


class Metrics:
    """Counts calls, and reads gauges when asked.

    Args:
        gauges: current values by name; see `GAUGES`.
    """

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "hyphae_calls",
            "calls served, by operation and outcome",
            ("operation", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "hyphae_call_seconds",
            "time to serve a call",
            ("operation",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._waits = Histogram(
            "hyphae_concern_seconds",
            "time that a store waited for other members to hold it, once it was durable here",
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._short = Counter(
            "hyphae_stores_short",
            "stores that were answered before as many members as wanted held them",
            registry=self._registry,
        )
        self._registry.register(_Gauges(gauges))

    def count(self, operation: str, outcome: str, seconds: float) -> None:
        """Note one call; `outcome` is "ok" or an error code."""
        self._calls.labels(operation, outcome).inc()
        self._seconds.labels(operation).observe(seconds)

    def count_wait(self, seconds: float, *, short: bool) -> None:
        """Note how long a store waited for other members, and whether it was answered without them."""
        self._waits.observe(seconds)
        if short:
            self._short.inc()

    def render(self) -> bytes:
        """Return the text of `/metrics`."""
        return generate_latest(self._registry)
