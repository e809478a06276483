"""The command analysis.fixed_points: its tables and files, and the settings that it
refuses."""

import csv

import xarray as xr

SMALL = ["--length", 6, "--sparsity", 3, "--hidden", 6, "--data", 50, "--out", "f.nc"]


def test_the_command_prints_writes_and_draws(output_of, tmp_path):
    out = output_of(
        "analysis.fixed_points",
        *SMALL,
        "--steps",
        10,
        "--csv",
        "f.csv",
        "--push",
        0.001,
        0.01,
    )
    assert "settled" in out
    with xr.open_dataset(tmp_path / "f.nc") as result:
        assert result["circuit"].values.tolist() == [
            "gain 1",
            "gain 2",
            "gain 5",
            "gain 10",
            "settled",
        ]
        assert result["start"].values.tolist() == ["gain 2", "settled"]
        assert result["order_share"].dims == ("start", "step", "pushed")
        assert result["kind"].values.tolist() == [
            "none",
            *["order", "suffix", "all"] * 2,
        ]
        assert (
            float(result["broken"].max()) < 1e-12 < float(result["sample_broken"].max())
        )
        loss = result["loss"].values.tolist()
    assert (tmp_path / "f.png").stat().st_size > 10_000
    rows = list(csv.DictReader((tmp_path / "f.csv").open()))
    assert [float(row["loss"]) for row in rows] == loss
    assert [float(row["accuracy"]) for row in rows] == [1] * 5
    assert float(rows[-1]["negative_eigenvalues"]) == 0
    printed = next(line for line in out.splitlines() if line.startswith("settled"))
    assert printed.split()[1:3] == ["100.0", f"{loss[-1]:.1e}"]
    assert "which is another file" in output_of(
        "analysis.fixed_points", *SMALL, "--push", 0.5, code=2
    )


def test_a_network_that_collapses_under_its_decay_is_reported(output_of):
    words = [
        "--length",
        4,
        "--sparsity",
        3,
        "--hidden",
        6,
        "--data",
        50,
        "--decay",
        1,
        "--steps",
        20,
        "--out",
        "f.nc",
    ]
    out = output_of("analysis.fixed_points", *words, "--push", 0.001)
    assert "it no longer solves the task: accuracy 50.0%" in out
    assert "nan" not in out
    kinds = [
        line.split()[2]
        for line in out.splitlines()
        if line.startswith("gain 2 ") and "0.001" in line
    ]
    assert kinds == ["order", "all"]  # one spurious position has no direction
