"""The files that run a mesh in containers say what the runbook promises."""

from __future__ import annotations

import re
import shutil
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from deploy.mesh_files import Passwords, Server, read_passwords, render_server
from deploy.prepare import Plan, main, prepare
from mesh.joining import parse_token
from mesh.nats_address import parse_nats_url
from node.data_directory import PeerDirectory
from node.identity import load_identity, save_identity
from proto.errors import Corrupted
from proto.ids import PeerId

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
LOCK = DEPLOY / "requirements-runtime.lock"
SERVERS = [Server(f"nats-{n}", f"nats-{n}") for n in (1, 2, 3)]
NOW_MS = 1_800_000_000_000


def _compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def _pins(path: Path) -> dict[str, set[str]]:
    """Return the hashes of each pinned package, by `name==version`."""
    pins: dict[str, set[str]] = {}
    name = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            name = line.split(" ")[0]
        pins.setdefault(name, set()).update(re.findall(r"--hash=(\S+)", line))
    return pins


# -- the image


def test_the_image_installs_a_part_of_what_the_tests_ran_with() -> None:
    runtime, whole = _pins(LOCK), _pins(ROOT / "requirements.lock")
    assert len(runtime) > 20
    for pin, hashes in runtime.items():
        assert hashes
        assert hashes == whole.get(pin), f"{pin} is another in requirements.lock"


def test_the_image_installs_every_dependency_and_no_tool_of_developers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {pin.split("==")[0] for pin in _pins(LOCK)}
    wanted = {re.split(r"[><=]", need)[0] for need in project["project"]["dependencies"]}
    tools = {re.split(r"[><=]", need)[0] for need in project["dependency-groups"]["dev"]}
    assert wanted <= names
    assert not (tools - wanted - {"h11"}) & names  # h11 comes with uvicorn


def test_only_what_the_image_is_made_of_is_sent_to_the_engine() -> None:
    sent = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n!")[1:])
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.M
    )
    assert {path.strip() for path in sent} == {path for line in copied for path in line.split()}


def test_the_image_runs_as_a_user_without_rights() -> None:
    final = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[-1]
    assert re.findall(r"^USER (.+)$", final, re.M) == ["10001:10001"]
    assert "pip" not in final


def test_no_file_names_an_address_of_a_registry_or_index() -> None:
    for path in DEPLOY.glob("*"):
        if path.is_file() and path.suffix != ".md":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"https?://(?!(127\.0\.0\.1|localhost))|index-url", text), path


# -- the mesh in containers


@pytest.mark.parametrize("name", list(_compose()["services"]))
def test_every_container_is_locked_down(name: str) -> None:
    service = _compose()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "cpus", "pids_limit"} <= service.keys()
    assert not {"privileged", "cap_add", "user"} & service.keys()


def test_one_port_is_published_and_only_on_loopback() -> None:
    services = _compose()["services"]
    published = {name: s["ports"] for name, s in services.items() if "ports" in s}
    assert published == {"peer-1": ["127.0.0.1:${HYPHAE_PORT:-4974}:4974"]}
    assert _compose()["networks"]["mesh"] == {"internal": True}
    assert [n for n, s in services.items() if "entrance" in s.get("networks", [])] == ["peer-1"]


def test_no_secret_is_in_an_environment_or_on_a_command_line() -> None:
    for service in _compose()["services"].values():
        words = [*service.get("command", []), *service.get("entrypoint", [])]
        after = {words[i + 1] for i, word in enumerate(words) if word in ("--nats-url", "--join")}
        assert all(word.startswith("@/data/secrets/") for word in after)
        assert not re.search(r"KEY|TOKEN|PASSWORD|NATS_URL", " ".join(service.get("environment", {})))


def test_everybody_starts_after_the_preparation_and_has_a_volume_of_its_own() -> None:
    services = _compose()["services"]
    prepared = {volume.split(":")[0] for volume in services["prepare"]["volumes"]}
    others = {name: s for name, s in services.items() if name != "prepare"}
    assert prepared == set(others) == set(_compose()["volumes"])
    for name, service in others.items():
        assert service["depends_on"] == {"prepare": {"condition": "service_completed_successfully"}}
        assert [volume.split(":")[:2] for volume in service["volumes"]] == [[name, "/data"]]


# -- the unit


