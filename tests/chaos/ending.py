"""What the observer does once nothing is broken any more: store, listen, search, read, and look into every log."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Final

from tests.chaos.cluster import PEERS, Cluster
from tests.chaos.history import NOTE, History
from tests.chaos.looking import look_into, told_of
from tests.chaos.reading import key_of
from tests.chaos.serving import for_each
from tests.support.http_agent import HttpAgent

HEARS_S: Final = 60.0
_SECRET = re.compile(r"canary-\w+|hyp_[A-Za-z0-9]+_[A-Za-z0-9_-]+")


def listen(own: Mapping[str, str], urls: Mapping[str, str], operator: str, history: History) -> None:
    """Ask each peer for what the observer has just stored at each other one, and note when it is there.

    Args:
        own: node by the peer that took it.
    """

    def until_heard(pair: tuple[str, str]) -> None:
        peer, origin = pair
        until, pause = time.monotonic() + HEARS_S, threading.Event()
        caller = HttpAgent(urls[peer], operator, timeout_s=5.0)
        try:
            while time.monotonic() < until:
                try:
                    if caller.ask("get_node", {"node_id": own[origin]}).result is not None:
                        history.note(NOTE, "observer", "heard", peer, **{"from": origin})
                        return
                except (OSError, ValueError):
                    caller.close()
                pause.wait(0.1)
        finally:
            caller.close()

    for_each(until_heard, [(peer, origin) for peer in urls for origin in own])


def look_into_all(cluster: Cluster, history: History) -> None:
    """Note what every log holds and what every peer said, once all have stopped."""
    logs = {peer: look_into(cluster, peer) for peer in PEERS}
    keys = {key_of(text): node for seen in logs.values() for node, text in seen.texts.items()}
    places = sorted({place for seen in logs.values() for place in seen.places})
    told = told_of(logs)
    del told["held"]  # everybody holds everything by now, which is another check
    history.note(NOTE, "observer", "seen", places=places, keys=sorted(keys), **told)
    for peer in PEERS:
        words = sorted(set(_SECRET.findall(cluster.said(peer))))
        history.note(NOTE, "observer", "said", peer, words=words)
