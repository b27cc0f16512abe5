"""What describes a call: its arguments as data, and what the gateway may do with it.

The duty: the types of the two tables (`tools`, `operations`), which drive validation, the schemas of
`tools/list`, REST and the service.  It knows no transport and checks nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Kind = Literal["string", "integer", "number", "boolean", "strings", "integers", "objects", "grants"]
Form = Literal["text", "name", "moment", "id", "id_or_beginning"]


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """One argument of a call.

    Args:
        name: as callers write it.
        kind: of the value; `strings`, `integers` and `objects` are arrays, `grants` is an object from a
            project name to "r" or "rw".
        description: for `tools/list`; empty where the name says it all.
        required: a call without it is refused.
        enum: the allowed values of a string or of the items of `strings`, in their canonical case.
        minimum: lowest number allowed, of the value or of the items.
        maximum: highest number allowed, of the value or of the items.
        max_bytes: of UTF-8, for texts whose size is counted in bytes.
        max_chars: of a string, or of each item of `strings`.
        max_items: of an array or of `grants`.
        empty_is_absent: an empty array means that none was given; otherwise it is refused, because absent
            would mean more than nothing.
        form: `text` is kept as sent; a `name` holds no control characters; a `moment` is a time or a span;
            an `id` reads like one that was returned, an `id_or_beginning` like its first 8 or more characters.
        example: a value for error texts, as JSON.
    """

    name: str
    kind: Kind
    description: str = ""
    required: bool = False
    enum: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    max_bytes: int | None = None
    max_chars: int | None = None
    max_items: int | None = None
    empty_is_absent: bool = True
    form: Form = "text"
    example: str = ""


@dataclass(frozen=True)
class CallSpec:
    """One method of the service.

    Args:
        name: the method.
        arguments: in the order in which callers read them.
        reads: the call changes nothing, so it may be dropped when the caller is gone.
        stores: the call makes memories, so that errors say whether something was stored.
        consequence: what a refused call left behind, as a sentence.
        elsewhere: arguments that another call takes, each with what to use, for refusals.
        in_doubt: what to do when a call got no answer and may have had its effect, as a sentence.
    """

    name: str
    arguments: tuple[ArgumentSpec, ...] = ()
    reads: bool = False
    stores: bool = False
    consequence: str = "Nothing was changed."
    elsewhere: Mapping[str, str] = field(default_factory=dict, hash=False)
    in_doubt: str = "Look whether it was, then call again if need be."

    @cached_property
    def by_name(self) -> dict[str, ArgumentSpec]:
        """The arguments by name, in order."""
        return {argument.name: argument for argument in self.arguments}

    @cached_property
    def required(self) -> tuple[ArgumentSpec, ...]:
        """The arguments that a call must give."""
        return tuple(argument for argument in self.arguments if argument.required)


@dataclass(frozen=True, slots=True)
class Hints:
    """The four behaviour hints of a tool: for hosts and people; nothing in the system reads them."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool = False


@dataclass(frozen=True)
class ToolSpec(CallSpec):
    """A method that agents see as a tool: with a title, a description and hints."""

    title: str = ""
    description: str = ""
    hints: Hints = Hints(read_only=False, destructive=True, idempotent=False, open_world=True)
