"""The list of runs in a folder."""

import re
from pathlib import Path

import pytest
import xarray as xr

from analysis.output.results import write_result
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    TrajectoryError,
    branch,
    open_trajectory,
    optimizers,
    replay,
    run_path,
    simulate,
)
from dynamics.ensemble import create_system
from dynamics.system import SYSTEM_KINDS
from dynamics.trajectory.netcdf import trajectory_lock
from sims.command_line import describe_run_file
from tests.dynamics.test_simulation import run, stop_at


def test_runs_are_listed_with_their_state(typed, output_of, tmp_path):
    assert typed("sims.runs") == (0, "no runs in runs\n", "")
    assert "no runs" in typed("sims.runs", "--folder", ".")[1]
    simulate(
        ParticleSettings(n=3, fa=0.5),
        runs=2,
        steps=5,
        out="runs/done.nc",
    ).close()
    (tmp_path / "runs" / "broken.nc").write_bytes(b"broken")
    write_result(
        xr.Dataset(attrs={"result_of": "analysis.compare"}),
        tmp_path / "runs" / "result.nc",
    )
    printed = output_of("sims.runs", "--csv", "list.csv")
    assert "result.nc" not in printed
    assert re.search(
        r"^broken.nc +unreadable .* not a NetCDF file", printed, flags=re.MULTILINE
    )
    assert re.search(
        r"^done.nc +done +5 +2 +0 +\d.\d +--fa 0.5 --n 3$", printed, flags=re.MULTILINE
    )
    assert (
        (tmp_path / "list.csv")
        .read_text()
        .splitlines()[1]
        .startswith("broken.nc,unreadable,,,,")
    )


@pytest.mark.parametrize("harm", ["truncated", "changed"])
def test_a_check_fails_if_a_file_cannot_be_read(typed, output_of, tmp_path, harm):
    path = tmp_path / "runs" / "a.nc"
    simulate(ParticleSettings(n=3), runs=2, steps=5, out=path).close()
    assert "right in 1 of 1 files" in output_of("sims.runs", "--check")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content[:-1] if harm == "truncated" else content)
    code, printed, errors = typed("sims.runs", "--check")
    assert (code, errors) == (1, "error: 1 of 1 files in runs cannot be read\n")
    assert "unreadable" in printed


def test_unfinished_and_diverged_runs_are_listed_as_such(diverging, tmp_path):
    path = tmp_path / "a.nc"
    stop_at(path, 30, steps=60)
    assert describe_run_file(path, True)[1:5] == ("interrupted", "30 of 60", 6, 0)
    with trajectory_lock(path):
        assert describe_run_file(path).status == "running"
    run(out=path)
    assert describe_run_file(path)[1:3] == ("done", "60")
    stop_at(path, 70, steps=100, every=1)
    assert describe_run_file(path, True)[1:3] == ("interrupted", "70 of 100")
    with trajectory_lock(tmp_path / "new.nc"):
        assert describe_run_file(tmp_path / "new.nc").status == "running"
    simulate(diverging, runs=2, steps=3, out="diverged.nc", record="metrics")
    row = describe_run_file(tmp_path / "diverged.nc")
    assert row.status == "done, 1 diverged"
    assert row.settings.endswith("--record metrics")


def test_runs_of_another_numerics_version_are_outdated(output_of):
    from_before = ("particles", "modular", "sparse")
    small = {
        "particles": ParticleSettings(n=5),
        "modular": ModularSettings(n=3, hidden=4),
        "sparse": SparseSettings(length=3, sparsity=2, data=9, batch=4, hidden=4),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in from_before:
            patch.setattr(type(SYSTEM_KINDS[name]), "numerics_version", 77)
            system = create_system(small[name])
            patch.setattr(type(system), "numerics_version", 77, raising=False)
            simulate(small[name], runs=1, steps=2, out=f"runs/{name}.nc").close()
    simulate(small["particles"], runs=1, steps=2, out="runs/new.nc").close()
    printed = output_of("sims.runs")
    for name in from_before:
        assert re.search(rf"^{name}.nc +done, outdated ", printed, flags=re.MULTILINE)
    assert re.search(r"^new.nc +done +2 ", printed, flags=re.MULTILINE)
    assert printed.count("outdated: this version computes these runs otherwise") == 1
    # what the note says
    old = open_trajectory("runs/particles.nc")
    assert "result  " in output_of("analysis.formation", "runs/particles.nc")
    with pytest.raises(TrajectoryError, match="numerics_version: found 77"):
        replay(old, run=0, step=0, until=1)
    with pytest.raises(TrajectoryError, match="numerics_version: found 77"):
        branch(old, 1, fa=0.5)
    with pytest.raises(SettingsError, match="numerics_version"):
        simulate(small["particles"], runs=1, steps=4, out="runs/particles.nc")
    path = run_path(small["particles"], 1, 0)
    simulate(small["particles"], runs=1, steps=2, out=path).close()
    words = "--n 5 --runs 1 --steps 2 --out runs/particles.nc --overwrite"
    output_of("sims.particles", *words.split())
    assert describe_run_file(Path("runs/particles.nc")).status == "done"


def test_a_run_with_an_optimizer_that_is_not_registered_is_readable_once_it_is(
    output_of, monkeypatch
):
    def slow(gradient, weight, lr):
        return weight - 0.5 * lr * gradient

    monkeypatch.setattr("dynamics.optimizers._OPTIMIZERS.registered", {})
    optimizers.register_optimizer(optimizers.Optimizer("slow_descent", slow))
    settings = ModularSettings(n=5, hidden=8, optimizer="slow_descent", weight_decay=0)
    simulate(settings, runs=2, steps=3, out="runs/a.nc", progress=False).close()
    assert "done" in output_of("sims.runs")
    monkeypatch.setattr("dynamics.optimizers._OPTIMIZERS.registered", {})
    out = output_of("sims.runs")
    assert "not registered" in out
    assert "unreadable" not in out
    assert "a module that registers it" in out
