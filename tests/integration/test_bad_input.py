"""What agents should not send, sent to a real peer at each of its doors: refused by name, and nothing changed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcp_gateway.specs import ArgumentSpec
from mcp_gateway.tools import TOOLS
from proto import limits
from proto.codec import encode
from tests.support.http_agent import Answer, HttpAgent
from tests.support.running_mesh import RunningPeer, running_peer
from tests.support.scripts_of_the_world import TEXTS

Door = Callable[[HttpAgent, str, dict[str, Any]], Answer]
DOORS: dict[str, Door] = {
    "mcp": HttpAgent.by_mcp,
    "rest": HttpAgent.by_rest,
    "wire": HttpAgent.by_wire,
}
FACT = {"content": "a fact", "cell_type": "Fact"}
NO_ID = "00000000-0000-4000-8000-000000000000"
doors = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS.keys())


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


@pytest.fixture(scope="module")
def agent(peer: RunningPeer) -> HttpAgent:
    return peer.new_agent()


@pytest.fixture
def unchanged(peer: RunningPeer) -> Iterator[None]:
    """Nothing that the test does may append an event."""
    before = peer.operator()("status")["events"]
    yield
    assert peer.operator()("status")["events"] == before


@doors
@pytest.mark.usefixtures("unchanged")
class TestContentThatIsRefused:
    @pytest.mark.parametrize("content", ["", " ", "\t\r\n", "\u00a0\u2003\u3000\u2028"])
    def test_nothing_to_say_is_not_stored(self, agent: HttpAgent, door: Door, content: str) -> None:
        text = door(agent, "store", {**FACT, "content": content}).refused("invalid")
        assert text.startswith(f"content is {'blank' if content else 'empty'}; ")
        assert "Nothing was stored." in text

    @pytest.mark.parametrize("unit", ["x", "é", "語", "🙂"])
    def test_one_byte_over_the_limit_is_refused_with_size_and_limit(
        self, agent: HttpAgent, door: Door, unit: str
    ) -> None:
        size = len(unit.encode())
        content = "x" * (limits.CONTENT_BYTES % size + 1) + unit * (limits.CONTENT_BYTES // size)
        text = door(agent, "store", {**FACT, "content": content}).refused("invalid")
        assert "content has 65537 bytes; the limit is 65536 bytes." in text
        assert "Nothing was stored." in text

    def test_ten_megabytes_are_refused_and_the_peer_goes_on(
        self, peer: RunningPeer, agent: HttpAgent, door: Door
    ) -> None:
        one = peer.agent(agent.key)  # its connection may be closed for it
        answer = door(one, "store", {**FACT, "content": "x" * 10_000_000})
        assert answer.status == 413
        assert "larger than" in answer.text
        assert "othing was stored" in answer.text
        assert agent("list_scenes") == {"scenes": []}

    @pytest.mark.parametrize(("name", "method"), [("content", "store"), ("query", "recall")])
    def test_half_a_character_is_refused(self, agent: HttpAgent, door: Door, name: str, method: str) -> None:
        arguments = {**(FACT if method == "store" else {}), name: "half \ud800 pair"}
        if door is HttpAgent.by_wire:
            body = encode(_raw_request(method, {**arguments, name: "half @@@ pair"}))
            answer = agent.post_wire(body.replace(b"@@@", "\ud800".encode("utf-8", "surrogatepass")))
            assert answer.code in {"protocol", "invalid"}
        else:
            assert "half of a surrogate pair" in door(agent, method, arguments).refused("invalid")


@doors
class TestContentThatIsKept:
    @pytest.mark.parametrize("unit", ["x", "é", "語", "🙂", "\x01"])
    def test_content_at_the_limit_is_stored_whole(self, agent: HttpAgent, door: Door, unit: str) -> None:
        size = len(unit.encode())
        content = "x" * (limits.CONTENT_BYTES % size) + unit * (limits.CONTENT_BYTES // size)
        node = door(agent, "store", {**FACT, "content": content}).ok()["node_id"]
        kept = agent("get_node", node_id=node)
        assert kept["content"] == content
        assert kept["content_bytes"] == limits.CONTENT_BYTES

    def test_every_script_comes_back_byte_for_byte_on_every_way(self, peer: RunningPeer, door: Door) -> None:
        writer, reader = peer.new_agent(), peer.new_agent()
        reader("place_beacon", interest="*")
        sent = {door(writer, "store", {**FACT, "content": t}).ok()["node_id"]: t for t in TEXTS.values()}
        assert len(sent) == len(TEXTS)
        for node, text in sent.items():
            assert reader.by_rest("get_node", {"node_id": node}).ok()["content"] == text
            found = door(reader, "recall", {"query": node, "include_content": True}).ok()["results"]
            assert [(r["node_id"], r["content"]) for r in found] == [(node, text)]
        drained = door(reader, "drain_inbox", {"limit": 500, "max_bytes": limits.RESULT_BYTES_MAX}).ok()
        assert {d["node_id"]: d["content"] for d in drained["diffs"]} == sent


def test_a_text_is_found_by_itself_in_every_script(peer: RunningPeer) -> None:
    agent = peer.new_agent()
    for text in TEXTS.values():
        node = agent("store", content=text, cell_type="Fact")["node_id"]
        search = {"query": text, "from_agents": ["me"], "mode": "vector", "k": 100}
        found = agent("recall", **search)["results"]
        assert node in [r["node_id"] for r in found if r["distance"] <= found[0]["distance"] + 1e-4]


def _raw_request(method: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
    from proto.codec import decode
    from proto.messages import Request, encode_request

    raw = decode(encode_request(Request(method, arguments, 2**52, None)))
    assert isinstance(raw, tuple)
    return raw


# -- arguments

WRONG: dict[str, list[Any]] = {
    "string": [5, 1.5, True, [], ["a"], {}, {"a": 1}],
    "integer": ["12px", "", "NaN", 5.5, True, [5], {}, 1e400, 2**70, -(2**70)],
    "number": ["12px", "", "NaN", True, [0.5], {}, 1e400, -1, 1.0001, 2**70],
    "boolean": [1, 0, "yes", "", [], {}],
    "strings": ["a", 5, True, {}, [5], [None], [["a"]], [{}], [""], [" "]],
    "integers": ["a", 5, True, {}, ["a"], [None], [1.5], [[]], [-1], [3]],
    "objects": ["a", 5, True, {}, [5], [None], [["a"]], []],
}
GIVEN: dict[str, Any] = {
    "content": "a fact",
    "cell_type": "Fact",
    "query": "a fact",
    "layer": 0,
    "session_id": NO_ID,
    "scene_id": NO_ID,
    "interest": "facts",
    "since": "24h",
}


def _has_form(value: Any, door: Door) -> bool:
    """Return whether JSON knows this number, or msgpack does."""
    if door is HttpAgent.by_wire:
        return not isinstance(value, int) or abs(value) < 2**64
    return not (isinstance(value, float) and math.isinf(value))


def _required(method: str) -> dict[str, Any]:
    return {a.name: GIVEN[a.name] for a in TOOLS[method].required}


def _arguments() -> Iterator[tuple[str, ArgumentSpec]]:
    return ((tool.name, argument) for tool in TOOLS.values() for argument in tool.arguments)


@pytest.mark.usefixtures("unchanged")
class TestArgumentsOfTheWrongType:
    @pytest.mark.parametrize(
        ("method", "argument"), [pytest.param(m, a, id=f"{m}-{a.name}") for m, a in _arguments()]
    )
    def test_are_refused_by_name_at_every_door(
        self, agent: HttpAgent, method: str, argument: ArgumentSpec
    ) -> None:
        for value in WRONG[argument.kind]:
            if argument.enum and argument.kind == "string" and isinstance(value, str):
                continue
            arguments = {**_required(method), argument.name: value}
            for door in (HttpAgent.by_mcp, HttpAgent.by_wire):
                if not _has_form(value, door):
                    continue
                text = door(agent, method, arguments).refused("invalid")
                assert argument.name in text, (value, text)
                assert len(f"invalid: {text}") <= 300

    @pytest.mark.parametrize("method", TOOLS)
    def test_required_ones_that_are_missing_or_null_are_named(self, agent: HttpAgent, method: str) -> None:
        for missing in TOOLS[method].required:
            rest = {n: v for n, v in _required(method).items() if n != missing.name}
            for arguments in (rest, {**rest, missing.name: None}):
                for door in (HttpAgent.by_mcp, HttpAgent.by_wire):
                    assert f"{missing.name} is missing" in door(agent, method, arguments).refused("invalid")

    @pytest.mark.parametrize("method", TOOLS)
    def test_unknown_ones_are_named(self, agent: HttpAgent, method: str) -> None:
        for door in (HttpAgent.by_mcp, HttpAgent.by_wire):
            text = door(agent, method, {**_required(method), "colour": "red"}).refused("invalid")
            assert f"{method} has no argument colour" in text

    @pytest.mark.parametrize("number", ["1e400", "-1e400", "1E+999", "0." + "0" * 400 + "1"])
    def test_numbers_beyond_any_float_are_refused(self, agent: HttpAgent, number: str) -> None:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        arguments = {"query": "x", "k": "HERE"}
        body = json.dumps({**call, "params": {"name": "recall", "arguments": arguments}})
        answer = agent.post_mcp(body.replace('"HERE"', number))
        assert "k is " in answer.refused("invalid")

    @pytest.mark.parametrize("bad", ["x", 5, [], [1], True])
    def test_arguments_that_are_no_object_are_refused(self, agent: HttpAgent, bad: Any) -> None:
        answer = agent.by_mcp("list_scenes", bad)
        assert (answer.code, answer.kind) == ("-32602", "protocol")

    def test_arbitrary_bytes_at_the_wire_door_are_refused(self, peer: RunningPeer, agent: HttpAgent) -> None:
        rng = random.Random(1)
        whole = encode(_raw_request("store", FACT))
        for n in range(200):
            data = rng.randbytes(rng.randrange(80)) if n % 2 else _damaged(whole, rng)
            answer = agent.post_wire(data)
            assert answer.code in {"protocol", "invalid", "unavailable"}, data


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes cut short, or changed in the fields before the arguments."""
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data))]
    at = rng.randrange(8)
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


