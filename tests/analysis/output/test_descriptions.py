"""Files describe themselves: names for axes, units, sentences, and the rules of the CF
conventions that concern them. h5py, ncdump and R's ncdf4 read them."""

import contextlib
import re
import shutil
import subprocess
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import analysis
import dynamics
from analysis.output import write_result
from analysis.structures import add_structures, compare_trajectories
from dynamics import (
    ModularSettings,
    ParticleSettings,
    SparseSettings,
    open_trajectory,
    simulate,
    sweep,
)
from dynamics.trajectory.schema import MAX_LABEL, axis_label, describe_variables

SETTINGS = {
    "particles": ParticleSettings(n=7),
    "modular": ModularSettings(n=5, hidden=6),
    "sparse": SparseSettings(length=4, sparsity=2, data=24, batch=8, hidden=4),
}


def recorded_model(path):
    """A trajectory of a model from outside, whose parameters have long names."""
    inner = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
    model = torch.nn.ModuleDict({"a_part_with_a_name_of_many_letters": inner})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    name = "a_part_with_a_name_of_many_letters.0.weight"
    variables = {name.replace(".", "_"): name}
    with dynamics.record(model, optimizer, path, variables=variables) as recording:
        for _ in range(4):
            loss = inner(torch.ones(3, 2)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recording.step(loss=loss)


def write_every_kind():
    """Files of every kind that the package writes."""
    for name, settings in SETTINGS.items():
        options = {"runs": 3, "steps": 60, "every": 2, "out": f"{name}.nc"}
        with simulate(settings, **options) as trajectory:
            assert "python -m analysis" in trajectory.attrs["analyses"]
    recorded_model("recorded.nc")
    particles, network = open_trajectory("particles.nc"), open_trajectory("modular.nc")
    observe = {"largest": lambda frame: np.abs(frame["embedding"]).max((1, 2))}
    simulate(SETTINGS["particles"], 2, steps=4, out="own.nc", observe=observe).close()
    compared = compare_trajectories(
        *(simulate(ParticleSettings(n=5, fa=fa), 3, steps=9) for fa in (1, 2))
    )
    write_result(compared, Path("compared.nc"))
    results = {
        "formation": analysis.Formation().measure(particles),
        "events": analysis.Events().measure(network),
        "gradients": analysis.Gradients().measure(particles),
        "audit": analysis.audit_forces(network, renamings=2),
    }
    for name, result in results.items():
        assert_described(result)
        write_result(result, Path(f"{name}-result.nc"))
    swept = sweep(
        SETTINGS["particles"], {"fa": [1, 2], "step_rule": ["force"]}, 2, steps=9
    )
    write_result(add_structures(swept), Path("sweep.nc"))
    write_result(sweep(SETTINGS["sparse"], {"lr": [0.1]}, 2, epochs=2), Path("lr.nc"))


def assert_described(dataset):
    """Every variable and coordinate has a name for axes, units and a sentence."""
    for name, variable in dataset.variables.items():
        attrs = variable.attrs
        assert 0 < len(attrs["long_name"]) <= MAX_LABEL, name
        assert attrs["comment"], name
        if variable.dtype.kind in "iufb":
            assert attrs["units"] == "1", name


def groups_of(file):
    """The groups of an open file with a path for messages."""
    yield "", file
    yield from file.groups.items()


def assert_follows_cf(path):
    """Rules of CF 1.11: section 2.5.1 (coordinates have no fill value), 2.6.1 and 2.6.2 (global attributes), 3.1 and 3.2 (units
    and long_name), 3.5 (flags), 5 (coordinate variables are monotonic and complete), 6.1
    (labels), and 2.3 (letters, digits and underscores in names), from which names of
    parameters of models from outside are free."""
    with netCDF4.Dataset(path) as file:
        assert re.fullmatch(r"CF-1\.\d+", file.Conventions)
        assert file.title
        assert file.history
        for group_name, group in groups_of(file):
            for name, variable in group.variables.items():
                where = f"{path}: {group_name}/{name}"
                assert "parameter." in name or re.fullmatch(r"[A-Za-z]\w*", name), where
                assert variable.dtype is str or variable.dtype.kind in "iufS", where
                assert len(set(variable.dimensions)) == len(variable.dimensions), where
                assert variable.long_name, where
                is_number = variable.dtype is not str and variable.dtype.kind != "S"
                units = getattr(variable, "units", None)
                assert not is_number or units == "1", (where, variable.dtype)
                if hasattr(variable, "flag_values"):
                    words = variable.flag_meanings.split()
                    assert len(words) == len(set(variable.flag_values)), where
                    assert variable.flag_values.dtype == variable.dtype, where
                for other in getattr(variable, "coordinates", "").split():
                    assert other in group.variables, where
                    dims = group.variables[other].dimensions
                    assert set(dims) <= set(variable.dimensions), where
                is_coordinate = variable.dimensions == (name,)
                has_fill_value = "_FillValue" in variable.ncattrs()
                assert not (is_coordinate and has_fill_value), where
                if is_coordinate and is_number and name in ("step", "checkpoint"):
                    assert (np.diff(variable[:]) > 0).all(), where


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of one file of each kind that the package writes."""
    folder = tmp_path_factory.mktemp("kinds")
    with contextlib.chdir(folder):
        write_every_kind()
    paths = sorted(folder.glob("*.nc"))
    assert len(paths) >= 11
    return paths


def test_every_file_describes_itself_and_follows_cf(files):
    for path in files:
        assert_follows_cf(path)
        with xr.open_dataset(path) as dataset:
            assert_described(dataset)
        if path.name == "particles.nc":
            with xr.open_dataset(path, group="checkpoint") as states:
                assert_described(states)


def stored_values(path):
    """The values of all variables of a file, with group, by netCDF4."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        return {
            f"{group_name}/{name}".strip("/"): variable[:]
            for group_name, group in groups_of(file)
            for name, variable in group.variables.items()
        }


