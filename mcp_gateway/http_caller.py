"""Who makes an HTTP request, and the way from it to the service.

The duty: headers to a credential and a default project.  The key is not verified here: the service does that,
with every request; `refusal` asks it where nothing else would.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_gateway.authentication import HOW_TO_GET_ONE, key_of_headers
from mcp_gateway.http_exchange import Exchange
from mesh import wall_clock
from mesh.ports import Requester
from proto.errors import Forbidden, HyphaeError, Invalid, Unauthenticated
from proto.limits import PROJECT_CHARS
from proto.messages import Credential, KeyCredential, LocalUser, Reply, Request

WHOAMI_MS = 5_000
KEY_HEADER = b"x-hyphae-key"
PROJECT_HEADER = b"x-hyphae-project"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller of one request.  `door` is a `calling.Door`.

    Args:
        requester: to the service.
        credential: what the request presents.
        project: of calls that name none.
    """

    requester: Requester
    credential: Credential
    project: str | None

    async def door(self, method: str, args: Mapping[str, Any], deadline_ms: int) -> Reply:
        """Return the reply of the service."""
        return await self.requester.request(
            Request(method, args, deadline_ms, self.credential, default_project=self.project)
        )

    async def refusal(self, scope: str | None = None) -> HyphaeError | None:
        """Return why the service does not know this caller, or why the scope is not the caller's, or None."""
        if isinstance(self.credential, LocalUser):
            return None
        reply = await self.door("whoami", {}, wall_clock.now_ms() + WHOAMI_MS)
        if isinstance(reply.error, Unauthenticated):
            return reply.error
        if scope is not None and reply.error is not None:
            return reply.error
        if scope is not None and scope not in (reply.result or {}).get("scopes", ()):
            return Forbidden(
                f"this key has no scope {scope}. Nothing was changed. Ask an operator of the mesh."
            )
        return None

    def confirm(self, pages: Iterable[str]) -> None:
        """Say that inbox pages have been sent completely."""
        for page in pages:
            self.requester.written(page)


def identify(exchange: Exchange, requester: Requester, *, local_user: bool) -> Caller:
    """Return who makes a request.

    Args:
        exchange: the request.
        requester: to the service.
        local_user: the request came over the peer's own socket: without a key it is its user's.

    Raises:
        Unauthenticated: no key, two keys, or something that is no key.
        Invalid: the project header is no project name.
    """
    key = key_of_headers(exchange.header(KEY_HEADER), exchange.header(b"authorization"))
    if key is None and not local_user:
        raise Unauthenticated(
            f"no key was given. Send x-hyphae-key: <key> or Authorization: Bearer <key>; {HOW_TO_GET_ONE}"
        )
    credential: Credential = LocalUser() if key is None else KeyCredential(key)
    return Caller(requester, credential, _project(exchange.header(PROJECT_HEADER)))


def _project(values: list[str]) -> str | None:
    if not values or not values[0]:
        return None
    try:
        project = values[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("x-hyphae-project is not UTF-8. Send the name of one project.") from None
    if len(values) > 1 or len(project) > PROJECT_CHARS or _CONTROL.search(project):
        raise Invalid(f"x-hyphae-project is no project name of at most {PROJECT_CHARS} characters.")
    return project
