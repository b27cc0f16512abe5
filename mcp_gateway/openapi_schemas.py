"""JSON Schema (2020-12) of arguments and results, from their tables.

Pure.  Beside the forms written here a peer takes what models send: numbers and arrays as text, enum values in
any case, null for absent.  The schemas show what a program should send; `coercion` has the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcp_gateway.result_kinds import FieldSpec, ObjectSpec
from mcp_gateway.specs import ArgumentSpec

Schema = dict[str, Any]

ANY_TEXT = "\\S"
EXAMPLE_ID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"

_TYPES = {"strings": "array", "integers": "array", "objects": "array", "grants": "object"}
_HEX = "[0-9a-fA-F]"
_ID = f"^{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}$"
_ID_OR_BEGINNING = f"^{_HEX}{{8}}(?:-?{_HEX}{{4}}){{0,3}}-?{_HEX}{{0,12}}$"
_CONTROLS = "\\u0000-\\u001f\\u007f-\\u009f"
_PATTERNS = {
    "text": ANY_TEXT,
    "id": _ID,
    "id_or_beginning": _ID_OR_BEGINNING,
    "name": f"^[^{_CONTROLS}]*[^{_CONTROLS}\\s][^{_CONTROLS}]*$",
    "moment": (
        "^(?:[0-9]{1,9} ?[smhdw]|[0-9]{4}-"
        "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9])|(?:0[13-9]|1[0-2])-30|(?:0[13578]|1[02])-31)"
        "(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\\.[0-9]+)?)?"
        "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))?)$"
    ),
}


def argument_schema(argument: ArgumentSpec, item: Schema | None = None) -> Schema:
    """Return the schema of one argument.

    Args:
        item: schema of the items of `objects`.
    """
    kind = argument.kind
    schema: Schema = {"type": _TYPES.get(kind, kind)}
    if argument.description:
        schema["description"] = argument.description
    if kind == "strings":
        schema["items"] = {"type": "string", **_text_bounds(argument)}
    elif kind == "integers":
        schema["items"] = {"type": "integer", **_number_bounds(argument)}
    elif kind == "objects":
        schema["items"] = item or {"type": "object"}
    elif kind == "grants":
        schema |= {
            "propertyNames": {"pattern": _PATTERNS["name"], "maxLength": argument.max_chars},
            "additionalProperties": {"type": "string", "enum": list(argument.enum)},
            "minProperties": 0 if argument.empty_is_absent else 1,
            "maxProperties": argument.max_items,
        }
    else:
        schema |= _text_bounds(argument) if kind == "string" else _number_bounds(argument)
    if schema["type"] == "array":
        schema["maxItems"] = argument.max_items
        if argument.required or not argument.empty_is_absent:
            schema["minItems"] = 1
    return schema


def _text_bounds(argument: ArgumentSpec) -> Schema:
    if argument.enum:
        return {"enum": list(argument.enum)}
    bounds: Schema = {"minLength": 1, "pattern": _PATTERNS[argument.form]}
    most = argument.max_chars if argument.max_chars is not None else argument.max_bytes
    if most is not None:
        bounds["maxLength"] = most
    if argument.max_bytes is not None:
        bounds["x-max-bytes"] = argument.max_bytes  # of UTF-8; maxLength counts characters
    return bounds


def _number_bounds(argument: ArgumentSpec) -> Schema:
    bounds = {"minimum": argument.minimum, "maximum": argument.maximum}
    return {name: value for name, value in bounds.items() if value is not None}


def object_schema(shape: ObjectSpec) -> Schema:
    """Return the schema of a result object; the objects in it are references to components by their name."""
    return {
        "type": "object",
        "description": shape.description,
        "properties": {field.name: _field_schema(field) for field in shape.fields},
        "required": [field.name for field in shape.fields if not field.optional],
    }


def _field_schema(field: FieldSpec) -> Schema:
    schema: Schema = {"type": "object" if field.kind == "map" else field.kind}
    schema["description"] = field.description
    if field.kind == "object" and field.object is not None:
        return {**reference(field.object.name), "description": field.description}
    if field.kind == "array":
        schema["items"] = reference(field.object.name) if field.object else {"type": field.items}
    elif field.kind == "map":
        schema["additionalProperties"] = {"type": field.items}
    if field.form in {"uuid", "time"}:
        schema["format"] = {"uuid": "uuid", "time": "date-time"}[field.form]
    elif field.form == "share":
        schema |= {"minimum": 0, "maximum": 1}
    if field.enum:
        schema["enum"] = list(field.enum)
    return schema


def reference(name: str) -> Schema:
    """Return a reference to a schema among the components."""
    return {"$ref": f"#/components/schemas/{name}"}


def shapes_of(roots: Iterable[ObjectSpec]) -> dict[str, ObjectSpec]:
    """Return these shapes and all in them by name.

    Raises:
        ValueError: two shapes have one name, which is a defect of the table.
    """
    found: dict[str, ObjectSpec] = {}
    waiting = list(roots)
    while waiting:
        shape = waiting.pop()
        known = found.setdefault(shape.name, shape)
        if known is not shape and known != shape:
            raise ValueError(f"two shapes are called {shape.name}")
        if known is shape:
            waiting += [f.object for f in shape.fields if f.object is not None and f.object.name not in found]
    return found
