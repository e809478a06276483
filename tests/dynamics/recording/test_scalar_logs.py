"""Trajectories from CSV files of TensorBoard and wandb, and tables for them."""

import re

import numpy as np
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
    path.write_text(text, encoding="utf-8")
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
        ("step,loss\n-1,2\n", "step is not a whole number .* '-1' in line 2"),
        ("step,loss\n\n1,2\nx,3\n", "step is not a whole number .* 'x' in line 4"),
        ("step,loss\n1,True\n", "no column of numbers .*; loss: .*'True' in line 2"),
        ("step,loss\n1,\n2,NA\n", "no column of numbers .*; loss: all cells are empty"),
        (
            "step,loss,lr\n0,2,1\n1,oops,1\n",
            "column loss, line 3: 'oops' .*--column loss=",
        ),
        ("step,a - loss\n0,x\n1,2\n", "column a - loss, line 2: 'x' .*--column loss="),
        ("step,loss\n0,2\n1,1_0\n", "line 3: '1_0' is no number"),
        ("step;loss\n0;2,5\n1;1,5\n", "line 2: '2,5' .*decimals follow a point"),
        ("step,loss\n1,2,3\n", "line 2 has 3 cells, the header 2"),
        ("step,loss,lr\n1,2\n", "line 2 has 2 cells, the header 3"),
        ("step,loss,seed\n1,2,3\n2,2,\n", "the row in line 3 has no seed"),
        ("step,loss,seed\n1,2,a\n", "seed is not a whole number .* 'a' in line 2"),
        (
            "step,accuracy\n0,57\n1,60\n",
            "accuracy, line 2: .* of 57, allowed .*--column",
        ),
        ("step,test_acc\n0,0.5\n1,-1\n", "column test_acc, line 3: .* of -1"),
        ("step,loss\n1,2\n1,3\n", "two values of loss at step 1"),
        ("step,loss,norm\n1,2,\n2,,3\n", "no step at which all scalars"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    with pytest.raises(TrajectoryError, match=message):
        collect_scalars([write(tmp_path / "log.csv", text)])


def test_columns_that_are_left_out_are_named(tmp_path):
    log = write(
        tmp_path / "log.csv",
        "step,loss,note,_time,lr,,lr__MAX,empty\n0,2,a,1,x,7,1,\n1,1,2,1,3,8,1,NA\n",
    )
    lines = []
    rules = ["note=", "lr="]
    result = collect_scalars([log], columns=rules, log=lines.append)
    assert {*result.data_vars} == {"loss", "status", "last_step"}
    assert [line.split()[0] for line in lines if "left out" in line] == [
        *("note", "_time", "lr", "lr__MAX", "empty")
    ]
    assert any("all cells are empty" in line for line in lines)
    text = write(tmp_path / "log.csv", "step,loss,note\n0,2,a\n1,1,b\n")
    collect_scalars([text], log=lines.append)
    assert any("note" in line and "'a' in line 2" in line for line in lines)
    with pytest.raises(SettingsError, match="note=own .*no numbers"):
        collect_scalars([text], columns=["note=own"])
    log = write(tmp_path / "log.csv", "step,loss,_time\n0,2,5\n1,1,6\n")
    result = collect_scalars([log], columns=["_time=runtime"])
    assert_array_equal(result["runtime"], [[5, 6]])


VALUES = st.one_of(
    st.floats(width=32), st.sampled_from(["", "NA", "null", "NaN", "-inf", "Infinity"])
)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.tuples(VALUES, VALUES), max_size=6),
    separator=st.sampled_from([",", ";", "\t"]),
    mark=st.sampled_from(["", "\ufeff"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_missing_values_and_values_that_are_not_finite_differ(
    tmp_path_factory, rows, separator, mark, end
):
    """Frames are the rows in which both values are spelled out, NaN ones too."""
    rows = [(1.0, 1.0), *rows]
    path = tmp_path_factory.mktemp("log") / "log.csv"
    table = [
        ("Step", "train/loss", "Länge"),
        *((3 * k, *row) for k, row in enumerate(rows)),
    ]
    text = end.join(separator.join(map(str, row)) for row in table)
    path.write_bytes((mark + text).encode())
    whole = [k for k, row in enumerate(rows) if not {*row} & {"", "NA", "null"}]
    lines = []
    result = collect_scalars([path], log=lines.append)
    assert result["step"].values.tolist() == [3 * k for k in whole]
    for column, found in enumerate((result["loss"].isel(split=0), result["Länge"])):
        assert_array_equal(found, [[float(rows[k][column]) for k in whole]])
    missing = [line for line in lines if "is missing" in line]
    assert len(missing) == (len(whole) < len(rows))
    if missing:
        assert f"{len(rows) - len(whole)} of {len(rows)} steps" in missing[0]


def test_a_run_whose_loss_becomes_nan_keeps_its_length(tmp_path, output_of):
    rows = [f"{step},{2 if step < 500 else 'NaN'}" for step in range(0, 1000, 5)]
    write(tmp_path / "log.csv", "\n".join(["Step,loss", *rows]))
    text = output_of("sims.collect", "log.csv")
    assert "frames      200, from step 0 to 995" in text
    assert "not finite  100 values of loss" in text
    recorded = dynamics.open_trajectory("runs/log.nc")
    assert np.isnan(recorded["loss"].values[0, 100:]).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [1e300, -1e300, 3.5e38])
def test_numbers_beyond_float32_are_infinite(tmp_path, number):
    """In logs and in `step` alike."""
    lines = []
    log = write(tmp_path / "log.csv", f"Step,loss,own\n0,{number},1\n")
    result = collect_scalars([log], log=lines.append)
    expected = np.copysign(np.inf, number)
    assert result["loss"].values.tolist() == [[[expected]]]
    assert "not finite  1 values of loss, 1 of them as they are beyond 3.4e38" in lines
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    evaluate = lambda model: {"own": number}  # noqa: E731
    with dynamics.record(model, optimizer, "own.nc", evaluate=evaluate) as recording:
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        recording.step(loss=number)
    recorded = dynamics.open_trajectory("own.nc")
    assert recorded["loss"].values[0, -1].tolist() == [expected]
    assert recorded["own"].values[0, -1] == expected


def test_a_table_of_blanks_is_read(tmp_path):
    log = write(tmp_path / "log.txt", "step  loss lr\n0  2 .1\n10 1 .2\n")
    result = collect_scalars([log])
    assert_array_equal(result["loss"].isel(split=0), [[2, 1]])


def test_tables_have_seeds(tmp_path):
    log = write(
        tmp_path / "table.csv", "seed,step,loss\n4,0,2\n4,5,1\n9,0,3\n9,5,nan\n"
    )
    result = collect_scalars([log])
    assert result["seed"].values.tolist() == [4, 9]
    assert result.attrs["seed"] == 4
    dynamics.save_trajectory(result, "log.nc")
    scalars = scalar_table(dynamics.open_trajectory("log.nc"))
    scalars.to_csv("again.csv", index=False, na_rep="NaN")
    again = collect_scalars(["again.csv"])
    assert again["seed"].values.tolist() == [4, 9]
    assert_array_equal(again["loss"], result["loss"])
    assert collect_scalars([log], seed=7)["seed"].values.tolist() == [7, 8]
    other = write(tmp_path / "other.csv", "step,lr\n0,1\n5,1\n")
    with pytest.raises(TrajectoryError, match="only some .* column seed"):
        collect_scalars([log, other])


def test_rows_without_a_step_are_counted(tmp_path):
    log = write(tmp_path / "log.csv", "step,loss\n0,2\n,7\nnan,7\n5,1\n")
    lines = []
    result = collect_scalars([log], log=lines.append)
    assert result["step"].values.tolist() == [0, 5]
    assert f"left out    2 rows without a step in {log}" in lines


def test_large_steps_are_exact(tmp_path):
    steps = [9007199254740993, 9007199254740995]
    log = write(tmp_path / "log.csv", f"step,loss\n{steps[0]},2\n{steps[1]},2\n")
    assert collect_scalars([log])["step"].values.tolist() == steps


def test_events_of_a_log(tmp_path, output_of):
    rows = [f"{step},{2 if step < 500 else 0.1}" for step in range(0, 1000, 5)]
    write(tmp_path / "log.csv", "\n".join(["Step,loss", *rows]))
    assert "frames      200, from step 0 to 995" in output_of("sims.collect", "log.csv")
    output = output_of("analysis.events", "runs/log.nc")
    assert "497.5" in output
    assert "steps apart" not in output
    assert " after the " not in output


def test_events_of_a_log_with_gaps(tmp_path, output_of):
    steps = [*range(10, 400, 5), *range(400, 1000, 50)]
    rows = [f"{step},{2 if step < 300 else 0.1}" for step in steps]
    write(tmp_path / "log.csv", "\n".join(["Step,loss", *rows]))
    output_of("sims.collect", "log.csv")
    output = output_of("analysis.events", "runs/log.nc")
    assert "frames are 5 to 50 steps apart" in output
    assert "after the first frame at step 10" in output


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
        ",".join([str(s), *(str((s + k) / 16) for k in range(len(names)))])
        for s in (0, 9)
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
        assert values.values.tolist() == [[place / 16, (9 + place) / 16]]


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
        ("step,a,b", {"columns": ["a=std/a"]}, "column: .*'std/a'"),
        ("step,a,b", {"columns": ["a=loss:val/a"]}, "column: .*'val/a'"),
        ("step,split,b", {}, "split"),
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
