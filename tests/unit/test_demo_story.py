"""The parts of the demo that need no mesh: the forecast, the exactness check, the telling, the interrupts.

The story itself is played by `make demo`.
"""

import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo import processes
from deploy.demo.checking import StoryFailed, claim, until
from deploy.demo.corpus import MEMORIES, NIGHT_SHIFT, Memory, read
from deploy.demo.delivery import check_exact
from deploy.demo.forecast import Agreement, Forecast, agreement, predict
from deploy.demo.interrupts import SIGNALS, Interrupts
from deploy.demo.mesh_under_test import environment
from deploy.demo.night_shift import NightShift
from deploy.demo.stage import LABEL, READER, WRITER
from deploy.demo.telling import Telling, format_ms, shorten, summary_line, wants_colour
from proto.scoring import Quantised, quantise


def memory(content: str, agent: str = "writer", about: frozenset[str] = frozenset()) -> Memory:
    return Memory(agent, "billing", "Decision", 0.5, ("payments",), content, about)


def at_cosine(cosine: float) -> Quantised:
    """Return a vector at about this cosine to (1, 0)."""
    return quantise(np.array([cosine, (1 - cosine**2) ** 0.5], dtype=np.float32))


AHEAD = at_cosine(1.0)
NEAR, FAR, OWN = memory("near"), memory("far"), memory("own", agent="reader")
SCORED = [NEAR, FAR, OWN]


@pytest.fixture
def forecast() -> Forecast:
    return predict("reader", 3_000, SCORED, AHEAD, [at_cosine(0.9), at_cosine(0.1), at_cosine(0.9)])


# -- the forecast


def test_what_reaches_the_threshold_is_due_and_the_readers_own_is_not(forecast: Forecast) -> None:
    assert forecast.due(SCORED) == {"near"}


def test_a_score_at_the_threshold_is_due_and_one_below_is_not() -> None:
    vectors = [at_cosine(0.9)]
    score = predict("reader", 0, [NEAR], AHEAD, vectors).scores["near"]
    assert predict("reader", score, [NEAR], AHEAD, vectors).due([NEAR]) == {"near"}
    assert predict("reader", score + 1, [NEAR], AHEAD, vectors).due([NEAR]) == set()


def test_the_forecast_of_some_memories_leaves_out_the_others(forecast: Forecast) -> None:
    assert forecast.due([FAR]) == set()


def test_agreement_counts_what_arrived_what_was_labelled_and_both() -> None:
    memories = [memory(str(i), about=frozenset({"topic"} if i < 4 else {"other"})) for i in range(6)]
    found = agreement({"0", "1", "2", "5"}, memories, "topic")
    assert found == Agreement(arrived=4, labelled=4, both=3)
    assert (found.precision, found.recall) == (0.75, 0.75)


def test_agreement_of_nothing_with_nothing_is_perfect() -> None:
    assert (Agreement(0, 0, 0).precision, Agreement(0, 0, 0).recall) == (1.0, 1.0)


# -- the check that what arrived is exactly what was foreseen


def entry(forecast: Forecast, content: str, **other: Any) -> dict[str, Any]:
    return {
        "diff_id": f"d-{content}",
        "kind": "created",
        "node_id": f"n-{content}",
        "content": content,
        "source_agent": "writer",
        "project": "billing",
        "cell_type": "Decision",
        "matched": [{"interest": "x", "similarity": forecast.scores[content] / 10_000}],
        **other,
    }


IDS = {content: f"n-{content}" for content in ("near", "far", "own")}


def test_exactly_the_foreseen_entries_pass(forecast: Forecast) -> None:
    check_exact(forecast, SCORED, [entry(forecast, "near")], IDS)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"node_id": "n-far"}, "node_id"),
        ({"source_agent": "somebody"}, "source_agent"),
        ({"project": "web"}, "project"),
        ({"cell_type": "Lesson"}, "cell_type"),
        ({"kind": "superseded"}, "kind"),
        ({"matched": [{"interest": "x", "similarity": 0.31}]}, "score"),
        ({"matched": []}, "score"),
    ],
)
def test_an_entry_that_says_something_else_is_found_out(
    forecast: Forecast, change: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(StoryFailed, match=complaint):
        check_exact(forecast, SCORED, [entry(forecast, "near", **change)], IDS)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ([], "did not arrive"),
        (["near", "far"], "ought not"),
        (["near", "own"], "ought not"),
        (["near", "near"], "2 entries arrived for 1"),
    ],
)
def test_a_missing_a_strange_and_a_second_entry_are_found_out(
    forecast: Forecast, contents: list[str], complaint: str
) -> None:
    with pytest.raises(StoryFailed, match=complaint):
        check_exact(forecast, SCORED, [entry(forecast, content) for content in contents], IDS)


# -- the memories


def test_the_reader_wrote_none_of_the_memories_that_carry_the_label() -> None:
    assert READER not in {m.agent for m in read(MEMORIES) if LABEL in m.about}


def test_the_memories_of_the_night_are_by_other_agents_and_all_different() -> None:
    known, night = read(MEMORIES), read(NIGHT_SHIFT)
    authors = Counter(m.agent for m in night)
    assert set(authors) == {m.agent for m in known} - {READER}
    assert authors[WRITER] >= 5
    assert len(night) >= 40
    assert len({m.content for m in [*known, *night]}) == len(known) + len(night)


def test_labels_are_never_stored() -> None:
    labelled = next(m for m in read(MEMORIES) if m.about)
    assert set(labelled.arguments()) == {"content", "cell_type", "project", "salience", "tags"}


