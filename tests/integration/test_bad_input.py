"""What agents should not send, sent to a real peer at each of its doors: refused by name, and nothing changed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
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
        assert agent("list_scenes")["scenes"] == []

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


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("method", [name for name, tool in TOOLS.items() if tool.hints.read_only])
def test_a_tool_that_reads_writes_nothing(agent: HttpAgent, method: str) -> None:
    for door in (HttpAgent.by_mcp, HttpAgent.by_wire):
        answer = door(agent, method, _required(method))
        assert answer.code in {"", "not_found"}
    assert agent("drain_inbox", advance=False)["cursor"]
    assert "cursor" in agent.refused("list_scenes", "invalid", cursor="of something else")
