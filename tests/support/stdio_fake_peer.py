"""A stdio server on a fake peer: what `hyphae mcp serve` is to the gateway, for tests of the process itself.

Settings by environment: HYPHAE_API_KEY; FAKE_HANG=1 makes every store wait for ever; FAKE_NO_PEER=1 makes
connecting fail; FAKE_NOISE=1 prints, warns and logs as carelessly as it can.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mcp_gateway.authentication import find_key
from mcp_gateway.stdio import serve_stdio
from mesh.ports import Requester
from tests.support.recording_requester import Gate, RecordingRequester


async def connect() -> Requester:
    if os.environ.get("FAKE_NOISE"):
        print("connecting, said on stdout")
        warnings.warn("a warning", stacklevel=1)
        os.system("echo a child speaks")
    if os.environ.get("FAKE_NO_PEER"):
        raise ConnectionRefusedError
    requester = RecordingRequester()
    if os.environ.get("FAKE_HANG"):
        requester.plan("store", *(Gate() for _ in range(100)))
    return requester


def main() -> int:
    if os.environ.get("FAKE_NOISE"):
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    empty = Path(tempfile.gettempdir()) / "hyphae-no-such-directory"
    return serve_stdio(
        connect, lambda: find_key(os.environ, empty), os.environ.get("HYPHAE_PROJECT"), version="9.9"
    )


if __name__ == "__main__":
    sys.exit(main())
