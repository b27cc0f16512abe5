"""What callers may send: accepted forms, refusals, and the texts of the refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_gateway.arguments import check, suggest
from mcp_gateway.operations import OPERATIONS
from mcp_gateway.tools import TOOLS
from proto import limits
from proto.errors import Invalid

STORE = {"content": "we retry payments", "cell_type": "Decision"}
RECALL = {"query": "payments"}


def refused(call: str, **raw: Any) -> str:
    """Return the text of the refusal, as an agent reads it."""
    spec = TOOLS.get(call) or OPERATIONS[call]
    with pytest.raises(Invalid) as caught:
        check(spec, raw)
    text = f"invalid: {caught.value.message}"
    assert len(text) <= 300
    assert caught.value.definite
    assert ("Nothing was stored." in text) == spec.stores
    return text


def recall(**raw: Any) -> dict[str, Any]:
    return check(TOOLS["recall"], {**RECALL, **raw})


@pytest.mark.parametrize("value", [5, 5.0, "5", " 5 ", "5.0", "+5", "05"])
def test_a_whole_number_is_read_in_any_form(value: Any) -> None:
    result = recall(k=value)
    assert result["k"] == 5
    assert type(result["k"]) is int


@pytest.mark.parametrize(
    "value",
    ["12px", "", " ", "NaN", "5.5", 5.5, True, False, [5], {}, "1e1", "٣", float("nan"), float("inf"), "0x5"],
)
def test_what_is_no_whole_number_is_refused_by_name(value: Any) -> None:
    assert refused("recall", **RECALL, k=value).startswith("invalid: k is ")


@pytest.mark.parametrize("value", [0, -1, 101, 10**9, 10**400, "500", 1e300])
def test_a_number_out_of_range_is_refused_with_the_range(value: Any) -> None:
    assert "allowed 1 to 100" in refused("recall", **RECALL, k=value)


def test_the_ends_of_a_range_are_allowed() -> None:
    assert recall(k=1)["k"] == 1
    assert recall(k=100)["k"] == 100
    assert refused("recall", **RECALL, k=500) == (
        "invalid: k is 500; allowed 1 to 100. Nothing was searched."
        ' Example: {"query": "how are payments retried", "k": 10}'
    )


@pytest.mark.parametrize("value", [0.9, "0.9", " .9 ", "9e-1", "0.90"])
def test_a_number_is_read_in_any_form(value: Any) -> None:
    assert check(TOOLS["store"], {**STORE, "salience": value})["salience"] == 0.9


@pytest.mark.parametrize(
    "value", ["high", "", "nan", "inf", float("inf"), float("nan"), True, "0,9", 1.01, -0.1, 5, 10**400]
)
def test_what_is_no_share_is_refused_by_name(value: Any) -> None:
    assert "salience" in refused("store", **STORE, salience=value)


@pytest.mark.parametrize("value", [True, "true", "True", " TRUE "])
def test_true_is_read_as_text_too(value: Any) -> None:
    assert recall(include_content=value)["include_content"] is True


@pytest.mark.parametrize("value", [1, 0, "yes", "", "1", [], {}])
def test_what_is_neither_true_nor_false_is_refused(value: Any) -> None:
    assert "give true or false" in refused("recall", **RECALL, include_content=value)


@pytest.mark.parametrize("value", ["Decision", "decision", "DECISION", " decision "])
def test_an_enum_value_is_read_in_any_case(value: str) -> None:
    assert check(TOOLS["store"], {**STORE, "cell_type": value})["cell_type"] == "Decision"


@pytest.mark.parametrize("value", [["a", "b"], ("a", "b"), '["a","b"]', ' ["a", "b"]'])
def test_an_array_is_read_as_json_text_too(value: Any) -> None:
    assert recall(tags=value)["tags"] == ["a", "b"]


@pytest.mark.parametrize(
    "value", ["a", "[", "[a]", '{"a":1}', {}, 5, True, [1], [None], [["a"]], "[1]", "[" * 9999]
)
def test_what_is_no_array_of_text_is_refused(value: Any) -> None:
    assert "tags" in refused("recall", **RECALL, tags=value)


def test_items_are_checked_like_values() -> None:
    assert recall(cell_types=["decision", "RISK"])["cell_types"] == ["Decision", "Risk"]
    placed = check(TOOLS["place_beacon"], {"interest": "x", "layers": ["0", 1.0]})
    assert placed["layers"] == [0, 1]
    assert "an item of cell_types" in refused("recall", **RECALL, cell_types=["Opinion"])
    assert "allowed 0 to 2" in refused("place_beacon", interest="x", layers=[3])


def test_null_and_an_empty_array_mean_absent() -> None:
    everything = dict.fromkeys(TOOLS["recall"].by_name)
    assert check(TOOLS["recall"], {**everything, **RECALL}) == RECALL
    assert recall(tags=[], cell_types="[]") == RECALL


def test_an_empty_array_is_refused_where_absent_would_mean_more() -> None:
    assert "scopes is empty" in refused("issue_key", agent="a", scopes=[])
    assert "projects is empty" in refused("issue_key", agent="a", projects={})
    assert "cells is empty" in refused("store_bulk", cells=[])


def test_the_text_null_is_text() -> None:
    assert recall(project="null")["project"] == "null"


def test_a_missing_argument_is_named_with_a_whole_example() -> None:
    text = refused("store", content="x")
    assert text.startswith("invalid: cell_type is missing; one of Decision, Constraint, Risk, ")
    assert text.endswith('Nothing was stored. Example: {"content": "...", "cell_type": "Decision"}')
    assert "content is missing" in refused("store")
    assert "content is missing" in refused("store", content=None, cell_type="Fact")


def test_an_unknown_argument_is_named_with_what_was_probably_meant() -> None:
    assert refused("recall", **RECALL, limit=5).startswith(
        "invalid: recall has no argument limit; did you mean k? It takes query, k, include_content, project,"
    )
    assert "did you mean limit?" in refused("drain_inbox", k=5)
    assert "did you mean cell_type?" in refused("store", **STORE, type="Fact")
    assert "did you mean salience?" in refused("store", **STORE, saliense=1)
    assert "It takes no arguments." in refused("list_beacons", verbose=True)
    assert refused("recall", **RECALL, zzzzzz=None).startswith("invalid: recall has no argument zzzzzz. It")


@pytest.mark.parametrize("name", ["source_agent", "tenant_id", "agent_id", "owner"])
def test_an_identity_cannot_be_claimed_by_any_tool(name: str) -> None:
    for tool in TOOLS.values():
        text = refused(tool.name, **{name: "someone"})
        assert f"has no argument {name}" in text


@pytest.mark.parametrize("name", ["a" * 100_000, "\ud800", "\x1b[31m\n", '"', ""])
def test_a_hostile_argument_name_is_shown_short_and_plain(name: str) -> None:
    text = refused("recall", **{**RECALL, name: 1})
    text.encode("utf-8")
    assert "\n" not in text
    assert "\x1b" not in text


def test_content_is_kept_byte_for_byte() -> None:
    text = " \tnaïve\u0000 日本語 👩‍👩‍👧 שלום \u202e \r\n\u2028 e\u0301 "
    assert check(TOOLS["store"], {**STORE, "content": text})["content"] == text


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000"])
def test_blank_content_is_refused(text: str) -> None:
    assert "content is" in refused("store", content=text, cell_type="Fact")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "ok \ud83d"])
def test_half_of_a_surrogate_pair_is_refused_everywhere(text: str) -> None:
    assert "surrogate" in refused("store", content=text, cell_type="Fact")
    assert "surrogate" in refused("recall", query=text)
    assert "surrogate" in refused("recall", **RECALL, tags=[text])


@pytest.mark.parametrize(
    ("call", "name", "limit"),
    [
        ("store", "content", limits.CONTENT_BYTES),
        ("recall", "query", limits.QUERY_BYTES),
        ("place_beacon", "interest", limits.INTEREST_BYTES),
    ],
)
def test_a_size_in_bytes_is_allowed_to_its_limit_and_not_beyond(call: str, name: str, limit: int) -> None:
    base = {"cell_type": "Fact"} if call == "store" else {}
    assert check(TOOLS[call], {**base, name: "é" * (limit // 2)})
    text = refused(call, **{**base, name: "é" * (limit // 2) + "a"})
    assert f"{name} has {limit + 1} bytes; the limit is {limit} bytes" in text
    assert "éé" not in text


@pytest.mark.parametrize(
    ("call", "name", "limit"),
    [
        ("store", "project", limits.PROJECT_CHARS),
        ("store", "idempotency_key", limits.IDEMPOTENCY_KEY_CHARS),
        ("open_session", "title", limits.TITLE_CHARS),
    ],
)
def test_a_size_in_characters_is_allowed_to_its_limit_and_not_beyond(
    call: str, name: str, limit: int
) -> None:
    base = STORE if call == "store" else {}
    assert check(TOOLS[call], {**base, name: "é" * limit})
    assert f"the limit is {limit}" in refused(call, **{**base, name: "é" * (limit + 1)})


def test_arrays_are_allowed_to_their_limits_and_not_beyond() -> None:
    assert recall(tags=["t" * limits.TAG_CHARS] * limits.TAGS)
    assert "tags has 33 items; the limit is 32" in refused("recall", **RECALL, tags=["t"] * 33)
    assert "the limit is 64" in refused("recall", **RECALL, tags=["t" * 65])
    assert check(TOOLS["store"], {**STORE, "derived_from": ["6f9619ff"] * limits.DERIVED_FROM})
    assert "the limit is 64" in refused("store", **STORE, derived_from=["6f9619ff"] * 65)


def test_an_id_reads_like_one_and_only_that_of_a_memory_may_be_its_beginning() -> None:
    whole = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
    assert check(TOOLS["close_session"], {"session_id": f" {whole} "}) == {"session_id": whole}
    assert check(TOOLS["store"], {**STORE, "supersedes": "6F9619FF"})["supersedes"] == "6F9619FF"
    for wrong in ("6f9619ff", "the old one", whole[:-1], whole + "0"):
        assert "no id" in refused("close_session", session_id=wrong)
    for wrong in ("6f9619f", "the old one", whole + "0"):
        assert "no id" in refused("store", **STORE, supersedes=wrong)


def test_a_name_is_one_line_without_control_characters() -> None:
    assert recall(project="Büro 3 — 支払い")
    assert "control character" in refused("recall", **RECALL, project="a\nb")
    assert "control character" in refused("store", **STORE, tags=["\x1b[31m"])


def test_an_optional_text_is_left_out_or_said() -> None:
    assert "leave it out or give some text" in refused("recall", **RECALL, project="")


@pytest.mark.parametrize("value", ["24h", " 7d ", "2026-11-30T09:00:00Z", "2026-11-30"])
def test_a_moment_is_kept_as_text(value: str) -> None:
    assert recall(since=value)["since"] == value.strip()


@pytest.mark.parametrize(
    "value", ["yesterday", "", "3M", "-5h", "24", "2026-13-01", True, [], {}, "h" * 5000]
)
def test_what_is_no_moment_is_refused_with_the_forms(value: Any) -> None:
    assert "give 2026-11-30T09:00:00Z, a span such as 24h or 7d" in refused("recall", **RECALL, since=value)


@pytest.mark.parametrize("value", [1758344479, 1758344479000, "1758344479", "1758344479000", 1758344479.5])
def test_an_epoch_number_is_refused_with_the_reason(value: Any) -> None:
    text = refused("diffs_since", since=value)
    assert "seconds and milliseconds look alike" in text
    assert "24h" in text


def test_projects_of_a_key_are_an_object_of_rights() -> None:
    issued = check(OPERATIONS["issue_key"], {"agent": "a", "projects": {"billing": "RW", "web": "r"}})
    assert issued["projects"] == {"billing": "rw", "web": "r"}
    as_text = check(OPERATIONS["issue_key"], {"agent": "a", "projects": json.dumps({"web": "r"})})
    assert as_text["projects"] == {"web": "r"}
    assert "a right in projects" in refused("issue_key", agent="a", projects={"web": "x"})
    assert "projects is an array" in refused("issue_key", agent="a", projects=["web"])


def test_cells_of_a_bulk_store_are_objects_that_are_judged_one_by_one() -> None:
    cells = [{"content": ""}, {}]
    assert check(OPERATIONS["store_bulk"], {"cells": cells})["cells"] == cells
    assert "an item of cells" in refused("store_bulk", cells=["text"])
    assert "the limit is 256" in refused("store_bulk", cells=[{}] * 257)


def test_the_order_of_the_result_is_that_of_the_table() -> None:
    assert list(check(TOOLS["store"], {"project": "p", "cell_type": "fact", "content": "c"})) == [
        "content",
        "cell_type",
        "project",
    ]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("limit", ["k", "query"], "k"),
        ("k", ["limit"], "limit"),
        ("top_k", ["limit"], "limit"),
        ("Content", ["content"], "content"),
        ("sesion_id", ["session_id"], "session_id"),
        ("zzz", ["content"], None),
        ("", ["content"], None),
    ],
)
def test_a_suggestion_is_a_known_name_or_none(name: str, known: list[str], meant: str | None) -> None:
    assert suggest(name, known) == meant
