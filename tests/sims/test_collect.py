"""The command that makes a trajectory from checkpoints."""

import torch

import dynamics


def test_checkpoints_become_a_trajectory(typed, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for step in (0, 100, 200, 300, 500):
        torch.save(
            {"model": {"W_E": torch.full((3, 9), float(step))}},
            folder / f"step{step}.pt",
        )
    given = (
        "sims.collect",
        "mine",
        "--embedding",
        "W_E",
        "--transpose",
        "--tokens",
        "7",
        "--modulus",
        "7",
    )
    code, printed, _ = typed(*given)
    assert code == 0
    assert "missing     1 checkpoints between others: steps 400" in printed
    trajectory = dynamics.open_trajectory("runs/mine.nc")
    assert trajectory["embedding"].shape == (1, 5, 7, 3)
    assert trajectory.attrs["modulus"] == 7
    assert typed(*given)[0] == 1  # the file exists
    assert typed(*given, "--overwrite")[0] == 0
    code, _, errors = typed("sims.collect", "mine", "--embedding", "WE")
    assert code == 2
    assert "W_E" in errors
    code, _, errors = typed("sims.collect", "nothing", "--embedding", "WE")
    assert (code, errors) == (1, "error: nothing: no such file\n")
