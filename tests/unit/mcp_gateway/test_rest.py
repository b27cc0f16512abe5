"""The table of routes, and requests to arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcp_gateway import operations, rest
from proto.errors import Invalid, Overloaded


def test_every_route_names_a_method_that_exists() -> None:
    for route in rest.ROUTES:
        assert operations.find(route.call) is route.spec


@pytest.mark.parametrize("route", rest.ROUTES, ids=lambda r: f"{r.verb} {r.template}")
def test_every_route_is_found_by_its_path(route: rest.Route) -> None:
    found = rest.find(re.sub(r"\{\w+\}", "n1", route.template))
    assert found is not None
    assert found.by_verb[route.verb] is route
    assert found.args == dict.fromkeys(route.in_path, "n1")


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
    ("query", "tags"),
    [(b"tags=a", ["a"]), (b"tags=a&tags=b", ["a", "b"]), (b"tags=[%22a%22]", '["a"]'), (b"tags=", [""])],
)
def test_an_array_in_the_query_may_have_one_item(query: bytes, tags: Any) -> None:
    spec = operations.find("recall")
    assert rest.collect({}, query, b"", spec) == {"tags": tags}


def test_a_scalar_in_the_query_stays_one() -> None:
    assert rest.collect({}, b"k=5&project=[x", b"", operations.find("recall")) == {"k": "5", "project": "[x"}


@pytest.mark.parametrize("query", [b"a=%FF", b"a=\xff", b"%C3=1"])
def test_a_query_that_is_no_utf_8_is_refused(query: bytes) -> None:
    with pytest.raises(Invalid, match="UTF-8"):
        rest.collect({}, query, b"")


def test_a_query_holds_three_full_filters_and_no_endless_list() -> None:
    assert len(rest.collect({}, b"&".join([b"tags=a"] * 200), b"")["tags"]) == 200
    with pytest.raises(Invalid, match="256 fields"):
        rest.collect({}, b"&".join([b"tags=a"] * 257), b"")


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
        (b"&".join(b"a%d=1" % n for n in range(300)), b""),
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
