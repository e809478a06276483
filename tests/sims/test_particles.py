"""The command that simulates particles: trajectory, table and picture."""

import csv
import json
from pathlib import Path

import pytest
import xarray as xr
from matplotlib.image import imread

from dynamics.settings import ParticleSettings
from dynamics.trajectory.reader import open_trajectory


def test_particles_give_a_row_a_trajectory_and_a_picture(output_of, tmp_path):
    words = ["sims.particles", "--fa", 2.0, "--runs", 20]
    printed = output_of(*words, "--csv", "row.csv")
    assert "56.0 [45.7, 65.9]" in printed
    (path,) = (tmp_path / "runs").glob("*.nc")
    with open_trajectory(path) as trajectory:
        assert trajectory.sizes["run"] == 20
    assert imread(path.with_suffix(".png")).shape[0] > 300
    _, row = csv.reader((tmp_path / "row.csv").open())
    assert row[:2] == ["2.0", "20"]
    assert "the file has 100 steps, shown is step 50" in output_of(
        *words, "--steps", 50
    )
    again = output_of(*words)
    assert "found" in again
    assert again.splitlines()[-1] == printed.splitlines()[-1]


def test_values_of_the_paper_are_printed_only_for_its_settings(output_of):
    for words in (["--ga", 2], ["--temperature", 0.1], ["--repulsion", "1/r**2"]):
        assert "in the paper" not in output_of("sims.particles", "--runs", 3, *words)


def write_files():
    """Write valid and invalid files of laws and of tables of strengths."""
    force = {"name": "a", "pairs": "like", "along": "difference", "strength": "1"}
    Path("one.json").write_text(json.dumps([force]))
    Path("two.json").write_text(json.dumps([force, force]))
    Path("colour.json").write_text(json.dumps([force | {"colour": 1}]))
    Path("empty.json").write_text("[]")
    Path("words.json").write_text("words")
    xr.Dataset({"x": 1}).to_netcdf("other.nc")
    for name, lines in {
        "heading": ["r,strength", "0,1", "2,0", "1,0.5"],
        "none": ["0,1", "1,0.5", "2,0"],
        "once": ["r,strength", "0,1"],
        "words": ["r;strength", "0;1", "one;2"],
        "twice": ["0,1", "1,2", "1,3"],
        "nan": ["0,1", "1,nan"],
        "three": ["0,1,2", "1,2,3"],
        "empty": [],
    }.items():
        Path(f"{name}.csv").write_text("\n".join(lines))
    Path("bytes.csv").write_bytes(b"\xff\xfe\x00")


WRONG = {
    "--repulsion 1/x": "--repulsion: found '1/x' (the name x)",
    "--repulsion 1/(r": "--repulsion: found '1/(r' (its syntax is wrong)",
    "--repulsion": "--repulsion: found no value, allowed is a word; --repulsion=-r",
    "--repulsion -r": "--repulsion: found no value, allowed is a word; --repulsion=-r",
    "--repulsion=": "--repulsion: found ''",
    "--repulsion log(-r)": "found log(-r), which is not finite at r =",
    "--alignment r": "--alignment: found 'r' (the name r)",
    "--attraction missing.csv": "found missing.csv (No such file or directory)",
    "--attraction once.csv": "found fewer than two rows of numbers in once.csv",
    "--attraction empty.csv": "found fewer than two rows of numbers in empty.csv",
    "--attraction words.csv": "in words.csv",
    "--attraction twice.csv": "found the row '1,3' in twice.csv, allowed is each value",
    "--attraction nan.csv": "found the row '1,nan' in nan.csv, allowed is two numbers",
    "--attraction three.csv": "found the row '0,1,2' in three.csv",
    "--attraction bytes.csv": "found bytes.csv (it is no text)",
    "--law missing.json": "--law: found missing.json (No such file or directory)",
    "--law missing.nc": "--law: found missing.nc (No such file or directory)",
    "--law other.nc": "found other.nc, allowed is a result of analysis.pair_law",
    "--law none.csv": "--law: found none.csv, allowed is a file (.nc, .json)",
    "--law empty.json": "--law: found no force in empty.json",
    "--law []": "--law: found no force in []",
    "--law words.json": "--law: found words, allowed is a list of forces as JSON",
    "--law two.json": "--law: found a, a, allowed is forces with different names",
    "--law colour.json": "--law: found colour, allowed is the fields name, pairs",
    "--law one.json two.json": "--law: found one.json two.json, allowed is one law",
    "--law one.json --repulsion 1/r**2": "--law: found a law of its own and other",
    "--law one.json --method mesh": "--method: found mesh, allowed is direct or auto",
    "--temperature -1": "--temperature: found -1.0, allowed is a finite number from 0",
    "--temperature nan": "--temperature: found nan",
    "--temperature hot": "--temperature: found hot, allowed is a number",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_law_is_said_in_one_line(line, output_of):
    write_files()
    message = output_of("sims.particles", "--n", 5, *line.split(), code=2)
    assert WRONG[line] in message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--repulsion 1/r 1/x", "--repulsion: found '1/x'"),
        ("--repulsion 1/r 1/r", "--repulsion: found 1/r 1/r, allowed is different"),
        ("--temperature 0 -1", "--temperature: found -1.0"),
        ("--law one.json two.json", "--law: found one.json two.json, allowed is one"),
    ],
)
def test_a_wrong_sweep_of_laws_is_said_in_one_line(line, message, output_of):
    write_files()
    words = ["--n", 5, "--runs", 2, "--steps", 2]
    printed = output_of("sims.sweep", "particles", *words, *line.split(), code=2)
    assert message in printed


def test_tables_are_part_of_the_settings_by_their_content():
    write_files()
    one, other = (
        ParticleSettings(attraction=f"{name}.csv") for name in ("heading", "none")
    )
    assert one == other
    assert one.attraction == "interp(r, [0, 1, 2], [1, 0.5, 0])"


def test_strengths_and_temperatures_are_swept_and_listed(output_of):
    write_files()
    sizes = ["--n", 5, "--runs", 2, "--steps", 2]
    swept = ["--repulsion", "1/r", "1/r**3", "--temperature", 0, 0.1]
    printed = output_of("sims.sweep", "particles", *sizes, *swept)
    rows = [line.split() for line in printed.splitlines() if line.startswith("1/r")]
    assert [row[:2] for row in rows] == [
        ["1/r", "0.0"],
        ["1/r", "0.1"],
        ["1/r**3", "0.0"],
        ["1/r**3", "0.1"],
    ]
    output_of("sims.particles", *sizes, "--law", "one.json")
    listed = output_of("sims.runs")
    assert "--repulsion '1/r**3' --temperature 0.1" in listed
    assert "(law a)" in listed
