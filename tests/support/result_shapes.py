"""A result against the table of results: nothing missing, nothing that the table does not name, types as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mcp_gateway.result_kinds import FieldSpec, ObjectSpec

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?Z")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "map": (dict,),
}


def deviations(shape: ObjectSpec, value: Any, where: str = "") -> Iterator[str]:
    """Yield what a result, as JSON, has otherwise than its shape says."""
    if not isinstance(value, dict):
        yield f"{where or shape.name} is no object"
        return
    fields = {field.name: field for field in shape.fields}
    for name in value.keys() - fields.keys():
        yield f"{where}.{name} is not in {shape.name}"
    for name, field in fields.items():
        if name in value:
            yield from _of_field(field, value[name], f"{where}.{name}")
        elif not field.optional:
            yield f"{where}.{name} is missing"


def _of_field(field: FieldSpec, value: Any, where: str) -> Iterator[str]:
    if not _is(field.kind, value):
        yield f"{where} is {type(value).__name__}, not {field.kind}"
        return
    if field.kind == "object" and field.object is not None:
        yield from deviations(field.object, value, where)
    elif field.kind in {"array", "map"}:
        for item in value.values() if field.kind == "map" else value:
            if field.object is not None:
                yield from deviations(field.object, item, f"{where}[]")
            elif field.items is not None and not _is(field.items, item):
                yield f"{where}[] is {type(item).__name__}, not {field.items}"
    if field.enum and value not in field.enum:
        yield f"{where} is {value!r}, not one of {field.enum}"
    if field.form == "uuid" and not _UUID.fullmatch(value):
        yield f"{where} is no id: {value!r}"
    if field.form == "time" and not _TIME.fullmatch(value):
        yield f"{where} is no time: {value!r}"
    if field.form == "share" and not 0 <= value <= 1:
        yield f"{where} is not within 0 and 1: {value!r}"


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
