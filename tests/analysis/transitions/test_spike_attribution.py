"""Attribution of spikes: planted causes, changes of the step, whole trajectories, and
the command."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from analysis.transitions import spike_attribution as attribution
from analysis.transitions.spike_replays import (
    attribute_spikes,
    evenly_spaced_spikes,
    recorded_spikes,
    replay_span,
)
from dynamics import SparseSettings, sample_sequences, simulate
from dynamics.networks.clustering_head import ClusteringHead

ONE = SparseSettings(length=1, sparsity=1, data=8, batch=4, hidden=2, activation="relu")
"""One token alone, which is its own class: attention has nothing to choose."""

BOTH = attribution.TrainingSequences(
    torch.tensor([[0], [1]]), torch.tensor([0, 1]), torch.tensor([0.5, 0.5])
)


def head(tiny=1e-3, steep=50.0, value=((1.0, 0.0), (-3.0, 1.0))):
    """Weights of logits ±8 zeta_y, with zeta_y = xi_y + steep N(xi)_y, and E + P of
    token 0, which is tiny.

    The boundary is the first axis. With the value matrix given, token 0 has xi_y = -√2
    and token 1 has √2."""
    x = tiny * torch.tensor([0.6, 0.8]).double()
    weights = {
        "embedding": [[0.0, -4.0], [0.0, 4.0]],
        "query": [0.0, 0.0],
        "value": value,
        "receptor": [[0.0, steep], [0.0, -steep]],
        "assembler": [[0.0, 1.0], [0.0, -1.0]],
        "transform_bias": [0.0, 0.0],
        "receptor_bias": [0.0, 0.0],
    }
    result = {
        name: torch.tensor(weight, dtype=torch.float64)
        for name, weight in weights.items()
    }
    return {
        **result,
        "position_embedding": (torch.tensor([0.0, 4.0]).double() + x)[None],
    }, x


def verdict(before, after, s=ONE):
    """The measures of a step, the rise that remains after changes to it, its cause, and
    whether that explains it."""
    step = attribution.SpikeStep(
        ClusteringHead(s), BOTH, before, before, after, usual=1e-6
    )
    measured, remaining = step.measures(), step.remaining_rise()
    assert measured["loss_after"] > measured["loss_before"]
    return (
        measured,
        remaining,
        attribution.spike_cause(measured),
        attribution.is_explained(measured, remaining),
    )


# ----------------------------------------------------------------------- planted causes


@given(
    tiny=st.floats(-6, -1),
    factor=st.floats(1.2, 5),
    steep=st.floats(1, 200),
    norm=st.sampled_from(["rms", "unit"]),
)
def test_a_planted_flip_of_an_input_is_found(tiny, factor, steep, norm):
    """P moves by more than |E + P| of token 0, which flips; its sequences end on the
    wrong side."""
    before, x = head(10**tiny, steep)
    after = {**before, "position_embedding": before["position_embedding"] - factor * x}
    measured, remaining, cause, good = verdict(
        before, after, dataclasses.replace(ONE, norm=norm)
    )
    assert (cause, good, measured["flipped_inputs"]) == ("normalisation", True, 1)
    assert measured["input_ratio"] == pytest.approx(factor, rel=1e-3)
    assert remaining["unflipped"] < 0.01
    assert remaining["frozen"] == pytest.approx(1)


@given(
    small=st.floats(-6, -2),
    factor=st.floats(1.2, 5),
    norm=st.sampled_from(["rms", "unit"]),
)
def test_a_planted_flip_of_sequence_embeddings_is_found(small, factor, norm):
    """The value matrix, nearly zero, moves through zero, and with it every sequence
    embedding."""
    before, _ = head(value=(10**small * np.array([[1.0, 0.0], [-3.0, 1.0]])).tolist())
    after = {**before, "value": (1 - factor) * before["value"]}
    measured, remaining, cause, good = verdict(
        before, after, dataclasses.replace(ONE, norm=norm)
    )
    assert (cause, good) == ("normalisation", True)
    assert (measured["flipped_sequences"], measured["flipped_inputs"]) == (1, 0)
    assert remaining["unflipped"] < 0.1


@given(angle=st.floats(0.005, 0.3), share=st.floats(1.2, 3), steep=st.floats(20, 500))
def test_a_planted_crossing_of_embeddings_is_found(angle, share, steep):
    """Sequence embeddings close to the boundary turn over it by a small angle: nothing
    flips, the feed-forward layer stays."""
    before, x = head(1.0, steep)
    inputs = torch.stack([x, torch.tensor([0.0, 8.0]).double() + x])
    z = math.sqrt(2) * inputs / inputs.norm(dim=-1, keepdim=True)

    def turned(by):  # V z of the tokens at angles -by and +by from the first axis
        wanted = torch.tensor(
            [[math.cos(by), math.cos(by)], [-math.sin(by), math.sin(by)]]
        ).double()
        return {**before, "value": wanted @ torch.linalg.inv(z.mT)}

    measured, remaining, cause, good = verdict(
        turned(angle), turned(angle * (1 - share))
    )
    assert (cause, attribution.crossing_kind(measured), good) == (
        "feed-forward",
        "embedding",
        True,
    )
    assert measured["flipped_inputs"] == measured["flipped_sequences"] == 0
    assert remaining["held"] == pytest.approx(0, abs=1e-6)
    assert remaining["unflipped"] == pytest.approx(1)


@given(steep=st.floats(20, 200), beyond=st.floats(0.05, 3))
def test_a_planted_motion_of_the_boundary_is_found(steep, beyond):
    """Biases carry the boundary over the sequence embedding of token 0, which stays."""
    before, _ = head(1.0, steep)
    bias = torch.tensor([1.0, 0.0]).double() * (2.5 * steep * (1 + beyond) + 2)
    measured, remaining, cause, good = verdict(
        before, {**before, "receptor_bias": bias}
    )
    assert (cause, attribution.crossing_kind(measured), good) == (
        "feed-forward",
        "boundary",
        True,
    )
    assert remaining["frozen"] == pytest.approx(0, abs=1e-6)
    assert remaining["held"] == pytest.approx(1)


def test_a_rise_without_flip_or_crossing_has_no_cause():
    before, _ = head(steep=0.1)
    assert verdict(before, {**before, "receptor": before["receptor"] * 0.5})[2:] == (
        "neither",
        False,
    )


@pytest.mark.parametrize(
    ("norm", "forward", "cause"),
    [
        (0.5, 0.5, "normalisation"),
        (0.6, 0.1, "normalisation"),
        (0.2, 0.7, "feed-forward"),
        (0.3, 0.3, "both"),
        (0.2, 0.2, "neither"),
        (0.0, 0.0, "neither"),
    ],
)
def test_the_cause_follows_the_fractions_of_the_rise(norm, forward, cause):
    assert (
        attribution.spike_cause(
            {"normalisation_share": norm, "feed_forward_share": forward}
        )
        == cause
    )


@pytest.mark.parametrize(
    ("way", "removed", "alike", "good"),
    [
        ("embedding", {"held"}, 1.0, True),
        ("embedding", {"held", "frozen"}, 1.0, False),
        ("embedding", {"held", "smooth"}, 1.0, False),
        ("embedding", {"held", "smooth"}, 0.9, True),
        ("embedding", {"held", "unflipped"}, 0.9, False),
        ("embedding", {"frozen"}, 0.9, False),
        ("boundary", {"frozen"}, 1.0, True),
        ("boundary", {"frozen", "held"}, 1.0, False),
    ],
)
def test_a_crossing_is_explained_by_its_own_change_alone(way, removed, alike, good):
    measured = {
        "normalisation_share": 0,
        "feed_forward_share": 0.9,
        "by_embedding_share": 0.5,
    }
    measured |= {"by_boundary_share": 0.5, f"by_{way}_share": 0.9}
    remaining = {
        name: 0.1 if name in removed else 0.9 for name in attribution.STEP_CHANGES
    }
    assert (
        attribution.is_explained(measured, {**remaining, "smooth_alike": alike}) is good
    )


def test_a_planted_flip_beside_a_planted_crossing_is_found():
    """Half of the rise is that of token 0, which flips, half that of token 1, over
    which the boundary moves."""
    before, x = head(0.01, 5.0)
    after = {**before, "position_embedding": before["position_embedding"] - 2 * x}
    after["receptor"] = torch.tensor(
        [[0.0, 5.0], [30.0, -5.0]]
    ).double()  # off for N(xi) of the flipped token 0
    after["receptor_bias"] = torch.tensor(
        [0.0, 20.0]
    ).double()  # and puts zeta_y of token 1 below the axis
    measured, remaining, _, _ = verdict(before, after)
    assert min(measured["normalisation_share"], measured["feed_forward_share"]) > 0.1
    assert measured["by_boundary_share"] > measured["by_embedding_share"]
    assert remaining["unflipped_frozen"] == pytest.approx(0, abs=1e-6)
    assert min(remaining["unflipped"], remaining["frozen"]) > 0.1


@given(seed=st.integers(0, 1000))
def test_two_changes_at_once_combine_by_sequence(seed):
    """Held and unflipped at once: sequences that no flip affects are held, those that
    one affects are unflipped."""
    s, generator = (
        SparseSettings(length=4, sparsity=2, hidden=4),
        np.random.default_rng(seed),
    )
    network, on = (
        ClusteringHead(s),
        attribution.training_sequences(dataclasses.replace(s, data=64, batch=8), seed),
    )
    rows = generator.normal(size=(2, sum(network.lengths)))
    before, after = (
        network.unflatten(torch.from_numpy(row))
        for row in (rows[0], rows[0] + 0.8 * rows[1])
    )
    step = attribution.SpikeStep(network, on, before, before, after, usual=1.0)
    affected, _, _ = step._affected
    remaining = step.remaining_rise()
    if np.isnan(remaining["held"]):
        return
    if not affected.any():
        assert remaining["unflipped_held"] == pytest.approx(remaining["held"])
    if affected.all():
        assert remaining["unflipped_held"] == pytest.approx(remaining["unflipped"])


# ---------------------------------------------------------------------------- the parts


def test_the_loss_falls_with_a_small_step_along_the_negative_gradient():
    """It rises with a long one, and changes at first by minus the gradient's norm."""
    network = ClusteringHead(ONE)
    weights = network.initial(np.array([0]))
    before = {name: torch.tensor(value[0]).double() for name, value in weights.items()}

    def loss(weights):
        return network.losses(weights, BOTH.tokens, BOTH.targets).mean()

    gradient = torch.func.grad(loss)(before)
    norm = math.sqrt(sum(float((value**2).sum()) for value in gradient.values()))
    after = {name: value + 30 * gradient[name] for name, value in before.items()}
    _, remaining, _, _ = verdict(before, after)
    rise = float(loss(after) - loss(before))
    first_order = -0.01 * 30 * norm**2 / rise
    assert remaining["descent_hundredth"] == pytest.approx(first_order, rel=0.5)
    descent = {name: value - 30 * gradient[name] for name, value in before.items()}
    expected = float(loss(descent) - loss(before)) / rise
    assert remaining["descent"] == pytest.approx(expected)


