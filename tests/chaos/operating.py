"""What an operator asks the peers of a mesh: how much each holds, what it complains of, what its memories say."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.chaos.cluster import PEERS, Cluster
from tests.support.http_agent import Answer, HttpAgent

PATIENCE_S: Final = 60.0
ASK_S: Final = 10.0

Vector = Mapping[str, int]


class NoAnswer(Exception):
    """A peer is not there, or says nothing that can be used."""


def asked(url: str, key: str, method: str, **arguments: Any) -> Answer:
    """Return what a peer answers.

    Raises:
        NoAnswer: it does not.
    """
    caller = HttpAgent(url, key, timeout_s=ASK_S)
    try:
        return caller.ask(method, arguments)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(f"{url}: {type(error).__name__}") from error
    finally:
        caller.close()


def told(cluster: Cluster, by: str, method: str, **arguments: Any) -> Mapping[str, Any]:
    """Return the result of an operator's call.

    Raises:
        NoAnswer: there is none.
    """
    answer = asked(cluster.url(by), cluster.operator_key(), method, **arguments)
    if answer.result is None:
        raise NoAnswer(f"{by} refuses {method}: {answer.code}: {answer.text}")
    return answer.result


def until(step: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> Any:
    """Return the first result of a step that is true; it may fail with `NoAnswer` meanwhile.

    Raises:
        AssertionError: there was none in time.
    """
    end, pause, last = time.monotonic() + patience_s, threading.Event(), ""
    while time.monotonic() < end:
        try:
            found = step()
        except NoAnswer as error:
            found, last = None, f": {error}"
        if found:
            return found
        pause.wait(0.1)
    raise AssertionError(f"not within {patience_s:.0f} s: {what}{last}")


def vector(cluster: Cluster, peer: str) -> Vector:
    """Return how far a peer holds each stream."""
    return {s["stream"]: int(s["sequence"]) for s in told(cluster, peer, "verify_log")["streams"]}


def spread(cluster: Cluster, peer: str) -> tuple[float, Vector]:
    """Wait until the others hold all that a peer held a moment before; return that moment (monotonic, s) and it."""

    def moment() -> tuple[float, Vector] | None:
        at_s = time.monotonic()
        held = vector(cluster, peer)
        return (at_s, held) if all(covers(vector(cluster, other), held) for other in others(peer)) else None

    found: tuple[float, Vector] = until(moment, f"what {peer} holds is everywhere")
    return found


def catch_up(cluster: Cluster, peer: str) -> None:
    """Wait until a peer holds all that those of the others who answer hold now."""
    wanted: dict[str, int] = {}
    for other in others(peer):
        for stream, sequence in answered(lambda o=other: vector(cluster, o), {}).items():  # type: ignore[misc]
            wanted[stream] = max(sequence, wanted.get(stream, 0))
    until(lambda: covers(vector(cluster, peer), wanted), f"{peer} has caught up")


def problems(cluster: Cluster, peer: str) -> str:
    """Return what a peer complains of, as one text."""
    return " ".join(told(cluster, peer, "status")["problems"])


def indexed(cluster: Cluster, peer: str) -> bool:
    """Tell whether the vector index of a peer holds every memory of it."""
    caller = HttpAgent(cluster.url(peer), cluster.operator_key(), timeout_s=ASK_S)
    try:
        text = caller.send("GET", "/metrics", None)[1].decode()
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"{peer}: {type(error).__name__}") from error
    finally:
        caller.close()
    gauges = dict(line.split(" ", 1) for line in text.splitlines() if line.startswith("hyphae_"))
    return float(gauges["hyphae_vectors"]) == float(gauges["hyphae_cells"])


def contents(cluster: Cluster, peer: str) -> dict[str, str]:
    """Return the text of each memory that the operator may read at a peer, by node id."""
    found: dict[str, str] = {}
    for page in _pages(cluster, peer):
        found.update({cell["node_id"]: cell["content"] for cell in page["cells"]})
    return found


def _pages(cluster: Cluster, peer: str) -> Iterator[Mapping[str, Any]]:
    page = told(cluster, peer, "export", limit=500)
    yield page
    while "next_cursor" in page:
        page = told(cluster, peer, "export", limit=500, cursor=page["next_cursor"])
        yield page


def covers(held: Vector, wanted: Vector) -> bool:
    """Tell whether everything wanted is held."""
    return all(held.get(stream, 0) >= sequence for stream, sequence in wanted.items())


def others(peer: str) -> Sequence[str]:
    return [p for p in PEERS if p != peer]


def answered(step: Callable[[], Any], otherwise: Any) -> Any:
    """Return what a step returns, or something else where nobody answers."""
    try:
        return step()
    except NoAnswer:
        return otherwise
