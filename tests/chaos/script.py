"""A history written by hand in which everything is right, and ways to spoil it: what the checkers are tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.chaos.facts import HEALING
from tests.chaos.history import BEGIN, HEAL, INVOKE, NOTE, OK, UNKNOWN, Record
from tests.chaos.history import FAULT as FAULT_KIND

Spoil = Callable[[list[Record]], list[Record]]
HEADS = [{"stream": "p1.0.1", "sequence": 9, "hash": "ab"}]
CHAIN = "aaaaaaaabbbbbbbbcccccccc"
SHORT = {"durable_on": 1, "wanted": 2, "noted": True}
FOUND = {"found": True, "stale": False}
MISSED = {"found": False, "stale": True}
D1 = ["d1", "n1", "k1", "alpha", "created"]
D2 = ["d2", "n2", "k2", "alpha", "created"]
D1_REPLACED = ["d12", "n1", "k1", "alpha", "superseded"]


class Script:
    """Writes a history by hand; time goes on by a second with each line."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._op = 0

    def note(self, kind: str, who: str, what: str, where: str = "", **value: Any) -> None:
        self._add(kind, 0, who, what, where, value)

    def did(self, who: str, what: str, where: str, asked: dict[str, Any], got: dict[str, Any] | None) -> None:
        """An operation that succeeded, or, with None, one of which nothing is known."""
        self._op += 1
        self._add(INVOKE, self._op, who, what, where, asked)
        self._add(UNKNOWN if got is None else OK, self._op, who, what, where, got or {})

    def _add(self, kind: str, op: int, who: str, what: str, where: str, value: dict[str, Any]) -> None:
        self.records.append(Record(float(len(self.records)), kind, op, who, what, where, value))


def good() -> list[Record]:
    """A history in which everything is right: two agents, two peers, four faults, one page in doubt, one lost."""
    s = Script()
    s.note(NOTE, "observer", "peers", names=["p1", "p2"], w=2)
    s.note(NOTE, "ann", "agent", tenant="here", owner="one")
    s.note(NOTE, "ben", "agent", tenant="here", owner="two")
    s.did("ann", "place", "p1", {"project": "alpha"}, {"project": "alpha", "beacon": "b1"})
    s.did("ben", "store", "p2", {"key": "k1", "project": "alpha"}, {"node": "n1"})
    s.did("ann", "place", "p2", {"project": "alpha"}, {"project": "alpha", "beacon": "b1"})
    _break(s)
    _read(s)
    _end(s)
    return s.records


def _break(s: Script) -> None:
    s.note(BEGIN, "injector", "kill_peer")
    s.note(FAULT_KIND, "injector", "kill_peer", targets=["p2"], must_show=["it died"])
    s.did("ben", "store", "p2", {"key": "k2", "project": "alpha", "supersedes": "n1"}, None)
    s.did(
        "ben", "store", "p1", {"key": "k2", "project": "alpha", "supersedes": "n1"}, {"node": "n2", **SHORT}
    )
    s.did("ben", "find", "p1", {"key": "k2", "stored_at": "p1", "carried": False}, FOUND)
    s.note(NOTE, "injector", HEALING)
    s.note(HEAL, "injector", "kill_peer", targets=["p2"], signs=["it died"])
    s.note(BEGIN, "injector", "cut_off_one")
    s.note(FAULT_KIND, "injector", "cut_off_one", targets=["p1"])
    s.did("ben", "store", "p1", {"key": "k5", "project": "beta"}, {"node": "n5", **SHORT})
    s.did("ben", "find", "p2", {"key": "k5", "stored_at": "p1", "carried": True}, {**FOUND, **MISSED})
    s.note(NOTE, "injector", HEALING)
    s.note(HEAL, "injector", "cut_off_one", targets=["p1"])
    s.note(BEGIN, "injector", "pause_peer")
    s.note(FAULT_KIND, "injector", "pause_peer", targets=["p1"])
    s.did("ben", "hurried", "p1", {"key": "late", "left_s": 0.2}, None)
    s.did("ben", "hurried", "p2", {"key": "later", "left_s": -1.0}, None)
    s.note(NOTE, "injector", HEALING)
    s.note(HEAL, "injector", "pause_peer", targets=["p1"])
    held = {"p1": ["n1", "n2", "n5"], "p2": ["n1"]}
    chains, openings = {"p1": {"s1": CHAIN[:16]}, "p2": {"s1": CHAIN[:8]}}, {"p1": {"s1": [1]}}
    of: dict[str, Any] = {
        "targets": ["p1", "p2"],
        "total": True,
        "held": held,
        "chains": chains,
        "openings": openings,
    }
    s.note(FAULT_KIND, "injector", "kill_all_and_look", **of)
    s.note(NOTE, "injector", HEALING)
    s.note(HEAL, "injector", "kill_all_and_look", targets=["p1", "p2"])


