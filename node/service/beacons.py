"""place_beacon, list_beacons, withdraw_beacon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import apsw

from mcp_gateway.refusals import shown
from node import database
from node.cell_columns import CellFilter
from node.embedding import Embedding
from node.inbox_projection import unpack_matches
from node.matching import INTEREST_IN_ALL, Beacon, Placement, current
from node.principals import Principal
from node.replica import Replica
from node.service.appending import append_one
from node.service.context import Call, PeerContext
from node.service.positions import format_position, parse_position
from node.service.views import cut_content, format_ms, load_cells, within_budget
from proto import limits
from proto.codec import encode
from proto.errors import NotFound, Overloaded
from proto.ids import AgentId, BeaconId, derive, format_uuid, parse_uuid
from proto.payloads import BeaconPlaced, BeaconWithdrawn, Vector, WireFrontier
from proto.scoring import quantise

DEFAULT_THRESHOLD = 0.30  # best F1 over labelled interests of the demo's corpus; see docs/benchmarks.md
EXAMPLES = 3
COUNTED = 1_000
DEFAULT_LAYERS = (0,)
UNREAD_COUNTED = 10_000
PAGE_OF_BEACONS = 100


class BeaconOperations:
    """Methods take a `Call` and return the result of the tool."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def place_beacon(self, call: Call) -> Mapping[str, Any]:
        """Place, change or (ttl 0) withdraw a standing interest."""
        p, args, context = call.principal, call.args, self._context
        p.require("read")
        p.scope(args.get("project"))
        beacon, layers = await context.writer.ask(lambda r: _named(r, call, context.now_ms))
        if args.get("ttl_seconds") == 0:
            held = await context.writer.ask(lambda r: _standing(r, beacon, context.now_ms))
            return await self._withdraw(call, beacon, held is not None)
        interest, threshold = args["interest"], args.get("threshold", DEFAULT_THRESHOLD)
        embedding = None if interest == INTEREST_IN_ALL else await context.embedder.query(interest)
        would_match = await self._would_match(call, embedding, threshold)
        ttl_s = args.get("ttl_seconds", limits.BEACON_TTL_S)
        expires_ms = context.now_ms + ttl_s * 1000
        vector = None if embedding is None else _vector(embedding, context.embedder.space)
        created = False

        def build(frontier: WireFrontier) -> BeaconPlaced:
            nonlocal created  # decided between commits, so that calls side by side keep the limit
            replica, now_ms = context.writer.replica, context.now_ms
            created = _standing(replica, beacon, now_ms) is None
            if created:
                _check_room(replica, p.agent_id, now_ms, context.bounds.beacons_per_agent)
            return _placed(call, beacon, layers, vector, threshold, ttl_s, expires_ms, frontier)

        await append_one(context, call, build)
        return {
            "beacon_id": format_uuid(beacon),
            "interest": interest,
            **({"project": args["project"]} if "project" in args else {}),
            "threshold": threshold,
            "expires_at": format_ms(expires_ms),
            "would_match": would_match,
            "created": created,
        }

    async def withdraw_beacon(self, call: Call) -> Mapping[str, Any]:
        """Withdraw a beacon by its id."""
        call.principal.require("read")
        beacon = BeaconId(parse_uuid(call.args["beacon_id"], "beacon_id"))
        agent = call.principal.agent_id

        def owned(replica: Replica) -> bool:
            found = replica.beacons.get(beacon)
            return found is not None and found.agent_id == agent

        if not await self._context.writer.ask(owned):
            raise NotFound(
                f"no beacon {shown(call.args['beacon_id'])} of yours is known here. Nothing was changed."
                " list_beacons shows yours."
            )
        standing = await self._context.writer.ask(lambda r: _standing(r, beacon, 0))
        await self._withdraw(call, beacon, standing is not None)
        return {"beacon_id": format_uuid(beacon), "withdrawn": True}

    async def list_beacons(self, call: Call) -> Mapping[str, Any]:
        """List the caller's live beacons with what waits for each."""
        call.principal.require("read")
        listed = [beacon for _, beacon in await self._live(call)]
        kept = within_budget(listed, limits.RESULT_BYTES_MAX)
        out: dict[str, Any] = {"agent": call.principal.agent, "beacons": kept}
        if len(kept) < len(listed):
            out["cut"] = len(listed) - len(kept)
            out["note"] = (
                "The list is cut to the oldest. To see more remove what you no longer need: place_beacon with the"
                " same interest, project and filters and ttl_seconds 0."
            )
        return out

    async def page_beacons(self, call: Call) -> Mapping[str, Any]:
        """List them page by page, for programs that need them all."""
        p, limit = call.principal, call.args.get("limit", PAGE_OF_BEACONS)
        p.require("read")
        after: tuple[Any, ...] = ()
        if "cursor" in call.args:
            after = parse_position("beacons", p.agent_id, call.args["cursor"], int, int, bytes)
        left = [(place, shown) for place, shown in await self._live(call) if place > after]
        out: dict[str, Any] = {"agent": p.agent, "beacons": [shown for _, shown in left[:limit]]}
        if len(left) > limit:
            out["next_cursor"] = format_position("beacons", p.agent_id, *left[limit - 1][0])
        return out

    async def _live(self, call: Call) -> list[tuple[tuple[int, int, bytes], dict[str, Any]]]:
        """Return the caller's live beacons as they are shown, each with its place in the list, oldest first."""
        p, context = call.principal, self._context
        now_ms = context.now_ms

        def standing(replica: Replica) -> list[tuple[Beacon, Placement, int]]:
            out = []
            for beacon in replica.beacons.of_agent(p.agent_id):
                placement = current(beacon, replica.covers)
                if placement is not None and beacon.expires_ms(placement) > now_ms:
                    out.append((beacon, placement, beacon.expires_ms(placement)))
            return out

        found = await context.writer.ask(standing)
        waiting = await context.pool.read(lambda db: _waiting(db, p))
        placed = [((pl.hlc.wall_ms, pl.hlc.counter, b.beacon), b, pl, expires) for b, pl, expires in found]
        placed.sort(key=lambda row: row[0])
        return [
            (place, _beacon_object(b, pl, expires, waiting[b.beacon])) for place, b, pl, expires in placed
        ]

    async def _withdraw(self, call: Call, beacon: BeaconId, standing: bool) -> Mapping[str, Any]:
        if standing:
            await append_one(
                self._context, call, lambda frontier: BeaconWithdrawn(beacon=beacon, frontier=frontier)
            )
        return {"beacon_id": format_uuid(beacon), "withdrawn": True}

    async def _would_match(self, call: Call, embedding: Embedding | None, threshold: float) -> dict[str, Any]:
        p, args, context = call.principal, call.args, self._context
        layers = args.get("layers") or DEFAULT_LAYERS
        found: list[tuple[int, float]] = []
        for layer in layers:
            wanted = CellFilter(
                p.scope(args.get("project")),
                layer,
                tuple(args.get("cell_types", ())),
                min_salience=round(args.get("min_salience", 0) * 10_000),
            )
            found += await context.retrieval.near(p.tenant, embedding, wanted, COUNTED)
        kept = [(n, cosine) for n, cosine in found if embedding is None or cosine >= threshold]
        kept.sort(key=lambda row: -row[1])
        numbers = [n for n, _ in kept[:EXAMPLES]]
        cells = await context.pool.read(lambda db: load_cells(db, numbers))
        examples = [
            {"node_id": format_uuid(cells[n].payload.cell), "content": cells[n].payload.content[:200]}
            for n in numbers
            if n in cells
        ]
        return {"count": len(kept), "examples": examples}


