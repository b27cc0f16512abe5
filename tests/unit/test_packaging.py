"""Four top-level packages share an environment with nobody of the same name, and carry their types."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ("proto", "mesh", "mcp_gateway", "node")


def test_no_other_distribution_provides_our_packages() -> None:
    providers = importlib.metadata.packages_distributions()
    for name in OURS:
        assert set(providers.get(name, ["hyphae-mesh"])) <= {"hyphae-mesh"}, f"{name}: {providers[name]}"


def test_every_package_is_built_and_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(OURS)
    for name in OURS:
        assert (ROOT / name / "py.typed").exists()


def test_the_lock_pins_every_package_with_hashes_and_names_no_address() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert len(pinned) > 40
    assert all("==" in line for line in pinned)
    assert sum("--hash=sha256:" in line for line in lines) >= len(pinned)
    assert not any("://" in line or "index-url" in line for line in lines)


def test_the_lock_holds_every_dependency_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["dependencies"] + project["dependency-groups"]["dev"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for requirement in wanted:
        name = requirement.split(">")[0].split("=")[0].strip()
        assert f"\n{name}==" in f"\n{lock}", f"{name} is not in requirements.lock"


def test_the_version_is_the_one_of_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = (line for line in changelog.splitlines() if line.startswith("## "))
    newest = next(line for line in released if line != "## Unreleased")
    assert newest.split()[1] == project["project"]["version"]
