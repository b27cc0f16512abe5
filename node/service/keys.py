"""issue_key, list_keys, revoke_key, rotate_key: admin within its tenant, operator everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mcp_gateway.authentication import KeyText
from node import database
from node.principals import AGENT_SCOPES, RESERVED, Principal
from node.replica import Draft
from node.service.appending import append_one
from node.service.context import Call, PeerContext
from node.service.positions import format_position, parse_position
from node.service.views import format_ms
from proto import limits
from proto.errors import Forbidden, HyphaeError, Invalid, NotFound
from proto.ids import format_base32
from proto.payloads import KeyIssued, KeyRevoked

KEY_ID_BYTES = 10


def mint_key(
    random_bytes: Any,
    *,
    tenant: str,
    owner: str,
    agent: str,
    scopes: Sequence[str],
    projects: Mapping[str, str] | None = None,
    default_project: str | None = None,
) -> tuple[str, KeyIssued]:
    """Return a new key's text, which is shown once, and the event that makes it known."""
    key_id, seed = format_base32(random_bytes(KEY_ID_BYTES)), random_bytes(32)
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    granted = None if projects is None else tuple(sorted(projects.items()))
    issued = KeyIssued.model_validate(
        {
            "key_id": key_id,
            "public_key": public,
            "tenant": tenant,
            "owner": owner,
            "agent": agent,
            "scopes": tuple(scopes),
            "projects": granted,
            "default_project": default_project,
        }
    )
    return KeyText(key_id, seed).format(), issued


class KeyOperations:
    """Methods take a `Call` and return the result of the operation."""

    def __init__(self, context: PeerContext) -> None:
        self._context = context

    async def issue_key(self, call: Call) -> Mapping[str, Any]:
        """Issue a key; the answer alone holds its secret."""
        p, args = call.principal, call.args
        p.require("admin", "No key was issued. ")
        tenant = args.get("tenant", p.tenant_name)
        scopes = tuple(args.get("scopes", AGENT_SCOPES))
        if tenant != p.tenant_name:
            p.require("operator", "Keys of another tenant need it. ")
        if "operator" in scopes:
            p.require("operator", "Only an operator makes operators. ")
        for field in ("agent", "owner"):
            _refuse_reserved(field, args.get(field, ""))
        key, issued = mint_key(
            self._context.random_bytes,
            tenant=tenant,
            owner=args.get("owner", args["agent"]),  # sharing `private` is asked for, never a default
            agent=args["agent"],
            scopes=scopes,
            projects=args.get("projects"),
            default_project=args.get("default_project"),
        )
        await append_one(self._context, call, lambda _f: issued)
        return _shown(key, issued)

    async def list_keys(self, call: Call) -> Mapping[str, Any]:
        """List keys of the caller's tenant, without secrets, page by page; an operator sees all."""
        p, limit = call.principal, call.args.get("limit", limits.PAGE)
        p.require("admin")
        everywhere = "operator" in p.scopes
        after = (-1, "")
        if "cursor" in call.args:
            after_ms, after_id = parse_position("keys", p.agent_id, call.args["cursor"], int, str)
            after = (int(after_ms), str(after_id))
        found = await self._context.pool.read(
            lambda db: database.rows(
                db,
                "SELECT k.key_id, k.agent, k.owner, k.tenant, k.scopes, k.projects, k.created_ms, r.revoked_ms"
                " FROM keys k LEFT JOIN revocations r ON r.key_id=k.key_id WHERE (? OR k.tenant_id=?)"
                " AND (k.created_ms, k.key_id) > (?, ?) ORDER BY k.created_ms, k.key_id LIMIT ?",
                everywhere,
                p.tenant,
                *after,
                limit + 1,
            )
        )
        out: dict[str, Any] = {"keys": [_row(*r) for r in found[:limit]]}
        if len(found) > limit:
            last = found[limit - 1]
            out["next_cursor"] = format_position("keys", p.agent_id, last[6], last[0])
        return out

    async def revoke_key(self, call: Call) -> Mapping[str, Any]:
        """Revoke a key: its next call fails on every peer that has heard of it."""
        key_id = call.args["id"]
        await self._find(call)
        revoked = await append_one(self._context, call, lambda _f: KeyRevoked(key_id=key_id))
        return {"id": key_id, "revoked_at": format_ms(revoked.event.header.wall_ms)}

    async def rotate_key(self, call: Call) -> Mapping[str, Any]:
        """Issue a key with the same rights and revoke the old one, in one transaction."""
        p, old_id = call.principal, call.args["id"]
        agent, owner, tenant, scopes, projects, default = await self._find(call)
        for field, name in (("agent", agent), ("owner", owner)):
            _refuse_reserved(field, name)
        key, issued = mint_key(
            self._context.random_bytes,
            tenant=tenant,
            owner=owner,
            agent=agent,
            scopes=json.loads(scopes),
            projects=None if projects is None else json.loads(projects),
            default_project=default,
        )
        revoked = KeyRevoked(key_id=old_id)
        drafts = [Draft.of(p.tenant, p.agent_id, payload) for payload in (issued, revoked)]
        for outcome in await self._context.writer.append(drafts):
            if isinstance(outcome, HyphaeError):
                raise outcome
        return _shown(key, issued)

    async def _find(self, call: Call) -> tuple[Any, ...]:
        p, key_id = call.principal, call.args["id"]
        p.require("admin", "Nothing was changed. ")
        found = await self._context.pool.read(
            lambda db: database.row(
                db,
                "SELECT agent, owner, tenant, scopes, projects, default_project, tenant_id FROM keys"
                " WHERE key_id=?",
                key_id,
            )
        )
        if found is None or not _may_manage(p, found):
            raise NotFound(f"no key {key_id} is known here; see hyphae key list.")
        if "operator" in json.loads(found[3]) and "operator" not in p.scopes:
            raise Forbidden("an operator's key is managed by operators. Nothing was changed.")
        return found[:6]


def _refuse_reserved(field: str, given: str) -> None:
    if given.strip().casefold().startswith(RESERVED):
        raise Invalid(
            f'{field} begins with "{RESERVED}", which names the mesh itself. No key was issued.'
            f' Choose another, for example {{"{field}": "claude-code"}}.'
        )


def _may_manage(principal: Principal, found: tuple[Any, ...]) -> bool:
    return "operator" in principal.scopes or found[6] == principal.tenant


def _shown(key: str, issued: KeyIssued) -> dict[str, Any]:
    return {
        "id": issued.key_id,
        "key": key,
        "agent": issued.agent,
        "owner": issued.owner,
        "tenant": issued.tenant,
        "scopes": list(issued.scopes),
        **({} if issued.projects is None else {"projects": dict(issued.projects)}),
    }


def _row(
    key_id: str,
    agent: str,
    owner: str,
    tenant: str,
    scopes: str,
    projects: str | None,
    created_ms: int,
    revoked_ms: int | None,
) -> dict[str, Any]:
    return {
        "id": key_id,
        "agent": agent,
        "owner": owner,
        "tenant": tenant,
        "scopes": json.loads(scopes),
        **({} if projects is None else {"projects": json.loads(projects)}),
        "created_at": format_ms(created_ms),
        **({} if revoked_ms is None else {"revoked_at": format_ms(revoked_ms)}),
    }
