"""Tables 1 and 2 of CA, and the commands that print them."""

import csv
import dataclasses
import signal
from pathlib import Path

import numpy as np
import pytest

from analysis.statistics.intervals import mean_interval
from analysis.structures import ensemble_ends
from analysis.structures.circles_and_grids import count_imperfections
from analysis.structures.printed_tables import TABLE_1, TABLE_2
from analysis.structures.structure_tables import (
    ca_table_row,
    network_columns,
    print_ca_table,
    printed_row,
)
from dynamics import Ensemble, ModularSettings, ParticleSettings, simulate
from dynamics.errors import Interrupted
from tests.polygons import polygon


@pytest.mark.parametrize(
    ("fa", "circles", "imperfections"),
    [
        (0.5, (0, 3.6), (31.8, 39.2)),
        (1.0, (8, 26), (31.5, 41.1)),
        (2.0, (46, 66), (32.8, 53)),
    ],
)
def test_table_2_is_within_the_papers_intervals(fa, circles, imperfections, capsys):
    row = ca_table_row(simulate(ParticleSettings(fa=fa), runs=1000, every=100))
    assert circles[0] <= row["circles_percent"] <= circles[1]
    assert imperfections[0] <= row["imperfections"] <= imperfections[1]
    assert TABLE_2[fa].imperfections.startswith(row["paper_imperfections"])
    print_ca_table([row], None)
    assert capsys.readouterr().out.splitlines()[-1].endswith(TABLE_2[fa].imperfections)


def test_printed_rows_are_of_the_papers_settings_only():
    networks = ModularSettings(weight_decay=0.3)
    particles = ParticleSettings(fa=2.0, step_rule="direction")
    assert printed_row(networks, 2000) == TABLE_1[0.3]
    assert printed_row(particles, 100) == TABLE_2[2.0]
    assert printed_row(networks, 1000) is printed_row(particles, 99) is None
    for changes in ({"weight_decay": 0.5}, {"hidden": 64}):
        assert printed_row(dataclasses.replace(networks, **changes), 2000) is None
    for changes in ({"fa": 1.5}, {"n": 19}):
        assert printed_row(dataclasses.replace(particles, **changes), 100) is None


def test_table_1_and_its_csv(typed):
    words = ("analysis.paper table1", "--runs", 4, "--epochs", 30, "--n", 5)
    assert "in the paper" not in typed(*words)[1]  # whose settings are others
    rows = list(csv.DictReader(typed(*words, "--csv", "-")[1].splitlines()))
    assert [float(row["weight_decay"]) for row in rows] == [0, 0.3, 0.6, 1]
    assert all(int(row["circles"]) + int(row["others"]) == 4 for row in rows)
    assert not any(row["paper_circles_of_100"] for row in rows)


def accuracies_interval(percentages):
    interval = mean_interval(np.array(percentages, float), limits=(0, 100))
    assert 0 < interval.low < 30
    return interval.low, interval.high


def test_columns_of_table_1(generator):
    ends = np.concatenate(
        [[polygon(7), polygon(7, radius=2.0)], generator.normal(size=(5, 7, 2))]
    )
    accuracy = np.array([0.9, 0.7, 0.1, 0.2, 0.3, 0.4, 0.5])
    result = network_columns(ends, accuracy)
    assert (result["runs"], result["circles"], result["others"]) == (7, 2, 5)
    assert (
        result["circle_accuracy_percent"],
        result["other_accuracy_percent"],
    ) == pytest.approx((80, 30))
    assert (
        result["circle_accuracy_percent_low"],
        result["circle_accuracy_percent_high"],
    ) == pytest.approx(accuracies_interval([90, 70]))  # not 80 ± 127
    expected = np.corrcoef(count_imperfections(ends[2:]), accuracy[2:])[0, 1]
    np.testing.assert_allclose(result["correlation"], expected)
    assert result["correlation_low"] < expected < result["correlation_high"]
    assert np.isnan(network_columns(ends[:0], accuracy[:0])["correlation"])


@pytest.mark.parametrize(
    ("table", "words"), [("table1", ("--epochs", 30)), ("table2", ())]
)
def test_large_ensembles_in_portions_have_the_rows_of_one_trajectory(
    table, words, typed, monkeypatch
):
    words = (f"analysis.paper {table}", "--runs", 7, "--n", 5, *words)
    whole = typed(*words, "--csv", "-")[1]
    monkeypatch.setattr(ensemble_ends, "PORTION", 3)
    simulated = []
    simulate_whole = Ensemble.simulate

    def simulate_counted(ensemble, *arguments, **options):
        if len(simulated) == 4:
            raise Interrupted(signal.SIGINT, None, 0)
        simulated.append((ensemble.runs, ensemble.seed))
        return simulate_whole(ensemble, *arguments, **options)

    monkeypatch.setattr(Ensemble, "simulate", simulate_counted)
    code, output, errors = typed(*words)
    assert (code, output.count(" of 7 runs")) == (130, 4)
    assert "the same command continues" in errors
    assert simulated == [(3, 0), (3, 3), (1, 6), (3, 0)]
    monkeypatch.setattr(Ensemble, "simulate", simulate_whole)
    assert typed(*words, "--csv", "-")[1] == whole  # with the portions in runs/
    portion = next(Path("runs").glob("ends-*.nc"))
    portion.write_bytes(portion.read_bytes()[:-500])
    code, _, errors = typed(*words)
    assert code == 1
    assert f"{portion}: is damaged" in errors
