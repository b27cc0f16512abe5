"""Laws of retirement: in whatever order events come, and in whatever pieces, all peers come to the same."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from mesh.ports import Segment
from mesh.segments import split
from tests.support.laws import LAW
from tests.support.members import joined, retire
from tests.support.replicas import Peer, assert_alike

NUMBERS = (1, 2, 3)
ACTIONS = ("store", "store", "place", "withdraw", "restart", "hear", "hear", "retire", "open")


def history(rng: random.Random, steps: int) -> list[Peer]:
    """Let three peers work, hear each other in part, and retire one another."""
    peers = {n: Peer(n) for n in NUMBERS}
    for n in NUMBERS:
        peers[n].append(joined(n, 1 if n > 1 else n))
    for step in range(steps):
        number = rng.choice(NUMBERS)
        one, action = peers[number], rng.choice(ACTIONS)
        other = rng.choice([n for n in NUMBERS if n != number])
        if action == "hear":
            heard = [s for s in peers[other].segments() if rng.random() < 0.7]
            one.receive(heard)
        elif action == "restart":
            one.restart()
        elif one.replica.retired(one.replica.peer) is not None:
            continue
        elif action == "store":
            one.store(rng.choice("abcdefgh"), by=rng.choice(("ann", "ben")))
        elif action == "place":
            one.place("north")
        elif action == "withdraw":
            one.withdraw("north")
        elif action == "open":
            one.open_session(step.to_bytes(16, "big"))
        elif action == "retire":
            retire(one, other)
    return list(peers.values())


def pieces(segments: list[Segment], rng: random.Random) -> list[Segment]:
    """Return the events of all streams in small pieces, in an order that keeps each stream's own."""
    queues = [split(segment, 700) for segment in segments]
    out: list[Segment] = []
    while queues:
        queue = rng.choice(queues)
        out.append(queue.pop(0))
        queues = [q for q in queues if q]
    return out


@settings(LAW, max_examples=25)
@given(st.integers(0, 2**32), st.integers(5, 40))
def test_peers_with_equal_streams_hold_equal_state_whoever_has_retired(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    peers = history(rng, steps)
    for one in peers:
        one.pull(*peers)
    readers = [Peer(10), Peer(11)]
    for reader in readers:
        everything = {segment.stream: segment for one in peers for segment in one.segments()}
        reader.receive(pieces([everything[s] for s in sorted(everything)], rng))
    assert len({frozenset(p.replica.log.heads().items()) for p in (*peers, *readers)}) == 1
    assert_alike(*peers, *readers)
