"""What happened in a run, as its clients and its injector saw it: one JSON line each, the input of the checkers.

Every operation is an `invoke` and then one of `ok`, `fail` (it did not happen and will not) and `unknown` (it may
have happened, or happen yet).  Nothing here knows what an operation means.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

INVOKE, OK, FAIL, UNKNOWN = "invoke", "ok", "fail", "unknown"
BEGIN, FAULT, HEAL = "begin", "fault", "heal"  # a fault is noted when it has been done
NOTE = "note"


@dataclass(frozen=True, slots=True)
class Record:
    """One line.

    Args:
        at_s: since the start of the run, monotonic.
        kind: one of the words above.
        op: the same for an invocation and its end; 0 for what is no operation.
        who: an agent, "injector" or "observer".
        what: the operation, the fault, or what is noted.
        where: a peer, or empty.
    """

    at_s: float
    kind: str
    op: int
    who: str
    what: str
    where: str = ""
    value: Mapping[str, Any] = field(default_factory=dict)


class History:
    """Collects records from many threads.

    Args:
        path: written to line by line, so that a run that dies leaves what it saw; None to keep it in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.records: list[Record] = []
        self._lock = threading.Lock()
        self._began_s = time.monotonic()
        self._ops = 0
        self._file = None if path is None else path.open("a", encoding="utf-8", buffering=1)

    def invoke(self, who: str, what: str, where: str, **value: Any) -> int:
        """Note that an operation begins; return its number."""
        with self._lock:
            self._ops += 1
            self._add(INVOKE, self._ops, who, what, where, value)
            return self._ops

    def end(self, kind: str, op: int, who: str, what: str, where: str, **value: Any) -> None:
        """Note how an operation ended."""
        with self._lock:
            self._add(kind, op, who, what, where, value)

    def note(self, kind: str, who: str, what: str, where: str = "", **value: Any) -> None:
        """Note something that is no operation."""
        with self._lock:
            self._add(kind, 0, who, what, where, value)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _add(self, kind: str, op: int, who: str, what: str, where: str, value: Mapping[str, Any]) -> None:
        record = Record(round(time.monotonic() - self._began_s, 4), kind, op, who, what, where, value)
        self.records.append(record)
        if self._file is not None:
            self._file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")


def read_history(path: Path) -> list[Record]:
    """Return the records of a file."""
    with path.open(encoding="utf-8") as lines:
        return [Record(**json.loads(line)) for line in lines]


def pairs(records: Iterable[Record], what: str) -> Iterator[tuple[Record, Record | None]]:
    """Yield each operation of a kind with its end, in the order of invocation; None for one that never ended."""
    records = [r for r in records if r.what == what and r.op]
    ends = {r.op: r for r in records if r.kind != INVOKE}
    for record in records:
        if record.kind == INVOKE:
            yield record, ends.get(record.op)
