"""A Pydantic model out of a sentence of plain text: streaming, typed, and repeatable."""

from pydantic import BaseModel, Field

from deepinfer_sdk import SamplingParams, Session, TextDelta


class Person(BaseModel):
    """What to find in the text."""

    name: str = Field(max_length=40)
    age: int = Field(ge=0, le=130)
    city: str = Field(max_length=40)


PROMPT = "Write the name, age and city of this person as JSON: Anna Berg, 31, lives in Oslo."
SAMPLING = SamplingParams(temperature=0.7, seed=7, max_tokens=80)


def main() -> None:
    """Stream an answer, show the typed object, and make the same bytes again."""
    with Session() as session:
        print(PROMPT)
        stream = session.stream(PROMPT, schema=Person, sampling=SAMPLING)
        for event in stream:
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
        print()

        result = stream.result
        person = result.value
        print(f"\n{person!r}")
        print(f"{len(result.ids)} tokens at {result.tokens_per_second:.1f} tokens per second")

        again = session.generate(PROMPT, schema=Person, sampling=SAMPLING)
        print(f"seed {result.seed} once more, same bytes: {again.text == result.text}")


if __name__ == "__main__":
    main()
