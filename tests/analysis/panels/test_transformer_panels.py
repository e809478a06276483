"""Panels of the transformer: their arrays against the network, planted circles and
phases, all kinds of settings."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from analysis import progress_measures
from analysis.panels import build_scene, panel_names
from dynamics import TransformerSettings, simulate
from dynamics.networks.from_trajectory import network_of, weights

SETTINGS = TransformerSettings(
    n=7, dim=8, heads=3, hidden=12, weight_decay=1.0, equals_token=True
)
PLANES = ("frequency_1", "frequency_2", "frequency_3")
METRICS = ("loss", "accuracy", "gradient_norm", "update_norm")


def train(steps=20, record="all", **changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    return simulate(settings, runs=2, seed=3, steps=steps, every=1, record=record)


@pytest.fixture(scope="module")
def trajectory():
    return train()


def panel_of(scene, name):
    return next(panel for panel in scene.panels if panel.name == name)


def test_images_show_the_attention_and_the_correct_logits_of_the_network(trajectory):
    arrays = build_scene(trajectory, 1).arrays([0, 20])
    network, pairs = (
        network_of(trajectory),
        torch.cartesian_prod(torch.arange(7), torch.arange(7)),
    )
    assert arrays["attention"].shape == (2, 15, 15)
    assert np.isnan(arrays["attention"][:, 7]).all()
    for place, step in enumerate((0, 20)):
        w = weights(trajectory, run=1, step=step)
        attention = network.attention(w, pairs)[..., 0].unflatten(0, (7, 7)).numpy()
        image = arrays["attention"][place]
        for head, corner in enumerate(((0, 0), (0, 8), (8, 0))):
            tile = image[corner[0] : corner[0] + 7, corner[1] : corner[1] + 7]
            assert_allclose(tile, attention[..., head], atol=1e-6)
        assert np.isnan(image[8:, 8:]).all()
        logits = network.logits(w, pairs).unflatten(0, (7, 7)).numpy()
        for a, b in ((0, 0), (2, 6), (5, 3)):
            total = (a + b) % 7
            correct = arrays["correct_logits"][place, total, (a - b) % 7]
            assert_allclose(correct, logits[a, b, total], atol=1e-5)


def test_planes_show_circles_undistorted(generator):
    run, angle = train(), 2 * np.pi * np.outer(np.arange(7), [1, 3]) / 7
    circles = np.stack([2 * np.cos(angle), 2 * np.sin(angle)], axis=-1).reshape(7, 4)
    rotation = np.linalg.qr(generator.normal(size=(8, 8)))[0][:4]
    run["embedding"][:, :, :7] = circles @ rotation + 5
    scene = build_scene(run, 0, panels=PLANES)
    arrays = scene.arrays([20])
    titles = [panel.title for panel in scene.panels]
    for k in (1, 3):
        places = arrays[PLANES[titles.index(f"embedding at frequency {k}")]][0]
        assert_allclose(np.linalg.norm(places, axis=1), 2, rtol=1e-5)
        turned = np.diff(np.unwrap(np.arctan2(places[:, 1], places[:, 0])))
        assert_allclose(np.abs(turned), 2 * np.pi * k / 7, rtol=1e-4)


def test_losses_of_parts_are_the_progress_measures(trajectory):
    curves = panel_of(build_scene(trajectory, 1), "restricted_loss").layers[0].y
    measured = progress_measures.measure_progress(trajectory).isel(run=1)
    assert_allclose(curves[0], measured["restricted_loss"], rtol=1e-9)
    assert_allclose(curves[1], measured["excluded_loss"], rtol=1e-9)


def test_phases_are_bands_behind_the_curves():
    run, at = train(steps=60), np.arange(61)
    run["loss"][0, :, 0] = np.interp(at, [5, 10], [2, 0])
    run["accuracy"][0, :, 1] = np.interp(at, [30, 40], [0.1, 1])
    scene = build_scene(run, 0, panels=["loss", "restricted_loss", "update_norm"])
    assert panel_of(scene, "update_norm").spans == ()
    spans = panel_of(scene, "loss").spans
    assert spans == panel_of(scene, "restricted_loss").spans
    assert_allclose([span.begin for span in spans], [0, 9.5, 31], atol=0.5)
    assert_allclose([span.end for span in spans], [9.5, 31, 39], atol=0.5)
    assert panel_of(scene, "loss").note.endswith(
        "memorisation to 10, circuit formation to 31, cleanup to 39"
    )


@pytest.mark.parametrize(
    ("changes", "present", "absent"),
    [
        (
            {"attention_rate": 0},
            (*PLANES, "correct_logits", "fourier_norms"),
            ("attention",),
        ),
        (
            {"n": 6, "heads": 1},
            ("frequency_3", "attention", "restricted_loss"),
            ("frequency_4",),
        ),
        (
            {"task": "subtract", "own_vocabularies": True},
            ("attention", "correct_logits", "embedding"),
            PLANES,
        ),
        (
            {"task": "symmetric", "n": 3, "layers": 2},
            ("attention", "correct_logits"),
            PLANES,
        ),
        ({"train_share": 1.0}, (*PLANES, "restricted_loss"), ()),
        ({"record": "metrics"}, METRICS, (*PLANES, "attention", "correct_logits")),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_panels_of_other_settings(changes, present, absent):
    run = train(steps=2, **changes)
    names = panel_names(run)
    assert {*present, *METRICS} <= set(names)
    assert not set(absent) & set(names)
    scene = build_scene(run, 0)
    arrays = scene.arrays([0, 2])
    for panel in scene.panels:
        assert panel.x[0] < panel.x[1]
        assert all(
            len(arrays[layer.array]) == 2
            for layer in panel.layers
            if hasattr(layer, "array")
        )


def test_large_tables_are_thinned():
    run = train(steps=1, n=131)
    scene = build_scene(run, 0, panels=["correct_logits", "frequency_1"])
    assert scene.arrays([1])["correct_logits"].shape == (1, 120, 120)
    assert panel_of(scene, "correct_logits").note.endswith("120 of 131 elements")