def test_a_shorter_step_and_the_smooth_norm_leave_their_own_rise():
    """Half the step has the loss half-way; a step clipped to next to nothing leaves
    nothing of the rise."""
    before, x = head(0.1)
    after = {**before, "position_embedding": before["position_embedding"] - 3 * x}
    middle = {name: 0.5 * (before[name] + after[name]) for name in before}
    _, remaining, _, _ = verdict(before, after)

    def rise(end, settings=ONE):
        network = ClusteringHead(settings)
        losses = [
            network.losses(weights, BOTH.tokens, BOTH.targets).mean()
            for weights in (before, end)
        ]
        return float(losses[1] - losses[0])

    assert remaining["half"] == pytest.approx(rise(middle) / rise(after))
    assert abs(remaining["clipped"]) < 1e-4
    small = {
        name: before[name] + 0.01 * (after[name] - before[name]) for name in before
    }
    assert remaining["hundredth"] == pytest.approx(rise(small) / rise(after))
    smooth = dataclasses.replace(ONE, norm="rms-smooth")
    assert (
        attribution.with_smooth_norm(ONE)
        == attribution.with_smooth_norm(smooth)
        == smooth
    )
    assert remaining["smooth"] == pytest.approx(rise(after, smooth) / rise(after))
    answers = [
        ClusteringHead(item).logits(before, BOTH.tokens).argmax(-1)
        for item in (smooth, ONE)
    ]
    assert remaining["smooth_alike"] == pytest.approx(
        float((answers[0] == answers[1]).double().mean())
    )


