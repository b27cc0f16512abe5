"""One simulated process: an engine, its site, and the glue that the replicator is in the product.

Own events follow the rule of the group commit: staged, made durable together, then published and
acknowledged.  Received segments are applied after a while, as a disk would; a crash in between loses them.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

from mesh.digests import Sender, Vitals, decode_digest
from mesh.effects import Apply, Channel, Confirmed, Effect, Fork, Publish, Serve
from mesh.engine import Engine
from mesh.ports import Head
from mesh.serving import Page
from proto.streams import StreamId
from tests.simulation.site import Site
from tests.simulation.world import World

_VITALS = Vitals(wall_ms=0, version="0.1.0")


class Process:
    """A running, or crashed, process.

    Args:
        world: where it lives.
        site: its directory.
        engine_class: a planted bug may put another one here.
    """

    def __init__(self, world: World, site: Site, engine_class: type[Engine] = Engine) -> None:
        self.world = world
        self.site = site
        self.number = -1
        self.up = False
        self.engine_class = engine_class
        self.engine: Engine
        self.offset = 0  # its clock has another origin in each life
        self.backup: Any = None
        self.heard: set[Sender] = set()  # processes whose digests have come, in this life
        self._life = 0
        self._commit_due = False
        self._due: int | None = None
        self._applies: list[Apply] = []
        self._history: list[tuple[float, dict[StreamId, Head]]] = []

    # -- life

    def boot(self) -> None:
        """Begin a process life."""
        rng = self.world.rng
        self.up, self._life = True, self._life + 1
        self._commit_due, self._due, self._applies, self.heard = False, None, [], set()
        self.offset = rng.randrange(10**6)
        self.site.start(rng.getrandbits(64))
        self.engine = self.engine_class(
            self.site.peer, self.world.settings.config, random.Random(rng.getrandbits(64))
        )
        self.note_heads()
        self._do(self.engine.started(self.site.heads()))
        self._do(self.engine.set_members(self.world.members))
        if self.world.network_up:
            self.connection(True)

    def crash(self) -> None:
        """End the process life between two instructions."""
        self.up, self._life = False, self._life + 1
        self.site.crash()

    def restore(self) -> None:
        """Put the backup back.  Only while crashed."""
        before = self.site.heads()
        self.site.restore(self.backup)
        self.note_heads()
        self.world.checks.destroyed(self, before)

    @property
    def busy(self) -> bool:
        """Whether something waits for the disk."""
        return bool(self._applies) or self._commit_due

    def clock(self) -> int:
        """Return this process's monotonic milliseconds."""
        return int(self.world.now) + self.offset

    def note_heads(self) -> None:
        """Remember what is durable now, for the checks."""
        self._history.append((self.world.now, self.site.heads()))

    def has_held(self, stream: StreamId, sequence: int) -> bool:
        """Tell whether an event was ever durable here."""
        return any(stream in heads and heads[stream].sequence >= sequence for _, heads in self._history)

    def heads_at(self, moment: float) -> dict[StreamId, Head]:
        """Return what was durable here at a moment."""
        index = bisect_right(self._history, moment, key=lambda entry: entry[0])
        return self._history[index - 1][1] if index else {}

    # -- own events

    def append(self) -> None:
        """Stage an own event, and a group commit if none is due."""
        self.site.append()
        self.appended()
        if not self._commit_due:
            self._commit_due = True
            self._later(self.world.rng.uniform(1, 30), self._commit)

    def appended(self) -> None:
        """Called when an event is staged; nothing may be said of it yet."""

    def _commit(self) -> None:
        self._commit_due = False
        segments = self.site.sync()
        self.note_heads()
        self.world.checks.anytime_durable(self)
        self.world.checks.acknowledged(segments)
        self._do(self.engine.committed(segments, self.clock()))

    # -- the outside

    def connection(self, up: bool) -> None:
        """The message server came or went."""
        self._do(self.engine.connected(self.clock()) if up else self.engine.disconnected(self.clock()))

    def receive(self, publish: Publish) -> None:
        """Take a message from the network."""
        receive = {
            Channel.LIVE: self.engine.receive_live,
            Channel.DIGEST: self.engine.receive_digest,
            Channel.ACK: self.engine.receive_ack,
            Channel.PULL: self.engine.receive_pull,
        }[publish.channel]
        if publish.channel is Channel.DIGEST:
            self.heard.add(decode_digest(publish.data).sender)
        self._do(receive(publish.data, self.clock()))
        if publish.channel is Channel.ACK:
            self.world.checks.anytime_durable_on_is_true(self)

    # -- effects

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Publish():
                    self._publish(effect)
                case Apply():
                    self._applies.append(effect)
                    if len(self._applies) == 1:
                        self._later(self.world.rng.uniform(1, 30), self._apply)
                case Serve(page):
                    self._later(self.world.rng.uniform(1, 10), self._serve, page)
                case Fork():
                    self.world.checks.anytime_fork(self, effect)
                case Confirmed():
                    pass  # nobody waits; the checks ask at moments of their own
        self._set_timer()

    def _publish(self, publish: Publish) -> None:
        if self.world.network_up:
            self.world.send(self, publish)
        elif publish.pull:
            self._later(1, lambda: self._do(self.engine.pull_failed(publish.pull, self.clock())))
        if publish.channel is Channel.LIVE:
            self._later(1, lambda: self._do(self.engine.published(self.clock())))

    def _apply(self) -> None:
        applies, self._applies = self._applies, []
        result = self.site.apply([segment for apply in applies for segment in apply.segments])
        self.note_heads()
        self.world.checks.anytime_durable(self)
        self._do(self.engine.applied(applies, result, self.clock()))

    def _serve(self, page: Page) -> None:
        while (read := page.next_read()) is not None:
            page.add(self.site.read(*read))
        self._do(self.engine.served(page))

    # -- time

    def _later(self, delay_ms: float, action: Callable[..., None], *args: Any) -> None:
        """Do something later, if this process life still goes on then."""
        life = self._life

        def act() -> None:
            if self._life == life:
                action(*args)

        self.world.at(delay_ms, act)

    def _set_timer(self) -> None:
        due = self.engine.next_deadline(self.clock())
        if due is not None and due != self._due:
            self._due = due
            self._later(max(0, due - self.clock()), self._tick, due)

    def _tick(self, due: int) -> None:
        if due == self._due:
            self._due = None
            effects = self.engine.tick(self.clock(), _VITALS)
            self.world.checks.anytime_tick_did_what_was_due(self)
            self._do(effects)
