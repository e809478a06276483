"""Structures of end states, and the claims on them, for embeddings and evidence whose
answer is known."""

import numpy as np
import pytest
from scipy import stats

from analysis.reproduction.claim import Sign, Verdict
from analysis.reproduction.musat2024 import appendix_f_claims, end_states
from analysis.reproduction.musat2024.particle_claims import FAS
from analysis.structures.circles_and_grids import count_imperfections
from analysis.structures.lattices import perfect_grids
from analysis.structures.printed_tables import TABLE_1, TABLE_2
from tests.analysis.reproduction.evidence_by_hand import dataset, judged
from tests.polygons import polygon


def test_ideal_structures_are_nearer_than_renamed_ones():
    x = np.stack([polygon(11, step=3), perfect_grids(11).basis[7]])
    distances = end_states.structure_distances(x)
    np.testing.assert_allclose(distances["circle_distance"], [0, 0.8], atol=0.05)
    np.testing.assert_allclose(distances["grid_distance"], [0.45, 0], atol=0.05)
    assert (distances["renamed_distance"] > 0.02).all()


def test_renamed_embeddings_have_the_same_positions(generator):
    x = generator.standard_normal((30, 7, 2))
    renamed = end_states.rename_tokens(x)
    np.testing.assert_array_equal(np.sort(renamed, axis=1), np.sort(x, axis=1))
    kept = (renamed == x).all(axis=-1).mean()
    assert kept == pytest.approx(1 / 7, abs=0.1)


def test_a_random_embedding_is_nearer_than_renamed_in_half_of_the_cases(generator):
    distances = end_states.structure_distances(generator.standard_normal((300, 7, 2)))
    evidence = dataset("run", **distances)
    estimate = end_states.nearer_than_renamed(evidence, "runs")
    assert estimate.interval.low < 0 < estimate.interval.high
    nearer = evidence.assign(renamed_distance=1 + 0 * evidence["renamed_distance"])
    assert end_states.nearer_than_renamed(nearer, "runs").value == 50
    diverged = nearer.where(nearer["run"] > 0)
    assert end_states.nearer_than_renamed(diverged, "runs").count == 299


def test_imperfections_by_chance_are_those_of_random_permutations(generator):
    x = generator.standard_normal((2, 7, 2))
    permuted = [count_imperfections(x[:, generator.permutation(7)]) for _ in range(400)]
    chance = end_states.shuffled_imperfections(x)
    np.testing.assert_allclose(chance, np.mean(permuted, axis=0), atol=2)


def test_projections_find_a_circle_among_other_axes(generator):
    noise = 0.01 * generator.standard_normal((7, 1))
    flat = np.concatenate([polygon(7, step=3), noise], axis=1)
    turn = stats.special_ortho_group.rvs(3, random_state=1)
    x = np.stack([flat, flat @ turn, generator.standard_normal((7, 3))])
    distances = appendix_f_claims.projection_distances(x)["circle_distance"]
    assert distances[0] < 0.01
    assert distances[1] < 0.02
    assert distances[2] > 0.3


# ----------------------------------------------------------------------------- tables


def rows(circles, columns, setting, values, runs=1000):
    """Evidence of the rows of a table, by percentages of circles and by means of normal
    numbers."""
    circle = np.arange(runs) < runs / 100 * np.array(circles)[:, None]
    noise = np.random.default_rng(1).permutation(
        stats.norm.ppf((np.arange(runs) + 0.5) / runs)
    )
    made = {
        name: mean(circle) + spread * noise for name, (mean, spread) in columns.items()
    }
    coords = {setting: list(values)}
    return dataset((setting, "run"), coords, circle=circle.astype(float), **made)


def mean_of_row(table, name):
    printed = [float(getattr(row, name).split()[0]) for row in table.values()]
    return lambda circle: np.array(printed)[:, None] + 0 * circle


@pytest.mark.parametrize("fa", FAS)
@pytest.mark.parametrize("more", [0, 30])
def test_rows_of_particles_are_compared_with_the_printed_ones(fa, more):
    circles = [row.circles + more for row in TABLE_2.values()]
    columns = {"imperfections": (mean_of_row(TABLE_2, "imperfections"), 20)}
    evidence = rows(circles, columns, "fa", FAS)
    evidence["imperfections"] += more
    expected = Verdict.DIFFERS if more else Verdict.AGREES
    numbers = judged(f"CA.table2.fa{fa:g}", evidence)
    assert {number.verdict for number in numbers} == {expected}


@pytest.mark.parametrize("decay", TABLE_1)
def test_rows_of_networks_are_compared_with_the_printed_ones(decay):
    circles = [row.circles for row in TABLE_1.values()]
    accuracy = mean_of_row(TABLE_1, "other_accuracy_percent")
    columns = {
        "imperfections": (mean_of_row(TABLE_1, "imperfections"), -20),
        "accuracy": (lambda circle: accuracy(circle) + 15 * circle, 10),
        "chance_imperfections": (lambda circle: 145 + 0 * circle, 0),
    }
    evidence = rows(circles, columns, "weight_decay", TABLE_1)
    numbers = judged(f"CA.table1.decay{decay:g}", evidence)
    by_label = {number.number.label: number for number in numbers}
    for label in ("circles", "accuracy of the others", "imperfections of the others"):
        assert by_label[label].verdict is Verdict.AGREES
    correlation = by_label["correlation of accuracy and imperfections of the others"]
    assert correlation.estimate.value == pytest.approx(-1)
    (clusters,) = judged("CA.figure3.clusters", evidence)
    assert clusters.estimate.value == pytest.approx(100 * (145 - 39.6) / 153, abs=0.5)


def test_detection_of_circles_by_their_errors():
    """Of ten circles nine are polygons; of ninety other networks there is one."""
    circle = np.repeat([1.0, 0.0, np.nan], [10, 90, 1])
    polygons = np.repeat([1, 0, 1, 0, 1], [9, 1, 1, 89, 1])
    evidence = dataset(
        ("weight_decay", "run"),
        circle=circle[None],
        circle_distance=1 - polygons[None],
        grid_distance=np.full((1, 101), 0.5),
    )
    numbers = judged("CA.appA.circles", evidence)
    for number in numbers:
        assert number.estimate.value == pytest.approx(90 - 100 / 90)
        assert number.number.expected is Sign.POSITIVE
