"""Plants in what agents see: stores and their answers, inboxes, cursors, walls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import structlog

from tests.chaos.breaking import replace_in

HELD_S: Final = 0.5  # how long a commit is put off


def acknowledges_before_commit() -> None:
    """What is answered is committed up to half a second later."""
    from node.writer import Writer

    began: dict[int, float] = {}

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def commit(self: Any, batch: Any) -> None:
            db = self.replica.db
            if not db.in_transaction:
                db.execute("BEGIN IMMEDIATE")
                began[id(db)] = time.monotonic()
            usual(self, batch)
            if db.in_transaction and time.monotonic() - began[id(db)] > HELD_S:
                db.execute("COMMIT")

        return commit

    replace_in(Writer, "_commit", wrap)


def claims_one_more() -> None:
    from node.service.write_concern import WriteConcern

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        async def least(*arguments: Any) -> int:
            return int(await usual(*arguments)) + 1

        return least

    replace_in(WriteConcern, "_least", wrap)


def hides_what_was_wanted() -> None:
    from node.service.write_concern import WriteConcern

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        async def shortfall(*arguments: Any) -> Any:
            said = await usual(*arguments)
            said.pop("wanted", None)
            return said

        return shortfall

    replace_in(WriteConcern, "shortfall", wrap)


def forgets_idempotency_keys() -> None:
    from node.service import store

    replace_in(store, "cell_id", lambda _usual: lambda *_arguments: os.urandom(16))


def serves_late_requests() -> None:
    from node.service.core import MemoryService

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def serve(self: Any, request: Any) -> Any:
            return usual(self, replace(request, deadline_ms=request.deadline_ms + 60_000))

        return serve

    replace_in(MemoryService, "request", wrap)


def does_not_wait_for_own_stores() -> None:
    from node.service import recall

    async def are_here(*_arguments: Any) -> bool:
        return True

    replace_in(recall, "are_here", lambda _usual: are_here)


def searches_for_something_else() -> None:
    from node.retrieval import Retrieval

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def search(self: Any, tenant: Any, text: str, wanted: Any, k: int, mode: str, show: Any) -> Any:
            return usual(self, tenant, "zebra" if mode == "vector" else text, wanted, k, mode, show)

        return search

    replace_in(Retrieval, "search", wrap)


def skips_matches() -> None:
    """One memory in seven is matched with no beacon, anywhere."""
    from node.inbox_projection import InboxProjection

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def add_cell(self: Any, judged: Any, arrived_us: int) -> None:
            if judged.diff.cell[0] % 7:
                usual(self, judged, arrived_us)

        return add_cell

    replace_in(InboxProjection, "add_cell", wrap)


def has_one_cursor_for_sessions() -> None:
    from node.service.inbox import InboxOperations

    replace_in(InboxOperations, "_drain", lambda usual: lambda self, call, _session: usual(self, call, None))


def commits_what_it_lists() -> None:
    from node.service import inbox

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def listing(*arguments: Any) -> Any:
            return [
                event.model_copy(update={"commits": (*event.commits, event.page)})
                for event in usual(*arguments)
            ]

        return listing

    replace_in(inbox, "listing", wrap)


def commits_nothing() -> None:
    from node.readers import ReaderMemory

    replace_in(ReaderMemory, "commits", lambda _usual: lambda *_arguments, **_named: frozenset())


def never_marks() -> None:
    from node.draining import DrainPlan

    replace_in(DrainPlan, "may_repeat", lambda _usual: lambda *_arguments: False)


def lists_twice() -> None:
    from node.service import inbox

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def describe(*arguments: Any, **named: Any) -> Any:
            found = usual(*arguments, **named)
            return found + found[:1]

        return describe

    replace_in(inbox, "describe", wrap)


def lists_newest_first() -> None:
    from node import draining

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def waiting(*arguments: Any, **named: Any) -> Any:
            entries, total = usual(*arguments, **named)
            return entries[::-1], total

        return waiting

    replace_in(draining, "waiting", wrap)


def filters_nothing() -> None:
    from node.matching import Filters

    replace_in(Filters, "admit", lambda _usual: lambda _self, _diff: True)


def makes_another_beacon() -> None:
    from node.service import beacons

    replace_in(beacons, "_beacon_id", lambda _usual: lambda *_arguments: os.urandom(16))


def has_no_walls() -> None:
    """An id is enough to read any memory."""
    from node import database
    from node.service import observing, recall
    from proto.ids import parse_uuid

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def visible_cell(db: Any, principal: Any, text: str, field: str) -> Any:
            found = database.row(db, "SELECT cell, cell_no FROM cells WHERE cell=?", parse_uuid(text, field))
            return found or usual(db, principal, text, field)

        return visible_cell

    for module in (observing, recall):
        replace_in(module, "visible_cell", wrap)


def logs_contents() -> None:
    from node.service import store

    def wrap(usual: Callable[..., Any]) -> Callable[..., Any]:
        def payload(checked: Any, *more: Any) -> Any:
            structlog.get_logger("plant").warning("stored", text=checked.fields["content"])
            return usual(checked, *more)

        return payload

    replace_in(store, "_payload", wrap)
