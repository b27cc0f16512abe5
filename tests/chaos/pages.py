"""Pages of inboxes as they arrived, read from a history.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.history import INVOKE, OK, Record

CREATED, SUPERSEDED = "created", "superseded"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a page; `key` is the idempotency key that the text of its memory names."""

    diff: str
    node: str
    key: str
    project: str
    kind: str = CREATED


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it arrived.

    Args:
        reader: the agent's name, or `agent/session`.
        where: the peer that listed it; empty where the reader's gateway chose among peers.
        looked: it was only looked at (`advance: false`), so it is no listing.
        lost: its reader acted as if it had not arrived: it never acknowledges it.
        names: its call named the page that was read before, by itself or through its gateway.
        together: the same reader was making another call meanwhile.
        committed_here: earlier pages that this drain committed by naming their cursor, listed at the same peer.
    """

    at_s: float
    who: str
    reader: str
    where: str
    cursor: str
    may_repeat: bool
    entries: tuple[Entry, ...]
    looked: bool = False
    lost: bool = False
    names: bool = False
    together: bool = False
    committed_here: tuple[Page, ...] = ()


def pages(records: Sequence[Record]) -> Iterator[Page]:
    """Yield the pages that arrived, in the order of their arrival."""
    known: dict[tuple[str, str], Page] = {}
    asked = {r.op: r.value for r in records if r.what == "drain" and r.kind == INVOKE}
    for end in records:
        if end.what != "drain" or end.kind != OK:
            continue
        call = asked[end.op]
        reader = call["reader"]
        earlier = known.get((reader, call.get("ack") or ""))
        page = Page(
            end.at_s,
            end.who,
            reader,
            end.where,
            end.value["cursor"],
            bool(end.value.get("may_repeat")),
            tuple(Entry(*entry) for entry in end.value["entries"]),
            bool(call.get("looks")),
            bool(call.get("lost")),
            bool(call.get("acks") and (call.get("gateway") or not call.get("looks"))),
            bool(call.get("together")),
            (earlier,) if earlier is not None and end.where and earlier.where == end.where else (),
        )
        if not page.looked:
            known[reader, page.cursor] = page
        yield page
