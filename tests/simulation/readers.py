"""Readers: the agent itself or one session of it, with all that can go wrong between it and a peer.

Each makes one call at a time.  `ack` passes the cursor of the last page it had; `stdio` has a gateway that
sees every reply it could not write out; `http` passes nothing, so a reply that was sent counts as read.
Requests and replies get lost, noticed by the server or not; gateways are started anew and forget; readers
change peer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from node.readers import Reader
from node.replica import Draft
from node.sqlite_log import Logged
from proto.errors import HyphaeError
from proto.ids import DiffId, PageId, SessionId
from proto.payloads import BeaconsRenewed, SessionOpened, WireFrontier
from tests.simulation.memory_history import AGENTS, Agent, Repeat, Seen
from tests.simulation.memory_process import Answer, DrainCall, MemoryProcess
from tests.simulation.memory_world import MemoryWorld

MODES = ("ack", "stdio", "http")
TIMEOUT_MS = 1_500
CALLS_AT_THE_END = 120
IDLE_CALLS = 3  # calls in a row, at random peers, that bring nothing: then a reader is at its end
RENEWED_MS = 20_000


class Client:
    """One reader.

    Args:
        mode: one of `MODES`.
        session: None for the agent itself.
    """

    def __init__(self, world: MemoryWorld, agent: Agent, mode: str, session: SessionId | None = None) -> None:
        self.world, self.history, self.agent, self.session = world, world.history, agent, session
        self.seen = Seen(agent, session, mode)
        if session is not None:
            self.seen.hidden = self.history.read_by_agent(agent)
        self.history.readers.append(self.seen)
        self.idle = 0
        self._pages: dict[DiffId, list[PageId]] = defaultdict(list)
        self._at: MemoryProcess | None = None
        self._last: PageId | None = None  # the page that it, or its gateway, has certainly had
        self._mark = b""
        self._named = False  # the call under way says which page was had last
        self._call = 0  # number of the call under way
        self._waiting = False
        self._unseen: dict[
            tuple[int, int], set[DiffId]
        ] = {}  # per peer's life: the last page, if it got lost
        self._start_gateway()

    @property
    def reader(self) -> Reader:
        """Who it is to a peer, for as long as its gateway lives."""
        return Reader(self.agent.id, self.session, self._mark)

    # -- calls

    def call_again_and_again(self) -> None:
        """Call, then call again, until the time with faults is over."""
        self.call()
        if self.world.now < self.world.settings.duration_ms:
            self.world.at(self.world.rng.uniform(400, 2_000), self.call_again_and_again)

    def call(self) -> None:
        """Drain one page, unless a call is under way."""
        rng, running = self.world.rng, self.world.peers()
        if self._waiting or not self.seen.open or not running:
            return
        if not self.world.healed and rng.random() < self.world.settings.gateway_restarts:
            self.history.counts["gateway restarts"] += 1
            self._start_gateway()
        process = self._choose(running)
        others = (seen for seen in self.history.readers if seen is not self.seen and seen.calling)
        self.history.counts["drains through two gateways at once"] += any(
            seen.agent == self.agent and seen.session == self.session for seen in others
        )
        self._call, self._waiting = self._call + 1, True
        self.seen.calling = True
        call = self._request()
        self._named = call.explicit
        if not self.world.healed and rng.random() < 0.02:
            call = DrainCall(call.agent, call.session, call.mark, call.named, call.explicit, project="web")
        if self.world.healed or rng.random() >= self.world.settings.request_loss:  # else the request is lost
            self.world.at(rng.uniform(5, 80), self._arrive, process, process.life, call, self._call)
        self.world.at(TIMEOUT_MS, self._give_up, self._call)

    def _start_gateway(self) -> None:
        """A new gateway process, or an agent that lost its context: what was had last is forgotten."""
        self._last = None
        self._mark = self.world.rng.randbytes(8) if self.seen.mode == "stdio" else b""

    def _choose(self, running: Sequence[MemoryProcess]) -> MemoryProcess:
        """Return the peer of the last call, as a rule."""
        if (
            self._at is not None
            and self._at in running
            and self.world.rng.random() < self.world.settings.sticky
        ):
            return self._at
        chosen = self.world.rng.choice(running)
        self.history.counts["changes of peer"] += self._at is not None and chosen is not self._at
        self._at = chosen
        return chosen

    def _request(self) -> DrainCall:
        named = None if self.seen.mode == "http" else self._last
        explicit = named is not None or self.seen.mode == "stdio"
        return DrainCall(self.agent, self.session, self._mark, named, explicit)

    def _arrive(self, process: MemoryProcess, life: int, call: DrainCall, number: int) -> None:
        if process.up and process.life == life:
            process.take_request(lambda: self._serve(process, life, call, number))

    def _serve(self, process: MemoryProcess, life: int, call: DrainCall, number: int) -> None:
        if process.up and process.life == life:
            self._note_what_counts_as_read(process, call)
            process.drain(call, lambda answer: self._reply(process, life, call, number, answer))
            if not self.world.healed and self.world.rng.random() < 0.1:
                self._renew(process)

    def _note_what_counts_as_read(self, process: MemoryProcess, call: DrainCall) -> None:
        """Over HTTP without `ack` a page that this peer wrote out counts as read, even if it got lost."""
        if not call.explicit:
            self.seen.skippable |= self._unseen.get((process.number, process.life), set())

    def _give_up(self, number: int) -> None:
        if self._call == number:
            self._waiting = self.seen.calling = False

    def _renew(self, process: MemoryProcess) -> None:
        """Draining keeps beacons alive that have not expired."""
        now_ms = process.wall_us() // 1000
        beacons = tuple(
            beacon.beacon
            for beacon in process.site.replica.beacons.of_agent(self.agent.id)
            if max(beacon.expires_ms(placement) for placement in beacon.placements) > now_ms
        )
        if beacons:
            self.history.counts["renewals"] += 1
            renewed = BeaconsRenewed(beacons=beacons, expires_ms=now_ms + RENEWED_MS)
            process.submit([Draft.of(self.agent.tenant, self.agent.id, renewed)], lambda _outcomes: None)

    # -- replies

    def _reply(self, process: MemoryProcess, life: int, call: DrainCall, number: int, answer: Answer) -> None:
        rng = self.world.rng
        lost = not self.world.healed and rng.random() < self.world.settings.reply_loss
        noticed = lost and rng.random() < 0.5
        late = self._call != number or not self._waiting
        if answer.page is not None and not noticed and not late:
            if process.life == life and self.seen.mode != "stdio":
                process.memory.sent(answer.page)
            self._unseen[process.number, life] = {entry.diff for entry in answer.entries} if lost else set()
            self.history.counts["replies lost unnoticed"] += lost
        if lost or late:
            self.history.counts["replies lost"] += 1
            return
        self._waiting = self.seen.calling = False
        self._take(answer)

    def _take(self, answer: Answer) -> None:
        if answer.refusal == "closed":
            self.seen.open = False
            return
        if answer.refusal:
            return
        self.idle = 0 if answer.entries else self.idle + 1
        if answer.page is None:
            return
        self._last = answer.page
        counts = self.history.counts
        counts["pages"] += 1
        counts["marked pages"] += answer.may_repeat
        counts["marked pages without a repeat"] += answer.may_repeat and not any(
            self.seen.count[entry.diff] for entry in answer.entries
        )
        for entry in answer.entries:
            counts["listed"] += 1
            counts["listed superseded"] += entry.kind == "superseded"
            self._pages[entry.diff].append(answer.page)
            if self.seen.count[entry.diff]:
                counts["repeats marked"] += answer.may_repeat
                if not answer.may_repeat:
                    pages = tuple(self._pages[entry.diff])
                    self.history.repeats.append(Repeat(self.seen, entry.diff, pages, self._named))
            self.seen.count[entry.diff] += 1
            self.history.listings[self.seen.agent.name, self.session, entry.diff] = entry

    # -- sessions

    def close(self) -> None:
        """Close the session: at a peer that knows it, which may be another than the last."""
        running = [p for p in self.world.peers() if self.session is not None and p.knows(self.session)]
        if self.world.healed or self._waiting or not self.seen.open or not running:
            return
        process = self.world.rng.choice(running)
        if self.world.rng.random() < 0.3:  # a peer takes it for idle
            self.seen.joined = True
            process.close_session(DrainCall(self.agent, self.session, b"", None, True))
            self.history.counts["sessions closed as idle"] += 1
            return
        self.seen.open = False
        self.history.counts["sessions closed"] += 1
        call = self._request()
        self._note_what_counts_as_read(process, call)
        process.close_session(call)


class Readership:
    """All readers of a run: one per agent, and sessions that come and go."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        self.clients: list[Client] = []
        rng, end = world.rng, world.settings.duration_ms
        for agent in AGENTS:
            self._read(agent, rng.choice(MODES))
        if world.settings.second_gateway:
            self._read(AGENTS[0], "stdio")
        for _ in range(world.settings.sessions):
            world.at(rng.uniform(500, end * 0.8), self._open_session, rng.choice(AGENTS[:3]))

    def _read(self, agent: Agent, mode: str) -> None:
        client = Client(self._world, agent, mode)
        self.clients.append(client)
        self._world.at(self._world.rng.uniform(0, 1_000), client.call_again_and_again)

    def _open_session(self, agent: Agent) -> None:
        """Open a session at a random peer; once that is durable, read it, and perhaps close it later."""
        world = self._world
        running = world.peers()
        if world.healed or not running:
            return
        process: MemoryProcess = world.rng.choice(running)
        session, mode = SessionId(world.rng.randbytes(16)), world.rng.choice(MODES)

        def build(frontier: WireFrontier) -> SessionOpened:
            return SessionOpened(
                session=session, agent=agent.name, owner=agent.owner, project="web", frontier=frontier
            )

        def opened(outcomes: list[Logged | HyphaeError]) -> None:
            if not isinstance(outcomes[0], Logged):
                return  # the peer has retired
            world.history.counts["sessions"] += 1
            client = Client(world, agent, mode, session)
            process.memory.opened(client.reader)
            self.clients.append(client)
            client.call_again_and_again()
            if world.rng.random() < 0.5:
                world.at(world.rng.uniform(2_000, 8_000), client.close)

        process.submit([Draft(agent.tenant, agent.id, build)], opened)

    def drain_to_the_end(self) -> None:
        """Let every open reader call, at random peers, until several calls in a row bring nothing."""
        for client in self.clients:
            client.idle = 0
        for _ in range(CALLS_AT_THE_END):
            calling = [c for c in self.clients if c.seen.open and c.idle < IDLE_CALLS]
            if not calling:
                return
            for client in calling:
                client.call()
            self._world.run_until(self._world.now + 250)