def test_the_unit_takes_every_right_that_a_peer_does_not_need() -> None:
    text = (DEPLOY / "hyphae.service").read_text(encoding="utf-8")
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    assert lines["User"] == "hyphae"
    assert lines["ProtectSystem"] == "strict"
    assert lines["CapabilityBoundingSet"] == ""
    assert lines["StateDirectoryMode"] == "0700"
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "MemoryDenyWriteExecute"):
        assert lines[name] == "yes"


# -- the preparation


def _everything(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_preparing_again_changes_nothing_but_the_invitations_not_yet_used(tmp_path: Path) -> None:
    plan = Plan(tmp_path, 3, SERVERS, "nats")
    assert prepare(plan, NOW_MS)
    first = _everything(tmp_path)
    assert prepare(plan, NOW_MS) == []
    assert _everything(tmp_path) == first
    prepare(plan, NOW_MS + 1)
    changed = {name for name, data in _everything(tmp_path).items() if data != first[name]}
    assert changed == {"peer-2/secrets/invitation", "peer-3/secrets/invitation"}


def test_a_further_peer_leaves_the_passwords_of_the_others(tmp_path: Path) -> None:
    prepare(Plan(tmp_path, 2, SERVERS), NOW_MS)
    before = read_passwords((tmp_path / "nats-1" / "nats.conf").read_text())
    prepare(Plan(tmp_path, 3, SERVERS), NOW_MS)
    after = read_passwords((tmp_path / "nats-3" / "nats.conf").read_text())
    assert before.route == after.route
    assert before.users.items() < after.users.items()
    assert after.users.keys() == {"peer-1", "peer-2", "peer-3", "gateway"}


def test_each_invitation_logs_its_peer_in_as_itself(tmp_path: Path) -> None:
    prepare(Plan(tmp_path, 3, SERVERS, "nats"), NOW_MS)
    first = load_identity(PeerDirectory(tmp_path / "peer-1"), "")
    for number in (2, 3):
        directory = PeerDirectory(tmp_path / f"peer-{number}")
        token = parse_token((directory.secrets / "invitation").read_text().strip())
        assert (token.mesh, token.inviter) == (first.mesh, first.peer)
        address = parse_nats_url(token.nats_url)
        assert (address.url, address.user) == ("nats://nats:4222", f"peer-{number}")
        assert load_identity(directory, "").nats_url == token.nats_url


def test_a_first_peer_whose_disk_was_lost_is_invited_by_another_member_and_founds_no_second_mesh(
    tmp_path: Path,
) -> None:
    plan = Plan(tmp_path, 3, SERVERS, "nats")
    prepare(plan, NOW_MS)
    first, second = (load_identity(plan.peer(n), "") for n in (1, 2))
    assert first.mesh is not None
    save_identity(plan.peer(2), second.in_mesh(first.mesh, first.peer))  # it has joined
    shutil.rmtree(plan.peer(1).path)
    prepare(plan, NOW_MS)
    newcomer = load_identity(plan.peer(1), "")
    assert (newcomer.mesh, newcomer.peer == first.peer) == (None, False)
    token = parse_token((plan.peer(1).secrets / "invitation").read_text().strip())
    assert (token.mesh, token.inviter) == (first.mesh, second.peer)
    assert parse_nats_url(token.nats_url).user == "peer-1"


def test_whatever_is_made_is_readable_by_its_user_only(tmp_path: Path) -> None:
    prepare(Plan(tmp_path, 2, SERVERS[:1]), NOW_MS)
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_configuration_that_cannot_be_read_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nats-1").mkdir()
    config = tmp_path / "nats-1" / "nats.conf"
    config.write_text("{")
    with pytest.raises(Corrupted):
        prepare(Plan(tmp_path, 1, SERVERS[:1]), NOW_MS)
    assert main(["--root", str(tmp_path), "--peers", "1", "--servers", "1"]) == 1
    assert "nats.conf cannot be read" in capsys.readouterr().err
    assert config.read_text() == "{"


def test_passwords_are_read_as_they_were_written() -> None:
    passwords = Passwords({"peer-1": 'p"\u20ac\\', "gateway": "g"}, "r")
    assert (
        read_passwords(render_server(SERVERS[0], SERVERS, {"peer-1": PeerId(bytes(16))}, passwords))
        == passwords
    )
    assert "p" not in repr(passwords).removeprefix("Passwords")
