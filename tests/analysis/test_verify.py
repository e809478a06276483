"""The command that checks every claim: what it runs, keeps, continues and refuses."""

import dataclasses
import functools
import io
import shutil
import signal
from pathlib import Path

import dask
import pandas as pd
import pytest
import xarray as xr
from distributed import LocalCluster
from numpy.testing import assert_array_equal

from analysis.reproduction import evidence, registry
from analysis.reproduction.evidence import (
    ensemble_seconds,
    evidence_path,
    schedule_experiments,
)
from analysis.reproduction.experiment import Runner, Size, Sizing
from analysis.reproduction.musat2024 import particle_claims
from dynamics import Ensemble, SparseSettings, open_trajectory, simulate
from dynamics.particles.particle_system import ParticleSystem
from dynamics.trajectory.schema import read_settings

VERIFY = "analysis.verify"
SMALL = dataclasses.replace(
    particle_claims.TABLE_2,
    quick=Sizing(1, {"runs": 6}),
    default=Sizing(1, {"runs": 6}),
)


@pytest.fixture
def verify(typed, monkeypatch):
    """The command for claims that begin with some name. Table 2 of six simulations a
    row is the only experiment."""
    monkeypatch.setattr(registry, "EXPERIMENTS", {SMALL.name: SMALL})
    return functools.partial(typed, VERIFY, "--quick", "--only")


def files():
    return sorted(str(path) for path in Path("runs").rglob("*.nc"))


def test_existing_evidence_is_not_measured_again(verify):
    code, out, err = verify("CA.table2")
    assert code == 0, err
    assert "1 of 1 experiments to do" in out
    assert "3 claims: " in out
    *ensembles, path = sorted(files(), key=lambda name: "verify" in name)
    assert len(ensembles) == 3
    with xr.open_dataset(path) as result:
        assert result.attrs["experiment"] == "ca.table2"
        assert result.attrs["params_json"] == '{"runs": 6}'
        assert result.attrs["seconds"] > 0
        assert result.sizes == {"fa": 3, "run": 6}
    for name in ensembles:
        Path(name).unlink()
    code, out, _ = verify("CA.table2.fa1", "CA.table2.fa2")
    assert code == 0
    assert "all evidence exists" in out
    assert "2 claims: " in out
    assert files() == [path]
    assert "1 of 1 experiments to do" in verify("CA.table2", "--evidence", "other")[1]
    assert (Path("other") / Path(path).name).is_file()


def test_interrupted_command_resumes(verify, monkeypatch):
    def stop(runner, params):
        runner.ensemble(particle_claims.ensembles(params)[0])
        signal.raise_signal(signal.SIGINT)

    interrupted = dataclasses.replace(SMALL, measure=stop)
    with monkeypatch.context() as patch:
        patch.setattr(registry, "EXPERIMENTS", {SMALL.name: interrupted})
        code, _, err = verify("CA.table2")
    assert code == 130
    assert "the same command" in err
    (made,) = files()
    before = Path(made).stat().st_mtime_ns
    assert verify("CA.table2")[0] == 0
    assert Path(made).stat().st_mtime_ns == before


def test_damaged_evidence_is_rejected(verify):
    verify("CA.table2")
    (path,) = Path("runs/verify").glob("*.nc")
    path.write_bytes(path.read_bytes()[:200])
    code, _, err = verify("CA.table2")
    assert code == 1
    assert str(path) in err
    assert "measured again" in err


def test_plan_and_list_run_nothing(output_of, verify):
    assert "ca.table2" in output_of(f"{VERIFY} --quick --plan")
    claims = output_of(f"{VERIFY} --list")
    assert "CA.table2.fa0.5" in claims
    assert claims.endswith("claims\n")
    assert not files()


def test_csv_on_the_terminal_has_only_numbers(verify):
    _, out, err = verify("CA.table2.fa1", "--csv", "-")
    table = pd.read_csv(io.StringIO(out))
    assert table["number"].tolist()[1] == "imperfections of the others"
    assert table["printed"][0] == "17 of 100"
    assert "1 claim: " in err


