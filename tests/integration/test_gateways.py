"""`hyphae mcp serve` as editors run it: real processes on a real peer, alone, side by side, and killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from node.background import stop_holder
from node.data_directory import MeshDirectory, PeerDirectory
from proto import limits
from tests.support.gateways import Gateway
from tests.support.hyphae_command import Home, eventually
from tests.support.nats_process import free_port
from tests.support.places import short_directory
from tests.support.running_mesh import RunningPeer, running_peer
from tests.support.scripts_of_the_world import TEXTS
from tests.support.stdio_process import HANDSHAKE

FACT = {"cell_type": "Fact"}
HOSTILE = {"PYTHONIOENCODING": "cp932", "LC_ALL": "C", "PYTHONUTF8": "0", "HYPHAE_LOG_LEVEL": "debug"}


@pytest.fixture(scope="module")
def peer() -> Iterator[RunningPeer]:
    with running_peer() as peer:
        yield peer


def gateway(peer: RunningPeer, key: str, **more: str) -> Gateway:
    """Start a gateway that finds its peer by the data directory."""
    environment = {
        "HOME": str(peer.root),
        "HYPHAE_CONFIG_DIR": str(peer.root / "editor"),
        "HYPHAE_DATA_DIR": str(peer.directory),
        "HYPHAE_API_KEY": key,
    }
    return Gateway({**environment, **more})


def verified(peer: RunningPeer) -> None:
    assert peer.operator()("verify_log")["ok"]


class TestOnePipe:
    def test_takes_fifty_stores_at_once(self, peer: RunningPeer) -> None:
        key = peer.issue("fifty")["key"]
        with gateway(peer, key) as editor:
            editor.handshake()
            sent = [editor.send("store", content=f"parallel memory {n}", **FACT) for n in range(50)]
            ids = [editor.result(i)["node_id"] for i in sent]
            assert len(set(ids)) == 50
            found = editor("recall", query="parallel memory", k=100, from_agents=["me"])["results"]
            assert {r["node_id"] for r in found} == {*ids}
            for n in (0, 49):
                (hit,) = editor("recall", query=ids[n], include_content=True)["results"]
                assert hit["content"] == f"parallel memory {n}"
        verified(peer)

    def test_carries_every_script_byte_for_byte_whatever_the_locale(self, peer: RunningPeer) -> None:
        key = peer.issue("scripts")["key"]
        with gateway(peer, key, **HOSTILE) as editor:
            editor.handshake()
            for text in TEXTS.values():
                node = editor("store", content=text, **FACT)["node_id"]
                (hit,) = editor("recall", query=node, include_content=True)["results"]
                assert hit["content"] == text
                assert peer.operator()("get_node", node_id=node)["content"] == text
            assert all(json.loads(line)["jsonrpc"] == "2.0" for line in editor.stdio.lines)

    def test_refuses_what_is_too_long_by_its_limit_and_lives_on(self, peer: RunningPeer) -> None:
        key = peer.issue("long")["key"]
        with gateway(peer, key) as editor:
            editor.handshake()
            whole = editor("store", content="語" * (limits.CONTENT_BYTES // 3), **FACT)["node_id"]
            for size in (limits.CONTENT_BYTES + 1, 70_000, 1_000_000):
                text = editor.said("store", content="x" * size, **FACT)
                assert f"content has {size} bytes; the limit is 65536 bytes." in text
            editor.stdio.call("huge", "store", content="x" * 10_000_000, **FACT)
            (answer,) = [m for m in [editor.stdio.receive()] if "error" in m]
            assert "the limit is 1048576 bytes" in answer["error"]["message"]
            (hit,) = editor("recall", query=whole, include_content=True)["results"]
            assert hit["content_chars"] == limits.CONTENT_BYTES // 3


class TestSideBySide:
    def test_two_on_one_peer_lose_nothing_of_each_other(self, peer: RunningPeer) -> None:
        keys = [peer.issue(name)["key"] for name in ("claude", "cursor")]
        with gateway(peer, keys[0]) as one, gateway(peer, keys[1]) as two:
            both = (one, two)
            for editor in both:
                editor.handshake()
            sent = [(e, e.send("store", content=f"turn {n}", **FACT)) for n in range(20) for e in both]
            ids = [editor.result(i)["node_id"] for editor, i in sent]
            assert len(set(ids)) == 40
            for editor in both:
                found = editor("recall", query="turn", k=100, from_agents=["claude", "cursor"])["results"]
                assert {r["node_id"] for r in found} == {*ids}
        verified(peer)

    def test_two_sessions_under_one_key_each_see_what_a_third_stores(self, peer: RunningPeer) -> None:
        key, author = peer.issue("shared")["key"], peer.new_agent()
        with gateway(peer, key) as one, gateway(peer, key) as two:
            one.handshake(), two.handshake()
            one("place_beacon", interest="*", project="shared")
            sessions = [(e, e("open_session", project="shared")["session_id"]) for e in (one, two)]
            ids = [
                author("store", content=f"news {n}", project="shared", **FACT)["node_id"] for n in range(7)
            ]
            for editor, session in sessions:
                pages = [editor("drain_inbox", session_id=session, limit=3) for _ in range(4)]
                assert [d["node_id"] for page in pages for d in page["diffs"]] == ids
                assert [page.get("may_repeat") for page in pages] == [None] * 4

    def test_ten_share_the_model_of_their_peer(self, peer: RunningPeer) -> None:
        key = peer.issue("ten")["key"]
        editors = [gateway(peer, key) for _ in range(10)]
        try:
            with ThreadPoolExecutor(10) as pool:
                list(pool.map(Gateway.handshake, editors))
            assert len({e("store", content="one of ten", **FACT)["node_id"] for e in editors}) == 10
            for editor in editors:
                process = psutil.Process(editor.pid)
                assert process.memory_info().rss < 80e6
                assert process.children() == []
                loaded = {Path(m.path).name for m in process.memory_maps()}
                assert not [n for n in loaded if "onnxruntime" in n or "faiss" in n or "numpy" in n]
        finally:
            for editor in editors:
                editor.__exit__(None, None, None)

    def test_two_editors_that_start_at_once_with_nothing_configured_share_one_peer(self) -> None:
        with short_directory() as root:
            home = Home(root)
            environment = {n: v for n, v in home.environment().items() if n != "PATH"}
            editors = [Gateway(environment) for _ in range(2)]
            try:
                for editor in editors:
                    editor.stdio.send(HANDSHAKE)
                for editor in editors:
                    assert "instructions" in editor.stdio.answer(HANDSHAKE["id"])["result"]
                sent = [editor.send("store", content="hello from an editor", **FACT) for editor in editors]
                ids = [editor.result(i)["node_id"] for editor, i in zip(editors, sent, strict=True)]
                for editor in editors:
                    found = editor("recall", query="hello from an editor")["results"]
                    assert {r["node_id"] for r in found} == {*ids}
                peers = [p for p in home.processes() if "serve" not in p.cmdline()]
                assert len(peers) == 1
                for editor in editors:
                    editor.stdio.close_input()
                    assert editor.stdio.wait(10) == 0
                assert peers[0].is_running(), "a shared background peer lives on"
                stopped = home.json("down")["stopped"]
                assert [s["pid"] for s in stopped] == [peers[0].pid]
                eventually(lambda: home.processes() == [], "nothing runs any more", 10)
                assert MeshDirectory(home.data).peer(1).holder() is None
            finally:
                for editor in editors:
                    editor.__exit__(None, None, None)
                home.down()


class TestAGatewayThatIsKilled:
    def test_between_a_page_and_the_next_call_has_the_page_listed_again(self, peer: RunningPeer) -> None:
        key, author = peer.issue("killed")["key"], peer.new_agent()
        with gateway(peer, key) as editor:
            editor.handshake()
            editor("place_beacon", interest="*", project="killed")
            ids = [author("store", content=f"n {n}", project="killed", **FACT)["node_id"] for n in range(4)]
            first = editor("drain_inbox", limit=2)
            second = editor("drain_inbox", limit=2)  # says that the first was written out
            assert [d["node_id"] for p in (first, second) for d in p["diffs"]] == ids
            editor.stdio.process.kill()
        with gateway(peer, key) as again:
            again.handshake()
            page = again("drain_inbox")
            assert [d["node_id"] for d in page["diffs"]] == ids[2:]
            assert page["may_repeat"]
            assert again("drain_inbox")["diffs"] == []

    def test_in_the_middle_of_its_stores_leaves_a_sound_log(self, peer: RunningPeer) -> None:
        key = peer.issue("cut-off")["key"]
        with gateway(peer, key) as editor:
            editor.handshake()
            sent = [editor.send("store", content=f"cut off {n}", **FACT) for n in range(30)]
            acked = {editor.result(i)["node_id"] for i in sent[:5]}
            editor.stdio.process.kill()
        caller = peer.agent(key)
        found = caller("recall", query="cut off", k=100, from_agents=["me"])["results"]
        assert acked <= {r["node_id"] for r in found}
        assert len(found) <= 30
        verified(peer)


class TestAPeerThatIsKilled:
    def test_and_comes_back_is_found_again_and_no_store_happens_twice(self) -> None:
        with running_peer("--no-nats", "--http-port", str(free_port())) as peer:
            key = peer.issue("steadfast")["key"]
            with gateway(peer, key, HYPHAE_URL=peer.url) as editor:
                ids = self._store_through_a_crash(editor, peer.kill, peer.start)
                assert len(ids) == 11
            verified(peer)

    def test_and_does_not_come_back_is_started_by_the_gateway(self) -> None:
        with running_peer() as peer:
            key = peer.issue("steadfast")["key"]
            directory = PeerDirectory(peer.directory)
            try:
                with gateway(peer, key) as editor:
                    self._store_through_a_crash(editor, peer.kill, lambda: None)
                    holder = directory.holder()
                    assert holder is not None
                    assert holder.pid not in {peer.pid, editor.pid}
            finally:
                if (holder := directory.holder()) is not None:
                    stop_holder(directory.lock, holder)
            peer.start()
            verified(peer)

    def _store_through_a_crash(
        self, editor: Gateway, kill: Callable[[], object], start: Callable[[], object]
    ) -> set[str]:
        editor.handshake()
        ids = {editor("store", content="before", **FACT)["node_id"]}
        sent = [editor.send("store", content=f"in flight {n}", **FACT) for n in range(10)]
        kill()
        start()
        ids |= {editor.result(i)["node_id"] for i in sent}
        found = editor("recall", query="in flight", k=100)["results"]
        assert {r["node_id"] for r in found} == ids
        return ids


SECRET_TEXT = "canary-8d1f the launch code is tangerine"
SECRET_QUERY = "canary-8d1f which code launches it"


class TestACanary:
    def test_is_in_no_log_argument_variable_metric_or_error(self) -> None:
        """Keys and contents go through every door, well and badly; then everything is searched for them."""
        with running_peer(environment={"HYPHAE_LOG_LEVEL": "debug"}) as peer:
            issued = peer.issue("canary-bird")
            key = issued["key"]
            secrets = [
                key.rsplit("_", 1)[1],
                *(peer.secret(n).rsplit("_", 1)[1] for n in ("agent", "operator")),
            ]
            secrets.append((peer.directory / "secrets" / "peer.key").read_text().strip())
            said: list[str] = []
            with gateway(peer, key, HYPHAE_LOG_LEVEL="debug") as editor:
                editor.handshake()
                editor("place_beacon", interest=SECRET_QUERY)
                node = editor("store", content=SECRET_TEXT, idempotency_key="k", **FACT)["node_id"]
                editor("recall", query=SECRET_QUERY, include_content=True)
                said.append(editor.said("store", content=SECRET_TEXT * 2, idempotency_key="k", **FACT))
                said.append(editor.said("store", content=SECRET_TEXT, cell_type="Fact", supersedes="nope"))
                said.append(editor.said("store", content=[SECRET_TEXT], **FACT))
                said.append(editor.said("store", content=SECRET_TEXT * 3_000, **FACT))
                said.append(editor.said("recall", query=[SECRET_QUERY]))
                processes = [psutil.Process(peer.pid), psutil.Process(editor.pid)]
                seen = [part for p in processes for part in p.cmdline()]
                seen += [v for n, v in processes[0].environ().items()]
                editor.stdio.close_input()
                editor.stdio.wait(10)
                said.append(editor.stdio.stderr.decode())
            wrong = peer.caller(key[:-1] + ("a" if key[-1] != "a" else "b"))
            said.append(wrong.ask("recall", {"query": SECRET_QUERY}).text)
            agent = peer.agent(key)
            said.append(agent.by_rest("store", {"content": SECRET_TEXT, "colour": 1}).text)
            said.append(agent.post_mcp(json.dumps({"content": SECRET_TEXT})).text)
            said.append(agent.post_wire(SECRET_TEXT.encode()).text)
            metrics = peer.operator().send("GET", "/metrics", None)[1].decode()
            assert "canary" not in metrics, "not even the name of an agent is a label"
            assert peer.stop() == 0
            said += [*seen, metrics, peer.log()]
            for word in (*secrets, "tangerine", SECRET_QUERY, node):
                assert not [text for text in said if word in text], word
            kept = {"log.db", "vectors.snapshot"} | {p.name for p in (peer.directory / "secrets").iterdir()}
            for path in (p for p in peer.root.rglob("*") if p.is_file() and p.name not in kept):
                data = path.read_bytes()
                for word in (*secrets, "tangerine", "canary"):
                    assert word.encode() not in data, path
