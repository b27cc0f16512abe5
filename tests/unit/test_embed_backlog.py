"""What the embedding thread does next, as plain data."""

from __future__ import annotations

import pytest

from node.embed_backlog import (
    PADDING_MAX,
    SLICE_TEXTS,
    WAITING_CHARS,
    WAITING_TEXTS,
    Backlog,
    Item,
    Job,
    ModelCall,
    Slice,
    Urgency,
)
from proto.errors import Overloaded


def tokenise(backlog: Backlog, step: Slice) -> None:
    """Make one token of each character."""
    texts = step.job.texts[step.start : step.stop]
    items = [Item(step.job, step.start + n, tuple(range(len(t))), len(t), False) for n, t in enumerate(texts)]
    backlog.tokenised(step.job, items)


def calls(backlog: Backlog) -> list[ModelCall]:
    """Do everything that waits and return the model calls in order."""
    done = []
    while (step := backlog.next()) is not None:
        if isinstance(step, Slice):
            tokenise(backlog, step)
        else:
            done.append(step)
    return done


def lengths(call: ModelCall) -> list[int]:
    return [len(item.ids) for item in call.items]


def test_a_query_goes_before_a_store_and_that_before_bulk() -> None:
    backlog = Backlog()
    for text, urgency in (("b", Urgency.BULK), ("s", Urgency.STORE), ("q", Urgency.QUERY)):
        backlog.add(Job([text], urgency))
    assert [c.items[0].job.texts for c in calls(backlog)] == [["q"], ["s"], ["b"]]


def test_a_query_waits_for_at_most_one_step_of_a_bulk() -> None:
    backlog = Backlog(call_tokens=40)
    backlog.add(Job(["x" * 20] * 100, Urgency.BULK))
    bulk_steps = 0
    while isinstance(step := backlog.next(), Slice):
        assert step.stop - step.start <= SLICE_TEXTS
        tokenise(backlog, step)
        bulk_steps += 1
    assert lengths(step) == [20, 20] if step else False
    query = Job(["question"], Urgency.QUERY)
    backlog.add(query)
    step = backlog.next()
    assert isinstance(step, Slice)
    assert step.job is query
    tokenise(backlog, step)
    step = backlog.next()
    assert isinstance(step, ModelCall)
    assert [item.job for item in step.items] == [query]
    assert bulk_steps == 7


def test_bulk_is_called_in_order_of_length_within_the_bound_of_a_call() -> None:
    backlog = Backlog(call_tokens=64)
    backlog.add(Job(["x" * n for n in (30, 5, 31, 6, 5, 64, 200)], Urgency.BULK))
    assert [lengths(c) for c in calls(backlog)] == [[5, 5, 6], [30, 31], [64], [200]]


def test_texts_of_very_different_length_do_not_share_a_call() -> None:
    backlog = Backlog(call_tokens=1_000)
    for n in (10, 100, 11):
        backlog.add(Job(["x" * n], Urgency.STORE))
    for call in calls(backlog):
        assert max(lengths(call)) * len(call.items) <= PADDING_MAX * sum(lengths(call))


def test_queries_that_wait_together_share_a_call() -> None:
    backlog = Backlog()
    for n in (9, 10, 9):
        backlog.add(Job(["x" * n], Urgency.QUERY))
    assert [lengths(c) for c in calls(backlog)] == [[9, 10, 9]]


def test_a_cancelled_job_is_passed_over_and_its_room_given_back() -> None:
    backlog = Backlog()
    gone, kept = Job(["x"] * 3, Urgency.BULK), Job(["y"], Urgency.BULK)
    for job in (gone, kept):
        backlog.add(job)
    assert gone.future.cancel()
    backlog.release(gone)
    assert [[i.job for i in c.items] for c in calls(backlog)] == [[kept]]
    assert backlog.waiting(Urgency.BULK) == 1


def test_a_job_cancelled_after_it_was_tokenised_is_passed_over() -> None:
    backlog = Backlog()
    jobs = [Job([text], Urgency.STORE) for text in ("aa", "bb", "cc")]
    for job in jobs:
        backlog.add(job)
    for _ in jobs:
        step = backlog.next()
        assert isinstance(step, Slice)
        tokenise(backlog, step)
    jobs[0].future.cancel()
    jobs[2].future.cancel()
    assert [[i.job for i in c.items] for c in calls(backlog)] == [[jobs[1]]]


@pytest.mark.parametrize("urgency", list(Urgency))
def test_texts_are_taken_up_to_the_bound_and_refused_one_beyond(urgency: Urgency) -> None:
    backlog = Backlog()
    backlog.add(Job(["x"] * (WAITING_TEXTS[urgency] - 1), urgency))
    backlog.add(Job(["x"], urgency))
    with pytest.raises(Overloaded, match=str(WAITING_TEXTS[urgency])):
        backlog.add(Job(["x"], urgency))
    assert backlog.waiting(urgency) == WAITING_TEXTS[urgency]


def test_characters_are_taken_up_to_the_bound_and_refused_one_beyond() -> None:
    backlog = Backlog()
    full = Job(["x" * WAITING_CHARS], Urgency.BULK)
    backlog.add(full)
    with pytest.raises(Overloaded, match=str(WAITING_CHARS)):
        backlog.add(Job(["x"], Urgency.QUERY))
    full.future.cancel()
    backlog.release(full)
    backlog.add(Job(["x"], Urgency.QUERY))


def test_draining_returns_each_job_that_waits_once() -> None:
    backlog = Backlog()
    jobs = [Job(["x", "y"], Urgency.BULK), Job(["q"], Urgency.QUERY), Job(["z"], Urgency.BULK)]
    for job in jobs:
        backlog.add(job)
    step = backlog.next()
    assert isinstance(step, Slice)
    tokenise(backlog, step)
    jobs[2].future.cancel()
    assert {id(job) for job in backlog.drain()} == {id(jobs[0]), id(jobs[1])}
    assert backlog.next() is None


def test_a_storm_of_queries_delays_stores_and_bulk_and_never_starves_them() -> None:
    backlog = Backlog(call_tokens=8)
    for urgency in (Urgency.STORE, Urgency.BULK):
        for _ in range(4):
            backlog.add(Job(["x" * 8], urgency))
    turns: list[Urgency] = []
    while len(turns) < 24:
        while backlog.waiting(Urgency.QUERY) < 4:
            job = Job(["q" * 8], Urgency.QUERY)
            backlog.add(job)
            job.future.add_done_callback(lambda _done, job=job: backlog.release(job))  # type: ignore[misc]
        step = backlog.next()
        if isinstance(step, Slice):
            tokenise(backlog, step)
        elif step is not None:
            turns.append(step.items[0].job.urgency)
            step.items[0].job.future.set_result([])
    assert turns.count(Urgency.STORE) == 4
    assert turns.count(Urgency.BULK) == 4
    assert turns[:2] == [Urgency.QUERY] * 2
