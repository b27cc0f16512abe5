"""The third act: a peer is killed in the middle of storing, comes back by itself, and nothing is lost.

The writers repeat what was not acknowledged, under the same idempotency keys; afterwards every memory is on
every peer exactly once, the logs verify and agree, and the beacon still delivers.
"""

from __future__ import annotations

from typing import Any

from deploy.demo.checking import claim, until
from deploy.demo.delivery import check_exact, until_in_inbox
from deploy.demo.http_wire import Refused
from deploy.demo.night_shift import NightShift
from deploy.demo.stage import (
    LATE_MEMORY,
    PEERS,
    READER,
    WRITER,
    Cast,
    Clock,
    Stage,
    wait_for_cells,
)

WRITERS = 4
KILL_AFTER = 12
RETURN_S = 60.0
ARRIVAL_S = 30.0
QUESTION = "who may retry a payment?"


def peer_dies(stage: Stage, cast: Cast) -> None:
    """Kill peer-2 while four writers store on it, and wait until all is acknowledged nevertheless."""
    stage.telling.step("peer-2 is killed with -9 in the middle of storing")
    night = stage.night
    shift = NightShift(stage.mesh.url(2), stage.keys, night, RETURN_S)
    shift.begin(WRITERS)
    try:
        shift.wait_for(KILL_AFTER, ARRIVAL_S)
        killed = stage.mesh.kill_peer(2)
        away = Clock()
        at_death = shift.progress()
        stage.telling.say(
            f"{WRITERS} writers store {len(night)} memories of a night shift on peer-2. After "
            f"{len(at_death.acknowledged)} acknowledgements process {killed} is killed, with "
            f"{len(at_death.in_flight)} requests under way."
        )
        claim(len(at_death.acknowledged) < len(night), "all was stored before peer-2 could be killed.")
        _others_go_on(stage, cast)
        _wait_for_return(stage, killed, away)
        done = shift.wait_for(len(night), RETURN_S)
    finally:
        shift.stop()
    claim(done.failures > 0, "no writer noticed that peer-2 was away.")
    ids = done.acknowledged
    claim(len(set(ids.values())) == len(night), f"{len(night)} memories have {len(set(ids.values()))} ids.")
    lost = [n for n, node_id in at_death.acknowledged.items() if ids[n] != node_id]
    claim(not lost, f"{len(lost)} memories changed their id.")
    stage.node_ids.update({night[number].content: node_id for number, node_id in ids.items()})
    stage.figures["attempts_failed"] = done.failures
    stage.telling.say(
        f"The writers repeated what was not acknowledged, under the same idempotency keys: all {len(night)} "
        f"are acknowledged, after {done.failures} failed attempts.",
        away.ms(),
    )
    _repeat_elsewhere(stage, ids)


def _others_go_on(stage: Stage, cast: Cast) -> None:
    answer = cast.reader.call("recall", query=QUESTION, k=1, include_content=True)
    claim(bool(answer.result["results"]), "recall found nothing on peer-1 while peer-2 was away.")
    stage.telling.say(f"Meanwhile peer-1 goes on answering: recall for {READER}.", answer.took_ms)


def _wait_for_return(stage: Stage, killed: int, away: Clock) -> None:
    def returned() -> int | None:
        pid = stage.mesh.peer_pid(2)
        return pid if pid is not None and pid != killed else None

    pid = until(returned, RETURN_S, lambda: "hyphae up has not started peer-2 again.")
    stage.figures["away_ms"] = away.ms()
    stage.mesh.look_at_processes()
    stage.telling.say(f"hyphae up has started peer-2 again, on its port, as process {pid}.", away.ms())


