"""Progress bars are shown on a terminal and in a notebook, and nowhere else."""

import sys
from types import SimpleNamespace

import pytest

from dynamics import ParticleSettings, simulate
from dynamics.progress import is_notebook, progress_bar


class ZMQInteractiveShell:
    """Stands in for the shell of a notebook's kernel."""


@pytest.fixture
def notebook(monkeypatch):
    module = SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_no_bar_is_shown_where_output_is_a_file(capsys):
    assert not is_notebook()
    assert list(progress_bar(range(3))) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_bar_with_the_time_left_is_shown_in_a_notebook(capsys, notebook):
    assert is_notebook()
    assert list(progress_bar(range(3), desc="runs", mininterval=0)) == [0, 1, 2]
    shown = capsys.readouterr().err
    assert "runs" in shown
    assert "1/3" in shown
    assert "<" in shown  # elapsed < remaining


def test_simulations_show_their_progress_in_a_notebook(capsys, notebook):
    simulate(ParticleSettings(n=5), runs=2, steps=20)
    assert "20" in capsys.readouterr().err
    simulate(ParticleSettings(n=5), runs=2, steps=20, progress=False)
    assert capsys.readouterr().err == ""


def test_a_shell_that_is_no_notebook_shows_none(capsys, monkeypatch):
    module = SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert not is_notebook()
    list(progress_bar(range(3)))
    assert capsys.readouterr().err == ""
