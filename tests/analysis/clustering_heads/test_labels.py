"""Labels of circuits built by hand, learning phases, dependence on initial weights, and
the command."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

from analysis.clustering_heads import (
    constructions,
    ideal_cluster_count,
    init_dependence,
    labels,
)
from analysis.clustering_heads.init_dependence import (
    compare_same_seed,
    endpoint_similarity,
    pairwise_correlations,
)
from analysis.clustering_heads.invariances import (
    INVARIANCE_VARIABLES,
    network_invariances,
)
from analysis.clustering_heads.learning_phases import (
    half_rise_time,
    measure_learning_phases,
)
from dynamics import (
    TrajectoryError,
    save_trajectory,
    simulate,
)
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import SettingsError, SparseSettings

NORMS = ("rms", "unit", "rms-smooth", "unit-smooth")
TERNARY = {"vocab": 3, "length": 7, "sparsity": 3}
SHORT = {"length": 8}
TINY = SparseSettings(length=6, sparsity=2, hidden=6, data=64, batch=16)


def label_of(s, weights, thresholds=None):
    """The label of one circuit."""
    result = dataset([network_invariances(ClusteringHead(s), weights)], s).isel(run=0)
    return labels.circuit_label(result, thresholds or labels.LabelThresholds())


def dataset(rows, s):
    data = {
        name: (
            ("run", *INVARIANCE_VARIABLES[name][0]),
            np.stack([np.asarray(row[name], float) for row in rows]),
        )
        for name in INVARIANCE_VARIABLES
    }
    return xr.Dataset(data, {"counting": list(s.counting)})


# --------------------------------------------------------------- circuits built by hand


@pytest.mark.parametrize(
    "changes",
    [
        *({"norm": norm, **task} for norm in NORMS for task in (SHORT, TERNARY)),
        {"length": 12},
        {**SHORT, "output_bias": False, "receptor_biases": False, "activation": "relu"},
        {"length": 9, "positions": (1, 4, 6, 7, 8), "dim": 4},
        {**TERNARY, "table": 5},
    ],
)
def test_the_ideal_circuit_is_ideal_and_solves_the_task(changes):
    s = SparseSettings(**changes)
    weights = constructions.ideal_circuit(s)
    result = network_invariances(ClusteringHead(s), weights)
    assert result["accuracy"] == 1
    assert result["clusters"] == ideal_cluster_count(s) == (10 if s.vocab == 3 else 6)
    assert result["class_share"] == pytest.approx(1, abs=1e-9)
    assert result["attention"][list(s.counting)].sum() > 0.999
    assert label_of(s, weights).label == "ideal"


@pytest.mark.parametrize("norm", NORMS)
def test_attention_to_other_positions_is_corrected(norm):
    for changes, fraction in ((SHORT, "0.62"), (TERNARY, "0.43")):
        s = SparseSettings(norm=norm, **changes)
        result = label_of(s, constructions.inattentive_circuit(s))
        assert result.label == "corrected"
        assert f"only {fraction} of the attention" in result.reason
    s = SparseSettings(norm=norm, dim=3, **SHORT)
    result = label_of(s, constructions.corrected_circuit(s))
    assert result.label == "corrected"
    assert result.reason.endswith("1.34 in z, 0.00 in V z")


@pytest.mark.parametrize(("mass", "label"), [(0.91, "ideal"), (0.89, "corrected")])
def test_an_ideal_circuit_has_most_attention_on_counting_positions(mass, label):
    s = SparseSettings(**SHORT)
    row = network_invariances(ClusteringHead(s), constructions.ideal_circuit(s))
    counting = np.arange(s.length) < s.sparsity
    row["attention"] = np.where(
        counting, mass / s.sparsity, (1 - mass) / (s.length - s.sparsity)
    )
    assert labels.circuit_label(dataset([row], s).isel(run=0)).label == label


def test_attention_to_some_of_the_tokens_is_labelled():
    s = SparseSettings(**SHORT)
    result = label_of(s, constructions.one_sided_circuit(s))
    assert result.label == "part of the values"
    assert result.reason.startswith("token 0 gets 0.1")
    assert (
        label_of(s, constructions.one_sided_circuit(s, ratio=0.5)).label == "corrected"
    )


@pytest.mark.parametrize(
    ("coefficients", "label", "leaking", "apart", "words"),
    [
        ([1] * 5 + [0] * 7, "corrected", (), (), "attention"),
        (
            [1] * 5 + [0, 2, 0, 0, 0, 0, 0],
            "partial",
            (6,),
            (),
            "not invariant to the value at position 6",
        ),
        (
            [1, 3, 1, 1, 1] + [0] * 7,
            "partial",
            (),
            (1,),
            "position 1 does not swap with the others",
        ),
        (
            [1, 3, 1, 1, 5, 2, 0, 0, 0, 0, 0, 2],
            "partial",
            (5, 11),
            (1, 4),
            "5 and 11; positions 1 and 4 do not swap",
        ),
        (
            [1, 1, 3, 3, 5, 2, 2, 2, 2, 0, 0, 0],
            "fuzzy",
            (5, 6, 7, 8),
            (2, 3, 4),
            "positions 5, 6, 7 and 8; positions",
        ),
    ],
)
def test_missing_invariances_are_named(coefficients, label, leaking, apart, words):
    s = SparseSettings()
    weights = constructions.summing_circuit(s, coefficients)
    assert network_invariances(ClusteringHead(s), weights)["accuracy"] == 1
    result = label_of(s, weights)
    assert result[:1] + result[2:] == (label, leaking, apart)
    assert words in result.reason


def test_weights_that_do_not_solve_the_task_are_no_circuit():
    s = SparseSettings(**SHORT)
    first = ClusteringHead(s).initial(np.arange(5))
    rows = [
        {name: torch.from_numpy(value[run]).double() for name, value in first.items()}
        for run in range(5)
    ]
    assert {label_of(s, row).label for row in rows} == {"none"}
    ideal = constructions.ideal_circuit(s)
    result = label_of(s, {**ideal, "assembler": torch.zeros_like(ideal["assembler"])})
    assert (result.label, result.reason[:11]) == ("none", "accuracy 0.")


@pytest.mark.parametrize(
    ("construct", "changes", "message"),
    [
        ("ideal_circuit", {"hidden": 4}, "hidden: found 4, allowed is 5 or more"),
        ("ideal_circuit", {"vocab": 4}, "p = 4 and d = 2"),
        ("corrected_circuit", {}, "p = 2 and d = 2, expected"),
    ],
)
def test_circuits_that_cannot_be_built_are_refused(construct, changes, message):
    with pytest.raises(ValueError, match=message):
        getattr(constructions, construct)(SparseSettings(**changes))
    with pytest.raises(ValueError, match="different targets in one direction"):
        constructions.summing_circuit(SparseSettings(), [1, 1, 1, 1, 0] + [0] * 7)


# ------------------------------------------------------------------------------- labels


def test_tokens_that_are_distinguished_at_a_position_are_named():
    s = SparseSettings(**TERNARY)
    result = network_invariances(ClusteringHead(s), constructions.ideal_circuit(s))
    fractions = np.zeros((3, 3))
    fractions[0, 1:] = fractions[1:, 0] = 0.05
    result["token_share"][6], result["value_share"][6] = fractions, fractions.mean()
    label = labels.circuit_label(dataset([result], s).isel(run=0))
    assert label[:2] == ("partial", "distinguishes 0 from 1, 0 from 2 at position 6")


def test_groups_of_positions_that_swap():
    share = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]) / 2
    assert labels.positions_outside_largest_group(share, 0.1) == [
        1,
        3,
    ]  # of equal groups that of the first counts
    assert labels.positions_outside_largest_group(share, 0.6) == []
    chain = np.array([[0, 0.05, 0.2], [0.05, 0, 0.05], [0.2, 0.05, 0]])
    assert labels.positions_outside_largest_group(chain, 0.1) == []
    assert labels.positions_outside_largest_group(np.ones((3, 3)) - np.eye(3), 0.1) == [
        1,
        2,
    ]


def test_label_counts_depend_on_thresholds():
    s = SparseSettings(**SHORT)
    circuits = [
        constructions.ideal_circuit(s),
        constructions.inattentive_circuit(s),
        constructions.one_sided_circuit(s, ratio=0.15),
        {
            name: torch.zeros_like(value)
            for name, value in constructions.ideal_circuit(s).items()
        },
    ]
    result = dataset(
        [network_invariances(ClusteringHead(s), circuit) for circuit in circuits], s
    )
    assert_array_equal(labels.label_counts(result), [1, 1, 1, 0, 0, 1])
    assert [label.label for label in labels.circuit_labels(result)] == [
        "ideal",
        "corrected",
        "part of the values",
        "none",
    ]
    table = labels.label_sensitivity(result)
    assert table.dims == ("threshold", "factor", "label")
    assert_array_equal(table.sum("label"), 4)
    assert_array_equal(
        table.sel(factor=1), np.tile(labels.label_counts(result), (5, 1))
    )
    assert (
        table.sel(threshold="part", factor=0.5).values[
            labels.CIRCUIT_LABELS.index("corrected")
        ]
        == 2
    )
    # a leak of a tenth of a step has the value share .01/5.01, within the tolerance and
    # beyond a fifth of it
    leaking = constructions.summing_circuit(s, [10] * 5 + [1, 0, 0])
    assert label_of(s, leaking).label == "corrected"
    assert label_of(s, leaking, labels.LabelThresholds(tolerance=0.0019)).leaking == (
        5,
    )


# ------------------------------------------------------------------------------- phases


def test_half_rise_times_are_those_of_plain_loops(generator):
    values, time = (
        generator.uniform(0, 1, (200, 9)),
        np.cumsum(generator.uniform(1, 2, 9)),
    )
    for row, result in zip(values, half_rise_time(values, time), strict=True):
        half = (row[0] + row[-1]) / 2
        expected = next((time[k] for k in range(9) if (row[k:] >= half).all()), np.nan)
        assert_equal(result, expected if row[-1] - row[0] >= 0.01 else np.nan)
    for row, expected in (
        ([0, np.nan, 1], np.nan),
        ([0.999999, 0.999999, 1], np.nan),
        ([0.98, 0.98, 1], 2),
    ):
        assert_equal(half_rise_time(np.array(row), np.arange(3)), expected)
    with pytest.raises(ValueError, match="2 frames"):
        half_rise_time(np.zeros(3), np.arange(2))


def planted(tiny, moments):
    """A trajectory whose first run's front, and then its transform, become an ideal
    circuit's at given frames."""
    circuit, settled = constructions.ideal_circuit(TINY), tiny.copy(deep=True)
    for name in circuit:
        front = name in ("embedding", "position_embedding", "query", "value")
        settled[name].values[0, moments[0 if front else 1] :] = circuit[name].numpy()
    accuracy = settled["accuracy"].transpose("run", "step", "split").values
    accuracy[0] = np.where(np.arange(7) >= moments[1], 1.0, 0.5)[:, None]
    settled["accuracy"] = (("run", "step", "split"), accuracy)
    return settled


