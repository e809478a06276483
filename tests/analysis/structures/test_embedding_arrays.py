"""Array functions and labelled functions: one given what the other takes says so."""

import numpy as np
import pytest
import xarray as xr

import analysis
from dynamics import ParticleSettings, TrajectoryError, simulate

ARRAY_FUNCTIONS = (
    "is_circle",
    "count_imperfections",
    "nearest_circle",
    "procrustes_distance",
)
LABELLED_FUNCTIONS = {
    "circles": "is_circle",
    "grid_imperfections": "count_imperfections",
    "embedding_speed": "frame_speeds",
    "embedding_displacement": "frame_displacements",
    "departure_times": "frame_displacements",
    "embedding_spectrum": "power_fractions",
    "end_shape_distances": "match_shapes",
}


@pytest.fixture(scope="module")
def trajectory():
    return simulate(ParticleSettings(n=5), runs=2, steps=2)


@pytest.mark.parametrize("name", ARRAY_FUNCTIONS)
def test_an_array_function_refuses_datasets(name, trajectory):
    function = getattr(analysis, name)
    for labelled in (trajectory, trajectory["embedding"]):
        with pytest.raises(
            TypeError,
            match=f"embedding: found a {type(labelled).__name__}, expected an array",
        ):
            function(*[labelled] * (2 if name == "procrustes_distance" else 1))


@pytest.mark.parametrize(("name", "array_function"), LABELLED_FUNCTIONS.items())
def test_a_labelled_function_refuses_arrays_and_names_the_function_that_takes_them(
    name, array_function, trajectory
):
    array = trajectory["embedding"].values
    with pytest.raises(
        TypeError,
        match=f"found a ndarray, expected a dataset .*; {array_function} takes arrays",
    ):
        getattr(analysis, name)(*[array] * (2 if name == "end_shape_distances" else 1))


def test_diverged_frames_are_nan_only_where_there_are_any(trajectory):
    assert analysis.circles(trajectory).dtype == bool
    cut = trajectory.assign(last_step=("run", [2, 0]))
    assert np.isnan(analysis.circles(cut).values).tolist() == [
        [False] * 3,
        [False, True, True],
    ]
    assert isinstance(
        analysis.circles(trajectory["embedding"].isel(step=-1)), xr.DataArray
    )


def test_a_trajectory_without_embeddings_is_refused():
    trajectory = simulate(ParticleSettings(n=5), runs=2, steps=2, record="metrics")
    with pytest.raises(
        TrajectoryError,
        match="variable embedding: missing; a run recorded with record=metrics",
    ):
        analysis.circles(trajectory)
