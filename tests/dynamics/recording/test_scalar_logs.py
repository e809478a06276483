"""Trajectories from CSV files of TensorBoard and wandb, and tables for them."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import dynamics
from dynamics import ModularSettings, TrajectoryError, collect_scalars, scalar_table
from dynamics.recording.scalar_logs import NO_SCALARS
from dynamics.settings import SettingsError
from dynamics.trajectory.schema import RESERVED_NAMES


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
    assert result["loss"].sel(split="validation").values.tolist() == [[2, 1.5]]
    assert result["norm"].values.tolist() == [[7, 8]]


def test_a_table_of_scalars_is_read_back(tmp_path):
    trained = dynamics.simulate(ModularSettings(n=5), runs=2, steps=6)
    table = scalar_table(trained)
    assert len(table) == 2 * trained.sizes["step"]
    table.to_csv(tmp_path / "table.csv", index=False)
    result = collect_scalars([tmp_path / "table.csv"])
    assert_array_equal(result["loss"], trained["loss"])
    assert_array_equal(result["split"], ["train", "validation"])


def test_a_table_of_a_recorded_model_is_read_back(tmp_path):
    """With the learning rate."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with dynamics.record(model, optimizer, "recorded.nc") as recording:
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(torch.ones(3, 2)).square().mean()
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)
    recorded = dynamics.open_trajectory("recorded.nc")
    scalar_table(recorded).to_csv(tmp_path / "table.csv", index=False)
    result = collect_scalars([tmp_path / "table.csv"])
    for name in ("loss", "learning_rate"):
        assert_array_equal(result[name], recorded[name].astype("float32"), name)


@pytest.mark.parametrize("name", ["value", "name", "scalar", "index", "Value", "run"])
def test_columns_with_names_of_tables_are_read(tmp_path, name):
    log = write(tmp_path / "log.csv", f"step,loss,{name}\n0,1,2\n1,1,3\n")
    result = collect_scalars([log], columns=[f"{name}=own"])
    assert_array_equal(result["own"], [[2, 3]])


@pytest.mark.parametrize("name", sorted(NO_SCALARS - {*RESERVED_NAMES}))
def test_names_of_other_variables_are_refused(tmp_path, name):
    log = write(tmp_path / "log.csv", f"step,loss,{name}\n0,1,2\n1,1,2\n")
    with pytest.raises(SettingsError, match=f"--column {name}=VARIABLE"):
        collect_scalars([log])
    assert "own" in collect_scalars([log], columns=[f"{name}=own"])


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


SPLITS = {
    "train": ["train", "training"],
    "validation": ["val", "valid", "validation", "dev"],
    "test": ["test", "eval"],
}


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_no_column_replaces_another(tmp_path_factory, data):
    words = [word for several in SPLITS.values() for word in several]
    names = data.draw(
        st.lists(
            st.builds(
                lambda split, metric, joint: joint.join((split, metric)),
                st.sampled_from(words),
                st.sampled_from(["loss", "accuracy", "acc"]),
                st.sampled_from(["_", "/", " "]),
            ),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    rows = [
        ",".join([str(s), *(str(s + k) for k in range(len(names)))]) for s in (0, 9)
    ]
    path = tmp_path_factory.mktemp("log") / "log.csv"
    write(path, "\n".join([",".join(["step", *names]), *rows]))
    meanings = []
    for name in names:
        word, metric = re.split("[_/ ]", name)
        (split,) = (split for split, several in SPLITS.items() if word in several)
        meanings.append(({"acc": "accuracy"}.get(metric, metric), split))
    if len(set(meanings)) < len(names):
        with pytest.raises(SettingsError, match=r"both .*--column"):
            collect_scalars([path])
        return
    result = collect_scalars([path])
    for place, (metric, split) in enumerate(meanings):
        shared = metric in result and split in result["split"].values
        values = (
            result[metric].sel(split=split) if shared else result[f"{metric}_{split}"]
        )
        assert values.values.tolist() == [[place, 9 + place]]


@pytest.mark.parametrize(
    ("header", "options", "variables"),
    [
        ("step,val_loss,dev_loss", {"columns": ["dev_loss=loss:test"]}, ["loss"]),
        ("step,val_loss,dev_loss", {"columns": ["dev_loss=other"]}, ["loss", "other"]),
        ("step,val_loss,dev_loss", {"columns": ["dev_loss="]}, ["loss"]),
        ("batch,loss,norm", {"step_from": "batch"}, ["loss", "norm"]),
        ("global_step,_step,loss", {"step_from": "_step"}, ["loss"]),
        ("step,epoch,a=b", {"columns": ["a=b=norm"]}, ["norm"]),
    ],
)
def test_columns_are_what_the_user_says(tmp_path, header, options, variables):
    path = write(tmp_path / "log.csv", f"{header}\n0,1,2\n10,20,3\n")
    lines = []
    if "_step" in header:
        with pytest.raises(SettingsError, match="step_from: .* global_step, _step"):
            collect_scalars([path])
    result = collect_scalars([path], log=lines.append, **options)
    assert {*result.data_vars} - {"status", "last_step"} == {*variables}
    assert lines[0].split() == ["column", "variable", "split"]
    assert len(lines) > len(variables)


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("step,a/b,a_b", {}, "a/b and a_b, both a_b.*--column a_b=a_b:SPLIT"),
        ("step,loss,train_loss", {}, "both loss train"),
        ("step,status,loss", {"columns": ["status=status"]}, "another name"),
        ("step,gradient_norm,loss", {}, "--column gradient_norm=VARIABLE"),
        (
            "step,a,b",
            {"columns": ["c=loss"]},
            "NAME=VARIABLE:SPLIT with a column of a, b",
        ),
        ("step,a,b", {"columns": ["a"]}, "NAME=VARIABLE:SPLIT"),
        ("step,a,b", {"step_from": "c"}, "a column of .*: step, a, b"),
    ],
)
def test_ambiguous_columns_are_refused(tmp_path, header, options, message):
    path = write(tmp_path / "log.csv", f"{header}\n0,1,2\n10,20,3\n")
    with pytest.raises(SettingsError, match=message):
        collect_scalars([path], **options)


def test_columns_of_one_name_are_refused(tmp_path):
    path = write(tmp_path / "log.csv", "step,loss,loss\n0,1,2\n")
    with pytest.raises(TrajectoryError, match="two columns that are named loss"):
        collect_scalars([path])