def test_clusters_form_with_the_attention_and_are_separated_with_the_transform(tiny):
    result = measure_learning_phases(planted(tiny, (2, 5)))
    epoch = tiny["epoch"].values
    assert (result["formed"].values[0], result["separated"].values[0]) == (
        epoch[2],
        epoch[5],
    )
    assert_allclose(result["final_share"].values[0, 2:], 1, atol=1e-4)
    assert result["multiset_share"].values[0, 2] == pytest.approx(1, abs=1e-4)
    assert result.sizes["step"] == 7
    assert measure_learning_phases(tiny, frames=3).sizes["step"] == 3


def test_phases_of_what_has_diverged_or_has_one_frame(tiny):
    lost = tiny.copy()
    lost["last_step"] = ("run", [24, 8, 24, 24])
    assert np.isnan(measure_learning_phases(lost)["formed"].values[1])
    with pytest.raises(TrajectoryError, match="found one frame"):
        measure_learning_phases(tiny.isel(step=[0]))
    with pytest.raises(SettingsError, match="frames: found 1"):
        measure_learning_phases(tiny, frames=1)


# -------------------------------------------------------------------------- inheritance


def test_correlations_are_those_of_numpy(generator):
    first, second = (
        generator.standard_normal((3, 40)),
        generator.standard_normal((4, 40)) + 5,
    )
    assert_allclose(
        pairwise_correlations(first, second),
        np.corrcoef(first, second)[:3, 3:],
        atol=1e-12,
    )
    second[1] = 0.1
    assert np.isnan(pairwise_correlations(first, second)[:, 1]).all()


