"""The OpenAPI document and the page of routes: whole, sound by themselves, and current."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from mcp_gateway import openapi, rest, rest_docs
from mcp_gateway.arguments import check
from mcp_gateway.openapi_schemas import shapes_of
from mcp_gateway.operations import OPERATIONS
from mcp_gateway.result_kinds import ObjectSpec, text
from mcp_gateway.tools import TOOLS

DOCUMENT = openapi.document("1.2.3")
ROOT = Path(__file__).parents[3]


def operation(route: rest.Route) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][route.template][route.verb.lower()]
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_it_has_every_route_and_nothing_else() -> None:
    documented = {(verb.upper(), path) for path, verbs in DOCUMENT["paths"].items() for verb in verbs}
    assert documented == {(route.verb, route.template) for route in rest.ROUTES}
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"


def test_every_reference_leads_to_something_and_every_schema_is_one() -> None:
    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        assert found
    used = {r.rsplit("/", 1)[1] for r in references(DOCUMENT)}
    assert used >= DOCUMENT["components"]["schemas"].keys()
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def test_operation_ids_are_unique_and_its_parameters_are_those_of_the_call() -> None:
    ids = [operation(route)["operationId"] for route in rest.ROUTES]
    assert len(ids) == len(set(ids))
    for route in rest.ROUTES:
        found = operation(route)
        named = {p["name"] for p in found["parameters"]} - {"x-hyphae-project"}
        if "requestBody" in found:
            named |= found["requestBody"]["content"]["application/json"]["schema"]["properties"].keys()
        assert named == route.spec.by_name.keys(), route.template


@pytest.mark.parametrize("route", rest.ROUTES, ids=lambda r: f"{r.verb} {r.template}")
def test_its_examples_are_complete_calls(route: rest.Route) -> None:
    found = operation(route)
    args = {p["name"]: p["example"] for p in found["parameters"] if "example" in p and p["in"] != "header"}
    args |= found.get("requestBody", {"content": {"application/json": {}}})["content"][
        "application/json"
    ].get("example", {})
    assert check(route.spec, args).keys() == args.keys()


@pytest.mark.parametrize("route", rest.ROUTES, ids=lambda r: f"{r.verb} {r.template}")
def test_limits_of_arguments_are_in_it(route: rest.Route) -> None:
    found = operation(route)
    schemas = {p["name"]: p["schema"] for p in found["parameters"]}
    if "requestBody" in found:
        schemas |= found["requestBody"]["content"]["application/json"]["schema"]["properties"]
    for argument in route.spec.arguments:
        schema = schemas[argument.name]
        inner = schema.get("items", schema) if argument.kind in {"strings", "integers"} else schema
        assert schema.get("maxItems", schema.get("maxProperties")) == argument.max_items
        assert inner.get("maximum") == argument.maximum
        if argument.kind in {"string", "strings"} and not argument.enum:
            assert inner["maxLength"] == (argument.max_chars or argument.max_bytes)


def test_two_shapes_of_one_name_are_a_defect() -> None:
    one, other = ObjectSpec("X", "one", ()), ObjectSpec("X", "other", (text("a", "b"),))
    with pytest.raises(ValueError, match="two shapes are called X"):
        shapes_of([one, other])
    assert shapes_of([one, ObjectSpec("X", "one", ())]) == {"X": one}


def test_only_operations_for_the_peer_s_own_commands_have_no_route() -> None:
    routed = {route.call for route in rest.ROUTES} | {"list_beacons"}  # REST pages them
    assert (TOOLS.keys() | OPERATIONS.keys()) - routed == {"tail", "verify_log", "shutdown"}


def test_it_is_plain_json_of_moderate_size() -> None:
    data = openapi.encoded("1.2.3")
    assert json.loads(data) == DOCUMENT
    assert len(data) < 200_000


def test_the_page_of_routes_is_current() -> None:
    page = (ROOT / rest_docs.PAGE).read_text(encoding="utf-8")
    assert page == rest_docs.render(), "run `make docs`"
