"""Simulations that begin from another run: the options --branch, --from and --step."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynamics import ModularSettings, SparseSettings, open_trajectory, replay, simulate

SPARSE = SparseSettings(length=6, sparsity=2, data=50, batch=8, hidden=5)
SMALL = "--length 6 --sparsity 2 --data 50 --batch 8 --hidden 5"


@pytest.fixture
def simulated(output_of):
    """The file that a simulation names in what it prints."""
    return lambda words: re.search(r"trajectory +(\S+) ", output_of(f"sims.{words}"))[1]


BRANCHES = [
    ("particles", "--n 5 --steps 30", "--fa 3"),
    ("modular", "--n 5 --hidden 7 --epochs 30", "--weight-decay 0"),
    ("sparse", f"{SMALL} --epochs 5", "--norm unit-smooth"),
]


@pytest.mark.parametrize(("program", "base", "change"), BRANCHES)
def test_a_branch_keeps_options_that_are_not_given(simulated, program, base, change):
    source = simulated(f"{program} {base} --runs 3 --seed 4")
    words = f"{program} --branch {source} --step 20 {change}"
    path = simulated(words)
    before, after = open_trajectory(source), open_trajectory(path)
    assert list(after["seed"].values) == [4, 5, 6]
    old, new = (json.loads(item.attrs["config_json"]) for item in (before, after))
    assert {name for name in new if new[name] != old[name]} == {
        change.split()[0].strip("-").replace("-", "_")
    }
    assert int(after["step"][-1]) == int(before["step"][-1])
    assert_array_equal(
        after["embedding"][:, 0], replay(source, None, 20, 20)["embedding"][:, 0]
    )
    assert simulated(words) == path


def test_sparse_transfers_and_changes_of_the_batch_from_the_command_line(
    simulated, output_of
):
    source = simulated(f"sparse {SMALL} --runs 4 --epochs 3")
    ended = open_trajectory(source)
    for words, step in (
        ("--vocab 3 --epochs 2", 21),
        ("--step 7 --data 60 --epochs 1", 7),
    ):
        begun = open_trajectory(simulated(f"sparse --from {source} {words}"))
        assert_array_equal(begun["value"][:, 0], ended["value"].sel(step=step))
    assert "--step: found 8" in output_of(
        f"sims.sparse --from {source} --step 8 --epochs 1", code=2
    )
    trajectory = open_trajectory(
        simulated(f"sparse --branch {source} --step 14 --batch 5 --epochs 4")
    )
    assert (int(trajectory["step"][-1]), float(trajectory["epoch"][-1])) == (34, 4)


@pytest.mark.parametrize(
    "flag", ["--only-successful", "--no-only-successful --only_successful"]
)
def test_all_successful_runs_are_taken(simulated, flag, monkeypatch):
    for module in ("dynamics.trajectory", "dynamics.training.finetuning"):
        monkeypatch.setattr(
            f"{module}.successful_runs",
            lambda found: np.array([False, True, True, False]),
        )
    source = simulated(f"sparse {SMALL} --runs 4 --epochs 1")
    path = simulated(f"sparse --from {source} {flag} --vocab 3 --epochs 1")
    assert_array_equal(
        open_trajectory(path)["value"][:, 0],
        open_trajectory(source)["value"][[1, 2], -1],
    )


REFUSED = [
    ("--sparsity 13", "sparsity: found 13"),
    ("--out new.nc/", "--out: found new.nc/, allowed is the name of a file"),
    ("--vocab 1", "vocab: found 1"),
    ("--batch 3000", "batch: found 3000"),
    ("--step 4", "--step: found 4"),
    ("--only-successful", "--only-successful: found True"),
    ("--from modular.nc", "--from: found modular.nc of the system modular"),
    (
        "--branch modular.nc --step 1",
        "--branch: found modular.nc of the system modular",
    ),
    ("--branch a.nc", "--step: found none"),
    ("--branch a.nc --from a.nc", "--branch: found a.nc"),
    ("--branch a.nc --step 3 --runs 3", "--runs: found 3"),
    ("--branch a.nc --step 3 --hidden 9", "--hidden: found 9, allowed is 5 as before"),
    ("--branch a.nc --step -3", "--step: found -3"),
    ("--branch a.nc --step 30", "--step: found 30, allowed is at most 21"),
    ("--from a.nc --hidden 9", "--hidden: found 9"),
    ("--from a.nc --step -2", "--step: found -2"),
    (
        "--from a.nc --out a.nc --overwrite",
        "--out: found a.nc, allowed is another file",
    ),
    (
        "--branch a.nc --step 7 --out a.nc --overwrite",
        "--out: found a.nc, allowed is another",
    ),
    ("--from a.nc --only-successful", "--only-successful: found no run"),
    ("--from a.nc --runs 9", "--from: found no run of seed 2"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run of VC's network and one of CA's."""
    folder = tmp_path_factory.mktemp("origins")
    simulate(SPARSE, runs=2, steps=21, out=folder / "a.nc").close()
    simulate(ModularSettings(n=5), runs=2, steps=2, out=folder / "modular.nc").close()
    return folder


@pytest.mark.parametrize(("words", "named"), REFUSED)
def test_invalid_options_are_refused_by_name(
    folder, output_of, words, named, monkeypatch
):
    monkeypatch.chdir(folder)
    assert named in output_of(f"sims.sparse {words}", code=2)


@pytest.mark.parametrize("option", ["--from", "--branch"])
@pytest.mark.parametrize("name", ["none.nc", "empty.nc"])
def test_a_file_that_is_not_there_or_empty_is_an_error(
    output_of, tmp_path, option, name
):
    (tmp_path / "empty.nc").touch()
    assert name in output_of(f"sims.sparse {option} {name} --step 0", code=1)
