"""Putting one entry into a client's JSON file without touching anything else in it.  Pure.

The text is edited, not rewritten: whatever the user wrote around the entry (order, spacing, number formats,
escapes) stays byte for byte.  Source: RFC 8259; the scanner only finds where values begin and end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from proto.errors import Invalid

_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object: its name, and where its value lies in the text (half open)."""

    name: str
    begin: int
    end: int


def merge_entry(text: str | None, group: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the file's text with `entry` at `group.name`.

    Args:
        text: what the file holds; None or blank for a new file.
        group: the object that holds the entries, such as "mcpServers"; made when absent.
        name: of the entry; one that is there is replaced.
        entry: plain JSON values.

    Raises:
        Invalid: the text is not JSON, or the root or the group is no object; nothing is to be written.
    """
    bom, body = ("\ufeff", text[1:]) if text and text.startswith("\ufeff") else ("", text or "")
    if not body.strip():
        return bom + json.dumps({group: {name: entry}}, ensure_ascii=False, indent=2) + "\n"
    before = parse_object(body)
    if not isinstance(before.get(group, {}), dict):
        raise Invalid(f'not as it should be: "{group}" is no object. Nothing was changed.')
    step, newline = _indent_of(body), "\r\n" if "\r\n" in body else "\n"
    root = body.index("{")
    groups = [m for m in _members(body, root) if m.name == group]
    if groups:
        merged = _put(body, groups[-1].begin, name, entry, step, newline, depth=2)
    else:
        merged = _put(body, root, group, {name: entry}, step, newline, depth=1)
    expected = {**before, group: {**before.get(group, {}), name: entry}}
    if json.loads(merged) != json.loads(json.dumps(expected)):
        raise Invalid("the entry cannot be put into this file without changing the rest of it.")
    return bom + merged


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a text holds.

    Raises:
        Invalid: it is not JSON, or no object; the message says where.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as e:
        raise Invalid(
            f"not JSON: {e.msg} at line {e.lineno}, column {e.colno}. Nothing was changed."
        ) from None
    except (ValueError, RecursionError) as e:
        raise Invalid(f"not usable: {type(e).__name__} while reading it. Nothing was changed.") from None
    if not isinstance(value, dict):
        raise Invalid("not a JSON object. Nothing was changed.")
    return value


def _put(text: str, brace: int, name: str, value: object, step: str | None, newline: str, depth: int) -> str:
    """Return the text with a member of the object at `brace` set to `value`."""
    members = list(_members(text, brace))
    rendered = _render(value, step, newline, depth)
    same = [m for m in members if m.name == name]
    if same:
        return text[: same[-1].begin] + rendered + text[same[-1].end :]
    member = f"{json.dumps(name, ensure_ascii=False)}:{'' if step is None else ' '}{rendered}"
    lead = "" if step is None else newline + step * depth
    if members:
        at = members[-1].end
        return f"{text[:at]},{lead}{member}{text[at:]}"
    close = _skip(text, brace + 1)
    tail = "" if step is None else newline + step * (depth - 1)
    return f"{text[: brace + 1]}{lead}{member}{tail}{text[close:]}"


def _render(value: object, step: str | None, newline: str, depth: int) -> str:
    if step is None:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    lines = json.dumps(value, ensure_ascii=False, indent=step).split("\n")
    return (newline + step * depth).join(lines)


def _members(text: str, brace: int) -> Iterator[_Member]:
    """Yield the members of the object whose brace is at `brace`; the text is known to be JSON."""
    at = _skip(text, brace + 1)
    while text[at] != "}":
        name, at = scanstring(text, at + 1, True)
        begin = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, begin)
        yield _Member(name, begin, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANK:
        at += 1
    return at


def _indent_of(text: str) -> str | None:
    """Return what one level is indented by, like the first indented line; None for a file on one line."""
    lines = text.splitlines()
    if len(lines) < 2:
        return None if len(text.strip()) > 2 else "  "
    for line in lines:
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        if indent and line.strip():
            return indent
    return "  "
