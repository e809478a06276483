"""Trajectories from CSV files of TensorBoard and wandb, and tables for them."""

import pytest
from numpy.testing import assert_array_equal

import dynamics
from dynamics import ModularSettings, TrajectoryError, collect_scalars, scalar_table


def write(path, text):
    path.write_text(text)
    return path


def test_a_chart_of_wandb_has_runs_and_common_steps(tmp_path):
    chart = write(
        tmp_path / "chart.csv",
        """Step,a - train/loss,a - train/loss__MIN,b - train/loss,a - lr,b - lr,_runtime
0,2,2,3,.1,.2,5
10,1,1,2.5,.1,.2,6
15,,,2.2,.1,.2,7
20,.5,.5,2,.1,.2,8
""",
    )
    result = collect_scalars([chart], seed=3)
    assert result["step"].values.tolist() == [0, 10, 20]
    assert result["seed"].values.tolist() == [3, 4]
    assert_array_equal(result["loss"].sel(split="train"), [[2, 1, 0.5], [3, 2.5, 2]])
    assert set(result["lr"].dims) == {"run", "step"}
    assert "_runtime" not in result


def test_files_of_tensorboard_are_joined(tmp_path):
    header = "Wall time,Step,Value\n"
    files = [
        write(tmp_path / f"run-x-tag-{tag}.csv", f"{header}1.5,100,{a}\n2.5,200,{b}\n")
        for tag, a, b in (("train_loss", 1, 0.5), ("val_loss", 2, 1.5), ("norm", 7, 8))
    ]
    result = collect_scalars(files)
    assert result["step"].values.tolist() == [100, 200]
    assert result["loss"].sel(split="test").values.tolist() == [[2, 1.5]]
    assert result["norm"].values.tolist() == [[7, 8]]


def test_a_table_of_scalars_is_read_back(tmp_path):
    trained = dynamics.simulate(ModularSettings(n=5), runs=2, steps=6)
    table = scalar_table(trained)
    assert len(table) == 2 * trained.sizes["step"]
    table.to_csv(tmp_path / "table.csv", index=False)
    result = collect_scalars([tmp_path / "table.csv"])
    for split, name in (("train", "train"), ("validation", "test")):
        assert_array_equal(
            result["loss"].sel(split=name), trained["loss"].sel(split=split)
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no CSV file"),
        ("epoch,loss\n1,2\n", "found the columns epoch, loss, expected one .* Step"),
        ("step,loss\n1.5,2\n", "step is not a whole number"),
        ("step,name\n1,x\n", "no column of numbers"),
        ("step,loss\n1,inf\n", "not finite"),
        ("step,loss\n1,2\n1,3\n", "two values of loss at step 1"),
        ("step,loss,norm\n1,2,\n2,,3\n", "no step at which all scalars"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    with pytest.raises(TrajectoryError, match=message):
        collect_scalars([write(tmp_path / "log.csv", text)])


def test_events_of_a_log(tmp_path, output_of):
    rows = [f"{step},{2 if step < 500 else 0.1}" for step in range(0, 1000, 5)]
    write(tmp_path / "log.csv", "\n".join(["Step,loss", *rows]))
    assert "frames      200, from step 0 to 995" in output_of("sims.collect", "log.csv")
    assert "497.5" in output_of("analysis.events", "runs/log.nc")
