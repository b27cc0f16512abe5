"""The OpenAPI 3.1 document of REST, made of the tables: routes, arguments, results, errors.

Pure; built once.  Whatever is documented here is what the tables make the peer do, and a fuzzer compares the two.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from mcp_gateway import rest
from mcp_gateway.argument_kinds import CELL_TYPES
from mcp_gateway.openapi_schemas import (
    ANY_TEXT,
    EXAMPLE_ID,
    argument_schema,
    object_schema,
    reference,
    shapes_of,
)
from mcp_gateway.operations import scope_of
from mcp_gateway.results import RESULTS
from mcp_gateway.specs import ArgumentSpec, CallSpec
from mcp_gateway.tools import TOOLS
from proto.errors import TABLE
from proto.limits import PROJECT_CHARS

VERSION = "3.1.0"
READ_FROM_QUERY = frozenset({"GET", "DELETE"})
TAKES_PROJECT_HEADER = frozenset({"store", "store_bulk", "open_session", "consolidate_scenes"})

_NAMES_THINGS = frozenset({"project", "session_id", "supersedes", "derived_from"})  # that may not be there
_CONFLICTS = frozenset({"store"})
_EXAMPLES: dict[str, Any] = {
    "id": "abcdefghijklmnop",
    "content": "We retry payments 3 times, because the bank drops 1 in 50.",
    "cells": [{"content": "The bank drops 1 in 50 payments.", "cell_type": CELL_TYPES[5]}],
}
_TRANSPORT = {
    "414": "Path and query are longer than the peer reads. Nothing was done.",
    "431": "The headers are larger than the peer reads. Nothing was done.",
    "413": "The body is larger than the route admits. Nothing was stored.",
    "415": "The body is not application/json. Nothing was changed.",
}
_TEXTS = {
    "400": "A value is wrong; the message names it. Nothing was changed.",
    "401": "No key, or one that the mesh does not know. Nothing was changed.",
    "403": "The key lacks the scope, or Host or Origin is not allowed. Nothing was changed.",
    "404": "Not there, or not yours: the two answer alike.",
    "409": "The idempotency key names another memory already. Nothing was stored.",
    "429": "A bound was reached. Nothing was changed; come back after Retry-After.",
    "500": "Stored data is damaged, or a defect; the log of the peer says more.",
    "503": "A part that is needed is away. `definite: false` means: it may have happened.",
}
_DESCRIPTION = (
    "Everything that agents do over MCP, for programs. Times are RFC 3339 in UTC. Objects leave out empty and"
    " default members. Unknown arguments are refused by name; null means absent. Ids that are not yours answer as"
    " ids that are not there. A path that exists answers other verbs with 405 and Allow; HEAD is answered as GET."
)


def document(version: str) -> dict[str, Any]:
    """Return the document.

    Args:
        version: of the peer's program.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in rest.ROUTES:
        paths.setdefault(route.template, {})[route.verb.lower()] = _operation(route)
    shapes = shapes_of(RESULTS[route.call] for route in rest.ROUTES)
    return {
        "openapi": VERSION,
        "info": {"title": "hyphae-mesh", "version": version, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "x-hyphae-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {
                "Error": _ERROR,
                "Memory": _arguments(TOOLS["store"], frozenset()),
                **{name: object_schema(shape) for name, shape in sorted(shapes.items())},
            },
            "responses": {status: _refusal(status) for status in refusals()},
        },
    }


@cache
def encoded(version: str) -> bytes:
    """Return the document as JSON."""
    return json.dumps(document(version), ensure_ascii=False, separators=(",", ":")).encode()


def _operation(route: rest.Route) -> dict[str, Any]:
    spec = route.spec
    in_path = route.in_path
    scope = scope_of(route.call)
    operation: dict[str, Any] = {
        "operationId": route.call,
        "summary": route.what,
        "description": f"Needs scope {scope}." if scope else "Needs no scope.",
        "tags": [route.template.split("/")[2].partition(":")[0]],
        "parameters": _parameters(route, in_path),
        "responses": _responses(route),
    }
    if route.verb not in READ_FROM_QUERY:
        body = _arguments(spec, in_path)
        content = {"schema": body, "example": _example(spec, in_path)}
        operation["requestBody"] = {
            "required": bool(body.get("required")),
            "content": {"application/json": content},
        }
    return operation


