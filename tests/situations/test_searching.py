"""Searching: nothing near, too much, long texts, other languages, ids."""

from __future__ import annotations

import uuid

import pytest

from tests.situations.stage import Stage, situation, situation_without_model
from tests.support.mcp_agent import McpAgent


@situation
async def test_nothing_near_is_said(stage: Stage) -> None:
    alice = await stage.agent("alice")
    await alice("store", content="The bank drops one in fifty payments.", cell_type="Fact")
    far = await alice("recall", query="which colour should the office walls have")
    assert far["results"][0]["distance"] > 0.8
    assert far.note == "Nothing within distance 0.8: these are probably unrelated. Try other words."
    near = await alice("recall", query="payments that the bank drops")
    assert (near["results"][0]["distance"] < 0.6, near.note) == (True, "")
    other_words = await alice("recall", query="how often does paying fail")
    assert (0.6 < other_words["results"][0]["distance"] < 0.8, other_words.note) == (True, "")


@situation
async def test_filters_that_exclude_everything_are_named(stage: Stage) -> None:
    alice = await stage.agent("alice")
    await alice("store", content="Deploys are frozen on Fridays.", cell_type="Constraint", tags=["deploy"])
    none = await alice("recall", query="deploy freeze", cell_types=["Decision"], tags=["deploy"], since="1h")
    assert none["results"] == []
    assert none.note == "Nothing passes these filters. Widen or leave out cell_types, tags, since."
    assert len((await alice("recall", query="deploy freeze", tags=["deploy"]))["results"]) == 1
    assert len((await alice("recall", query="deploy freeze"))["results"]) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Zahlungen werden dreimal wiederholt, weil die Bank 1 von 50 verliert. Größe: 4 €",
            "Zahlungen Bank",
        ),
        ("Платежи повторяются три раза, потому что банк теряет один из пятидесяти.", "платежи банк"),
        ("支払いは三回まで再試行する。銀行が五十件に一件を落とすから。👩‍👩‍👧", "支払い 再試行"),
        ("התשלומים נשלחים שוב שלוש פעמים כי הבנק מאבד אותם", "התשלומים הבנק"),
    ],
    ids=["German", "Russian", "Japanese", "Hebrew"],
)
def test_other_languages_are_kept_and_found(stage: Stage, text: str, words: str) -> None:
    async def play() -> None:
        alice, bob = await stage.agent("alice"), await stage.agent("bob")
        await bob("place_beacon", interest="*")
        await alice("store", content="Payments are logged.", cell_type="Fact")
        await alice("store", content=text, cell_type="Decision", tags=["Größe"])
        found = await alice("recall", query=words, include_content=True)
        assert found["results"][0]["content"] == text
        assert text in [d["content"] for d in await bob.pages()]

    stage.runner.run(play())


@situation
async def test_the_last_sentence_of_a_long_text_is_found_and_read(stage: Stage) -> None:
    alice = await stage.agent("alice")
    text = "Notes of the architecture meeting. " + "We talked about many things at length. " * 300
    text += "The zirconium switch must stay off."
    stored = await alice("store", content=text, cell_type="Context")
    found = await alice("recall", query="zirconium switch", include_content=True)
    (hit,) = found["results"]
    assert (hit["node_id"], hit["content_chars"]) == (stored["node_id"], len(text))
    assert "recall with its node_id as query and include_content true reads one whole" in found.note
    whole = await alice("recall", query=hit["node_id"], include_content=True)
    assert whole["results"][0]["content"] == text


async def stored_of(agent: McpAgent, size: int) -> str:
    text = "line of a log\n" * (size // 14) + "x" * (size % 14)
    assert len(text.encode()) == size
    return str((await agent("store", content=text, cell_type="Context"))["node_id"])


@situation_without_model
async def test_a_text_too_long_for_any_result_says_where_it_is_whole(stage: Stage) -> None:
    alice = await stage.agent("alice")
    node_id = await stored_of(alice, 65_536)
    some = await alice("recall", query=node_id, include_content=True)
    assert 15_000 < len(some["results"][0]["content"]) < 20_000
    assert "Raise it, up to 45000" in some.note
    most = await alice("recall", query=node_id, include_content=True, max_bytes=45_000)
    assert 38_000 < len(most["results"][0]["content"]) < 45_000
    assert (most["results"][0]["content_chars"], "REST can: GET /v1/nodes/" in most.note) == (65_536, True)


@situation_without_model
async def test_a_huge_k_with_content_fits_and_says_how_to_see_the_rest(stage: Stage) -> None:
    alice = await stage.agent("alice")
    for n in range(60):
        await alice("store", content=f"finding {n} " + "about the outage " * 100, cell_type="Lesson")
    some = await alice("recall", query="outage", k=100, include_content=True)
    assert len(some["results"]) + some["cut"] == 60
    assert (
        f"{some['cut']} more did not fit max_bytes. Raise it, up to 45000, or narrow the filters."
        in some.note
    )
    more = await alice("recall", query="outage", k=100, include_content=True, max_bytes=45_000)
    assert len(some["results"]) < len(more["results"]) < 60
    assert "without include_content all ids fit" in more.note
    ids = await alice("recall", query="outage", k=100)
    assert (len(ids["results"]), ids.note) == (60, "")
    last = await alice("recall", query=ids["results"][-1]["node_id"], include_content=True)
    assert last["results"][0]["content"].startswith("finding ")


@situation
async def test_an_unknown_id_is_said_to_be_unknown(stage: Stage) -> None:
    alice = await stage.agent("alice")
    unknown = str(uuid.uuid4())
    assert (await alice("recall", query=unknown))["results"] == []
    await alice("store", content="The build is green.", cell_type="Fact")
    answered = await alice("recall", query=unknown, include_content=True)
    assert answered.note.startswith("No memory that you may read has this id; these were found by its text.")


@situation
async def test_an_error_text_and_a_path_find_what_was_learned_about_them(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    for n in range(12):
        await bob("store", content=f"The report of week {n} is sent on Monday.", cell_type="Fact")
    lesson = await bob(
        "store",
        content="ECONNRESET in src/payments/retry.ts comes from the proxy: raise keepalive to 75 s.",
        cell_type="Lesson",
    )
    for query in ("Error: read ECONNRESET at TLSWrap.onStreamRead", "src/payments/retry.ts"):
        found = await alice("recall", query=query, k=3)
        assert found["results"][0]["node_id"] == lesson["node_id"]


@situation
async def test_only_what_matters_and_is_new_is_asked_for(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    await bob("store", content="The queue is drained at night.", cell_type="Fact", salience="0.3")
    vital = await bob(
        "store", content="The queue must never be purged.", cell_type="Constraint", salience=0.95
    )
    found = await alice(
        "recall", query="queue", min_salience=0.8, since="7d", from_agents=["bob"], include_content=True
    )
    assert [r["node_id"] for r in found["results"]] == [vital["node_id"]]
    assert found["results"][0]["salience"] == 0.95
    assert (await alice("recall", query="queue", from_agents=["me"]))["results"] == []
