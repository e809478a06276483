"""Progress measures against closed forms, plain loops in float64, and finite
differences."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from analysis import plots
from analysis import progress_measures as measures
from analysis.output.tables import format_table, make_table
from analysis.progress_measures import adding_networks, along_training
from analysis.progress_measures.logit_components import key_component
from dynamics import (
    ModularSettings,
    SettingsError,
    TrajectoryError,
    TransformerSettings,
    simulate,
)
from dynamics.networks.from_trajectory import network_of, weights

N = 11


def clock(k=3, n=N):
    a, b, c = np.indices((n, n, n))
    return np.cos(2 * np.pi * k * (a + b - c) / n)


def pizza(k=3, n=N):
    a, b, _ = np.indices((n, n, n))
    return np.abs(np.cos(np.pi * k * (a - b) / n)) * clock(k, n)


def keys_of(*frequencies, n=N):
    return np.isin(np.arange(1, n // 2 + 1), frequencies)


@pytest.fixture(scope="module")
def trajectory():
    settings = ModularSettings(n=7, hidden=16, dim=3)
    return simulate(settings, runs=3, seed=5, steps=300, every=5)


# ------------------------------------------------------------------------- closed forms


def test_a_clock_has_all_its_variance_in_one_frequency():
    assert_allclose(
        measures.sum_frequency_fractions(5 * clock() + 3), keys_of(3), atol=1e-12
    )
    mixed = measures.sum_frequency_fractions(3 * clock(1) + clock(4))
    assert_allclose(mixed[[0, 3]], [0.9, 0.1], atol=1e-12)
    assert_array_equal(measures.key_frequencies(mixed, 0.1), keys_of(1, 4))
    assert_array_equal(measures.key_frequencies(mixed, 0.2), keys_of(1))
    assert not measures.key_frequencies(
        measures.sum_frequency_fractions(np.ones((N, N, N)))
    ).any()


def test_the_constant_over_classes_does_not_change_the_frequencies(generator):
    shift = generator.normal(size=(N, N, 1))
    fractions = measures.sum_frequency_fractions(pizza() + shift)
    assert_allclose(fractions, measures.sum_frequency_fractions(pizza()), atol=1e-12)
    even = measures.sum_frequency_fractions(clock(3, 6))
    assert_allclose(even, [0, 0, 1], atol=1e-12)


def test_the_distance_irrelevance_of_a_clock_is_near_one_and_of_a_pizza_near_zero(
    generator,
):
    n = 59
    noise = 1e-3 * generator.normal(size=(n, n, n))
    assert measures.distance_irrelevance(clock(n=n) + noise) > 0.97
    assert measures.distance_irrelevance(pizza(n=n) + noise) < 0.01
    assert np.isnan(measures.distance_irrelevance(clock()))  # all correct logits are 1
    assert np.isnan(measures.distance_irrelevance(generator.normal(size=(6, 6, 6))))


def test_gini_coefficients(generator):
    values = generator.exponential(size=9)
    differences = np.abs(values[:, None] - values).sum()
    assert_allclose(
        measures.gini_coefficient(values), differences / (2 * 9 * values.sum())
    )
    assert_allclose(
        measures.gini_coefficient(np.array([[2.0, 2.0], [0.0, 7.0]])), [0, 0.5]
    )
    assert np.isnan(measures.gini_coefficient(np.zeros(3)))


def test_the_circularity_of_circles_and_of_noise(generator):
    angle = 2 * np.pi * np.arange(N)[:, None] * np.array([2, 5]) / N
    circles = np.concatenate([np.cos(angle) * [2, 1], np.sin(angle) * [2, 1]], axis=1)
    turned = circles @ np.linalg.qr(generator.normal(size=(8, 8)))[0][:4] + 3
    assert_allclose(measures.component_circularity(np.stack([turned, -turned])), 1)
    assert measures.component_circularity(generator.normal(size=(59, 64))) < 0.4
    line = np.cos(angle[:, :1]) * np.ones(3)
    assert_allclose(measures.component_circularity(line), 1)
    assert np.isnan(measures.component_circularity(np.ones((5, 2))))


# -------------------------------------------------------------------------- plain loops


def plain_components(logits, keys):
    """The mean over pairs and the key frequencies of a + b, (sum, class) each, by sums
    over all pairs."""
    n = len(logits)
    kept = np.zeros((n, n))
    for k in range(1, n // 2 + 1):
        if keys[k - 1]:
            for wave in (np.cos, np.sin):
                basis = np.array(
                    [
                        [wave(2 * np.pi * k * (a + b) / n) for b in range(n)]
                        for a in range(n)
                    ]
                )
                if (basis**2).sum() > 1e-9:
                    basis /= np.sqrt((basis**2).sum())
                    for c in range(n):
                        amount = (basis * logits[:, :, c]).sum()
                        kept[:, c] += amount * np.array([basis[s, 0] for s in range(n)])
    return logits.mean(axis=(0, 1)), kept


def plain_loss(row, correct):
    top = max(row)
    return math.log(sum(math.exp(item - top) for item in row)) + top - row[correct]


@pytest.mark.parametrize("n", [7, 8])
def test_losses_and_irrelevance_are_those_of_plain_loops(n, generator):
    logits, keys = generator.normal(size=(2, n, n, n)), keys_of(1, n // 2, n=n)
    pairs = generator.integers(0, n, (9, 2))
    restricted, excluded = (
        measures.restricted_loss(logits, keys),
        measures.excluded_loss(logits, keys, pairs),
    )
    irrelevance = measures.distance_irrelevance(logits)
    for at, one in enumerate(logits):
        mean, kept = plain_components(one, keys)
        assert_allclose(
            key_component(measures.sum_component(one), keys), kept, atol=1e-12
        )
        losses = [
            plain_loss(mean + kept[(a + b) % n], (a + b) % n)
            for a in range(n)
            for b in range(n)
        ]
        assert_allclose(restricted[at], np.mean(losses), rtol=1e-12)
        losses = [
            plain_loss(one[a, b] - kept[(a + b) % n], (a + b) % n) for a, b in pairs
        ]
        assert_allclose(excluded[at], np.mean(losses), rtol=1e-12)
        table = np.full((n, n), np.nan)
        for a in range(n):
            for b in range(n):
                table[(a + b) % n, (a - b) % n] = one[a, b, (a + b) % n]
        if n % 2:
            expected = np.mean([np.std(table[:, d]) for d in range(n)]) / np.std(table)
            assert_allclose(irrelevance[at], expected, rtol=1e-12)


@pytest.mark.parametrize("n", [7, 8])
def test_fourier_norms_are_those_of_plain_sums(n, generator):
    table = generator.normal(size=(n, 3))
    for k, norm in enumerate(measures.fourier_norms(table), start=1):
        squares = 0.0
        for axis in range(3):
            for wave in (math.cos, math.sin):
                row = [wave(2 * math.pi * k * i / n) for i in range(n)]
                size = math.sqrt(sum(item**2 for item in row))
                squares += (
                    (
                        sum(x * y for x, y in zip(row, table[:, axis], strict=True))
                        / size
                    )
                    ** 2
                    if size > 1e-9
                    else 0
                )
        assert_allclose(norm, math.sqrt(squares))


# --------------------------------------------------------------------- phases and delay


def planted(train, other):
    """A trajectory of one run with these errors (step,) of its splits, and losses that
    are four times as large; the loss of the other pairs first doubles. Recorded every
    tenth step."""
    step = 10 * np.arange(len(train))
    errors = np.stack([train, other], axis=-1).astype(np.float64)[None]
    losses = (
        4
        * errors
        * np.stack([np.ones(len(train)), 1 + np.clip(step / 200, 0, 1)], axis=-1)
    )
    dims = ("run", "step", "split")
    data = {
        "accuracy": (dims, 1 - errors),
        "loss": (dims, losses),
        "last_step": ("run", [step[-1]]),
    }
    return xr.Dataset(
        data, {"step": step, "split": ["train", "test"], "seed": ("run", [0])}
    )


AT = np.arange(400)
MEMORISING = np.interp(AT, [0, 20], [0.9, 0])


@pytest.mark.parametrize("noise", [0, 0.01])
@pytest.mark.parametrize(("begin", "length"), [(60, 4), (200, 40), (100, 200)])
def test_phases_of_planted_curves(begin, length, noise, generator):
    level = np.where(
        AT < 15, 0.9, 0.6
    )  # some pairs are generalised while others are memorised
    other = level * np.interp(AT, [begin, begin + length], [1, 0])
    run = planted(
        MEMORISING,
        np.clip(other + noise * np.sqrt(other) * generator.normal(size=400), 0, 1),
    )
    phases = measures.grokking_phases(run).isel(run=0)
    formed, cleaned = 10 * begin + length, 10 * begin + 9 * length
    assert_allclose(phases["begin"], [0, 180, formed], atol=25)
    assert_allclose(phases["end"], [180, formed, cleaned], atol=25)


def test_delay_of_a_planted_run():
    run = planted(MEMORISING, np.interp(AT, [200, 240], [0.9, 0]))
    times = measures.grokking_times(run).isel(run=0)
    assert [float(times[name]) for name in ("memorised", "generalised", "delay")] == [
        200,
        2360,
        2160,
    ]
    assert times["observed"]


def test_moments_are_the_first_frames_with_an_accuracy():
    run = planted(MEMORISING, np.interp(AT, [200, 240], [0.9, 0]))
    assert measures.moment_frames(run)[0].values.tolist() == [
        20,
        218,
        236,
        399,
    ]  # errors: at most .5 in 218
    run["last_step"] = ("run", [1000])
    assert measures.moment_frames(run)[0].values.tolist() == [20, -1, -1, 100]


def test_runs_that_do_not_generalise_are_censored():
    for other in (np.full(400, 0.9), np.interp(AT, [200, 240], [0.9, 0.7])):
        run = planted(MEMORISING, other)
        times, phases = (
            measures.grokking_times(run).isel(run=0),
            measures.grokking_phases(run).isel(run=0),
        )
        assert float(times["delay"]) == 3990 - 200
        assert not times["observed"]
        assert np.isfinite(phases["end"]).values.tolist() == [True, False, False]
    never = planted(np.full(400, 0.5), np.full(400, 0.9))
    assert np.isnan(measures.grokking_times(never)["delay"])
    assert not measures.grokking_times(never)["observed"]
    assert np.isnan(measures.grokking_phases(never)["end"]).all()


# ------------------------------------------------------------------- along a trajectory


def test_measures_along_a_trajectory_do_not_depend_on_blocks(trajectory, monkeypatch):
    result = measures.measure_progress(trajectory, frames=7)
    monkeypatch.setattr(along_training, "_BLOCK_BYTES", 1)
    xr.testing.assert_allclose(measures.measure_progress(trajectory, frames=7), result)
    assert result.sizes["step"] == 7
    assert result["step"].values[[0, -1]].tolist() == [0, 300]
    for name in (
        "restricted_loss",
        "excluded_loss",
        "squared_weights",
        "embedding_norm",
    ):
        assert np.isfinite(result[name]).all()


TRANSFORMER = TransformerSettings(n=7, dim=8, heads=2, hidden=12, weight_decay=1.0)
NETWORKS = [
    ModularSettings(n=7, hidden=6, dim=8),
    dataclasses.replace(TRANSFORMER, equals_token=True, causal=True),
    dataclasses.replace(TRANSFORMER, own_vocabularies=True, layers=2),
    dataclasses.replace(TRANSFORMER, attention_rate=0, ordered=False),
]


@pytest.mark.parametrize("settings", NETWORKS)
def test_measures_of_networks_and_their_training_pairs(settings):
    run = simulate(settings, runs=2, steps=8, every=1)
    result = measures.measure_progress(run, frames=3)
    outcome = {
        name: weight.double() for name, weight in weights(run, run=1, step=8).items()
    }
    network = network_of(run)
    logits, nothing = measures.all_logits(network, outcome), np.zeros(3, bool)
    assert_allclose(logits[6, 2], network.logits(outcome, torch.tensor([[6, 2]]))[0])
    pairs = adding_networks.PackageNetwork(run).training_pairs(run=1)
    loss = float(run["loss"].sel(split="train", step=8)[1])
    assert_allclose(measures.excluded_loss(logits, nothing, pairs), loss, rtol=1e-5)
    last = result.isel(run=1, step=-1)
    keys = measures.key_frequencies(measures.sum_frequency_fractions(logits))
    assert_array_equal(last["key_frequency"], keys)
    assert_allclose(last["restricted_loss"], measures.restricted_loss(logits, keys))
    squares = sum(float((value**2).sum()) for value in outcome.values())
    assert_allclose(last["squared_weights"], squares)
    assert_allclose(
        last["embedding_norm"], measures.fourier_norms(outcome["embedding"][:7].numpy())
    )
    symmetricity = float(last["gradient_symmetricity"])
    triples = measures.random_triples(7, seed=1)
    assert_allclose(
        symmetricity, plain_symmetricity(network, outcome, triples), rtol=1e-9
    )


def plain_symmetricity(network, result, triples):
    """The mean cosine by one gradient for each triple; where a = b, another row is
    given the embedding of b."""
    own = getattr(network.settings, "own_vocabularies", False)
    cosines = []
    for a, b, c in triples.tolist():
        if a == b and not own:
            others = [t for t in range(network.settings.n) if t != a]
            table = result["embedding"].clone()
            table[others[0]] = table[b]
            b_row = others[0]
        else:
            table, b_row = result["embedding"].clone(), b
        table.requires_grad_()
        network.logits({**result, "embedding": table}, torch.tensor([[a, b_row]]))[
            0, c
        ].backward()
        first, second = table.grad[a], table.grad[b_row + own * network.settings.n]
        cosines.append(
            float(torch.nn.functional.cosine_similarity(first, second, dim=0))
        )
    return np.mean(cosines)


def test_triples_without_gradients_are_left_out_of_the_symmetricity():
    run = simulate(ModularSettings(n=5, hidden=8), runs=1, steps=4)
    values = weights(run, run=0, step=4)
    values["output_weight"][0] = 0
    network = network_of(run)
    half = measures.gradient_symmetricity(
        network, values, np.array([[0, 1, 0], [0, 1, 2]])
    )
    none = measures.gradient_symmetricity(network, values, np.array([[0, 1, 0]]))
    assert half == pytest.approx(1)
    assert np.isnan(none)


def test_frames_after_a_divergence_are_nan():
    settings = ModularSettings(
        n=7, hidden=6, optimizer="sgd", lr=1e-3, weight_decay=2500
    )
    result = measures.measure_progress(
        simulate(settings, runs=2, steps=40, every=1), frames=41
    )
    known = np.isfinite(result["squared_weights"].values)
    assert not known[:, -1].any()
    assert known[:, 0].all()
    assert len(measures.progress_rows(result)) == 2


def test_the_table_and_the_figure_show_every_run(trajectory):
    result = measures.measure_progress(trajectory, frames=11)
    rows = measures.progress_rows(result)
    assert [row["seed"] for row in rows] == [5, 6, 7]
    assert "key frequencies" in format_table(
        make_table(rows), measures.progress_columns(result)
    )
    known = int(np.isfinite(result["memorised"]).sum())
    assert measures.describe_progress(result).startswith(f"{known} of 3 runs memorise")
    figure = plots.plot_progress(trajectory, result)
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    assert len(lines) >= 9


def test_too_few_frames_and_too_much_memory_are_refused(trajectory, monkeypatch):
    with pytest.raises(SettingsError, match="frames"):
        measures.measure_progress(trajectory, frames=1)
    monkeypatch.setattr(adding_networks, "_MOST_BYTES", 2**10)
    with pytest.raises(TrajectoryError, match="GiB"):
        measures.measure_progress(trajectory)
