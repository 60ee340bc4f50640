"""Session: the one object users open. Blocking and awaiting verbs, and replay."""

from __future__ import annotations

from typing import Any

from .async_verbs import AsyncVerbs
from .errors import InvalidArgument
from .replay import compare
from .result import ReplayReport, Result
from .schema import Schema
from .verbs import SyncVerbs
from .waiting import wait


class Session(SyncVerbs, AsyncVerbs):
    """A model, open for generating; see `SessionBase` for the arguments.

    Example::

        with Session() as session:
            city = session.generate("Name a city in Peru.", schema=City).value

    Calls may come from any thread and any number of tasks; the engine batches them. Sessions on the
    same model share its weights. A call with the same seed gives the same bytes, alone or among
    others.
    """

    def replay(self, result: Result[Any]) -> ReplayReport:
        """Run a result's recipe again and say where the first token differs, if any does.

        Args:
            result: A result of this model, from this process or read back from JSON.

        Raises:
            InvalidArgument: It is not a Result, or it was made with another model.
        """
        runtime = self._live()
        if not isinstance(result, Result):
            raise InvalidArgument(
                f"replay got a {type(result).__name__}, not a Result",
                hint="Pass what session.generate(...) returned",
            )
        recipe = result.recipe
        if recipe.model_digest != runtime.model.digest:
            raise InvalidArgument(
                f"the result was made with {recipe.model!r} ({recipe.model_digest[:12]}), and this "
                f"session has {runtime.model.name!r} ({runtime.model.digest[:12]})",
                hint=f"Open the model it was made with: Session({recipe.model!r})",
            )
        schema = None if recipe.schema_spec is None else Schema.from_spec(recipe.schema_spec)
        params = recipe.params.with_(max_tokens=recipe.max_tokens)
        assembly = runtime.submit_ids(recipe.prompt_ids, schema=schema, sampling=params)
        with self._interrupts.guard([assembly]):
            wait(assembly)
        return compare(result, assembly.result())
