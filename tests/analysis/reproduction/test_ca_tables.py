"""Tables 1 and 2 of CA, and the commands that print them."""

import csv
import io

import numpy as np
import pytest

from analysis.reproduction.ca_tables import (
    PRINTED_PARTICLE_ROWS,
    is_printed_network_row,
    is_printed_particle_row,
    network_outcome,
    particle_row,
    print_ca_table,
)
from analysis.structures.circles_and_grids import count_imperfections, summarise_structures
from dynamics.settings import ModularSettings, ParticleSettings
from dynamics.simulation import simulate
from tests.polygons import polygon


@pytest.mark.parametrize(
    ("fa", "circles", "imperfections"),
    [(0.5, (0, 3.6), (31.8, 39.2)), (1.0, (8, 26), (31.5, 41.1)), (2.0, (46, 66), (32.8, 53))],
)
def test_table_2_is_within_what_the_papers_hundred_runs_allow(fa, circles, imperfections, capsys):
    settings = ParticleSettings(fa=fa)
    ends = simulate(settings, runs=1000, every=100, progress=False)["embedding"].isel(step=-1).values
    found = summarise_structures(ends)
    assert circles[0] <= 100 * found.circle_fraction.value <= circles[1]
    assert imperfections[0] <= found.imperfections.value <= imperfections[1]
    row = particle_row(settings, 100, ends)
    assert PRINTED_PARTICLE_ROWS[fa].imperfections.startswith(row["paper_imperfections"])
    print_ca_table([row], None)
    assert capsys.readouterr().out.splitlines()[-1].endswith(PRINTED_PARTICLE_ROWS[fa].imperfections)


def test_the_paper_is_quoted_only_for_its_own_settings():
    assert is_printed_network_row(ModularSettings(weight_decay=0.3), 2000)
    assert not is_printed_network_row(ModularSettings(weight_decay=0.3), 1000)
    assert not is_printed_network_row(ModularSettings(weight_decay=0.5), 2000)
    assert not is_printed_network_row(ModularSettings(weight_decay=0.3, hidden=64), 2000)
    assert is_printed_particle_row(ParticleSettings(fa=2.0, step_rule="direction"), 100)
    assert not is_printed_particle_row(ParticleSettings(fa=2.0), 99)
    assert not is_printed_particle_row(ParticleSettings(fa=1.5), 100)
    assert not is_printed_particle_row(ParticleSettings(fa=2.0, n=19), 100)


def test_table_1_and_its_csv(typed):
    words = ("analysis.table1", "--runs", 4, "--epochs", 30, "--n", 5)
    assert "in the paper" not in typed(*words)[1]  # whose settings are others
    rows = list(csv.DictReader(io.StringIO(typed(*words, "--csv", "-")[1])))
    assert [float(row["weight_decay"]) for row in rows] == [0, 0.3, 0.6, 1]
    assert all(int(row["circles"]) + int(row["others"]) == 4 for row in rows)
    assert not any(row["paper_circles_of_100"] for row in rows)


def test_an_outcome_is_that_of_its_runs(generator):
    ends = np.concatenate([[polygon(7), polygon(7, radius=2.0)], generator.normal(size=(5, 7, 2))])
    accuracy = np.array([0.9, 0.7, 0.1, 0.2, 0.3, 0.4, 0.5])
    found = network_outcome(ends, accuracy)
    assert (found.runs, found.circles, found.others) == (7, 2, 5)
    np.testing.assert_allclose([found.circle_accuracy.value, found.other_accuracy.value], [0.8, 0.3])
    assert (found.circle_accuracy.low, found.circle_accuracy.high) == (0, 1)  # and not 0.8 ± 1.27
    expected = np.corrcoef(count_imperfections(ends[2:]), accuracy[2:])[0, 1]
    np.testing.assert_allclose(found.correlation.value, expected)
    assert found.correlation.low < expected < found.correlation.high
    assert np.isnan(network_outcome(ends[:0], accuracy[:0]).correlation.value)
