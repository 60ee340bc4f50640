"""Open models: one engine per model and settings, shared by all sessions that use it.

The first module that imports the engine and all that is heavy; imported when a session opens.
"""

from __future__ import annotations

import atexit
import dataclasses
import threading
from pathlib import Path
from typing import TypeVar

from deepinfer_engine import (
    Engine,
    EngineConfig,
    EngineError,
    GenerationRequest,
    LoadedModel,
    load_model,
)
from deepinfer_grammars import Vocabulary
from deepinfer_kernels.sampling import SamplerParams

from .bounded_cache import BoundedCache
from .call import Assembly, Call, prompt_ids
from .display.progress import progress
from .errors import from_engine_error
from .grammar_cache import Automaton, automaton_of
from .params import SamplingParams
from .result import SchemaSpec
from .schema import Schema
from .session_info import SessionStats

T = TypeVar("T")
Key = tuple[str, str, EngineConfig]

_AUTOMATA_KEPT = 64


class Runtime:
    """A loaded model with its engine.

    Args:
        key: What it was opened with.
        model: The weights, the tokenizer and the chat template.

    Attributes:
        vocabulary: The tokenizer's vocabulary, for grammars.
        automata: Token automata by constraint, shared by all requests.
        users: Sessions that have it open.
    """

    def __init__(self, key: Key, model: LoadedModel) -> None:
        _, self.device, config = key
        self.key = key
        self.model = model
        tokenizer = model.tokenizer
        self.vocabulary = Vocabulary(tokenizer.token_bytes, tokenizer.eos_ids)
        self.automata: BoundedCache[str, Automaton] = BoundedCache(_AUTOMATA_KEPT)
        self.engine = Engine(model, config)
        self.users = 0

    @property
    def context(self) -> int:
        """Most tokens of prompt and output together."""
        return self.engine.max_len

    def submit(
        self,
        prompt: object,
        *,
        schema: type[T] | Schema[T] | None,
        sampling: SamplingParams,
        raw: bool = False,
        timeout_s: float | None = None,
    ) -> Assembly[T]:
        """Check a call, tokenize its prompt (a text, or messages) and start it."""
        ids = prompt_ids(self.model, prompt, raw=raw)
        return Call(self, ids, schema, sampling, timeout_s).submit()

    def submit_ids(
        self, ids: tuple[int, ...], *, schema: Schema[T] | None, sampling: SamplingParams
    ) -> Assembly[T]:
        """Start a call with a prompt that is tokens already."""
        return Call(self, ids, schema, sampling, None).submit()

    def automaton(self, spec: SchemaSpec) -> Automaton:
        """The token automaton of a constraint.

        Raises:
            SchemaError: The constraint cannot be compiled for this vocabulary.
        """
        return self.automata.get_or_make(
            spec.model_dump_json(), lambda: automaton_of(spec, self.vocabulary)
        )

    def stats(self) -> SessionStats:
        """Counters of the engine, and how many automata are kept."""
        counters = dataclasses.asdict(self.engine.stats())
        return SessionStats(**counters, automata=len(self.automata), sessions=self.users)

    def release(self) -> None:
        """Give it back; the last user closes the engine."""
        with _lock:
            self.users -= 1
            if self.users > 0:
                return
            _open.pop(self.key, None)
        self.engine.close()


_lock = threading.RLock()
_open: dict[Key, Runtime] = {}


def open_runtime(path: Path, device: str, *, max_len: int | None, max_slots: int) -> Runtime:
    """The runtime of a model, loaded if no session has it open.

    Sessions with other engine settings get an engine of their own over the same weights.

    Raises:
        ModelError: The model cannot be loaded.
    """
    try:
        config = EngineConfig(max_len=max_len, max_slots=max_slots)
        key = (str(path), device, config)
        with _lock:
            runtime = _open.get(key)
            if runtime is None:
                runtime = Runtime(key, _weights(path, device))
                _warm_up(runtime.engine)
                _open[key] = runtime
            runtime.users += 1
            return runtime
    except EngineError as error:
        raise from_engine_error(error) from error


def release_later(runtime: Runtime) -> None:
    """`release` for the garbage collector, which may run on any thread, the engine's included."""
    threading.Thread(target=runtime.release, daemon=True).start()


def _weights(path: Path, device: str) -> LoadedModel:
    for (name, kind, _), runtime in _open.items():
        if (name, kind) == (str(path), device):
            return runtime.model
    with progress(f"loading {path.name}", unit="bytes") as advance:
        return load_model(path, device=device, progress=lambda _, done, total: advance(done, total))


def _warm_up(engine: Engine) -> None:
    """Compile the operations now, with a progress line, rather than during the first call.

    The first time on a machine this takes a while; afterwards they come from the user's cache.
    """
    request = GenerationRequest(prompt_ids=(0,), sampling=SamplerParams(), max_tokens=1)
    try:
        with progress("preparing the model"):
            handle = engine.submit(request)
            while not handle.finished:
                handle.next_event()
    except BaseException:  # Ctrl-C included: nothing may keep running
        engine.close()
        raise


@atexit.register
def _close_all() -> None:
    """Stop engine threads before the interpreter goes away."""
    with _lock:
        left = list(_open.values())
        _open.clear()
    for runtime in left:
        runtime.engine.close()
