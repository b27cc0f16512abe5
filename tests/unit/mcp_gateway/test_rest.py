"""The table of routes, and requests to arguments."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_gateway import operations, rest
from proto.errors import Invalid, Overloaded


def test_every_route_names_a_method_that_exists() -> None:
    for route in rest.ROUTES:
        assert operations.find(route.call) is route.spec


@pytest.mark.parametrize("route", rest.ROUTES, ids=lambda r: f"{r.verb} {r.template}")
def test_every_route_is_found_by_its_path(route: rest.Route) -> None:
    path = route.template.replace("{node_id}", "n1").replace("{id}", "k1").replace("{beacon_id}", "b1")
    found = rest.find(path)
    assert found is not None
    assert found.by_verb[route.verb] is route
    assert all(value in {"n1", "k1", "b1"} for value in found.args.values())


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/nodes/", "/v1/nodes/a/b", "/v1/nodes/a:b", "/v1/keys/a:rotate:rotate", "/v2/nodes", ""],
)
def test_other_paths_are_not_found(path: str) -> None:
    assert rest.find(path) is None


@pytest.mark.parametrize(
    ("query", "body", "args"),
    [
        (b"", b"", {}),
        (b"", b" \n", {}),
        (b"", b'{"a":[1]}', {"a": [1]}),
        (b"k=5&project=b%C3%BCro", b"", {"k": "5", "project": "büro"}),
        (b"tags=a&tags=b&tags=c", b"", {"tags": ["a", "b", "c"]}),
        (b"k=", b"", {"k": ""}),
        (b"k=1", b'{"query":"x"}', {"k": "1", "query": "x"}),
    ],
)
def test_arguments_come_from_query_and_body(query: bytes, body: bytes, args: dict[str, Any]) -> None:
    assert rest.collect({}, query, body) == args
    assert rest.collect({"id": "x"}, query, body) == {"id": "x", **args}


@pytest.mark.parametrize(
    ("query", "body"),
    [
        (b"", b"["),
        (b"", b"[]"),
        (b"", b"5"),
        (b"", b"\xff"),
        (b"", b'{"a":NaN}'),
        (b"", b'{"id":"y"}'),
        (b"id=y", b""),
        (b"a=1", b'{"a":1}'),
        (b"&".join(b"a%d=1" % n for n in range(60)), b""),
    ],
)
def test_what_is_no_object_or_given_twice_is_refused(query: bytes, body: bytes) -> None:
    with pytest.raises(Invalid):
        rest.collect({"id": "x"}, query, body)


def test_an_error_is_shown_with_its_fields_and_status() -> None:
    error = Overloaded("full.", retry_after_ms=1_500)
    assert rest.error_status(error) == 429
    assert rest.retry_after(error) == [(b"retry-after", b"2")]
    assert rest.error_body(error) == {
        "error": {"code": "overloaded", "message": "full.", "definite": True, "retry_after_ms": 1_500}
    }
