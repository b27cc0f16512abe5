"""Who a key authenticates: the ring of keys in memory, and the checks of scope and project.

Authentication answers with a `Principal` or an error; nothing a caller says can widen it.  Secrets are
verified by deriving the public key; verified texts are remembered by their hash only.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import apsw
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mcp_gateway.authentication import parse_key
from mcp_gateway.refusals import shown
from node import database
from node.inbox_query import Scope
from proto.errors import Forbidden, Invalid, NotFound, Unauthenticated
from proto.ids import AgentId, MeshId, TenantId, agent_id, tenant_id
from proto.messages import Credential, KeyCredential, LocalUser, Request, SignedCredential, signed_bytes
from proto.payloads import PRIVATE

SCOPES = ("read", "write", "mcp-read", "mcp-write", "admin", "operator")
AGENT_SCOPES = SCOPES[:4]
DEFAULT_TENANT = "default"
DEFAULT_PROJECT = "default"
OPERATOR_AGENT = "operator"
RESERVED = "hyphae:"  # names of agents and owners that begin so are the mesh's own
VERIFIED_REMEMBERED = 4_096
UNCHANGED = "Nothing was changed. "
NAMES_SHOWN = 5
NAME_SHOWN = 20
SIGNED_LIFETIME_MS = 5 * 60_000  # bounds the memory of spent nonces


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom the system acts for.

    Args:
        projects: name -> "r" or "rw", or None for all of the tenant.
        local: came through the peer's own socket, from the user who runs the peer.
    """

    tenant: TenantId
    tenant_name: str
    owner: str
    agent: str
    agent_id: AgentId
    scopes: frozenset[str]
    projects: tuple[tuple[str, str], ...] | None
    default_project: str | None
    key_id: str | None
    local: bool = False

    def require(self, scope: str, consequence: str = UNCHANGED) -> None:
        """Refuse a call that this key may not make.

        Raises:
            Forbidden: the scope is missing; nothing changed.
        """
        if scope not in self.scopes:
            held = ", ".join(sorted(self.scopes)) or "none"
            raise Forbidden(
                f"this key has no scope {scope} (it has: {held}). {consequence}"
                f"Ask the owner of the mesh for a key with {scope}."
            )

    def readable(self) -> frozenset[str] | None:
        return None if self.projects is None else frozenset(name for name, _ in self.projects)

    def scope(self, project: str | None) -> Scope:
        """Return what this principal may see, narrowed to a project if one is given.

        Raises:
            NotFound: the project cannot be read with this key, or is not there: the same.
        """
        if project is not None:
            self.check_project(project, write=False)
        return Scope(self.owner, self.readable(), project)

    def check_project(self, project: str, *, write: bool, consequence: str = UNCHANGED) -> None:
        """Refuse a project that this key may not read or write.

        Raises:
            Invalid: it is `private` in another spelling, which would be a project that everybody reads.
            NotFound: no such project for this key.
            Forbidden: the key may only read it.
        """
        if project != PRIVATE and project.strip().casefold() == PRIVATE:
            raise Invalid(
                f"project is {shown(project)}; the private one is written in lower case and without spaces."
                f' {consequence}Pass {{"project": "{PRIVATE}"}}'
            )
        if project == PRIVATE or self.projects is None:
            return
        grant = dict(self.projects).get(project)
        if grant is None:
            yours = _listed([name for name, _ in self.projects])
            raise NotFound(
                f"no project {shown(project)[1:-1]} for this key; yours are {yours}. {consequence}"
                "Pass one of them as project, or leave it out."
            )
        if write and grant != "rw":
            yours = _listed([name for name, right in self.projects if right == "rw"])
            raise Forbidden(
                f"this key may only read project {shown(project)[1:-1]}; it writes to {yours}. {consequence}"
                f'Pass {{"project": "{PRIVATE}"}}, or ask the owner of the mesh for a key with rw.'
            )


def _listed(names: list[str]) -> str:
    """Return names of projects as an error shows them: not all of many, none at full length."""
    some = [shown(name)[1:-1][:NAME_SHOWN] for name in names[:NAMES_SHOWN]]
    return ", ".join([*some, *(["..."] if len(names) > NAMES_SHOWN else []), PRIVATE])


@dataclass(frozen=True, slots=True)
class _Key:
    public_key: bytes
    principal: Principal
    revoked: bool


