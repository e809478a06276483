"""Formation times of structures: constructed series and trajectories whose times are
known, and the command."""

import functools
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from analysis.plots.formation_figure import plot_formation
from analysis.structures import (
    count_imperfections,
    formation_times,
    norm_ratio,
    perfect_grids,
)
from analysis.structures.formation_table import (
    FormationResult,
    formation_rows,
    mean_structure_measure,
)
from analysis.structures.formation_times import (
    FORMATION_EVENTS,
    find_formation_times,
    halfway_time,
    persistent_onset,
    structure_measures,
)
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    save_trajectory,
    simulate,
)
from dynamics.randomness import random_stream
from tests.polygons import polygon

N, STEPS = 11, 20


# ---------------------------------------------------------------------------- the rules


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_persistent_onsets_are_those_of_plain_loops(there):
    moments = np.linspace(0, 1, len(there))
    expected = next((moments[k] for k in range(len(there)) if all(there[k:])), np.inf)
    assert persistent_onset(np.array(there), moments) == expected
    assert_array_equal(
        persistent_onset(np.array([there, there]), moments), [expected] * 2
    )


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12))
def test_halfway_times_are_those_of_a_search_through_time(values):
    moments = np.arange(len(values), dtype=float) ** 1.5
    fine = np.linspace(0, moments[-1], 4000)
    half = (values[0] + values[-1]) / 2
    above = (np.interp(fine, moments, values) > half + 1e-9) & (values[-1] < values[0])
    expected = fine[above].max() if above.any() else 0
    result = halfway_time([values, [*values[:-1], 9]], moments)  # which ends no lower
    assert_allclose(result, [expected, 0], atol=0.011)
    with pytest.raises(ValueError, match="finite"):
        halfway_time([np.nan, *values[1:]], moments)


# ----------------------------------------------------------------- planted trajectories


@pytest.fixture(scope="module")
def template():
    return simulate(ParticleSettings(n=N), runs=4, steps=STEPS)


def planted(template):
    """Run 0 turns into a circle of frequency 2 at step 8, run 1 into a grid at step 15,
    run 2 never changes, run 3 is a circle from the beginning. What was random moves
    straight to what it becomes in two steps."""
    x = template["embedding"].isel(step=0).values
    grid = perfect_grids(N).basis[perfect_grids(N).lines == 3][5] @ np.diag([4.0, 3.0])
    ends, begins = (polygon(N, 2), grid, x[2], polygon(N, 3)), (7, 14, 0, 0)
    moved = np.empty((4, STEPS + 1, N, 2))
    for run, (end, begin) in enumerate(zip(ends, begins, strict=True)):
        start = end if run == 3 else x[run]
        for step in range(STEPS + 1):
            part = np.clip((step - begin) / 2, 0, 1)
            moved[run, step] = (1 - part) * start + part * end
    return template.assign(embedding=(template["embedding"].dims, moved))


def test_planted_structures_form_when_they_were_planted(template):
    outcome = structure_measures(planted(template))
    result = find_formation_times(outcome)
    formed = {
        str(event): result["formed"].sel(event=event).values.tolist()
        for event in result["event"].values
    }
    assert formed["circle"] == formed["polygon"] == [1, 0, 0, 1]
    assert formed["grid"][1:3] == formed["perfect grid"][1:3] == [1, 0]
    assert formed["structure"] == [1, 1, 0, 1]
    assert formed["frequency"][0] == formed["frequency"][3] == 1
    when = result["onset"] * STEPS
    assert when.sel(event="circle").values.tolist() == [9, 20, 20, 0]
    assert 7 < when.sel(event="polygon")[0] < 9
    assert 14 < when.sel(event="structure")[1] < 16
    assert when.sel(event="structure").values[2:].tolist() == [20, 0]
    assert 0 <= when.sel(event="frequency")[0] <= 9
    assert outcome["grid_distance"][1, -1] < 1e-6
    assert outcome["perfect_distance"][1, -1] < 1e-6
    assert outcome["grid_lines"][1, -1] == 3
    assert outcome["dominant_frequency"][[0, 3], -1].values.tolist() == [2, 3]


def test_a_frequency_below_chance_has_not_formed(template):
    """The largest from the beginning, above chance from step 12 on, but for a moment
    before."""
    outcome = structure_measures(template)
    share = np.full((4, STEPS + 1), 0.2)
    share[:, 12:] = share[:, 5] = 0.9
    share[3, -1] = 0.2
    chance = outcome["chance"].sel(measure="dominant_fraction")
    assert ((chance > 0.3) & (chance < 0.8)).all()
    outcome["dominant_fraction"] = (("run", "step"), share)
    outcome["dominant_frequency"] = (("run", "step"), np.full(share.shape, 2))
    result = find_formation_times(outcome).sel(event="frequency")
    assert result["formed"].values.tolist() == [1, 1, 1, 0]
    assert_allclose(result["onset"] * STEPS, [12, 12, 12, 20])


