"""The arrays of all panels: against plain computations, for all settings and systems,
within fixed limits."""

import dataclasses
import functools
import json
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from analysis.forces.audited_runs import embedding_gradient
from analysis.panels import (
    Arrows,
    Curves,
    Image,
    Map,
    Points,
    build_scene,
    panel_names,
    run_scene,
)
from analysis.panels.common_panels import (
    RecordedRun,
    build_default_panels,
    curve_panel,
    geometric_moving_mean,
)
from analysis.panels.particle_panels import (
    cell_sums,
    nearest_pair_classes,
)
from analysis.panels.probe_sequences import make_probe_sequences
from analysis.panels.sparse_arrays import CLASS_SHADES, PROBABILITY_LEVELS
from analysis.panels.sparse_panels import SparsePanels
from analysis.plots import PanelGrid
from analysis.structures import count_imperfections, fit_projection, imperfect_pair_sums
from analysis.transitions.loss_events import (
    event_table,
    first_two_drops,
    trajectory_scalar,
)
from dynamics import TrajectoryError, all_pairs, simulate, training_pairs
from dynamics.forces import Force
from dynamics.networks.from_trajectory import network_of, weights
from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
)

SIDE = 12


@functools.cache
def run(settings, runs, steps, every, record):
    return simulate(
        settings,
        runs=runs,
        steps=steps,
        every=every,
        seed=3,
        record=record,
    )


def sparse(steps=24, every=8, runs=1, record="all", **settings):
    return run(
        SparseSettings(**{"data": 64, "hidden": 7, **settings}),
        runs,
        steps,
        every,
        record,
    ).copy(deep=True)


def modular(steps=40, every=None, runs=1, record="all", **settings):
    return run(
        ModularSettings(**{"n": 7, "hidden": 6, **settings}), runs, steps, every, record
    ).copy(deep=True)


def particles(steps=12, runs=1, record="all", **settings):
    return run(
        ParticleSettings(**{"n": 7, **settings}), runs, steps, None, record
    ).copy(deep=True)


def scene_of(trajectory, run=0, **options):
    """A scene with small images."""
    return build_scene(trajectory, run, **{"side": SIDE} | options)


def layer(scene, panel, kind):
    """The first layer of a kind of a panel."""
    return next(item for item in one(scene, panel).layers if isinstance(item, kind))


def one(scene, name):
    return next(panel for panel in scene.panels if panel.name == name)


