"""Events of a retired peer that nobody can believe: set aside alike at every peer, whatever came first.

The simulation found each of these.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from node import database
from node.membership_projection import LATE
from node.replica import Draft
from proto.payloads import Payload
from tests.support.members import joined, retire
from tests.support.replicas import TENANT, Peer, agent
from tests.support.sealed import peer


class _Raw:
    """Stands for a payload that no version of ours writes."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def model_dump(self, **_how: object) -> dict[str, Any]:
        return self._fields


def raw(kind: str, **fields: Any) -> Draft:
    payload = cast(Payload, type(kind, (_Raw,), {})(**fields))
    return Draft.of(TENANT, agent("ann"), payload)


@pytest.mark.parametrize(
    ("kind", "why"),
    [("MoodNoted", "unknown kind"), ("CellStored", "a CellStored event is malformed at cell: bytes_type")],
)
def test_what_nobody_can_read_stays_set_aside_when_it_counts_after_all(kind: str, why: str) -> None:
    gone, early, late, reader = Peer(1), Peer(2), Peer(3), Peer(4)
    gone.store("a")
    early.pull(gone)
    gone.write(raw(kind, cell=5))
    late.pull(gone)
    retire(early, 1)
    reader.pull(gone, early)
    assert reader.set_aside() == [(kind, LATE)]
    retire(late, 1)
    reader.pull(late)
    assert reader.set_aside() == [(kind, why)]


def test_a_late_event_that_nobody_can_read_is_set_aside_as_late_whatever_came_first() -> None:
    gone, other, first, second = Peer(1), Peer(2), Peer(3), Peer(4)
    gone.store("a")
    other.pull(gone)
    gone.write(raw("CellStored", cell=5))
    retire(other, 1)
    first.pull(gone)
    first.pull(other)
    second.pull(other)
    second.pull(gone)
    assert first.set_aside() == second.set_aside() == [("CellStored", LATE)]


def test_a_late_joining_makes_nobody_a_member_whatever_came_first() -> None:
    gone, other, inviter = Peer(1), Peer(2), Peer(3)
    first, second = Peer(4), Peer(5)
    gone.store("a")
    other.pull(gone)
    gone.append(joined(7, by=6))  # nobody can believe it before peer 6 is known
    retire(other, 1)
    inviter.append(joined(6, by=6))
    first.pull(gone)
    first.pull(other, inviter)
    second.pull(other)
    second.pull(gone, inviter)
    assert _members(first) == _members(second) == [peer(6)]
    assert first.replica.state_hash() == second.replica.state_hash()


def _members(one: Peer) -> list[bytes]:
    return [found for (found,) in database.rows(one.db, "SELECT peer FROM members ORDER BY peer")]
