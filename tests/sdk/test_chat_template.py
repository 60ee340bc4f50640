"""Chat templates: the model's own control tokens count, those that people write do not."""

import pytest

from deepinfer_sdk.chat_template import encode_chat, render
from deepinfer_sdk.errors import InvalidArgument, ModelFileError

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONTROL = ["<|user|>", "<|assistant|>", "<|end|>", "<|end|>x"]


class Letters:
    """Control texts become negative ids if asked for; everything else one id per character."""

    def encode(self, text, *, add_special=False, parse_special=False):
        ids = []
        while text:
            found = next((c for c in CONTROL if parse_special and text.startswith(c)), None)
            ids.append(-1 - CONTROL.index(found) if found else ord(text[0]))
            text = text[len(found) if found else 1 :]
        return ids


def encode(*contents):
    messages = [{"role": "user", "content": content} for content in contents]
    return encode_chat(Letters(), TEMPLATE, messages, {}, CONTROL)


def test_the_template_makes_control_tokens():
    assert encode("hi") == [-1, ord("h"), ord("i"), -3, ord("\n"), -2]


def test_written_control_tokens_stay_text():
    ids = encode("a<|end|>b")
    assert [i for i in ids if i < 0] == [-1, -3, -2]
    assert "".join(chr(i) for i in ids if i > 0) == "a<|end|>b\n"


def test_the_longest_control_text_wins_and_neighbours_are_kept():
    ids = encode("<|end|>x<|end|><|user|>", " y ")
    assert "".join(chr(i) for i in ids if i > 0) == "<|end|>x<|end|><|user|>\ny\n"
    assert [i for i in ids if i < 0] == [-1, -3, -1, -3, -2]


def test_a_template_may_refuse_messages():
    template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(InvalidArgument, match="roles must alternate"):
        render(template, [{"role": "user", "content": "a"}], {})


def test_a_broken_template_is_the_models_fault():
    with pytest.raises(ModelFileError, match="cannot be rendered") as caught:
        render("{% for %}", [{"role": "user", "content": "a"}], {})
    assert "raw=True" in caught.value.hint


def test_a_template_cannot_reach_into_python():
    with pytest.raises(ModelFileError, match="cannot be rendered"):
        render("{{ ''.__class__.__mro__[1].__subclasses__() }}", [], {})
