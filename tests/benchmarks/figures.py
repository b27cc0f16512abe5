"""The figures of the README's promises, each measured against its raw limit in one run."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.concern import measure_concern
from tests.benchmarks.figure import Figure
from tests.benchmarks.matching import matching_ms
from tests.benchmarks.peer_process import Agent, Mesh, mesh
from tests.benchmarks.raw import RawLimits
from tests.benchmarks.rebuilding import rebuild_rate
from tests.benchmarks.texts import QUESTIONS, memories

ROUNDS = 12
PER_ROUND = 10
CELLS = 10_000
DELIVERIES = 150
BEACONS = 100
HTTP_OVERHEAD_MS = 1.0
STDIO_OVERHEAD_MS = 1.5
GATEWAY_MB = 60
CONCERN_RATIO = 2.0
RAW_EVERY = 5  # every fifth request of a bulk is embedded raw too, just before


def paired(product: Any, raw: Any, arguments: list[str]) -> tuple[float, float, list[float]]:
    """Alternate rounds of product and raw calls, so that both see the same noise.

    Returns:
        Median ms of the product and of the raw limit, and the ratio of medians of each round.
    """
    products: list[float] = []
    raws: list[float] = []
    ratios: list[float] = []
    work = iter(arguments * 1_000)
    for _ in range(ROUNDS):
        texts = [next(work) for _ in range(PER_ROUND)]
        own = [_timed(product, t) for t in texts]
        bare = [raw(t) for t in texts]
        products += own
        raws += bare
        ratios.append(statistics.median(own) / statistics.median(bare))
    return statistics.median(products), statistics.median(raws), ratios


def _timed(call: Any, argument: str) -> float:
    began = time.perf_counter()
    call(argument)
    return (time.perf_counter() - began) * 1000


def single_peer(figures: list[Figure]) -> None:
    """Store, recall, bulk, memory, rebuild and second start, on one peer."""
    with tempfile.TemporaryDirectory(prefix="hyphae-bench-kept-") as name:
        kept = Path(name)
        with mesh(1, kept) as m:
            raw = RawLimits(kept)
            agent = m.agent(0)
            agent.tool("store", {"content": "The first memory warms everything up.", "cell_type": "Fact"})
            empty_mb = m.rss_mb(0)
            _place_beacons(m)
            figures.append(_store(agent, raw))
            figures.append(_bulk(agent, raw))
            figures.append(_memory(empty_mb, m.rss_mb(0)))
            raw.fill_index(CELLS)
            figures.append(_recall(agent, raw))
            figures.append(_rebuild(kept / "peer-1"))
        figures.append(_second_start(kept))


def _place_beacons(m: Mesh) -> None:
    """Have a reader with 100 live beacons, so that stores, bulk and rebuild match against them."""
    key = m.operator(0).rest("POST", "/v1/keys", {"agent": "reader"})["key"]
    reader = m.agent(0, key)
    for interest in memories(BEACONS, seed=3):
        reader.tool("place_beacon", {"interest": interest, "threshold": 0.6})


def _second_start(kept: Path) -> Figure:
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        with mesh(1, kept) as m:
            assert m.agent(0).tool("recall", {"query": QUESTIONS[0]})["results"]
            spent.append(time.perf_counter() - began)
    seconds = statistics.median(spent)
    return Figure(
        "second start with 10,000 cells: exec of `hyphae up` to the first recall",
        f"{seconds:.2f} s",
        "< 3 s",
        seconds < 3,
        "NATS and the supervisor included",
    )


def _store(agent: Agent, raw: RawLimits) -> Figure:
    texts = memories(ROUNDS * PER_ROUND, seed=1)
    own, bare, ratios = paired(
        lambda t: agent.tool("store", {"content": t, "cell_type": "Decision"}), raw.store_ms, texts
    )
    ratio = statistics.median(ratios)
    return Figure(
        "store over HTTP, one at a time, p50",
        f"{ratio:.2f} x",
        "<= 1.5 x (one raw embedding + one fsync commit)",
        ratio <= 1.5,
        f"{own:.1f} ms against {bare:.1f} ms",
    )


def _recall(agent: Agent, raw: RawLimits) -> Figure:
    own, bare, ratios = paired(lambda q: agent.tool("recall", {"query": q}), raw.recall_ms, list(QUESTIONS))
    ratio = statistics.median(ratios)
    return Figure(
        "recall over HTTP, 10,000 cells, hybrid, p50",
        f"{ratio:.2f} x",
        "<= 1.5 x (one raw query embedding + raw exact FAISS search)",
        ratio <= 1.5,
        f"{own:.1f} ms against {bare:.1f} ms",
    )


def _bulk(agent: Agent, raw: RawLimits) -> Figure:
    texts = memories(CELLS, seed=2)
    stored = len(memories(ROUNDS * PER_ROUND))
    own_rates, raw_rates = [], []
    for n, start in enumerate(range(0, CELLS - stored, 256)):
        part = texts[start : start + 256]
        if n % RAW_EVERY == 0:
            raw_rates.append(max(raw.texts_per_s(part, batch) for batch in (8, 32)))
        cells = [{"content": t, "cell_type": "Fact"} for t in part]
        began = time.perf_counter()
        agent.rest("POST", "/v1/nodes:bulk", {"cells": cells})
        own_rates.append(len(cells) / (time.perf_counter() - began))
    own, bare = statistics.median(own_rates), statistics.median(raw_rates)
    return Figure(
        "bulk store through REST",
        f"{own / bare:.0%}",
        ">= 85 % of raw embedding throughput",
        own / bare >= 0.85,
        f"{own:.0f} against {bare:.0f} texts/s",
    )


def _memory(empty_mb: float, full_mb: float) -> Figure:
    return Figure(
        "memory of a peer, empty / after a bulk store of 10,000",
        f"{empty_mb:.0f} / {full_mb:.0f} MB",
        "<= 250 / 350 MB",
        empty_mb <= 250 and full_mb <= 350,
    )


def _rebuild(directory: Path) -> Figure:
    """Copy the log aside and rebuild it, while the peer goes on."""
    result = rebuild_rate(directory)
    return Figure(
        "rebuild of all projections and indexes from the log, 100 live beacons",
        f"{result.per_s:,} events/s",
        ">= 5,000 events/s",
        result.per_s >= 5_000,
        f"{result.events:,} events",
    )


def delivery(figures: list[Figure]) -> None:
    """From an acknowledged store on one peer to the listing in an inbox on another."""
    with mesh(3) as m:
        key = m.operator(0).rest("POST", "/v1/keys", {"agent": "reader"})["key"]
        reader, author = m.agent(0, key), m.agent(1)
        reader.tool("place_beacon", {"interest": "*"})
        times = list(_deliveries(reader, author))
    p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
    figures.append(
        Figure(
            "acknowledged store -> listed on another peer, p50 / p99",
            f"{p50:.1f} / {p99:.1f} ms",
            "<= 25 / 150 ms",
            p50 <= 25 and p99 <= 150,
            "the reader polls without a pause",
        )
    )


def _deliveries(reader: Agent, author: Agent) -> Iterator[float]:
    for n in range(DELIVERIES + 10):
        author.tool("store", {"content": f"Delivery {n} of the benchmark.", "cell_type": "Fact"})
        began = time.perf_counter()
        while not reader.tool("drain_inbox", {})["diffs"]:
            pass
        if n >= 10:
            yield (time.perf_counter() - began) * 1000


def matching(figures: list[Figure]) -> None:
    """One diff against 10,000 beacons, in batches."""
    ms = matching_ms(beacons=10_000, diffs=640)
    figures.append(
        Figure("matching one diff against 10,000 beacons, in batches", f"{ms:.2f} ms", "<= 1 ms", ms <= 1.0)
    )


def gateway(figures: list[Figure]) -> None:
    """Start and size of the stdio gateway, with nothing else running."""
    from tests.benchmarks.gateway import start_ms_and_rss_mb

    ms, mb = start_ms_and_rss_mb()
    figures.append(
        Figure(
            "exec to `initialize` reply of `hyphae mcp serve`, median",
            f"{ms:.0f} ms",
            "<= 500 ms",
            ms <= 500,
            f"{mb:.0f} MB then",
        )
    )


def overhead(figures: list[Figure]) -> None:
    """What gateways add to a call, on one peer with the embedder that needs no model."""
    from tests.benchmarks.overhead import CALLS_FOR_MEMORY, measure

    found = measure()
    for one in found.overheads:
        for way, ms, bar in (("HTTP", one.http, HTTP_OVERHEAD_MS), ("stdio", one.stdio, STDIO_OVERHEAD_MS)):
            figures.append(
                Figure(
                    f"what {way} adds to `{one.call}`, difference of p50",
                    f"{ms - one.bare:.2f} ms",
                    f"<= {bar} ms over the bare request in the peer",
                    ms - one.bare <= bar,
                    f"{ms:.2f} ms against {one.bare:.2f} ms",
                )
            )
    figures.append(
        Figure(
            f"memory of a stdio gateway after {CALLS_FOR_MEMORY:,} calls and more",
            f"{found.stdio_mb:.0f} MB",
            f"<= {GATEWAY_MB} MB",
            found.stdio_mb <= GATEWAY_MB,
        )
    )


def concern(figures: list[Figure]) -> None:
    """Measure what waiting for a second member adds to a store."""
    found = measure_concern()
    figures.append(
        Figure(
            "store with w = 2 against w = 1, p50",
            f"{found.ratio:.2f} x",
            f"<= {CONCERN_RATIO:g} x",
            found.ratio <= CONCERN_RATIO,
            f"three peers; {found.two:.2f} ms against {found.alone:.2f} ms; p99 {found.two_p99:.1f} ms,"
            f" {found.short} fell short",
        )
    )


ALL = {
    "matching": matching,
    "gateway": gateway,
    "overhead": overhead,
    "concern": concern,
    "delivery": delivery,
    "single": single_peer,
}
