"""docs/analyses/spikes.md in plain loops."""

import functools
import math

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dynamics
from analysis.transitions import attribute_own_spikes, spike_attribution
from analysis.transitions.spike_replays import RecordedSpike
from dynamics.networks.clustering_head import ClusteringHead
from tests.analysis.transitions.normalised_sums import NormalisedSums, model_file
from tests.twins import heads
from tests.twins.differences import examples, same

MLP = ("receptor", "receptor_bias", "assembler", "transform_bias")

# ------------------------------------------------------------------------------- twins


def rise_of(losses, level):
    """The foot, the step before the examined one, and the frame of half of the height;
    None if the loss does not rise."""
    peak = max(range(len(losses)), key=lambda t: losses[t])
    height = losses[peak] - level
    if height <= 0:
        return None
    half = next(t for t in range(peak + 1) if losses[t] >= level + height / 2)
    if half == 0:
        return None
    feet = [t for t in range(half) if losses[t] <= level + height / 10]
    foot = feet[-1] if feet else min(range(half), key=lambda t: losses[t])
    step = max(range(foot, half), key=lambda t: losses[t + 1] - losses[t])
    return foot, step, half


def flips(before, after):
    moved = math.dist(before, after)
    return moved > math.sqrt(before @ before) and before @ after < 0


def passes(weights, s, sequences, table=None, xi=None, keep=None, norm=None):
    """The embeddings, their norms, logits and losses of sequences."""
    table = heads.table_of(weights, s) if table is None else table
    if xi is None:
        xi = np.array([heads.attend(x, weights, table)[1] for x in sequences])
    normalised = np.array([heads.normalise(v, s.norm) for v in xi])
    for k, value in (keep or {}).items():
        normalised[k] = value
    zeta = [
        heads.transform(v, weights, s, n) for v, n in zip(xi, normalised, strict=True)
    ]
    logits = np.array(zeta) @ weights["embedding"].T
    targets = [heads.target_of(x, s) for x in sequences]
    return xi, normalised, logits, heads.losses_of(logits, targets)


def examine(foot, before, after, usual, s, sequences, shares):
    """Causes of a step, and what remains of the rise with each change."""
    targets = [heads.target_of(x, s) for x in sequences]
    at_foot, old, new = (passes(w, s, sequences) for w in (foot, before, after))
    rises = np.maximum(shares * (new[3] - old[3]), 0)
    turned = {
        (t, v)
        for t in range(s.length)
        for v in range(s.vocab)
        if flips(
            *(w["embedding"][v] + w["position_embedding"][t] for w in (before, after))
        )
    }
    xi_flips = [flips(a, b) for a, b in zip(old[0], new[0], strict=True)]
    table, before_table = heads.table_of(after, s), heads.table_of(before, s)
    for t, v in turned:
        table[t, v] = before_table[t, v]
    unflipped_xi = passes(after, s, sequences, table=table)[0]
    affected = []
    for k, turn in enumerate(xi_flips):
        by_flips = math.dist(new[0][k], unflipped_xi[k])
        moves = math.dist(new[0][k], old[0][k])
        affected.append(turn or (by_flips > 0 and by_flips >= moves / 2))
    crossed = [
        not a and at_foot[2][k].argmax() == y and new[2][k].argmax() != y
        for k, (a, y) in enumerate(zip(affected, targets, strict=True))
    ]
    whole = rises.sum()
    normalisation, feed_forward = (
        sum(r for r, there in zip(rises, which, strict=True) if there) / whole
        for which in (affected, crossed)
    )
    if normalisation >= 0.5:
        cause = "normalisation"
    elif feed_forward >= 0.5:
        cause = "feed-forward"
    elif normalisation + feed_forward >= 0.5:
        cause = "both"
    else:
        cause = "neither"

    def loss(weights, **changes):
        return shares @ passes(weights, changes.pop("s", s), sequences, **changes)[3]

    def moves_across(weights, xi):
        wrong = passes(weights, s, sequences, xi=xi)[2].argmax(axis=1) != targets
        return (
            sum(r for r, c, w in zip(rises, crossed, wrong, strict=True) if c and w)
            / whole
        )

    def moved(part):
        return {n: before[n] + part * (after[n] - before[n]) for n in before}

    first = loss(before)
    rise = loss(after) - first
    keep = {k: old[1][k] for k, there in enumerate(xi_flips) if there}
    radius = "rms-smooth" if s.norm.startswith("rms") else "unit-smooth"
    smooth = heads.settings_of(s.vocab, s.length, s.counting, s.dim, radius, s.hidden)
    length = math.sqrt(sum(((after[n] - before[n]) ** 2).sum() for n in before))
    frozen = after | {n: before[n] for n in MLP}
    remaining = {
        "unflipped": loss(after, xi=unflipped_xi, keep=keep) - first,
        "smooth": loss(after, s=smooth) - loss(before, s=smooth),
        "frozen": loss(frozen) - first,
        "held": loss(after, xi=old[0]) - first,
        "half": loss(moved(0.5)) - first,
        "clipped": loss(moved(min(1.0, usual / length))) - first,
    }
    measures = {
        "normalisation_share": normalisation,
        "feed_forward_share": feed_forward,
        "by_embedding_share": moves_across(foot, new[0]),
        "by_boundary_share": moves_across(after, at_foot[0]),
        "crossed": shares @ np.array(crossed, float),
        "flipped_inputs": len(turned),
        "flipped_sequences": shares @ np.array(xi_flips, float),
        "input_ratio": max(
            math.dist(*pair) / math.sqrt(pair[0] @ pair[0])
            for pair in (
                [
                    w["embedding"][v] + w["position_embedding"][t]
                    for w in (before, after)
                ]
                for t in range(s.length)
                for v in range(s.vocab)
            )
        ),
        "xi_ratio": max(
            math.dist(a, b) / math.sqrt(a @ a)
            for a, b in zip(old[0], new[0], strict=True)
        ),
        "loss_before": first,
        "loss_after": loss(after),
    }
    return measures, cause, {name: value / rise for name, value in remaining.items()}


