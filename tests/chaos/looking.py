"""A look into the logs of peers that do not run, and faults that kill everybody at once in order to look.

The files are copied first, so that the next start finds the disk as the kill has left it.  What is read is what any
program could read: rows of bytes; the chain of hashes is computed anew from the headers.
"""

from __future__ import annotations

import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw

from proto.errors import ProtocolError
from proto.events import NO_HASH, chain_hash, parse_header
from proto.ids import format_base32, format_uuid
from proto.payloads import CellStored, EpochOpened, decode_payload
from tests.chaos.checks_logs import CHAIN_CHARS, HOLE
from tests.chaos.cluster import PEERS, Cluster
from tests.chaos.strike import Fault, Strike

LOG: Final = "log.db"
FILES: Final = (LOG, f"{LOG}-wal")  # the third one is rebuilt from these


@dataclass(slots=True)
class Seen:
    """What one log holds.

    Args:
        places: of memories: node id, stream, sequence.
        texts: the beginning of each memory's text, by node id.
        chains: by stream; see `checks_logs`.
        openings: sequences at which a stream says that it begins.
    """

    places: list[tuple[str, str, int]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    chains: dict[str, str] = field(default_factory=dict)
    openings: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def look_into(cluster: Cluster, peer: str) -> Seen:
    """Return what the log of a peer holds that does not run."""
    with tempfile.TemporaryDirectory() as place:
        cluster.copy_log(peer, Path(place))
        db = apsw.Connection(str(Path(place) / LOG))
        try:
            return _read(db)
        finally:
            db.close()


def told_of(logs: Mapping[str, Seen]) -> dict[str, Any]:
    """Return what the history says of logs, by peer."""
    return {
        "held": {peer: sorted(seen.texts) for peer, seen in logs.items()},
        "chains": {peer: seen.chains for peer, seen in logs.items()},
        "openings": {peer: dict(seen.openings) for peer, seen in logs.items()},
    }


def _read(db: apsw.Connection) -> Seen:
    seen = Seen()
    streams: list[Any] = db.execute(
        "SELECT stream_no, peer, partition, ordinal, random FROM streams"
    ).fetchall()
    for number, peer, partition, ordinal, rand in streams:
        name = f"{format_base32(peer)[:8]}.{partition}.{ordinal}.{rand.hex()}"
        previous, parts, expected = NO_HASH, list[str](), 1
        rows = db.execute(
            "SELECT sequence, header, payload FROM events WHERE stream_no=? ORDER BY sequence", (number,)
        )
        for sequence, header, payload in rows:
            parts += [HOLE] * (sequence - expected)
            previous = chain_hash(previous, header)
            parts.append(previous.hex()[:CHAIN_CHARS])
            expected = sequence + 1
            _take(seen, name, sequence, header, payload)
        if parts:
            seen.chains[name] = "".join(parts)
    return seen


def _take(seen: Seen, stream: str, sequence: int, header: bytes, payload: bytes | None) -> None:
    kind = parse_header(header).kind
    if kind == EpochOpened.__name__:
        seen.openings[stream].append(sequence)
    if kind != CellStored.__name__ or payload is None:
        return
    try:
        stored = decode_payload(kind, payload)
    except ProtocolError:  # damaged: it is not held
        return
    assert isinstance(stored, CellStored)
    node = format_uuid(stored.cell)
    seen.places.append((node, stream, sequence))
    seen.texts[node] = stored.content


# -- faults


def kill_all_and_look(cluster: Cluster, rng: random.Random) -> Strike:
    """Kill all peers at the same moment and read their logs before they start again."""
    cluster.kill(PEERS)
    return _looked_at(cluster, lambda: cluster.revive(PEERS))


def cut_off_kill_and_look(cluster: Cluster, rng: random.Random) -> Strike:
    """Cut off one or each, let agents store for a while, and then kill all and look: the hard case for honesty."""
    targets: Sequence[str] = rng.choice(([rng.choice(PEERS)], PEERS))
    cluster.disconnect(targets)
    threading.Event().wait(rng.uniform(1, 4))
    cluster.kill(PEERS)

    def heal() -> None:
        cluster.connect(targets)
        cluster.revive(PEERS)

    return _looked_at(cluster, heal)


def _looked_at(cluster: Cluster, heal: Callable[[], None]) -> Strike:
    noted = told_of({peer: look_into(cluster, peer) for peer in PEERS})

    def tell_once() -> None:
        noted.clear()  # of the moment of the kill, not of the heal
        heal()

    return Strike(PEERS, 0.0, tell_once, total=True, noted=noted)


LOOKING: Final[Mapping[str, Fault]] = {f.__name__: f for f in (kill_all_and_look, cut_off_kill_and_look)}
