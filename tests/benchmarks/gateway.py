"""The stdio gateway as an editor starts it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

STARTS = 9
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def start_ms_and_rss_mb() -> tuple[float, float]:
    """Return median ms from exec to the `initialize` reply, and the largest resident set seen."""
    program = [str(Path(sys.executable).with_name("hyphae")), "mcp", "serve"]
    spent: list[float] = []
    largest = 0.0
    with tempfile.TemporaryDirectory(prefix="hyphae-bench-gateway-") as name:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": name,
            "HYPHAE_CONFIG_DIR": name,
            "HYPHAE_URL": "http://127.0.0.1:9",  # nothing is there: no peer is started for the measurement
        }
        for _ in range(STARTS):
            began = time.perf_counter()
            with subprocess.Popen(
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
                process.stdin.flush()
                json.loads(process.stdout.readline())
                spent.append((time.perf_counter() - began) * 1000)
                largest = max(largest, psutil.Process(process.pid).memory_info().rss / 1e6)
                process.stdin.close()
                process.wait(10)
    return statistics.median(spent), largest