def consistent(scene):
    """Every layer's array is there at some frames, of the shape, type and size that
    `analysis.panels.scene` promises."""
    frames = np.unique([0, len(scene.steps) // 2, len(scene.steps) - 1])
    arrays = scene.arrays(frames)
    for panel in scene.panels:
        assert panel.x[0] < panel.x[1]
        assert panel.y[0] < panel.y[1]
        assert np.isfinite([*panel.x, *panel.y]).all()
        assert panel.y[0] > 0 or not panel.log
        for item in panel.layers:
            if isinstance(item, Curves):
                assert (
                    item.y.shape
                    == (len(item.colours), len(scene.steps))
                    == (len(item.names), len(item.x))
                )
                continue
            values, finite = arrays[item.array], isinstance(item, Arrows | Image)
            assert np.isfinite(values).all() or not finite
            if isinstance(item, Map):
                assert (values.dtype.kind, len(values)) == ("u", len(frames))
                assert values.max() < len(item.palette) == len(item.names)
            elif isinstance(item, Image):
                assert values.shape == (len(frames), len(item.rows), len(item.columns))
                assert len(item.row_colours) == len(item.rows)
            else:
                count = len(item.names)
                assert values.shape == (len(frames), count, 4 if finite else 2)
                assert item.colours.shape == (count, 3)
                assert len(getattr(item, "shapes", ())) in (0, count)
                assert np.shape(getattr(item, "filled", None)) in ((), (count,))
    return arrays


def doubles(w):
    """Weights as arrays of float64."""
    return {name: weight.double().numpy() for name, weight in w.items()}


def pixel_points(box, plane, through):
    """The points (row, column, axis) that the middles of a map's pixels stand for."""
    x, y = (
        low + (high - low) * (np.arange(SIDE) + 0.5) / SIDE
        for low, high in (box.x, box.y)
    )
    return (
        np.stack(np.meshgrid(x, y), axis=-1) @ plane.basis
        + through
        - through @ plane.basis.T @ plane.basis
    )


# ----------------------------------------------------------------------------------- VC


def network_arrays(network, w, tokens):
    """All that VC's panels show of one frame, by the methods of the network, in
    float64."""
    table, xi = network.table(w).flatten(0, 1), network.sequence_embedding(w, tokens)
    zeta = network.transform(w, xi)
    result = {
        "sums": (w["position_embedding"][:, None] + w["embedding"]).flatten(0, 1),
        "normalised_sums": table,
        "values": table @ w["value"].mT,
        "attention": network.attention(w, tokens),
        "sequence_embeddings": xi,
        "normalised_sequences": network.normalise(xi),
        "transforms": zeta,
        "output_probabilities": torch.softmax(zeta @ w["embedding"].mT, -1),
    }
    return {name: values.numpy() for name, values in result.items()}


VARIANTS = {
    "defaults": {},
    "unit, no biases, relu": {
        "norm": "unit",
        "receptor_biases": False,
        "output_bias": False,
        "activation": "relu",
        "vocab": 3,
        "hidden": 1,
    },
    "smooth": {
        "norm": "rms-smooth",
        "receptor_biases": False,
        "vocab": 4,
        "sparsity": 2,
        "length": 3,
    },
    "smooth unit, larger table": {
        "norm": "unit-smooth",
        "output_bias": False,
        "table": 5,
    },
    "other positions": {"positions": (1, 6, 3), "sparsity": 3, "length": 8},
    "one position": {"sparsity": 1, "length": 1, "vocab": 3},
    "a line": {"dim": 1},
    "three axes": {"dim": 3, "vocab": 3, "activation": "relu"},
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_panels_of_vc_show_the_arrays_of_the_network(variant):
    trajectory = sparse(runs=2, **variant)
    network = network_of(trajectory)
    tokens = torch.from_numpy(make_probe_sequences(network.settings).tokens)
    scene = scene_of(trajectory, 1)
    arrays = consistent(scene)
    assert scene.steps.tolist() == [0, 8, 16, 24]
    built = SparsePanels(RecordedRun(trajectory, 1, None, SIDE))
    for place, frame in enumerate((0, 2, 3)):
        w = {
            name: weight.double()
            for name, weight in weights(trajectory, 1, 8 * frame).items()
        }
        expected = network_arrays(network, w, tokens)
        for name, values in expected.items():
            result = arrays[name][place]
            if name not in ("attention", "output_probabilities"):
                axes = min(network.settings.dim, 2)
                values, result = (
                    (values @ built.plane(name).basis.T)[:, :axes],
                    result[:, :axes],
                )
            assert_allclose(
                result, values, atol=2e-5 * max(1.0, np.abs(values).max()), err_msg=name
            )
        for name, upon in (
            ("transform_map", "sequence_embeddings"),
            ("output_map", "transforms"),
        ):
            points = pixel_points(
                built.limits(upon), built.plane(upon), expected[upon].mean(axis=0)
            )
            zeta = (
                torch.from_numpy(points)
                if name == "output_map"
                else network.transform(w, torch.from_numpy(points))
            )
            check_output_map(
                arrays[name][place], torch.softmax(zeta @ w["embedding"].mT, -1).numpy()
            )


def check_output_map(result, p):
    """Numbers of classes and levels of their probabilities; a pixel near a level may
    have either."""
    highest = p.max(axis=-1)
    numbers = p.argmax(axis=-1) * len(CLASS_SHADES) + np.sum(
        [highest >= level for level in PROBABILITY_LEVELS], axis=0
    )
    levels = (*PROBABILITY_LEVELS, np.sort(p)[..., -2])
    near = np.min([np.abs(highest - level) for level in levels], axis=0) < 1e-4
    assert near.mean() < 0.1
    assert_array_equal(result[~near], numbers[~near])


def test_the_query_arrow_fits_the_panel():
    trajectory = sparse()
    trajectory["query"][:, 2] = 50.0
    scene = scene_of(trajectory, panels=["normalised_sums"])
    arrow = scene.arrays([0, 2])["query"][:, 0]
    scale = 1.25 * math.sqrt(2) / math.hypot(50, 50)
    assert_array_equal(arrow[:, :2], 0)
    assert_allclose(
        arrow[:, 2:], scale * trajectory["query"].values[0, [0, 2]], rtol=1e-5
    )
    assert f"arrow: query; query at {scale:.2g} of its length; " in scene.panels[0].note
    assert (
        "of its length"
        not in scene_of(sparse(), panels=["normalised_sums"]).panels[0].note
    )


def test_unit_boundaries_are_where_units_switch():
    trajectory = sparse()
    w = doubles(weights(trajectory, 0, 24))
    result = (
        scene_of(trajectory, panels=["normalised_sequences"])
        .arrays([3])["boundaries"][0]
        .reshape(2, 7, 2)
    )
    there = np.abs(w["receptor_bias"]) < math.sqrt(2) * np.linalg.norm(
        w["receptor"], axis=1
    )
    assert (
        there.tolist() == np.isfinite(result).all(axis=(0, 2)).tolist() != [False] * 7
    )
    on_circle = result / np.linalg.norm(result, axis=-1, keepdims=True) * math.sqrt(2)
    activations = (on_circle * w["receptor"]).sum(-1) + w["receptor_bias"]
    assert_allclose(activations[:, there], 0, atol=1e-5)


def test_shapes_colours_and_fills_of_points():
    scene = scene_of(sparse(positions=(1, 6, 3), sparsity=3, length=8, vocab=3))
    shapes = ["circle" if t in (1, 3, 6) else "square" for t in range(8)]
    assert list(layer(scene, "position_embeddings", Points).shapes) == shapes
    sums = layer(scene, "sums", Points)
    assert sums.names[4] == "token 1 at 1"
    assert sums.shapes[3:6] == ("circle",) * 3
    assert sums.filled[3:6].tolist() == [False, True, True]
    assert_array_equal(sums.colours[3], sums.colours[5])
    xi = layer(scene, "sequence_embeddings", Points)
    result = make_probe_sequences(SparseSettings(sparsity=3, length=8, vocab=3))
    assert xi.shapes == tuple(
        ("square", "circle", "triangle")[c] for c in result.classes
    )
    assert len(np.unique(xi.colours, axis=0)) == len(result.multiset)  # one a prefix
    receptors, assemblers = (
        layer(scene, "receptors", Points),
        layer(scene, "assemblers", Points),
    )
    assert_array_equal(receptors.colours, assemblers.colours)
    assert (
        layer(scene, "transform_map", Map).names[5] == "class 1, probability below 0.5"
    )


def test_only_requested_panels_are_computed(monkeypatch):
    scene = scene_of(sparse(), panels=["token_embeddings", "loss"])
    monkeypatch.setattr("dynamics.networks.clustering_head.ClusteringHead.table", None)
    assert list(scene.arrays([0, 1])) == ["token_embeddings"]
    assert [panel.name for panel in scene.panels] == ["token_embeddings", "loss"]


@pytest.mark.parametrize(
    ("make", "module", "batch"),
    [(sparse, "recorded_weights", 1000), (modular, "modular_panels", 40)],
)
def test_arrays_do_not_depend_on_the_batch_size(make, module, batch, monkeypatch):
    scene = scene_of(make(dim=3))
    together = scene.arrays(np.arange(4))
    monkeypatch.setattr(f"analysis.panels.{module}.VALUES_PER_BATCH", batch)
    for frame in range(4):
        for name, values in scene.arrays([frame]).items():
            assert_allclose(values[0], together[name][frame], atol=1e-5)


def test_large_tables_are_thinned():
    scene = scene_of(sparse(vocab=200, steps=2, every=1))
    consistent(scene)
    assert (
        one(scene, "sums").note
        == "colour: position; hollow marks: token 0; 100 of 200 tokens"
    )
    assert len(layer(scene, "sums", Points).names) == 1200
    assert scene.arrays([0], ["output_map"])["output_map"].dtype == np.uint16


# -------------------------------------------------------------------- planes and limits


@pytest.mark.parametrize("dim", [2, 3])
def test_axes_can_be_selected(dim):
    trajectory = sparse(dim=dim)
    scene = scene_of(trajectory, axes=(1, 0))
    consistent(scene)
    expected = trajectory["embedding"].values[0][..., [1, 0]]
    assert_allclose(scene.arrays(range(4))["token_embeddings"], expected, atol=1e-6)
    last = trajectory["embedding"].values[0, -1]
    share = last.var(axis=0)[[0, 1]].sum() / last.var(axis=0).sum()
    assert one(scene, "token_embeddings").note == f"axes 1 and 0 of {dim}: {share:.0%}"


@pytest.mark.parametrize("make", [sparse, modular, particles])
def test_invalid_axes_are_refused(make):
    for dim, axes in (
        (3, (0, 0)),
        (3, (0, 3)),
        (3, (-1, 0)),
        (3, (0, 1, 2)),
        (1, (0, 1)),
    ):
        with pytest.raises(SettingsError, match="axes"):
            scene_of(make(dim=dim), 0, axes=axes)


def test_points_of_one_axis_are_spread_vertically():
    plane = fit_projection(np.array([[3.0], [1.0], [2.0]]), ranks=np.array([0, 2, 1]))
    assert_allclose(
        plane.places(np.array([[[3.0], [1.0], [2.0]]])),
        [[[3, -0.85], [1, 0.85], [2, 0]]],
    )
    panel = one(scene_of(sparse(dim=1)), "sequence_embeddings")
    assert (panel.y, panel.equal) == ((-1, 1), False)
    assert panel.note.startswith("one axis, horizontal; ")


# --------------------------------------------------------------------- CA and particles


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_particles_and_their_forces(dim):
    trajectory = particles(dim=dim, fa=2.0)
    scene = scene_of(trajectory)
    arrays = consistent(scene)
    x = trajectory["embedding"].values[0]
    plane = fit_projection(x[-1])
    assert_allclose(arrays["embedding"], plane.places(x[[0, 6, 12]]), atol=1e-6)
    system = ParticleSystem(ParticleSettings(n=7, dim=dim, fa=2.0))
    shown = x[[0, 6, 12]]
    before = system.force(shown)[0]
    after = system.force(system.normalise(shown + 0.003 * before))[0]
    force = (before + after) / 2 @ plane.basis.T
    panel = one(scene, "embedding")
    across = panel.x[1] - panel.x[0]
    tails, heads = np.split(arrays["force"], 2, axis=-1)
    assert_allclose(tails, arrays["embedding"], atol=1e-6)
    longest = np.linalg.norm(force, axis=-1).max(axis=1)[:, None, None]
    assert_allclose(heads - tails, 0.2 * across * force / longest, atol=1e-4)


LAWS = {
    "defaults": {},
    "constants": {"fa": 0.5, "ga": 2.0, "gr": 0.0},
    "by count": {"repulsion_balance": "count", "alignment_balance": "magnitude"},
    "none": {"repulsion_balance": "none", "alignment_balance": "none"},
    "once": {"diagonal": "once"},
    "no diagonal": {"diagonal": "none"},
    "two": {"n": 2},
    "mesh": {"fa": 2.0, "method": "mesh"},
    "others": {"repulsion": "1/r**3", "alignment": "c > 0.5"},
    "mesh by itself": {"n": 130},
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_fields_add_up_to_the_force(law, generator):
    settings = ParticleSettings(**{"n": 9, **law})
    system = ParticleSystem(settings)
    x = generator.standard_normal((5, settings.n, 2))
    parts = system.fields(x)
    assert parts.shape == (len(settings.forces), *x.shape)
    assert_allclose(parts.sum(axis=0), system.force(x)[0], atol=1e-9)
    assert_allclose(system.fields(x.reshape(5, 1, -1, 2)), parts[:, :, None])


OWN_LAW = (
    Force("like_attraction", "like", "difference", "-exp(-r)", "ga"),
    Force(
        "force", "unlike", "difference", "1/r**3", 2.0, "magnitude", "like_attraction"
    ),
    Force("turn", "all", "other", "c - 0.5", "fa"),
    Force("crosses", "all", "difference", "interp(r, [1, 2, 3], [0, -1, 0])", -0.1),
)


def test_every_force_of_a_law_has_a_panel():
    trajectory = particles(law=OWN_LAW)
    scene = scene_of(trajectory)
    arrays = consistent(scene)
    names = ["like_attraction", "force_field", "turn", "crosses_field"]
    shown = [panel.name for panel in scene.panels]
    assert shown[shown.index("force") + 1 :][: len(names)] == names
    drawn = {name: arrays[name][..., 2:] - arrays[name][..., :2] for name in names}
    x = trajectory["embedding"].values[0, [0, 6, 12]]
    fields = ParticleSystem(ParticleSettings(n=7, law=OWN_LAW)).fields(x)
    longest = np.linalg.norm(fields, axis=-1).max(axis=(0, 2))[:, None, None]
    panel = one(scene, "embedding")
    for name, field in zip(names, fields, strict=True):
        expected = 0.2 * (panel.x[1] - panel.x[0]) * field / longest
        assert_allclose(drawn[name], expected, atol=1e-4)
    texts = {panel.name: (panel.explanation, panel.note) for panel in scene.panels}
    assert texts["like_attraction"][0] == (
        "The part of the force by which equal pair sums attract."
    )
    assert texts["turn"][0] == (
        "The part of the force that turns all pair sums into different directions or"
        " one direction."
    )
    assert texts["crosses_field"][0] == (
        "The part of the force by which all pair sums repel."
    )
    assert texts["crosses_field"][1].startswith("strength table of 3 points; same")
    assert scene.title.startswith(
        "particles, N = 7, f_a = 1, law like_attraction + force + 2 more"
    )


def test_a_run_under_a_function_that_this_process_lacks_has_no_panels_of_forces():
    law = (Force("a", "all", "difference", "far@0123456789ab(r)"),)
    trajectory = particles()
    config = json.loads(trajectory.attrs["config_json"])
    config["law"] = [dataclasses.asdict(force) for force in law]
    trajectory.attrs["config_json"] = json.dumps(config)
    names = [panel.name for panel in scene_of(trajectory).panels]
    assert names[:3] == ["embedding", "pair_sums", "norm_ratio"]


def test_the_four_fields_share_a_scale_and_the_map_is_the_nearest_pair_sum():
    trajectory = particles()
    scene = scene_of(trajectory)
    arrays = scene.arrays([0, 12])
    names = (
        "like_attraction",
        "unlike_repulsion",
        "like_alignment",
        "unlike_alignment",
    )
    lengths = np.array(
        [
            np.linalg.norm(arrays[name][..., 2:] - arrays[name][..., :2], axis=-1)
            for name in names
        ]
    )
    panel = one(scene, "embedding")
    assert_allclose(
        lengths.max(axis=(0, 2)), 0.2 * (panel.x[1] - panel.x[0]), rtol=1e-4
    )
    assert (lengths.max(axis=2) < 0.199 * (panel.x[1] - panel.x[0])).any()
    panel = one(scene, "pair_sums")
    pairs, x = all_pairs(7), trajectory["embedding"].values[0, 12]
    sums = x[pairs[:, 0]] + x[pairs[:, 1]]
    assert_allclose(arrays["pair_sums"][1], sums, atol=1e-6)
    distances = np.linalg.norm(
        pixel_points(panel, fit_projection(x), x[0])[..., None, :] - sums, axis=-1
    )
    assert_array_equal(
        arrays["classes"][1], (pairs.sum(axis=1) % 7)[distances.argmin(axis=-1)]
    )
    there = np.isfinite(arrays["crosses"][1, :, 0])
    assert_array_equal(there, imperfect_pair_sums(x))
    assert_array_equal(arrays["crosses"][1, there], arrays["pair_sums"][1, there])


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 9])
def test_classes_of_a_plane_are_those_of_the_nearest_pair_sums(dim, generator):
    sums, centre = generator.standard_normal((200, dim)), np.full(dim, 0.3)
    basis = np.linalg.qr(generator.standard_normal((dim, dim)))[0][:2]
    places = generator.standard_normal((50, len(basis)))
    points = centre + places @ basis
    squares = ((points[:, None] - sums) ** 2).sum(axis=-1)
    result = nearest_pair_classes(sums, np.arange(200), points, basis)
    assert_array_equal(result, squares.argmin(axis=1))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_networks_class_maps_marks_and_gradients(dim):
    trajectory = modular(dim=dim, runs=2)
    scene = scene_of(trajectory, 1)
    arrays = consistent(scene)
    network, pairs = network_of(trajectory), all_pairs(7)
    trained = training_pairs(7, network.settings.train_pairs, np.array([4]))[0]
    assert_array_equal(layer(scene, "pair_sums", Points).filled, trained)
    w = weights(trajectory, 1, 40)
    predicted = network.logits(w, torch.from_numpy(pairs)).argmax(-1).numpy()
    there = np.isfinite(arrays["crosses"][2, :, 0])
    assert_array_equal(there, predicted != pairs.sum(axis=1) % 7)
    accuracy = trajectory["accuracy"].values[1, -1]
    assert_allclose(
        [(~there)[trained].mean(), (~there)[~trained].mean()], accuracy, atol=1e-6
    )
    check_class_map(scene, doubles(w), arrays["classes"][2])
    frames = {
        name: weight[[0, 2, 4]] for name, weight in weights(trajectory, 1).items()
    }
    gradient = embedding_gradient(network, frames, trained)
    expected = -gradient @ fit_projection(trajectory["embedding"].values[1, -1]).basis.T
    for result, reference in zip(
        arrays["descent"][..., 2:] - arrays["descent"][..., :2], expected, strict=True
    ):
        scale = np.abs(result).max() / np.abs(reference).max()
        assert_allclose(result, scale * reference, atol=1e-4)
        assert scale > 0


def check_class_map(scene, w, result):
    """argmax of W_o relu(W_h x + b_h) + b_o at the pixels."""
    points = pixel_points(
        one(scene, "pair_sums"),
        fit_projection(w["embedding"]),
        2 * w["embedding"].mean(axis=0),
    )
    scores = (
        np.maximum(0, points @ w["hidden_weight"].T + w["hidden_bias"])
        @ w["output_weight"].T
        + w["output_bias"]
    )
    second, first = np.moveaxis(np.sort(scores)[..., -2:], -1, 0)
    assert ((result == scores.argmax(axis=-1)) | (first - second < 1e-3)).all()


def test_the_force_beside_the_gradient_uses_training_pairs():
    trajectory = modular()
    scene = scene_of(trajectory)
    x = trajectory["embedding"].values[0, -1:].astype(float)
    trained = all_pairs(7)[
        training_pairs(7, network_of(trajectory).settings.train_pairs, np.array([3]))[0]
    ]
    force = ParticleSystem(ParticleSettings(n=7), pairs=trained).force(x)[0][0]
    drawn = scene.arrays([4])["law"][0]
    vectors = drawn[:, 2:] - drawn[:, :2]
    assert_allclose(
        vectors, force * np.abs(vectors).max() / np.abs(force).max(), atol=1e-4
    )
    cosine = layer(scene, "cosine", Curves).y
    assert cosine.shape == (1, 5)
    assert (np.abs(cosine) <= 1 + 1e-9).all()


@pytest.mark.parametrize(("n", "dim"), [(140, 2), (141, 1), (141, 2), (150, 3)])
def test_images_show_many_pair_sums(n, dim):
    trajectory = particles(n=n, dim=dim, steps=1, step_size=1e-5)
    panels = ["embedding", "pair_sums", "force"]
    scene = scene_of(
        trajectory,
        0,
        side=SIDE,
        panels=panels + ["imperfect_pair_sums"] * (n > 140),
        follow=True,
    )
    arrays = scene.arrays([0, 1])
    assert arrays["force"].shape == (2, 120, 4)
    assert layer(scene, "embedding", Points).joined
    if n == 140:  # fewer than 10,000 pair sums
        assert len(layer(scene, "pair_sums", Points).names) == 2000
        return
    count = 10.0 ** arrays["density"] - 1
    assert_allclose(count.sum(axis=(1, 2)), n * (n + 1) / 2, rtol=1e-5)
    imperfect = np.nansum(count * arrays["imperfect_fraction"], axis=(1, 2))
    assert_allclose(
        imperfect, count_imperfections(trajectory["embedding"].values[0]), rtol=1e-5
    )
    assert np.array_equal(np.isnan(arrays["imperfect_fraction"]), count == 0)
    assert layer(scene, "pair_sums", Image).high == arrays["density"][1].max()


def test_cells_are_counted_from_the_top_left():
    places = np.array([[-0.9, 0.9], [-0.9, 0.8], [0.1, -0.9], [5.0, 0.0]], np.float32)
    box = np.array([[-1.0, 1.0], [-1.0, 1.0]])
    assert cell_sums(places, box, 2).tolist() == [[2, 0], [0, 1]]
    assert cell_sums(places, box, 2, np.array([True, False, True, True])).tolist() == [
        [1, 0],
        [0, 1],
    ]


@pytest.mark.parametrize("n", [2, 3, 70])
def test_few_and_many_tokens(n):
    scene = scene_of(particles(n=n, steps=2))
    consistent(scene)
    assert layer(scene, "embedding", Points).labelled == (n <= 40)
    scene = scene_of(modular(n=n, steps=10, train_share=1.0))
    consistent(scene)
    note = one(scene, "pair_sums").note
    assert ("2000 of 2485 pairs" in note, "filled" in note) == (
        n == 70,
        False,
    )  # all are trained on


# ----------------------------------------------------- curves, events, odd trajectories


def test_curves_show_the_recorded_values():
    trajectory = sparse(steps=32, every=2)
    scene = scene_of(trajectory)
    loss = layer(scene, "loss", Curves)
    assert_allclose(loss.y, trajectory["loss"].values[0].T, rtol=1e-6)
    assert_allclose(scene.clock, trajectory["epoch"].values)
    assert (loss.names, scene.unit) == (tuple(trajectory["split"].values), "epoch")
    update = layer(scene, "update_norm", Curves).y
    assert np.isnan(update[:, 0]).all()
    assert_allclose(update[:, 1:], trajectory["update_norm"].values[0, 1:].T, rtol=1e-6)


def test_a_loss_of_zero_is_drawn_at_the_lower_edge_with_a_note():
    trajectory = sparse()
    trajectory["loss"][:, 2] = 0
    scene = scene_of(trajectory, panels=["loss"])
    curve, panel = layer(scene, "loss", Curves), scene.panels[0]
    assert (curve.y[:, 2] == panel.y[0]).all()
    assert panel.note == "0 at the lower edge"


def test_geometric_moving_mean(generator):
    values = np.exp(generator.standard_normal((3, 400)))
    values[[0, 1], [0, 7]] = np.nan, 0
    logarithms = np.log(np.where(values > 0, values, np.nan))
    expected = [
        [np.nanmean(row[max(0, frame - 2) : frame + 3]) for frame in range(400)]
        for row in logarithms
    ]
    expected[0][0] = np.nan
    assert_allclose(geometric_moving_mean(values, 5), np.exp(expected), rtol=1e-6)


def test_structure_over_time():
    trajectory = particles(steps=30, n=9)
    scene = scene_of(trajectory)
    count = layer(scene, "imperfections", Curves).y[0]
    assert_array_equal(count, count_imperfections(trajectory["embedding"].values[0]))
    norms = np.linalg.norm(trajectory["embedding"].values[0], axis=-1)
    assert_allclose(
        layer(scene, "norm_ratio", Curves).y[0], norms.max(axis=1) / norms.min(axis=1)
    )
    assert (layer(scene, "norm_ratio", Curves).y[1] == 1.2).all()
    assert scene.facts["structure"].startswith(("circle", "grid", "neither"))


def test_imperfections_are_counted_in_some_of_many_frames(monkeypatch):
    monkeypatch.setattr("analysis.panels.common_panels._MAX_COUNTED_PAIRS", 2000)
    trajectory = particles(steps=30)
    panel = one(scene_of(trajectory), "imperfections")
    assert panel.note == "of 28 pairs, counted in 13 frames"
    assert panel.layers[0].y[0, -1] == count_imperfections(
        trajectory["embedding"].values[0, -1]
    )


@functools.cache
def phased():
    """Metrics of three runs whose losses are known: two drops and a spike, one drop,
    and an initial drop before one."""
    trajectory, frame = (
        modular(steps=300, every=1, runs=3, record="metrics").load(),
        np.arange(301),
    )
    first, second, third = (1 / (1 + np.exp((frame - at) / 3)) for at in (0, 100, 200))
    losses = [
        np.where(frame == 150, 9, 1 + second + third),
        1 + second,
        1 + 3 * first + third,
    ]
    trajectory["loss"][:] = np.stack(losses)[..., None]
    return trajectory


def test_marks_and_facts_are_the_events_of_the_run():
    trajectory, names = phased(), ("drops", "spikes")
    every = event_table(trajectory_scalar(trajectory, "loss"))
    assert every["initial"].values.any()  # which are no drops of two phases
    counts = np.stack(
        [first_two_drops(every, 3)[name].values for name in names], axis=1
    )
    assert counts.tolist() == [[2, 1], [1, 0], [1, 0]]
    for run in range(3):
        scene = scene_of(trajectory, run, panels=[])
        result = every.isel(
            event=np.flatnonzero(
                (every["of_run"].values == run) & ~every["initial"].values
            )
        )
        rows = [mark for mark in scene.marks if mark.kind != "escape"]
        assert sorted(mark.kind for mark in rows) == sorted(result["kind"].values)
        assert sorted(mark.middle for mark in rows) == sorted(
            np.round(result["middle"].values).astype(int)
        )
        assert scene.marks == tuple(
            sorted(scene.marks, key=lambda mark: (mark.begin, mark.kind))
        )
        assert {mark.kind for mark in rows} >= {"drop", "plateau"}
        assert [int(scene.event_counts().get(name, 0)) for name in names] == counts[
            run
        ].tolist()


def test_events_are_detected_only_if_a_panel_shows_them(monkeypatch):
    runs = []
    monkeypatch.setattr(run_scene, "run_events", lambda recorded: runs.append(1) or ())
    for name, detected in (("sums", 0), ("loss", 1)):
        scene = scene_of(sparse(), panels=[name])
        grid = PanelGrid([scene], width=240)
        grid.show([0], [scene.arrays([0])])
        assert len(runs) == detected


def test_facts_of_a_scene():
    scene = scene_of(sparse(runs=2), 1, panels=[])
    assert (
        scene.title
        == "sparse modular addition, p = 2, d = 2, data 64, hidden 7, seed 4"
    )
    assert scene.facts.items() >= {"seed": "4", "run": "1", "status": "done"}.items()
    percent = scene.facts["accuracy"].partition("% test")[0].split()[-1]
    assert 0 <= float(percent) <= 100
    scene = scene_of(sparse(length=6, lr=0.01, norm="unit", batch=8), 0, panels=[])
    assert scene.title.startswith(
        "sparse modular addition, p = 2, d = 2, lr = 0.01, L = 6, data 64, batch 8, …,"
        " seed"
    )
    assert (
        scene_of(particles(n=9, dim=3), 0, panels=[]).title
        == "particles, N = 9, f_a = 1, D = 3, seed 3"
    )


@pytest.mark.parametrize("make", [particles, modular])
@pytest.mark.parametrize("n", [2, 9])
def test_arrows_end_within_their_panels(make, n):
    scene = scene_of(make(steps=60, n=n))
    arrays = scene.arrays(np.arange(len(scene.steps)))
    for panel in scene.panels:
        low, high = np.transpose([panel.x, panel.y])
        for heads in (
            arrays[item.array][..., 2:]
            for item in panel.layers
            if isinstance(item, Arrows)
        ):
            assert ((low <= heads) & (heads <= high)).all(), panel.name


WILD = {"lr": 16.0, "optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.0}
SWELLING = {"lr": 1e-3, "optimizer": "sgd", "weight_decay": 2500.0}
"""Weights grow by half in every step, for 23 steps."""


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (modular, {"every": 1, **SWELLING}),
        (modular, WILD),
        (sparse, {"every": 1, **WILD, "lr": 1e4}),
    ],
    ids=["swelling", "wild", "VC"],
)
def test_a_diverged_run_ends_where_it_diverged(make, settings):
    trajectory = make(**settings)
    last = int(trajectory["last_step"][0])
    scene = scene_of(trajectory)
    consistent(scene)
    assert scene.steps[-1] <= last < int(trajectory["step"][-1])
    assert scene.facts["status"].startswith("diverged after epoch")
    assert scene.title.endswith(", " + scene.facts["status"])
    first = scene.arrays([0])
    for panel in (panel for panel in scene.panels if panel.equal):
        for item in (
            item
            for item in panel.layers
            if isinstance(item, Points) and len(item.names) > 1
        ):
            across = np.ptp(first[item.array][0], axis=0).max() / (
                panel.x[1] - panel.x[0]
            )
            assert across > 0.002 or np.isnan(across)


def test_a_growing_run_leaves_the_panel_with_a_note():
    trajectory = modular(every=1, **SWELLING)
    scene = scene_of(trajectory)
    assert len(scene.steps) > 20
    size = np.abs(trajectory["embedding"].values[0, : len(scene.steps)]).max(
        axis=(1, 2)
    )
    assert size[-1] > 1e3 * size[0]
    panel = one(scene, "embedding")
    assert 0.2 * size[0] < panel.x[1] - panel.x[0] < 1e3 * size[0]
    places = scene.arrays(np.arange(len(scene.steps)), ["embedding"])["embedding"]
    outside = (
        (places < [panel.x[0], panel.y[0]]) | (places > [panel.x[1], panel.y[1]])
    ).any(axis=(1, 2))
    assert f"some outside in {outside.mean():.0%} of frames" in panel.note


def test_the_note_says_where_curves_leave_the_panel():
    recorded = RecordedRun(modular(every=1, **SWELLING), 0)
    values = np.concatenate([np.full(len(recorded.steps) - 2, 1.0), [1e-20, 1e20]])[
        None
    ]
    panel = curve_panel(recorded, "x", "x", values, ("x",), log=True)
    assert "off scale above and below" in panel.note
    panel = curve_panel(
        recorded,
        "x",
        "x",
        values[:, ::-1].clip(1, None),
        ("x",),
        log=True,
    )
    assert panel.note == "off scale above"


def test_the_circularity_with_a_token_at_the_origin_is_finite():
    trajectory = particles(steps=30)
    trajectory["embedding"][0, :20, 0] = 0
    panel = one(scene_of(trajectory, panels=["norm_ratio"]), "norm_ratio")
    assert np.isfinite([*panel.y, *panel.layers[0].y.ravel()]).all()
    assert panel.note == "off scale above"


def test_the_note_says_how_often_the_query_is_outside():
    scene = scene_of(sparse(every=1, **{**WILD, "lr": 1e4}), panels=["normalised_sums"])
    (panel,) = scene.panels
    heads = scene.arrays(np.arange(len(scene.steps)))["query"][:, 0, 2:]
    outside = (np.abs(heads) > panel.x[1]).any(axis=1)
    assert outside.any()
    assert f"query outside in {outside.mean():.1%} of frames" in panel.note


def test_the_note_says_if_limits_are_of_some_frames(monkeypatch):
    for word, expected in (
        ("limits of", [False] * 3),
        ("limits of 5 of 11 frames", [True, True, False]),
    ):
        scene = scene_of(sparse(steps=80), panels=["sums", "attention", "loss"])
        assert [word in panel.note for panel in scene.panels] == expected
        monkeypatch.setattr("analysis.panels.common_panels.MAX_FRAMES", 5)


def test_the_note_explains_the_shapes_of_sequences():
    assert (
        one(scene_of(sparse()), "sequence_embeddings").note
        == "class \u25a0 0, \u25cf 1; colour: prefix"
    )
    many = scene_of(sparse(vocab=7), panels=["sequence_embeddings"])
    assert many.panels[0].note == "shapes: class modulo 5; colour: prefix"


@pytest.mark.parametrize("make", [sparse, modular, particles])
def test_metrics_alone_give_curves_alone_and_no_step_gives_all_panels(make):
    metrics = make(record="metrics")
    names = ("gradient_norm", "update_norm")
    assert panel_names(metrics) == (
        names if make is particles else ("loss", "accuracy", *names)
    )
    curves, start = scene_of(metrics), scene_of(make(steps=0))
    consistent(curves)
    consistent(start)
    assert ("structure" in curves.facts, start.marks) == (False, ())


def test_names_of_panels_and_invalid_arguments():
    trajectory = sparse()
    names = panel_names(trajectory)
    assert names[:4] == (
        "token_embeddings",
        "position_embeddings",
        "sums",
        "normalised_sums",
    )
    assert names[12:16] == ("output_map", "output_probabilities", "loss", "accuracy")
    assert [panel.name for panel in scene_of(trajectory).panels] == list(names)
    assert [
        panel.name for panel in scene_of(trajectory, panels=("loss", "sums")).panels
    ] == ["loss", "sums"]
    with pytest.raises(
        SettingsError,
        match="panels: found towers, allowed is one of token_embeddings, position",
    ):
        scene_of(trajectory, panels=["towers"])
    for words in ({"run": -1}, {"run": 1}, {"run": True}, {"run": 0, "side": 1}):
        with pytest.raises(SettingsError, match=[*words][-1]):
            scene_of(trajectory, **words)
    trajectory["last_step"][0] = -1
    with pytest.raises(TrajectoryError, match="before the first frame"):
        scene_of(trajectory)


def test_default_panels_of_a_system_without_its_own():
    trajectory = particles(runs=2).assign(
        energy=(("run", "step"), np.arange(26.0).reshape(2, 13))
    )
    result = build_default_panels(RecordedRun(trajectory, 1))
    names = [
        "embedding",
        "norm_ratio",
        "imperfections",
        "gradient_norm",
        "update_norm",
        "energy",
    ]
    assert list(result.panels) == names
    (points,) = result.panels["embedding"]().layers
    assert_allclose(
        points.values(np.array([0, 12])),
        trajectory["embedding"].values[1, [0, 12]],
        atol=1e-6,
    )
    (energy,) = result.panels["energy"]().layers
    assert_array_equal(energy.y, trajectory["energy"].values[1:])
    assert result.panels["energy"]().x_label == "step"
