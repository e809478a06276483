"""Committors computed on the workers of a dask cluster."""

import dask
import pytest
import xarray as xr

from analysis import committor
from dynamics import ParticleSettings, SettingsError, simulate

distributed = pytest.importorskip("distributed")

SETTINGS = ParticleSettings(n=5, fa=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("direction", [None, "growing"])
def test_workers_count_the_same_copies(tmp_path, direction):
    source = simulate(SETTINGS, runs=4, steps=30, every=5, out="a.nc").isel(run=[1, 3])
    options = {"copies": 6, "displace": [0.1, 0.4], "bisections": 1}
    options["direction"] = direction
    expected = committor(source, "circle", [0, 10], **options)
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "workers")}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
    ):
        options["scheduler"] = cluster.scheduler_address
        result = committor(source, "circle", [0, 10], **options)
    xr.testing.assert_identical(result, expected)


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [("here", "scheduler: found here"), ("tcp://127.0.0.1:1", "in a file")],
)
def test_bad_input_is_said_in_one_line(scheduler, message):
    source = simulate(SETTINGS, runs=1, steps=10)
    with pytest.raises(SettingsError, match=message):
        committor(source, "circle", [0], 2, scheduler=scheduler)
