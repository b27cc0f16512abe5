"""How one peer is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
