"""Terms of text, and which cells are found by them."""

from __future__ import annotations

from pathlib import Path

import apsw
import numpy as np
import pytest

from node.lexical_index import COMMON_CELLS, LexicalIndex
from node.lexical_terms import QUERY_TERMS, TERM_CHARS, query_terms, terms

TENANT, OTHER = b"a" * 16, b"b" * 16

# -- terms


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("see node/onnx_embedder.py there", "node/onnx_embedder.py"),
        ("see node/onnx_embedder.py there", "onnx_embedder"),
        ("see node/onnx_embedder.py there", "embedder"),
        ("call getUserName() first", "getUserName"),
        ("call getUserName() first", "user"),
        ("an HTTPServer2 there", "http"),
        ("raises ORA-00942 at night", "ORA-00942"),
        ("raises ORA-00942 at night", "00942"),
        ("exit with E0308", "e0308"),
        ("error 0x8007000E", "0x8007000e"),
        ("release 10.0.3", "10.0.3"),
        ("SQLITE_BUSY is returned", "sqlite_busy"),
        ("SQLITE_BUSY is returned", "busy"),
        ("python311 and sqlite3", "sqlite"),
        ("we write C++ and C#", "c++"),
        ("we write C++ and C#", "c#"),
        ("the --data-dir option", "data-dir"),
        ("retried the payments", "retry payment"),
        ("caches are cached", "caching"),
        ("embedded texts", "embedding text"),
        ("Caroline's beacon", "caroline"),
        ("the user’s “quoted” word", "user quoted"),
        ("a naïve café", "cafe naive"),
        ("Straße", "STRASSE"),
        ("ＦＵＬＬ width", "full"),
        ("東京タワーへ行く", "東京"),
        ("東京タワーへ行く", "タワー"),
        ("お茶", "茶"),
        ("서울에서 만나요", "서울"),
        ("我们选择了数据库", "数据库"),
        ("ภาษาไทย", "ไทย"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("Привет, мир", "привет"),
        ("مرحبا بالعالم", "مرحبا"),
        ("ship it 🚀", "🚀"),
    ],
)
def test_text_has_every_term_that_it_may_be_asked_by(text: str, asked: str) -> None:
    assert query_terms(asked)
    assert set(query_terms(asked)) <= set(terms(text))


def test_a_character_of_a_run_is_not_found_in_a_pair_that_only_looks_like_it() -> None:
    assert not set(query_terms("京都")) & set(terms("東京 都市"))


def test_question_words_are_dropped_unless_there_is_nothing_else() -> None:
    assert query_terms("What did we decide about the database?") == ["decid", "databas"]
    assert query_terms("to be or not to be") == ["to", "be", "or", "not"]


def test_terms_have_no_spaces_and_a_bounded_length() -> None:
    odd = (
        "a\tb\0c\u2028d\u3000e \ud800 " + "x" * 200 + " " + "ab.cd_" * 50 + " é" * 3 + "漢字" * 40 + " aB" * 9
    )
    for term in terms(odd):
        assert term
        assert not any(c.isspace() or c in '\0"' for c in term)
        assert len(term) <= TERM_CHARS


def test_a_long_question_is_represented_by_terms_spread_over_it() -> None:
    wanted = query_terms(" ".join(f"word{n}x" for n in range(1_000)))
    assert len(wanted) == QUERY_TERMS
    assert wanted[0] == "word0x"
    assert "word979x" in wanted


# -- index


@pytest.fixture
def db() -> apsw.Connection:
    return apsw.Connection(":memory:")


@pytest.fixture
def index(db: apsw.Connection) -> LexicalIndex:
    return LexicalIndex(db)


def found(index: LexicalIndex, db: apsw.Connection, query: str, limit: int = 10) -> list[int]:
    return [row for row, _ in index.search(db, TENANT, query, limit)]


def test_the_same_text_has_share_one_and_others_less(index: LexicalIndex, db: apsw.Connection) -> None:
    texts = {
        1: "Payments are retried three times before the order is cancelled.",
        2: "Orders are shipped from the nearest warehouse.",
        3: "Retry payments " + " ".join(f"filler{n}" for n in range(400)),
    }
    for row, text in texts.items():
        index.add(TENANT, row, text)
    for row, text in texts.items():
        best, *others = index.search(db, TENANT, text, 10)
        assert best == (row, 1.0)
        assert all(0 < share < 1 for _, share in others)


def test_a_share_does_not_depend_on_what_else_is_found(index: LexicalIndex, db: apsw.Connection) -> None:
    for row in range(200):
        index.add(TENANT, row, f"filler{row} text")
    index.add(TENANT, 500, "kafka consumer lag")
    alone = index.shares(db, TENANT, "kafka rebalancing lag")[500]
    index.add(TENANT, 501, "consumer groups")
    assert index.shares(db, TENANT, "kafka rebalancing lag")[500] == pytest.approx(alone, rel=0.01)


def test_words_that_no_cell_has_lower_the_share(index: LexicalIndex, db: apsw.Connection) -> None:
    index.add(TENANT, 1, "deploy on friday")
    assert index.shares(db, TENANT, "friday")[1] == 1.0
    assert index.shares(db, TENANT, "friday zeppelin quartz")[1] < 0.5
    assert index.shares(db, TENANT, "zeppelin quartz") == {}


def test_a_long_cell_is_damped_against_a_short_one(index: LexicalIndex, db: apsw.Connection) -> None:
    long = "quorum " + " ".join(f"filler{n}" for n in range(3_000))
    index.add(TENANT, 1, long)
    index.add(TENANT, 2, "the quorum was lost")
    shares = index.shares(db, TENANT, "quorum")
    assert shares[2] == 1.0
    assert 0.1 < shares[1] < 0.6


