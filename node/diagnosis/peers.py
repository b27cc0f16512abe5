"""The running peers and the mesh around them: do they answer, are they well, do they hear each other.

Judges what `peer_look` brought; speaks to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from node.diagnosis.findings import Finding, problem, warning, well
from node.diagnosis.peer_look import SeenPeer
from node.diagnosis.surroundings import Surroundings
from node.version import version

BEHIND_EVENTS = 1_000  # fewer are what a busy mesh has on its way at any moment


def peers(s: Surroundings) -> Sequence[Finding]:
    """Look whether the running peers answer and what they complain of."""
    if not s.seen:
        return [well("No peer runs here; `hyphae up`, or the first call of a client, starts one.")]
    found = [f for peer in s.seen for f in judge_peer(peer, s.command("hyphae down"), version())]
    told = [f for f in found if f.verdict != "ok"]
    return told or found


def judge_peer(peer: SeenPeer, stop: str, ours: str) -> Iterator[Finding]:
    """Yield what is to be said of one peer.

    Args:
        peer: what it answered.
        stop: the command that stops it.
        ours: the version of this program.
    """
    if peer.status is None:
        mend = f"{stop}; then `hyphae up`" if peer.run is not None else "Check HYPHAE_URL and the key."
        yield problem(f"{peer.name} does not answer: {peer.trouble}", mend)
    elif peer.status["problems"] or peer.status["state"] != "ok":
        for text in peer.status["problems"] or ["it is degraded"]:
            yield problem(f"{peer.name}: {text}.", "hyphae status shows more.")
    if peer.silent_http is not None and peer.status is not None:
        yield problem(f"{peer.name}: {peer.silent_http}.", f"{stop}; then `hyphae up`")
    if peer.status is not None and peer.status["version"] != ours:
        yield warning(
            f"{peer.name} runs version {peer.status['version']}, this command is {ours}.",
            f"{stop}; then `hyphae up`" if peer.run is not None else "Upgrade the older one.",
        )
    if peer.status is not None and peer.silent_http is None:
        yield well(f"{peer.name} answers: {peer.status['cells']:,} memories.")


def mesh(s: Surroundings) -> Sequence[Finding]:
    """Look whether NATS is up and every member is heard, has been caught up with, and has the same time."""
    answered = next((peer for peer in s.seen if peer.status is not None), None)
    if answered is None:
        return [well("No peer answers, so nothing is known of the mesh.")]
    found = [*judge_mesh(answered)]
    told = [f for f in found if f.verdict != "ok"]
    return told or found


def judge_mesh(peer: SeenPeer) -> Iterator[Finding]:
    """Yield what is to be said of the mesh as one peer sees it; its `status` is there."""
    status = peer.status or {}
    if status["nats"] == "down":
        yield warning(
            f"{peer.name} does not reach NATS; it goes on storing and recalling alone.",
            "Start NATS again: `hyphae up`, or the server of HYPHAE_NATS_URL.",
        )
    members = [m for m in peer.members if "retired_at" not in m]
    silent = [m for m in members if m["state"] == "silent"]
    if silent and status["nats"] == "up":
        names = ", ".join(f"{m['name']} ({_heard(m.get('heard_ms_ago'))})" for m in silent)
        yield warning(
            f"{len(silent)} of {len(members)} members are silent: {names}.",
            "Start them, or leave them: what they miss they get when they are back.",
        )
    concern = status.get("write_concern", 1)  # absent in older peers
    if concern > status["peers_up"]:
        yield warning(
            f"Stores should be on {concern} peers and {status['peers_up']} can be reached: what is stored now is on "
            "fewer until more are back, and its answers say so.",
            "Start the peers that are away, or set HYPHAE_WRITE_CONCERN.",
        )
    for member in members:
        behind = member.get("missing_events", 0)
        if behind > BEHIND_EVENTS:
            yield warning(
                f"{peer.name} still lacks {behind:,} events of {member['name']}.", "Wait; look again."
            )
        off = member.get("clock_off_ms", 0)
        if off:
            yield warning(
                f"The clock of {member['name']} is {abs(off) / 1000:.1f} s "
                f"{'ahead of' if off > 0 else 'behind'} that of {peer.name}.",
                "Set both clocks by NTP.",
            )
    yield from _lost(peer)
    alone = "one peer alone" if len(members) <= 1 else f"{status['peers_up']} of {len(members)} peers up"
    yield well(f"NATS is {status['nats']}; {alone}.")


def _lost(peer: SeenPeer) -> Iterator[Finding]:
    """Yield what members wrote and nobody who is heard holds any more."""
    for member in peer.members:
        tails = [
            f"{tail['from']} to {tail['to']} of {tail['stream'].split('.', 1)[1]}"
            for tail in member.get("lost_tails", [])
        ]
        if tails:
            yield warning(
                f"Nobody who is heard holds events {', '.join(tails)} of {member['name']}.",
                "Start it with its old data directory if there still is one; else they are lost.",
            )


def _heard(ms: int | None) -> str:
    return "never heard" if ms is None else f"heard {ms / 1000:,.0f} s ago"
