"""How one peer is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from node.server_tls import TlsFiles
from node.service.bounds import Bounds


@dataclass(frozen=True, slots=True)
class PeerConfig:
    """How one peer is run.

    Args:
        nats_url: with credentials; None to use the remembered one, or to stand alone.
        nats_url_file: read again before each attempt to connect, so that a server that moved is found.
        join_token: of a member, for a peer that belongs to no mesh yet.
        use_nats: False to stand alone even if an address is remembered.
        secrets_dir: where the first peer of a mesh writes the two bootstrap keys.
        idle_exit_s: end after so long without a request; None to run on.
        embed_spinning: threads of the model wait busily; see `node.onnx_model`.
        embed_threads: of the model; 0 to choose by the machine.
        http_name: in addresses that are shown, and allowed as Host; None for the address listened on.
        http_connections: on each surface; 0 for as many as there are file handles for.
        tls: certificate and key; None for plain HTTP.
        allow_plain_http: listen without TLS even where other machines reach it.
        bounds: what the service admits.
        write_concern: members that must hold a store durably; 0 to decide by how many there are.
    """

    data_dir: Path
    name: str = "peer-1"
    nats_url: str | None = None
    nats_url_file: Path | None = None
    join_token: str | None = None
    use_nats: bool = True
    http_host: str = "127.0.0.1"
    http_port: int = 0
    secrets_dir: Path | None = None
    model_dir: Path | None = None
    embed_threads: int = 0
    embed_spinning: bool = True
    embedder: str = "onnx"
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    idle_exit_s: float | None = None
    http_name: str | None = None
    http_connections: int = 0
    tls: TlsFiles | None = None
    allow_plain_http: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    write_concern: int = 0
