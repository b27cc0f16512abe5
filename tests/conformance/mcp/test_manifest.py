"""The manifest and the tests say the same, in both directions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from tests.conformance.mcp.manifest import MANIFEST, conformance_tests
from tests.conformance.mcp.model import ALL, EVERYWHERE, SEED
from tests.conformance.mcp.page import PAGE, render
from tests.conformance.mcp.requirements.seed import LINES, STATES_NOTHING

BY_ID = {requirement.id: requirement for requirement in MANIFEST}
TESTS = conformance_tests()


def test_ids_are_unique_and_well_formed() -> None:
    assert [id for id, count in Counter(r.id for r in MANIFEST).items() if count > 1] == []
    assert [r.id for r in MANIFEST if not re.fullmatch(r"[a-z]+\.[a-z0-9-]+", r.id)] == []


def test_each_requirement_has_a_source_a_sentence_and_a_place() -> None:
    revisions = "|".join(ALL)
    for each in MANIFEST:
        source = rf"seed:\d+(-\d+)?|({revisions})/[a-z/_-]+(#[a-z0-9-]+)?"
        assert re.fullmatch(source, each.source), each
        assert each.source.startswith(SEED) == (each.section == "seed"), each
        assert each.sentence.endswith("."), each
        assert each.transports, each
        assert set(each.transports) <= set(EVERYWHERE), each
        assert set(each.revisions) <= set(ALL), each
        assert each.force != "choice" or each.decision, f"{each.id} is a choice: say what was chosen"


def test_each_test_names_requirements_that_exist() -> None:
    unmarked = [test.name for test in TESTS if test.claims is None]
    assert unmarked == []
    unknown = [(t.name, id) for t in TESTS if t.claims for id in t.claims.ids if id not in BY_ID]
    assert unknown == []
    assert [test.name for test in TESTS if test.claims and not test.claims.ids] == []


def test_each_requirement_is_named_by_a_test() -> None:
    named = {id for test in TESTS if test.claims for id in test.claims.ids}
    assert sorted(set(BY_ID) - named) == []


def test_the_transports_and_revisions_that_are_claimed_are_those_that_run() -> None:
    over: dict[str, set[str]] = defaultdict(set)
    revisions: dict[str, set[str]] = defaultdict(set)
    for test in TESTS:
        assert test.claims is not None
        for id in test.claims.ids:
            over[id].update(test.claims.over)
            revisions[id].update(test.claims.revisions)
    for id, each in BY_ID.items():
        assert over[id] == set(each.transports), id
        assert revisions[id] == set(each.revisions), id


def test_a_test_runs_where_it_says() -> None:
    for test in TESTS:
        assert test.claims is not None
        if "client" in test.takes:  # one run per transport and revision; see conftest
            assert test.claims.over, test.name
            assert test.claims.revisions, test.name
        else:
            assert test.claims.revisions == (), test.name
            (only,) = test.claims.over
            others = set(EVERYWHERE) - {only}
            assert not others & test.takes, f"{test.name} says {only}"
            assert only == "memory" or {only, "peer"} & test.takes, f"{test.name} says {only}"


def test_each_line_of_the_seed_is_covered_or_states_nothing() -> None:
    covered = {line for each in MANIFEST for line in each.seed_lines}
    empty = {line for lines in STATES_NOTHING for line in lines}
    assert covered & empty == set()
    assert covered | empty == set(range(1, LINES + 1))


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make docs`"
