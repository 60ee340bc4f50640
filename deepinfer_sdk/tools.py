"""Tools: functions and models as the calls that a model may write, and calls read back.

Nothing is called here; a call is a value, and the caller decides.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from .errors import InvalidSchema

Tool = Callable[..., Any] | type[BaseModel]


class ToolCall(BaseModel):
    """A call that the model asks for; nothing is called by itself.

    Attributes:
        name: Which tool.
        arguments: Its arguments by name, as the types in the tool's signature; for a tool that is
            a model, an instance of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: Any


def call_model(tool: Tool) -> type[BaseModel]:
    """The model of a call of a tool: ``{"name": ..., "arguments": {...}}``.

    Raises:
        InvalidSchema: Its signature has no such model.
    """
    if isinstance(tool, type) and issubclass(tool, BaseModel):
        name, arguments = tool.__name__, tool
    elif inspect.isroutine(tool):
        name, arguments = tool.__name__, _arguments(tool)
    else:
        raise InvalidSchema(
            f"the tool {tool!r} is neither a function nor a Pydantic model",
            hint="Pass a function with annotated parameters",
        )
    fields: dict[str, Any] = {"name": (Literal[name], ...), "arguments": (arguments, ...)}
    return create_model(name, **fields)


def call_value(call: BaseModel, tool: Tool) -> ToolCall:
    """A parsed call as a value; parameters that were left out are left out here as well."""
    name, arguments = (getattr(call, field) for field in ("name", "arguments"))
    if not isinstance(tool, type):
        fields = type(arguments).model_fields
        arguments = {
            field.alias or key: getattr(arguments, key)
            for key, field in fields.items()
            if key in arguments.model_fields_set
        }
    return ToolCall(name=name, arguments=arguments)


def _arguments(function: Callable[..., Any]) -> type[BaseModel]:
    name = function.__name__
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise InvalidSchema(
            f"the signature of the tool {name!r} cannot be read: {error}",
            hint="Annotate its parameters with types that exist where it is defined",
        ) from None
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidSchema(
                f"the parameter {str(parameter)!r} of the tool {name!r} cannot be passed by name",
                hint="Use parameters that can be passed by name",
            )
        if parameter.name not in hints:
            raise InvalidSchema(
                f"the parameter {parameter.name!r} of the tool {name!r} has no type",
                hint=f"Annotate it, for example {parameter.name}: str",
            )
        given = ... if parameter.default is parameter.empty else parameter.default
        fields[f"argument_{number}"] = (hints[parameter.name], Field(given, alias=parameter.name))
    return create_model(name, **fields)
