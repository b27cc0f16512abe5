"""The memories that the story stores, as plain values read from two files beside this module.

`memories.jsonl` is described in README.md; `night_shift.jsonl` has the same fields without labels and is
what the agents write while a peer dies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MEMORIES = HERE / "memories.jsonl"
NIGHT_SHIFT = HERE / "night_shift.jsonl"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory and who stores it.

    Args:
        about: labels set by its author by hand; never stored.
    """

    agent: str
    project: str
    cell_type: str
    salience: float
    tags: tuple[str, ...]
    content: str
    about: frozenset[str] = frozenset()

    def arguments(self) -> dict[str, Any]:
        """Return it as the arguments of the tool `store`."""
        return {
            "content": self.content,
            "cell_type": self.cell_type,
            "project": self.project,
            "salience": self.salience,
            "tags": list(self.tags),
        }


def read(path: Path) -> list[Memory]:
    """Return the memories of a file, in its order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_memory(json.loads(line)) for line in lines if line]


def _memory(fields: dict[str, Any]) -> Memory:
    return Memory(
        fields["agent"],
        fields["project"],
        fields["cell_type"],
        fields["salience"],
        tuple(fields["tags"]),
        fields["content"],
        frozenset(fields.get("about", ())),
    )