def test_common_terms_are_left_out_unless_nothing_else_is_left(
    index: LexicalIndex, db: apsw.Connection
) -> None:
    many = COMMON_CELLS * 4
    for row in range(many):
        index.add(TENANT, row, f"service number{row}")
    assert found(index, db, "service number7") == [7]
    assert len(index.match(db, TENANT, "service").rows) == many
    assert len(index.match(db, TENANT, "service zeppelin").rows) == many


def test_tags_are_found_like_words(index: LexicalIndex, db: apsw.Connection) -> None:
    index.add(TENANT, 1, "we moved it", ["Caroline", "data-store"])
    assert found(index, db, "caroline") == [1]
    assert found(index, db, "store") == [1]


def test_a_filtered_search_gives_as_many_as_pass(index: LexicalIndex, db: apsw.Connection) -> None:
    for row in range(300):
        index.add(TENANT, row, f"kafka entry {row}" if row % 10 == 0 else f"other entry {row}")
    allowed = np.arange(0, 300, 30)
    best = index.search(db, TENANT, "kafka", 7, allowed)
    assert [row for row, _ in best] == [0, 30, 60, 90, 120, 150, 180]
    assert index.search(db, TENANT, "kafka", 7, np.array([5, 6])) == []
    assert index.search(db, TENANT, "kafka", 7, np.zeros(0, dtype=np.int64)) == []


def test_shares_of_given_rows_are_those_of_the_search(index: LexicalIndex, db: apsw.Connection) -> None:
    index.add_many(TENANT, [(n, f"kafka {'lag ' * (n % 2)}{n}", ()) for n in (3, 8, 9)])
    matches = index.match(db, TENANT, "kafka lag")
    expected = dict(matches.top(10))
    assert matches.shares_of(np.array([9, 3, 4])).tolist() == [expected[9], expected[3], 0.0]
    assert index.match(db, TENANT, "zeppelin").shares_of(np.array([9])).tolist() == [0.0]


def test_one_tenant_neither_finds_nor_weighs_what_another_has(
    index: LexicalIndex, db: apsw.Connection
) -> None:
    index.add(TENANT, 1, "kafka consumer lag")
    before = index.shares(db, TENANT, "kafka zeppelin")
    for row in range(2, 50):
        index.add(OTHER, row, "kafka zeppelin")
    assert index.shares(db, TENANT, "kafka zeppelin") == before
    assert index.shares(db, b"c" * 16, "kafka") == {}


def test_a_removed_cell_is_gone_and_may_come_back(index: LexicalIndex, db: apsw.Connection) -> None:
    index.add(TENANT, 15, "kafka lag")
    index.add(TENANT, 16, "kafka lag " + " ".join(f"filler{n}" for n in range(100)))
    index.remove(TENANT, 16)
    index.remove(TENANT, 17)
    index.remove(OTHER, 15)
    assert found(index, db, "kafka") == [15]
    index.add(TENANT, 16, "kafka again")
    assert found(index, db, "again") == [16]
    index.purge(TENANT)
    assert found(index, db, "kafka") == [15, 16]


def test_what_was_removed_is_not_in_the_file_after_a_purge(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    db = apsw.Connection(str(path))
    db.pragma("secure_delete", 1)
    index = LexicalIndex(db)
    index.add(TENANT, 1, "the zeppelinsecret is here")
    index.add(TENANT, 2, "nothing of note")
    assert b"zeppelinsecret" in path.read_bytes()
    index.remove(TENANT, 1)
    index.purge(TENANT)
    assert b"zeppelinsecret" not in path.read_bytes()


def test_a_rollback_takes_everything_back(index: LexicalIndex, db: apsw.Connection) -> None:
    db.execute("BEGIN")
    index.add(TENANT, 1, "never happened")
    db.execute("ROLLBACK")
    assert found(index, db, "happened") == []
    index.add(TENANT, 1, "happened")
    db.execute("BEGIN")
    index.remove(TENANT, 1)
    index.clear()
    db.execute("ROLLBACK")
    assert found(index, db, "happened") == [1]


def test_clearing_drops_every_tenant(index: LexicalIndex, db: apsw.Connection) -> None:
    index.clear()
    index.add(TENANT, 1, "kafka")
    index.add(OTHER, 2, "kafka")
    index.clear()
    assert index.shares(db, TENANT, "kafka") == index.shares(db, OTHER, "kafka") == {}
    assert db.execute("SELECT count(*) FROM sqlite_schema").get == 0


def test_another_connection_reads_what_was_committed(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    writer = apsw.Connection(path)
    writer.pragma("journal_mode", "wal")
    index = LexicalIndex(writer)
    reader = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    assert index.shares(reader, TENANT, "kafka") == {}
    writer.execute("BEGIN")
    index.add(TENANT, 1, "kafka")
    assert index.shares(reader, TENANT, "kafka") == {}
    writer.execute("COMMIT")
    assert index.shares(reader, TENANT, "kafka") == {1: 1.0}


@pytest.mark.parametrize(
    "query", ["", "   ", "?!", '"', "a OR b", "NEAR(", "*", "' --", "c++", "x:y", "-", "\0", "\ud800"]
)
def test_no_query_is_taken_for_syntax(index: LexicalIndex, db: apsw.Connection, query: str) -> None:
    index.add(TENANT, 1, "some text")
    assert index.search(db, TENANT, query, 5) == []


@pytest.mark.parametrize("text", ["", "?!", "🚀", "\0", "c++", "a/b_c.d", "' OR \"", "漢" * 50, "x" * 65_536])
def test_any_text_is_indexed_and_found_by_itself(index: LexicalIndex, db: apsw.Connection, text: str) -> None:
    index.add(TENANT, 1, text)
    assert found(index, db, text) == ([1] if terms(text) else [])
