"""Claims on circuits: estimates and verdicts on evidence whose answer is known."""

import math

import numpy as np
import pytest
import xarray as xr

from analysis.reproduction.clustering_heads import summary
from analysis.reproduction.odonnat2024 import circuits
from analysis.reproduction.own import sparse_networks
from analysis.reproduction.verification.criteria import Verdict
from tests.analysis.reproduction.judging import verdicts

CLAIMS = (*circuits.CLAIMS, *summary.CLAIMS, *sparse_networks.CLAIMS)
YES, PARTLY, NO, OPEN = Verdict.REPRODUCED, Verdict.PARTLY, Verdict.NOT, Verdict.UNDECIDED


def merge_lengths(counts):
    """Merge lengths with so many clusters at link lengths from .02 up to .5: (run, clusters)."""
    return np.where(np.arange(1, 65) < np.array(counts)[:, None], 0.5, 0.02)


def made(labels, accuracy, clusters=6, **more):
    """Evidence by run; runs encode different sums, and correlate with their own start alone."""
    runs = len(labels)
    by_run = {
        "label": labels, "test_accuracy": accuracy, "unseen_accuracy": accuracy, "sum_whole": np.ones(runs),
        "sum_congruent": np.array(accuracy) > 0.98, "leaking": np.array(labels) == "partial",
        "apart": np.array(labels) == "partial",
    }  # fmt: skip
    data = {name: ("run", np.array(values)) for name, values in by_run.items()}
    correlation = np.diag(np.linspace(0.7, 0.9, runs))
    counts = np.broadcast_to(clusters, runs)
    return xr.Dataset(data, {"clusters": np.arange(1, 65)}).assign(
        merge_length=(("run", "clusters"), merge_lengths(counts)),
        sum_steps=(("run", "position"), np.arange(2 * runs).reshape(runs, 2)),
        spurious_attention=(("run", "place"), np.ones((runs, 2))),
        embedding_spread=(("run", "place"), np.ones((runs, 2))),
        value_spread=(("run", "place"), np.linspace(0.1, 0.11, 2 * runs).reshape(runs, 2)),
        inherited=(("run", "other_run"), correlation), weights_kept=(("run", "other_run"), correlation),
    ).assign({name: ("run", np.array(values)) for name, values in more.items()})  # fmt: skip


def learned(**counts):
    """Evidence of successful runs with so many circuits of each label, and as many failed runs."""
    labels = [name.replace("_", " ") for name, count in counts.items() for _ in range(count)]
    clusters = np.where(np.isin(labels, ["partial", "fuzzy"]), 12, 6)
    runs = len(labels)
    return made(labels + ["none"] * runs, [1.0] * runs + [0.5] * runs, np.append(clusters, [6] * runs))


def test_kinds_of_circuits_are_counted():
    evidence = made(
        ["ideal", "corrected", "partial", "partial", "fuzzy", "none"], [1, 1, 1, 0.95, 0.95, 0.5], [6, 6, 9, 6, 12, 1],
        leaking=[0, 0, 1, 1, 5, 0], apart=[0, 0, 2, 0, 4, 0], sum_congruent=[1, 1, 1, 0, 0, 1],
    )  # fmt: skip
    cases = {
        "partial circuits": 40, "circuits that are not ideal": 80, "circuits without either": 40,
        "fuzzy circuits that generalise": 20,
    }  # fmt: skip
    for kind, expected in cases.items():
        found = circuits.percentage_of(evidence, kind, "runs with a circuit")
        assert (found.interval.value, found.count, found.note) == (expected, 5, "6 runs in all")
    whole = circuits.percentage_of(evidence, "circuits with all invariances", "successful runs")
    assert whole.interval.value == pytest.approx(200 / 3)
    assert circuits.percentage_of(evidence, "failed runs", "runs").interval.value == pytest.approx(100 / 6)
    for among, expected in (("successful runs", 100), ("runs that are not successful", 100 / 3)):
        assert circuits.percentage_of(evidence, "congruent sums", among).interval.value == pytest.approx(expected)


def test_clusters_are_counted_at_each_link_length():
    evidence = made(["partial"] * 4, [1.0] * 4, [6, 6, 12, 5])
    assert circuits.cluster_counts(evidence, 0.1).tolist() == [6, 6, 12, 5]
    assert circuits.cluster_counts(evidence, 0.6).tolist() == [1] * 4
    assert circuits.more_clusters(evidence, 0.1).interval.value == 25
    assert circuits.six_clusters(evidence, 0.1).interval.value == 50
    assert circuits.six_clusters(evidence, 0.01).interval.value == 0  # 65 or more
    lasting = circuits.lasting_six_clusters(evidence, 25)
    assert (lasting.interval.value, lasting.note) == (50, "at link lengths from 0.02 to 0.50, medians of these runs")
    assert circuits.lasting_six_clusters(evidence, 26).interval.value == 0
    exact = evidence.assign(merge_length=evidence["merge_length"].where(evidence["merge_length"] > 0.1, 0))
    assert circuits.lasting_six_clusters(exact, 1e9).interval.value == 50  # six points, not seven
    alike = exact.assign(merge_length=1 + 0 * exact["merge_length"])
    assert circuits.lasting_six_clusters(alike, 2).interval.value == 0


