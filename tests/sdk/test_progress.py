"""Progress: shown where people look, silent where programs do."""

import logging
import sys
from types import SimpleNamespace

import pytest

from deepinfer_sdk.display.progress import progress
from deepinfer_sdk.errors import InvalidArgument
from deepinfer_sdk.settings import Settings


def test_without_a_terminal_it_is_one_log_line(capfd, caplog):
    with caplog.at_level(logging.INFO, "deepinfer_sdk"), progress("loading") as advance:
        for done in range(100):
            advance(done, 100)
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["loading"]
    assert capfd.readouterr() == ("", "")


def test_logging_is_quiet_by_default(capfd):
    with progress("loading") as advance:
        advance(1, 2)
    assert capfd.readouterr() == ("", "")


def test_in_a_terminal_it_is_a_bar_on_stderr(capsys):
    with progress("loading model", unit="bytes", place="terminal") as advance:
        advance(5, 10)
        advance(10, 10)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "loading model" in shown.err


def test_off_shows_nothing(capsys, caplog):
    with caplog.at_level(logging.INFO, "deepinfer_sdk"), progress("x", place="off") as advance:
        advance(1, 1)
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_an_error_in_the_body_comes_through():
    with pytest.raises(KeyError, match="mine"), progress("x", place="log"):
        raise KeyError("mine")


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("DEEPINFER_PROGRESS", "loud")
    with pytest.raises(InvalidArgument, match="'loud'") as caught:
        Settings.from_environment()
    assert "auto, off" in caught.value.hint


class Handle:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, data: str) -> None:
        self.shown.append(data)


def test_in_a_notebook_one_display_is_updated_in_place(monkeypatch, capfd):
    handle = Handle()

    def display(first, *, display_id):
        assert display_id
        handle.update(first)
        return handle

    kernel = SimpleNamespace(config={"IPKernelApp": {}})
    fake = SimpleNamespace(
        get_ipython=lambda: kernel, display=SimpleNamespace(display=display, HTML=str)
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    with progress("loading <model>", unit="bytes") as advance:
        for done in range(1000):
            advance(done, 2_000_000)
        advance(2_000_000, 2_000_000)
    assert len(handle.shown) < 10, "redrawn at most 20 times a second"
    assert "loading &lt;model&gt;" in handle.shown[0]
    assert "2.0 MB of 2.0 MB" in handle.shown[-1]
    assert capfd.readouterr() == ("", "")
