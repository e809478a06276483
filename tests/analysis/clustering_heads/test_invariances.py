"""Invariances of sequence embeddings against plain loops and closed forms, and the sums
that they encode."""

import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from analysis.clustering_heads import invariances
from analysis.clustering_heads.encoded_sums import encoded_sum, measure_encoded_sums
from dynamics import (
    SettingsError,
    SparseSettings,
    TrajectoryError,
    simulate,
)
from dynamics.networks.clustering_head import ClusteringHead

SMALL = SparseSettings(vocab=3, length=4, sparsity=3, hidden=5, data=60, batch=10)


def random_weights(network, generator, lead=()):
    shapes = network.shapes.items()
    return {
        name: torch.from_numpy(generator.standard_normal((*lead, *shape)))
        for name, shape in shapes
    }


def linear(coefficients, at):
    """Embeddings that are a sum of c_t x_t along one direction of the plane: (sequence,
    axis)."""
    return (at.tokens @ np.asarray(coefficients, dtype=float))[:, None] * np.array(
        [0.6, -0.8]
    ) + 3.0


# ---------------------------------------------------------------------------- sequences


def test_the_probe_contains_every_change_of_every_sequence():
    at = invariances.invariance_probe(SMALL)
    assert at.exhaustive
    assert len(at.tokens) == len(at.base) == 3**4
    for base in (0, 17, 80):
        own = at.tokens[at.base[base]]
        for position, token in itertools.product(range(4), range(3)):
            expected = np.where(np.arange(4) == position, token, own)
            assert_array_equal(at.tokens[at.changed[base, position, token]], expected)
        for pair, (first, second) in enumerate(at.pairs):
            expected = own.copy()
            expected[[first, second]] = own[[second, first]]
            assert_array_equal(at.tokens[at.swapped[base, pair]], expected)
    same = np.sort(at.tokens[at.base][:, :3], axis=1)
    for one, other in itertools.combinations(range(0, 81, 7), 2):
        assert (at.classes[one] == at.classes[other]) == (
            same[one] == same[other]
        ).all()


def test_a_sample_is_probed_where_there_are_too_many_sequences():
    at = invariances.invariance_probe(SparseSettings(vocab=10))
    assert not at.exhaustive
    assert len(at.tokens) <= 1 << 18
    assert at.changed.shape == (len(at.base), 12, 10)


# --------------------------------------------------------------------------- embeddings


@pytest.mark.parametrize(
    ("settings", "lead", "scale"),
    [
        (SparseSettings(vocab=3, length=4, sparsity=2, table=5), (2, 3), 1),
        (SMALL, (), 30),
        (
            SparseSettings(vocab=3, length=4, sparsity=2, table=5, norm="unit-smooth"),
            (2, 3),
            1,
        ),
    ],
)
def test_batched_sequence_embeddings_are_those_of_the_network(
    generator, settings, lead, scale
):
    network, tokens = (
        ClusteringHead(settings),
        invariances.invariance_probe(settings).tokens,
    )
    result = random_weights(network, generator, lead)
    result["query"] *= scale
    xi = invariances.batched_sequence_embeddings(network, result, tokens)[0]
    expected = network.sequence_embedding(result, torch.from_numpy(tokens))
    torch.testing.assert_close(xi, expected, rtol=1e-10, atol=1e-12)
    result["query"] *= 1e4
    with pytest.raises(ValueError, match="scores more than 600 apart"):
        invariances.batched_sequence_embeddings(network, result, tokens)


# ------------------------------------------------------------------------------- shares


