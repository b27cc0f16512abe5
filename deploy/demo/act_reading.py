"""The second act: another agent finds the memories on a third peer, and a reader moves between peers.

The cursor is the server's: what was read on one peer is read on all.
"""

from __future__ import annotations

from statistics import median

from deploy.demo.agents import HttpAgent
from deploy.demo.checking import claim, until
from deploy.demo.delivery import waiting_entries
from deploy.demo.stage import ASKER, READER, Cast, Clock, Stage, wait_for_cells

ARRIVAL_S = 20.0
FIRST_PAGE = 5
QUESTIONS = (  # and words that the right memory has
    ("why were guests charged twice in March?", "37 guests were charged twice"),
    ("how do we add an index to a big table without blocking writes?", "CREATE INDEX CONCURRENTLY"),
    ("two people edited the same berth while offline, who wins?", "Sync conflicts are merged field by field"),
)


def questions_are_answered(stage: Stage, cast: Cast) -> None:
    """The asker recalls on peer-3 what was stored on peer-2."""
    stage.telling.step(f"{ASKER} asks on peer-3")
    wait_for_cells(stage, 3, len(stage.memories), ARRIVAL_S)
    took = []
    for question, words in QUESTIONS:
        answer = cast.asker.call("recall", query=question, k=3, include_content=True)
        took.append(answer.took_ms)
        results = answer.result["results"]
        claim(bool(results), f'recall found nothing for "{question}".')
        best = results[0]
        claim(
            words in best["content"],
            f'recall answers "{question}" with "{best["content"][:100]}...", which does not hold "{words}".',
        )
        claim(
            best["node_id"] == stage.node_ids.get(best["content"]),
            f"recall names node {best['node_id']} for a memory that was stored as another.",
        )
        stage.telling.say(f"{question}", answer.took_ms)
        stage.telling.quote(best["content"], f"{best['source_agent']}, distance {best['distance']:.2f}")
    stage.figures["recall_ms"] = median(took)


def reader_moves(stage: Stage, cast: Cast) -> set[str]:
    """The reader reads a page on peer-1 and the rest on peer-3; return the ids of all that it read."""
    stage.telling.step(f"{READER} reads five entries on peer-1, then moves to peer-3")
    due = len(cast.forecast.due(stage.memories))
    page = cast.reader.call("drain_inbox", limit=FIRST_PAGE)
    first = {diff["diff_id"] for diff in page.result["diffs"]}
    left = page.result["remaining"]
    claim(
        len(first) == FIRST_PAGE and left == due - FIRST_PAGE,
        f"the first page has {len(first)} entries and leaves {left}, of {due}.",
    )
    stage.telling.say(f"drain_inbox over stdio: {len(first)} entries, {left} remain.", page.took_ms)

    elsewhere = HttpAgent(READER, stage.mesh.url(3), stage.keys[READER])
    stage.agents.append(elsewhere)
    elsewhere.initialize()
    rest = elsewhere.call("drain_inbox", limit=50, ack=page.result["cursor"])
    second = {diff["diff_id"] for diff in rest.result["diffs"]}
    again = first & second
    claim(not again or rest.result.get("may_repeat") is True, f"{len(again)} entries came twice, unmarked.")
    claim(len(first | second) == due, f"{due - len(first | second)} entries were skipped by the move.")
    repeated = f" {len(again)} of them for the second time, marked as such." if again else " None came twice."
    stage.telling.say(
        f"drain_inbox over HTTP, with the first page's cursor as ack: the other {len(second)}.{repeated}",
        rest.took_ms,
    )
    end = elsewhere.call("drain_inbox", ack=rest.result["cursor"])
    claim(
        not end.result["diffs"] and end.result["remaining"] == 0,
        f"{end.result['remaining']} entries remain on peer-3 although all were read.",
    )
    clock = Clock()
    until(
        lambda: not waiting_entries(cast.reader) or None,
        ARRIVAL_S,
        lambda: "the inbox on peer-1 is not empty although all was read on peer-3.",
    )
    stage.telling.say("Nothing was skipped, and peer-1 knows by now that all is read.", clock.ms())
    return first | second
