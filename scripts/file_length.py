"""Fail if a source file has more than 400 lines."""

import sys
from pathlib import Path

MOST = 400


def main() -> int:
    """Check the folders named on the command line."""
    files = [path for folder in sys.argv[1:] for path in sorted(Path(folder).rglob("*.py"))]
    counts = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    long = {path: count for path, count in counts.items() if count > MOST}
    for path, count in long.items():
        print(f"{path}: {count} lines, at most {MOST}; split it by idea")
    print(f"file length: {len(files)} files, {len(long)} too long")
    return 1 if long or not files else 0


if __name__ == "__main__":
    sys.exit(main())
