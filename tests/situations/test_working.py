"""A day's work: starting, deciding, telling others, losing context, coming back."""

from __future__ import annotations

from tests.situations.stage import Stage, situation
from tests.support.mcp_agent import McpAgent

RETRIES = "Payments are retried three times with an idempotency key, because the bank drops 1 in 50."
PGVECTOR = "Use pgvector for the storage backend, because we run Postgres anyway."


@situation
async def test_a_task_starts_with_a_session_the_inbox_and_a_recall(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    placed = await alice("place_beacon", interest="payment retries and idempotency")
    assert (placed["created"], placed["would_match"]["count"]) == (True, 0)
    stored = await bob("store", content=RETRIES, cell_type="Decision", salience=0.8)

    session = await alice("open_session", title="checkout errors")
    assert (session["project"], session["agent"], session["unread"]) == ("shop", "alice", 1)
    assert session["open_sessions"] == []
    own = {"session_id": session["session_id"]}
    page = await alice("drain_inbox", **own)
    assert [d["content"] for d in page["diffs"]] == [RETRIES]
    assert page["diffs"][0]["matched"][0]["interest"] == "payment retries and idempotency"
    assert (page["remaining"], page.note) == (0, "")
    found = await alice("recall", query="what happens when a payment fails", include_content=True)
    assert found["results"][0]["node_id"] == stored["node_id"]
    assert found["results"][0]["source_agent"] == "bob"
    await alice("store", content="Checkout shows a spinner while retrying.", cell_type="Fact", **own)
    assert (await alice("close_session", **own))["closed_at"].endswith("Z")
    assert (await alice("drain_inbox"))["diffs"] == [], "what the session read is read"


@situation
async def test_the_first_agent_of_a_team_is_told_what_to_do_first(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    found = await alice("recall", query="how do we deploy", include_content=True)
    assert found["results"] == []
    assert "store what others should know" in found.note
    empty = await alice("drain_inbox")
    assert "you have no beacon: place_beacon once per subject" in empty.note
    await alice("place_beacon", interest="deployment")
    assert (await alice("drain_inbox")).note == "", "nothing to say any more"
    await bob("store", content="Deployment runs from the release branch only.", cell_type="Constraint")
    assert len((await alice("drain_inbox"))["diffs"]) == 1


@situation
async def test_decisions_are_looked_for_before_a_choice(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    decision = await bob("store", content=PGVECTOR, cell_type="Decision")
    await bob("store", content="Looked at vector storage backends today.", cell_type="Context")
    found = await alice(
        "recall",
        query="which vector storage backend",
        include_content=True,
        cell_types=["Decision", "Constraint"],
    )
    assert [r["node_id"] for r in found["results"]] == [decision["node_id"]]
    assert (found["results"][0]["cell_type"], found["results"][0]["content"]) == ("Decision", PGVECTOR)


@situation
async def test_ids_alone_are_read_by_passing_one_as_the_query(stage: Stage) -> None:
    alice = await stage.agent("alice")
    stored = await alice("store", content=PGVECTOR, cell_type="Decision")
    found = await alice("recall", query="vector storage")
    assert [set(r) for r in found["results"]] == [{"node_id", "distance"}]
    whole = await alice("recall", query=found["results"][0]["node_id"], include_content=True)
    assert [(r["node_id"], r["content"]) for r in whole["results"]] == [(stored["node_id"], PGVECTOR)]
    short = await alice("recall", query=stored["node_id"][:8], include_content=True)
    assert short["results"] == whole["results"]


@situation
async def test_a_new_beacon_says_what_is_there_already_and_recall_finds_it(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    stored = await bob("store", content=RETRIES, cell_type="Decision")
    placed = await alice("place_beacon", interest="payment retries")
    assert placed["would_match"]["count"] == 1
    (example,) = placed["would_match"]["examples"]
    assert (example["node_id"], example["content"]) == (stored["node_id"], RETRIES)
    assert (await alice("drain_inbox"))["diffs"] == [], "what was there before does not arrive"
    found = await alice("recall", query=example["node_id"], include_content=True)
    assert found["results"][0]["content"] == RETRIES


@situation
async def test_new_decisions_are_not_on_layer_2_and_the_note_says_where_they_are(stage: Stage) -> None:
    alice = await stage.agent("alice")
    await alice("store", content=PGVECTOR, cell_type="Decision")
    for layer in (1, 2):
        empty = await alice("query", layer=layer, query="storage backend")
        assert empty["results"] == []
        assert "recall searches layer 0, where nearly everything is" in empty.note
    found = await alice("recall", query="storage backend", cell_types=["Decision"])
    assert len(found["results"]) == 1
    assert (await alice("query", layer=0, query="storage backend"))["results"] == found["results"]


@situation
async def test_after_a_loss_of_context_everything_is_found_again(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    await alice("place_beacon", interest="*")
    before = await alice("open_session", title="checkout errors")
    own = {"session_id": before["session_id"]}
    await bob("store", content=RETRIES, cell_type="Decision")
    assert len((await alice("drain_inbox", **own))["diffs"]) == 1
    mine = await alice("store", content="The spinner hides the second retry.", cell_type="Lesson", **own)

    back = await alice("open_session", title="going on")
    (still,) = back["open_sessions"]
    assert (still["session_id"], still["title"]) == (before["session_id"], "checkout errors")
    await alice("close_session", session_id=back["session_id"])
    assert (await alice("drain_inbox", session_id=still["session_id"]))["diffs"] == []
    again = await alice("diffs_since", since="24h")
    delivered = [d["content"] for d in again["diffs"]]
    assert delivered == [RETRIES, "The spinner hides the second retry."], (
        "sessions of one key hear each other"
    )
    assert again["has_more"] is False
    assert (await alice("diffs_since", since=again["next_since"]))["diffs"] == []
    stored = await alice("recall", query="spinner", from_agents=["me"], include_content=True)
    assert [r["node_id"] for r in stored["results"]] == [mine["node_id"]]
    assert stored["results"][0]["session_id"] == still["session_id"]


@situation
async def test_a_sub_agent_recalls_and_leaves_the_inbox_to_its_main_agent(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    await alice("place_beacon", interest="*")
    await bob("store", content=RETRIES, cell_type="Decision")
    sub_agent = alice  # the same key
    found = await sub_agent("recall", query="payment retries", include_content=True)
    assert found["results"][0]["content"] == RETRIES
    looked = await sub_agent("drain_inbox", advance=False)
    assert ([d["content"] for d in looked["diffs"]], looked["remaining"]) == ([RETRIES], 1)
    assert "Only looked: 1 wait, and drain_inbox without advance reads them." in looked.note
    assert [d["content"] for d in await alice.pages()] == [RETRIES]


@situation
async def test_two_agents_in_one_repository_hear_each_other_and_not_themselves(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    for agent in (alice, bob):
        await agent("place_beacon", interest="database migrations")
    asked = await alice("store", content="Database migrations run before the deploy.", cell_type="Decision")
    (heard,) = await bob.pages()
    assert (heard["node_id"], heard["source_agent"], heard["kind"]) == (asked["node_id"], "alice", "created")
    answer = await bob(
        "store",
        content="Database migrations must be reversible, because deploys are rolled back.",
        cell_type="Constraint",
        derived_from=[heard["node_id"]],
    )
    assert [d["node_id"] for d in await alice.pages()] == [answer["node_id"]]
    assert await bob.pages() == []


@situation
async def test_two_sessions_under_one_key_each_read_everything_once(stage: Stage) -> None:
    editor, terminal, bob = await stage.agent("alice"), await stage.agent("alice"), await stage.agent("bob")
    await editor("place_beacon", interest="*")
    sessions = [await agent("open_session") for agent in (editor, terminal)]
    news = [
        (await bob("store", content=f"The port of service {n} is {4000 + n}.", cell_type="Fact"))["node_id"]
        for n in range(3)
    ]
    for agent, session in zip((editor, terminal), sessions, strict=True):
        assert [d["node_id"] for d in await agent.pages(session_id=session["session_id"], limit=2)] == news
        assert await agent.pages(session_id=session["session_id"]) == []


@situation
async def test_sessions_one_after_the_other_read_each_entry_once(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    await alice("place_beacon", interest="*")
    for n in range(2):
        await bob("store", content=f"Release {n} is out.", cell_type="Fact")
        session = await alice("open_session")
        assert (session["unread"], session["open_sessions"]) == (1, [])
        (entry,) = await alice.pages(session_id=session["session_id"])
        assert entry["content"] == f"Release {n} is out."
        await alice("close_session", session_id=session["session_id"])


@situation
async def test_closing_twice_changes_nothing(stage: Stage) -> None:
    alice = await stage.agent("alice")
    session = await alice("open_session")
    closed = [await alice("close_session", session_id=session["session_id"]) for _ in range(2)]
    assert closed[0].result == closed[1].result


async def follow(agent: McpAgent, node_id: str) -> str:
    """Read a memory by its id and what replaces it, as far as that goes; return the last content."""
    while True:
        (cell,) = (await agent("recall", query=node_id, include_content=True))["results"]
        if "superseded_by" not in cell:
            return str(cell["content"])
        node_id = cell["superseded_by"]


@situation
async def test_a_replaced_memory_leads_to_the_one_that_holds(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    old = await alice("store", content="The API limit is 100 calls a minute.", cell_type="Constraint")
    await bob("place_beacon", interest="API limit")
    await alice("store", content="unrelated: lunch is at noon", cell_type="Fact")
    new = await alice(
        "store",
        content="The API limit is 300 calls a minute since November.",
        cell_type="Constraint",
        supersedes=old["node_id"],
    )
    found = await bob("recall", query="API limit", cell_types=["Constraint"])
    assert [r["node_id"] for r in found["results"]] == [new["node_id"]]
    both = await bob("recall", query="API limit", cell_types=["Constraint"], include_superseded=True)
    assert {r["node_id"] for r in both["results"]} == {old["node_id"], new["node_id"]}
    assert await follow(bob, old["node_id"]) == "The API limit is 300 calls a minute since November."


@situation
async def test_who_was_sent_a_memory_is_told_when_it_is_replaced(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    await bob("place_beacon", interest="API limit")
    old = await alice("store", content="The API limit is 100 calls a minute.", cell_type="Constraint")
    assert [d["node_id"] for d in await bob.pages()] == [old["node_id"]]
    new = await alice(
        "store", content="Quota: 300 a minute.", cell_type="Constraint", supersedes=old["node_id"]
    )
    told = {d["kind"]: d for d in await bob.pages()}
    replaced = told["superseded"]
    assert replaced["node_id"] == old["node_id"]
    assert replaced["replaced_by"]["node_id"] == new["node_id"]
    assert replaced["replaced_by"]["content"] == "Quota: 300 a minute."


@situation
async def test_a_contradiction_of_two_agents_is_seen_and_reconciled(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    await alice("place_beacon", interest="session tokens")
    one = await alice("store", content="Session tokens live for one hour.", cell_type="Decision")
    other = await bob("store", content="Session tokens live for one day.", cell_type="Decision")
    (heard,) = await alice.pages()
    assert (heard["node_id"], heard["source_agent"]) == (other["node_id"], "bob")
    found = await alice("recall", query="how long do session tokens live", include_content=True)
    sides = {r["node_id"]: r["source_agent"] for r in found["results"]}
    assert sides == {one["node_id"]: "alice", other["node_id"]: "bob"}
    settled = await alice(
        "store",
        content="Session tokens live for one hour on the web and one day on phones.",
        cell_type="Decision",
        derived_from=list(sides),
    )
    again = await bob("recall", query="session tokens on phones", include_content=True)
    assert again["results"][0]["node_id"] == settled["node_id"]


@situation
async def test_the_wrong_side_is_replaced_by_whoever_may_write_there(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    wrong = await bob("store", content="The build needs Python 3.9.", cell_type="Fact")
    await alice(
        "store", content="The build needs Python 3.11.", cell_type="Fact", supersedes=wrong["node_id"]
    )
    told = await bob("drain_inbox")
    assert [(d["kind"], d["node_id"]) for d in told["diffs"]] == [("superseded", wrong["node_id"])]


@situation
async def test_two_agents_store_about_the_same_and_both_are_kept(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    text = "The login test is flaky on Fridays."
    ids = {(await agent("store", content=text, cell_type="Lesson"))["node_id"] for agent in (alice, bob)}
    found = await alice("recall", query="flaky login test", include_content=True)
    assert {r["node_id"] for r in found["results"]} == ids
    assert {r["source_agent"] for r in found["results"]} == {"alice", "bob"}


@situation
async def test_a_newcomer_reads_the_scenes_of_a_project_and_their_summaries(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    none = await alice("list_scenes")
    assert none["scenes"] == []
    assert "There are no scenes" in none.note
    for text in (
        RETRIES,
        "Payment retries use an idempotency key, because the bank may have taken the first payment.",
        "Payment retries wait 1, 4 and 16 s, because the bank limits calls.",
    ):
        await bob("store", content=text, cell_type="Decision")
    admin = (await stage.key("admin", scopes=["read", "write", "admin"]))["key"]
    await stage.peer.call("consolidate_scenes", {"project": "shop"}, admin)  # by a person, over REST
    (scene,) = (await alice("list_scenes", project="shop"))["scenes"]
    assert (scene["cells"], scene["agents"]) == (3, ["bob"])
    whole = (await alice("get_scene", scene_id=scene["scene_id"]))["scene"]
    assert len(whole["members"]) == 3
    summary = await alice("query", layer=1, query="payment retries", include_content=True)
    assert (len(summary["results"]), summary["results"][0]["layer"]) == (1, 1)
