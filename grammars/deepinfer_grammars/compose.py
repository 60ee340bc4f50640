"""Constraints made of constraints: sequences, repeats, free text, and tags that switch one on.

Free text up to a tag is an automaton over characters that looks for the tag (Aho and Corasick
1975), written as rules: one rule for each beginning of a tag. So the end of free text is never
ambiguous, and its distance is that of the nearest tag. Tags are plain text; which tokens write them
is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .errors import ConstraintTooLarge, InvalidConstraint
from .expr import Pool
from .grammar import Grammar
from .node import ALL_BYTES, Node
from .utf8 import ANY_CHAR, char_set, invert

_MOST_BLOCKS = 64
_LONGEST_TAG = 1_000


@dataclass(frozen=True, slots=True)
class TaggedBlock:
    """Something that begins and ends with a tag, and what is written between them.

    Attributes:
        begin: The text that switches `content` on.
        content: What follows it.
        end: The text that switches it off again.
    """

    begin: str
    content: Grammar
    end: str


def compile_sequence(parts: Sequence[Grammar]) -> Grammar:
    """Texts of the grammars, one after the other.

    A terminal of a Lark grammar still takes all it can: what comes next cannot be mistaken for it.

    Raises:
        EmptyConstraint: No text satisfies it.
    """
    builds = [part.build for part in parts]
    return Grammar(lambda pool: pool.seq(*[build(pool) for build in builds]), "sequence")


def compile_repeat(
    item: Grammar, *, low: int = 0, high: int | None = None, separator: str = ""
) -> Grammar:
    """Texts of a grammar over and over.

    Args:
        item: What is repeated.
        low: Fewest copies.
        high: Most copies; None for any number.
        separator: Stands between two copies.

    Raises:
        InvalidConstraint: `low` is negative or more than `high`, or half a character separates.
        EmptyConstraint: No text satisfies it.
    """
    if low < 0 or (high is not None and high < low):
        raise InvalidConstraint(
            f"a repeat asks for at least {low} and at most {high} copies",
            hint="Use at_least >= 0 and at_most >= at_least",
        )
    between = _text(separator, "the separator")

    def build(pool: Pool) -> Node:
        node = item.build(pool)
        if not between or high == 0:
            return pool.repeat(node, low, -1 if high is None else high)
        most = -1 if high is None else high - 1
        more = pool.repeat(pool.seq(pool.literal(between), node), max(low - 1, 0), most)
        some = pool.seq(node, more)
        return some if low else pool.optional(some)

    return Grammar(build, "repeat")


def compile_text(*, until: str | None = None, max_chars: int | None = None) -> Grammar:
    """Free text.

    Args:
        until: The text ends with the first place where this stands, and includes it; None for text
            that may end anywhere.
        max_chars: Most characters, not counting `until`; None for any number.

    Raises:
        InvalidConstraint: `until` is empty or holds half a character, or `max_chars` is negative.
    """
    if max_chars is not None and max_chars < 0:
        raise InvalidConstraint(
            f"max_chars is {max_chars}, less than 0", hint="Use 0 or more, or None for any number"
        )
    most = -1 if max_chars is None else max_chars
    if until is None:
        return Grammar(lambda pool: pool.repeat(char_set(pool, ANY_CHAR), 0, most), "text")
    tag = _tag(until)

    def bounded(pool: Pool) -> Node:
        ending = pool.literal(tag)
        early = pool.seq(pool.anything, ending, pool.byte_set(ALL_BYTES), pool.anything)
        whole = pool.seq(pool.repeat(char_set(pool, ANY_CHAR), 0, most), ending)
        return pool.all_of((whole, pool.complement(early)))

    if max_chars is None:
        return Grammar(lambda pool: _scan(pool, {tag: pool.epsilon}, may_end=False), "text")
    return Grammar(bounded, "text")


def compile_tagged_text(
    blocks: Sequence[TaggedBlock], *, at_least: int = 0, at_most: int | None = None
) -> Grammar:
    """Free text with blocks in it: the begin of one switches its content on, its end off again.

    Args:
        blocks: The kinds of blocks. Where several have the same begin, any one of them follows.
        at_least: Fewest blocks in all.
        at_most: Most blocks in all; None for any number. After the last one no begin may stand in
            the text.

    Raises:
        InvalidConstraint: There are no blocks, a tag is empty, a begin holds another, or the counts
            contradict each other.
        ConstraintTooLarge: A count or a tag is too large.
        EmptyConstraint: No text satisfies it.
    """
    if not blocks:
        raise InvalidConstraint(
            "tagged text needs at least one kind of block", hint="Pass a tag, or a tool"
        )
    if at_least < 0 or (at_most is not None and at_most < at_least):
        raise InvalidConstraint(
            f"tagged text asks for at least {at_least} and at most {at_most} blocks",
            hint="Use at_least >= 0 and at_most >= at_least",
        )
    if max(at_least, at_most or 0) > _MOST_BLOCKS:
        raise ConstraintTooLarge(
            f"{max(at_least, at_most or 0)} blocks are counted, more than {_MOST_BLOCKS}",
            hint="Count fewer, or leave at_most out",
        )
    begins = list(dict.fromkeys(_tag(block.begin) for block in blocks))
    _refuse_nested(begins)
    for block in blocks:
        _text(block.end, "the end of a block")

    def build(pool: Pool) -> Node:
        bodies = {
            begin: pool.alt(
                [
                    pool.seq(block.content.build(pool), pool.literal(block.end))
                    for block in blocks
                    if block.begin == begin
                ]
            )
            for begin in begins
        }
        last = at_least if at_most is None else at_most
        after = pool.rule("text")
        here = dict.fromkeys(begins, pool.never)
        if at_most is None:
            here = {begin: pool.seq(body, after) for begin, body in bodies.items()}
        pool.define(after, _scan(pool, here, may_end=True))
        for count in reversed(range(last)):
            here = {begin: pool.seq(body, after) for begin, body in bodies.items()}
            after = _scan(pool, here, may_end=count >= at_least)
        return after

    return Grammar(build, "tagged text")


def _scan(pool: Pool, after: Mapping[str, Node], *, may_end: bool) -> Node:
    """Free text up to the first of several tags, and what follows each.

    Args:
        pool: Where to build.
        after: Tag to what follows it. No tag holds another.
        may_end: Whether the text may end before any tag.
    """
    beginnings = sorted({tag[:size] for tag in after for size in range(len(tag))}, key=len)
    rules = {beginning: pool.rule(f"text {beginning}".strip()) for beginning in beginnings}
    letters = sorted({letter for tag in after for letter in tag})
    others = invert((ord(letter), ord(letter)) for letter in letters)
    end = pool.epsilon if may_end else pool.never
    for beginning, rule in rules.items():
        parts = [end]
        targets: dict[Node, list[tuple[int, int]]] = {rules[""]: list(others)}
        for letter in letters:
            target = _target(beginning + letter, after, rules)
            targets.setdefault(target, []).append((ord(letter), ord(letter)))
        if not beginning:  # the common case is a loop, which needs no new state
            stay = pool.repeat(char_set(pool, targets.pop(rule)), 0)
            parts += [pool.seq(char_set(pool, c), target) for target, c in targets.items()]
            pool.define(rule, pool.seq(stay, pool.alt(parts)))
        else:
            parts += [pool.seq(char_set(pool, c), target) for target, c in targets.items()]
            pool.define(rule, pool.alt(parts))
    return rules[""]


def _target(seen: str, after: Mapping[str, Node], rules: Mapping[str, Node]) -> Node:
    """Where the scan stands after `seen`: behind a tag, or in the longest beginning at its end."""
    for start in range(len(seen)):
        rest = seen[start:]
        if rest in after:
            return after[rest]
        if rest in rules:
            return rules[rest]
    return rules[""]


def _refuse_nested(tags: Iterable[str]) -> None:
    known = list(tags)
    for tag in known:
        for other in known:
            if other is not tag and other in tag:
                raise InvalidConstraint(
                    f"the tag {tag!r} holds the tag {other!r}, which would always come first",
                    hint="Use one of them, and tell the two apart in the content",
                )


def _tag(text: str) -> str:
    if not text:
        raise InvalidConstraint("a tag is empty", hint='For example "<tool_call>"')
    if len(text) > _LONGEST_TAG:
        raise ConstraintTooLarge(
            f"a tag has {len(text)} characters, more than {_LONGEST_TAG}", hint="Use a short mark"
        )
    return _text(text, "a tag")


def _text(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidConstraint(
            f"{what} {text!r} holds half a character (a lone surrogate)",
            hint="Write the whole character",
        ) from None
    return text
