"""The official conformance suite, against the running peer, revision by revision.

Its baselines name single checks that need something this server does not have; everything else must pass.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.clients import installed
from tests.clients.proxy import key_injecting_proxy
from tests.support.hyphae_command import Up

SUITE_S = 90
BASELINES = Path(__file__).parent / "baselines"
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
revisions = pytest.mark.parametrize("revision", REVISIONS)

ENTRY = re.compile(r"  - ([a-z0-9-]+):([a-z0-9-]+) +# (.+)")
REASON = re.compile(
    r"needs (the suite's tool \w+|a tool with x-mcp-header|prompts|resources|completion|logging|a session)"
)
GREEN = {
    "2025-06-18": {"server-initialize", "ping", "tools-list"},
    "2025-11-25": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"},
    "2026-07-28": {"tools-list", "http-header-validation", "dns-rebinding-protection"},
}
"""Scenarios of which every check must pass."""
SOME_MAY_FAIL = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    },
    "caching": {
        "sep-2549-prompts-list-caching-hints",
        "sep-2549-resources-list-caching-hints",
        "sep-2549-resources-templates-list-caching-hints",
    },
}
"""Scenarios that apply to this server in part, and the checks that do not."""


async def run_suite(revision: str, url: str, key: str) -> tuple[int, str]:
    """Return exit code and output of one run of the suite, with its baseline."""
    async with key_injecting_proxy(url, key) as proxy:
        words = ("--url", proxy, "--suite", "all", "--spec-version", revision)
        baseline = ("--expected-failures", str(BASELINES / f"{revision}.yml"))
        process = await asyncio.create_subprocess_exec(
            *(installed.node_22(), installed.suite(), "server", *words, *baseline),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), SUITE_S)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return process.returncode or 0, output.decode()


def entries(revision: str) -> list[tuple[str, str, str]]:
    """Return scenario, check and reason of every entry of a baseline."""
    lines = (BASELINES / f"{revision}.yml").read_text().splitlines()
    listed = lines[lines.index("server:") + 1 :]
    found = [ENTRY.fullmatch(line) for line in listed]
    assert all(found), "each entry is a scenario, a check, and the reason"
    return [(entry[1], entry[2], entry[3]) for entry in found if entry]


@revisions
def test_the_suite_passes(revision: str, up: Up) -> None:
    code, output = asyncio.run(run_suite(revision, up.ready["peers"][0]["mcp_url"], up.ready["agent_key"]))
    assert code == 0, output[-6000:]
    passed = set(re.findall(r"^✓ ([a-z0-9-]+): [1-9]\d* passed, 0 failed", output, re.MULTILINE))
    assert passed >= GREEN[revision]


@revisions
def test_a_baseline_gives_a_reason_for_each_check(revision: str) -> None:
    assert [reason for _, _, reason in entries(revision) if not REASON.fullmatch(reason)] == []


@revisions
def test_no_baseline_excuses_what_must_pass(revision: str) -> None:
    named = {(scenario, check) for scenario, check, _ in entries(revision)}
    assert GREEN[revision].isdisjoint(scenario for scenario, _ in named)
    for scenario, excused in SOME_MAY_FAIL.items():
        assert {check for name, check in named if name == scenario} <= excused
    assert all(check != "wire-schema-valid" for _, check in named)
