"""Parts of a sweep, which several processes compute."""

import itertools
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.structures import add_structures
from dynamics import ParticleSettings
from dynamics.particles.particle_system import ParticleSystem
from dynamics.sweeps import compute_missing_points, missing_points, sweep, sweep_design
from dynamics.sweeps.design import SweepPart, parse_part
from dynamics.trajectory.netcdf import trajectory_lock

SETTINGS = ParticleSettings(n=5)
AXES = {"fa": [1.0, 2.0, 3.0], "ga": [1.0, 2.0]}
AMOUNT = {"runs": 2, "steps": 6}
WORDS = "particles --fa 1 2 3 --ga 1 2 --n 5 --runs 2 --steps 6".split()


@given(names=st.sets(st.text("abc", min_size=1)), parts=st.integers(1, 12))
def test_every_file_is_in_one_part(names, parts):
    files = [Path(name) for name in names]
    found = [SweepPart(number + 1, parts).of(files) for number in range(parts)]
    assert set().union(*found) == set(files)
    assert not any(a & b for a, b in itertools.combinations(found, 2))
    sizes = [len(part) for part in found]
    assert max(sizes) - min(sizes) <= 1
    assert parse_part(f"{parts}/{parts}").of(files) == found[-1]


@settings(max_examples=10)
@given(st.permutations(range(1, 5)))
def test_parts_in_any_order_are_the_whole_sweep(order):
    folder = "-".join(map(str, order))
    design = sweep_design(SETTINGS, AXES, folder=folder, **AMOUNT)
    counts = [
        compute_missing_points(design, progress=False, part=f"{part}/4")
        for part in order
    ]
    assert sorted(counts) == [1, 1, 2, 2]
    assert not missing_points(design)
    again = compute_missing_points(design, progress=False, part="2/4")
    assert again == 0


def test_the_command_combines_when_the_last_part_is_there(output_of):
    printed = output_of("sims.sweep", *WORDS, "--part", "1/2")
    assert printed.splitlines() == [
        "points      part 1/2 of 6 in runs (3 computed)",
        "sweep       not combined yet, files of 3 of 6 points do not exist; the command"
        " that finds all files combines them",
    ]
    assert not list(Path("runs").glob("sweep-*"))
    printed = output_of("sims.sweep", *WORDS, "--part", "2/2")
    file = re.search(r"sweep +(runs/sweep-particles-.*\.nc)", printed)[1]
    expected = add_structures(sweep(SETTINGS, AXES, **AMOUNT))
    with xr.open_dataset(file) as written:
        xr.testing.assert_equal(written.load(), expected)


def test_points_that_another_process_computes_are_left_to_it(output_of):
    design = sweep_design(SETTINGS, AXES, folder="runs", **AMOUNT)
    first = design.points[0].path
    first.parent.mkdir()
    with trajectory_lock(first):
        printed = output_of("sims.sweep", *WORDS, "--part", "1/1")
        assert "(5 computed)" in printed
        assert "files of 1 of 6 points do not exist" in printed
        error = output_of("sims.sweep", *WORDS, code=1)
        assert "another process is writing it" in error
    assert "(1 computed, 5 found)" in output_of("sims.sweep", *WORDS, "--part", "1/1")


def test_parts_that_overlap_run_at_the_same_time():
    command = [sys.executable, "-m", "sims.sweep", *WORDS, "--part"]
    jobs = [
        subprocess.Popen([*command, part], stdout=subprocess.PIPE, text=True)
        for part in ("1/1", "1/2")
    ]
    printed = [job.communicate()[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], printed
    design = sweep_design(SETTINGS, AXES, folder="runs", **AMOUNT)
    assert not missing_points(design)
    assert len(list(Path("runs").glob("particles-*.nc"))) == 6
    assert not list(Path("runs").glob("*.parts"))


def test_a_part_that_is_terminated_says_how_to_go_on(typed, monkeypatch):
    """At the end of its time, SLURM sends a job SIGTERM."""
    real = ParticleSystem.advance

    def advance(self, state, steps):
        signal.raise_signal(signal.SIGTERM)
        return real(self, state, steps)

    words = (*WORDS, "--part", "2/3")
    with monkeypatch.context() as patch:
        patch.setattr(ParticleSystem, "advance", advance)
        code, _, errors = typed("sims.sweep", *words)
    assert code == 143
    assert errors.splitlines()[-1] == (
        "interrupted: 0 of 2 points are done: the same command continues from there"
    )
    assert "(2 computed)" in typed("sims.sweep", *words)[1]


@pytest.mark.parametrize("part", ["1/2"])
def test_trainings_of_a_script_have_parts(output_of, part):
    Path("own.py").write_text(SCRIPT)
    words = "own.py --lr 0.01 0.02 --runs 2 --part".split()
    printed = output_of("sims.sweep", *words, part)
    assert "part 1/2 of 4 in runs (2 computed)" in printed
    assert "(2 computed, 2 found)" in output_of("sims.sweep", *words, "2/2")


SCRIPT = """
import dataclasses
import torch
import dynamics

@dataclasses.dataclass(frozen=True)
class Settings:
    lr: float = 0.1

def train(settings, seed, out):
    torch.manual_seed(seed)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.lr)
    with dynamics.record(model, optimizer, out, seed=seed) as recording:
        for _ in range(4):
            loss = model(torch.ones(3, 2)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)
"""


def test_a_combined_file_of_other_lengths_is_replaced_in_a_line(output_of):
    line = [*WORDS[:-1], "4"]
    assert "replaces" not in output_of("sims.sweep", *line)
    assert "replaces" not in output_of("sims.sweep", *line)
    printed = output_of("sims.sweep", *WORDS)
    assert re.search(
        r"sweep +runs/sweep-\S+  \(replaces the results after 4 steps; --out", printed
    )
