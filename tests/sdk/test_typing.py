"""What type checkers infer for users, asked of the checkers themselves."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = Path("tests") / "sdk" / "typing_cases.py"


@pytest.mark.parametrize(
    "checker", [["mypy", "--follow-imports=silent"], ["pyright"]], ids=["mypy", "pyright"]
)
def test_the_checker_infers_the_expected_types(checker, tmp_path):
    command = [sys.executable, "-m", *checker, str(CASES)]
    if checker[0] == "pyright":
        command[-1:-1] = ["--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
