"""How the shape of a result is written down: fields and objects as data, with short constructors.

Pure.  It knows no result: those are in `result_objects` and `results`.  Objects leave out empty and default
members, so `optional` means: present only when there is something to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FieldKind = Literal["string", "integer", "number", "boolean", "array", "object", "map"]
FieldForm = Literal["", "uuid", "time", "share"]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One member of a result object.

    Args:
        name: of the member.
        kind: JSON type; a `map` is an object whose names are data and whose values are of kind `items`.
        description: one line.
        optional: left out when there is nothing to say.
        items: kind of the items of an array or of the values of a map; "object" with `object` set.
        object: shape of an object, or of the items of an array of objects.
        form: of a string, `uuid` or `time` (RFC 3339, UTC, Z); `share` is a number from 0 to 1.
        enum: the values that a string can have.
    """

    name: str
    kind: FieldKind
    description: str
    optional: bool = False
    items: FieldKind | None = None
    object: ObjectSpec | None = None
    form: FieldForm = ""
    enum: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    """A result object, or one that results share.

    Args:
        name: of the shape, unique.
        description: one line.
        fields: in the order in which they are written.
    """

    name: str
    description: str
    fields: tuple[FieldSpec, ...]


def text(name: str, description: str, *, optional: bool = False, enum: tuple[str, ...] = ()) -> FieldSpec:
    return FieldSpec(name, "string", description, optional, enum=enum)


def uuid(name: str, description: str, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "string", description, optional, form="uuid")


def time(name: str, description: str, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "string", description, optional, form="time")


def whole(name: str, description: str, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "integer", description, optional)


def share(name: str, description: str, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "number", description, optional, form="share")


def flag(name: str, description: str, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "boolean", description, optional)


def texts(name: str, description: str, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "array", description, optional, items="string")


def one(name: str, description: str, shape: ObjectSpec, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "object", description, optional, object=shape)


def many(name: str, description: str, shape: ObjectSpec, *, optional: bool = False) -> FieldSpec:
    return FieldSpec(name, "array", description, optional, items="object", object=shape)
