"""Replication engines joined back to back: no delays, no threads, time set by the test.

Effects are executed at once, unless a test holds some of them back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mesh.digests import Digest, PullReply, PullRequest, Vitals, decode_digest, decode_live, decode_pull
from mesh.effects import Apply, Channel, Confirmed, Effect, Fork, Publish, Serve
from mesh.engine import Engine
from mesh.engine_config import EngineConfig
from proto.ids import PeerId
from tests.support.memory_log import MemoryDisk, MemoryLog
from tests.support.sealed import peer

VITALS = Vitals(wall_ms=1, version="0.1.0")


@dataclass
class Node:
    """One engine with its log, and what it did.

    Args:
        holding: effects of these classes are kept in `held` instead of executed.
    """

    bench: Bench
    log: MemoryLog
    engine: Engine
    done: list[Effect] = field(default_factory=list)
    holding: tuple[type[Effect], ...] = ()
    held: list[Effect] = field(default_factory=list)

    @property
    def peer(self) -> PeerId:
        return self.log.peer

    def append(self, count: int = 1) -> None:
        """Store own events, one group commit for all."""
        for _ in range(count):
            self.log.append()
        self.do(self.engine.committed(self.log.sync(), self.bench.now))

    def do(self, effects: Iterable[Effect]) -> None:
        """Execute effects, or hold them."""
        for effect in effects:
            self.done.append(effect)
            if isinstance(effect, self.holding):
                self.held.append(effect)
            else:
                self.execute(effect)

    def release(self) -> None:
        """Execute what was held, and hold no more."""
        held, self.held, self.holding = self.held, [], ()
        for effect in held:
            self.execute(effect)

    def execute(self, effect: Effect) -> None:
        now = self.bench.now
        match effect:
            case Publish():
                self.bench.carry(self, effect)
                if effect.channel is Channel.LIVE:
                    self.do(self.engine.published(now))
            case Apply(segments):
                self.do(self.engine.applied([effect], self.log.apply_now(segments), now))
            case Serve(page):
                while (read := page.next_read()) is not None:
                    page.add(self.log.disk.read(*read))
                self.do(self.engine.served(page))
            case Fork() | Confirmed():
                pass

    def sent(self, channel: Channel) -> list[Publish]:
        """Return the messages sent so far on a channel."""
        return [e for e in self.done if isinstance(e, Publish) and e.channel is channel]

    def requests(self) -> list[PullRequest]:
        """Return the pull requests sent so far."""
        pulls = (decode_pull(p.data) for p in self.sent(Channel.PULL))
        return [pull for pull in pulls if isinstance(pull, PullRequest)]

    def replies(self) -> list[PullReply]:
        """Return the pull replies sent so far."""
        pulls = (decode_pull(p.data) for p in self.sent(Channel.PULL))
        return [pull for pull in pulls if isinstance(pull, PullReply)]

    def digests(self) -> list[Digest]:
        """Return the digests sent so far."""
        return [decode_digest(p.data) for p in self.sent(Channel.DIGEST)]

    def live_events(self) -> list[int]:
        """Return how many events each live message carried."""
        lives = (decode_live(p.data) for p in self.sent(Channel.LIVE))
        return [sum(len(s.events) for s in live.segments) for live in lives]

    def forks(self) -> list[Fork]:
        return [e for e in self.done if isinstance(e, Fork)]


class Bench:
    """Some engines and the wire between them.

    Args:
        count: of engines; their peers are 1, 2, ...
        config: of each.
        disks: what their logs hold at first, by peer number.
    """

    def __init__(
        self, count: int, config: EngineConfig | None = None, disks: dict[int, MemoryDisk] | None = None
    ) -> None:
        self.now = 1_000
        self.lost: Callable[[Node, Node, Publish], bool] = lambda _source, _target, _publish: False
        self.config = config or EngineConfig(digest_jitter=0.0, reconnect_jitter_ms=0, greet_jitter_ms=0)
        self.nodes: list[Node] = []
        for number in range(1, count + 1):
            disk = (disks or {}).get(number) or MemoryDisk()
            self.add(number, disk)
        for node in self.nodes:
            self.start(node)

    def add(self, number: int, disk: MemoryDisk) -> Node:
        """Add an engine, not started."""
        seed = len(self.nodes)
        log = MemoryLog(peer(number), disk, random.Random(seed))
        node = Node(self, log, Engine(peer(number), self.config, random.Random(1_000 + seed)))
        self.nodes.append(node)
        return node

    def start(self, node: Node) -> None:
        """Start an engine, connected, with everybody as member."""
        node.do(node.engine.started(node.log.heads()))
        node.do(node.engine.set_members({other.peer for other in self.nodes}))
        node.do(node.engine.connected(self.now))

    def carry(self, source: Node, publish: Publish) -> None:
        """Hand a message to everybody it is for and not lost to."""
        for target in self.nodes:
            if target is source or (publish.peer is not None and target.peer != publish.peer):
                continue
            if not self.lost(source, target, publish):
                self.deliver(target, publish)

    def deliver(self, target: Node, publish: Publish) -> None:
        receive = {
            Channel.LIVE: target.engine.receive_live,
            Channel.DIGEST: target.engine.receive_digest,
            Channel.ACK: target.engine.receive_ack,
            Channel.PULL: target.engine.receive_pull,
        }[publish.channel]
        target.do(receive(publish.data, self.now))

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass, ticking every engine at its deadlines."""
        end = self.now + duration_ms
        while True:
            dues = [(n.engine.next_deadline(self.now), n) for n in self.nodes]
            ahead = [
                (max(due, self.now), i) for i, (due, _) in enumerate(dues) if due is not None and due <= end
            ]
            if not ahead:
                break
            self.now, index = min(ahead)
            node = self.nodes[index]
            node.do(node.engine.tick(self.now, VITALS))
        self.now = end

    def alike(self) -> bool:
        """Tell whether all logs hold the same."""
        return all(node.log.heads() == self.nodes[0].log.heads() for node in self.nodes)
