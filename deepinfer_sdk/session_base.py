"""Opening and closing a session; what the blocking and the awaiting verbs share.

The model is opened here, on construction; before that nothing heavy is imported.
"""

from __future__ import annotations

import os
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .arguments import checked
from .errors import InvalidArgument, session_closed
from .params import SamplingParams
from .session_info import ModelInfo, SessionStats
from .settings import Settings, let_idle_threads_sleep
from .waiting import Interrupted, Interrupts

if TYPE_CHECKING:
    from .runtime import Runtime

SAMPLING_FIELDS = (*SamplingParams.model_fields, "seq_seed")
SAMPLING_HINT = "{name} is a sampling parameter: pass sampling=SamplingParams({name}=...)"


class SessionBase:
    """A model, open for generating.

    Args:
        model: ``"smollm2-135m"`` (embedded, the default), a folder with safetensors, a ``.gguf``
            file, or a repository id ``owner/name``.
        sampling: Defaults for every call.
        device: Kind of device.
        max_len: Most tokens of prompt and output together; the model's own limit if None.
        max_slots: Most requests that run at the same time; more wait in line.
        settings: Cache folder, network switch; from the environment if None.

    Raises:
        ModelError: The model cannot be found, fetched or opened.
        InvalidArgument: An argument has a wrong type or value.
    """

    @checked(SAMPLING_FIELDS, SAMPLING_HINT)
    def __init__(
        self,
        model: str | os.PathLike[str] = "smollm2-135m",
        *,
        sampling: SamplingParams | None = None,
        device: str = "cpu",
        max_len: int | None = None,
        max_slots: int = 64,
        settings: Settings | None = None,
    ) -> None:
        self._interrupts = Interrupts()
        self._runtime: Runtime | None = None
        if not isinstance(model, (str, os.PathLike)):
            raise InvalidArgument(
                f"model is a {type(model).__name__}, not a name or a path",
                hint='For example Session("smollm2-135m") or Session("path/to/model.gguf")',
            )
        self._sampling = check_sampling(sampling) or SamplingParams()
        for name, value, least in (("max_len", max_len, 2), ("max_slots", max_slots, 1)):
            if value is not None and (type(value) is not int or value < least):
                raise InvalidArgument(
                    f"{name}={value!r} is not allowed",
                    hint=f"{name} is a whole number from {least}",
                )
        let_idle_threads_sleep()
        from . import hub, runtime  # the engine is heavy, and only needed from here on

        path = hub.find_model(model, settings)
        self._runtime = runtime.open_runtime(path, device, max_len=max_len, max_slots=max_slots)
        self._finalizer = weakref.finalize(self, runtime.release_later, self._runtime)
        self._finalizer.atexit = False

    def close(self) -> None:
        """Close the session; the last one on a model frees it. Closing twice is fine."""
        runtime = self._runtime
        if runtime is None:
            return
        self._runtime = None
        self._finalizer.detach()
        runtime.release()

    @property
    def closed(self) -> bool:
        """Whether the session was closed."""
        return self._runtime is None

    @property
    def sampling(self) -> SamplingParams:
        """The parameters of calls that bring none of their own."""
        return self._sampling

    @property
    def model(self) -> ModelInfo:
        """What is known about the open model."""
        runtime = self._live()
        return ModelInfo(
            name=runtime.model.name,
            digest=runtime.model.digest,
            architecture=runtime.model.architecture,
            device=runtime.device,
            vocabulary_size=runtime.vocabulary.size,
            context=runtime.context,
            has_chat_template=runtime.model.chat_template is not None,
        )

    @property
    def last_interrupted(self) -> Interrupted | None:
        """What the last call stopped by Ctrl-C (or task cancellation) had generated."""
        return self._interrupts.last

    def stats(self) -> SessionStats:
        """Counters of the engine behind this session."""
        return self._live().stats()

    def _live(self) -> Runtime:
        if self._runtime is None:
            raise session_closed()
        return self._runtime

    def _params(self, sampling: SamplingParams | None) -> SamplingParams:
        return check_sampling(sampling) or self._sampling

    def __enter__(self) -> Self:
        self._live()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._runtime is None:
            return "Session(closed)"
        return f"Session({self._runtime.model.name!r}, device={self._runtime.device!r})"


def check_sampling(sampling: object) -> SamplingParams | None:
    """The parameters, or None.

    Raises:
        InvalidArgument: Something else was passed.
    """
    if sampling is None or isinstance(sampling, SamplingParams):
        return sampling
    raise InvalidArgument(
        f"sampling is a {type(sampling).__name__}, not SamplingParams",
        hint="For example sampling=SamplingParams(temperature=0.7, seed=7)",
    )
