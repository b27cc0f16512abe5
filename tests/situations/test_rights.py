"""Who may see and write what, and how an agent learns of it: projects, private memories, keys, sessions."""

from __future__ import annotations

import uuid

from tests.situations.stage import Stage, situation, situation_without_model
from tests.support.mcp_agent import McpAgent

UNKNOWN_KEY = (
    "unauthenticated: this key is unknown, wrong or revoked. Nothing was changed. Go on without shared memory,"
    " and ask the owner of the mesh for a new key (hyphae key issue)."
)


@situation
async def test_private_memories_are_seen_by_their_owner_alone(stage: Stage) -> None:
    alice, bob = await stage.agent("alice", owner="ann"), await stage.agent("bob")
    await bob("place_beacon", interest="*")
    editor = await stage.agent("alice in an editor", owner="ann")
    secret = await alice("store", content="I draft the reorganisation.", cell_type="Task", project="private")
    shared = await alice("store", content="The offsite is in May.", cell_type="Fact")
    assert [d["node_id"] for d in await bob.pages()] == [shared["node_id"]]
    for agent, seen in ((bob, False), (editor, True)):
        found = await agent("recall", query="reorganisation", include_content=True)
        assert (secret["node_id"] in [r["node_id"] for r in found["results"]]) is seen


@situation
async def test_another_ones_private_id_answers_like_an_unknown_one(stage: Stage) -> None:
    alice, bob = await stage.agent("alice", owner="ann"), await stage.agent("bob")
    mine = await alice("store", content="My own plan.", cell_type="Task", project="private")
    await bob("store", content="A shared fact.", cell_type="Fact")
    unknown = str(uuid.uuid4())

    async def told(node_id: str) -> list[str]:
        replace = await bob("store", content="x", cell_type="Fact", supersedes=node_id)
        derive = await bob("store", content="x", cell_type="Fact", derived_from=[node_id])
        read = await bob("recall", query=node_id, include_content=True, mode="vector")
        return [text.replace(node_id, "ID") for text in (replace.error, derive.error, read.note)]

    assert await told(mine["node_id"]) == await told(unknown)
    assert (await told(unknown))[0] == (
        'not_found: no memory "ID" is known here. Nothing was stored. Correct supersedes; recall finds the id:'
        ' {"query": "what it says", "include_content": true}'
    )


@situation
async def test_a_preference_without_a_project_is_private(stage: Stage) -> None:
    alice, bob = await stage.agent("alice", owner="ann"), await stage.agent("bob")
    await alice("store", content="I prefer tabs.", cell_type="Preference")
    mine = await alice("recall", query="tabs or spaces", include_content=True)
    assert mine["results"][0]["project"] == "private"
    assert (await bob("recall", query="tabs or spaces"))["results"] == []


@situation_without_model
async def test_a_key_that_only_reads_does_all_but_store(stage: Stage) -> None:
    reader, bob = await stage.agent("reader", scopes=["read"]), await stage.agent("bob")
    refused = await reader("store", content="x", cell_type="Fact")
    assert refused.error == (
        "forbidden: this key has no scope write (it has: read). Nothing was stored."
        " Ask the owner of the mesh for a key with write."
    )
    await reader("place_beacon", interest="*")
    session = await reader("open_session")
    await bob("store", content="to be read", cell_type="Fact")
    assert len(await reader.pages(session_id=session["session_id"])) == 1
    assert (await reader("recall", query="to be read"))["results"][0]["distance"] < 0.5


@situation_without_model
async def test_a_wrong_project_is_answered_with_those_of_the_key(stage: Stage) -> None:
    agent = await stage.agent("agent", workspace=None, projects={"billing": "rw", "web": "r"})
    assert (await agent("recall", query="x", project="payroll")).error == (
        "not_found: no project payroll for this key; yours are billing, web, private. Nothing was searched."
        " Pass one of them as project, or leave it out."
    )
    assert (await agent("recall", query="x", project="web"))["results"] == []
    refused = await agent("store", content="x", cell_type="Fact", project="web")
    assert refused.error == (
        "forbidden: this key may only read project web; it writes to billing, private. Nothing was stored."
        ' Pass {"project": "private"}, or ask the owner of the mesh for a key with rw.'
    )
    assert "node_id" in await agent("store", content="x", cell_type="Fact", **refused.example)
    assert "node_id" in await agent("store", content="x", cell_type="Fact", project="billing")


@situation_without_model
async def test_private_in_another_spelling_is_no_project_that_all_read(stage: Stage) -> None:
    alice = await stage.agent("alice")
    refused = await alice("store", content="x", cell_type="Fact", project="Private")
    assert refused.error == (
        'invalid: project is "Private"; the private one is written in lower case and without spaces.'
        ' Nothing was stored. Pass {"project": "private"}'
    )
    assert "node_id" in await alice("store", content="x", cell_type="Fact", **refused.example)


