"""Prompts and messages as people pass them: what is well-formed, and what is refused.

Knows no template, no tokenizer and no engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from .errors import InvalidArgument


class Message(TypedDict):
    """One turn of a conversation: `role` is ``"system"``, ``"user"`` or ``"assistant"``."""

    role: str
    content: str


def prompt_text(prompt: object) -> str:
    """A prompt that is one text with something in it.

    Raises:
        InvalidArgument: It is not.
    """
    if not isinstance(prompt, str):
        raise InvalidArgument(
            f"the prompt is a {type(prompt).__name__}, not text",
            hint="Pass one str; for many prompts use session.map([...]), "
            "for messages session.chat([...])",
        )
    if not prompt.strip():
        raise InvalidArgument(
            f"the prompt is empty ({prompt!r}), so there is nothing to answer",
            hint='Pass some text, for example session.generate("Name a city in Peru.")',
        )
    _check_unicode("the prompt", prompt)
    return prompt


def check_messages(messages: object) -> list[Message]:
    """Messages as plain dictionaries.

    Raises:
        InvalidArgument: They are not a non-empty list of {"role": str, "content": str}.
    """
    example = 'For example [{"role": "user", "content": "Hello"}]'
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence):
        raise InvalidArgument(
            f"messages is a {type(messages).__name__}, not a list of messages", hint=example
        )
    if not messages:
        raise InvalidArgument("messages is empty, so there is nothing to answer", hint=example)
    checked: list[Message] = []
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            raise InvalidArgument(
                f"message {index} is {message!r}; it needs exactly 'role' and 'content'",
                hint=example,
            )
        role, content = message["role"], message["content"]
        if role not in {"system", "user", "assistant"}:
            raise InvalidArgument(
                f"message {index} has the role {role!r}",
                hint='The roles are "system", "user" and "assistant"',
            )
        if not isinstance(content, str):
            raise InvalidArgument(
                f"the content of message {index} is a {type(content).__name__}, not text",
                hint=example,
            )
        _check_unicode(f"the content of message {index}", content)
        checked.append({"role": role, "content": content})
    if not any(message["content"].strip() for message in checked):
        raise InvalidArgument("all messages are empty, so there is nothing to answer", hint=example)
    return checked


def _check_unicode(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{what} has {text[error.start]!r} at position {error.start}, which is half a "
            "character (a lone surrogate) and has no bytes",
            hint='Decode the text as UTF-8, or replace it: text.encode(errors="replace").decode()',
        ) from None
