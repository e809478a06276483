"""Analyses: the command of an analysis of one's own, for one trajectory and for several,
and their use in Python."""

import dataclasses
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import analysis
import dynamics
from analysis import Analysis, Curvature, output
from analysis.command_line.analysis_command import (
    command_arguments,
    measure_files,
    program_name,
)
from analysis.command_line.parsing import parse_options
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
    assert len(EXAMPLE.splitlines()) < 41


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
        options = parse_options(command_arguments(Curvature), "analysis.curvature")
        assert options.analysis.selection.frames == 5


def particles_file():
    simulate(ParticleSettings(n=5), runs=3, steps=30, out="particles.nc").close()
    return ["particles.nc"]


@dataclasses.dataclass(frozen=True)
class GradientNorms(Analysis):
    """An analysis of one's own."""

    def measure(self, trajectory):
        return trajectory[["gradient_norm"]].isel(layer=0, drop=True)


def run_on(analysis, *paths, **files):
    """Run the command of an analysis on files."""
    first, *others = map(Path, paths)
    arguments = command_arguments(type(analysis))
    measure_files(
        arguments(trajectory=first, others=tuple(others), analysis=analysis, **files)
    )


def test_a_function_that_returns_no_dataset_is_named():
    class Wrong(GradientNorms):
        def measure(self, trajectory):
            return trajectory["embedding"]

    with pytest.raises(SettingsError, match="measure: found a function that returns"):
        run_on(Wrong(), *particles_file())


def test_a_wrong_column_is_named_and_loses_no_result():
    class Wrong(GradientNorms):
        columns = (Column("wrong", "ratoi"),)

    with pytest.raises(SettingsError, match="columns: found ratoi"):
        run_on(Wrong(), *particles_file())
    assert Path("particles-wrong.nc").exists()


def test_all_columns_are_printed_without_columns(capsys):
    run_on(GradientNorms(), *particles_file())
    out = capsys.readouterr().out
    assert re.search(r"run +step .*gradient_norm", out)
    assert "and 53 more rows; --csv FILE.csv writes all" in out


def test_an_error_in_the_figure_loses_neither_table_nor_result(capsys):
    class Own(GradientNorms):
        columns = (Column("norm", "gradient_norm", digits=1),)

        def draw(self, result, axes):
            axes.plot(result["no variable"])

    with pytest.raises(RecordingError, match=r"figure of particles-own.nc .*no variab"):
        run_on(Own(), *particles_file(), csv=Path("t.csv"))
    assert re.search(r"norm\n-+\n *\d+\.\d\n", capsys.readouterr().out)
    assert Path("t.csv").exists()
    with xr.open_dataset("particles-own.nc") as result:
        assert result.attrs["result_of"] == __name__


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RecordingError("no norms"), None])
def test_what_is_measured_before_the_end_is_written(stop):
    """The second of three trajectories ends the command: by an error, by an
    interruption before its first frame, or by one after it."""
    paths = [Path(f"{name}.nc") for name in "abc"]
    for seed, path in enumerate(paths):
        simulate(ParticleSettings(n=5), runs=2, seed=seed, steps=3, out=path).close()

    class Own(GradientNorms):
        def measure(self, trajectory):
            result = trajectory[["gradient_norm"]].sum()
            if trajectory.attrs["seed"] != 1:
                return result
            if stop is not None:
                raise stop
            return result.assign_attrs(frames_left=2)

    with pytest.raises((KeyboardInterrupt, RecordingError)):
        run_on(Own(), *paths)
    written = [Path(f"{name}-own.nc").exists() for name in "abc"]
    assert written == [True, stop is None, False]


def test_printed_rows_of_several_files_are_those_of_each(capsys):
    """A mask of the first table is not applied to the rows of the second."""

    class Own(GradientNorms):
        def printed_rows(self, table):
            return table["step"] == table["step"].max()

    paths = [Path("short.nc"), Path("long.nc")]
    for path, steps in zip(paths, (3, 9), strict=True):
        simulate(ParticleSettings(n=5), runs=2, steps=steps, out=path).close()
    run_on(Own(), *paths)
    printed = re.findall(r"^(short|long)\.nc  .*$", capsys.readouterr().out, re.M)
    assert printed == ["short", "short", "long", "long"]


def test_mistakes_in_a_class_are_named():
    with pytest.raises(
        TypeError, match=r"Wrong\.legend with a type would be an option"
    ):

        class Wrong(GradientNorms):
            legend: str = "..."

    class Undecorated(GradientNorms):
        axis: int = 0

    with pytest.raises(TypeError, match="Undecorated is no dataclass; put @dataclass"):
        Undecorated.main()


ANALYSES = [
    value
    for name in dir(analysis)
    if isinstance(value := getattr(analysis, name), type)
    and issubclass(value, Analysis)
    and value.measure is not Analysis.measure
]


@pytest.mark.parametrize("kind", ANALYSES, ids=lambda kind: kind.name)
def test_options_of_python_are_those_of_the_command(kind, monkeypatch):
    """The default of every field is the same in Python and on the command line, and
    results name the program by the name of the analysis."""
    assert program_name(kind) == f"analysis.{kind.name}"
    monkeypatch.setattr("sys.argv", [kind.name, "a.nc"])
    arguments = parse_options(command_arguments(kind), kind.__module__)
    assert arguments.analysis == kind()
    assert kind.title
    assert kind.__doc__ != Analysis.__doc__


def test_an_analysis_in_python_gives_what_its_command_writes(output_of):
    path, *_ = particles_file()
    out = output_of(
        "analysis.formation", path, "--runs", 2, "--run", 1, "--csv", "t.csv"
    )
    assert "result      particles-formation.nc" in out
    selection = dynamics.Selection(runs=2)
    formation = analysis.Formation(selection=selection, run=1)
    result = formation.measure(open_trajectory(path))
    with xr.open_dataset("particles-formation.nc") as written:
        for name in result.data_vars:
            xr.testing.assert_equal(written[name], result[name])
        options = json.loads(written.attrs["options_json"])
    assert options["run"] == 1
    assert options["selection"]["runs"] == 2
    table = pd.read_csv("t.csv")
    expected = formation.table(result).reset_index(drop=True)
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert len(formation.figure(result, open_trajectory(path)).axes) > 2


def test_results_of_several_trajectories_are_taken_apart():
    results = [
        xr.Dataset(
            {"other_time": ("run", np.arange(2.0) + number)},
            {"seed": ("run", [number, number + 1])},
            {"trajectory": f"{number}.nc", "size": np.float64(number)},
        )
        for number in range(4)
    ]
    joined = output.join_results(results)
    joined.to_netcdf("joined.nc")
    with xr.open_dataset("joined.nc") as stored:
        for result, part in zip(results, output.split_results(stored), strict=True):
            xr.testing.assert_identical(part, result)
