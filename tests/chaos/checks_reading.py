"""Checks of inboxes and walls: what is listed, to whom, how often, in which order, and what must never be seen."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.chaos.expecting import Expecting
from tests.chaos.facts import peers_of
from tests.chaos.history import OK, Record
from tests.chaos.losses import Losses
from tests.chaos.pages import CREATED, Entry, Page, pages

_CANARY = re.compile(r"canary-(tenant|owner)-([a-z]+)")


def anytime_nothing_leaks(records: Sequence[Record]) -> list[str]:
    """Isolation canary: no reply holds a word of another tenant's, or of another owner's private project (G7)."""
    facts = {r.who: r.value for r in records if r.what == "agent"}
    found = []
    for record in records:
        if record.kind == OK and record.who in facts:
            for kind, of in _CANARY.findall(" ".join(record.value.get("canaries", ()))):
                if facts[record.who][kind] != of:
                    found.append(f"{record.who} got a word of {kind} {of} by {record.what} at {record.where}")
    return found


def finally_logs_hold_no_words(records: Sequence[Record]) -> list[str]:
    """Isolation: no word of a memory and no key is in what a peer said for its operator (G7)."""
    said = {r.where: r.value["words"] for r in records if r.what == "said"}
    found = [f"nobody read what {peer} said" for peer in peers_of(records) if peer not in said]
    return found + [f"{peer} said {word!r}" for peer, words in said.items() for word in words]


def anytime_no_unmarked_repeat(records: Sequence[Record]) -> list[str]:
    """Cursor: what was listed to a reader that acknowledges is listed again, wherever, with `may_repeat` only (G6).

    To one that names nothing over HTTP, as who only looks, each single peer owes that.  Readers that make calls at
    once are told that it may fail; of a page that one disk alone recorded nobody knows once that was struck.
    """
    losses, lists = Losses(records), list(pages(records))
    committed_s = {(p.reader, e.cursor): p.at_s for p in reversed(lists) for e in p.committed_here}
    before = defaultdict[tuple[str, str], set[str]](set)  # reader, diff: where it was listed
    found = []
    for page in (p for p in lists if not p.together):
        for diff in () if page.may_repeat else [e.diff for e in page.entries]:
            places = before[page.reader, diff]
            if page.where in places or (places and page.names):
                found.append(f"{page.reader} got {diff} of {sorted(places)} again at {page.where}, unmarked")
        ended_s = committed_s.get((page.reader, page.cursor), page.at_s)
        if not page.looked and not losses.may_repeat(page.where, page.at_s, ended_s):
            for entry in page.entries:
                before[page.reader, entry.diff].add(page.where)
    return found


def anytime_committed_pages_stay_read(records: Sequence[Record]) -> list[str]:
    """Cursor: what was on a page that a later drain named does not come again at that peer, marked or not (G6).

    Unless its disk alone recorded the page or the drain, and was struck; until it has caught up it may list, marked,
    what it knew before.
    """
    committed, losses = defaultdict[tuple[str, str], set[str]](set), Losses(records)
    found = []
    for page in pages(records):
        for earlier in page.committed_here:
            if not earlier.together and not losses.may_repeat(page.where, earlier.at_s, page.at_s):
                committed[page.reader, page.where].update(e.diff for e in earlier.entries)
        behind = page.may_repeat and losses.is_behind(page.where, page.at_s)
        if page.together or page.looked or behind:
            continue
        again = [e for e in page.entries if e.diff in committed[page.reader, page.where]]
        found += [f"{page.reader} acknowledged {e.diff} at {page.where} and got it again" for e in again]
    return found


def anytime_no_page_lists_twice(records: Sequence[Record]) -> list[str]:
    """One entry per reader and diff on a page (G6)."""
    found = []
    for page in pages(records):
        twice = [d for d, n in Counter(e.diff for e in page.entries).items() if n > 1]
        found += [f"{page.reader}: {diff} twice on one page" for diff in twice]
    return found


def anytime_only_matches_are_listed(records: Sequence[Record]) -> list[str]:
    """Total queue, the other half: nothing is listed that no beacon of the agent asked for, nor its own (G4)."""
    expecting = Expecting(records)
    found = []
    for page in pages(records):
        for entry in page.entries:
            wrong = expecting.why_not(page.who, entry)
            if wrong:
                found.append(f"{page.reader} was listed {entry.diff}: {wrong}")
    return found


def anytime_one_interest_is_one_beacon(records: Sequence[Record]) -> list[str]:
    """A beacon placed again, wherever, is the same beacon."""
    beacons = defaultdict[tuple[str, str], set[str]](set)
    for record in records:
        if record.what == "place" and record.kind == OK and "beacon" in record.value:
            beacons[record.who, record.value["project"]].add(record.value["beacon"])
    return [
        f"{who} has {len(ids)} beacons for {project}: {sorted(ids)}"
        for (who, project), ids in beacons.items()
        if len(ids) > 1
    ]


def finally_every_match_was_listed(records: Sequence[Record]) -> list[str]:
    """Inbox total queue and cursor skip: each reader was listed everything that it had to be (G4, G5)."""
    expecting = Expecting(records)
    listed = defaultdict[str, set[tuple[str, str]]](set)
    for page in pages(records):
        if not page.lost and not page.looked:
            listed[page.reader].update((e.key, e.kind) for e in page.entries)
    found = []
    for reader in expecting.readers():
        missed = expecting.due(reader) - listed[reader.name]
        found += [
            f"{reader.name} was never listed the memory of key {key} ({kind})" for key, kind in sorted(missed)
        ]
    return found


def finally_each_stream_came_in_order(records: Sequence[Record]) -> list[str]:
    """Cursor: what one peer wrote came to each reader in the order in which it was written (first listings).

    Of projects whose beacon was placed once and stays, to readers of whom no page can have been lost.
    """
    expecting, places = Expecting(records), _places(records)
    certain = {reader.name for reader in expecting.readers()}
    last: dict[tuple[str, str, str], int] = {}
    seen = defaultdict[str, set[str]](set)
    found = []
    for page in pages(records):
        if page.looked or page.lost or page.reader not in certain:
            continue
        for entry in _first_listings(page, seen[page.reader]):
            if entry.node not in places or not expecting.is_steady(page.who, entry.project):
                continue
            stream, sequence = places[entry.node]
            at = page.reader, stream, entry.project
            if sequence < last.get(at, 0):
                found.append(f"{page.reader} got {sequence} of {stream} after {last[at]}")
            last[at] = max(sequence, last.get(at, 0))
    return found


def _first_listings(page: Page, seen: set[str]) -> list[Entry]:
    fresh = [e for e in page.entries if e.kind == CREATED and e.diff not in seen]
    seen.update(e.diff for e in fresh)
    return fresh


def _places(records: Sequence[Record]) -> dict[str, tuple[str, int]]:
    """Return where memories are written that are written once."""
    written = defaultdict[str, set[tuple[str, int]]](set)
    for record in records:
        if record.what == "seen":
            for node, stream, sequence in record.value["places"]:
                written[node].add((stream, sequence))
    return {node: next(iter(places)) for node, places in written.items() if len(places) == 1}
