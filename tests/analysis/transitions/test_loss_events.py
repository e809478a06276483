"""Events of trajectories: labels, masks, phases, layers, escapes, and the command."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from analysis.statistics.run_success import success_mask
from analysis.transitions import (
    analyse_events,
    detect_events,
    escape_comparison,
    layer_motion_at_drops,
    layer_speeds,
)
from analysis.transitions.event_analysis import describe_reported_runs
from analysis.transitions.loss_events import (
    event_table,
    first_two_drops,
    plateau_escape_times,
    trajectory_scalar,
)
from dynamics import TrajectoryError, simulate, valid_frames
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
)
from tests.analysis.transitions.planted_events import planted

SMALL = SparseSettings(length=6, sparsity=2, data=64, batch=16, hidden=8, lr=0.02)


def steps_down(*places, frames=400, last=None):
    """A loss of a run that halves at each place, NaN from frame `last` on."""
    values = np.ones(frames)
    for place in places:
        values[place:] /= 2
    values[frames if last is None else last :] = np.nan
    return values


@pytest.fixture
def losses():
    rows = [
        steps_down(100, 200),
        steps_down(150),
        steps_down(),
        steps_down(100, 200, last=150),
    ]
    return xr.DataArray(rows, {"step": 10 * np.arange(400)}, ("run", "step"), "loss")


def test_phases_of_planted_drops(losses):
    drops = first_two_drops(event_table(losses), 4)
    assert drops["drops"].values.tolist() == [
        2,
        1,
        0,
        1,
    ]  # the second one comes after the last run diverged
    assert drops["middle"].values[0] == pytest.approx([995, 1995], abs=10)
    assert np.isnan(drops["middle"].values[[1, 2, 3], [1, 0, 1]]).all()
    assert drops["between"].values[0] == pytest.approx(1000, abs=30)
    assert np.isnan(drops["between"].values[1:]).all()


def test_events_are_those_of_each_run(generator):
    for run, one in enumerate([planted(generator, 2, 2) for _ in range(3)]):
        values = xr.DataArray(
            one.series[None],
            {"step": np.arange(len(one.series))},
            ("run", "step"),
            "loss",
        )
        result = event_table(values)
        assert result["middle"].values.tolist() == [
            event.middle for event in detect_events(one.series)
        ], run


def test_escapes_are_censored_where_they_are_not_seen(losses):
    result = plateau_escape_times(losses)
    assert result["escaped"].values.tolist() == [True, True, False, True]
    assert result["escape"].values[:3].tolist() == [
        pytest.approx(995, abs=10),
        pytest.approx(1495, abs=10),
        3990,
    ]
    assert (
        plateau_escape_times(losses.where(losses["step"] < 500))[
            "escape"
        ].values.tolist()
        == [490] * 4
    )


@pytest.fixture(scope="module")
def trained():
    return simulate(SMALL, runs=4, steps=200, every=2)


def test_layer_speeds(trained):
    result = layer_speeds(trained)
    weights = trained["receptor"].values.astype(float)
    moved = np.sqrt(((weights[1, 5] - weights[1, 4]) ** 2).sum()) / 2
    assert result.sel(layer="receptor").values[1, 5] == pytest.approx(moved)
    assert np.isnan(result.values[:, 0]).all()
    metrics = simulate(SMALL, runs=2, steps=20, every=1, record="metrics")
    assert layer_speeds(metrics).values[:, 1:] == pytest.approx(
        metrics["update_norm"].values[:, 1:]
    )


def test_layers_at_a_planted_drop(trained):
    """A layer that moves three times as fast in the drop, and whose gradient peaks ten
    steps after its middle."""
    frames = trained.sizes["step"]
    moved = np.zeros((4, frames, *trained["receptor"].shape[2:]), np.float32)
    moved[..., 0, 0] = np.cumsum(
        np.where((np.arange(frames) > 40) & (np.arange(frames) <= 60), 3.0, 1.0)
    )
    norms = trained["gradient_norm"] * 0 + 1
    norms[{"step": 55}] = 2.0
    changed = trained.assign(
        receptor=(trained["receptor"].dims, moved), gradient_norm=norms
    )
    flat = xr.DataArray(
        np.ones((4, frames)), {"step": trained["step"]}, ("run", "step"), "loss"
    )
    drop = first_two_drops(event_table(flat), 4)
    for name, place in (("begin", 80), ("middle", 100), ("end", 120)):
        drop[name].values[:, 0] = place
    result = layer_motion_at_drops(changed, drop).sel(layer="receptor", phase="first")
    assert result["speed"].values == pytest.approx([3] * 4)
    assert [result[name].values.tolist() for name in ("peak", "lag")] == [
        [110] * 4,
        [10] * 4,
    ]
    assert np.isnan(
        layer_motion_at_drops(changed, drop).sel(phase="second")["lag"]
    ).all()
    still = changed.assign(receptor=changed["receptor"] * 0)
    assert np.isnan(
        layer_motion_at_drops(still, drop).sel(layer="receptor")["speed"]
    ).all()


def test_scalars(trained):
    assert trajectory_scalar(trained, "loss").equals(
        trained["loss"].sel(split="train", drop=True)
    )
    total = np.sqrt((trained["gradient_norm"].values.astype(float) ** 2).sum(-1))
    assert trajectory_scalar(trained, "gradient").values == pytest.approx(total)
    assert np.isnan(trajectory_scalar(trained, "speed").values[:, 0]).all()
    with pytest.raises(SettingsError, match="split"):
        trajectory_scalar(trained, "loss", "validation")
    with pytest.raises(SettingsError, match="of"):
        trajectory_scalar(trained, "temperature")
    particles = simulate(ParticleSettings(n=5), runs=2, steps=10)
    with pytest.raises(TrajectoryError, match="loss"):
        trajectory_scalar(particles, "loss")
    assert trajectory_scalar(particles, "force").values == pytest.approx(
        particles["gradient_norm"].values[..., 0]
    )


def test_frames_after_divergence_are_no_plateau(typed):
    wild = dataclasses.replace(SMALL, lr=1e6, optimizer="sgd")
    trajectory = simulate(wild, runs=4, steps=100, every=1, out="d.nc")
    diverged, losses = (
        trajectory["last_step"].values < 100,
        trajectory_scalar(trajectory, "loss"),
    )
    assert diverged.any()
    assert (np.isfinite(losses) == valid_frames(trajectory)).all()
    assert (plateau_escape_times(losses)["escape"] <= trajectory["last_step"]).all()
    assert not success_mask(trajectory)[diverged].any()
    assert f"{diverged.sum()} diverged" in typed("analysis.events", "d.nc")[1]


def test_the_command(output_of):
    simulate(SMALL, runs=3, steps=80, every=4, out="a.nc")
    simulate(ParticleSettings(n=7), runs=3, steps=30, out="p.nc")
    out = output_of("analysis.events a.nc a.nc --csv t.csv")
    assert all(
        said in out for said in ("left the first level of the loss", "log-rank p")
    )
    with xr.open_dataset("a-events.nc") as result:
        assert result.attrs["result_of"] == "analysis.events"
        assert result.attrs["trajectory"] == "a.nc"
    assert len(Path("t.csv").read_text().splitlines()) == 4
    for scalar_of in ("force", "speed"):
        out = output_of("analysis.events p.nc --of", scalar_of)
    assert "steps between" in out
    assert "(rise by 100% or more)" in out
    assert "only" not in out
    simulate(ParticleSettings(n=7), steps=10, out="few.nc")
    assert (
        "only 11 frames: events and escapes are uncertain with fewer than 20"
        in output_of("analysis.events few.nc")
    )


@pytest.mark.parametrize(
    ("successful", "name"),
    [
        ([True, False, True], "2 of 3 runs, accuracy above .98; 1 left out"),
        ([False, False], "all 2 runs"),
    ],
)
def test_a_report_says_which_runs_it_is_of(successful, name):
    assert (
        describe_reported_runs(xr.Dataset({"successful": ("run", successful)})) == name
    )


def test_trajectories_are_compared_in_their_own_units(trained):
    """Epochs of four steps beside epochs of one."""
    first = analyse_events(trained)
    assert all("long_name" in variable.attrs for variable in first.data_vars.values())
    other = analyse_events(
        simulate(ModularSettings(n=5, hidden=8), runs=3, steps=200, every=2)
    )
    columns = ["runs", "escaped", "median", "observed_until"]
    alone, beside = (
        escape_comparison([other], ["b"]),
        escape_comparison([first, other], ["a", "b"]),
    )
    assert beside[columns].iloc[1].tolist() == alone[columns].iloc[0].tolist()
    assert alone["observed_until"][0] == other["escape"].max()
