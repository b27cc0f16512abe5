"""The three parts of what an agent reads of an error, whoever raised it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_gateway.authentication import find_key, key_of_headers
from mcp_gateway.dispatcher import error_text
from mcp_gateway.error_texts import explained
from mcp_gateway.tools import TOOLS
from proto.errors import (
    TABLE,
    Conflict,
    Corrupted,
    Forbidden,
    HyphaeError,
    Internal,
    Invalid,
    NotFound,
    Overloaded,
    ProtocolError,
    Unauthenticated,
    Unavailable,
    Uncertain,
)
from tests.support.mcp_agent import check_error

# What the way to a peer, its log, its model and its doors say: one of each kind that an agent can come across.
MESSAGES: list[tuple[HyphaeError, str]] = [
    (
        Unavailable("no connection to NATS. Check HYPHAE_NATS_URL, and that the mesh runs."),
        "unavailable: no connection to NATS. Nothing was searched."
        " Check HYPHAE_NATS_URL, and that the mesh runs.",
    ),
    (
        Unavailable("NATS is there, but no peer of a mesh is heard on it. Start one: hyphae up."),
        "unavailable: NATS is there, but no peer of a mesh is heard on it. Nothing was searched."
        " Start one: hyphae up.",
    ),
    (
        Unavailable("no peer could be asked."),
        "unavailable: no peer could be asked. Nothing was searched. Work on; call recall again later.",
    ),
    (
        Unavailable("the local peer is still starting. Nothing was stored. Try again.", retry_after_ms=3_000),
        "unavailable: the local peer is still starting. Nothing was searched. Try again.",
    ),
    (
        Unavailable("the log cannot be read: disk I/O error."),
        "unavailable: the log cannot be read: disk I/O error. Nothing was searched."
        " Work on; call recall again later.",
    ),
    (
        Unavailable("the embedding model is away.", retry_after_ms=60_000),
        "unavailable: the embedding model is away. Nothing was searched. Try again in 60 s.",
    ),
    (
        Uncertain("no answer from 127.0.0.1:4974 within 30 s."),
        "unavailable: no answer from 127.0.0.1:4974 within 30 s. Nothing was searched."
        " Work on; call recall again later.",
    ),
    (
        Overloaded("40 calls of this peer are under way, limit 40. Nothing was done.", retry_after_ms=250),
        "overloaded: 40 calls of this peer are under way, limit 40. Nothing was searched. Try again in 1 s.",
    ),
    (
        Corrupted("event 7 is missing from the log; run `hyphae log verify`"),
        "corrupted: event 7 is missing from the log; run `hyphae log verify` Nothing was searched."
        " Work on; the operator of the mesh can run `hyphae log verify`.",
    ),
    (
        Internal("a peer answered what is no reply: x."),
        "internal: a peer answered what is no reply: x. Nothing was searched."
        " Call recall once more; if it fails again, tell the operator of the mesh.",
    ),
    (
        Unauthenticated(
            "no key: HYPHAE_API_KEY is not set and /etc/key does not exist. Run `hyphae init`, or set it."
        ),
        "unauthenticated: no key: HYPHAE_API_KEY is not set and /etc/key does not exist."
        " Nothing was searched. Run `hyphae init`, or set it.",
    ),
]


@pytest.mark.parametrize(
    ("error", "text"), MESSAGES, ids=lambda v: v.code if isinstance(v, HyphaeError) else ""
)
def test_what_is_missing_of_the_three_parts_is_added(error: HyphaeError, text: str) -> None:
    assert error_text(explained(TOOLS["recall"], error, in_doubt=not error.definite)) == text


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("in_doubt", [False, True])
@pytest.mark.parametrize(
    "message", ["it went wrong.", "x" * 2_000, f"{'x' * 400}. Nothing was changed. Wait a minute."]
)
@pytest.mark.parametrize(
    "kind",
    [Unauthenticated, NotFound, Overloaded, Unavailable, ProtocolError, Corrupted, Internal],
    ids=lambda k: k.code,
)
def test_every_tool_says_all_three_parts_of_every_error(
    tool: str, in_doubt: bool, message: str, kind: type[HyphaeError]
) -> None:
    error = explained(TOOLS[tool], kind(message), in_doubt=in_doubt, key="k7f3a9")
    assert error.code in TABLE
    check_error(error_text(error))


@pytest.mark.parametrize("kind", [Invalid, Forbidden, Conflict])
def test_what_says_all_three_parts_is_left_as_it_is(kind: type[HyphaeError]) -> None:
    said = "this is wrong. Nothing was stored. Do that instead."
    assert explained(TOOLS["store"], kind(said), in_doubt=False).message == said
    changed = said.replace("stored", "changed")
    assert explained(TOOLS["store"], kind(changed), in_doubt=False).message == said
    assert "Nothing was placed." in explained(TOOLS["place_beacon"], kind(changed), in_doubt=False).message


def test_what_waiting_helps_against_says_how_long_in_the_text() -> None:
    error = explained(TOOLS["store"], Overloaded("full.", retry_after_ms=7_000), in_doubt=False)
    assert (error.retry_after_ms, error.message) == (7_000, "full. Nothing was stored. Try again in 7 s.")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "none"),
        ({}, "."),
        ({"HYPHAE_API_KEY": "hyp_short"}, "."),
        ({"HYPHAE_API_KEY_FILE": "gone"}, "."),
        ({"HYPHAE_API_KEY_FILE": "/"}, "."),
    ],
)
def test_every_refusal_of_a_key_says_how_to_get_one(
    tmp_path: Path, environment: dict[str, str], folder: str
) -> None:
    (tmp_path / "token").write_text("no key")
    with pytest.raises(Unauthenticated) as caught:
        find_key(environment, tmp_path / folder)
    check_error(error_text(explained(TOOLS["drain_inbox"], caught.value, in_doubt=False)))


@pytest.mark.parametrize(("own", "authorization"), [([], ["Basic abc"]), (["a", "b"], [])])
def test_every_refusal_of_a_header_says_what_to_send(own: list[str], authorization: list[str]) -> None:
    with pytest.raises(Unauthenticated) as caught:
        key_of_headers(own, authorization)
    check_error(error_text(explained(TOOLS["drain_inbox"], caught.value, in_doubt=False)))