@pytest.mark.parametrize(
    "settings",
    [SMALL, SparseSettings(length=5, sparsity=3, positions=(4, 0, 2), hidden=4)],
)
def test_all_measures_are_those_of_plain_loops(generator, settings):
    s, network = settings, ClusteringHead(settings)
    result = random_weights(network, generator)
    got = invariances.network_invariances(network, result)
    every = list(itertools.product(range(s.vocab), repeat=s.length))
    asked = torch.tensor(every)
    xi = dict(
        zip(every, network.sequence_embedding(result, asked).numpy(), strict=True)
    )
    attention = dict(zip(every, network.attention(result, asked).numpy(), strict=True))
    told = dict(
        zip(every, network.logits(result, asked).argmax(-1).tolist(), strict=True)
    )
    mean = sum(xi.values()) / len(xi)
    variance = sum(((x - mean) ** 2).sum() for x in xi.values()) / len(xi)

    def with_token(x, t, v):
        return (*x[:t], v, *x[t + 1 :])

    for t in range(s.length):
        inside, flips = 0.0, []
        for x in every:
            others = [xi[with_token(x, t, v)] for v in range(s.vocab)]
            centre = sum(others) / s.vocab
            inside += (
                sum(((o - centre) ** 2).sum() for o in others) / s.vocab / len(every)
            )
            flips += [
                told[with_token(x, t, v)] != told[x]
                for v in range(s.vocab)
                if v != x[t]
            ]
        assert_allclose(got["value_share"][t], inside / variance, rtol=1e-9)
        assert_allclose(got["value_flips"][t], np.mean(flips), rtol=1e-12)
        assert_allclose(
            got["attention"][t], np.mean([attention[x][t] for x in every]), rtol=1e-9
        )
        for v in range(s.vocab):
            given = np.mean([attention[x][t] for x in every if x[t] == v])
            assert_allclose(got["token_attention"][t, v], given, rtol=1e-9)
    for pair, (i, j) in enumerate(itertools.combinations(range(s.sparsity), 2)):
        first, second = s.counting[i], s.counting[j]
        square, flips = 0.0, []
        for x in every:
            y = list(x)
            y[first], y[second] = x[second], x[first]
            square += ((xi[x] - xi[tuple(y)]) ** 2).sum() / len(every)
            flips.append(told[x] != told[tuple(y)])
        assert_allclose(got["order_share"][i, j], square / 4 / variance, rtol=1e-9)
        assert got["order_share"][j, i] == got["order_share"][i, j]
        assert_allclose(got["order_flips"][pair], np.mean(flips), rtol=1e-12)
    groups: dict = {}
    for x in every:
        groups.setdefault(tuple(sorted(x[t] for t in s.counting)), []).append(xi[x])
    between = sum(
        len(g) * ((np.mean(g, axis=0) - mean) ** 2).sum() for g in groups.values()
    ) / len(every)
    assert_allclose(got["class_share"], between / variance, rtol=1e-9)
    right = np.mean([told[x] == sum(x[t] for t in s.counting) % s.vocab for x in every])
    assert_allclose(got["accuracy"], right)


def test_measures_of_a_sample_are_near_those_of_all_sequences(generator):
    network = ClusteringHead(
        SparseSettings(length=13, sparsity=4)
    )  # twice as many sequences as are listed
    result, at = (
        random_weights(network, generator),
        invariances.invariance_probe(network.settings),
    )
    assert not at.exhaustive
    got = invariances.network_invariances(network, result)
    every = torch.tensor(list(itertools.product(range(2), repeat=13)))
    x = network.sequence_embedding(result, every).numpy().reshape(*[2] * 13, 2)
    total = x.reshape(-1, 2).var(axis=0).sum()
    exact = [x.var(axis=t).reshape(-1, 2).mean(axis=0).sum() / total for t in range(13)]
    assert_allclose(got["value_share"], exact, rtol=0.1, atol=0.005)
    assert_allclose(got["attention"].sum(), 1, rtol=1e-12)
    groups = invariances.between_group_fraction(
        x.reshape(-1, 2), every[:, :4].sum(-1).numpy()
    )
    assert_allclose(got["class_share"], groups, atol=0.03)


def test_random_groups_explain_nothing_of_a_sample(generator):
    xi, labels = generator.standard_normal((50, 400, 2)), np.arange(400) % 200
    assert invariances.between_group_fraction(xi, labels).mean() == pytest.approx(
        0.5, abs=0.02
    )
    assert invariances.between_group_fraction(xi, labels, sample=True).mean() < 0.05


def test_embeddings_that_do_not_vary_have_no_fractions():
    at = invariances.invariance_probe(SMALL)
    for x in (
        np.zeros((81, 2)),
        np.full((81, 2), 0.1) + 1e-13 * np.arange(81)[:, None],
    ):
        assert np.isnan(invariances.total_variance(x))
        assert np.isnan(invariances.token_variance_fractions(x, at)).all()
        assert np.isnan(invariances.between_group_fraction(x, at.classes))


def test_the_spread_of_tokens_is_relative_to_counting_positions():
    s = SparseSettings(length=4, sparsity=2)
    points = np.zeros((4, 2, 2))
    points[:2, 1, 0], points[2, 1, 1], points[3, 1, 0] = 2.0, 1.0, 6.0
    assert_allclose(invariances.relative_spread(points, s), [1, 1, 0.5, 3])
    assert np.isnan(invariances.relative_spread(np.zeros((4, 2, 2)), s)).all()


