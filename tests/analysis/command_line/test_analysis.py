"""Analyses as records: the command of an analysis of one's own, for one trajectory and
for several."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

from analysis import Analysis
from analysis.command_line.parsing import parse_options
from analysis.curvature import Options as CurvatureOptions
from analysis.output import Column
from dynamics import ModularSettings, ParticleSettings, open_trajectory, simulate
from dynamics.errors import RecordingError, SettingsError

PAGE = Path(__file__).parents[3] / "docs/analyses/own-analysis.md"
EXAMPLE, *_ = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def drift(output_of, tmp_path, monkeypatch):
    """The command of the page, in a folder with two trajectories."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "drift.py").write_text(EXAMPLE)
    for name, seed in (("a", 0), ("b", 5)):
        simulate(
            ModularSettings(n=5, hidden=6),
            runs=3,
            seed=seed,
            steps=40,
            every=10,
            out=f"{name}.nc",
        )
    yield lambda words, code=0: output_of("drift", *words.split(), code=code)
    sys.modules.pop("drift", None)


def distances(name):
    """The distances by plain numbers, (run, step)."""
    embedding = open_trajectory(f"{name}.nc")["embedding"].values
    return np.linalg.norm(embedding.mean(axis=2), axis=-1)


def test_the_example_of_the_page(drift, tmp_path):
    out = drift("a.nc --runs 2 --frames 3 --csv t.csv --style paper")
    assert "trajectory  a.nc  (modular: 3 runs, 5 frames)" in out
    assert "of the mean of all tokens" in out.split("\n  1    40")[1]
    expected = distances("a")[:2, ::2]
    with xr.open_dataset("a-drift.nc") as result:
        assert_allclose(result["distance"], expected, rtol=1e-6)
        assert result.attrs["title"].startswith("Distance of the centre of mass")
        assert result.attrs["result_of"] == "drift"
    table = pd.read_csv("t.csv")
    assert table["step"].tolist() == [0, 20, 40] * 2
    assert_allclose(table["distance"], expected.ravel(), rtol=1e-6)
    assert (tmp_path / "a-drift.png").stat().st_size > 1000
    assert len(EXAMPLE.splitlines()) < 40


def test_rows_of_several_trajectories_are_grouped_by_file(drift):
    out = drift("a.nc b.nc --at 0 40 --run-indices 2 --csv t.csv")
    assert "result      a-drift.nc" in out
    assert "picture     b-drift.png" in out
    table = pd.read_csv("t.csv")
    assert table["trajectory"].tolist() == ["a.nc", "a.nc", "b.nc", "b.nc"]
    expected = [distances(name)[2, [0, -1]] for name in "ab"]
    assert_allclose(table["distance"], np.ravel(expected), rtol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a.nc b.nc --out c.nc", "--out: found c.nc, allowed is no value with several"),
        ("a.nc a.nc", "OTHERS: found a.nc a.nc, allowed is each file once"),
        ("a.nc --runs 4", "--runs: found 4, allowed is a whole number from 1 to 3"),
        ("a.nc --at 5", "--at: found 5, allowed is a recorded step, nearest are 0 and"),
        ("a.nc --at 0 --every 2", "--every --at: found both, allowed is one of them"),
    ],
)
def test_mistakes_are_explained_before_anything_is_written(drift, words, message):
    assert message in drift(words, code=2)
    assert not list(Path().glob("*drift.nc"))


def test_errors_name_the_trajectory(drift, output_of):
    simulate(ParticleSettings(n=5), runs=2, steps=2, out="p.nc")
    assert "p.nc: " in output_of("analysis.progress", "p.nc", "a.nc", code=1)


def test_diverged_runs_are_announced(drift, diverging):
    simulate(diverging, runs=2, steps=4, out="d.nc")
    assert "d.nc: 1 runs diverged" in drift("d.nc")


def test_former_names_of_options_are_accepted(monkeypatch):
    for words in (["--steps", "5"], ["--steps=5"]):
        monkeypatch.setattr("sys.argv", ["curvature", "a.nc", *words])
        options = parse_options(CurvatureOptions, "analysis.curvature")
        assert options.selection.frames == 5


