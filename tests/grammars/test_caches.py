"""What is kept: grammars, masks and rows, in memory and on disk; limits; work ahead of need."""

import functools
import json
import threading

import numpy as np
import pytest
from deepinfer_grammars import (
    ConstraintTooLarge,
    TokenAutomaton,
    Vocabulary,
    compile_choice,
    compile_ebnf,
    compile_json_schema,
    compile_regex,
    row_cache,
)
from deepinfer_grammars.background import Expansion
from deepinfer_grammars.disk_cache import DiskCache
from deepinfer_grammars.errors import ConstraintCancelled
from deepinfer_grammars.grammar_file import read_grammar, stored_grammar, write_grammar
from deepinfer_grammars.limits import Limits
from deepinfer_grammars.node import Kind
from deepinfer_grammars.stored_rows import load_rows, save_rows

PLENTY = 1 << 30
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer"},
        "more": {},
    },
    "required": ["name"],
}
TEXT = b'{"name": "abc", "age": 12, "more": [1.5, {"x": null}], "else": "y"}'
# Digits of a random-looking number: words that share little.
WORDS = [f"{i * 7919 % 100_003:x}{i * 104_729 % 99_991:o}" for i in range(3_000)]
MAKERS = {
    "regex": lambda: compile_regex("(?i)ab{2,9}[^x]*|é+"),
    "schema": lambda: compile_json_schema(PERSON),
    "recursive": lambda: compile_json_schema(
        {"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}
    ),
    "gbnf": lambda: compile_ebnf('root ::= root "+" t | t\nt ::= [0-9]+ | "(" root ")"'),
    "lark": lambda: compile_ebnf('start: WORD (" " WORD)*\nWORD: /[a-z]+/'),
    "choice": lambda: compile_choice([*WORDS, "word29"]),
}


def masks_along(automaton, text):
    state, masks = automaton.start, []
    for byte in text:
        masks.append(automaton.mask(state, PLENTY).tobytes())
        state = automaton.walk(state, bytes([byte]))
        if not state:
            break
    return masks


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "grammars")


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    "text", [b"abbbbq", TEXT, b"[[],[[]]]", b"(1+2)+3", b"hello you", b"word29", "éé".encode()]
)
def test_a_grammar_that_was_written_takes_the_same_texts_with_the_same_masks(
    name, text, vocabulary
):
    grammar = MAKERS[name]()
    again = read_grammar(write_grammar(grammar), grammar.build)
    assert again.kind == grammar.kind
    assert again.first_error(text) == grammar.first_error(text)
    both = [TokenAutomaton(g, vocabulary) for g in (grammar, again)]
    assert masks_along(both[0], text) == masks_along(both[1], text)


@pytest.mark.parametrize("name", MAKERS)
def test_expressions_of_a_written_grammar_are_found_again_when_built_again(name):
    grammar = MAKERS[name]()
    pool = read_grammar(write_grammar(grammar), grammar.build).pool
    for node in list(pool.nodes):
        if node.kind is Kind.SEQ:
            assert pool.seq(node.head, node.tail) is node
        elif node.kind is Kind.BYTES:
            assert pool.byte_set(node.mask) is node
        elif node.kind is Kind.NOT:
            assert pool.complement(node.head) is node
        elif node.kind is Kind.REPEAT:
            assert pool.repeat(node.head, node.low, node.high) is node


def test_expressions_made_on_demand_are_not_written_but_compiled_each_time(cache):
    make = functools.partial(compile_json_schema, PERSON, property_order="any")
    assert write_grammar(make()) is None
    for _ in range(2):
        assert stored_grammar(cache, b"any order", make).accepts('{"age": 1, "name": "x"}')


def test_a_stored_grammar_is_compiled_once(cache):
    made = []

    def make():
        made.append(1)
        return compile_regex("a{3}")

    for _ in range(3):
        assert stored_grammar(cache, b"a{3}", make).accepts("aaa")
    assert len(made) == 1


def test_what_is_on_disk_is_read_back_by_name_only(cache):
    cache.write(b"one", b"first")
    cache.write(b"two", b"second")
    assert cache.read(b"one") == b"first"
    assert DiskCache(cache.folder).read(b"two") == b"second"
    assert cache.read(b"three") is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "swap"])
def test_damaged_files_are_ignored_and_written_again(cache, damage):
    cache.write(b"name", b"some data")
    (path,) = cache.folder.iterdir()
    content = path.read_bytes()
    if damage == "swap":  # another entry's file in its place
        cache.write(b"other", b"other data")
        (other,) = set(cache.folder.iterdir()) - {path}
        path.write_bytes(other.read_bytes())
    else:
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes({"cut": content[:-3], "flip": flipped, "empty": b""}[damage])
    assert cache.read(b"name") is None
    cache.write(b"name", b"some data")
    assert cache.read(b"name") == b"some data"


def test_a_folder_that_is_deleted_or_cannot_be_made_is_no_error(cache, tmp_path):
    cache.write(b"name", b"data")
    for path in cache.folder.iterdir():
        path.unlink()
    cache.folder.rmdir()
    assert cache.read(b"name") is None
    (tmp_path / "file").write_bytes(b"")
    blocked = DiskCache(tmp_path / "file" / "below")
    blocked.write(b"name", b"data")
    assert blocked.read(b"name") is None


def test_the_longest_unused_files_go_when_there_are_too_many_bytes(tmp_path):
    cache = DiskCache(tmp_path, most_bytes=5_000)
    for index in range(200):
        cache.write(b"%d" % index, bytes(100))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 20_000
    assert cache.read(b"199") is not None


def test_nothing_is_left_beside_the_files(cache):
    for index in range(5):
        cache.write(b"same", bytes([index]) * 1000)
    assert [path.suffix for path in cache.folder.iterdir()] == [".bin"]


