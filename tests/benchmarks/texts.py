"""Texts of the size of real memories, as many as wanted: the demo's corpus with varied facts."""

from __future__ import annotations

import json
import random
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "deploy" / "demo" / "memories.jsonl"

QUESTIONS = (
    "how often do we retry a payment?",
    "which migrations lock the bookings table",
    "offline sync conflicts on the phone",
    "what did we decide about time zones and tide tables",
    "why is the ledger export immutable",
    "error code for a declined card",
    "terraform state locking",
    "who may read the audit log",
    "retention of notification logs",
    "how do we rotate the signing keys",
)


def memories(count: int, seed: int = 0) -> list[str]:
    """Return distinct texts: a sentence or two of the corpus with a number and a place of its own."""
    rng = random.Random(seed)
    with CORPUS.open(encoding="utf-8") as lines:
        base = [json.loads(line)["content"] for line in lines]
    out = []
    for n in range(count):
        first, second = rng.choice(base), rng.choice(base)
        text = f"{first.split('. ')[0]}. Harbour {n}: {second.split('. ')[-1]}"
        out.append(text[:600])
    return out
