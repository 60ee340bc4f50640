"""Messages to prompt tokens through the model's own chat template.

Text that people pass in never turns into control tokens, whatever it says. Knows no engine.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .chat import Message
from .errors import InvalidArgument, ModelFileError

_MARK = "\ue000"  # private use: no tokenizer's control token holds it


class ChatTokenizer(Protocol):
    """What is needed of a tokenizer."""

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """Token ids of a text; control tokens are recognised only with `parse_special`."""
        ...


def render(template: str, messages: Sequence[Message], special_tokens: Mapping[str, str]) -> str:
    """The prompt text, ending where the assistant's answer begins.

    Raises:
        InvalidArgument: The template refuses these messages.
        ModelFileError: The template itself is broken.
    """

    def refuse(reason: str) -> None:
        raise InvalidArgument(
            f"the model's chat template refuses these messages: {reason}",
            hint="Change the order or the roles of the messages",
        )

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = _now
    try:
        return environment.from_string(template).render(
            messages=list(messages), add_generation_prompt=True, **special_tokens
        )
    except TemplateError as error:
        raise ModelFileError(
            f"the model's chat template cannot be rendered: {error}",
            hint="Call generate(..., raw=True) with a prompt written by hand",
        ) from None


def encode_chat(
    tokenizer: ChatTokenizer,
    template: str,
    messages: Sequence[Message],
    special_tokens: Mapping[str, str],
    control_texts: Sequence[str],
) -> list[int]:
    """Token ids of a conversation.

    Args:
        tokenizer: The model's tokenizer.
        template: The model's chat template.
        messages: The conversation.
        special_tokens: ``bos_token`` and the like, for the template.
        control_texts: Spellings of the control tokens. Where a message contains one, it is encoded
            as the ordinary text it is; only the template's own spellings become control tokens.
    """
    found = [text for text in control_texts if any(text in m["content"] for m in messages)]
    if not found:
        return tokenizer.encode(render(template, messages, special_tokens), parse_special=True)
    found.sort(key=len, reverse=True)
    marks = {text: f"{_MARK}{index}{_MARK}" for index, text in enumerate(found)}
    shielded: list[Message] = []
    for message in messages:
        content = message["content"].replace(_MARK, "")
        for text, mark in marks.items():
            content = content.replace(text, mark)
        shielded.append({"role": message["role"], "content": content})
    pieces = render(template, shielded, special_tokens).split(_MARK)
    ids: list[int] = []
    for index, piece in enumerate(pieces):
        if index % 2:
            ids += tokenizer.encode(found[int(piece)], parse_special=False)
        elif piece:
            ids += tokenizer.encode(piece, parse_special=True)
    return ids


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _now(form: str) -> str:
    return datetime.datetime.now().astimezone().strftime(form)