def test_same_seed_pairs_differ_from_others_only_if_they_are_alike(generator):
    noise = generator.standard_normal((12, 12))
    own = compare_same_seed(noise + 5 * np.eye(12), "greater")
    assert own.p == 1e-4
    assert own.own.value - own.others.value == pytest.approx(5, abs=1)
    assert compare_same_seed(-noise - 5 * np.eye(12), "less").p == 1e-4
    assert compare_same_seed(noise + 5 * np.eye(12), "less").p == 1.0
    assert compare_same_seed(np.ones((5, 5)), "greater").p == 1.0
    noise[3] = np.nan
    assert compare_same_seed(noise, "greater").runs == 11
    every = [
        compare_same_seed(
            generator.standard_normal((6, 6)), "greater", permutations=99
        ).p
        for _ in range(300)
    ]
    assert abs(np.mean(np.array(every) <= 0.1) - 0.1) < 0.05
    six = compare_same_seed(
        np.diag([3.0, 2.0, 1.0]), "greater", permutations=6000
    )  # ways to pair three runs
    assert six.p == pytest.approx(1 / 6, abs=0.02)


def test_attention_at_start_and_end_is_correlated(tiny):
    still = tiny.copy(deep=True)
    for name in ("embedding", "position_embedding", "query"):
        still[name].values[:] = still[name].values[:, :1]
    result = init_dependence.attention_start_end_correlation(still)
    assert_allclose(np.diagonal(result), 1)
    assert (result.values[~np.eye(4, dtype=bool)] < 0.999).all()
    network = ClusteringHead(TINY)
    tokens = torch.tensor(list(itertools.product(range(2), repeat=6)))
    maps = []
    for run, at in ((1, 0), (2, -1)):
        weights = {
            name: torch.from_numpy(tiny[name].values[run, at]).double()
            for name in network.shapes
        }
        maps.append(network.attention(weights, tokens).numpy().ravel())
    expected = np.corrcoef(*maps)[0, 1]
    assert_allclose(
        init_dependence.attention_start_end_correlation(tiny).values[1, 2],
        expected,
        rtol=1e-6,
    )