def test_intervals_of_means_stay_within_limits(template):
    result = structure_measures(template).isel(run=[0, 1]).copy(deep=True)
    mean = functools.partial(mean_structure_measure, result, frame=0)
    result["circle_distance"][:, 0] = [0.05, 0.9]
    value, low, high = mean("circle_distance")
    assert value == pytest.approx(0.475)
    assert 0 <= low < 0.05 < 0.9 < high <= 1
    result["imperfections"][:, 0] = [0, 40]
    _, low, high = mean("imperfections")
    assert low == 0
    assert high > 200
    result["circle"][:, 0] = [0, 1]
    exact = stats.binomtest(1, 2).proportion_ci(method="exact")
    assert_allclose(mean("circle"), (0.5, exact.low, exact.high))
    result["circle_distance"][0] = np.nan
    assert mean("circle_distance").value == pytest.approx(0.9)


def test_diverged_runs_are_censored_at_their_last_frame(template):
    diverged = planted(template)
    diverged["last_step"] = diverged["last_step"].copy(data=[12, STEPS, STEPS, 0])
    result = find_formation_times(structure_measures(diverged))
    assert (result["formed"][:, [0, 3]] == 0).all()
    assert_allclose(result["onset"][:, 0] * STEPS, 12)
    assert_allclose(result["onset"][:, 3], 0)
    assert result["formed"].sel(event="structure")[1] == 1
    diverged["last_step"][:] = 3
    assert (find_formation_times(structure_measures(diverged))["formed"] == 0).all()


def still_trajectory(embedding: np.ndarray) -> xr.Dataset:
    """Two equal frames of embeddings (run, token, axis)."""
    runs, n = embedding.shape[:2]
    frames = np.stack([embedding, embedding], axis=1)
    return xr.Dataset(
        {
            "embedding": (("run", "step", "token", "axis"), frames),
            "last_step": ("run", np.full(runs, 1)),
        },
        {
            "step": [0, 1],
            "time": ("step", [0.0, 1.0]),
            "seed": ("run", np.arange(runs)),
        },
        {"modulus": n},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "dim", "rank", "runs"),
    [
        (11, 2, 2, 60),
        pytest.param(29, 32, 2, 150, marks=pytest.mark.slow),
        (29, 32, 8, 60),
    ],
)
def test_embeddings_without_structure_rarely_form_one(generator, n, dim, rank, runs):
    """Also those of few and unequal axes among many, which differ from normal noise."""
    unequal = np.diag(0.6 ** np.arange(rank))
    directions = generator.standard_normal((rank, dim))
    x = generator.standard_normal((runs, n, rank)) @ unequal @ directions
    formed = find_formation_times(structure_measures(still_trajectory(x)))["formed"]
    for event in formed["event"].values:
        count = int(formed.sel(event=event).sum())
        assert stats.binomtest(count, runs, 0.01, "greater").pvalue > 0.001, event


def test_chance_levels_are_those_of_renamed_tokens(generator):
    """Counted imperfections of renamed embeddings equal those of one search."""
    x = generator.standard_normal((2, 13, 3))
    measures = structure_measures(still_trajectory(x))
    stream = random_stream(0, "formation/renamings")
    renamings = [stream.permutation(13) for _ in range(formation_times.RENAMINGS)]
    for run in range(2):
        counts = count_imperfections(x[run][np.stack(renamings)])
        levels = measures.sel(measure="imperfections").isel(run=run)
        assert (levels["chance"], levels["expected"]) == (counts.min(), counts.mean())
    assert measures["chance"].sel(measure=["circle", "norm_ratio"]).isnull().all()
    assert_array_equal(measures["imperfections"].isel(step=0), count_imperfections(x))
    assert_allclose(measures["norm_ratio"].isel(step=0), norm_ratio(x))


def test_structure_measures_of_other_sizes_and_systems():
    def measures(settings, steps, runs=1):
        return structure_measures(simulate(settings, runs, steps=steps))

    network = measures(ModularSettings(n=5, hidden=4), 30, runs=2)
    assert {"circle_distance", "grid_distance"} <= set(network)
    large = measures(ParticleSettings(n=29, dim=3), 3, runs=2)
    assert "grid_distance" not in large
    assert "grid" not in find_formation_times(large)["event"]
    table = SparseSettings(
        vocab=5, table=8, length=3, sparsity=2, data=30, batch=10, hidden=4
    )
    assert measures(table, 9).sizes["frequency"] == 2


# -------------------------------------------------------------------------- the command


