"""Who is at work: agents of two tenants and five owners, each with its way of reading and its door."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PROJECTS: Final = ("alpha", "beta")
TOGGLED: Final = "gamma"  # whose beacons come and go
PRIVATE: Final = "private"
HTTP, URL, NATS = (
    "http",
    "url",
    "nats",
)  # doors: HTTP itself, a stdio gateway to one peer, one to any over NATS


@dataclass(frozen=True, slots=True)
class Profile:
    """What an agent is like.

    Args:
        sessions: it reads in so many working sessions side by side; 0 to read as itself.
        acks: it names the cursor of the page that it has read.
        door: how it reaches the mesh; a stdio gateway names the page that was read by itself.
    """

    name: str
    owner: str
    tenant: str
    sessions: int = 0
    acks: bool = True
    door: str = HTTP

    @property
    def words(self) -> Mapping[str, str]:
        """The canaries of its texts: of its tenant always, of its owner in private projects."""
        return {"tenant": f"canary-tenant-{self.tenant}", "owner": f"canary-owner-{self.owner}"}


PROFILES: Final = (
    Profile("ann", "one", "default"),
    Profile("ben", "one", "default", sessions=2),
    Profile("cat", "two", "default", acks=False),
    Profile("dan", "three", "elsewhere"),
    Profile("eve", "four", "elsewhere", sessions=1),
    Profile("fay", "five", "default", door=URL),
    Profile("gus", "three", "elsewhere", sessions=1, door=NATS),
)
