"""Finite-size scaling: what is computed and measured, and the command on a few small
ensembles."""

import csv
import dataclasses
import io

import numpy as np
import pytest
import xarray as xr
from matplotlib.image import imread
from numpy.testing import assert_allclose

from analysis import structures
from analysis.plots import plot_scaling
from analysis.statistics import logistic_fraction
from analysis.structures import finite_size
from dynamics import ModularSettings, ParticleSettings, simulate
from dynamics.particles import ParticleSystem
from tests import naive
from tests.polygons import polygon

LINE = "--n 7 5 9 --values 2.5 1 1.5 --runs 4 --length 60 --every 20 --seed 3"


def made_up_result(
    midpoint_power, width_power, runs=400, sizes=(7, 17, 43, 113), largest=1.0
):
    """A result whose fractions of circles are those of given powers of N, and at most
    `largest`."""
    values = np.array([0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0])
    circle = np.empty((len(sizes), len(values), runs))
    for at, n in enumerate(sizes):
        fractions = logistic_fraction(
            values, 1.5 * (n / 17) ** midpoint_power, 1.2 * (n / 17) ** width_power
        )
        circle[at] = np.arange(runs) < np.round(runs * largest * fractions)[:, None]
    dims = ("n", "fa", "run")
    formation = np.where(circle == 1, 50.0, np.nan)
    variables = {
        "circle": (dims, circle),
        "imperfections": (dims, 0.5 * circle),
        "formation": (dims, formation),
    }
    coords = {"n": list(sizes), "fa": values, "bound": ["value", "low", "high"]}
    return finite_size._add_fits(
        xr.Dataset(variables, coords, {"system": "particles", "length": 400})
    )


@pytest.mark.parametrize(("middle", "width"), [(-0.1, -0.3), (0.0, 0.2), (0.15, 0.0)])
def test_powers_of_n_are_recovered(middle, width):
    result = made_up_result(middle, width)
    for name, expected in (("midpoint_power", middle), ("width_power", width)):
        value, low, high = result[name].values
        assert low < expected < high
        assert value == pytest.approx(expected, abs=0.03)
    lines = structures.scaling_conclusion(result).splitlines()
    for line, power in zip(lines, (middle, width), strict=True):
        assert ("no dependence" in line) == (power == 0)
        assert ("increases" in line) == (power > 0)


def test_few_sizes_have_no_power():
    lines = structures.scaling_conclusion(
        made_up_result(0.1, 0.1, sizes=(7, 17))
    ).splitlines()
    assert all("fewer than three N" in line for line in lines)


def test_displacements_of_ordered_particles_are_of_one_magnitude_for_every_n():
    """Forces of random arrangements grow more slowly than N²."""
    moved = []
    for n in (17, 31, 59):
        settings = finite_size.settings_of_size(ParticleSettings(fa=2.0), n)
        system = ParticleSystem(settings)
        force, _ = system.force(system.normalise(polygon(n)[None] * [1.2, 1.0]))
        moved.append(settings.step_size * np.linalg.norm(force) / np.sqrt(n))
    assert max(moved) < 1.5 * min(moved)  # with one step size for all N it would be 16
    assert finite_size.settings_of_size(ParticleSettings(), 17) == ParticleSettings()


def test_the_design_has_each_size_with_its_runs():
    designs = structures.plan_scaling(
        ParticleSettings(), (9, 5), (2.0, 1.0), (3, 4), lengths=(30, 40)
    )
    assert [
        (design.points[0].settings.n, design.runs, design.points[0].steps)
        for design in designs
    ] == [
        (5, 4, 40),
        (9, 3, 30),
    ]
    assert designs[0].axes == {"fa": [1.0, 2.0]}
    networks = structures.plan_scaling(
        ModularSettings(), (5,), (0.3, 1.0), lengths=(30,)
    )
    assert networks[0].axes == {"weight_decay": [0.3, 1.0]}
    assert networks[0].points[0].settings == ModularSettings(n=5, weight_decay=0.3)


# -------------------------------------------------------------------------- the command


