"""One value against one argument of the table: what models send, turned into what the service expects.

Pure.  Accepted beside the exact form: numbers as text, whole floats, "true" and "false", enum values in any
case, arrays and objects as JSON text.  Everything else is `Refused`, whatever JSON or msgpack can hold.
Coercing a coerced value changes nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mcp_gateway import moments
from mcp_gateway.refusals import Refused, described, shown
from mcp_gateway.specs import ArgumentSpec
from proto.errors import Invalid
from proto.ids import parse_uuid, uuid_prefix

ABSENT: Final = object()

_WHOLE = re.compile(r"([+-]?[0-9]{1,20})(?:\.0*)?")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,3})?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def coerce(argument: ArgumentSpec, value: Any) -> Any:
    """Return the value in the form that the service expects, or `ABSENT`.

    Args:
        argument: what is allowed.
        value: anything that JSON or msgpack can hold; null was handled by the caller.

    Raises:
        Refused: the value is wrong.
    """
    return _COERCERS[argument.kind](argument, value)


def _string(argument: ArgumentSpec, value: Any) -> str:
    if argument.form == "moment":
        return _moment(argument, value)
    if argument.enum:
        return _choice(argument, value, argument.name)
    return _text(argument, value, argument.name)


def _text(argument: ArgumentSpec, value: Any, where: str) -> str:
    """Return a text unchanged: what a user sent is kept byte for byte."""
    if not isinstance(value, str):
        raise Refused(f"{where} is {described(value)}; give text.", argument=argument)
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise Refused(
            f"{where} holds half of a surrogate pair at character {error.start}; it is not valid Unicode.",
            "Send whole characters.",
        ) from None
    if not value.strip():
        kept = "give some text" if argument.required else "leave it out or give some text"
        raise Refused(f"{where} is {'blank' if value else 'empty'}; {kept}.", argument=argument)
    if argument.max_bytes is not None and size > argument.max_bytes:
        raise Refused(
            f"{where} has {size} bytes; the limit is {argument.max_bytes} bytes.",
            "Shorten it to one statement, or split it.",
        )
    if argument.max_chars is not None and len(value) > argument.max_chars:
        raise Refused(
            f"{where} has {len(value)} characters; the limit is {argument.max_chars}.", "Shorten it."
        )
    control = _CONTROL.search(value) if argument.form == "name" else None
    if control:
        raise Refused(
            f"{where} holds a control character at {control.start()}; it must be one line of text.",
            argument=argument,
        )
    return _id(argument, value.strip(), where) if argument.form in {"id", "id_or_beginning"} else value


def _id(argument: ArgumentSpec, value: str, where: str) -> str:
    """Return what can be an id; whether there is such a thing only the service knows."""
    if argument.form == "id_or_beginning" and uuid_prefix(value) is not None:
        return value
    try:
        parse_uuid(value, where)
        return value
    except Invalid as wrong:
        problem, _, step = wrong.message.partition(" Nothing was changed. ")
        raise Refused(problem, step) from None


def _choice(argument: ArgumentSpec, value: Any, where: str) -> str:
    if isinstance(value, str):
        wanted = value.strip().casefold()
        for allowed in argument.enum:
            if allowed.casefold() == wanted:
                return allowed
    raise Refused(f"{where} is {shown(value)}; one of {', '.join(argument.enum)}.", argument=argument)


def _moment(argument: ArgumentSpec, value: Any) -> str:
    if isinstance(value, str) and moments.is_moment(value):
        return value.strip()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        problem = f"{argument.name} is the number {shown(value)}: {moments.EPOCH_NUMBER}"
    elif isinstance(value, str) and value.isascii() and value.isprintable():
        problem = moments.refusal(value.strip(), argument.name)
    else:
        problem = f"{argument.name} is {shown(value)}"
    raise Refused(f"{problem}; {moments.FORMS}", argument=argument)


def _integer(argument: ArgumentSpec, value: Any, where: str = "") -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str) and len(value) <= 64:
        found = _WHOLE.fullmatch(value.strip())
        number = int(found[1]) if found else None
    if number is None:
        raise Refused(
            f"{where or argument.name} is {shown(value)}; give a whole number, {_span(argument)}.",
            argument=argument,
        )
    return int(_within(argument, number, where))


def _number(argument: ArgumentSpec, value: Any) -> float:
    number: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and len(value) <= 64 and _DECIMAL.fullmatch(value.strip()):
        number = float(value)
    if number is None or (isinstance(number, float) and not math.isfinite(number)):
        raise Refused(
            f"{argument.name} is {shown(value)}; give a number, {_span(argument)}.", argument=argument
        )
    return float(_within(argument, number)) + 0.0  # no minus zero


def _within(argument: ArgumentSpec, number: float, where: str = "") -> float:
    low, high = argument.minimum, argument.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        raise Refused(
            f"{where or argument.name} is {shown(number)}; allowed {_span(argument)}.", argument=argument
        )
    return number


def _span(argument: ArgumentSpec) -> str:
    return f"{argument.minimum:g} to {argument.maximum:.0f}" if argument.maximum is not None else "any"


def _boolean(argument: ArgumentSpec, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise Refused(f"{argument.name} is {shown(value)}; give true or false.", argument=argument)


def _array(argument: ArgumentSpec, value: Any) -> list[Any]:
    """Return the items of an array, also of one sent as JSON text."""
    items = _from_text(value, "[")
    if not isinstance(items, (list, tuple)):
        raise Refused(f"{argument.name} is {described(value)}; give an array.", argument=argument)
    if argument.max_items is not None and len(items) > argument.max_items:
        raise Refused(
            f"{argument.name} has {len(items)} items; the limit is {argument.max_items}.", "Give fewer."
        )
    return list(items)


def _strings(argument: ArgumentSpec, value: Any) -> Any:
    where = f"an item of {argument.name}"
    one = _choice if argument.enum else _text
    return _or_absent(argument, [one(argument, item, where) for item in _array(argument, value)])


def _integers(argument: ArgumentSpec, value: Any) -> Any:
    where = f"an item of {argument.name}"
    return _or_absent(argument, [_integer(argument, item, where) for item in _array(argument, value)])


def _objects(argument: ArgumentSpec, value: Any) -> Any:
    """Return the items as they are: what is in each is checked, and answered for, one by one."""
    items = _array(argument, value)
    for item in items:
        if not isinstance(item, Mapping):
            raise Refused(
                f"an item of {argument.name} is {described(item)}; give objects.", argument=argument
            )
    return _or_absent(argument, [dict(item) for item in items])


def _grants(argument: ArgumentSpec, value: Any) -> Any:
    grants = _from_text(value, "{")
    if not isinstance(grants, Mapping):
        raise Refused(f"{argument.name} is {described(value)}; give an object.", argument=argument)
    if argument.max_items is not None and len(grants) > argument.max_items:
        raise Refused(
            f"{argument.name} has {len(grants)} entries; the limit is {argument.max_items}.", "Give fewer."
        )
    where = f"a name in {argument.name}"
    checked = {
        _text(argument, name, where): _choice(argument, right, f"a right in {argument.name}")
        for name, right in grants.items()
    }
    return _or_absent(argument, checked)


def _or_absent(argument: ArgumentSpec, items: Any) -> Any:
    if items:
        return items
    if argument.empty_is_absent and not argument.required:
        return ABSENT
    raise Refused(f"{argument.name} is empty; leave it out or name at least one.", argument=argument)


def _from_text(value: Any, opening: str) -> Any:
    if isinstance(value, str) and value.lstrip().startswith(opening):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


_COERCERS: dict[str, Callable[[ArgumentSpec, Any], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "strings": _strings,
    "integers": _integers,
    "objects": _objects,
    "grants": _grants,
}
