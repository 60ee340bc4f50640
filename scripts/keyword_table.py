"""Write docs/json_schema.md from the keyword cases of the tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "grammars"))

from keyword_cases import BOUNDS, KEYWORDS, NOTED, REFUSALS  # noqa: E402

TARGET = ROOT / "docs" / "json_schema.md"
HEAD = """# JSON Schema keywords

What is done with each keyword of drafts 4, 6, 7, 2019-09 and 2020-12. Every row is an example that
`tests/grammars/test_keywords.py` runs, against the jsonschema library; `python
scripts/keyword_table.py` writes this page from the same list. Nothing is dropped in silence: what
cannot be enforced is refused with its JSON pointer, or, with
`Schema.json(..., on_unsupported="validate")`, left out while generating and checked at the end.

| keyword | | schema | takes | refuses |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for keyword, state, schema, valid, invalid in KEYWORDS:
        bad = "" if state == NOTED else code(invalid)
        lines.append(f"| {keyword} | {state} | {code(schema)} | {code(valid)} | {bad} |\n")
    lines.append("\n## Bounds\n\n")
    lines += [f"- **{keyword}**: {bound}.\n" for keyword, bound in BOUNDS.items()]
    lines.append("\n## Refused\n\n| what | schema | at |\n|---|---|---|\n")
    for what, schema, pointer in REFUSALS:
        lines.append(f"| {what} | {code(schema)} | `{pointer}` |\n")
    lines.append(
        "\n`format` knows the names of the specification except `regex`, and those that Pydantic "
        'writes; `formats="strict"` (the default), `"assert"` (which refuses `idn-hostname`) or '
        '`"annotate"` say how they are read.\n'
    )
    return "".join(lines)


def code(value: object) -> str:
    """JSON as inline code inside a table."""
    return "`" + json.dumps(value, ensure_ascii=False).replace("|", "\\|") + "`"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