# ------------------------------------------------------------------------- trajectories


@pytest.fixture
def trajectory():
    return simulate(SMALL, runs=3, steps=12, every=6)


def test_measures_of_a_trajectory_are_those_of_its_networks(trajectory):
    result = invariances.measure_invariances(trajectory, step=6)
    network = ClusteringHead(SMALL)
    one = {
        name: torch.from_numpy(trajectory[name].values[1, 1].astype(float))
        for name in network.variables
    }
    for name, values in invariances.network_invariances(network, one).items():
        assert_allclose(result[name].values[1], values, rtol=1e-6, atol=1e-9)
        assert result[name].attrs["units"] == "1"
    assert result.attrs["step"] == 6
    assert result["seed"].values.tolist() == [0, 1, 2]
    assert invariances.measure_invariances(trajectory).attrs["step"] == 12


def test_diverged_runs_and_runs_of_scores_too_far_apart_have_no_values(trajectory):
    far = trajectory.copy(deep=True)
    far["query"].values[1] *= 1e5
    before = invariances.measure_invariances(trajectory)
    trajectory["last_step"] = ("run", [12, 6, 12])
    for changed in (far, trajectory):
        result = invariances.measure_invariances(changed)
        assert np.isnan(result["accuracy"].values).tolist() == [False, True, False]
        assert np.isnan(measure_encoded_sums(changed)["sum_steps"].values[1]).all()
        assert_array_equal(
            result["clusters"].values[[0, 2]], before["clusters"].values[[0, 2]]
        )
    assert invariances.measure_invariances(far)["far_scores"].values.tolist() == [
        0,
        1,
        0,
    ]
    assert np.isfinite(
        invariances.measure_invariances(trajectory, step=6)["accuracy"]
    ).all()


def test_weights_that_are_nan_and_steps_between_frames_are_refused(trajectory):
    broken = trajectory.assign(value=np.nan * trajectory["value"])
    with pytest.raises(TrajectoryError, match="run of seed 0: points: found shape"):
        invariances.measure_invariances(broken)
    with pytest.raises(SettingsError, match="a recorded step"):
        invariances.measure_invariances(trajectory, step=7)


# --------------------------------------------------------------------------------- sums


@pytest.mark.parametrize(
    "coefficients", [(1, 1, 1, 0, 0, 0), (1, 3, 1, 2, 0, 4), (1, -1, 1, -2, 0, 2)]
)
def test_planted_sums_are_found(coefficients):
    s = SparseSettings(length=6, sparsity=3)
    at = invariances.invariance_probe(s)
    for turned in (1, -1):
        result = encoded_sum(turned * linear(coefficients, at), at, s)
        assert_allclose(result.steps[:, 1], coefficients, atol=1e-12)
        assert (result.whole, result.congruent, result.share) == (
            True,
            True,
            pytest.approx(1),
        )
        assert result.levels == len(np.unique(at.tokens @ np.array(coefficients)))


@pytest.mark.parametrize(
    ("coefficients", "whole"),
    [
        ((1, 2, 1, 0, 0, 0), True),
        ((1, 1, 1, 1, 0, 0), True),
        ((1, 1, 1, 0.5, 0, 0), False),
    ],
)
def test_sums_of_other_residues_or_of_fractional_steps_are_not_congruent(
    coefficients, whole
):
    s = SparseSettings(length=6, sparsity=3)
    at = invariances.invariance_probe(s)
    result = encoded_sum(linear(coefficients, at), at, s)
    assert (result.whole, result.congruent) == (whole, False)
    nothing = encoded_sum(np.zeros((64, 2)), at, s)
    assert np.isnan(nothing.steps).all()
    assert nothing.levels == 0


def test_steps_of_more_tokens_need_not_be_even():
    s = SparseSettings(vocab=3, length=4, sparsity=2)
    at = invariances.invariance_probe(s)
    steps = np.array([[0, 1, 2], [0, 1, -1], [0, 3, 3], [0, 0, 0]])
    value = steps[np.arange(4), at.tokens].sum(axis=1).astype(float)
    result = encoded_sum(value[:, None] * np.array([1.0, 2.0]), at, s)
    assert_allclose(result.steps, steps, atol=1e-12)
    assert result.congruent
    assert not encoded_sum(
        (at.tokens @ np.array([1.0, 1.0, 1.0, 0.0]))[:, None] + 0.0, at, s
    ).congruent