def _parameters(route: rest.Route, in_path: frozenset[str]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for argument in route.spec.arguments:
        schema = argument_schema(argument)
        description = schema.pop("description", None)
        said = {} if description is None else {"description": description}
        if argument.name in in_path:
            if schema["pattern"] == ANY_TEXT:
                schema["pattern"] = "^[^/:]+$"  # one segment
            shown = {"in": "path", "required": True, "schema": schema}
            out.append({"name": argument.name, **shown, **said, "example": _value(argument)})
        elif route.verb in READ_FROM_QUERY:
            shown = {"in": "query", "required": argument.required, "schema": schema}
            out.append({"name": argument.name, **shown, **said, **_shown_example(argument)})
    if route.call in TAKES_PROJECT_HEADER:
        out.append(_PROJECT_HEADER)
    return out


def _shown_example(argument: ArgumentSpec) -> dict[str, Any]:
    """Return the example of a parameter; a cursor is what the peer gave, so there is none of it."""
    return {} if argument.name == "cursor" else {"example": _value(argument)}


def _arguments(spec: CallSpec, left_out: frozenset[str]) -> dict[str, Any]:
    """Return the schema of a body: unknown members are refused."""
    shown = [a for a in spec.arguments if a.name not in left_out]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {a.name: argument_schema(a, reference("Memory")) for a in shown},
        "additionalProperties": False,
    }
    required = [a.name for a in shown if a.required]
    return {**schema, "required": required} if required else schema


def _example(spec: CallSpec, left_out: frozenset[str]) -> dict[str, Any]:
    """Return the smallest complete body."""
    return {a.name: _value(a) for a in spec.required if a.name not in left_out}


def _value(argument: ArgumentSpec) -> Any:
    if argument.name in _EXAMPLES:
        return _EXAMPLES[argument.name]
    if argument.example:
        return json.loads(argument.example)
    return EXAMPLE_ID


def statuses(route: rest.Route) -> list[str]:
    """Return the statuses of errors that a route can answer with, ascending."""
    names = route.spec.by_name.keys()
    found = {"400", "401", "403", "429", "431", "500", "503"}
    if "{" in route.template or names & _NAMES_THINGS or route.call in {"store_bulk", "explain_recall"}:
        found.add("404")
    if route.call in _CONFLICTS:
        found.add("409")
    if route.verb not in READ_FROM_QUERY:
        found |= {"413", "415"}
    elif route.spec.arguments:
        found.add("414")
    return sorted(found)


def refusals() -> dict[str, str]:
    """Return what each status of an error means."""
    return {**_TEXTS, **_TRANSPORT}


def _responses(route: rest.Route) -> dict[str, Any]:
    shape = RESULTS[route.call]
    schema = reference(shape.name)
    good = {"description": shape.description, "content": {"application/json": {"schema": schema}}}
    errors = {status: {"$ref": f"#/components/responses/{status}"} for status in statuses(route)}
    return {"200": good, **errors}


def _refusal(status: str) -> dict[str, Any]:
    codes = sorted(code for code, row in TABLE.items() if str(row.http) == status) or ["invalid"]
    error = {"code": codes[0], "message": "What is wrong. What happened. What to do.", "definite": True}
    content = {"schema": reference("Error"), "example": {"error": error}}
    response: dict[str, Any] = {
        "description": _TEXTS.get(status) or _TRANSPORT[status],
        "content": {"application/json": content},
    }
    if status in {"429", "503"}:
        header = {"description": "Seconds to wait, if waiting helps.", "schema": {"type": "integer"}}
        response["headers"] = {"Retry-After": header}
    if status == "401":
        header = {"description": "How to authenticate.", "schema": {"type": "string"}}
        response["headers"] = {"WWW-Authenticate": header}
    return response


_ERROR: dict[str, Any] = {
    "type": "object",
    "description": "Why a call failed.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "enum": [*sorted(TABLE), "method_not_allowed"]},
                "message": {"type": "string", "description": "For people and agents."},
                "definite": {"type": "boolean", "description": "True: it had and will have no effect."},
                "retry_after_ms": {"type": "integer", "description": "When to come back."},
            },
            "required": ["code", "message", "definite"],
        }
    },
    "required": ["error"],
}
_PROJECT_HEADER: dict[str, Any] = {
    "name": "x-hyphae-project",
    "in": "header",
    "required": False,
    "description": "Project where the call names none. A name beyond ASCII is sent as UTF-8.",
    "schema": {
        "type": "string",
        "maxLength": PROJECT_CHARS,
        "pattern": "^[ -~]*$",
    },
    "example": "billing",
}
