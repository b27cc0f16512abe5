"""What a check finds: a verdict, one sentence, and the command or step that mends it.

Plain values.  A sentence never holds a secret or the content of a memory: people paste it into reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Args:
        verdict: "ok"; "warning": it works, but not as it should; "problem": something does not work.
        message: one sentence for people, with the path, value or process that it is about.
        mend: a command, or one step in words; None where nothing is to be done.
    """

    verdict: Verdict
    message: str
    mend: str | None = None


def well(message: str) -> Finding:
    """Return that all is well."""
    return Finding("ok", message)


def warning(message: str, mend: str | None) -> Finding:
    """Return what works, but not as it should."""
    return Finding("warning", message, mend)


def problem(message: str, mend: str | None) -> Finding:
    """Return what does not work."""
    return Finding("problem", message, mend)
