"""Who has to be listed what, derived from a history alone.  Pure.

The rule: a memory stored (first tried) after a beacon was acknowledged is due to the agent, if the beacon was never
withdrawn, or was withdrawn later at the peer that had acknowledged the memory: another peer may not have known of it,
and a withdrawal ends what is beyond its own frontier.  To a session of the agent it is due if it was also first tried
after the session had been opened.  Whoever is due a memory is due the news that it was replaced.  What a reader gave
up with `skip_before` is not due to it.  Everything else may go either way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.facts import NEVER
from tests.chaos.history import FAIL, INVOKE, OK, UNKNOWN, Record, pairs
from tests.chaos.losses import Losses
from tests.chaos.pages import CREATED, SUPERSEDED, Entry

SILENT = "silent"  # code of a call that nobody answered, so that its answer may have been written somewhere

Due = tuple[str, str]  # idempotency key of a memory, kind of the entry


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
    node: str = ""
    replaces: str = ""  # a node


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
        here = stored.where != "" and stored.where == self.ended_at
        known = here and stored.acknowledged_s < self.to_s
        return known and not losses.struck_between(self.ended_at, stored.acknowledged_s, self.to_s)


class Expecting:
    """What a history says about who had to be listed what."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._losses = Losses(records)
        self._stored = _stores(records, self._losses)
        self._key_of = {stored.node: key for key, stored in self._stored.items() if stored.node}
        self._replaced = {stored.replaces for stored in self._stored.values()}
        self._live = _beacons(records, self._losses)
        placed = [r for r in records if r.what == "place" and r.kind == INVOKE]
        self._asked = {(r.who, r.value["project"]) for r in placed}
        ended = {(r.who, r.value["project"]) for r in records if r.what == "withdraw" and r.kind == INVOKE}
        self._steady = self._asked - ended
        self._readers = _readers(records)
        self._tenants = {r.who: r.value["tenant"] for r in records if r.what == "agent"}

    def readers(self) -> list[Reader]:
        """Return the readers of whom no page can have been lost: those that acknowledge, and lucky others."""
        return self._readers

    def due(self, reader: Reader) -> set[Due]:
        """Return what this reader had to be listed."""
        sent = {key for key, stored in self._stored.items() if self._is_due(reader.who, stored)}
        news = {
            (self._key_of[stored.replaces], SUPERSEDED)
            for stored in self._stored.values()
            if stored.who != reader.who
            and stored.tried_s > reader.since_s
            and stored.acknowledged_s != NEVER
            and self._key_of.get(stored.replaces) in sent
        }
        return news | {(key, CREATED) for key in sent if self._stored[key].tried_s > reader.since_s}

    def _is_due(self, who: str, stored: _Stored) -> bool:
        return (
            stored.who != who
            and self._tenants.get(stored.who) == self._tenants[who]
            and any(live.covers(stored, self._losses) for live in self._live[who])
        )

    def is_steady(self, who: str, project: str) -> bool:
        """Tell whether an agent asked for a project once and never withdrew that."""
        return (who, project) in self._steady

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
        if entry.kind == SUPERSEDED and entry.node not in self._replaced:
            return "nobody replaced it"
        return "" if (who, entry.project) in self._asked else f"it never asked for {entry.project}"


def _stores(records: Sequence[Record], losses: Losses) -> dict[str, _Stored]:
    found: dict[str, _Stored] = {}
    for asked, end in pairs(records, "store"):
        call = asked.value
        fresh = _Stored(asked.who, call["project"], asked.at_s, replaces=call.get("supersedes", ""))
        stored = found.setdefault(call["key"], fresh)
        if end is None or end.kind != OK:
            continue
        stored.node = end.value["node"]
        if stored.acknowledged_s == NEVER and not losses.may_be_lost(end):
            stored.acknowledged_s, stored.where = end.at_s, end.where
    return found


def _beacons(records: Sequence[Record], losses: Losses) -> dict[str, list[_Live]]:
    """Return by agent when its beacons were live; a withdrawal in doubt may come late and end all hope."""
    live = defaultdict[str, list[_Live]](list)
    since: dict[tuple[str, str], float] = {}
    doubtful: set[tuple[str, str]] = set()
    ends = {r.op: r for r in records if r.op and r.kind != INVOKE}
    for record in records:
        if record.what not in ("place", "withdraw"):
            continue
        beacon = record.who, record.value.get("project", "")
        if record.what == "withdraw" and record.kind == INVOKE:
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
    since = {f"{r.who}/{r.value['session']}": r.at_s for r in records if r.what == "open" and r.kind == OK}
    in_doubt = set()
    for asked, end in pairs(records, "drain"):
        reader, no_answer = asked.value["reader"], end is None or end.kind == UNKNOWN
        silent = end is None or end.value.get("code") == SILENT
        if no_answer and (silent if asked.value.get("gateway") else not asked.value["acks"]):
            in_doubt.add(reader)
        if asked.value.get("skips") and (end is None or end.kind != FAIL):
            skipped_s = NEVER if end is None or end.kind == UNKNOWN else end.at_s
            since[reader] = max(skipped_s, since.get(reader, 0.0))
    return [Reader(name, name.partition("/")[0], since.get(name, 0.0)) for name in sorted(at_end - in_doubt)]
