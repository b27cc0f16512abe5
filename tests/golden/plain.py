"""Values as JSON can hold them, for golden vectors: bytes as {"hex": ...}, maps with other keys as pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from proto.errors import HyphaeError


def plain(value: Any) -> Any:
    """Return a value in JSON's terms; equal values give equal results."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, HyphaeError):
        return {"error": value.code, **plain(vars(value))}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: plain(item) for key, item in value.items()}
        return [[plain(key), plain(item)] for key, item in sorted(value.items())]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