def test_each_memory_of_the_night_has_an_idempotency_key_of_its_own() -> None:
    keys = {NightShift.idempotency_key(number) for number in range(len(read(NIGHT_SHIFT)))}
    assert len(keys) == len(read(NIGHT_SHIFT))


# -- the telling


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.04, "0.0 ms"), (3.14, "3.1 ms"), (37.4, "37 ms"), (2310.0, "2,310 ms"), (61_000, "61,000 ms")],
)
def test_a_duration_is_told_in_milliseconds(ms: float, text: str) -> None:
    assert format_ms(ms) == text


def tell(colour: bool = False, width: int = 80) -> str:
    out = io.StringIO()
    telling = Telling(out, colour=colour, width=width)
    telling.title("A title", "An introduction that is long enough to need a second line. " * 2)
    telling.step("The first step")
    telling.say("A sentence with a time", 12.5)
    telling.say("word " * 14 + "end", 12_345.0)
    telling.quote("What somebody stored, told whole. " * 5, "an agent")
    telling.item("*", "an entry that is far too long for one line " * 4, "0.67 an-agent")
    telling.table([("a", "1"), ("longer", "2")])
    telling.step("The second step")
    telling.ending("It was true.", well=True)
    return out.getvalue()


def test_no_line_of_the_story_is_wider_than_the_terminal_or_ends_in_blanks() -> None:
    for width in (60, 80, 100):
        for line in tell(width=width).splitlines():
            assert len(line) <= width
            assert line == line.rstrip()


def test_timings_end_at_the_right_margin() -> None:
    timed = [line for line in tell().splitlines() if line.endswith(" ms")]
    assert len(timed) == 2
    assert {len(line) for line in timed} == {80}


def test_steps_are_numbered_and_quotes_are_whole() -> None:
    told = tell()
    assert "\n1  The first step\n" in told
    assert "\n2  The second step\n" in told
    quoted = " ".join(line.strip().removeprefix("| ") for line in told.splitlines() if "  | " in line)
    assert quoted.count("What somebody stored, told whole.") == 5


def test_escape_sequences_are_written_only_when_colours_are_wanted() -> None:
    assert "\x1b" not in tell()
    assert "\x1b[1m" in tell(colour=True)
    assert tell(colour=True).count("\x1b[0m") * 2 == tell(colour=True).count("\x1b[")


def test_colours_are_for_terminals_that_want_them() -> None:
    assert wants_colour(True, {"TERM": "xterm"})
    assert not wants_colour(False, {"TERM": "xterm"})
    assert not wants_colour(True, {"TERM": "dumb"})
    assert not wants_colour(True, {"TERM": "xterm", "NO_COLOR": "1"})


def test_a_teller_without_a_stream_tells_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    telling = Telling(None)
    telling.title("a", "b")
    telling.say("c", 1.0)
    assert capsys.readouterr() == ("", "")


def test_a_text_is_shortened_between_words() -> None:
    assert shorten("one two three four", 13) == "one two ..."


def test_the_summary_is_one_line_that_programs_can_read() -> None:
    line = summary_line({"ok": True, "note": "two\nlines", "ready_ms": 1.5})
    assert "\n" not in line
    assert json.loads(line) == {"ok": True, "note": "two\nlines", "ready_ms": 1.5}


# -- claims, interrupts, processes


def test_a_claim_that_does_not_hold_ends_the_story() -> None:
    claim(True, "fine")
    with pytest.raises(StoryFailed, match="the moon is no cheese"):
        claim(False, "the moon is no cheese")


def test_waiting_returns_what_is_seen_in_the_end_or_says_what_was_missing() -> None:
    seen: Iterator[int | None] = iter([None, None, 7])
    assert until(lambda: next(seen), 5.0, lambda: "nothing came.") == 7
    with pytest.raises(StoryFailed, match="nothing came"):
        until(lambda: None, 0.0, lambda: "nothing came.")


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    made = Interrupts()
    made.listen()
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_interrupts(interrupts: Interrupts, number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_an_interrupt_waits_for_the_end_of_what_holds_it(interrupts: Interrupts) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.held():
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == ["all of it"]


def test_a_second_interrupt_does_not_stop_the_cleaning_up(interrupts: Interrupts) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)


def test_nothing_is_interrupted_after_the_end(interrupts: Interrupts) -> None:
    interrupts.end()
    signal.raise_signal(signal.SIGINT)


def test_a_process_is_found_by_its_command_line_until_it_has_ended() -> None:
    mark = f"demo-story-test-{os.getpid()}"
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", mark], stdin=subprocess.PIPE
    )
    try:
        until(lambda: processes.naming(mark).get(child.pid), 10.0, lambda: "the child was not found.")
        assert processes.is_running(child.pid)
    finally:
        child.communicate()
    assert processes.naming(mark) == {}
    assert not processes.is_running(child.pid)


def test_a_process_that_waits_to_be_collected_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        until(lambda: not processes.is_running(child.pid) or None, 10.0, lambda: "it does not end.")
    finally:
        child.wait()


def test_no_setting_of_the_user_reaches_the_mesh() -> None:
    environ = {"PATH": "/bin", "HYPHAE_API_KEY": "k", "HYPHAE_PEERS": "9", "HYPHAE_NATS_SERVER": "/opt/nats"}
    assert environment(Path("/demo"), environ) == {
        "PATH": "/bin",
        "HYPHAE_NATS_SERVER": "/opt/nats",
        "HYPHAE_CONFIG_DIR": "/demo/config",
    }
