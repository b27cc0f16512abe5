"""`hyphae node` with an embedder that needs no model: `python -m tests.chaos.hash_peer node ...`.

With `CHAOS_CONTROL` its clock and its death are controlled by files there (see `aimed`); with `CHAOS_MODEL` it keeps
the real model; with `CHAOS_PLANT` it has a fault (see `plants`).
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.cli import node as node_command
from node.cli.root import run
from node.peer import PeerConfig
from node.settings import Settings
from tests.chaos.aimed import CONTROL_VARIABLE, Control, install
from tests.chaos.plants import PLANT_VARIABLE, plant

MODEL_VARIABLE = "CHAOS_MODEL"


def main(arguments: list[str]) -> int:
    """Run the command line, with those choices made differently."""
    usual = node_command._peer_config

    def with_hashes(options: Mapping[str, Any], settings: Settings, data: Path) -> PeerConfig:
        return dataclasses.replace(usual(options, settings, data), embedder="hash")

    if not os.environ.get(MODEL_VARIABLE):
        node_command._peer_config = with_hashes
    control = os.environ.get(CONTROL_VARIABLE)
    if control:
        install(Control(Path(control)))
    if os.environ.get(PLANT_VARIABLE):
        plant(os.environ[PLANT_VARIABLE])
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