def test_the_default_folder_is_below_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    DiskCache().write(b"name", b"data")
    assert len(list((tmp_path / "deepinfer_sdk" / "grammars").iterdir())) == 1


def test_masks_with_shared_rows_equal_those_without(vocabulary):
    other = {"type": "object", "properties": {"title": {"type": "string"}, "more": {}}}
    row_cache.clear()
    alone = masks_along(TokenAutomaton(compile_json_schema(PERSON), vocabulary), TEXT)
    row_cache.clear()
    masks_along(
        TokenAutomaton(compile_json_schema(other), vocabulary), b'{"title": "x", "more": 1}'
    )
    assert masks_along(TokenAutomaton(compile_json_schema(PERSON), vocabulary), TEXT) == alone


def test_rows_survive_the_process_and_are_not_shared_between_vocabularies(vocabulary, cache):
    row_cache.clear()
    expected = masks_along(TokenAutomaton(compile_json_schema(PERSON), vocabulary), TEXT)
    kept = row_cache.cache_of(vocabulary)
    sizes = len(kept.rows), len(kept.parts), len(kept.indexes)
    assert min(sizes[1:]) > 0
    save_rows(vocabulary, cache)
    row_cache.clear()
    load_rows(vocabulary, cache)
    kept = row_cache.cache_of(vocabulary)
    assert (len(kept.rows), len(kept.parts), len(kept.indexes)) == sizes
    assert masks_along(TokenAutomaton(compile_json_schema(PERSON), vocabulary), TEXT) == expected

    fewer = Vocabulary([*vocabulary.tokens[:-1], b"new", None], [len(vocabulary.tokens)])
    load_rows(fewer, cache)
    assert len(row_cache.cache_of(fewer).rows) == 0


def test_the_first_mask_is_read_from_disk_for_the_same_vocabulary_only(vocabulary, cache):
    def automaton(vocabulary):
        grammar = stored_grammar(cache, b"words", MAKERS["choice"])
        return TokenAutomaton(grammar, vocabulary, cache=cache)

    first = automaton(vocabulary)
    expected = first.mask(first.start, PLENTY).tobytes()
    again = automaton(vocabulary)
    assert again.mask(again.start, PLENTY).tobytes() == expected
    assert first.stats().rows > again.stats().rows == 0  # it was not made again
    assert masks_along(again, b"word29") == masks_along(first, b"word29")
    other = automaton(Vocabulary([*vocabulary.tokens[:-1], b"wor", None], [vocabulary.size]))
    assert other.mask(other.start, PLENTY).tobytes() != expected


def test_kept_values_are_bounded_by_their_bytes():
    class Value:
        nbytes = 1_000

    kept = row_cache.Kept(20_000)
    for index in range(100):
        kept.keep(bytes([index]), Value())
    assert kept.nbytes <= 20_000
    assert 10 <= len(kept) <= 20
    assert kept.get(bytes([99]))[0]
    assert not kept.get(bytes([0]))[0]


def test_work_ahead_changes_no_mask_and_ends_at_its_bounds(vocabulary):
    expected = masks_along(TokenAutomaton(compile_json_schema(PERSON), vocabulary), TEXT)
    automaton = TokenAutomaton(compile_json_schema(PERSON), vocabulary)
    expansion = Expansion(automaton, max_states=150)
    while_running = masks_along(automaton, TEXT)
    assert expansion.wait(60)
    assert expansion.explored == 150
    assert while_running == masks_along(automaton, TEXT) == expected


def test_work_ahead_of_a_small_automaton_reaches_all_of_it(vocabulary):
    automaton = TokenAutomaton(compile_choice(["ab", "ac"]), vocabulary)
    expansion = Expansion(automaton)
    assert expansion.wait(60)
    assert expansion.explored == 3  # the start, behind the first letter, at the end


def test_work_ahead_can_be_cancelled(vocabulary):
    automaton = TokenAutomaton(compile_regex("(a|b|c){1,100000}x(d|e){1,100000}"), vocabulary)
    expansion = Expansion(automaton, max_states=1 << 40, max_seconds=600)
    expansion.cancel()
    assert expansion.wait(60)


def test_too_many_expressions_are_refused():
    with (
        pytest.raises(ConstraintTooLarge, match="more than 500 expressions"),
        Limits(max_nodes=500).applied(),
    ):
        compile_choice(WORDS)
    assert compile_choice(["a"]).accepts("a")


def test_too_many_states_and_bytes_are_refused(vocabulary):
    text = b"ab" * 400
    grammar = compile_regex("(ab){300,500}")
    for limits, message in (
        (Limits(max_states=100), "more than 100 states"),
        (Limits(max_bytes=3_000), "more than 3000 bytes"),
    ):
        automaton = TokenAutomaton(grammar, vocabulary, limits=limits)
        with pytest.raises(ConstraintTooLarge, match=message):
            automaton.walk(automaton.start, text)


def test_no_time_and_cancellation_stop_the_compiler():
    with (
        pytest.raises(ConstraintTooLarge, match="seconds to compile"),
        Limits(max_seconds=0.0).applied(),
    ):
        compile_choice(WORDS)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(ConstraintCancelled), Limits(cancelled=cancelled).applied():
        compile_json_schema({"enum": WORDS})


def test_time_spent_after_compiling_does_not_count(vocabulary):
    with Limits(max_seconds=600.0).applied():
        grammar = compile_json_schema(PERSON)
    grammar.pool.budget.check(len(grammar.pool.nodes))
    automaton = TokenAutomaton(grammar, vocabulary)
    assert masks_along(automaton, json.dumps({"name": "x"}).encode())
    assert isinstance(automaton.mask(automaton.start, PLENTY), np.ndarray)