def test_weight_distances_are_relative_to_the_distances_covered():
    start = np.zeros((2, 3))
    first, second = (
        np.array([[3.0, 0, 0], [0, 3, 0]]),
        np.array([[3.0, 0, 0], [0, 0, 3]]),
    )
    expected = [[0, np.sqrt(2)], [np.sqrt(2), np.sqrt(2)]]
    assert_allclose(
        init_dependence.relative_weight_distances(start, start, first, second), expected
    )
    assert np.isnan(
        init_dependence.relative_weight_distances(start, start, start, start)
    ).all()


def test_ends_are_compared_with_those_of_another_setting(tiny):
    def other(steps=4, seed=0, **changes):
        settings = dataclasses.replace(TINY, **changes)
        return simulate(settings, runs=4, seed=seed, steps=steps, every=4)

    same = endpoint_similarity(tiny, tiny)
    for name, value in (
        ("weight_distance", 0),
        ("shape_distance", 0),
        ("attention_correlation", 1),
    ):
        assert_allclose(np.diagonal(same[name]), value, atol=1e-6)
    result = endpoint_similarity(tiny, other(24, lr=0.01))
    assert (np.diagonal(result["weight_distance"]) > 0).all()
    assert compare_same_seed(result["weight_distance"].values, "less").p < 0.1
    begun = tiny.copy(deep=True)
    begun["query"].values[:, 0] += 1
    for wrong, message in (
        (other(hidden=7), "networks of"),
        (other(sparsity=3), "another task"),
        (other(seed=1), "the second trajectory: found runs of other seeds"),
        (begun, "do not begin at the same weights"),
    ):
        with pytest.raises(TrajectoryError, match=message):
            endpoint_similarity(tiny, wrong)


# -------------------------------------------------------------------------- the command


def test_the_command_prints_writes_and_draws(output_of, tiny, tmp_path):
    """Run 0 becomes ideal; attention scores of run 1 are too far apart for
    exponentials."""
    far = planted(tiny, (2, 5))
    far["query"].values[1, 1:] *= 1e6
    save_trajectory(far, "a.nc")
    save_trajectory(tiny, "b.nc")
    out = output_of("analysis.circuits a.nc b.nc --csv a.csv --frames 7")
    for said in (
        "partial",
        "the 3 clusters of an ideal circuit",
        "different seeds",
        "congruent sum",
        "encode a sum of whole steps that is congruent to the target (it explains at least 100.0% of",
        "fuzzy: most invariances are missing",
    ):
        assert said in out
    with xr.open_dataset("a-circuits.nc") as result:
        assert result["label"].values[:2].tolist() == ["ideal", "none"]
        assert set(labels.CIRCUIT_LABELS) >= set(result["label"].values.tolist())
        assert result["reason"].values[1] == "attention scores more than 600 apart"
        assert result["far_scores"].values.tolist() == [0, 1, 0, 0]
        assert np.isnan(result["formed"].values[1])
        assert np.isfinite(result["accuracy"].values[[0, 2, 3]]).all()
        assert result.attrs["other"] == "b.nc"
        assert result["weight_distance"].dims == ("run", "other_run")
        assert all(
            "units" in data_var.attrs
            for name, data_var in result.data_vars.items()
            if data_var.dtype.kind == "f"
        )
    assert (tmp_path / "a-circuits.png").stat().st_size > 10_000
    table = [line.split(",") for line in (tmp_path / "a.csv").read_text().splitlines()]
    assert [line[0] for line in table[1:]] == list(labels.CIRCUIT_LABELS)
    assert table[1][1] == "1"


def test_the_command_accepts_runs_that_have_all_diverged(output_of, tiny):
    lost = tiny.copy()
    lost["last_step"], lost["status"] = (
        ("run", [8] * 4),
        ("run", np.full(4, 2, np.int8)),
    )
    save_trajectory(lost, "a.nc")
    assert "no successful run" in output_of("analysis.circuits a.nc")
