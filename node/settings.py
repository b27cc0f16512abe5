"""The settings of a process: `HYPHAE_*` variables over a TOML file over defaults, checked at start.

One class holds every setting with its range and description; the table in `docs/settings.md` is rendered
from it.  Command line options, which come before all of these, are the business of `node.cli`.
The only module that imports pydantic-settings.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from node.locations import read_settings_file, settings_file
from proto import limits
from proto.errors import Invalid

PREFIX = "HYPHAE_"
SECRET: dict[str, Any] = {"secret": True}
ENVIRONMENT_ONLY: dict[str, Any] = {"environment_only": True}


class Settings(BaseSettings):
    """All settings.  Every field can be given as `HYPHAE_<NAME>` or, in the settings file, as `<name>`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, hide_input_in_errors=True
    )

    config_dir: Path | None = Field(
        None,
        description="Directory of the settings file, the token and the clients' keys.",
        json_schema_extra={**ENVIRONMENT_ONLY, "default": "the user's configuration directory"},
    )
    config: Path | None = Field(
        None,
        description="The settings file.",
        json_schema_extra={**ENVIRONMENT_ONLY, "default": "`<config dir>/hyphae.toml`"},
    )
    data_dir: Path | None = Field(
        None,
        description="Where memories are kept: the directory of `hyphae up`, or of one peer.",
        json_schema_extra={"default": "`<config dir>/data-dir` (one line), else the user's data directory"},
    )
    peers: int | None = Field(
        None,
        ge=1,
        le=32,
        description="How many peers `hyphae up` runs.",
        json_schema_extra={"default": "as many as the directory holds, at least 1"},
    )
    http_host: str = Field(
        "127.0.0.1", min_length=1, max_length=255, description="Address that peers listen on."
    )
    http_port: int = Field(
        4974,
        ge=0,
        le=65535,
        description="Port of the first peer; the others of `hyphae up` count up from it. 0 takes free ones.",
    )
    http_name: str | None = Field(
        None,
        min_length=1,
        max_length=253,
        description="Name by which clients reach the peers: shown in addresses, allowed as Host.",
        json_schema_extra={"default": "the address"},
    )
    tls_cert: Path | None = Field(
        None,
        description="Certificate of the peers (PEM, with the intermediate ones): they speak https. A replaced one is "
        "taken up within 30 s.",
        json_schema_extra={"default": "plain http"},
    )
    tls_key: Path | None = Field(
        None,
        description="Its key (PEM, no passphrase), which other users of the machine must not be able to read.",
    )
    tls_ca: Path | None = Field(
        None,
        description="Certificates (PEM) that alone are trusted when `url` is https: of a mesh with a CA of its own.",
        json_schema_extra={"default": "what the system trusts"},
    )
    allow_plain_http: bool = Field(
        False,
        description="Listen without TLS on an address that other machines reach: behind a proxy that speaks TLS, or in "
        "a private network of containers.",
    )
    http_connections: int = Field(
        0,
        ge=0,
        le=65_536,
        description="Connections open at once to a peer; 0 for as many as there are file handles for.",
    )
    rate_per_key: int = Field(
        limits.RATE_PER_KEY_PER_S, ge=1, le=100_000, description="Calls that one key may make each second."
    )
    rate_burst: int = Field(
        limits.RATE_BURST, ge=1, le=1_000_000, description="Calls that a rested key may make at once."
    )
    calls_at_once: int = Field(
        limits.CALLS_AT_ONCE,
        ge=1,
        le=65_536,
        description="Calls under way in a peer; others are `overloaded`.",
    )
    calls_at_once_per_key: int = Field(
        limits.CALLS_AT_ONCE_PER_KEY,
        ge=1,
        le=65_536,
        description="Calls under way of one key: fewer than in all, so that one agent leaves places for others.",
    )
    beacons_per_agent: int = Field(
        limits.BEACONS_PER_AGENT, ge=1, le=100_000, description="Standing beacons of one agent."
    )
    sessions_per_agent: int = Field(
        limits.OPEN_SESSIONS_PER_AGENT, ge=1, le=10_000, description="Open working sessions of one agent."
    )
    write_concern: int = Field(
        0,
        ge=0,
        le=32,
        description="Members that must hold a store durably before it is answered; if they do not in time, the answer "
        "says on how many it is. 0 means 1 while the mesh has one or two members, 2 from three on.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        max_length=64,
        description="Further names that HTTP requests may give as Host, beside the loopback ones.",
        json_schema_extra={"allowed": "host names separated by commas; a list in TOML", "default": "none"},
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        max_length=64,
        description="Further origins of web pages that may call, beside the loopback ones.",
        json_schema_extra={"allowed": "origins separated by commas; a list in TOML", "default": "none"},
    )
    name: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="Name of the peer that `hyphae node` runs.",
        json_schema_extra={"default": "the name of its directory"},
    )
    url: str | None = Field(
        None,
        description="Peer that the commands and `hyphae mcp serve` talk to, instead of a local one.",
        json_schema_extra={"allowed": "http://... or https://..."},
    )
    nats_url: str | None = Field(
        None,
        description="NATS server: for `hyphae node` its mesh; for `hyphae mcp serve` the way to a peer.",
        json_schema_extra={**SECRET, "allowed": "nats://... or tls://..."},
    )
    api_key: str | None = Field(
        None,
        description="The key of this agent.",
        json_schema_extra={**SECRET, **ENVIRONMENT_ONLY, "allowed": "hyp_..."},
    )
    api_key_file: Path | None = Field(
        None,
        description="File with the key on its only line.",
        json_schema_extra={"default": "`<config dir>/token`"},
    )
    project: str | None = Field(
        None,
        min_length=1,
        max_length=limits.PROJECT_CHARS,
        description="Project of calls that name none.",
        json_schema_extra={"default": "the only one of the key, else `default`"},
    )
    model_dir: Path | None = Field(
        None,
        description="Directory of another embedding model (ONNX).",
        json_schema_extra={"default": "the installed all-MiniLM-L6-v2"},
    )
    embed_threads: int = Field(
        0, ge=0, le=64, description="Threads that a peer embeds with; 0 chooses by the machine."
    )
    embed_spinning: bool = Field(
        True,
        description="Whether threads of the model wait busily between its steps: faster alone, half as fast where "
        "several peers share a machine. `hyphae up` with more than one peer turns it off unless it is set.",
    )
    nats_server: Path | None = Field(
        None,
        description="Another nats-server binary for `hyphae up`.",
        json_schema_extra={"default": "the installed one"},
    )
    idle_exit_minutes: int = Field(
        30, ge=1, le=10080, description="When an idle peer that editors started in the background ends."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least important log lines to write."
    )
    debug: bool = Field(
        False,
        description="Show the traceback of an error that ends a command.",
        json_schema_extra=ENVIRONMENT_ONLY,
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take variables first, then what `load_settings` read from the settings file."""
        return env_settings, init_settings

    @field_validator("allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(p.strip() for p in value.split(",") if p.strip()) if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        return _with_scheme(value, ("http://", "https://"))

    @field_validator("nats_url")
    @classmethod
    def _nats(cls, value: str | None) -> str | None:
        return _with_scheme(value, ("nats://", "tls://"))

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value


def load_settings(environ: Mapping[str, str], config: Path) -> Settings:
    """Return the checked settings.

    Args:
        environ: must be `os.environ`, or hold what it holds: pydantic-settings reads the latter.
        config: the configuration directory.

    Raises:
        Invalid: a value is wrong or a name in the file unknown; the message names the variable or the file,
            the value (never that of a secret) and what is allowed.  Nothing was changed.
    """
    for flaw in flaws(environ, config):
        raise Invalid(flaw)
    return Settings(**read_settings_file(environ, config))


def flaws(environ: Mapping[str, str], config: Path) -> list[str]:
    """Return a sentence for each setting that is wrong, in the words of `load_settings`.

    Raises:
        Invalid: the settings file cannot be read.
    """
    from_file = read_settings_file(environ, config)
    path = settings_file(environ, config)
    unknown = [n for n in from_file if n not in Settings.model_fields or _extra(n).get("environment_only")]
    found = [f"{path} has no setting {n}{_did_you_mean(n)}. See docs/settings.md." for n in unknown]
    try:
        Settings(**{n: v for n, v in from_file.items() if n not in unknown})
    except ValidationError as e:
        wrong = dict.fromkeys(str(x["loc"][0]) for x in e.errors(include_url=False, include_input=False))
        found += [_what_is_wrong(name, environ, from_file, path) for name in wrong]
    return found


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each `HYPHAE_*` variable that no setting has: usually a slip of the pen."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    strangers = sorted(n for n in environ if n.startswith(PREFIX) and n not in known)
    return [f"{n} is no setting{_did_you_mean(n.removeprefix(PREFIX).lower(), PREFIX)}." for n in strangers]


def allowed_values(name: str) -> str:
    """Return in words what a setting accepts."""
    info = Settings.model_fields[name]
    if "allowed" in _extra(name):
        return str(_extra(name)["allowed"])
    kind = _plain_type(info.annotation)
    if get_origin(kind) is Literal:
        return ", ".join(get_args(kind)[:-1]) + f" or {get_args(kind)[-1]}"
    if kind is bool:
        return "true or false"
    if kind is int:
        return f"{_bound(info, 'ge')} to {_bound(info, 'le')}"
    if kind is Path:
        return "a path"
    return f"{_bound(info, 'min_length')} to {_bound(info, 'max_length')} characters"


def default_text(name: str) -> str:
    """Return in words what holds when a setting is not given."""
    if "default" in _extra(name):
        return str(_extra(name)["default"])
    default = Settings.model_fields[name].default
    return "" if default is None else f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _with_scheme(value: str | None, schemes: tuple[str, ...]) -> str | None:
    if value is not None and not value.startswith(schemes):
        raise ValueError("another scheme is needed")
    return value


def _extra(name: str) -> dict[str, Any]:
    extra = Settings.model_fields[name].json_schema_extra
    return extra if isinstance(extra, dict) else {}


def _plain_type(annotation: Any) -> Any:
    """Return the type without `| None`."""
    others = [a for a in get_args(annotation) if a is not type(None)]
    return others[0] if type(None) in get_args(annotation) and len(others) == 1 else annotation


def _bound(info: FieldInfo, attribute: str) -> object:
    return next(getattr(m, attribute) for m in info.metadata if hasattr(m, attribute))


def _what_is_wrong(name: str, environ: Mapping[str, str], from_file: Mapping[str, Any], path: Path) -> str:
    variable = PREFIX + name.upper()
    in_environment = bool(environ.get(variable))
    where = variable if in_environment else f"{name} in {path}"
    value: object = environ[variable] if in_environment else from_file.get(name)
    shown = "not a proper value" if _extra(name).get("secret") else f'"{str(value)[:80]}"'
    return f"{where} is {shown}; allowed: {allowed_values(name)}. Nothing was started or changed."


def _did_you_mean(name: str, prefix: str = "") -> str:
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    shown = near[0] if near and not prefix else prefix + near[0].upper() if near else ""
    return f"; did you mean {shown}" if shown else ""


def current_settings(config: Path) -> Settings:
    """Return the checked settings of this process."""
    return load_settings(os.environ, config)