def _repeat_elsewhere(stage: Stage, ids: dict[int, str]) -> None:
    memory = stage.night[0]
    arguments = {**memory.arguments(), "idempotency_key": NightShift.idempotency_key(0)}
    wait_for_cells(stage, 3, len(stage.node_ids), ARRIVAL_S)
    peer = stage.rest(3, memory.agent)
    repeated = str(peer.post("/v1/nodes", arguments)["node_id"])
    peer.close()
    claim(repeated == ids[0], f"a store repeated on peer-3 made memory {repeated} beside {ids[0]}.")
    stage.telling.say(
        "One of these stores is repeated on peer-3, under its key: the answer is the same memory."
    )


def interest_still_holds(stage: Stage, cast: Cast, read_before: set[str]) -> None:
    """After the crash the beacon delivers: what the night brought, and a memory stored just now."""
    stage.telling.step("The beacon still delivers")
    stored = cast.writer.call("store", **LATE_MEMORY.arguments())
    stage.node_ids[LATE_MEMORY.content] = str(stored.result["node_id"])
    clock = Clock()
    until_in_inbox(cast.reader, LATE_MEMORY.content, ARRIVAL_S)
    stage.figures["late_arrival_ms"] = clock.ms()
    stage.telling.say(f"{WRITER} stores on the peer that has just come back:", stored.took_ms)
    stage.telling.quote(LATE_MEMORY.content)
    stage.telling.say(f"It is in {READER}'s inbox on peer-1 after", stage.figures["late_arrival_ms"])
    wait_for_cells(stage, 1, len(stage.node_ids), ARRIVAL_S)
    clock = Clock()
    diffs = _drain(cast)
    check_exact(cast.forecast, [*stage.night, LATE_MEMORY], diffs, stage.node_ids)
    again = read_before & {diff["diff_id"] for diff in diffs}
    claim(not again, f"{len(again)} entries came again that had been read before the crash.")
    stage.telling.say(
        f"drain_inbox on peer-1: {len(diffs)} new entries, exactly the foreseen ones of the night, and none "
        "of the old ones again.",
        clock.ms(),
    )


def _drain(cast: Cast) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = cast.reader.call("drain_inbox", limit=50).result
        found += page["diffs"]
        if not page["diffs"]:
            return found


def nothing_is_lost(stage: Stage) -> None:
    """Every acknowledged memory is on every peer exactly once, and the logs are the same."""
    stage.telling.step("Everything is there, everywhere, once")
    clock = Clock()
    total = len(stage.node_ids)
    for number in range(1, PEERS + 1):
        wait_for_cells(stage, number, total, ARRIVAL_S)
        peer = stage.rest(number)
        for content, node_id in stage.node_ids.items():
            try:
                node = peer.node(node_id)
            except Refused as error:
                claim(False, f"peer-{number} does not have acknowledged memory {node_id}: {error}")
            claim(node["content"] == content, f"peer-{number} has another text for memory {node_id}.")
        cells = int(peer.status()["cells"])
        peer.close()
        claim(cells == total, f"peer-{number} holds {cells} memories; {total} were acknowledged.")
    stage.telling.say(
        f"All {total} acknowledged memories, asked for one by one on each of the {PEERS} peers "
        f"(GET /v1/nodes/...): every one is there with its text, and none beyond them.",
        clock.ms(),
    )
    clock = Clock()
    logs = until(lambda: _same_logs(stage), ARRIVAL_S, lambda: "the logs of the peers do not agree.")
    stage.figures["events"] = logs[0]["events"]
    stage.telling.say(
        f"hyphae log verify: {logs[0]['events']} events in {len(logs[0]['streams'])} streams, every hash as "
        f"written, the same on all {PEERS} peers.",
        clock.ms(),
    )


def _same_logs(stage: Stage) -> list[dict[str, Any]] | None:
    verified = stage.mesh.hyphae("log", "verify")
    claim(verified["ok"] is True, f"a log is damaged: {verified}")
    logs: list[dict[str, Any]] = verified["peers"]
    claim(len(logs) == PEERS, f"hyphae log verify looked at {len(logs)} logs, not {PEERS}.")
    return logs if all(log["streams"] == logs[0]["streams"] for log in logs) else None
