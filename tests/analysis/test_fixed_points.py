"""The command analysis.fixed_points: its tables and files, and the settings that it
refuses."""

import re

import pandas as pd
import xarray as xr

FIXED_POINTS = "analysis.fixed_points --hidden 6 --data 50 --sparsity 3 --out f.nc"


def test_the_command_prints_writes_and_draws(output_of, tmp_path):
    words = "--length 6 --steps 10 --csv f.csv --push 0.001 0.01"
    out = output_of(f"{FIXED_POINTS} {words}")
    assert "settled" in out
    with xr.open_dataset("f.nc") as result:
        circuits = "gain 1, gain 2, gain 5, gain 10, settled"
        assert ", ".join(result["circuit"].values) == circuits
        assert result["start"].values.tolist() == ["gain 2", "settled"]
        assert result["order_share"].dims == ("start", "step", "pushed")
        kinds = "none order suffix all order suffix all"
        assert " ".join(result["kind"].values) == kinds
        assert result["broken"].max() < 1e-12 < result["sample_broken"].max()
        loss = result["loss"].values
    assert (tmp_path / "f.png").stat().st_size > 10_000
    table = pd.read_csv("f.csv", float_precision="round_trip")
    assert (table["loss"] == loss).all()
    assert (table["accuracy"] == 1).all()
    assert table["negative_eigenvalues"].iloc[-1] == 0
    assert re.search(rf"^settled +100.0 +{loss[-1]:.1e} ", out, re.M)
    other = output_of(f"{FIXED_POINTS} --length 6 --push 0.5", code=2)
    assert "which is another file" in other


def test_a_network_that_collapses_under_its_decay_is_reported(output_of):
    out = output_of(f"{FIXED_POINTS} --length 4 --decay 1 --steps 20 --push 0.001")
    assert "it no longer solves the task: accuracy 50.0%" in out
    assert "nan" not in out
    kinds = re.findall(r"^gain 2 +(\w+) .*0\.001", out, re.M)
    assert kinds == ["order", "all"]  # one spurious position has no direction