def test_vectors_flip_if_they_turn_over_a_right_angle():
    before = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    after = torch.tensor([[-0.1, 0.0], [0.1, 5.0], [0.5, 0.0], [1.0, 0.0]])
    assert attribution.flipped_vectors(before, after).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_the_first_rise_of_a_spike_is_located():
    result = attribution.locate_loss_rise(
        np.array([1, 1, 1.02, 1.1, 1.4, 2.2, 1.2, 3.0, 1.0]), 1.0
    )
    assert (result.foot, result.step, result.half, result.peak) == (3, 4, 5, 7)
    assert (
        attribution.locate_loss_rise(np.array([5.0, 1.0, 2.0]), 1.0) is None
    )  # already there
    assert attribution.locate_loss_rise(np.ones(5), 1.0) is None


def test_training_sequences_are_the_distinct_sequences():
    s = SparseSettings(length=4, sparsity=2, data=50, batch=10)
    on = attribution.training_sequences(s, 7)
    drawn = sample_sequences(s, np.array([7]), "train")[0]
    assert on.weight.sum() == pytest.approx(1)
    for row, share in zip(on.tokens.numpy(), on.weight.numpy(), strict=True):
        assert (drawn == row).all(axis=1).mean() == pytest.approx(share)


def test_alignment_of_assemblers():
    for rows, expected in (
        ([[1.0, 2.0], [2.0, 4.0]], 1),
        ([[1.0, 0.0], [0.0, 1.0]], 0.5),
        ([[0.0, 0.0]] * 3, 0),
    ):
        assert attribution.assembler_alignment(torch.tensor(rows)) == pytest.approx(
            expected
        )


