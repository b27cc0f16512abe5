"""What commands print: JSON for scripts, tables and text for people; plain wherever stdout is no terminal.

The only module that imports rich.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mcp_gateway.unseen import UNSEEN, visible

Progress = Callable[[int, int], None]
"""Told how much is done, and how much there is in all (0 when that is not known)."""


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Print one line of JSON, non-ASCII kept; on a terminal what cannot be seen is escaped as JSON does it."""
    text = json.dumps(value, ensure_ascii=False)
    print(UNSEEN.sub(lambda c: json.dumps(c[0])[1:-1], text) if is_terminal() else text, flush=True)


def print_text(text: str) -> None:
    """Print text for people; on a terminal with everything visible, which a memory may not be."""
    print(visible(text) if is_terminal() else text, flush=True)


def note(text: str) -> None:
    """Say something beside the result, on stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the right form, such as "1 peer" or "1,200 events"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, wrap: int | None = None) -> None:
    """Print rows under headers: with lines on a terminal, in plain columns elsewhere.

    Args:
        headers: one for each column.
        rows: values by column; None is shown as nothing.
        wrap: index of the column that may be broken over lines; the others never are.
    """
    texts = [["" if v is None else visible(" ".join(str(v).split())) for v in row] for row in rows]
    if is_terminal():
        _print_rich_table(headers, texts, wrap)
        return
    widths = [max(len(t[c]) for t in [list(headers), *texts]) for c in range(len(headers))]
    for row in [list(headers), *texts]:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _print_rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]], wrap: int | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, header in enumerate(headers):
        table.add_column(header, no_wrap=index != wrap, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text) for text in row))  # Text: contents are not markup
    Console().print(table)


@contextmanager
def progress_of(what: str) -> Iterator[Progress]:
    """Show on a terminal how far something long has come; elsewhere say nothing."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


@contextmanager
def working(what: str) -> Iterator[Callable[[], None]]:
    """Show on a terminal that something is going on, until the block ends or what it yields is called."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield status.stop