INVALID = {
    "CA.table2 --full": "--quick --full: found both",
    "CA.table9": "--only: found CA.table9",
    "CA.table2 --out report.html": "--out: found report.html",
    "CA.table2 --scheduler here": "--scheduler: found here",
    "CA.table2 --csv .": "--csv: found .",
    "CA.table2 --evidence /dev/null": "--evidence: found /dev/null",
}


@pytest.mark.parametrize(("words", "message"), INVALID.items())
def test_invalid_arguments_are_rejected(verify, words, message):
    code, _, err = verify(*words.split())
    assert code == 2
    assert message in err
    assert not files()


def test_shared_ensembles_are_counted_once():
    table, size, runner = particle_claims.TABLE_2, Size.DEFAULT, Runner(io.StringIO())
    (alone,) = schedule_experiments([table], size, runner)
    first, second = schedule_experiments([table, table], size, runner)
    assert first.seconds == alone.seconds
    assert second.seconds == table.default.seconds


def test_cost_grows_with_the_ensemble():
    few, many = (particle_claims.ensembles({"runs": runs})[0] for runs in (100, 10_000))
    assert ensemble_seconds(many) > 20 * ensemble_seconds(few) - 20


def test_evidence_path_depends_on_all_settings(monkeypatch):
    """A file of evidence is not taken for that of other sizes, constants, defaults or
    arithmetic."""
    runner = Runner(io.StringIO())
    alone = dataclasses.replace(SMALL, ensembles=lambda params: ())

    def path(experiment=alone, runs=6, **changes):
        changed = dataclasses.replace(experiment, **changes)
        return evidence_path(changed, {"runs": runs}, runner)

    paths = [path(), path(runs=7), path(SMALL), path(version=3)]
    paths.append(path(depends={"moments": [20, 100]}))
    with monkeypatch.context() as patch:
        patch.setattr(ParticleSystem.kind, "numerics_version", 99)
        paths.append(path())
    changed = SparseSettings(lr=0.001)
    with monkeypatch.context() as patch:
        patch.setitem(evidence.PAPER_SETTINGS, "sparse", lambda: changed)
        paths.append(path())
    assert len(set(paths)) == len(paths) == 7
    assert path() == paths[0]


def test_evidence_of_earlier_releases_is_found(verify):
    """The name of a file depends on settings and versions, not on the code."""
    earlier = Path(__file__).parent / "evidence" / "ca.table2-7fb7c3e80884.nc"
    Path("runs/verify").mkdir(parents=True)
    shutil.copy(earlier, "runs/verify")
    _, out, err = verify("CA.table2.fa1")
    assert "all evidence exists" in out + err
    assert "CA.table2.fa1" in out + err
    assert files() == [f"runs/verify/{earlier.name}"]


def test_report_does_not_replace_other_files(verify):
    Path("README.md").write_text("# something else\n")
    code, _, err = verify("CA.table2.fa1", "--out", "README.md")
    assert code == 2
    assert "--out: found README.md, which is something else" in err
    assert Path("README.md").read_text() == "# something else\n"
    for _ in range(2):  # over an earlier report
        words = "CA.table2.fa1 --out new/report.md --no-pictures"
        code, out, err = verify(*words.split())
        assert code == 0, err
    assert "new/report-ca.md" in out
    assert "CA.table2.fa1" in Path("new/report-ca.md").read_text()


@pytest.mark.slow
def test_ensembles_are_computed_on_a_cluster(verify, tmp_path, monkeypatch):
    """The files are equal, to the bit, to those that this process makes. This process
    only finds them."""

    compute = Ensemble.simulate

    def find(ensemble, out=None, *options):
        assert out is None or out.exists()
        return compute(ensemble, out, *options)

    monkeypatch.setattr(Ensemble, "simulate", find)
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "workers")}),
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
    ):
        code, _, err = verify("CA.table2", "--scheduler", cluster.scheduler_address)
    assert code == 0, err
    names = [name for name in files() if "verify" not in name]
    assert len(names) == 3
    for name in names:
        trajectory = open_trajectory(name)
        alone = simulate(read_settings(trajectory), 6)
        assert_array_equal(trajectory["embedding"], alone["embedding"])
