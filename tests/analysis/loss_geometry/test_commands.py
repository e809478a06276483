"""The commands print their table and write a result and a picture."""

import pytest
import xarray as xr

COMMANDS = [
    ("edge", "sparse", "--frames 3", "over its limit"),
    ("noise", "modular", "--frames 3", "noise scale"),
    ("spectral_density", "modular", "--frames 2 --runs 1", "saddle index"),
    ("weight_spectra", "modular", "--frames 3", "effective rank"),
    ("landscape", "modular", "--plane trajectory --points 5", "from the plane"),
    ("landscape", "modular", "--plane random --points 5", "from the plane"),
    ("landscape", "modular", "--plane lines --points 5", "barrier"),
    ("llc", "modular", "--chains 2 --draws 20 --burn-in 5", "2 chains of 20 draws"),
    ("llc", "modular", "--chains 2 --draws 20 --burn-in 5 --calibrate", "effective"),
]


@pytest.mark.parametrize(("command", "system", "words", "text"), COMMANDS)
def test_commands(small_runs, output_of, tmp_path, command, system, words, text):
    out = tmp_path / "a.nc"
    path = small_runs[system]
    printed = output_of(f"analysis.{command}", path, *words.split(), "--out", out)
    assert text in printed
    assert out.with_suffix(".png").stat().st_size > 1000
    with xr.open_dataset(out) as result:
        assert result.attrs["result_of"] == f"analysis.{command}"