def test_pairs_of_sums_are_compared():
    steps = np.array([[1, 1], [1, 1], [1, -1], [3, 1]])
    evidence = made(["ideal"] * 4, [1.0] * 4)
    some = evidence.assign(sum_steps=(("run", "position"), steps))
    assert circuits.different_sums(some).interval.value == pytest.approx(500 / 6)
    value, low, high = circuits.different_sums(evidence.assign(sum_steps=0 * some["sum_steps"])).interval
    assert (value, low) == (0, 0)
    assert 80 < high < 100  # from two pairs without a run in common
    many = made(["ideal"] * 8, [1.0] * 8)
    many["sum_steps"][1] = many["sum_steps"][0]
    value, low, high = circuits.different_sums(many).interval
    assert value == pytest.approx(100 * 27 / 28)
    assert 30 < low < value < high < 100


def test_collapse_by_the_value_matrix_is_relative_to_the_spread_before_it():
    evidence = made(["corrected"] * 3, [1.0] * 3)
    assert circuits.spurious_collapse(evidence).interval.value == pytest.approx(0.105, abs=0.005)
    before = evidence.assign(embedding_spread=evidence["value_spread"])
    assert circuits.spurious_collapse(before).interval.value == pytest.approx(1)
    assert math.isnan(circuits.spurious_collapse(made(["none"], [0.5])).interval.value)


def test_similarity_of_own_starts_is_told_from_similarity_of_all(generator):
    noise = 0.05 * generator.standard_normal((30, 30))
    own = xr.Dataset({"inherited": (("run", "other_run"), 0.1 + 0.6 * np.eye(30) + noise)})
    assert circuits.start_similarity(own, "inherited").interval.value == pytest.approx(0.7, abs=0.05)
    assert circuits.excess_start_similarity(own, "inherited").interval.low > 0.5
    shared = own - 0.6 * np.eye(30) + 0.6
    assert abs(circuits.excess_start_similarity(shared, "inherited").interval.value) < 0.05
    diverged = own.where((own["run"] != 3) & (own["other_run"] != 3))
    assert circuits.excess_start_similarity(diverged, "inherited").count == 29
    assert circuits.start_similarity(diverged, "inherited").count == 29


def weak(evidence):
    """The same, without similarity of runs with their start, collapse, or different sums."""
    alike = np.linspace(0, 0.01, evidence.sizes["run"])[:, None] * np.ones(evidence.sizes["run"])
    return evidence.assign(
        inherited=(("run", "other_run"), alike), weights_kept=(("run", "other_run"), alike),
        embedding_spread=0.5 * evidence["value_spread"], sum_steps=0 * evidence["sum_steps"],
        sum_congruent=~evidence["sum_congruent"],
    )  # fmt: skip


# Bounds that we chose are never contradicted. A claim not named has the first verdict.
CASES = {
    "true": (learned(corrected=66, part_of_the_values=18, partial=33, fuzzy=3), YES, {}),
    "few": (
        learned(corrected=2, part_of_the_values=1, partial=3, fuzzy=1), OPEN,
        dict.fromkeys(["VC.figure2.exists", "VC.s3.2.part-of-values", "VC.figure3.several"], YES)
        | dict.fromkeys(["VC.s4.1.initial-weights", "VC.figure8.attention", "CH.abstract.initialisation"], YES)
        | dict.fromkeys(["VC.figure4.generalises", "VC.appA.2.difficult", "OWN.sum-failures", "VC.s3.2.by-value"], YES)
        | {"VC.s3.2.fuzzy": PARTLY},
    ),
    "false": (
        weak(learned(ideal=80)), NO,
        dict.fromkeys(
            ["VC.s3.2.corrected", "VC.s3.2.partial", "VC.s2.1.variety", "VC.s3.2.variety", "VC.s4.1.runs-differ"], OPEN
        )
        | {"VC.s3.2.fuzzy": PARTLY, "VC.figure8.attention": OPEN, "VC.s4.1.initial-weights": OPEN}  # not above 10%
        | dict.fromkeys(["VC.s3.2.by-value", "VC.s3.2.partial-clusters"], Verdict.UNTESTABLE)
        | dict.fromkeys(["VC.appA.2.difficult", "VC.s3.2.often-invariant"], YES)
        | dict.fromkeys(["CH.abstract.invariants", "CH.abstract.clusters"], YES),
    ),
    "marginal": (
        learned(ideal=3, corrected=40, partial=55, fuzzy=2).assign(value_spread=lambda _: _["embedding_spread"] * 0.7),
        YES,
        {"VC.s3.2.deviate": PARTLY, "VC.s3.2.by-value": PARTLY, "VC.s3.2.part-of-values": NO}
        | dict.fromkeys(["CH.abstract.invariants", "CH.abstract.clusters"], OPEN),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_verdicts_follow_the_evidence(case):
    evidence, usual, others = CASES[case]
    found = verdicts(CLAIMS, evidence, "vc.circuits")
    assert found == dict.fromkeys(found, usual) | others
