"""Labels of circuits built by hand of every kind, phases, what is inherited, and the command."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
import xarray as xr

from analysis.clustering_heads.circuit_analysis import measure_circuits
from analysis.clustering_heads.clusters import ideal_cluster_count
from analysis.clustering_heads.constructions import (
    corrected_circuit,
    ideal_circuit,
    inattentive_circuit,
    one_sided_circuit,
    summing_circuit,
)
from analysis.clustering_heads.init_dependence import (
    attention_start_end_correlation,
    compare_same_seed,
    endpoint_similarity,
    pairwise_correlations,
    relative_weight_distances,
)
from analysis.clustering_heads.invariances import INVARIANCE_VARIABLES, measure_invariances, network_invariances
from analysis.clustering_heads.labels import (
    CIRCUIT_LABELS,
    LabelThresholds,
    circuit_label,
    circuit_labels,
    label_counts,
    label_sensitivity,
    positions_outside_largest_group,
)
from analysis.clustering_heads.learning_phases import evenly_spaced_frames, half_rise_time, measure_learning_phases
from dynamics.errors import TrajectoryError
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.settings import ParticleSettings, SettingsError, SparseSettings
from dynamics.simulation import simulate
from dynamics.tasks import sparse_sum
from dynamics.trajectory.reader import open_trajectory
from dynamics.trajectory.recorder import save_trajectory

NORMS = ("rms", "unit", "rms-smooth", "unit-smooth")
TERNARY = {"vocab": 3, "length": 7, "sparsity": 3}
TINY = SparseSettings(length=6, sparsity=2, hidden=6, data=64, batch=16)


def judged(s, weights, by=None):
    """The verdict on one circuit, by way of what `invariances` gives of a trajectory with it alone."""
    return circuit_label(
        dataset([network_invariances(ClusteringHead(s), weights)], s).isel(run=0), by or LabelThresholds()
    )


def dataset(rows, s):
    data = {
        name: (("run", *INVARIANCE_VARIABLES[name][0]), np.stack([np.asarray(row[name], float) for row in rows]))
        for name in INVARIANCE_VARIABLES
    }
    return xr.Dataset(data, {"counting": list(s.counting)})


# ----------------------------------------------------------------------------------- circuits built by hand


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("changes", "clusters"), [({}, 6), (TERNARY, 10)])
def test_the_ideal_circuit_is_ideal_and_solves_the_task(norm, changes, clusters):
    s = SparseSettings(norm=norm, **changes)
    weights = ideal_circuit(s)
    found = network_invariances(ClusteringHead(s), weights)
    assert found["accuracy"] == 1
    assert found["clusters"] == ideal_cluster_count(s) == clusters
    assert found["class_share"] == pytest.approx(1, abs=1e-9)
    assert found["attention"][: s.sparsity].sum() > 0.999
    assert judged(s, weights).label == "ideal"


def test_other_forms_of_the_network_have_an_ideal_circuit():
    for s in (
        SparseSettings(output_bias=False, receptor_biases=False, activation="relu"),
        SparseSettings(positions=(1, 4, 6, 7, 10), dim=4),
        SparseSettings(vocab=3, table=5, length=7, sparsity=3),
    ):
        assert judged(s, ideal_circuit(s)).label == "ideal", s


@pytest.mark.parametrize("norm", NORMS)
def test_attention_elsewhere_is_corrected(norm):
    for changes, fraction in (({}, "0.42"), (TERNARY, "0.43")):
        s = SparseSettings(norm=norm, **changes)
        found = judged(s, inattentive_circuit(s))
        assert found.label == "corrected"
        assert f"only {fraction} of the attention" in found.reason
    s = SparseSettings(norm=norm, dim=3)
    found = judged(s, corrected_circuit(s))
    assert found.label == "corrected"
    assert found.reason.endswith("1.34 in z, 0.00 in V z")


@pytest.mark.parametrize(("mass", "label"), [(0.91, "ideal"), (0.89, "corrected")])
def test_an_ideal_circuit_has_most_attention_on_counting_positions(mass, label):
    s = SparseSettings()
    row = network_invariances(ClusteringHead(s), ideal_circuit(s))
    row["attention"] = np.where(
        np.arange(s.length) < s.sparsity, mass / s.sparsity, (1 - mass) / (s.length - s.sparsity)
    )
    assert circuit_label(dataset([row], s).isel(run=0)).label == label


def test_attention_to_part_of_the_values_is_told():
    s = SparseSettings()
    found = judged(s, one_sided_circuit(s))
    assert found.label == "part of the values"
    assert found.reason.startswith("token 0 gets 0.1")
    assert judged(s, one_sided_circuit(s, ratio=0.5)).label == "corrected"


@pytest.mark.parametrize(
    ("coefficients", "label", "leaking", "apart", "words"),
    [
        ([1] * 5 + [0] * 7, "corrected", (), (), "attention"),
        ([1] * 5 + [0, 2, 0, 0, 0, 0, 0], "partial", (6,), (), "not invariant to the value at position 6"),
        ([1, 3, 1, 1, 1] + [0] * 7, "partial", (), (1,), "position 1 does not swap with the others"),
        ([1, 3, 1, 1, 5, 2, 0, 0, 0, 0, 0, 2], "partial", (5, 11), (1, 4), "5 and 11; positions 1 and 4 do not swap"),
        ([1, 1, 3, 3, 5, 2, 2, 2, 2, 0, 0, 0], "fuzzy", (5, 6, 7, 8), (2, 3, 4), "positions 5, 6, 7 and 8; positions"),
    ],
)
def test_what_a_circuit_lacks_is_named(coefficients, label, leaking, apart, words):
    s = SparseSettings()
    weights = summing_circuit(s, coefficients)
    assert network_invariances(ClusteringHead(s), weights)["accuracy"] == 1
    found = judged(s, weights)
    assert found[:1] + found[2:] == (label, leaking, apart)
    assert words in found.reason


def test_first_weights_are_no_circuit():
    network = ClusteringHead(SparseSettings())
    first = network.initial(np.arange(5))
    rows = [{name: torch.from_numpy(each[run]).double() for name, each in first.items()} for run in range(5)]
    assert {judged(network.settings, row).label for row in rows} == {"none"}


def test_an_ideal_front_without_a_transform_is_no_circuit():
    s = SparseSettings()
    weights = ideal_circuit(s)
    weights["assembler"] = torch.zeros_like(weights["assembler"])
    found = judged(s, weights)
    assert found.label == "none"
    assert found.reason.startswith("accuracy 0.")


def test_circuits_that_cannot_be_built_are_refused():
    with pytest.raises(ValueError, match="hidden: found 4, allowed is 5 or more"):
        ideal_circuit(SparseSettings(hidden=4))
    with pytest.raises(ValueError, match="p = 4 and d = 2"):
        ideal_circuit(SparseSettings(vocab=4))
    with pytest.raises(ValueError, match="different targets in one direction"):
        summing_circuit(SparseSettings(), [1, 1, 1, 1, 0] + [0] * 7)
    with pytest.raises(ValueError, match="p = 2 and d = 2, expected"):
        corrected_circuit(SparseSettings())


# ----------------------------------------------------------------------------------------------- labels


def test_tokens_that_are_told_apart_at_a_position_are_named():
    s = SparseSettings(**TERNARY)
    found = network_invariances(ClusteringHead(s), ideal_circuit(s))
    share = np.zeros((3, 3))
    share[0, 1:] = share[1:, 0] = 0.05
    found["token_share"][6], found["value_share"][6] = share, share.mean()
    one = dataset([found], s).isel(run=0)
    assert circuit_label(one).reason == "distinguishes 0 from 1, 0 from 2 at position 6"
    assert circuit_label(one).label == "partial"


def test_groups_of_positions_that_swap():
    share = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]) / 2
    assert positions_outside_largest_group(share, 0.1) == [1, 3]  # of equal groups that of the first counts
    assert positions_outside_largest_group(share, 0.6) == []
    chain = np.array([[0, 0.05, 0.2], [0.05, 0, 0.05], [0.2, 0.05, 0]])
    assert positions_outside_largest_group(chain, 0.1) == []
    assert positions_outside_largest_group(np.ones((3, 3)) - np.eye(3), 0.1) == [1, 2]


def test_counts_and_how_they_depend_on_thresholds():
    s = SparseSettings()
    made = [
        ideal_circuit(s), inattentive_circuit(s), one_sided_circuit(s, ratio=0.15),
        summing_circuit(s, [10] * 5 + [1] + [0] * 6),
        {name: torch.zeros_like(each) for name, each in ideal_circuit(s).items()},
    ]  # fmt: skip
    found = dataset([network_invariances(ClusteringHead(s), each) for each in made[:3] + made[4:]], s)
    np.testing.assert_array_equal(label_counts(found), [1, 1, 1, 0, 0, 1])
    assert [each.label for each in circuit_labels(found)] == ["ideal", "corrected", "part of the values", "none"]
    table = label_sensitivity(found)
    assert table.dims == ("threshold", "factor", "label")
    np.testing.assert_array_equal(table.sum("label"), 4)
    np.testing.assert_array_equal(table.sel(factor=1), np.tile(label_counts(found), (5, 1)))
    halved = table.sel(threshold="part", factor=0.5).values
    assert halved[CIRCUIT_LABELS.index("corrected")] == 2
    # a leak of a tenth of a step has the value share .01/5.01, within the tolerance and beyond a fifth of it
    weak = judged(s, made[3])
    assert weak.label == "corrected"
    assert judged(s, made[3], LabelThresholds(tolerance=0.0019)).leaking == (5,)


# ----------------------------------------------------------------------------------------------- phases


def test_the_lasting_half_in_plain_loops(generator):
    values, time = generator.uniform(0, 1, (200, 9)), np.cumsum(generator.uniform(1, 2, 9))
    for row, found in zip(values, half_rise_time(values, time), strict=True):
        half = (row[0] + row[-1]) / 2
        expected = next((time[k] for k in range(9) if (row[k:] >= half).all()), np.nan)
        expected = expected if row[-1] - row[0] >= 0.01 else np.nan
        np.testing.assert_equal(found, expected)
    assert np.isnan(half_rise_time(np.array([0, np.nan, 1]), np.arange(3)))
    assert np.isnan(half_rise_time(np.array([0.999999, 0.999999, 1]), np.arange(3)))
    assert half_rise_time(np.array([0.98, 0.98, 1]), np.arange(3)) == 2
    with pytest.raises(ValueError, match="2 frames"):
        half_rise_time(np.zeros(3), np.arange(2))


def test_frames_are_even_and_keep_both_ends():
    np.testing.assert_array_equal(evenly_spaced_frames(11, 6), [0, 2, 4, 6, 8, 10])
    np.testing.assert_array_equal(evenly_spaced_frames(3, 10), [0, 1, 2])


def planted(tiny, moments):
    """A trajectory whose first run's front, and then its transform, become an ideal circuit's at given frames."""
    circuit, settled = ideal_circuit(TINY), tiny.copy(deep=True)
    for name in circuit:
        front = name in ("embedding", "position_embedding", "query", "value")
        settled[name].values[0, moments[0 if front else 1] :] = circuit[name].numpy()
    accuracy = settled["accuracy"].transpose("run", "step", "split").values
    accuracy[0] = np.where(np.arange(7) >= moments[1], 1.0, 0.5)[:, None]
    settled["accuracy"] = (("run", "step", "split"), accuracy)
    return settled


def test_clusters_form_when_the_front_is_there_and_are_told_apart_when_the_transform_is(tiny):
    found = measure_learning_phases(planted(tiny, (2, 5)))
    epoch = tiny["epoch"].values
    assert found["formed"].values[0] == epoch[2]
    assert found["separated"].values[0] == epoch[5]
    np.testing.assert_allclose(found["final_share"].values[0, 2:], 1, atol=1e-4)
    assert found["multiset_share"].values[0, 2] == pytest.approx(1, abs=1e-4)
    assert found.sizes["step"] == 7
    assert measure_learning_phases(tiny, frames=3).sizes["step"] == 3


def test_phases_of_what_has_diverged_or_has_one_frame(tiny):
    lost = tiny.copy()
    lost["last_step"] = ("run", [24, 8, 24, 24])
    assert np.isnan(measure_learning_phases(lost)["formed"].values[1])
    with pytest.raises(TrajectoryError, match="found one frame"):
        measure_learning_phases(tiny.isel(step=[0]))
    with pytest.raises(SettingsError, match="frames: found 1"):
        measure_learning_phases(tiny, frames=1)


# ------------------------------------------------------------------------------------------ inheritance


def test_correlations_are_numpys(generator):
    first, second = generator.standard_normal((3, 40)), generator.standard_normal((4, 40)) + 5
    np.testing.assert_allclose(pairwise_correlations(first, second), np.corrcoef(first, second)[:3, 3:], atol=1e-12)
    second[1] = 0.1
    assert np.isnan(pairwise_correlations(first, second)[:, 1]).all()


def test_own_pairs_stand_out_only_if_they_are_alike(generator):
    noise = generator.standard_normal((12, 12))
    own = compare_same_seed(noise + 5 * np.eye(12), higher=True)
    assert own.p == 1e-4
    assert own.own.value - own.others.value == pytest.approx(5, abs=1)
    assert compare_same_seed(-noise - 5 * np.eye(12), higher=False).p == 1e-4
    assert compare_same_seed(noise + 5 * np.eye(12), higher=False).p == 1.0
    assert compare_same_seed(np.ones((5, 5)), higher=True).p == 1.0
    lost = noise.copy()
    lost[3] = np.nan
    assert compare_same_seed(lost, higher=True).runs == 11
    every = [compare_same_seed(generator.standard_normal((6, 6)), True, permutations=99).p for _ in range(300)]
    assert abs(np.mean(np.array(every) <= 0.1) - 0.1) < 0.05


def test_three_runs_have_six_permutations():
    found = compare_same_seed(np.diag([3.0, 2.0, 1.0]), higher=True, permutations=6000)
    assert found.p == pytest.approx(1 / 6, abs=0.02)


def test_attention_that_stays_is_inherited_whole(tiny):
    still = tiny.copy(deep=True)
    for name in ("embedding", "position_embedding", "query"):
        still[name].values[:] = still[name].values[:, :1]
    found = attention_start_end_correlation(still)
    np.testing.assert_allclose(np.diagonal(found), 1)
    assert (found.values[~np.eye(4, dtype=bool)] < 0.999).all()
    network = ClusteringHead(TINY)
    tokens = torch.tensor(list(itertools.product(range(2), repeat=6)))
    maps = [
        network.attention(
            {name: torch.from_numpy(tiny[name].values[run, at]).double() for name in network.shapes}, tokens
        )
        for run, at in ((1, 0), (2, -1))
    ]
    expected = np.corrcoef(*(each.numpy().ravel() for each in maps))[0, 1]
    np.testing.assert_allclose(attention_start_end_correlation(tiny).values[1, 2], expected, rtol=1e-6)


def test_weights_that_go_apart_at_random_end_a_diagonal_apart():
    start = np.zeros((2, 3))
    first, second = np.array([[3.0, 0, 0], [0, 3, 0]]), np.array([[3.0, 0, 0], [0, 0, 3]])
    expected = [[0, np.sqrt(2)], [np.sqrt(2), np.sqrt(2)]]
    np.testing.assert_allclose(relative_weight_distances(start, start, first, second), expected)
    assert np.isnan(relative_weight_distances(start, start, start, start)).all()


def test_moves_with_another_setting(tiny):
    same = endpoint_similarity(tiny, tiny)
    np.testing.assert_allclose(np.diagonal(same["weight_distance"]), 0)
    np.testing.assert_allclose(np.diagonal(same["shape_distance"]), 0, atol=1e-6)
    np.testing.assert_allclose(np.diagonal(same["attention_correlation"]), 1)
    other = simulate(dataclasses.replace(TINY, lr=0.01), runs=4, steps=24, every=4, progress=False)
    found = endpoint_similarity(tiny, other)
    assert (np.diagonal(found["weight_distance"]) > 0).all()
    assert compare_same_seed(found["weight_distance"].values, higher=False).p < 0.1
    for changes, word in (({"hidden": 7}, "networks of"), ({"sparsity": 3}, "another task")):
        wrong = simulate(dataclasses.replace(TINY, **changes), runs=4, steps=4, progress=False)
        with pytest.raises(TrajectoryError, match=word):
            endpoint_similarity(tiny, wrong)
    with pytest.raises(TrajectoryError, match="the second trajectory: found runs of other seeds"):
        endpoint_similarity(tiny, simulate(TINY, runs=4, seed=1, steps=4, progress=False))
    begun = tiny.copy(deep=True)
    begun["query"].values[:, 0] += 1
    with pytest.raises(TrajectoryError, match="do not begin at the same weights"):
        endpoint_similarity(tiny, begun)


# ------------------------------------------------------------------------------------------- the command


def test_the_command_prints_writes_and_draws(typed, tiny, tmp_path):
    save_trajectory(planted(tiny, (2, 5)), tmp_path / "a.nc")
    save_trajectory(tiny.isel(run=slice(4)), tmp_path / "b.nc")
    code, out, err = typed("analysis.circuits", "a.nc", "b.nc", "--csv", "a.csv", "--frames", 7)
    assert (code, err) == (0, "")
    assert "partial" in out
    assert "the 3 clusters of an ideal circuit" in out
    assert "different seeds" in out
    with xr.open_dataset(tmp_path / "a-circuits.nc") as found:
        assert found["label"].values.tolist()[0] == "ideal"
        assert set(CIRCUIT_LABELS) >= set(found["label"].values.tolist())
        assert found.attrs["other"] == "b.nc"
        assert found["weight_distance"].dims == ("run", "other_run")
        assert all("units" in each.attrs for name, each in found.data_vars.items() if each.dtype.kind == "f")
    assert (tmp_path / "a-circuits.png").stat().st_size > 10_000
    table = (tmp_path / "a.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table[1:]] == list(CIRCUIT_LABELS)
    assert table[1].split(",")[1] == "1"
    assert typed("analysis.circuits", "a.nc", "--frames", 3)[0] == 0


def test_the_command_goes_on_where_every_run_has_diverged(typed, tiny, tmp_path):
    lost = tiny.copy()
    lost["last_step"], lost["status"] = ("run", [8] * 4), ("run", np.full(4, 2, np.int8))
    save_trajectory(lost, tmp_path / "a.nc")
    code, out, err = typed("analysis.circuits", "a.nc")
    assert (code, err) == (0, "")
    assert "no successful run" in out


def test_one_run_of_scores_far_apart_does_not_stop_the_others(typed, tiny, tmp_path):
    far = planted(tiny, (2, 5))
    far["query"].values[1] *= 1e6
    save_trajectory(far, tmp_path / "a.nc")
    code, out, err = typed("analysis.circuits", "a.nc")
    assert (code, err) == (0, "")
    assert "encode a sum of whole steps that is congruent to the target (it explains at least 100.0% of" in out
    assert "fuzzy: most invariances are missing" in out
    assert "congruent sum" in out
    with xr.open_dataset(tmp_path / "a-circuits.nc") as found:
        assert found["label"].values[:2].tolist() == ["ideal", "none"]
        assert found["reason"].values[1] == "attention scores more than 600 apart"
        assert found["far_scores"].values.tolist() == [0, 1, 0, 0]
        assert np.isnan(found["formed"].values[1])
        assert np.isfinite(found["accuracy"].values[[0, 2, 3]]).all()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["p.nc"], 1, "found particles"),
        (["m.nc"], 1, "contains no weights"),
        (["a.nc", "a.nc"], 1, "a.nc: found the same file"),
        (["a.nc", "link.nc"], 1, "link.nc: found the same file"),
        (["a.nc", "none.nc"], 1, "none.nc: no such file"),
        (["a.nc", "--frames", "1"], 2, "--frames: found 1"),
        (["a.nc", "s.nc"], 1, "runs of the same seeds"),
    ],
)
def test_mistakes_are_told_in_a_line(typed, tiny, tmp_path, words, code, said):
    save_trajectory(tiny, tmp_path / "a.nc")
    (tmp_path / "link.nc").symlink_to(tmp_path / "a.nc")
    simulate(ParticleSettings(n=5), runs=2, steps=3, out=tmp_path / "p.nc", progress=False)
    simulate(TINY, runs=2, steps=4, record="metrics", out=tmp_path / "m.nc", progress=False)
    simulate(TINY, runs=4, seed=7, steps=4, out=tmp_path / "s.nc", progress=False)
    found, _, err = typed("analysis.circuits", *words)
    assert found == code
    assert said in err
    assert err.count("\n") == 1


def test_a_run_that_succeeds_by_training_is_judged_by_its_own_accuracy():
    s = SparseSettings(length=5, sparsity=2, data=200, batch=20, lr=0.01)
    trajectory = simulate(s, runs=6, steps=3000, every=1500, progress=False)
    found = measure_circuits(trajectory, frames=3)
    network = ClusteringHead(s)
    tokens = torch.tensor(list(itertools.product(range(2), repeat=5)))
    for run in range(6):
        one = {name: torch.from_numpy(trajectory[name].values[run, -1]).double() for name in network.shapes}
        right = network.logits(one, tokens).argmax(-1).numpy() == sparse_sum(tokens.numpy(), s)
        assert found["accuracy"].values[run] == pytest.approx(right.mean())
        assert (found["label"].values[run] == "none") == (right.mean() < 0.75)
    assert found["successful"].values.any()


def test_invariances_of_a_saved_trajectory_are_those_in_memory(tiny, tmp_path):
    save_trajectory(tiny, tmp_path / "a.nc")
    xr.testing.assert_equal(measure_invariances(open_trajectory(tmp_path / "a.nc")), measure_invariances(tiny))
