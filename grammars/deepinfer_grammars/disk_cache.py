"""A folder of things that took a while to make; off unless someone names one.

Every file carries the version of the sources that wrote it and a checksum, is written beside its
place and moved there, and is ignored and written again if anything about it is wrong. The folder
can be deleted at any time, and shared by processes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from pathlib import Path

_MAGIC = b"deepinfer grammars 1\n"
_DIGEST = 16
_PRUNE_EVERY = 64


@functools.cache
def _sources() -> bytes:
    """A digest of this package: what another version wrote is not read."""
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.digest()


class DiskCache:
    """Byte strings by name, in a folder.

    Args:
        folder: The folder, made if missing; None for ``deepinfer_sdk/grammars`` in
            ``XDG_CACHE_HOME`` (by default ``~/.cache``).
        most_bytes: Bytes to keep; the longest unused files go first.
    """

    def __init__(self, folder: Path | None = None, *, most_bytes: int = 1 << 30) -> None:
        if folder is None:
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(base) / "deepinfer_sdk" / "grammars"
        self.folder = folder
        self._most_bytes = most_bytes
        self._written = 0

    def _path(self, name: bytes) -> Path:
        digest = hashlib.blake2b(_sources() + name, digest_size=_DIGEST).hexdigest()
        return self.folder / f"{digest}.bin"

    def read(self, name: bytes) -> bytes | None:
        """What was written under a name; None if nothing was, or it is damaged."""
        path = self._path(name)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _DIGEST
        data = content[head:]
        if content[:head] != _MAGIC + _checksum(name, data):
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # it is in use
        return data

    def write(self, name: bytes, data: bytes) -> None:
        """Keep `data` under a name. A folder that cannot be written is not an error."""
        path = self._path(name)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                beside = Path(file.name)
                try:
                    file.write(_MAGIC + _checksum(name, data) + data)
                    file.flush()
                    beside.replace(path)
                except OSError:
                    beside.unlink(missing_ok=True)
                    raise
            if self._written % _PRUNE_EVERY == 0:
                self._prune()
            self._written += 1

    def _prune(self) -> None:
        files = [(path.stat(), path) for path in self.folder.glob("*.bin")]
        held = sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda pair: pair[0].st_mtime_ns):
            if held <= self._most_bytes:
                break
            path.unlink(missing_ok=True)
            held -= stat.st_size


def _checksum(name: bytes, data: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    digest.update(len(name).to_bytes(8, "little") + name)
    digest.update(data)
    return digest.digest()
