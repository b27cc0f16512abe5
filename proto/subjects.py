"""NATS subjects of a mesh.  Only base32 ids and numbers are ever part of one."""

from __future__ import annotations

from dataclasses import dataclass

from proto.ids import MeshId, PeerId, format_base32


@dataclass(frozen=True, slots=True)
class Subjects:
    """The subjects of one mesh, as `hyphae.<mesh>.<use>...`."""

    mesh: MeshId

    @property
    def root(self) -> str:
        return f"hyphae.{format_base32(self.mesh)}"

    def live(self, partition: int | str, peer: PeerId) -> str:
        return f"{self.root}.ev.{partition}.{format_base32(peer)}"

    def live_all(self) -> str:
        return f"{self.root}.ev.*.*"

    def digest(self, peer: PeerId) -> str:
        return f"{self.root}.dg.{format_base32(peer)}"

    def digest_all(self) -> str:
        return f"{self.root}.dg.*"

    def pull(self, peer: PeerId) -> str:
        return f"{self.root}.pull.{format_base32(peer)}"

    def requests(self, peer: PeerId) -> str:
        return f"{self.root}.rpc.{format_base32(peer)}"

    def acks(self, peer: PeerId) -> str:
        return f"{self.root}.ack.{format_base32(peer)}"

    def echo(self, peer: PeerId, connection: str) -> str:
        return f"{self.root}.echo.{format_base32(peer)}.{connection}"