# -- limits of design section 13

LIMITS: list[tuple[str, str, Any, Any]] = [
    ("store", "tags", ["t" * 64] + [f"tag-{n}" for n in range(31)], [f"tag-{n}" for n in range(33)]),
    ("store", "tags", ["語" * 64], ["t" * 65]),
    ("store", "project", "語" * 128, "p" * 129),
    ("store", "salience", 1, 1.01),
    ("store", "salience", 0, -0.01),
    ("open_session", "title", "語" * 128, "t" * 129),
    ("open_session", "project", "p" * 128, "p" * 129),
    ("recall", "k", 100, 101),
    ("recall", "k", 1, 0),
    ("recall", "query", "q" * 8192, "q" * 8193),
    ("recall", "query", "語" * 2730, "語" * 2731),
    ("recall", "max_bytes", 45_000, 45_001),
    ("recall", "max_bytes", 1_000, 999),
    ("recall", "tags", [f"tag-{n}" for n in range(32)], [f"tag-{n}" for n in range(33)]),
    ("recall", "from_agents", ["a" * 128], ["a" * 129]),
    ("query", "layer", 2, 3),
    ("query", "layer", 0, -1),
    ("place_beacon", "interest", "i" * 8192, "i" * 8193),
    ("place_beacon", "layers", [0, 1, 2], [0, 1, 2, 0]),
    ("place_beacon", "threshold", 1, 1.01),
    ("place_beacon", "ttl_seconds", limits.BEACON_TTL_MAX_S, limits.BEACON_TTL_MAX_S + 1),
    ("place_beacon", "ttl_seconds", 0, -1),
    ("diffs_since", "limit", 500, 501),
    ("drain_inbox", "limit", 500, 501),
    ("drain_inbox", "limit", 1, 0),
    ("list_scenes", "limit", 500, 501),
]


