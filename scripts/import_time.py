"""Fail if `import deepinfer_sdk` is slow or loads anything heavy."""

import json
import subprocess
import sys

MOST_S = 0.3
RUNS = 7
HEAVY = ("torch", "triton", "transformers", "numba", "numpy", "tokenizers", "huggingface_hub")
CODE = f"""
import json, sys, time
started = time.perf_counter()
import deepinfer_sdk
seconds = time.perf_counter() - started
print(json.dumps([seconds, [name for name in {HEAVY!r} if name in sys.modules]]))
"""


def main() -> int:
    """Take the best of several fresh interpreters."""
    runs = [
        json.loads(
            subprocess.run([sys.executable, "-c", CODE], capture_output=True, check=True).stdout
        )
        for _ in range(RUNS)
    ]
    best = min(seconds for seconds, _ in runs)
    heavy = runs[0][1]
    print(f"import deepinfer_sdk: {best * 1000:.0f} ms (at most {MOST_S * 1000:.0f} ms)")
    if heavy:
        print(f"it loads {', '.join(heavy)}, which must wait until a session opens")
    return 1 if heavy or best > MOST_S else 0


if __name__ == "__main__":
    sys.exit(main())