# ------------------------------------------------------------------------------- tests


@given(
    st.lists(
        st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.5, 0.6, 1.0, 2.0]),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from([0.0, 0.05, 0.3]),
)
def test_the_examined_step(losses, level):
    found = spike_attribution.locate_loss_rise(np.array(losses), level)
    twin = rise_of(losses, level)
    assert (None if found is None else (found.foot, found.step, found.half)) == twin


@st.composite
def steps_of_networks(draw):
    vocab, length = draw(st.sampled_from([(2, 2), (2, 4), (3, 2), (3, 3)]))
    positions = tuple(range(draw(st.integers(1, length))))
    norm = draw(st.sampled_from(["rms", "unit", "rms-smooth", "unit-smooth"]))
    s = heads.settings_of(vocab, length, positions, draw(st.integers(1, 3)), norm, 6)
    generator = np.random.default_rng(draw(st.integers(0, 2**31)))
    network = ClusteringHead(s)
    seed = int(generator.integers(1000))
    foot = {
        name: v[0].astype(float)
        for name, v in network.initial(np.array([seed])).items()
    }
    foot["assembler"] = 3 * foot["assembler"]
    size = draw(st.sampled_from([0.01, 0.3, 1.0, 3.0]))
    states = [foot]
    for part in (0.1, size):
        chosen = draw(
            st.sampled_from(
                [list(foot), ["embedding", "position_embedding"], list(MLP), ["value"]]
            )
        )
        states.append(
            {
                n: v + part * generator.standard_normal(v.shape) * (n in chosen)
                for n, v in states[-1].items()
            }
        )
    return s, network, seed, states, draw(st.sampled_from([0.1, 1.0, 100.0]))


def test_causes_of_a_step():
    @settings(max_examples=examples(5))
    @given(steps_of_networks())
    def check(case):
        s, network, seed, states, usual = case
        training = spike_attribution.training_sequences(s, seed)
        sequences = [tuple(x) for x in training.tokens.tolist()]
        shares = training.weight.numpy()
        first, last = (shares @ passes(w, s, sequences)[3] for w in states[1:])
        assume(last - first > 1e-3)
        measures, cause, remaining = examine(*states, usual, s, sequences, shares)
        step = spike_attribution.SpikeStep(
            network,
            training,
            *({n: torch.from_numpy(v) for n, v in w.items()} for w in states),
            usual,
        )
        ours, left = step.measures(), step.remaining_rise()
        for name, value in measures.items():
            same("spikes", ours[name], value, 1e-8)
        for name, value in remaining.items():
            same("spikes", left[name], value, 1e-7)
        assert spike_attribution.spike_cause(ours) == cause
        assert spike_attribution.is_explained(ours, left) == explained(
            cause, ours, left
        )

    check()


def explained(cause, measures, left):
    """The change that removes the cause leaves less than half, the others do not."""
    smooth = ["smooth"] if left["smooth_alike"] >= 0.95 else []
    if cause == "neither":
        return False
    if cause == "both":
        way = spike_attribution.crossing_kind(measures)
        together = {"embedding": "unflipped_held", "boundary": "unflipped_frozen"}[way]
        return left[together] < 0.5
    if cause == "normalisation":
        removes, others = ["unflipped"], ["frozen"]
    elif spike_attribution.crossing_kind(measures) == "embedding":
        removes, others = ["held"], ["frozen", "unflipped", *smooth]
    else:
        removes, others = ["frozen"], ["held", "unflipped", *smooth]
    return left[removes[0]] < 0.5 and all(left[name] >= 0.5 for name in others)


# ------------------------------------------------------------------------- own models

N, FRAMES = 4, 12


