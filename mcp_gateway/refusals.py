"""How a refused argument is put into words: what is wrong, what happened to the data, what to do next.

Pure.  The texts are for language models: at most 300 characters with their code word, one example, and never
a memory's content.
"""

from __future__ import annotations

import json
import math
from typing import Any

from mcp_gateway.specs import ArgumentSpec, CallSpec
from mcp_gateway.unseen import visible

TEXT_CHARS = 300
SHOWN_CHARS = 40
EXAMPLE_CHARS = 40


class Refused(Exception):
    """An argument is wrong.

    Args:
        problem: what is wrong with the value, as a sentence.
        step: what to do next, as sentences; empty where an example says it.
        argument: the one at fault, for the example.
    """

    def __init__(self, problem: str, step: str = "", argument: ArgumentSpec | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.step = step
        self.argument = argument


def compose(spec: CallSpec, refused: Refused) -> str:
    """Return the whole text of a refusal, without its code word, within the limit."""
    step = refused.step or example_call(spec, refused.argument)
    room = TEXT_CHARS - len(f"invalid:   {spec.consequence}{step}")
    said = visible(refused.problem)
    problem = said if len(said) <= room else f"{said[: room - 3]}..."
    return f"{problem} {spec.consequence} {step}"


def shown(value: Any) -> str:
    """Return a value as an error may show it: short, on one line, valid Unicode."""
    if isinstance(value, str):
        text = json.dumps(value[:SHOWN_CHARS], ensure_ascii=False)
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return text if len(value) <= SHOWN_CHARS else f"{text[:-1]}..."
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "not a finite number"
    return described(value)


def described(value: Any) -> str:
    """Return what kind of value this is, without showing it: for texts that may hold a memory."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return f"text of {len(value)} characters"
    if isinstance(value, (list, tuple)):
        return f"an array of {len(value)}"
    return "an object" if isinstance(value, dict) else f"a value of type {type(value).__name__}"


def example_call(spec: CallSpec, shown: ArgumentSpec | None = None) -> str:
    """Return a call that is accepted as it stands, as a sentence; long values are left out.

    Args:
        shown: an argument that the example gives beside the required ones, if there is an example of it.
    """
    given = [a for a in spec.arguments if a.required or (a is shown and a.example)]
    parts = (f'"{a.name}": {a.example if 0 < len(a.example) <= EXAMPLE_CHARS else _BLANK}' for a in given)
    return f"Example: {{{', '.join(parts)}}}"


def names(spec: CallSpec) -> str:
    """Return the arguments of a call as a sentence."""
    return f"It takes {', '.join(spec.by_name)}." if spec.arguments else "It takes no arguments."


_BLANK = '"..."'
