"""The schema-driven fuzzer at a peer: whatever the OpenAPI document says is tried, and so is the contrary.

Runs in this process; its requests are real HTTP.  The same seed makes the same cases.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any

import jsonschema_rs
import schemathesis
from schemathesis.checks import CheckContext
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import from_schema
from schemathesis.engine.events import EngineFinished, FatalError, NonFatalError, ScenarioFinished
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

OPAQUE = frozenset({"cursor", "ack"})
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    "wrong_data_is_refused",
    "good_data_is_accepted",
)
_TYPED: dict[str, tuple[type, ...]] = {
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@schemathesis.check
def wrong_data_is_refused(ctx: CheckContext, response: Any, case: Any) -> bool | None:
    """Data that the document forbids is refused, unless it is one of the other spellings that models send."""
    return (
        None
        if response.status_code < 300 and is_spelling(case)
        else negative_data_rejection(ctx, response, case)
    )


@schemathesis.check
def good_data_is_accepted(ctx: CheckContext, response: Any, case: Any) -> bool | None:
    """Data that the document allows is accepted; a cursor made up by the fuzzer cannot be."""
    given = {**(case.query or {}), **(case.body if isinstance(case.body, dict) else {})}
    return None if OPAQUE & given.keys() else positive_data_acceptance(ctx, response, case)


def is_spelling(case: Any) -> bool:
    """Tell whether a case is what the document allows once it is spelled as the document says."""
    definition = case.operation.definition.raw
    fields = {p["name"]: p["schema"] for p in definition.get("parameters", ()) if p["in"] == "query"}
    if any(not _is_allowed(fields[n], v) for n, v in (case.query or {}).items() if n in fields):
        return False
    if not isinstance(case.body, dict) or "requestBody" not in definition:
        return True
    schema = copy.deepcopy(definition["requestBody"]["content"]["application/json"]["schema"])
    properties = schema["properties"]
    required = schema.get("required", ())
    return all(
        name in properties
        and ((value is None and name not in required) or _is_allowed(properties[name], value))
        for name, value in case.body.items()
    )


def _is_allowed(schema: Mapping[str, Any], value: Any) -> bool:
    if schema.get("items", {}).get("$ref"):  # of bulk: each item is answered for by itself
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return bool(jsonschema_rs.is_valid(dict(schema), _spelled(schema, value)))


def _spelled(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a value in the spelling of the document: not a number as text, nor an enum in another case."""
    kind = schema.get("type")
    if isinstance(value, str) and kind in _TYPED:
        try:
            read = json.loads(value.strip().removeprefix("+").lower())
        except ValueError:
            read = [value]
        value = read if isinstance(read, _TYPED[kind]) else value
    if kind == "array" and isinstance(value, list):
        return [_spelled(schema["items"], item) for item in value]
    if isinstance(value, str):
        value = value.strip() if "pattern" in schema and "smhdw" in schema["pattern"] else value
        by_fold = {str(e).casefold(): e for e in schema.get("enum", ())}
        return by_fold.get(value.strip().casefold(), value)
    return value


def strict(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with results that may hold nothing but what it names."""
    out = copy.deepcopy(dict(document))
    for schema in out["components"]["schemas"].values():
        schema.setdefault("additionalProperties", False)
    # An item of bulk is answered for by itself, blank or not; making texts of 64 KiB by a pattern takes seconds.
    del out["components"]["schemas"]["Memory"]["properties"]["content"]["pattern"]
    return out


def fuzz(
    url: str, key: str, document: Mapping[str, Any], *, seed: int, examples: int, operations: Iterable[str]
) -> tuple[list[str], int]:
    """Try a peer against a document.

    Args:
        url: of the peer.
        key: presented with every request but those that try without.
        examples: cases of an operation, in the phase that makes them at random; the others are systematic.
        operations: ids of those to try.

    Returns:
        What failed, and how many requests were made.
    """
    config = SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "base-url": url,
            "headers": {"x-hyphae-key": key},
            "continue-on-failure": True,
            "generation": {
                "max-examples": examples,
                "no-shrink": True,
                "database": "none",
                "with-security-parameters": False,
            },
            "checks": {
                "enabled": False,
                **{name: {"enabled": True} for name in CHECKS},
                "negative_data_rejection": {"enabled": False, "expected-statuses": [*_REFUSED]},
            },
            "phases": {
                "coverage": {"extra-data-sources": _NONE},
                "fuzzing": {"extra-data-sources": _NONE},
                "stateful": {"enabled": False},
            },
        }
    )
    schema = schemathesis.openapi.from_dict(dict(document), config=config).include(
        operation_id=list(operations)
    )
    failures: list[str] = []
    requests = 0
    for event in from_schema(schema).execute():
        if isinstance(event, ScenarioFinished):
            requests += len(event.recorder.interactions)
            for case_id, checks in event.recorder.checks.items():
                failures += [_shown(event, case_id, c) for c in checks if c.failure_info is not None]
        elif isinstance(event, (NonFatalError, FatalError)):
            failures.append(repr(getattr(event, "value", None) or getattr(event, "exception", event)))
        elif isinstance(event, EngineFinished):
            failures += [str(f) for f in event.failures]
    return failures, requests


_NONE = {"responses": False}
_REFUSED = ("400", "401", "403", "404", "405", "409", "413", "414", "415", "429", "431")


def _shown(event: ScenarioFinished, case_id: str, check: Any) -> str:
    info = check.failure_info
    return f"{event.label}: {check.name}: {info.failure} {info.failure.message[:400]}\n{info.code_sample}"
