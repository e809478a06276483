"""The transfer experiment: what it runs, its numbers, its table and its figure."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from analysis.clustering_heads.vocabulary_transfer import (
    TRANSFER_COLUMNS,
    TRANSFER_KINDS,
    transfer_table,
)
from analysis.output.tables import format_table
from analysis.plots.transfer_figure import plot_transfer
from dynamics import SparseSettings, open_trajectory, run_path, simulate
from dynamics.trajectory.success import successful_runs

TRANSFER = (
    "analysis.paper transfer --length 6 --sparsity 2 --data 60 --hidden 6 --batch 16"
    " --lr 0.02 --runs 6 --epochs 60 --vocabs"
)
BASE = SparseSettings(length=6, sparsity=2, data=60, hidden=6, batch=16, lr=0.02)


def test_accuracies_are_those_of_the_runs(output_of, tmp_path):
    text = output_of(f"{TRANSFER} 4 3 --csv table.csv")
    path = next((tmp_path / "runs").glob("transfer-*.nc"))
    result = xr.open_dataset(path)
    outcome = result["accuracy"]
    assert outcome.dims == ("kind", "vocab", "run")
    assert_array_equal(result["vocab"], [2, 3, 4])
    steps = 60 * BASE.epoch_steps
    source = simulate(BASE, runs=6, steps=2 * steps, every=steps)
    accuracy = source["accuracy"].sel(
        split="unseen" if "unseen" in source["split"].values else "test"
    )
    assert_allclose(outcome.sel(kind="scratch", vocab=2), accuracy.sel(step=steps))
    assert_allclose(outcome.isel(kind=1).sel(vocab=2), accuracy.sel(step=2 * steps))
    file = run_path(BASE, 6, 0, every=steps)
    tuned = SparseSettings(
        **{**vars(BASE), "vocab": 3, "start": str(file), "start_step": steps}
    )
    again = simulate(tuned, runs=6, steps=steps, every=steps)
    assert_allclose(
        outcome.sel(kind="finetuned", vocab=3),
        again["accuracy"].sel(split="unseen", step=steps),
    )
    good = successful_runs(open_trajectory(file).sel(step=[0, steps]))
    assert_array_equal(result["successful"], good)
    assert_array_equal(np.isfinite(outcome.isel(kind=3).sel(vocab=3)), good)
    table = pd.read_csv("table.csv").set_index("p")
    assert table.index.tolist() == [2, 3, 4]
    finetuned = outcome.sel(kind="finetuned", vocab=3)
    assert table["finetuned"][3] == pytest.approx(float(finetuned.mean()))
    assert np.isnan(table["finetuned"][2])
    assert "clusters of the source" in text
    assert path.with_suffix(".png").stat().st_size > 10_000
    files = sorted((tmp_path / "runs").glob("sparse-*.nc"))
    before = [file.stat().st_mtime_ns for file in files]
    output_of(f"{TRANSFER} 3 4")
    assert sorted((tmp_path / "runs").glob("sparse-*.nc")) == files
    assert [file.stat().st_mtime_ns for file in files] == before


def random_result(runs=30):
    generator = np.random.default_rng(1)
    values = generator.uniform(0.2, 1, (4, 3, runs))
    values[2:, 0] = np.nan
    good = generator.random(runs) < 0.5
    values[3][:, ~good] = np.nan
    clusters = generator.integers(1, 300, runs)
    return xr.Dataset(
        {
            "accuracy": (("kind", "vocab", "run"), values),
            "successful": ("run", good),
            "clusters": ("run", clusters),
        },
        {"kind": list(TRANSFER_KINDS), "vocab": [2, 3, 5]},
        {"epochs": 1000},
    )


def test_the_figure_shows_means_and_largest_accuracies():
    result = random_result()
    left, middle, right = plot_transfer(result, 6).axes
    for kind, container in zip(TRANSFER_KINDS, left.containers, strict=True):
        means = result["accuracy"].sel(kind=kind).mean("run").dropna("vocab")
        assert_allclose(container[0].get_ydata().astype(float), means)
    largest = [line for line in middle.lines if line.get_label() in TRANSFER_KINDS]
    assert_allclose(
        largest[0].get_ydata(), result["accuracy"].sel(kind="scratch").max("run").values
    )
    shown = np.concatenate([line.get_ydata() for line in right.lines[:2]])
    assert_allclose(
        np.sort(shown),
        np.sort(result["accuracy"].sel(kind="finetuned", vocab=3).values),
    )


def test_rows_without_successful_sources_have_no_values():
    result = random_result()
    result["accuracy"][3] = np.nan
    table = transfer_table(result)
    text = format_table(table[table["p"] == 3], TRANSFER_COLUMNS)
    assert text.splitlines()[-1].split()[-4:-2] == ["-", "-"]
    assert "nan" not in text