@situation_without_model
async def test_a_workspace_gives_its_project_and_an_argument_goes_before_it(stage: Stage) -> None:
    alice = await stage.agent("alice", workspace="shop")
    assert (await alice("open_session"))["project"] == "shop"
    other = await alice("open_session", project="web")
    await alice("store", content="goes to web", cell_type="Fact", session_id=other["session_id"])
    (hit,) = (await alice("recall", query="goes to web", include_content=True))["results"]
    assert (hit["project"], hit["session_id"]) == ("web", other["session_id"])
    elsewhere = await stage.agent("elsewhere", workspace=None)
    assert (await elsewhere("open_session"))["project"] == "default"


@situation_without_model
async def test_a_revoked_key_is_refused_and_the_agent_goes_on_without(stage: Stage) -> None:
    issued = await stage.key("gone")
    agent = McpAgent(stage.peer, issued["key"])
    await agent("list_beacons")
    await stage.peer.call("revoke_key", {"id": issued["id"]})
    assert (await agent("list_beacons")).error == UNKNOWN_KEY.replace("changed", "read")
    stored = await agent("store", content="x", cell_type="Fact")
    assert stored.error == UNKNOWN_KEY.replace("changed", "stored")


@situation_without_model
async def test_a_foreign_or_unknown_session_is_answered_with_how_to_get_one(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    foreign = (await bob("open_session"))["session_id"]
    unknown = str(uuid.uuid4())
    for session in (foreign, unknown):
        assert (await alice("close_session", session_id=session)).error == (
            f'not_found: no session "{session}" of yours is known here. Nothing was closed.'
            " open_session gives a session_id and lists your open ones."
        )
        drained = await alice("drain_inbox", session_id=session)
        assert "Your place in the inbox is unchanged. open_session gives" in drained.error
    own = (await alice("open_session"))["session_id"]
    assert "closed_at" in await alice("close_session", session_id=own)


@situation_without_model
async def test_a_closed_session_takes_nothing_more(stage: Stage) -> None:
    alice = await stage.agent("alice")
    session = (await alice("open_session"))["session_id"]
    await alice("close_session", session_id=session)
    refused = await alice("store", content="x", cell_type="Fact", session_id=session)
    assert refused.error == (
        f'not_found: session "{session}" is closed. Nothing was stored.'
        " Leave session_id out, or open_session starts a new one."
    )
    assert "node_id" in await alice("store", content="x", cell_type="Fact")
    again = (await alice("open_session"))["session_id"]
    assert "node_id" in await alice("store", content="x", cell_type="Fact", session_id=again)


@situation_without_model
async def test_a_session_too_many_is_refused_and_an_old_one_makes_room(stage: Stage) -> None:
    alice = await stage.agent("alice")
    oldest = (await alice("open_session"))["session_id"]
    for project in ("web", "billing"):
        await alice("open_session", project=project)
    refused = await alice("open_session", project="a new one")
    assert refused.error == (
        "overloaded: 3 sessions of yours are open, limit 3. Nothing was opened. Go on with one, or close one with"
        f' close_session: {{"session_id": "{oldest}"}}'
    )
    await alice("close_session", **refused.example)
    assert "session_id" in await alice("open_session", project="a new one")


@situation_without_model
async def test_a_replacement_belongs_to_the_project_of_what_it_replaces(stage: Stage) -> None:
    alice = await stage.agent("alice")
    old = await alice("store", content="old", cell_type="Fact", project="web")
    new = {"content": "new", "cell_type": "Fact", "supersedes": old["node_id"]}
    refused = await alice("store", **new)
    assert refused.error == (
        'invalid: supersedes names a memory of another project than "shop". Nothing was stored.'
        ' Store in its own: {"project": "web"}'
    )
    assert "node_id" in await alice("store", **new, **refused.example)


@situation_without_model
async def test_a_reader_of_a_project_cannot_replace_but_store_beside(stage: Stage) -> None:
    bob = await stage.agent("bob")
    reader = await stage.agent("reader", workspace=None, projects={"shop": "r", "web": "rw"})
    held = await bob("store", content="held", cell_type="Fact")
    refused = await reader("store", content="x", cell_type="Fact", project="shop", supersedes=held["node_id"])
    assert refused.error.startswith(
        "forbidden: this key may only read project shop; it writes to web, private."
    )
    beside = await reader(
        "store", content="x", cell_type="Fact", project="web", derived_from=[held["node_id"]]
    )
    assert "node_id" in beside


@situation_without_model
async def test_an_unknown_scene_and_a_foreign_cursor_are_refused(stage: Stage) -> None:
    alice, bob = await stage.agent("alice"), await stage.agent("bob")
    assert (await alice("list_scenes"))["scenes"] == []
    missing = await alice("get_scene", scene_id=str(uuid.uuid4()))
    assert missing.error.startswith("not_found: no scene ")
    assert "list_scenes" in missing.error
    await bob("place_beacon", interest="*")
    cursor = (await bob("drain_inbox"))["cursor"]
    assert (await alice("drain_inbox", ack=cursor)).error == (
        "invalid: ack is no cursor of yours. Nothing was committed and your place is unchanged."
        " Pass the cursor of the page before, or leave ack out."
    )
    assert (await alice("drain_inbox"))["remaining"] == 0
