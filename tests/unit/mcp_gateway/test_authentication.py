"""Keys: their form, where they are found, and that they are never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_gateway.authentication import KeyText, find_key, key_of_headers, parse_key
from proto.errors import Unauthenticated

KEY = KeyText("alicekey", bytes(range(32))).format()
OTHER = KeyText("bobbykey23456777", bytes(32)).format()
NO_KEYS = [
    "",
    "hyp",
    KEY.upper(),
    KEY[:-1],
    KEY + "a",
    KEY + "\n",
    KEY[:-1] + "b",  # stray bits behind the last byte
    KEY.replace("hyp_", "hip_"),
    KEY.replace("alicekey", "short"),
    KEY.replace("alicekey", "a" * 17),
    KEY.replace("alicekey", "alice-ey"),
    KEY.replace("_", "-"),
    "sk-" + "a" * 40,
    "ключ",
    "\ud800",
    "a" * 1_000_000,
]


def test_a_key_is_parsed_into_its_parts_and_back() -> None:
    key = parse_key(KEY)
    assert (key.id, key.secret, key.format()) == ("alicekey", bytes(range(32)), KEY)
    assert parse_key(OTHER).format() == OTHER


@pytest.mark.parametrize("text", NO_KEYS, ids=range(len(NO_KEYS)))
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        parse_key(text)
    assert len(caught.value.message) < 300
    assert len(text) < 4 or text not in caught.value.message


def test_a_parsed_key_does_not_show_its_secret() -> None:
    assert "secret" not in repr(parse_key(KEY))
    assert KEY[-20:] not in repr(parse_key(KEY))


@pytest.mark.parametrize(
    ("hyphae_key", "authorization"),
    [
        ([KEY], []),
        ([f" {KEY} "], []),
        ([], [f"Bearer {KEY}"]),
        ([], [f"bearer  {KEY}"]),
        ([KEY], [f"Bearer {KEY}"]),
        ([KEY, KEY], []),
        ([KEY], ["Basic cHJveHk6cHJveHk="]),
    ],
)
def test_one_key_in_any_header_is_the_key(hyphae_key: list[str], authorization: list[str]) -> None:
    assert key_of_headers(hyphae_key, authorization) == KEY


def test_no_header_is_no_key() -> None:
    assert key_of_headers([], []) is None


@pytest.mark.parametrize(
    ("hyphae_key", "authorization"),
    [
        ([KEY], [f"Bearer {OTHER}"]),
        ([KEY, OTHER], []),
        ([""], []),
        (["nonsense"], []),
        ([KEY], ["Bearer "]),
        ([], ["Bearer"]),
        ([], ["Basic cHJveHk6cHJveHk="]),
    ],
)
def test_two_keys_or_none_in_a_header_are_refused(hyphae_key: list[str], authorization: list[str]) -> None:
    with pytest.raises(Unauthenticated) as caught:
        key_of_headers(hyphae_key, authorization)
    assert KEY not in caught.value.message


def test_a_key_is_looked_for_in_order(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{KEY}\n")
    file = tmp_path / "other"
    file.write_text(f"  {OTHER}\r\n")
    assert find_key({}, tmp_path) == KEY
    assert find_key({"HYPHAE_API_KEY_FILE": str(file)}, tmp_path) == OTHER
    assert find_key({"HYPHAE_API_KEY": KEY, "HYPHAE_API_KEY_FILE": str(file)}, tmp_path) == KEY
    assert find_key({"HYPHAE_API_KEY": " ", "HYPHAE_API_KEY_FILE": ""}, tmp_path) == KEY


def test_a_missing_key_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated) as caught:
        find_key({}, tmp_path)
    assert str(tmp_path / "token") in caught.value.message
    assert "HYPHAE_API_KEY" in caught.value.message
    with pytest.raises(Unauthenticated, match="does not exist"):
        find_key({"HYPHAE_API_KEY_FILE": str(tmp_path / "gone")}, tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"not a key", b"a" * 100_000, KEY.encode() * 2])
def test_a_file_that_holds_no_key_is_named_and_its_content_is_not_shown(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(Unauthenticated) as caught:
        find_key({}, tmp_path)
    assert str(tmp_path / "token") in caught.value.message
    assert KEY not in caught.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for bad in (str(tmp_path), f"{tmp_path}/\0", os.devnull):
        with pytest.raises(Unauthenticated):
            find_key({"HYPHAE_API_KEY_FILE": bad}, tmp_path)
