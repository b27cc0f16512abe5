"""The OpenAPI document against a real peer, by a fuzzer that is driven by it.

Tried is what the document allows and what it forbids, in every place, with an admin's key.  Left out, and why:

* the stateful phase: without links it guesses sequences; `test_result_shapes` walks through the real ones;
* `use_after_free` and `ensure_resource_availability`: an erased or withdrawn thing answers as one never there,
  and withdrawing twice changes nothing by design;
* `object_level_authorization`: who sees what has its own tests with two keys (`test_walls`);
* `negative_data_rejection` as it is: a number as text, an enum in another case or null are spellings that the
  document does not show and the peer takes (`wrong_data_is_refused` knows them);
* `positive_data_acceptance` for cursors: they carry a checksum that no fuzzer hits.

The fuzzer learns ids from answers, so operations that end keys are tried in a run of their own, where it sees none:
else it revokes the key that it uses.  Shutting down is no route.
"""

from __future__ import annotations

import copy
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_gateway import openapi, rest
from tests.support.places import short_directory
from tests.support.schema_fuzzer import fuzz, strict
from tests.support.served_peer import served_peer

SEED = 20_261
EXAMPLES = 3
ENDS_KEYS = ("revoke_key", "rotate_key")
GROUPS = (
    ("store", "get_node"),
    ("store_bulk",),
    ("consolidate_scenes", "list_scenes", "get_scene", "explain_recall", "explain_entry"),
    ("recall", "query", "export", "whoami"),
    ("list_sessions", "open_session", "close_session", "drain_inbox", "diffs_since"),
    ("page_beacons", "place_beacon", "withdraw_beacon", "peers", "invite_peer", "retire_peer", "status"),
    ("list_keys", "issue_key"),
    ENDS_KEYS,
)


@pytest.fixture(scope="module")
def peer() -> Iterator[tuple[str, str]]:
    with (
        short_directory() as root,
        served_peer(root / "p", {"fuzz": ("read", "write", "admin")}) as (url, keys),
    ):
        yield url, keys["fuzz"]


def get(
    url: str,
    path: str,
    key: str | None,
    verb: str = "GET",
    body: bytes | None = None,
    media: str = "application/json",
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    headers = {} if key is None else {"x-hyphae-key": key}
    try:
        connection.request(verb, path, body, headers if body is None else {**headers, "content-type": media})
        answer = connection.getresponse()
        return answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def document(peer: tuple[str, str]) -> Any:
    status, headers, body = get(peer[0], "/openapi.json", peer[1])
    assert (status, headers["content-type"]) == (200, "application/json")
    return json.loads(body)


def test_every_operation_is_in_one_group(document: Any) -> None:
    operations = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert sorted(operations) == sorted(operation for group in GROUPS for operation in group)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_the_peer_does_what_its_document_says(
    peer: tuple[str, str], document: Any, group: tuple[str, ...]
) -> None:
    failures, requests = fuzz(*peer, strict(document), seed=SEED, examples=EXAMPLES, operations=group)
    assert not failures, "\n\n".join(failures[:10])
    assert requests > 10 * len(group)
    assert get(peer[0], "/v1/status", peer[1])[0] == 200


def test_the_fuzzer_sees_a_document_that_is_wrong(peer: tuple[str, str], document: Any) -> None:
    wrong = copy.deepcopy(strict(document))
    wrong["components"]["schemas"]["Caller"]["properties"]["scopes"]["type"] = "string"
    del wrong["paths"]["/v1/status"]["get"]["responses"]["200"]
    wrong["paths"]["/v1/explain/inbox/{diff_id}"]["get"]["parameters"][0]["schema"]["pattern"] = "^[^/:]+$"
    tried = ("whoami", "status", "explain_entry")
    failures, _ = fuzz(*peer, wrong, seed=SEED, examples=1, operations=tried)
    seen = {tuple(f.split(": ")[:2]) for f in failures}
    assert ("GET /v1/whoami", "response_schema_conformance") in seen
    assert ("GET /v1/status", "status_code_conformance") in seen
    assert ("GET /v1/explain/inbox/{diff_id}", "good_data_is_accepted") in seen


def test_the_document_needs_a_key_and_its_path_answers_get_and_head_alone(peer: tuple[str, str]) -> None:
    url, key = peer
    assert get(url, "/openapi.json", None)[0] == 401
    assert get(url, "/openapi.json", key, "HEAD")[::2] == (200, b"")
    status, headers, _ = get(url, "/openapi.json", key, "POST")
    assert (status, headers["allow"]) == (405, "GET")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nodes/", 404),
        ("/v1/status/", 404),
        ("/v1/nodes/a%2Fb", 404),
        ("/v1/nodes/%FF%FE", 400),
        ("/v1/nodes/%00", 400),
        ("/v1/nodes/6f9619ff-8b86-d011-b42d-00cf4fc964ff", 404),
        ("/v1/export?limit=%FF", 400),
        ("/v1/export?limit=5&limit=6", 400),
        ("/v1/export?limit=null", 400),
        ("/v1/export?limit=7.0", 200),
        ("/v1/export?project=", 400),
        ("/v1/explain/recall?node_id=6f9619ff-8b86-d011-b42d-00cf4fc964ff&query=x&tags=a&tags=b", 404),
        ("/v1/explain/recall?node_id=6f9619ff-8b86-d011-b42d-00cf4fc964ff&query=x&tags=a", 404),
    ],
)
def test_odd_paths_and_queries_are_answered_as_json(peer: tuple[str, str], path: str, status: int) -> None:
    answered, headers, body = get(peer[0], path, peer[1])
    assert answered == status, body
    assert headers["content-type"] == "application/json"
    assert isinstance(json.loads(body), dict)


