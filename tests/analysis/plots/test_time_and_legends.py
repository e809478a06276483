"""Axes of time and legends of figures: epochs where a system counts them, and names of
what is drawn only."""

import numpy as np
import pytest

from analysis import Curvature, Events, WeightSpectra, plots
from analysis.plots.curves import in_units_of_time, time_label
from dynamics import ParticleSettings, Selection, SparseSettings, simulate

BATCHES = SparseSettings(length=5, sparsity=2, data=64, batch=16, hidden=8, lr=0.02)
"""An epoch has four steps."""


@pytest.fixture(scope="module")
def in_batches():
    return simulate(BATCHES, runs=3, steps=160, progress=False)


@pytest.fixture(scope="module")
def particles():
    return simulate(ParticleSettings(n=5), runs=2, steps=20, progress=False)


@pytest.mark.parametrize("analysis", [Curvature, WeightSpectra])
def test_figures_count_epochs_where_the_system_does(analysis, in_batches):
    measured = analysis(selection=Selection(frames=3))
    result = measured.measure(in_batches)
    figure = measured.figure(result, in_batches)
    for panel in figure.axes:
        assert panel.get_xlabel() == "epoch"
        assert 40 <= panel.get_xlim()[1] < 50  # of 160 steps
        for line in panel.lines:
            assert np.max(line.get_xdata()) <= 40


def test_figures_of_particles_count_steps(particles):
    measured = Curvature(selection=Selection(frames=3))
    figure = measured.figure(measured.measure(particles), particles)
    labels = {panel.get_xlabel() for panel in figure.axes}
    assert {label.split(" (")[0] for label in labels} == {"step", "growth rate"}


def test_times_are_divided_once_and_steps_are_labelled_as_steps(in_batches):
    result = WeightSpectra(selection=Selection(frames=3)).measure(in_batches)
    before = result.copy(deep=True)
    timed = in_units_of_time(in_units_of_time(result))
    assert timed["step"].values.tolist() == [0, 20, 40]
    assert (time_label(timed), time_label(result)) == ("epoch", "step")
    assert result.identical(before)


def test_the_legend_of_events_names_those_that_occur(in_batches):
    result = Events().measure(in_batches)
    figure = Events().figure(result, in_batches)
    words = {"rise": "lasting rise"}
    kinds = result["event_kind"].values.astype(str).tolist()
    initial = result["event_initial"].values.astype(bool).tolist()
    names = [
        f"initial {kind}, not counted" if first else f"middle of a {kind}"
        for kind, first in zip(kinds, initial, strict=True)
    ]
    names += [words.get(kind, kind) for kind in kinds]
    (legend,) = figure.legends
    named = {text.get_text() for text in legend.get_texts()}
    assert named <= set(names)
    without = result.isel(event=[kind != "drop" for kind in kinds])
    drawn = plots.plot_events(
        Events()._scalar(result, in_batches), [without], ["a"], "epoch"
    )
    named = {text.get_text() for text in drawn.legends[0].get_texts()}
    assert "drop" not in named
