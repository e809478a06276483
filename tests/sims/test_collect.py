"""The command that makes a trajectory from checkpoints."""

import pytest
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
    assert "steps       the number of the step in the names\n" in printed
    assert "         500        1  mine/step500.pt\n" in printed
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


def test_folders_with_dots_have_files_of_their_own(typed, tmp_path):
    for name in ("lr0.001", "lr0.003"):
        folder = tmp_path / name
        folder.mkdir()
        for step in (0, 1):
            torch.save({"W_E": torch.ones(3, 2)}, folder / f"step{step}.pt")
        code, printed, errors = typed("sims.collect", name, "--weights")
        assert code == 0, errors
        assert f"trajectory  runs/{name}.nc" in printed


@pytest.mark.parametrize(
    ("names", "words", "option"),
    [
        (["step_0.1.pt", "step_0.2.pt"], ["--weights"], "--step-from"),
        (["step_1.pt"], ["--weights", "--state-dict", "b"], "--state-dict"),
        (["step_1.pt"], ["--weights", "--rename", "b"], "--rename"),
        (["step_1.pt"], ["--weights", "--column", "a=b"], "--column"),
    ],
)
def test_mistakes_end_with_a_line_that_names_the_option(
    typed, tmp_path, names, words, option
):
    for name in names:
        torch.save({"a": torch.ones(2)}, tmp_path / name)
    paths = [str(tmp_path / name) for name in names]
    code, _, errors = typed("sims.collect", *paths, *words)
    assert code == 2
    assert errors.count("\n") == 1
    assert option in errors


def test_columns_of_a_log(typed, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("step,epoch,val_loss,valid_loss\n0,0,1,2\n5,1,2,3\n")
    code, _, errors = typed("sims.collect", str(log))
    assert (code, errors.count("\n")) == (2, 1)
    assert "--column" in errors
    for words in (
        ["--embedding", "weight"],
        ["--transpose"],
        ["--tokens", "5"],
        ["--weights"],
        ["--modulus", "0"],
        ["--state-dict", "model"],
        ["--rename", "a=b"],
        ["--model", "model.py"],
    ):
        code, _, errors = typed("sims.collect", str(log), *words)
        assert (code, errors.count("\n")) == (2, 1)
        assert words[0] in errors
    code, printed, _ = typed("sims.collect", str(log), "--column", "valid_loss=other")
    assert code == 0
    rows = [line.split() for line in printed.splitlines()[:4]]
    assert rows == [
        ["column", "variable", "split"],
        ["epoch", "left", "out"],
        ["val_loss", "loss", "validation"],
        ["valid_loss", "other"],
    ]