def _read(s: Script) -> None:
    ann = {"reader": "ann", "acks": True}
    s.did("ann", "drain", "p1", {**ann, "looks": True}, page("c0", [D1]))
    s.did("ann", "drain", "p1", {**ann, "ack": "c0"}, None)
    s.did("ann", "drain", "p1", {**ann, "ack": "c0"}, page("c1", [D1], may_repeat=True))
    s.did("ann", "drain", "p1", {**ann, "ack": "c1", "lost": True}, page("c2", [D2]))
    s.did("ann", "drain", "p1", {**ann, "ack": "c1"}, page("c3", [D2, D1_REPLACED], may_repeat=True))
    s.did("ann", "drain", "p1", {**ann, "ack": "c3"}, page("c4", []))
    s.note(NOTE, "ann", "drained", "p1", reader="ann")


def _end(s: Script) -> None:
    for peer, node in (("p1", "n3"), ("p2", "n4")):
        s.did("observer", "store", peer, {"key": f"o-{peer}", "project": "default"}, {"node": node})
    held = {"n1": "k1", "n2": "k2", "n3": "o-p1", "n4": "o-p2", "n5": "k5"}
    for peer in ("p1", "p2"):
        for origin in ("p1", "p2"):
            s.note(NOTE, "observer", "heard", peer, **{"from": origin})
        s.note(NOTE, "observer", "holds", peer, keys=held)
        s.note(NOTE, "ann", "searched", peer, missed=[])
        s.note(NOTE, "observer", "log", peer, ok=True, streams=HEADS, state_hash="5t4te")
        s.note(NOTE, "observer", "said", peer, words=[])
    places = [["n1", "s1", 2], ["n2", "s1", 3]]
    of: dict[str, Any] = {
        "chains": {"p1": {"s1": CHAIN}, "p2": {"s1": CHAIN}},
        "openings": {"p1": {"s1": [1]}},
    }
    s.note(NOTE, "observer", "seen", places=places, keys=["k1", "k2"], **of)


def page(cursor: str, entries: list[list[str]], **more: Any) -> dict[str, Any]:
    return {"cursor": cursor, "remaining": 0, "entries": entries, "canaries": ["canary-tenant-here"], **more}


def changed(match: Callable[[Record], bool], **value: Any) -> Spoil:
    """Change members of the first record that matches."""

    def spoil(records: list[Record]) -> list[Record]:
        at = next(i for i, r in enumerate(records) if match(r))
        new = replace(records[at], value={**records[at].value, **value})
        return [*records[:at], new, *records[at + 1 :]]

    return spoil


def without(match: Callable[[Record], bool]) -> Spoil:
    return lambda records: [r for r in records if not match(r)]


def late(match: Callable[[Record], bool], by_s: float) -> Spoil:
    """Move the first record that matches, and all after it, to a later time."""

    def spoil(records: list[Record]) -> list[Record]:
        at = next(i for i, r in enumerate(records) if match(r))
        return [*records[:at], *(replace(r, at_s=r.at_s + by_s) for r in records[at:])]

    return spoil


def is_page(cursor: str) -> Callable[[Record], bool]:
    return lambda r: r.value.get("cursor") == cursor


def is_end(what: str, **value: str) -> Callable[[Record], bool]:
    return lambda r: r.what == what and r.kind == OK and value.items() <= r.value.items()


def is_note(what: str, where: str) -> Callable[[Record], bool]:
    return lambda r: r.what == what and r.where == where and r.kind == NOTE