def _side_by_side(
    peer: RunningPeer, agent: HttpAgent, method: str, calls: list[dict[str, Any]], threads: int = 6
) -> list[Answer]:
    """Return the answers to calls of one agent, some of which run at once."""

    def some(start: int) -> list[Answer]:
        one = HttpAgent(peer.url, agent.key)
        try:
            return [one.by_mcp(method, arguments) for arguments in calls[start::threads]]
        finally:
            one.close()

    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(some, range(threads)))
    return [parts[n % threads][n // threads] for n in range(len(calls))]


class TestLimits:
    @pytest.mark.parametrize(
        ("method", "name", "most", "beyond"),
        [pytest.param(*row, id=f"{row[0]}-{row[1]}-{n}") for n, row in enumerate(LIMITS)],
    )
    def test_the_limit_is_accepted_and_one_beyond_is_refused(
        self, peer: RunningPeer, agent: HttpAgent, method: str, name: str, most: Any, beyond: Any
    ) -> None:
        agent.ask(method, {**_required(method), name: most}).ok()
        events = peer.operator()("status")["events"]
        for door in (HttpAgent.by_mcp, HttpAgent.by_wire):
            assert name in door(agent, method, {**_required(method), name: beyond}).refused("invalid")
        assert peer.operator()("status")["events"] == events

    @pytest.mark.parametrize("k", [0, -1, 1_000_000_000, 1e9, "1000000000", "-1"])
    def test_a_k_that_makes_no_sense_is_refused_with_what_is_allowed(self, agent: HttpAgent, k: Any) -> None:
        for door in DOORS.values():
            text = door(agent, "recall", {"query": "anything", "k": k}).refused("invalid")
            assert "allowed 1 to 100" in text

    def test_an_idempotency_key_has_128_characters_at_most(self, agent: HttpAgent) -> None:
        agent("store", **FACT, idempotency_key="語" * 128)
        assert "limit is 128" in agent.refused("store", "invalid", **FACT, idempotency_key="k" * 129)

    def test_a_memory_rests_on_64_others_at_most(self, agent: HttpAgent) -> None:
        node = agent("store", **FACT)["node_id"]
        derived = agent("store", **FACT, derived_from=[node] * 64)["node_id"]
        assert set(agent("get_node", node_id=derived)["derived_from"]) == {node}
        assert "limit is 64" in agent.refused("store", "invalid", **FACT, derived_from=[node] * 65)

    def test_a_bulk_has_256_cells_at_most(self, agent: HttpAgent) -> None:
        cells = [{"content": f"bulk {n}", "cell_type": "Fact"} for n in range(257)]
        answer = agent.by_rest("store_bulk", {"cells": cells[:256]}).ok()
        assert len({r["node_id"] for r in answer["results"]}) == 256
        assert "limit is 256" in agent.by_rest("store_bulk", {"cells": cells}).refused("invalid")

    def test_a_bulk_body_has_4_mib_at_most(self, peer: RunningPeer, agent: HttpAgent) -> None:
        cells = json.dumps({"cells": [FACT] * 2})
        status, data = agent.send("POST", "/v1/nodes:bulk", cells.ljust(limits.BULK_BODY_BYTES))
        assert (status, len(json.loads(data)["results"])) == (200, 2)
        one = peer.agent(agent.key)
        status, data = one.send("POST", "/v1/nodes:bulk", cells.ljust(limits.BULK_BODY_BYTES + 1))
        assert (status, json.loads(data)["error"]["code"]) == (413, "invalid")

    @pytest.mark.parametrize("path", ["/mcp", "/v1/recall"])
    def test_any_other_body_has_1_mib_at_most(self, peer: RunningPeer, agent: HttpAgent, path: str) -> None:
        recall = {"query": "anything", "k": 1}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        message = {**call, "params": {"name": "recall", "arguments": recall}} if path == "/mcp" else recall
        body = json.dumps(message)
        assert agent.send("POST", path, body.ljust(limits.HTTP_BODY_BYTES))[0] == 200
        assert peer.agent(agent.key).send("POST", path, body.ljust(limits.HTTP_BODY_BYTES + 1))[0] == 413

    def test_an_agent_has_100_open_sessions_at_most_also_when_it_opens_them_side_by_side(
        self, peer: RunningPeer
    ) -> None:
        agent = peer.new_agent()
        answers = _side_by_side(peer, agent, "open_session", [{"title": f"t{n}"} for n in range(110)])
        opened = [a.result["session_id"] for a in answers if a.result is not None]
        refused = {a.refused("overloaded") for a in answers if a.result is None}
        assert len(opened) == 100
        assert all("100 sessions of yours are open, limit 100. Nothing was opened." in t for t in refused)
        agent("close_session", session_id=opened[0])
        agent("open_session")
        agent.refused("open_session", "overloaded")
        peer.new_agent()("open_session")

    def test_an_agent_has_1000_beacons_at_most_also_when_it_places_them_side_by_side(
        self, peer: RunningPeer
    ) -> None:
        agent = peer.new_agent()
        wanted = [{"interest": "*", "project": f"p{n}"} for n in range(1_010)]
        answers = _side_by_side(peer, agent, "place_beacon", wanted)
        placed = [w["project"] for w, a in zip(wanted, answers, strict=True) if a.result is not None]
        refused = {a.refused("overloaded") for a in answers if a.result is None}
        assert len(placed) == 1_000
        assert all("1000 beacons of yours are placed, limit 1000. Nothing was placed." in t for t in refused)
        assert not agent("place_beacon", interest="*", project=placed[0])["created"]
        agent("place_beacon", interest="*", project=placed[0], ttl_seconds=0)
        assert agent("place_beacon", interest="*", project="one more")["created"]
        peer.new_agent()("place_beacon", interest="*")

    def test_a_key_that_calls_without_pause_is_told_when_to_come_back(self, peer: RunningPeer) -> None:
        agent, other = peer.new_agent(), peer.new_agent()
        call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "list_scenes"}}
        refused: list[dict[str, Any]] = []
        headers = {"mcp-protocol-version": "2025-03-26"}
        busy = peer.agent(agent.key, headers)
        for _ in range(100):
            batch = json.dumps([{**call, "id": n} for n in range(100)])
            answers = json.loads(busy.send("POST", "/mcp", batch)[1])
            refused += [a["error"] for a in answers if "error" in a]
            if refused:
                break
        assert {e["data"]["code"] for e in refused} == {"overloaded"}
        assert all(0 < e["data"]["retry_after_ms"] <= 1_000 for e in refused)
        assert other("list_scenes") == {"scenes": []}