def _named(replica: Replica, call: Call, now_ms: int) -> tuple[BeaconId, tuple[int, ...]]:
    """Return the beacon that a call names, and its layers.

    One that version 0.1.0 placed without layers hears of all of them, on old and new peers alike, and stays itself
    while it lives; a new one hears of layer 0, for a summary says what its members said.
    """
    if not call.args.get("layers"):
        older = _beacon_id(call, ())
        if _standing(replica, older, now_ms) is not None:
            return older, ()
    layers = tuple(sorted(set(call.args.get("layers") or DEFAULT_LAYERS)))
    return _beacon_id(call, layers), layers


def _beacon_id(call: Call, layers: tuple[int, ...]) -> BeaconId:
    args, p = call.args, call.principal
    key = (
        args["interest"],
        args.get("project"),
        sorted(set(args.get("cell_types", ()))),
        list(layers),
        round(args.get("min_salience", 0) * 10_000),
    )
    return BeaconId(derive("beacon", p.tenant, p.agent_id, encode(key)))


def _standing(replica: Replica, beacon: BeaconId, now_ms: int) -> Placement | None:
    found = replica.beacons.get(beacon)
    placement = None if found is None else current(found, replica.covers)
    if found is None or placement is None or found.expires_ms(placement) <= now_ms:
        return None
    return placement


