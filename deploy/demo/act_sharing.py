"""The first act: a mesh comes up, agents attach to it, one says what it cares about, others store, it hears.

Ends with the check that matters most: what waits in the inbox is exactly what was foreseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from deploy.demo.agents import HttpAgent, McpAgent, StdioAgent
from deploy.demo.checking import claim
from deploy.demo.corpus import Memory
from deploy.demo.delivery import check_exact, similarity, until_in_inbox, waiting_entries
from deploy.demo.forecast import Forecast, agreement, foresee
from deploy.demo.mesh_under_test import hyphae_program
from deploy.demo.stage import (
    ASKER,
    INTEREST,
    LABEL,
    LATE_MEMORY,
    PEERS,
    READER,
    THRESHOLD,
    WRITER,
    Cast,
    Clock,
    Stage,
    wait_for_cells,
)

ARRIVAL_S = 20.0
STORED_BY_TOOL = 5
TOOLS = 11


def look_ahead(stage: Stage) -> Forecast:
    """Score all memories against the interest before anything runs."""
    stage.telling.step("Before anything runs: what ought to happen")
    clock = Clock()
    forecast = foresee(READER, INTEREST, THRESHOLD, [*stage.memories, *stage.night, LATE_MEMORY])
    stage.figures["forecast_ms"] = clock.ms()
    stage.telling.say(
        f'All memories are scored here, pair by pair, against the interest "{INTEREST}". '
        f"{len(forecast.due(stage.memories))} of {len(stage.memories)} reach {THRESHOLD / 10_000:.2f} and are "
        f"not by {READER} itself: these and no others must arrive in its inbox.",
        clock.ms(),
    )
    return forecast


def mesh_comes_up(stage: Stage) -> None:
    """Start three peers and a nats-server."""
    stage.telling.step(f"A mesh comes up: hyphae up --peers {PEERS}")
    clock = Clock()
    with stage.interrupts.held():
        stage.mesh.launch(PEERS)
    stage.mesh.wait_ready()
    stage.figures["ready_ms"] = clock.ms()
    urls = [stage.mesh.url(number) for number in range(1, PEERS + 1)]
    claim(len(set(urls)) == PEERS, f"{PEERS} peers with addresses of their own were expected, not {urls}.")
    stage.telling.table(
        [
            *((f"peer-{number}", f"{url}/mcp") for number, url in enumerate(urls, start=1)),
            ("NATS", stage.mesh.nats_address()),
        ]
    )
    stage.telling.say("Each peer is a process of its own, and so is nats-server.", clock.ms())


def agents_attach(stage: Stage, forecast: Forecast) -> Cast:
    """Issue a key to each agent and attach three of them to three peers."""
    stage.telling.step("Six agents get a key, three of them attach")
    clock = Clock()
    names = sorted({memory.agent for memory in stage.memories})
    key_file = stage.mesh.root / f"{READER}.key"
    stage.mesh.hyphae("key", "issue", "--agent", READER, "--out", str(key_file))
    stage.keys[READER] = key_file.read_text().strip()
    operator = stage.rest(1)
    for name in names:
        if name != READER:
            stage.keys[name] = str(operator.post("/v1/keys", {"agent": name})["key"])
    operator.close()
    stage.telling.say(
        f"{', '.join(names)}: one key each, issued on peer-1 (hyphae key issue, POST /v1/keys).", clock.ms()
    )
    with stage.interrupts.held():
        reader = StdioAgent(
            READER,
            [hyphae_program(), "mcp", "serve"],
            {
                **stage.mesh.environment,
                "HYPHAE_URL": stage.mesh.url(1),
                "HYPHAE_API_KEY_FILE": str(key_file),
            },
            stage.mesh.root / "stdio.stderr",
        )
        stage.agents.append(reader)
    writer = HttpAgent(WRITER, stage.mesh.url(2), stage.keys[WRITER])
    asker = HttpAgent(ASKER, stage.mesh.url(3), stage.keys[ASKER])
    stage.agents += [writer, asker]
    _shake_hands(stage, reader, "attaches to peer-1 over stdio, through hyphae mcp serve")
    _shake_hands(stage, writer, "attaches to peer-2 over HTTP")
    _shake_hands(stage, asker, "attaches to peer-3 over HTTP")
    return Cast(reader, writer, asker, forecast)


def _shake_hands(stage: Stage, agent: McpAgent, how: str) -> None:
    clock = Clock()
    agent.initialize()
    took_ms = clock.ms()
    tools = agent.tools()
    claim(len(tools) == TOOLS, f"{agent.name} sees {len(tools)} tools, not {TOOLS}: {', '.join(tools)}.")
    stage.telling.say(f"{agent.name} {how} and sees {TOOLS} tools.", took_ms)


def interest_is_placed(stage: Stage, cast: Cast) -> None:
    """The reader places its beacon on peer-1."""
    stage.telling.step(f"{READER} says what it cares about, on peer-1")
    placed = cast.reader.call("place_beacon", interest=INTEREST)
    beacon = placed.result
    claim(
        round(beacon["threshold"] * 10_000) == THRESHOLD,
        f"the default threshold is {beacon['threshold']}, not {THRESHOLD / 10_000:.2f}.",
    )
    claim(beacon["would_match"]["count"] == 0, "the beacon matched memories before any was stored.")
    stage.telling.say(
        f'place_beacon "{INTEREST}": threshold {THRESHOLD / 10_000:.2f}, which is the default. '
        "Nothing is stored yet, so nothing matches.",
        placed.took_ms,
    )


def memories_are_stored(stage: Stage, cast: Cast) -> None:
    """All agents store their memories on peer-2: a few through the tool, the rest in bulk."""
    stage.telling.step(f"Six agents store {len(stage.memories)} memories, all on peer-2")
    due = cast.forecast.due(stage.memories)
    own = sorted((m for m in stage.memories if m.agent == WRITER), key=lambda m: m.content not in due)
    by_tool = own[:STORED_BY_TOOL]
    took = []
    for memory in by_tool:
        answer = cast.writer.call("store", **memory.arguments())
        took.append(answer.took_ms)
        stage.node_ids[memory.content] = str(answer.result["node_id"])
        if len(took) == 1:
            clock = Clock()
            until_in_inbox(cast.reader, memory.content, ARRIVAL_S)
            stage.figures["first_arrival_ms"] = clock.ms()
            _tell_first(stage, memory, answer.took_ms)
    stage.figures["store_ms"] = median(took)
    stage.telling.say(f"{WRITER} stores {len(took) - 1} more with the tool, each", median(took))
    _store_in_bulk(stage, [m for m in stage.memories if m not in by_tool])


def _tell_first(stage: Stage, memory: Memory, took_ms: float) -> None:
    stage.telling.say(f"{WRITER} stores the first with the tool store:", took_ms)
    stage.telling.quote(memory.content)
    stage.telling.say(
        f"Acknowledged on peer-2, it is in {READER}'s inbox on peer-1 after",
        stage.figures["first_arrival_ms"],
    )


def _store_in_bulk(stage: Stage, memories: Sequence[Memory]) -> None:
    clock = Clock()
    for agent in sorted({memory.agent for memory in memories}):
        own = [memory for memory in memories if memory.agent == agent]
        peer = stage.rest(2, agent)
        results = peer.post("/v1/nodes:bulk", {"cells": [m.arguments() for m in own]})["results"]
        peer.close()
        for memory, result in zip(own, results, strict=True):
            claim("node_id" in result, f"a memory of {agent} was refused: {result.get('error')}")
            stage.node_ids[memory.content] = str(result["node_id"])
    stage.figures |= {"bulk_ms": clock.ms(), "bulk_memories": len(memories)}
    stage.telling.say(
        f"The other {len(memories)} come in bulk, one request for each author "
        f"({len(memories) / clock.ms() * 1000:.0f} memories a second).",
        clock.ms(),
    )


def inbox_fills(stage: Stage, cast: Cast) -> None:
    """What waits for the reader on peer-1 is what was foreseen, with its content."""
    stage.telling.step(f"{READER} looks into its inbox on peer-1")
    clock = Clock()
    wait_for_cells(stage, 1, len(stage.memories), ARRIVAL_S)
    stage.telling.say(f"peer-1 holds all {len(stage.memories)} memories too.", clock.ms())
    clock = Clock()
    diffs = waiting_entries(cast.reader)
    took_ms = clock.ms()
    check_exact(cast.forecast, stage.memories, diffs, stage.node_ids)
    found = agreement({d["content"] for d in diffs}, stage.memories, LABEL)
    neighbours = found.arrived - found.both
    stage.figures |= {
        "arrived": found.arrived,
        "labelled": found.labelled,
        "arrived_and_labelled": found.both,
        "precision": round(found.precision, 3),
        "recall": round(found.recall, 3),
    }
    stage.telling.say(f"{found.arrived} entries wait, exactly the foreseen ones, with their text:", took_ms)
    for diff in sorted(diffs, key=similarity, reverse=True):
        mark = "*" if diff["content"] in _labelled(stage.memories) else "-"
        stage.telling.item(mark, diff["content"], f"{similarity(diff):.2f} {diff['source_agent']}")
    stage.telling.say(
        f"{found.both} of the {found.labelled} that their authors had labelled as being about this (*), and "
        f"{neighbours} neighbours (-): precision {found.precision:.2f}, recall {found.recall:.2f}. No text "
        "was written for the score."
    )


def _labelled(memories: Sequence[Memory]) -> set[str]:
    return {memory.content for memory in memories if LABEL in memory.about}