def test_h5py_reads_every_file(files):
    """Values equal those of netCDF4, text is text or letters, and every axis has its
    name."""
    for path in files:
        with h5py.File(path) as file:
            for name, values in stored_values(path).items():
                stored = file[name]
                where = f"{path.name}: {name}"
                if h5py.check_string_dtype(stored.dtype) and stored.dtype != "S1":
                    read = stored.asstr()[()]
                elif stored.dtype == "S1":
                    read = netCDF4.chartostring(stored[()])
                else:
                    read = stored[()]
                np.testing.assert_array_equal(read, values, where)
                assert stored.is_scale or all(map(len, stored.dims)), where


READ_BY_R = """
library(ncdf4)
path <- commandArgs(TRUE)
file <- nc_open(path)
for (name in names(file$var)) {
    values <- ncvar_get(file, name, collapse_degen = FALSE)
    if (is.character(values)) { total <- sum(nchar(values)); missing <- 0 }
    else { total <- sum(values, na.rm = TRUE); missing <- sum(is.na(values)) }
    cat(sprintf("%s\\t%s\\t%.17g\\t%d\\n",
        name, paste(rev(dim(values)), collapse = " "), total, missing))
}
"""


@pytest.fixture(scope="module")
def rscript():
    """The path of the program Rscript, if R has the package ncdf4."""
    command = shutil.which("Rscript")
    if command is None:
        pytest.skip("R is not installed")
    if subprocess.run(
        [command, "-e", "library(ncdf4)"], capture_output=True
    ).returncode:
        pytest.skip("R's package ncdf4 is not installed")
    return command


def test_r_reads_every_file(files, rscript):
    """Shapes, sums and numbers of missing values equal those of netCDF4."""
    for path in files:
        stored = stored_values(path)
        run = subprocess.run(
            [rscript, "-e", READ_BY_R, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert not run.stderr, run.stderr
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        with netCDF4.Dataset(path) as file:
            dimensions = set(file.dimensions)
        names = {name for name in stored if "/" not in name} - dimensions
        assert {row[0] for row in rows} >= names, path.name
        for name, shape, total, missing in rows:
            values = stored[name]
            if values.dtype == object:
                values = np.vectorize(len)(values)
            is_missing = np.isnan(values.astype(float))
            where = f"{path.name}: {name}"
            assert shape == " ".join(map(str, values.shape)), where
            assert int(missing) == is_missing.sum(), where
            expected = values[~is_missing].sum(dtype=float)
            np.testing.assert_allclose(
                float(total), expected, 1e-9, 1e-9, err_msg=where
            )


def test_ncdump_reads_every_file(files):
    command = shutil.which("ncdump")
    if command is None:
        pytest.skip("ncdump is not installed")
    for path in files:
        text = subprocess.run(
            [command, "-h", str(path)], capture_output=True, text=True, check=True
        ).stdout
        for name in stored_values(path):
            assert f" {name.split('/')[-1]}" in text.replace("\\", ""), (
                path.name,
                name,
            )


def test_what_can_be_done_next_is_in_the_text_of_a_dataset():
    text = repr(simulate(ParticleSettings(n=5), runs=2, steps=3))
    assert "analysis.circles(trajectory); all: python -m analysis\n" in text
    assert max(map(len, text.splitlines())) <= 80


@given(
    name=st.text("ab_", min_size=1, max_size=80), sentence=st.text("ab ", max_size=60)
)
def test_sentences_are_comments_and_names_are_short(name, sentence):
    label = axis_label(name)
    assert len(label) <= MAX_LABEL
    attrs = {"long_name": sentence} if sentence else {}
    data = xr.Dataset({name: ("x", [1.0], attrs)})
    described = describe_variables(data)[name].attrs
    assert len(described["long_name"]) <= MAX_LABEL
    if sentence:
        assert sentence in (described["long_name"], described["comment"])
    before = {key: dict(values.attrs) for key, values in data.variables.items()}
    again = describe_variables(data)
    assert {
        key: dict(values.attrs) for key, values in again.variables.items()
    } == before


@pytest.mark.parametrize("own", [{"units": "m"}, {"comment": "its own"}])
def test_attributes_of_a_variable_stay(own):
    data = xr.Dataset({"loss": ("x", [1.0], own)})
    assert own.items() <= describe_variables(data)["loss"].attrs.items()