def test_numbers_that_are_not_added_have_no_imperfections(template):
    other = template.isel(step=slice(4)).assign_attrs(operation="other")
    result = structure_measures(other)
    assert "imperfections" not in result
    times = find_formation_times(result)
    assert list(times["event"].values) == [
        event for event in FORMATION_EVENTS if event != "imperfections"
    ]
    assert formation_rows([FormationResult("a", "a", result, times)], "step")


def test_a_single_frame_has_a_table_without_times(typed):
    whole = simulate(ParticleSettings(n=7, fa=2.0), runs=3, steps=200, seed=1)
    one = whole.isel(step=[-1]).assign_attrs(branched_at=200, branch_of="whole.nc")
    save_trajectory(one, "one.nc")
    code, printed, _ = typed("analysis.formation", "one.nc", "--csv", "one.csv")
    assert code == 0
    assert "forms, %" in printed
    assert "median time" not in printed
    assert "picture" not in printed
    result = xr.open_dataset("one-formation.nc")
    expected = find_formation_times(structure_measures(whole))
    assert_array_equal(result["formed"], expected["formed"])
    assert np.isnan(result["onset"]).all()
    table = pd.read_csv("one.csv")
    assert table["median"].isna().all()
    assert_array_equal(table["end"].dropna(), table["start"].dropna())


def test_two_sizes_of_which_one_has_no_grids(template, output_of):
    large = simulate(ParticleSettings(n=25), runs=3, steps=4)
    save_trajectory(planted(template), "a.nc")
    save_trajectory(large, "large.nc")
    output_of("analysis.formation large.nc a.nc --csv t.csv")
    table = pd.read_csv("t.csv")
    assert len(table) == 12
    p_values = table[table["run"] == "a"].set_index("what")["p_value"]
    assert p_values["imperfections"] >= 0
    assert np.isnan(p_values["structure"])  # which is another thing in each
    results = []
    for name, trajectory in (("a", planted(template)), ("large", large)):
        measures = structure_measures(trajectory)
        onsets = find_formation_times(measures)
        results.append(FormationResult(name, "particles", measures, onsets))
    drawn = plot_formation(results, 0)
    titles = [panel.get_title().replace("\n", " ") for panel in drawn.axes]
    assert "distance from the nearest grid" in titles
    texts = [text.get_text() for panel in drawn.axes for text in panel.texts]
    assert texts == ["not known for large"]
    _, labels = drawn.axes[4].get_legend_handles_labels()
    events = ["structure", "95%, a", "circle", "grid", "imperfections", "95%, large"]
    assert labels == events


def test_steps_of_different_systems_are_not_compared(template, output_of):
    save_trajectory(planted(template), "a.nc")
    settings, words = ModularSettings(n=N, hidden=4), {"runs": 3, "steps": 40}
    simulate(settings, out="m.nc", **words)
    simulate(settings, out="metrics.nc", record="metrics", **words)
    p_values = {}
    for clock in ("step", "normalised"):
        out = output_of(f"analysis.formation a.nc m.nc --clock {clock} --csv t.csv")
        p_values[clock] = pd.read_csv("t.csv")["p_value"]
        assert ("not comparable" in out) == (clock == "step")
        assert ("fractions of the trajectory lengths" in out) == (clock == "normalised")
    assert p_values["step"].isna().all()
    assert p_values["normalised"][7:].notna().any()
    error = output_of("analysis.formation a.nc metrics.nc", code=1)
    assert "metrics.nc: variable embedding: missing" in error


def test_the_command(template, output_of, tmp_path):
    save_trajectory(planted(template), "a.nc")
    save_trajectory(template, "b.nc")
    out = output_of("analysis.formation a.nc b.nc --csv t.csv --clock step")
    assert re.search(r"^a .*structure.*75\.0 \[19\.4, 99\.4\]", out, re.M)
    assert len(re.findall(r"^[ab]   ", out, re.M)) == 14
    assert "renamed, mean  1 in 100" in out
    table = pd.read_csv("t.csv")
    assert len(table) == 14
    assert table.loc[0, ["runs", "formed"]].tolist() == [4, 3]
    assert 7 < table["median"][0] < 9  # in steps
    chance = structure_measures(planted(template))["chance"]
    median = float(chance.sel(measure="circle_distance").median())
    assert table["random_1_in_100"][2] == pytest.approx(median)
    assert 0 <= table["p_value"][7] <= 1
    (result,) = tmp_path.glob("formation-*.nc")
    with xr.open_dataset(result) as outcome:
        assert outcome["power_fraction"].dims == ("run", "step", "frequency")
        assert outcome["other_onset"].dims == ("other_event", "other_run")
        for name in ("onset", "imperfections", "chance"):
            assert "long_name" in outcome[name].attrs
    assert result.with_suffix(".png").stat().st_size > 10_000
    output_of("analysis.formation a.nc --every 4 --run 3")
    assert (tmp_path / "a-formation.png").exists()