def test_the_command_measures_what_single_simulations_give(typed):
    code, said, errors = typed(
        "analysis.paper scaling", *LINE.split(), "--csv", "-", "--out", "s.nc"
    )
    assert code == 0, errors
    rows = list(csv.DictReader(io.StringIO(said)))
    assert [(row["n"], row["fa"]) for row in rows] == [
        (n, fa) for n in "579" for fa in ("1.0", "1.5", "2.5")
    ]
    for row in rows:
        settings = ParticleSettings(n=int(row["n"]), fa=float(row["fa"]))
        settings = dataclasses.replace(
            settings, step_size=0.003 * (17 / settings.n) ** 2
        )
        frames = simulate(settings, 4, 3, steps=60, every=20)["embedding"].values
        circle = np.array([[naive.is_circle(x) for x in run] for run in frames])
        onsets = [
            20 * min(at for at in range(4) if run[at:].all())
            for run in circle
            if run[-1]
        ]
        others = [
            naive.imperfections(x, settings.n)
            for x, run in zip(frames[:, -1], circle, strict=True)
            if not run[-1]
        ]
        expected = [circle[:, -1].mean(), np.median(onsets) if onsets else np.nan]
        expected.append(
            np.mean(others) / (settings.n * (settings.n + 1) / 2) if others else np.nan
        )
        outcome = [
            float(row[name] or "nan")
            for name in ("circles", "formation", "imperfections")
        ]
        assert_allclose(outcome, expected)
    assert imread("s.png").shape[0] > 400
    with xr.open_dataset("s.nc") as result:
        assert result["circle"].dims == ("n", "fa", "run")


def test_finished_points_are_found_and_others_are_left_out(typed, tmp_path):
    words = ["analysis.paper scaling", *LINE.split()]
    code, _, errors = typed(*words, "--finished")
    assert code == 2
    assert "--finished: found no finished point" in errors
    assert typed(*words)[0] == 0
    code, said, _ = typed(*words)
    assert "9 of 9 in runs (0 computed)" in said
    code, said, _ = typed(*[word.replace("1.5", "3") for word in words], "--finished")
    assert "6 of 9 in runs (0 computed)" in said
    assert (
        sum(
            len(path.read_bytes())
            for path in (tmp_path / "runs").glob("particles-*.nc")
        )
        < 2e6
    )


def test_sizes_with_different_runs_are_compared():
    designs = structures.plan_scaling(
        ParticleSettings(), (5, 7), (1.0, 2.0), (6, 3), lengths=(20,)
    )
    assert structures.compute_scaling(designs) == 4
    result = structures.measure_scaling(designs)
    assert np.isfinite(result["circle"]).sum("run").values.tolist() == [[6, 6], [3, 3]]
    assert [row["runs"] for row in structures.scaling_rows(result)] == [6, 6, 3, 3]


def test_the_figure_has_a_curve_for_each_size():
    result = made_up_result(-0.1, -0.3)
    circles, midpoint, *_ = plot_scaling(result).axes
    assert len([line for line in circles.lines if len(line.get_xdata()) == 200]) == 4
    dashed = next(line for line in midpoint.lines if line.get_linestyle() == "--")
    slope = np.diff(np.log(dashed.get_ydata())) / np.diff(np.log(dashed.get_xdata()))
    assert slope == pytest.approx(float(result["midpoint_power"][0]))


def test_points_of_different_sizes_are_beside_each_other_at_their_setting():
    result = made_up_result(-0.1, -0.3)
    circles = plot_scaling(result).axes[0]
    bars = [container.lines[0].get_xdata() for container in circles.containers]
    shifts = np.array(bars, float) / result["fa"].values - 1
    assert len(bars) == result.sizes["n"]
    assert (np.diff(shifts, axis=0) > 0.005).all()
    assert_allclose(shifts, 0, atol=0.05)  # neighbouring settings differ by 20% or more


def test_fractions_that_do_not_reach_half_have_no_midpoint_and_are_drawn_against_n():
    result = made_up_result(-0.1, -0.3, largest=0.3)
    assert np.isnan(result["midpoint"]).all()
    assert "no power of N" in structures.scaling_conclusion(result)
    _, by_size, *others = plot_scaling(result).axes
    assert len(others) == 2
    lines = [line for line in by_size.lines if len(line.get_xdata()) == 4]
    assert len(lines) == result.sizes["fa"]
    assert_allclose(lines[-1].get_ydata(), result["circle"].isel(fa=-1).mean("run"))