PAIRS = torch.combinations(torch.arange(N), with_replacement=True)
MODEL = model_file(N)
LAYERS = {"embed": ["embed.weight"], "out": ["out.weight", "out.bias"]}


def examined_change(losses, level, peak):
    """The frame before the largest rise from the last low frame before the spike."""
    near = [t for t in (peak - 1, peak, peak + 1) if 0 <= t < len(losses)]
    top = max(near, key=lambda t: losses[t])
    if top == 0:
        return None
    low = [t for t in range(top) if losses[t] <= level + 0.1 * (losses[top] - level)]
    begin = low[-1] if low else min(range(top), key=lambda t: losses[t])
    found = rise_of(losses[begin:], level)
    return None if found is None else begin + found[1]


def own_sums(weights):
    return np.array(
        [
            weights["embed.weight"][i] + weights["embed.weight"][j]
            for i, j in PAIRS.tolist()
        ]
    )


def own_loss(weights, keep=None):
    sums = own_sums(weights)
    directions = np.array([v / math.sqrt(v @ v) for v in sums])
    for k, value in (keep or {}).items():
        directions[k] = value
    logits = directions @ weights["out.weight"].T + weights["out.bias"]
    return heads.losses_of(logits, [(i + j) % N for i, j in PAIRS.tolist()]).mean()


@functools.cache
def own_trajectory(folder):
    torch.manual_seed(0)
    for frame in range(FRAMES):
        torch.save(NormalisedSums(N).double().state_dict(), folder / f"step-{frame}.pt")
    return dynamics.collect_checkpoints([folder], model=MODEL)


def test_causes_of_spikes_of_a_recorded_model(tmp_path):
    template = own_trajectory(tmp_path)
    names = [name for layer in LAYERS.values() for name in layer]

    @settings(max_examples=examples(6))
    @given(
        st.integers(0, 2**31),
        st.lists(
            st.sampled_from([0.0, 0.1, 0.4, 1.0]), min_size=FRAMES, max_size=FRAMES
        ),
        st.sampled_from([list(LAYERS), ["embed"], ["out"]]),
        st.integers(0, 1),
    )
    def check(seed, parts, layers, late):
        generator = np.random.default_rng(seed)
        calm, high = (
            {
                n: generator.standard_normal(template[f"parameter.{n}"].shape[2:])
                for n in names
            }
            for _ in range(2)
        )
        moving = [n for layer in layers for n in LAYERS[layer]]
        trajectory = template.copy(deep=True)
        states = []
        for frame, part in enumerate([0.0, 0.0, *parts[2:]]):
            state = {
                n: calm[n] + part * (high[n] - calm[n]) * (n in moving) for n in names
            }
            for n in names:
                trajectory[f"parameter.{n}"][0, frame] = state[n]
            states.append(
                {
                    n: trajectory[f"parameter.{n}"].values[0, frame].astype(float)
                    for n in names
                }
            )
        losses = [own_loss(state) for state in states]
        # recorded a frame late at most, and at most five frames matter before it
        peak = max(range(FRAMES), key=lambda t: losses[t])
        peak = min(peak + late, FRAMES - 1)
        begin = max(0, peak - 5)
        window = losses[begin : peak + 2]
        level = min(window)
        assume(max(window) > level + 0.01)
        spike = RecordedSpike(0, 0, int(trajectory["step"][peak]), level, losses[peak])
        result = attribute_own_spikes(trajectory, [spike], MODEL, "norm").isel(spike=0)
        at = examined_change(window, level, peak - begin)
        if at is None:
            assert int(result["at"]) == -1
            assert result["cause"].item() == ""
            return
        assert int(result["at"]) == int(trajectory["step"][begin + at])
        check_change(result, states[begin + at], states[begin + at + 1])

    check()


def check_change(result, before, after):
    first, rise = own_loss(before), own_loss(after) - own_loss(before)
    same("own spikes", result["loss_before"], first, 1e-6)
    same("own spikes", result["loss_after"], first + rise, 1e-6)
    left = {}
    for layer, names in LAYERS.items():
        frozen = after | {n: before[n] for n in names}
        alone = before | {n: after[n] for n in names}
        left[layer] = (own_loss(frozen) - first) / rise
        same("own spikes", result["frozen"].sel(layer=layer), left[layer], 1e-5)
        same(
            "own spikes",
            result["alone"].sel(layer=layer),
            (own_loss(alone) - first) / rise,
            1e-5,
        )
    least = min(left, key=left.get)
    assert result["cause"].item() == (least if left[least] < 0.5 else "")
    old, new = own_sums(before), own_sums(after)
    turned = [k for k in range(len(old)) if flips(old[k], new[k])]
    same("own spikes", result["flipped"], len(turned) / len(old))
    keep = {k: old[k] / math.sqrt(old[k] @ old[k]) for k in turned}
    same(
        "own spikes", result["unflipped"], (own_loss(after, keep) - first) / rise, 1e-5
    )
