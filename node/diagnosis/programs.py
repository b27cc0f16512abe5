"""What a peer is made of beside its data: the embedding model, nats-server, and the stdio gateway."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from node.client_setup import hyphae_executable
from node.diagnosis.findings import Finding, problem, warning, well
from node.diagnosis.surroundings import Surroundings
from node.locations import plain_setting
from proto.errors import HyphaeError

GATEWAY_S = 2.0  # clients wait longer, but a person notices
GATEWAY_GIVE_UP_S = 8.0
TOOLS = 11
NOWHERE = "http://127.0.0.1:9"  # no peer is asked, and none is started
SAMPLE = "We retry payments three times, because the bank drops one request in fifty."


@dataclass(frozen=True, slots=True)
class Embedding:
    """The embedding model as it runs here.

    Args:
        name: of its space.
        load_ms: milliseconds to load it.
        text_ms: milliseconds to embed one text of 70 characters.
    """

    name: str
    dimensions: int
    load_ms: float
    text_ms: float


def embedding(s: Surroundings) -> Embedding | None:
    """Return the model that a peer here would use, or None when it does not load."""
    try:
        return _load(_model_dir(s))
    except HyphaeError:
        return None


def model(s: Surroundings) -> Sequence[Finding]:
    """Load the embedding model and embed one text."""
    directory = _model_dir(s)
    try:
        found = _load(directory)
    except HyphaeError as error:
        mend = "make setup" if directory is None else "Put model.onnx and tokenizer.json there, or unset it."
        return [problem(error.message.replace(" Nothing was embedded.", ""), mend)]
    which = "the installed all-MiniLM-L6-v2" if directory is None else str(directory)
    return [
        well(
            f"{which}: {found.dimensions} dimensions, loaded in {found.load_ms:,.0f} ms, one text in "
            f"{found.text_ms:.1f} ms."
        )
    ]


def nats_server(s: Surroundings) -> Sequence[Finding]:
    """Look whether there is a nats-server that runs."""
    from mesh.nats_binary import VARIABLE, check_version, find_nats_server

    named = plain_setting("nats_server", s.environ, s.from_file)
    try:
        binary = find_nats_server({**s.environ, **({VARIABLE: named} if named else {})})
        return [well(f"nats-server {check_version(binary)} at {binary}.")]
    except HyphaeError as error:
        mend = f"Correct {VARIABLE}, or unset it." if named else "make setup"
        return [problem(error.message, mend)]


def gateway(s: Surroundings) -> Sequence[Finding]:
    """Start `hyphae mcp serve` as a client does, and have it list its tools."""
    command = [*hyphae_executable(), "mcp", "serve"]
    asked = [
        {
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "hyphae doctor", "version": "1"},
            },
        },
        {"method": "tools/list", "params": {}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", "id": n, **m}) + "\n" for n, m in enumerate(asked))
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            input=lines,
            capture_output=True,
            text=True,
            timeout=GATEWAY_GIVE_UP_S,
            env={**s.environ, "HYPHAE_URL": NOWHERE},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "does not answer" if isinstance(error, subprocess.TimeoutExpired) else "cannot be started"
        return [problem(f"{' '.join(command)} {why}: {type(error).__name__}.", "make setup")]
    return [judge_gateway(done.stdout, done.stderr, time.monotonic() - began)]


def judge_gateway(out: str, err: str, seconds: float) -> Finding:
    """Return the verdict on what a gateway wrote when it was asked to list its tools."""
    try:
        answers = {a["id"]: a for a in map(json.loads, out.splitlines())}
        tools = len(answers[1]["result"]["tools"])
        answers[0]["result"]["serverInfo"]
    except (ValueError, KeyError, TypeError):
        said = err.strip().splitlines()[-1:] or ["nothing"]
        return problem(
            f"`hyphae mcp serve` does not answer a client; it says: {said[0][:200]}",
            "Mend what it says; HYPHAE_LOG_LEVEL=debug hyphae mcp serve shows more.",
        )
    shown = f"`hyphae mcp serve` lists {tools} tools, {seconds * 1000:,.0f} ms after its start"
    if tools != TOOLS:
        return warning(f"{shown}; {TOOLS} are expected.", "make setup")
    return well(f"{shown}.") if seconds <= GATEWAY_S else warning(f"{shown}: slow.", "Free the processor.")


def _model_dir(s: Surroundings) -> Path | None:
    named = plain_setting("model_dir", s.environ, s.from_file)
    return Path(os.path.abspath(Path(named).expanduser())) if named else None


@lru_cache(maxsize=1)
def _load(directory: Path | None) -> Embedding:
    from node.cpus import available_cpus
    from node.onnx_embedder import THREADS
    from node.onnx_model import OnnxModel, find_files

    began = time.monotonic()
    loaded = OnnxModel(find_files(directory), min(THREADS, available_cpus()))
    ready = time.monotonic()
    loaded.run([loaded.tokenise(SAMPLE).ids])
    ended = time.monotonic()
    return Embedding(loaded.space, loaded.dimensions, (ready - began) * 1000, (ended - ready) * 1000)
