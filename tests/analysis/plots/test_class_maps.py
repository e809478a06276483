"""Class maps of trained networks: against a plain computation, marks of pair sums,
curves, edge cases."""

import warnings

import matplotlib.image
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from analysis.panels.colours import class_colours
from analysis.plots import class_maps, save_figure
from analysis.plots.class_maps import class_map_figure, final_state, predict_classes
from analysis.plots.curves import metric_quartiles
from analysis.structures.projection import principal_plane
from dynamics import (
    ModularSettings,
    ParticleSettings,
    TrajectoryError,
    all_pairs,
    simulate,
    training_pairs,
)
from tests.analysis.plots.rendering import faults, token_places


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Pictures are drawn fast."""
    monkeypatch.setattr("analysis.plots.class_maps.MAX_MAP_SIDE", 60)


def trained(runs=2, steps=60, record="all", **settings):
    return simulate(
        ModularSettings(**settings),
        runs=runs,
        steps=steps,
        seed=5,
        record=record,
    )


def plain_classes(weights, x):
    """argmax of W_o relu(W_h x + b_h) + b_o at points (..., axis)."""
    w = {name: weight.double().numpy() for name, weight in weights.items()}
    hidden = np.maximum(0, x @ w["hidden_weight"].T + w["hidden_bias"])
    return (hidden @ w["output_weight"].T + w["output_bias"]).argmax(axis=-1)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_class_map_equals_that_of_a_plain_computation(dim):
    run = final_state(trained(n=7, hidden=9, dim=dim, steps=200), 1)
    result = class_maps.class_map(run.network, run.weights, run.view, 14)
    u = class_maps.MAP_REACH * ((np.arange(14) + 0.5) / 7 - 1)
    points = (
        run.view.origin
        + run.view.scale * np.stack(np.meshgrid(u, u), axis=-1) @ run.view.basis
    )
    assert_array_equal(result, plain_classes(run.weights, points))
    assert len(np.unique(result)) > 2


def test_classes_do_not_depend_on_the_batch_size(monkeypatch):
    run = final_state(trained(n=7, hidden=9), 0)
    whole = predict_classes(run.network, run.weights, run.sums)
    monkeypatch.setattr("analysis.panels.recorded_weights.VALUES_PER_BATCH", 50)
    assert_array_equal(predict_classes(run.network, run.weights, run.sums), whole)
    assert_array_equal(whole, plain_classes(run.weights, run.sums))


def test_fractions_correct_equal_the_recorded_accuracy():
    trajectory = trained(n=11, steps=300)
    for place in range(2):
        run = final_state(trajectory, place)
        right = run.predicted == run.target
        shares = [right[run.trained].mean(), right[~run.trained].mean()]
        assert_allclose(shares, trajectory["accuracy"][place, -1], atol=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_view_contains_all_pair_sums(dim, generator):
    x = 1e30 * generator.standard_normal((9, dim)) ** 3
    sums = x[all_pairs(9)].sum(axis=1)
    view = class_maps.pair_sum_view(sums)
    places = view.places(sums)
    assert_allclose(np.abs(places).max(), 1)
    assert_allclose(view.places(view.points(places)), places, atol=1e-9)
    tokens = view._replace(origin=view.origin / 2).places(x) * view.scale / 1e30
    assert_allclose(np.abs(tokens), np.abs(principal_plane(x / 1e30)), atol=1e-9)


@pytest.mark.parametrize("seed_place", [0, 1])
def test_training_pairs_are_filled_and_validation_pairs_hollow(seed_place):
    trajectory = trained(n=9, steps=200)
    tokens, axes = class_map_figure(trajectory).axes[
        2 * seed_place : 2 * seed_place + 2
    ]
    filled, _, hollow, crosses = axes.collections
    run = final_state(trajectory, seed_place)
    embedding = trajectory["embedding"].values[seed_place, -1].astype(float)
    pairs = all_pairs(9)
    sums = embedding[pairs].sum(axis=1) / run.view.scale
    chosen = training_pairs(9, ModularSettings(n=9).train_pairs, [5 + seed_place])[0]
    colours = class_colours(9)[pairs.sum(axis=1) % 9]
    assert_allclose(token_places(tokens), 2 * embedding / run.view.scale)
    assert_allclose(filled.get_offsets(), sums[chosen])
    assert_allclose(filled.get_facecolors()[:, :3], colours[chosen])
    assert_allclose(hollow.get_offsets(), sums[~chosen])
    assert_allclose(hollow.get_edgecolors()[:, :3], colours[~chosen])
    assert_allclose(hollow.get_facecolors()[:, :3], 1)
    wrong = plain_classes(run.weights, sums * run.view.scale) != run.target
    assert_allclose(crosses.get_offsets(), sums[wrong])


def test_quartiles_leave_out_runs_that_have_diverged():
    trajectory = trained(n=5, runs=3)
    trajectory["last_step"][1] = 25
    result = metric_quartiles(trajectory, "loss")
    loss = trajectory["loss"].values.astype(float)  # run, step, split
    for place, level in enumerate((25, 50, 75)):
        assert_allclose(
            result[place, :, :3], np.percentile(loss[:, :3], level, axis=0).T
        )
        assert_allclose(
            result[place, :, 3:], np.percentile(loss[[0, 2], 3:], level, axis=0).T
        )


def test_regions_are_connected_and_of_one_class():
    regions, numbers = class_maps.class_regions(
        np.array([[0, 0, 1], [1, 1, 0], [2, 1, 0]])
    )
    assert list(numbers) == [1, 2, 3, 4, 5]
    assert_array_equal(regions, [[1, 1, 3], [4, 4, 2], [5, 4, 2]])


ODD = {
    "two tokens": ({"n": 2, "train_share": 1.0}, {}),
    "two tokens, three axes": ({"n": 2, "train_share": 1.0, "dim": 3}, {}),
    "two tokens, no step": ({"n": 2}, {"steps": 0}),
    "large": ({"n": 59}, {"runs": 1, "steps": 10}),
    "a line, one neuron": ({"hidden": 1, "dim": 1}, {}),
    "space": ({"dim": 3}, {}),
    "three runs": ({}, {"runs": 3}),
    "diverged": (
        {"lr": 16.0, "optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.0},
        {},
    ),
    "metrics": ({}, {"record": "metrics", "runs": 9}),
}


@pytest.mark.parametrize(("settings", "amount"), ODD.values(), ids=ODD)
def test_edge_cases_are_drawn_without_a_warning(settings, amount, tmp_path):
    trajectory = trained(**{"n": 9, **settings}, **amount)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(class_map_figure(trajectory, "title"), tmp_path / "a.png")
    height, width = matplotlib.image.imread("a.png").shape[:2]
    assert 700 < width < 1600
    assert 350 < height < 1800


def test_six_runs_are_shown_and_named_by_seed():
    figure = class_map_figure(trained(n=5, runs=7), "title")
    names = [axes.get_title().split("\n")[0] for axes in figure.axes]
    assert [name for name in names if name.startswith("seed")] == [
        f"seed {seed}" for seed in range(5, 11)
    ]
    assert names.count("class map, correct:") == 6
    notes = [text.get_text() for text in figure.texts]
    assert "6 of 7 runs; lines join tokens i and i + 1" in notes
    assert figure.axes[-1].get_title().startswith("7 runs")


def test_a_title_of_many_lines_has_room():
    trajectory = trained(n=5, runs=7, record="metrics")
    single = class_map_figure(trajectory, "title")
    several = class_map_figure(trajectory, "a title of many words " * 20)
    lines = several.get_suptitle().count("\n")
    assert lines >= 2
    line = several._suptitle.get_fontsize() / 72
    assert several.get_figheight() >= single.get_figheight() + lines * line
    assert faults(several) == []


def test_a_diverged_run_is_labelled_and_metrics_alone_give_curves_alone():
    trajectory = trained(**ODD["diverged"][0])
    last = int(trajectory["last_step"][0])
    assert last < 60
    assert (
        class_map_figure(trajectory)
        .axes[0]
        .get_title()
        .startswith(f"seed 5, diverged after step {last}\n")
    )
    figure = class_map_figure(trained(record="metrics"))
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss (nats)", "accuracy"]


def test_a_loss_of_zero_stands_at_the_lower_edge():
    trajectory = trained(n=5)
    trajectory["loss"][:, 3:] = 0
    loss = class_map_figure(trajectory).axes[-2]
    assert " ".join(loss.get_ylabel().split()) == "loss (nats; 0 at the lower edge)"
    assert (loss.lines[0].get_ydata()[3:] == loss.get_ylim()[0]).all()


def test_a_class_map_of_another_system_is_refused():
    with pytest.raises(TrajectoryError, match="found particles, expected modular"):
        class_map_figure(simulate(ParticleSettings(n=3), runs=1, steps=1))
