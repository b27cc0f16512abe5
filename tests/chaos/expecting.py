"""Who has to be listed what, derived from a history alone.  Pure.

The rule: a memory stored (first tried) after a beacon was acknowledged is due to the agent, if the beacon was never
withdrawn, or was withdrawn later at the peer that had acknowledged the memory: another peer may not have known of it,
and a withdrawal ends what is beyond its own frontier.  To a session of the agent it is due if it was also first tried
after the session had been opened.  Everything else may go either way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.history import OK, UNKNOWN, Record, pairs
from tests.chaos.losses import Losses

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a page; `key` is the idempotency key that its text names."""

    diff: str
    node: str
    key: str
    project: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it arrived.

    Args:
        reader: the agent's name, or `agent/session`.
        committed_here: earlier pages that this drain committed by naming their cursor, listed at the same peer.
    """

    at_s: float
    who: str
    reader: str
    where: str
    cursor: str
    may_repeat: bool
    entries: tuple[Entry, ...]
    committed_here: tuple[Page, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody with a place of its own in the inbox.

    Args:
        since_s: nothing that was tried earlier has to be listed.
    """

    name: str
    who: str
    since_s: float


@dataclass(slots=True)
class _Stored:
    who: str
    project: str
    tried_s: float
    acknowledged_s: float = NEVER
    where: str = ""


@dataclass(frozen=True, slots=True)
class _Live:
    """An interval in which a beacon of a project was certainly live."""

    project: str
    from_s: float
    to_s: float
    ended_at: str = ""

    def covers(self, stored: _Stored, losses: Losses) -> bool:
        """Tell whether a memory certainly matched."""
        if stored.project != self.project or stored.tried_s <= self.from_s or stored.acknowledged_s == NEVER:
            return False
        if self.to_s == NEVER:
            return True
        known = stored.acknowledged_s < self.to_s and stored.where == self.ended_at
        return known and not losses.struck_between(self.ended_at, stored.acknowledged_s, self.to_s)


def pages(records: Sequence[Record]) -> Iterator[Page]:
    """Yield the pages that arrived, in the order of their arrival."""
    known: dict[tuple[str, str], Page] = {}
    asked = {r.op: r for r in records if r.what == "drain" and r.kind == "invoke"}
    for end in records:
        if end.what != "drain" or end.kind != OK:
            continue
        reader, ack = asked[end.op].value["reader"], asked[end.op].value.get("ack")
        earlier = known.get((reader, ack or ""))
        page = Page(
            end.at_s,
            end.who,
            reader,
            end.where,
            end.value["cursor"],
            bool(end.value.get("may_repeat")),
            tuple(Entry(*entry) for entry in end.value["entries"]),
            (earlier,) if earlier is not None and earlier.where == end.where else (),
        )
        known[reader, page.cursor] = page
        yield page


class Expecting:
    """What a history says about who had to be listed what."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._losses = Losses(records)
        self._stored = _stores(records, self._losses)
        self._live = _beacons(records, self._losses)
        self._asked = {
            (r.who, r.value["project"]) for r in records if r.what == "place" and r.kind == "invoke"
        }
        self._readers = _readers(records)
        self._tenants = {r.who: r.value["tenant"] for r in records if r.what == "agent"}

    def readers(self) -> list[Reader]:
        """Return the readers of whom no page can have been lost: those that acknowledge, and lucky others."""
        return self._readers

    def due(self, reader: Reader) -> set[str]:
        """Return the keys of all memories that this reader had to be listed."""
        return {
            key
            for key, stored in self._stored.items()
            if stored.who != reader.who
            and self._tenants.get(stored.who) == self._tenants[reader.who]
            and stored.tried_s > reader.since_s
            and any(live.covers(stored, self._losses) for live in self._live[reader.who])
        }

    def why_not(self, who: str, entry: Entry) -> str:
        """Return why an agent should not have been listed an entry; empty when that is right."""
        stored = self._stored.get(entry.key)
        if stored is None:
            return f"nobody stored a memory of key {entry.key!r}"
        if stored.who == who:
            return "it is its own"
        if self._tenants.get(stored.who) != self._tenants[who]:
            return f"it is of {stored.who}, of another tenant"
        if stored.project != entry.project:
            return f"it was stored in {stored.project}, not in {entry.project}"
        return "" if (who, entry.project) in self._asked else f"it never asked for {entry.project}"


def _stores(records: Sequence[Record], losses: Losses) -> dict[str, _Stored]:
    found: dict[str, _Stored] = {}
    for asked, end in pairs(records, "store"):
        key = asked.value["key"]
        stored = found.setdefault(key, _Stored(asked.who, asked.value["project"], asked.at_s))
        if end is not None and end.kind == OK and not losses.may_be_lost(end):
            stored.acknowledged_s, stored.where = end.at_s, end.where
    return found


def _beacons(records: Sequence[Record], losses: Losses) -> dict[str, list[_Live]]:
    """Return by agent when its beacons were live; a withdrawal in doubt may come late and end all hope."""
    live = defaultdict[str, list[_Live]](list)
    since: dict[tuple[str, str], float] = {}
    doubtful: set[tuple[str, str]] = set()
    ends = {r.op: r for r in records if r.op and r.kind != "invoke"}
    for record in records:
        if record.what not in ("place", "withdraw"):
            continue
        beacon = record.who, record.value.get("project", "")
        if record.what == "withdraw" and record.kind == "invoke":
            if beacon in since:
                live[record.who].append(_Live(beacon[1], since.pop(beacon), record.at_s, record.where))
            end = ends.get(record.op)
            if end is None or end.kind == UNKNOWN:
                doubtful.add(beacon)
        elif record.what != "place" or record.kind != OK or losses.may_be_lost(record):
            continue
        elif beacon not in doubtful:
            since.setdefault(beacon, record.at_s)
    for (who, project), from_s in since.items():
        live[who].append(_Live(project, from_s, NEVER))
    return live


def _readers(records: Sequence[Record]) -> list[Reader]:
    """Return readers that drained to their end and of whom no page can have been lost unseen."""
    at_end = {r.value["reader"] for r in records if r.what == "drained"}
    opened = {f"{r.who}/{r.value['session']}": r.at_s for r in records if r.what == "open" and r.kind == OK}
    plain_in_doubt = {
        asked.value["reader"]
        for asked, end in pairs(records, "drain")
        if not asked.value["acks"] and (end is None or end.kind == UNKNOWN)
    }
    return [
        Reader(name, name.partition("/")[0], opened.get(name, 0.0))
        for name in sorted(at_end - plain_in_doubt)
    ]
