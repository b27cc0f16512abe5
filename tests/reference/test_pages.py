"""The generated pages about the tools are what is rendered now."""

from __future__ import annotations

import asyncio
import re

import pytest

from mcp_gateway.tools import TOOLS
from tests.reference.__main__ import DOCS, index, play_on_a_new_peer
from tests.reference.pages import render_tool
from tests.reference.playing import Played
from tests.support.mcp_agent import check_error

_MEASURED = re.compile(r'"(distance|similarity)": [0-9.]+')  # the last digit depends on the processor


@pytest.fixture(scope="module")
def played() -> dict[str, Played]:
    return asyncio.run(play_on_a_new_peer())


@pytest.mark.parametrize("name", TOOLS)
def test_the_page_of_each_tool_is_current(played: dict[str, Played], name: str) -> None:
    page = (DOCS / "tools" / f"{name}.md").read_text("utf-8")
    rendered = render_tool(TOOLS[name], played[name])
    assert _MEASURED.sub(r"\1", page) == _MEASURED.sub(r"\1", rendered), "run: make docs"


def test_there_is_a_page_for_each_tool_and_no_other() -> None:
    assert {path.stem for path in (DOCS / "tools").glob("*.md")} == set(TOOLS)


def test_the_index_is_current_and_links_to_pages_that_exist() -> None:
    text = (DOCS / "llms.txt").read_text("utf-8")
    assert text == index(), "run: make docs"
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (DOCS / link).is_file(), link


@pytest.mark.parametrize("name", TOOLS)
def test_each_error_has_its_three_parts(played: dict[str, Played], name: str) -> None:
    for text in played[name].refusals.values():
        check_error(text)
