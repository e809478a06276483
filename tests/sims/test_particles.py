"""The command that simulates particles: trajectory, table and picture."""

import csv

from matplotlib.image import imread

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
    assert "in the paper" not in output_of("sims.particles", "--runs", 3, "--ga", 2)
