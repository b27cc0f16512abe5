"""Settings: variables over the file over defaults, errors that name what to change, a table that is current."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from node.cli.reference_docs import render_settings_table
from node.settings import Settings, load_settings, unknown_variables
from proto.errors import Invalid

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("HYPHAE_")]:
        monkeypatch.delenv(name)


def load(config: Path) -> Settings:
    return load_settings(os.environ, config)


def test_without_anything_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert settings.http_port == 4974
    assert settings.http_host == "127.0.0.1"
    assert settings.peers is None
    assert settings.model_fields_set == set()


def test_a_variable_goes_before_the_file_and_the_file_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hyphae.toml").write_text('http_port = 5001\nlog_level = "debug"\n')
    monkeypatch.setenv("HYPHAE_HTTP_PORT", "5002")
    settings = load(tmp_path)
    assert (settings.http_port, settings.log_level) == (5002, "debug")


def test_the_file_may_lie_where_a_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "team.toml"
    elsewhere.write_text("peers = 3\n")
    monkeypatch.setenv("HYPHAE_CONFIG", str(elsewhere))
    assert load(tmp_path / "unused").peers == 3


def test_an_empty_variable_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPHAE_HTTP_PORT", "")
    assert load(tmp_path).http_port == 4974


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("HTTP_PORT", "65536", "0 to 65535"),
        ("HTTP_PORT", "-1", "0 to 65535"),
        ("HTTP_PORT", "http", "0 to 65535"),
        ("PEERS", "0", "1 to 32"),
        ("PEERS", "33", "1 to 32"),
        ("EMBED_THREADS", "65", "0 to 64"),
        ("IDLE_EXIT_MINUTES", "0", "1 to 10080"),
        ("LOG_LEVEL", "loud", "debug, info, warning or error"),
        ("DEBUG", "perhaps", "true or false"),
        ("URL", "ftp://peer", "http://... or https://..."),
        ("PROJECT", "x" * 129, "1 to 128 characters"),
    ],
)
def test_a_wrong_value_is_refused_with_its_variable_and_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    monkeypatch.setenv(f"HYPHAE_{name}", value)
    with pytest.raises(Invalid) as refused:
        load(tmp_path)
    assert f'HYPHAE_{name} is "{value[:80]}"' in refused.value.message
    assert f"allowed: {allowed}" in refused.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [("HTTP_PORT", "0"), ("HTTP_PORT", "65535"), ("PEERS", "1"), ("PEERS", "32"), ("EMBED_THREADS", "64")],
)
def test_a_value_at_the_limit_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"HYPHAE_{name}", value)
    assert getattr(load(tmp_path), name.lower()) == int(value)


def test_a_wrong_value_in_the_file_is_refused_with_the_path_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "hyphae.toml").write_text("http_port = 70000\n")
    with pytest.raises(Invalid, match=r"http_port in .*hyphae\.toml is \"70000\"; allowed: 0 to 65535"):
        load(tmp_path)


def test_a_misspelt_name_in_the_file_is_refused_with_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "hyphae.toml").write_text("http_prot = 5000\n")
    with pytest.raises(Invalid, match="has no setting http_prot; did you mean http_port"):
        load(tmp_path)


def test_a_misspelt_variable_is_named_with_the_right_one() -> None:
    assert unknown_variables({"HYPHAE_HTTP_PROT": "1", "HYPHAE_PEERS": "2", "PATH": "/"}) == [
        "HYPHAE_HTTP_PROT is no setting; did you mean HYPHAE_HTTP_PORT."
    ]


@pytest.mark.parametrize("text", ["http_port = ", "\x00", "[["])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "hyphae.toml").write_text(text)
    with pytest.raises(Invalid, match=r"hyphae\.toml is not TOML"):
        load(tmp_path)


def test_a_named_file_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPHAE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(Invalid, match=r"none\.toml cannot be read"):
        load(tmp_path)


def test_a_secret_is_never_shown_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPHAE_NATS_URL", "http://user:pa55word@host")
    with pytest.raises(Invalid) as refused:
        load(tmp_path)
    assert "HYPHAE_NATS_URL" in refused.value.message
    assert "pa55word" not in str(refused.value.__dict__)
    assert refused.value.__cause__ is None


def test_lists_are_separated_by_commas_in_a_variable_and_are_lists_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hyphae.toml").write_text('allowed_hosts = ["mesh.example"]\n')
    assert load(tmp_path).allowed_hosts == ("mesh.example",)
    monkeypatch.setenv("HYPHAE_ALLOWED_HOSTS", "a.example, b.example")
    assert load(tmp_path).allowed_hosts == ("a.example", "b.example")


def test_every_setting_has_a_description() -> None:
    assert [name for name, info in Settings.model_fields.items() if not info.description] == []


def test_the_settings_page_is_current() -> None:
    assert DOCS.read_text(encoding="utf-8") == render_settings_table(), "run `make docs`"
