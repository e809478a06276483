"""The format: what is written is read, what is damaged is refused, and plain xarray
reads it too."""

import json
import shutil

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from dynamics import (
    ParticleSettings,
    TrajectoryError,
    checkpoints,
    open_trajectory,
    replay,
    save_trajectory,
    simulate,
)
from dynamics.trajectory.schema import (
    REQUIRED_ATTRIBUTES,
    read_settings,
    validate_trajectory,
)

SETTINGS = ParticleSettings(n=5, fa=2.0)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "run.nc"
    simulate(SETTINGS, runs=3, steps=20, seed=4, out=path).close()
    return path


@pytest.fixture
def file(written, tmp_path):
    return shutil.copy(written, tmp_path / "run.nc")


@pytest.fixture
def trajectory():
    return simulate(SETTINGS, runs=3, steps=4)


@pytest.fixture(scope="module")
def pair():
    return simulate(ParticleSettings(n=2, dim=1), runs=2, steps=2)


@settings(max_examples=15)
@given(
    values=arrays(
        np.float64,
        (2, 3, 2, 1),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    ),
    norms=arrays(
        np.float32,
        (2, 3, 1),
        elements=st.floats(allow_nan=False, allow_infinity=False, width=32),
    ),
)
def test_every_finite_float_survives_the_round_trip(
    values, norms, pair, tmp_path_factory
):
    path, trajectory = tmp_path_factory.mktemp("round") / "x.nc", pair.copy(deep=True)
    trajectory["embedding"][:], trajectory["gradient_norm"][:] = values, norms
    save_trajectory(trajectory, path)
    with open_trajectory(path) as read:
        assert read.attrs.pop("derived")
        assert read.identical(trajectory)
        assert np.array_equal(np.signbit(read["embedding"]), np.signbit(values))


def test_plain_xarray_reads_descriptions_and_chunks_are_of_one_run(
    written,
):
    with xr.open_dataset(written) as plain:
        assert dict(plain.sizes) == {
            "run": 3,
            "step": 21,
            "token": 5,
            "axis": 2,
            "layer": 1,
        }
        assert set(plain.coords) == {"step", "time", "seed", "token", "axis", "layer"}
        assert plain["layer"].values.tolist() == ["embedding"]
        for variable in plain.data_vars.values():
            assert variable.attrs["long_name"]
            assert variable.attrs.get("units", "1") == "1"
        assert plain["status"].attrs["flag_meanings"].split() == [
            "running",
            "done",
            "diverged",
            "stopped",
        ]
        assert json.loads(plain.attrs["config_json"])["fa"] == 2.0
        assert read_settings(plain) == SETTINGS
        assert set(REQUIRED_ATTRIBUTES) <= set(plain.attrs)
        assert_allclose(plain["time"], 0.003 * np.arange(21))
        assert plain["seed"].values.tolist() == [4, 5, 6]
    with netCDF4.Dataset(written) as file:
        embedding = file["embedding"]
        assert embedding.chunking() == [1, 21, 5, 2]
        assert not embedding.filters()["zlib"]
        assert file["last_step"].filters()["zlib"]
        for group in (file, file["checkpoint"]):
            assert not any(
                "_FillValue" in variable.ncattrs()
                for variable in group.variables.values()
            )


@pytest.mark.parametrize("steps", [1, 20, 100, 333])
def test_about_twenty_checkpoints(steps):
    simulate(SETTINGS, runs=1, steps=steps, out="a.nc").close()
    with checkpoints("a.nc") as group:
        known = group["checkpoint"].values
    assert (known[0], known[-1]) == (0, steps)
    assert min(steps, 10) < len(known) <= 22


# ------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("keep", [0, 1, 72, 73, 74, 500, 5000, -1, -73, -74])
def test_a_file_cut_short_is_refused(file, keep):
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(
        TrajectoryError, match=r"run\.nc: (cut short|damaged|not a NetCDF file)"
    ):
        open_trajectory(file)


def test_any_flipped_bit_is_noticed(file, generator):
    whole = bytearray(file.read_bytes())
    for place, bit in zip(
        generator.integers(0, len(whole), 100),
        generator.integers(0, 8, 100),
        strict=True,
    ):
        whole[place] ^= 1 << bit
        file.write_bytes(whole)
        for read in (open_trajectory, checkpoints):
            with pytest.raises(TrajectoryError):
                read(file)
        whole[place] ^= 1 << bit
    file.write_bytes(whole)
    open_trajectory(file).close()


@pytest.mark.parametrize("use", [open_trajectory, lambda path: replay(path, 0, 0, 1)])
def test_paths_that_are_no_trajectory_are_refused(tmp_path, use):
    (tmp_path / "text.nc").write_text("hello")
    (tmp_path / "folder.nc").mkdir()
    for name, message in (
        ("absent", "no such file"),
        ("text", "not a NetCDF file"),
        ("folder", "is a folder, expected a file"),
    ):
        with pytest.raises(TrajectoryError, match=message):
            use(tmp_path / f"{name}.nc")


# --------------------------------------------------------------------------- the schema


VIOLATIONS = [
    (lambda t: t.attrs.pop("modulus"), "attribute modulus: found None, expected int"),
    (
        lambda t: t.attrs.update(modulus="5"),
        "attribute modulus: found '5', expected int",
    ),
    (
        lambda t: t.attrs.update(schema_version=99),
        "attribute schema_version: found 99, this program reads 1",
    ),
    (
        lambda t: t.attrs.update(system="bogus"),
        "attribute system: found 'bogus', known are particles",
    ),
    (lambda t: t.attrs.update(config_json="{"), "attribute config_json"),
    (lambda t: t.attrs.update(config_json='{"fa": "2"}'), "attribute config_json.*fa"),
    (
        lambda t: t.attrs.update(config_json='{"bogus": 1}'),
        "attribute config_json: unknown setting 'bogus'",
    ),
    (
        lambda t: t.update({"status": ("run", np.array([1, 1, 7], np.int8))}),
        "variable status: found",
    ),
    (
        lambda t: t.update({"status": ("run", np.ones(3))}),
        "variable status: found float64, expected int8",
    ),
    (
        lambda t: t.update({"last_step": ("run", np.array([1, 2, 9]))}),
        "variable last_step: found 1..9",
    ),
    (
        lambda t: t.update({"seed": ("run", np.array([0, 1, 1]))}),
        "variable seed: found a seed twice",
    ),
    (
        lambda t: t.attrs.update(runs=4),
        "attribute runs: found 4, expected the size of run, 3",
    ),
    (
        lambda t: t.attrs.update(seed=4),
        "variable seed: does not begin with the attribute seed",
    ),
    (
        lambda t: t.update({"loss": ("run", np.zeros(3, np.float32))}),
        "variable loss: found dimensions",
    ),
]


@pytest.mark.parametrize(("change", "message"), VIOLATIONS)
def test_a_violation_of_the_schema_is_named(trajectory, change, message):
    change(trajectory)
    with pytest.raises(TrajectoryError, match=message):
        validate_trajectory(trajectory)


def test_all_variables_and_steps_from_zero_are_required_in_any_order_of_dimensions(
    trajectory,
):
    validate_trajectory(trajectory.transpose("axis", "step", "token", "layer", "run"))
    cases = [
        (f"{name}: missing", trajectory.drop_vars(name))
        for name in ("status", "gradient_norm", "time")
    ]
    for told, wrong in [
        *cases,
        *(("step", trajectory.isel(step=steps)) for steps in ([0, 2, 1], [1, 2])),
    ]:
        with pytest.raises(TrajectoryError, match=f"variable {told}"):
            validate_trajectory(wrong)
