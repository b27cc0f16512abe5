"""How the story is told: wrapped sentences, timings at the right margin, colours only on a terminal.

Writes to the stream that it is given and to nothing else.  It decides no claim.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

WIDTH_MAX = 100
WIDTH_MIN = 60
INDENT = "   "
_BOLD, _DIM, _GREEN, _RED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


def format_ms(ms: float) -> str:
    """Return a duration: "0.4 ms", "37 ms", "2,310 ms"."""
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:,.0f} ms"


def shorten(text: str, width: int) -> str:
    """Return the beginning of a text, cut between words, at most `width` characters long."""
    return textwrap.shorten(text, width, placeholder=" ...")


def wants_colour(terminal: bool, environ: Mapping[str, str]) -> bool:
    """Tell whether to colour: on a terminal that can, unless `NO_COLOR` asks not to."""
    return terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


class Telling:
    """The teller.

    Args:
        out: where the story goes; None tells nothing.
        colour: whether escape sequences may be written.
        width: columns that there are; used within reasonable bounds.
    """

    def __init__(self, out: TextIO | None, *, colour: bool = False, width: int = WIDTH_MAX) -> None:
        self._out = out
        self._colour = colour
        self._width = max(WIDTH_MIN, min(width, WIDTH_MAX))
        self._steps = 0

    def title(self, text: str, introduction: str) -> None:
        """Begin."""
        self._line(self._in(_BOLD, text))
        for line in _wrap(introduction, self._width):
            self._line(line)

    def step(self, text: str) -> None:
        """Begin the next step, with its number."""
        self._steps += 1
        self._line("")
        self._line(self._in(_BOLD, f"{self._steps}  {text}"))

    def say(self, text: str, took_ms: float | None = None) -> None:
        """Tell a sentence that was found to be true, with the time that it took."""
        timing = "" if took_ms is None else format_ms(took_ms)
        lines = _wrap(text, self._width - len(INDENT) - 2) or [""]
        last = f"{INDENT}{lines[-1]}"
        if timing and len(last) + 2 + len(timing) > self._width:
            lines.append("")
            last = INDENT
        for line in lines[:-1]:
            self._line(f"{INDENT}{line}")
        gap = " " * (self._width - len(last) - len(timing)) if timing else ""
        self._line(f"{last}{gap}{self._in(_DIM, timing)}")

    def quote(self, text: str, note: str = "") -> None:
        """Tell what somebody stored, whole, with a note after it."""
        whole = f'"{text}"' + (f"  ({note})" if note else "")
        for line in _wrap(whole, self._width - len(INDENT) - 4):
            self._line(f"{INDENT}  | {line}")

    def item(self, mark: str, text: str, note: str = "") -> None:
        """Tell one entry of a list on one line: a mark, a text cut to the width, and a note beside it."""
        head = f"{INDENT}  {mark} "
        tail = f"  {note}" if note else ""
        room = self._width - len(head) - len(tail)
        kept = shorten(text, room)
        self._line(f"{head}{kept}{' ' * (room - len(kept)) if note else ''}{self._in(_DIM, tail)}")

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Tell pairs of a name and a value, the values below one another."""
        longest = max(len(name) for name, _ in rows)
        for name, value in rows:
            self._line(f"{INDENT}{name:<{longest}}  {value}")

    def ending(self, text: str, *, well: bool) -> None:
        """Tell how it ended."""
        self._line("")
        for line in _wrap(text, self._width):
            self._line(self._in(_GREEN if well else _RED, line))

    def _in(self, style: str, text: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._colour and text else text

    def _line(self, text: str) -> None:
        if self._out is not None:
            self._out.write(text.rstrip() + "\n")
            self._out.flush()


def summary_line(summary: Mapping[str, Any]) -> str:
    """Return the summary as one line of JSON, for programs."""
    return json.dumps(summary, ensure_ascii=False, separators=(",", ":"))
