"""How an agent reads: as itself or in sessions, with `ack` or without, twice at once, losing, looking, skipping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.caller import Caller, Calling
from tests.chaos.history import NOTE
from tests.chaos.post import Post
from tests.chaos.serving import for_each
from tests.chaos.stdio_caller import StdioCaller

LIMITS: Final = (1, 5, 20, 100)
MOST_PAGES: Final = 1000  # that can wait for one reader in the end


@dataclass(slots=True)
class Place:
    """Where a reader is.

    Args:
        reader: its name.
        session: if it is one.
        cursor: of the last page that it read.
        unknown_at: peers that did not know the session when they were last asked.
    """

    reader: str
    session: str | None = None
    cursor: str | None = None
    unknown_at: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Reading:
    """The reading half of an agent.

    Args:
        twins: further callers of the same agent, each for a thread of its own.
    """

    post: Post
    twins: Sequence[Caller]
    places: list[Place] = field(default_factory=list)

    def settle(self) -> None:
        """Take the places that the profile names."""
        if self.post.profile.sessions == 0:
            self.places = [Place(self.post.profile.name)]
        while len(self.places) < self.post.profile.sessions:
            self.post.until(self.open_session)

    def drain(self) -> None:
        """Read a page; now and then lose it, look only, or give up what waits."""
        if not self.places:
            return
        place, chance = self.post.rng.choice(self.places), self.post.rng.random()
        if chance < 0.08:
            self._look(place)
        elif chance < 0.10 and place.session is not None:
            self._skip(place)
        else:
            # over HTTP without `ack` a reply that was sent counts as read: nothing of it may be lost
            lost = self.post.by_http and self.post.profile.acks and chance > 0.92
            self._page(place, {"lost": True} if lost else {})

    def at_once(self) -> None:
        """Read in two threads: two sessions side by side, or the same reader twice."""
        if not self.post.by_http or not self.post.profile.acks or not self.places:
            return
        if len(self.places) > 1:
            for_each(lambda n: self._page(self.places[n], {}, self.twins[n]), (0, 1))
            return
        place = self.places[0]
        if place.cursor is None and not self._begin(place, self.post.door):
            return
        both = [Place(place.reader, place.session, place.cursor) for _ in self.twins]
        for_each(lambda n: self._page(both[n], {"together": True}, self.twins[n]), (0, 1))
        place.cursor = self.post.rng.choice(both).cursor  # the other page stays in doubt

    def to_the_end(self) -> None:
        """Read until nothing remains, and note it; or that nobody knows the session."""
        name, history = self.post.profile.name, self.post.history
        for place in self.places:
            place.unknown_at.clear()
            self.post.until(lambda p=place: self._all(p) or p.unknown_at.issuperset(self.post.peers))  # type: ignore[misc]
            if place.unknown_at:
                history.note(NOTE, name, "gone", reader=place.reader)
                continue
            self._page(place, {})  # commits the last page
            history.note(NOTE, name, "drained", self.post.peer, reader=place.reader)

    def change_session(self) -> None:
        """Close one of the sessions, having read it to the end or not, and open another."""
        post = self.post
        if post.profile.sessions and self.places and post.rng.random() < 0.3:
            place = post.rng.choice(self.places)
            noted = {"reader": place.reader}
            if post.ask("close", "close_session", {"session_id": place.session}, noted) is not None:
                self.places.remove(place)
        if len(self.places) < post.profile.sessions:
            self.open_session()

    def open_session(self) -> bool:
        """Open one; return whether that is certain."""
        opened = self.post.ask("open", "open_session", {}, {}, lambda r: {"session": r["session_id"]})
        if opened is None:
            return False
        self.places.append(Place(f"{self.post.profile.name}/{opened['session_id']}", opened["session_id"]))
        return True

    def restart_gateway(self) -> None:
        """Kill the gateway and start another, which knows nothing of the page before."""
        if isinstance(self.post.door, StdioCaller):
            self.post.door.restart()
            for place in self.places:
                place.cursor = None

    # -- one page

    def _all(self, place: Place) -> bool:
        for _ in range(MOST_PAGES):
            remaining = self._page(place, {})
            if not remaining:
                return remaining is not None
        raise AssertionError(f"{place.reader} is not at its end after {MOST_PAGES} pages")

    def _page(self, place: Place, noted: Mapping[str, Any], by: Calling | None = None) -> int | None:
        """Read one page; return how many wait after it, or None where there was no answer."""
        door = by or self.post.door
        names = self.post.by_http and self.post.profile.acks
        if names and place.cursor is None and not self._begin(place, door):
            return None
        more: dict[str, Any] = {"limit": self.post.rng.choice(LIMITS)}
        told = dict(noted)
        if self.post.profile.acks and place.cursor is not None:
            told["ack"] = place.cursor  # a gateway names it by itself
            more |= {"ack": place.cursor} if names else {}
        page = self._ask(door, place, more, told)
        if page is None:
            return None
        if not noted.get("lost"):
            place.cursor = page["cursor"]
        return int(page["remaining"])

    def _begin(self, place: Place, door: Calling) -> bool:
        """Learn what to acknowledge before there was a page: otherwise the peer concludes what was read."""
        page = self._ask(door, place, {"advance": False, "limit": 1}, {"looks": True})
        if page is not None:
            place.cursor = page["cursor"]
        return page is not None

    def _look(self, place: Place) -> None:
        self._ask(self.post.door, place, {"advance": False}, {"looks": True})

    def _skip(self, place: Place) -> None:
        """Give up what arrived before now; the page in doubt with it."""
        ack = {} if place.cursor is None or not self.post.by_http else {"ack": place.cursor}
        page = self._ask(self.post.door, place, {"skip_before": "0s", **ack}, {"skips": True, **ack})
        if page is not None:
            place.cursor = page["cursor"]

    def _ask(
        self, door: Calling, place: Place, more: Mapping[str, Any], noted: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        session = {} if place.session is None else {"session_id": place.session}
        of = {"reader": place.reader, "acks": self.post.profile.acks, **noted}
        if not self.post.by_http:
            of["gateway"] = True
        peer = self.post.peer
        page = door.call(peer, "drain", "drain_inbox", {**session, **more}, of, _told_of_page)
        if page is not None:
            place.unknown_at.clear()
            return page
        if door.code == "not_found":
            place.unknown_at.add(peer)
        if door is self.post.door:
            self.post.move()
        return None


def key_of(text: str) -> str:
    """Return the idempotency key that a text names."""
    return text.partition("]")[0].removeprefix("[")


def _told_of_page(page: Mapping[str, Any]) -> Mapping[str, Any]:
    entries = [
        [d["diff_id"], d.get("node_id", ""), key_of(d.get("content", "")), d["project"], d["kind"]]
        for d in page["diffs"]
    ]
    told = {"cursor": page["cursor"], "remaining": page["remaining"], "entries": entries}
    skipped = {"skipped": page["skipped"]} if "skipped" in page else {}
    return {**told, **skipped, **({"may_repeat": True} if page.get("may_repeat") else {})}
