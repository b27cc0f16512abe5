"""Characters that deceive are written as escapes, on terminals and in every error text."""

from __future__ import annotations

import pytest

from mcp_gateway.arguments import check
from mcp_gateway.error_texts import explained
from mcp_gateway.tools import TOOLS
from mcp_gateway.unseen import visible
from proto.errors import Invalid, NotFound


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("\u202egpj", "\\u202egpj"),
        ("a\u200bb", "a\\u200bb"),
        ("\x9b", "\\x9b"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("Büro 支払い 🙂", "Büro 支払い 🙂"),
    ],
)
def test_what_cannot_be_seen_is_escaped_and_nothing_else(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_an_error_of_the_service_shows_what_was_sent_harmlessly() -> None:
    error = explained(TOOLS["get_scene"], NotFound("no scene \x1b[2J\x07 is known here."), in_doubt=False)
    assert "\\x1b[2J\\x07" in error.message
    assert "\x1b" not in error.message


def test_a_refused_argument_shows_what_was_sent_harmlessly() -> None:
    with pytest.raises(Invalid) as caught:
        check(TOOLS["get_scene"], {"scene_id": "\x1b[2J\u202e"})
    assert "\x1b" not in caught.value.message
    assert "\u202e" not in caught.value.message