def particles_file():
    simulate(ParticleSettings(n=5), runs=3, steps=30, out="particles.nc").close()
    return ["particles.nc"]


MISTAKEN = {
    "no Dataset": (
        {"measure": lambda trajectory, selection: trajectory["embedding"]},
        "measure: found a function that returns DataArray",
    ),
    "no column": ({"columns": [Column("wrong", "ratoi")]}, "columns: found ratoi"),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_mistakes_in_a_record_are_named(name, capsys):
    changes, words = MISTAKEN[name]
    functions = {
        "measure": lambda trajectory, selection: trajectory[["gradient_norm"]].isel(
            layer=0, drop=True
        )
    }
    analysis = Analysis(name="own", **(functions | changes))
    options = analysis.options(trajectory=Path(particles_file()[0]))
    with pytest.raises(SettingsError, match=words):
        analysis.main(options)


def test_all_columns_are_printed_without_columns(capsys):
    analysis = Analysis(
        name="own",
        measure=lambda trajectory, selection: trajectory[["gradient_norm"]].isel(
            layer=0, drop=True
        ),
    )
    analysis.main(analysis.options(trajectory=Path(particles_file()[0])))
    out = capsys.readouterr().out
    assert re.search(r"run +step .*gradient_norm", out)
    assert "and 53 more rows; --csv FILE.csv writes all" in out


@pytest.mark.parametrize("files_first", [False, True])
def test_an_error_in_the_figure_loses_neither_table_nor_result(files_first, capsys):
    def plot(result, axes):
        axes.plot(result["no variable"])

    analysis = Analysis(
        name="own",
        measure=lambda trajectory, selection: trajectory[["gradient_norm"]].sum(),
        columns=[Column("norm", "gradient_norm", digits=1)],
        plot=plot,
        files_first=files_first,
    )
    options = analysis.options(trajectory=Path(particles_file()[0]), csv=Path("t.csv"))
    with pytest.raises(RecordingError, match=r"figure of particles-own.nc .*no variab"):
        analysis.main(options)
    assert re.search(r"norm\n-+\n *\d+\.\d\n", capsys.readouterr().out)
    assert Path("t.csv").exists()
    with xr.open_dataset("particles-own.nc") as result:
        assert result.attrs["result_of"] == __name__


def test_a_wrong_column_loses_no_result():
    analysis = Analysis(
        name="own",
        measure=lambda trajectory, selection: trajectory[["gradient_norm"]].sum(),
        columns=[Column("wrong", "ratoi")],
    )
    with pytest.raises(SettingsError, match="ratoi"):
        analysis.main(analysis.options(trajectory=Path(particles_file()[0])))
    assert Path("particles-own.nc").exists()


def test_a_parameter_without_an_option_is_refused():
    with pytest.raises(SettingsError, match="parameter axis"):
        Analysis(name="own", measure=lambda trajectory, selection, axis: trajectory)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RecordingError("no norms"), None])
def test_what_is_measured_before_the_end_is_written(stop):
    """The second of three trajectories ends the command: by an error, by an
    interruption before its first frame, or by one after it."""
    paths = [Path(f"{name}.nc") for name in "abc"]
    for seed, path in enumerate(paths):
        simulate(ParticleSettings(n=5), runs=2, seed=seed, steps=3, out=path).close()

    def measure(trajectory, selection):
        result = trajectory[["gradient_norm"]].sum()
        if trajectory.attrs["seed"] != 1:
            return result
        if stop is not None:
            raise stop
        return result.assign_attrs(frames_left=2)

    analysis = Analysis(
        name="own", measure=measure, columns=[Column("norm", "gradient_norm", digits=1)]
    )
    options = analysis.options(trajectory=paths[0], others=tuple(paths[1:]))
    with pytest.raises((KeyboardInterrupt, RecordingError)):
        analysis.main(options)
    written = [Path(f"{name}-own.nc").exists() for name in "abc"]
    assert written == [True, stop is None, False]
