"""One simulated process: an engine, its site, and the glue that the replicator is in the product.

Own events follow the rule of the group commit: staged, made durable together, then published and
acknowledged.  Received segments are applied after a while, as a disk would; a crash in between loses them.
Messages wait in a bounded queue while the process is hung or slow; what finds it full is dropped.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mesh.digests import Sender, Vitals
from mesh.effects import Apply, Channel, Confirmed, Effect, Fork, Publish, Serve
from mesh.engine import Engine
from mesh.serving import Page
from proto.ids import PeerId
from tests.simulation import answers, steps
from tests.simulation.answers import Answer, Answers
from tests.simulation.clocks import Monotonic
from tests.simulation.disk_history import DiskHistory
from tests.simulation.site import Site
from tests.simulation.world import World

_VITALS = Vitals(wall_ms=0, version="0.1.0")
QUEUED = 8  # messages that wait for a process; few, so that the queue is full now and then


class Message(NamedTuple):
    """What a process has sent, with the life of it that did."""

    publish: Publish
    source: Process
    sender: Sender


class Process:
    """A running, hung or crashed process.

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
        self.hung = False
        self.slow_ms = 0.0  # that it takes over each message
        self.is_twin = False
        self.engine_class = engine_class
        self.engine: Engine
        self.monotonic = Monotonic(0, 1.0)  # another one in each life
        self.members: frozenset[PeerId] = frozenset()  # as far as it has heard
        self.retired: frozenset[PeerId] = frozenset()
        self.backup: Any = None
        self.heard: set[Sender] = set()  # processes whose digests have come, in this life
        self._life = 0
        self.commit_due = False  # something is staged
        self._due: int | None = None
        self._applies: list[Apply] = []
        self._queue: deque[Message] = deque()
        self._held_back: list[Callable[[], None]] = []
        self.disk = DiskHistory()

    @property
    def name(self) -> str:
        """How the trace calls it."""
        peer = steps.named(self.site.peer)
        return f"{peer}, copy {self.number}" if self.is_twin else peer

    # -- life

    def boot(self) -> None:
        """Begin a process life."""
        rng, drift = self.world.rng, self.world.settings.drift
        self.up, self.hung, self._life = True, False, self._life + 1
        self.commit_due, self._due, self._applies, self.heard = False, None, [], set()
        self._queue.clear()
        self._held_back = []
        rate = 1 + rng.uniform(-drift, drift)
        self.monotonic = Monotonic(rng.randrange(10**6) - int(self.world.now * rate), rate)
        self.site.start(rng.getrandbits(64))
        self.engine = self.engine_class(
            self.site.peer, self.world.settings.config, random.Random(rng.getrandbits(64))
        )
        self._answers = Answers(self.engine.durable_on, self._answer)
        self.note_heads()
        self.world.note(self, "starts and holds {} events", self._held())
        self._do(self.engine.started(self.site.heads()))
        self.members = self.retired = frozenset()
        self.hear_of_members()
        if self.world.network_up:
            self.connection(True)

    def crash(self) -> None:
        """End the process life between two instructions."""
        self.world.note(self, "dies{}", ", with events that are not durable" if self.commit_due else "")
        self.world.counts["crashes"] += 1
        self.world.counts["lost tails"] += self.commit_due
        self.world.tally(self)
        self.up, self.hung, self._life = False, False, self._life + 1
        self.site.crash()

    def restore(self, backup: Any) -> None:
        """Put an older content of its disk in place.  Only while crashed."""
        before = self.site.heads()
        self.site.restore(backup)
        self.note_heads(replaced=True)
        lost = sum(head.sequence for head in before.values()) - self._held()
        self.world.note(self, "gets an older disk back, and with it loses {} events", lost)
        self.world.counts["restores that lose a tail"] += lost > 0
        self.world.checks.destroyed(self, before)

    def hang(self) -> None:
        """Do nothing from now on; time goes on, and messages come."""
        self.hung = True
        self.world.note(self, "hangs")

    def wake(self) -> None:
        """Go on after hanging: whatever was due happens at once, in order."""
        if not self.hung:
            return
        self.hung, held_back, self._held_back = False, self._held_back, []
        self.world.note(self, "goes on")
        for action in held_back:
            action()
        self._work_off()

    def recover(self) -> None:
        """Work as one should."""
        self.slow_ms = 0.0
        if not self.up:
            self.boot()
        self.wake()

    @property
    def busy(self) -> bool:
        """Whether something waits for the disk."""
        return bool(self._applies) or self.commit_due

    def clock(self) -> int:
        """Return this process's monotonic milliseconds."""
        return self.monotonic.at(self.world.now)

    def note_heads(self, *, replaced: bool = False) -> None:
        """Remember what is durable now, for the checks."""
        self.disk.note(self.world.now, self.site.heads(), replaced=replaced)

    # -- members

    def hear_of_members(self) -> None:
        """Hear who is a member and who has retired."""
        if self.up:
            self.tell_members(self.world.members - self.world.retired, self.world.retired)

    def tell_members(self, members: frozenset[PeerId], retired: frozenset[PeerId]) -> None:
        """Tell the engine, if it is news."""
        if (members, retired) != (self.members, self.retired):
            self.members, self.retired = members, retired
            self._when_awake(lambda: self._do(self.engine.set_members(members, retired)))

    # -- own events

    def append(self) -> None:
        """Stage an own event, and a group commit if none is due."""
        self.site.append()
        self.appended()
        self._commit_soon(100 if self.world.rng.random() < 0.2 else 30)

    def appended(self) -> None:
        """Called when an event is staged; nothing may be said of it yet."""

    def _commit_soon(self, most_ms: float) -> None:
        if not self.commit_due:
            self.commit_due = True
            self._later(self.world.rng.uniform(1, most_ms), self._commit)

    def _commit(self) -> None:
        self.commit_due = False
        segments = self.site.sync()
        self.note_heads()
        self.world.checks.anytime_durable(self)
        self.world.checks.acknowledged(segments)
        for segment in segments:
            self.world.note(self, steps.committed(segment))
            self.world.counts["commits of a clone"] += self.is_twin
        self._do(self.engine.committed(segments, self.clock()))
        wanted = self.world.rng.choice(answers.WANTED)
        for store in self._answers.wait(segments, wanted):
            self._later(answers.PATIENCE_MS, self._answers.expire, store)
        self._look_at_answers()

    def _look_at_answers(self) -> None:
        late = self._answers.late
        self._answers.look()
        self.world.counts["confirmations that come too late"] += self._answers.late - late

    def _answer(self, answer: Answer) -> None:
        self.world.note(
            self,
            "answers that event {} is durable on {} of {}",
            answer.position.sequence,
            answer.known,
            answer.wanted,
        )
        self.world.counts["answers with less than was wanted"] += answer.known < answer.wanted
        self.world.counts[f"answers of {min(answer.known, 3)}"] += 1
        self.world.checks.answered(self, answer)

    # -- the outside

    def connection(self, up: bool) -> None:
        """The message server came or went."""
        self._when_awake(
            lambda: self._do(
                self.engine.connected(self.clock()) if up else self.engine.disconnected(self.clock())
            )
        )

    def message(self, publish: Publish) -> Message:
        """Return what travels."""
        return Message(publish, self, self.engine.me)

    def take_in(self, message: Message) -> None:
        """Take a message from the network, or let it wait, or drop it when too many do."""
        if not self.hung and not self.slow_ms and not self._queue:
            self.receive(message)
        elif len(self._queue) >= QUEUED:
            what = "hints" if message.publish.channel is Channel.LIVE else "messages"
            self.world.counts[f"{what} dropped by a full queue"] += 1
            self.world.note(self, "has a full queue and drops a message of {}", message.source.name)
        else:
            self._queue.append(message)
            if len(self._queue) == 1 and not self.hung:
                self._later(self.slow_ms, self._work_off)

    def _work_off(self) -> None:
        """Receive what waits: all of it at once, or one message after the other."""
        while self._queue and not self.hung:
            self.receive(self._queue.popleft())
            if self._queue and self.slow_ms:
                self._later(self.slow_ms, self._work_off)
                return

    def receive(self, message: Message) -> None:
        """Handle a message."""
        publish = message.publish
        receive = {
            Channel.LIVE: self.engine.receive_live,
            Channel.DIGEST: self.engine.receive_digest,
            Channel.ACK: self.engine.receive_ack,
            Channel.PULL: self.engine.receive_pull,
        }[publish.channel]
        if publish.channel is Channel.DIGEST:
            self.heard.add(message.sender)
        self._do(receive(publish.data, self.clock()))
        if publish.channel is Channel.ACK:
            self.world.checks.anytime_durable_on_is_true(self, of=self.site.peer)

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
                    self.world.note(self, "sees two histories of a stream, at {}", effect.sequence)
                    self.world.checks.anytime_fork(self, effect)
                case Confirmed():
                    self._look_at_answers()
        self._set_timer()

    def _publish(self, publish: Publish) -> None:
        if self.world.trace is not None and publish.channel is not Channel.DIGEST:
            self.world.note(self, steps.sent(publish, self.world.network_up))
        if self.world.network_up:
            self.world.send(self, publish)
        elif publish.pull:
            self._later(1, lambda: self._do(self.engine.pull_failed(publish.pull, self.clock())))
        if publish.channel is Channel.LIVE:
            self._later(1, lambda: self._do(self.engine.published(self.clock())))

    def _apply(self) -> None:
        applies, self._applies = self._applies, []
        before = self.site.heads()
        result = self.site.apply([segment for apply in applies for segment in apply.segments])
        self.note_heads()
        for step in steps.kept(before, result) if self.world.trace is not None else ():
            self.world.note(self, step)
        self.world.checks.anytime_durable(self)
        self._do(self.engine.applied(applies, result, self.clock()))

    def _serve(self, page: Page) -> None:
        while (read := page.next_read()) is not None:
            page.add(self.site.read(*read))
        self._do(self.engine.served(page))

    # -- time

    def _when_awake(self, action: Callable[[], None]) -> None:
        if self.hung:
            life = self._life
            self._held_back.append(lambda: action() if self._life == life else None)
        else:
            action()

    def _later(self, delay_ms: float, action: Callable[..., None], *args: Any) -> None:
        """Do something later, if this process life still goes on then; when it hangs, after that."""
        life = self._life

        def act() -> None:
            if self._life != life:
                return
            if self.hung:
                self._held_back.append(act)
            else:
                action(*args)

        self.world.at(delay_ms, act)

    def _set_timer(self) -> None:
        now = self.clock()
        due = self.engine.next_deadline(now)
        if due is not None and due != self._due:
            self._due = due
            self._later(max(0.0, self.monotonic.when(due) - self.world.now) + 1e-6, self._tick, due)

    def _tick(self, due: int) -> None:
        if due == self._due:
            self._due = None
            effects = self.engine.tick(self.clock(), _VITALS)
            self.world.checks.anytime_tick_did_what_was_due(self)
            self._do(effects)

    def _held(self) -> int:
        return sum(head.sequence for head in self.site.heads().values())