def count_standing(replica: Replica, agent: AgentId, now_ms: int) -> int:
    """Return how many beacons of an agent are placed, not withdrawn and not expired."""
    return sum(_standing(replica, b.beacon, now_ms) is not None for b in replica.beacons.of_agent(agent))


def _check_room(replica: Replica, agent: AgentId, now_ms: int, limit: int) -> None:
    count = count_standing(replica, agent, now_ms)
    if count >= limit:
        raise Overloaded(
            f"{count} beacons of yours are placed, limit {limit}. Nothing was placed."
            " list_beacons shows them; remove one by its interest, project and filters:"
            ' {"interest": "...", "ttl_seconds": 0}'
        )


def _vector(embedding: Embedding, space: str) -> Vector:
    quantised = quantise(embedding.vector)
    return Vector(space=space, values=quantised.q, norm=quantised.n)


def _placed(
    call: Call,
    beacon: BeaconId,
    layers: tuple[int, ...],
    vector: Vector | None,
    threshold: float,
    ttl_s: int,
    expires_ms: int,
    frontier: WireFrontier,
) -> BeaconPlaced:
    p, args = call.principal, call.args
    readable = p.readable()
    return BeaconPlaced(
        beacon=beacon,
        interest=args["interest"],
        vector=vector,
        threshold=round(threshold * 10_000),
        agent=p.agent,
        owner=p.owner,
        project=args.get("project"),
        readable=None if readable is None else tuple(sorted(readable)),
        cell_types=tuple(sorted(set(args.get("cell_types", ())))),
        layers=layers,
        min_salience=round(args.get("min_salience", 0) * 10_000),
        include_own=args.get("include_own", False),
        strict=args.get("strict", False),
        ttl_s=ttl_s,
        expires_ms=expires_ms,
        frontier=frontier,
    )


def _beacon_object(beacon: Beacon, placement: Placement, expires_ms: int, waiting: int) -> dict[str, Any]:
    f = beacon.filters
    interest = cut_content(beacon.interest)
    out: dict[str, Any] = {
        "beacon_id": format_uuid(beacon.beacon),
        "interest": interest["content"],
        **({"interest_chars": interest["content_chars"]} if "content_chars" in interest else {}),
        "threshold": placement.threshold / 10_000,
        "expires_at": format_ms(expires_ms),
        "waiting": waiting,
    }
    if f.project is not None:
        out["project"] = f.project
    filters: dict[str, Any] = {}
    if f.cell_types:
        filters["cell_types"] = sorted(f.cell_types)
    if f.layers and f.layers != {*DEFAULT_LAYERS}:
        filters["layers"] = sorted(f.layers)
    if f.min_salience:
        filters["min_salience"] = f.min_salience / 10_000
    if placement.include_own:
        filters["include_own"] = True
    if placement.strict:
        filters["strict"] = True
    if filters:
        out["filters"] = filters
    return out


def _waiting(db: apsw.Connection, p: Principal) -> Counter[bytes]:
    """Return how many unread entries that a principal may see name each beacon; 10,000 are looked at."""
    condition, parameters = p.scope(None).condition("c")
    counts: Counter[bytes] = Counter()
    for (matched,) in database.rows(
        db,
        f"SELECT e.matched FROM entries e JOIN cells c ON c.cell_no=e.cell_no"  # noqa: S608
        f" WHERE e.agent_id=? AND e.read_local IS NULL AND {condition} LIMIT ?",
        p.agent_id,
        *parameters,
        UNREAD_COUNTED,
    ):
        counts.update(m.beacon for m in unpack_matches(matched))
    return counts
