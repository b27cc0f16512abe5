"""What the client tests install is pinned exactly, by hash, and by no address."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.clients.matrix import CLIENTS, ClientRow, table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUIREMENTS = sorted(HERE.glob("requirements-*.lock"))
LOCKS = [HERE / "package-lock.json", *REQUIREMENTS]
HOST = re.compile(r"://|\b[a-z0-9-]+\.(?:com|org|net|io|dev|pythonhosted)\b|\bresolved\b", re.IGNORECASE)
LOCK_OF_RUNTIME = {
    ".venv": ROOT / "requirements.lock",
    ".venv-mcp1": HERE / "requirements-mcp1.lock",
    ".venv-fastmcp": HERE / "requirements-fastmcp.lock",
}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_no_lock_names_a_host(lock: Path) -> None:
    assert [line for line in lock.read_text().splitlines() if HOST.search(line)] == []


@pytest.mark.parametrize("lock", REQUIREMENTS, ids=lambda lock: lock.name)
def test_every_requirement_is_exact_and_hashed(lock: Path) -> None:
    blocks = re.split(r"\n(?=[a-z0-9])", lock.read_text().strip(), flags=re.IGNORECASE)
    assert len(blocks) > 10
    for block in blocks:
        assert re.match(r"[a-z0-9._-]+(\[[a-z0-9,-]+\])?==\S+ ", block, re.IGNORECASE), block
        assert "--hash=sha256:" in block, block


def test_every_package_of_node_is_exact_and_hashed() -> None:
    wanted = json.loads((HERE / "package.json").read_text())
    named = {**wanted["dependencies"], **wanted["optionalDependencies"], **wanted["overrides"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+(-[a-z0-9.]+)?", version) for version in named.values())
    packages = json.loads((HERE / "package-lock.json").read_text())["packages"]
    without = [path for path, entry in packages.items() if path and "integrity" not in entry]
    assert without == []


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.id)
def test_the_matrix_names_the_versions_that_are_locked(client: ClientRow) -> None:
    packages = json.loads((HERE / "package-lock.json").read_text())["packages"]
    entry = packages.get(f"node_modules/{client.package}")
    if entry is not None:
        assert entry["version"] == client.version
    else:
        lock = LOCK_OF_RUNTIME[client.runtime].read_text()
        assert f"\n{client.package}=={client.version} " in lock


def test_the_page_on_connecting_shows_the_clients_that_are_driven() -> None:
    assert table() in (ROOT / "docs/connect.md").read_text()
