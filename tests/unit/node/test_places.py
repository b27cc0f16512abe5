"""Places of calls under way: in all, for one key, and given back however a call ends."""

from __future__ import annotations

import contextlib

import pytest

from node.service.places import Places
from proto.errors import Overloaded


def taken(places: Places, stack: contextlib.ExitStack, key: str | None) -> int:
    """Take places of a key until refused; return how many there were."""
    for n in range(100):
        try:
            stack.enter_context(places.one(key))
        except Overloaded:
            return n
    raise AssertionError("never refused")


def test_a_key_has_its_places_and_not_one_more_and_leaves_the_rest_to_others() -> None:
    places = Places(in_all=10, per_key=4)
    with contextlib.ExitStack() as stack:
        assert taken(places, stack, "a") == 4
        assert taken(places, stack, "b") == 4
        assert taken(places, stack, "c") == 2
        assert taken(places, stack, "d") == 0
    assert places.taken == 0


def test_a_place_is_free_again_however_its_call_ended() -> None:
    places = Places(in_all=1, per_key=1)
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), places.one("a"):
            raise error
    with places.one("a"):
        assert places.taken == 1


def test_a_refused_call_takes_nothing() -> None:
    places = Places(in_all=1, per_key=1)
    with places.one("a"):
        for key in ("a", "b"):
            with pytest.raises(Overloaded), places.one(key):
                raise AssertionError("entered")
    with places.one("b"):
        assert places.taken == 1


def test_the_user_of_the_socket_always_gets_in() -> None:
    places = Places(in_all=1, per_key=1)
    with places.one("a"), places.one(None):
        assert places.taken == 1
