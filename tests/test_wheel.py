"""The wheel has all files of the packages, and works in an environment that has nothing
else."""

import os
import subprocess
import sys

import pytest
from matplotlib.image import imread

from dynamics import ParticleSettings, simulate
from tests.conftest import ROOT

pytestmark = pytest.mark.slow
PACKAGES = ("analysis", "dynamics", "sims")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from the files that git tracks."""
    folder = tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    for name in filter(None, tracked):
        if (
            not name.startswith(("docs/", "tests/", "benchmarks/"))
            and (ROOT / name).is_file()
        ):
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "source" / name).write_bytes((ROOT / name).read_bytes())
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    subprocess.run([*pip, "--wheel-dir", folder, folder / "source"], check=True)
    (built,) = folder.glob("*.whl")
    return built


def run_from(folder, python, *words, **variables):
    """The output of `python -m WORDS`, or of `python -c CODE`, in a folder, without
    this project on the path."""
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONPATH"
    }
    command = [python, *(words if words[0] == "-c" else ("-m", *words))]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_all_files_of_the_packages_and_needs_no_torch_for_particles(
    wheel, tmp_path
):
    installed = tmp_path / "installed"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    subprocess.run([*pip, "--target", installed, wheel], check=True)
    for package in PACKAGES:
        files = [
            file
            for file in (ROOT / package).rglob("*")
            if file.is_file() and file.suffix != ".pyc"
        ]
        assert len(files) > 5
        assert [
            file for file in files if not (installed / file.relative_to(ROOT)).exists()
        ] == []
        assert (installed / package / "py.typed").exists()
    (installed / "torch.py").write_text(
        "raise ModuleNotFoundError('torch is not installed')"
    )
    simulate(ParticleSettings(n=5), runs=2, steps=20, every=10, out="p.nc")
    run_from(
        tmp_path,
        sys.executable,
        "analysis.frame",
        "p.nc",
        "--out",
        "p.png",
        PYTHONPATH=str(installed),
    )
    run_from(
        tmp_path,
        sys.executable,
        "analysis.explore",
        "p.nc",
        "--export",
        "p.html",
        PYTHONPATH=str(installed),
    )
    assert (tmp_path / "p.html").stat().st_size > 100_000
    where = "import sims; print(sims.__path__)"
    assert str(installed) in run_from(
        tmp_path, sys.executable, "-c", where, PYTHONPATH=str(installed)
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path):
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--constraint",
    ]
    subprocess.run([*pip, ROOT / "constraints.txt", wheel], check=True)
    run_from(
        tmp_path,
        python,
        "sims.particles",
        "--fa",
        "2.0",
        "--runs",
        "5",
        "--out",
        "p.nc",
    )
    read = (
        "from dynamics import open_trajectory;"
        " print(dict(open_trajectory('p.nc').sizes))"
    )
    assert "'run': 5" in run_from(tmp_path, python, "-c", read)
    run_from(tmp_path, python, "analysis.frame", "p.nc", "--out", "p.png")
    assert imread("p.png").shape[1] > 300