@pytest.mark.parametrize("route", rest.ROUTES, ids=lambda r: f"{r.verb} {r.template}")
def test_options_and_other_verbs_are_405_with_what_is_answered(
    peer: tuple[str, str], route: rest.Route
) -> None:
    found = rest.find(route.template.replace("{", "").replace("}", ""))
    assert found is not None
    for verb in ("OPTIONS", "PATCH", "TRACE"):
        status, headers, body = get(peer[0], route.template.replace("{", "").replace("}", ""), None, verb)
        assert status == 405, body
        assert set(headers["allow"].split(", ")) == set(found.by_verb)
        assert not any(name.startswith("access-control") for name in headers)


def test_refusals_have_the_status_that_is_documented(peer: tuple[str, str], document: Any) -> None:
    url, key = peer
    cell = {"content": "x", "cell_type": "Fact", "idempotency_key": "refusals"}

    def store(body: Any, media: str = "application/json") -> tuple[int, str]:
        status, _, answer = get(url, "/v1/nodes", key, "POST", json.dumps(body).encode(), media)
        return status, json.loads(answer).get("error", {}).get("code", "")

    assert store(cell) == (200, "")
    found = {
        store({**cell, "content": "y"}),
        store({**cell, "session_id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}),
        store({**cell, "content": "x" * 1_100_000}),
        store(cell, "text/plain"),
        store([cell]),
    }
    assert found == {
        (409, "conflict"),
        (404, "not_found"),
        (413, "invalid"),
        (415, "invalid"),
        (400, "invalid"),
    }
    documented = document["paths"]["/v1/nodes"]["post"]["responses"].keys()
    assert {str(status) for status, _ in found} <= documented


def test_head_answers_as_get_without_the_body(peer: tuple[str, str]) -> None:
    for path in ("/v1/whoami", "/v1/export", "/v1/nodes/unknown"):
        status, headers, _ = get(peer[0], path, peer[1])
        head = get(peer[0], path, peer[1], "HEAD")
        assert (head[0], head[2]) == (status, b"")
        assert head[1]["content-type"] == headers["content-type"] == "application/json"


def test_the_document_is_made_once() -> None:
    assert openapi.encoded("1") is openapi.encoded("1")
