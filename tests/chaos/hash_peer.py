"""`hyphae node` with an embedder that needs no model: `python -m tests.chaos.hash_peer node ...`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from node.cli import node as node_command
from node.cli.root import run
from node.peer import PeerConfig


def main(arguments: list[str]) -> int:
    """Run the command line, with that one choice made differently."""
    usual = node_command._peer_config

    def with_hashes(*given: Any) -> PeerConfig:
        return dataclasses.replace(usual(*given), embedder="hash")

    node_command._peer_config = with_hashes
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