class KeyRing:
    """All keys of the mesh that this peer has heard of.

    Args:
        mesh: for the ids of the local user.
        now_ms: clock, for nonces of signed requests.
    """

    def __init__(self, mesh: MeshId, now_ms: Callable[[], int]) -> None:
        self._keys: dict[str, _Key] = {}
        self._verified: OrderedDict[bytes, str] = OrderedDict()
        self._nonces: OrderedDict[tuple[str, bytes], int] = OrderedDict()
        self._now_ms = now_ms
        tenant = tenant_id(mesh, DEFAULT_TENANT)
        self.local_user = Principal(
            tenant,
            DEFAULT_TENANT,
            OPERATOR_AGENT,
            OPERATOR_AGENT,
            agent_id(tenant, OPERATOR_AGENT),
            frozenset(SCOPES),
            None,
            None,
            None,
            local=True,
        )

    def load(self, db: apsw.Connection) -> None:
        """Take over what the log says; called at start and whenever a key event was folded."""
        found: dict[str, _Key] = {}
        for (
            key_id,
            public_key,
            tenant,
            name,
            owner,
            agent,
            scopes,
            projects,
            default,
            revoked,
        ) in database.rows(
            db,
            "SELECT k.key_id, k.public_key, k.tenant_id, k.tenant, k.owner, k.agent, k.scopes, k.projects,"
            " k.default_project, r.revoked_ms FROM keys k LEFT JOIN revocations r ON r.key_id=k.key_id",
        ):
            granted = None if projects is None else tuple(sorted(json.loads(projects).items()))
            principal = Principal(
                TenantId(tenant),
                name,
                owner,
                agent,
                agent_id(tenant, agent),
                frozenset(json.loads(scopes)),
                granted,
                default,
                key_id,
            )
            found[key_id] = _Key(public_key, principal, revoked is not None)
        self._keys = found

    def is_empty(self) -> bool:
        """Tell whether not one key is known."""
        return not self._keys

    def knows(self, key_id: str) -> bool:
        return key_id in self._keys

    def authenticate(self, request: Request, args_bytes: bytes | None) -> Principal:
        """Return whom a request acts for.

        Raises:
            Unauthenticated: no key, an unknown, wrong or revoked one, or a signature that does not fit.
        """
        credential: Credential = request.credential
        if isinstance(credential, LocalUser):
            return self.local_user
        if isinstance(credential, KeyCredential):
            return self._by_text(credential.key)
        if isinstance(credential, SignedCredential):
            return self._by_signature(request, credential, args_bytes)
        raise Unauthenticated(
            "no key was given. Nothing was changed. Set HYPHAE_API_KEY or HYPHAE_API_KEY_FILE, or send the header"
            " x-hyphae-key."
        )

    def _by_text(self, text: str) -> Principal:
        mark = hashlib.sha256(text.encode("utf-8", "replace")).digest()
        key_id = self._verified.get(mark)
        if key_id is not None:
            return self._live(key_id)
        key = parse_key(text)
        held = self._live_key(key.id)
        if (
            Ed25519PrivateKey.from_private_bytes(key.secret).public_key().public_bytes_raw()
            != held.public_key
        ):
            raise _refused()
        self._verified[mark] = key.id
        while len(self._verified) > VERIFIED_REMEMBERED:
            self._verified.popitem(last=False)
        return held.principal

    def _by_signature(
        self, request: Request, credential: SignedCredential, args_bytes: bytes | None
    ) -> Principal:
        held = self._live_key(credential.key_id)
        if args_bytes is None or len(credential.nonce) < 8:
            raise _refused()
        message = signed_bytes(request, args_bytes, credential.key_id, credential.nonce)
        try:
            Ed25519PublicKey.from_public_bytes(held.public_key).verify(credential.signature, message)
        except InvalidSignature:
            raise _refused() from None
        self._spend(credential.key_id, credential.nonce, request.deadline_ms)
        return held.principal

    def _spend(self, key_id: str, nonce: bytes, deadline_ms: int) -> None:
        """Take a nonce once: a recorded request cannot be played again before its deadline drops it."""
        now = self._now_ms()
        if deadline_ms > now + SIGNED_LIFETIME_MS:
            raise Unauthenticated(
                "a signed request may be valid for at most 5 minutes. Nothing was changed. Sign it anew."
            )
        while self._nonces and next(iter(self._nonces.values())) < now:
            self._nonces.popitem(last=False)
        if (key_id, nonce) in self._nonces:
            raise Unauthenticated(
                "this signed request was already used. Nothing was changed. Send a new one."
            )
        self._nonces[key_id, nonce] = deadline_ms

    def _live(self, key_id: str) -> Principal:
        return self._live_key(key_id).principal

    def _live_key(self, key_id: str) -> _Key:
        held = self._keys.get(key_id)
        if held is None or held.revoked:
            raise _refused()
        return held


def _refused() -> Unauthenticated:
    return Unauthenticated(
        "this key is unknown, wrong or revoked. Nothing was changed. Go on without shared memory, and ask the"
        " owner of the mesh for a new key (hyphae key issue)."
    )