# ------------------------------------------------------------------- whole trajectories

WILD = SparseSettings(length=6, sparsity=2, data=64, batch=8, hidden=16, lr=0.01)


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    path = tmp_path_factory.mktemp("spikes") / "wild.nc"
    return simulate(WILD, runs=2, steps=300 * WILD.epoch_steps, out=path)


def test_every_spike_is_replayed_as_it_was(wild):
    spikes = recorded_spikes(wild)
    assert len(spikes) > 3
    assert evenly_spaced_spikes(spikes, 2) == [spikes[0], spikes[-1]]
    assert (
        evenly_spaced_spikes(spikes, None)
        == evenly_spaced_spikes(spikes, 10**6)
        == spikes
    )
    some = evenly_spaced_spikes(spikes, 6)
    result = attribute_spikes(wild, some)
    assert result["path"].sel(offset=0).values == pytest.approx(
        [spike.height for spike in some]
    )
    for place, spike in enumerate(some):
        begin, rise, end = replay_span(wild, spike)
        assert begin <= rise < spike.step <= end
        if not result["cause"].values[place]:
            continue
        one = result.isel(spike=place)
        assert rise <= one["foot"] <= one["at"] < end
        at = int(one["at"]) - spike.step
        before, after = one["path"].sel(offset=[at, at + 1]).values
        assert [float(one["loss_before"]), float(one["loss_after"])] == pytest.approx(
            [before, after], rel=1e-4
        )
        assert after > before
    assert int(result["examined"].sum()) == len(some)


def test_the_command(output_of, wild):
    out = output_of(
        "analysis.spikes",
        wild.encoding["source"],
        "--most",
        3,
        "--out",
        "s.nc",
        "--csv",
        "t.csv",
    )
    assert "feed-forward" in out
    with xr.open_dataset("s.nc") as result:
        assert result.sizes["spike"] == 3
        assert result.attrs["recorded"] == len(recorded_spikes(wild))
        assert all(
            "long_name" in variable.attrs for variable in result.data_vars.values()
        )
    simulate(WILD, runs=2, steps=8 * WILD.epoch_steps, out="calm.nc")
    assert "0 spikes in 0 of 2 runs" in output_of("analysis.spikes calm.nc")
