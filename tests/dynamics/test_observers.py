"""A user's own quantities of frames, recorded with a run."""

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal

from dynamics import (
    Ensemble,
    ModularSettings,
    ParticleSettings,
    SettingsError,
    SparseSettings,
    branch,
    open_trajectory,
    run_path,
    simulate,
    sweep,
)
from dynamics.trajectory import recorder

PARTICLES = ParticleSettings(n=5)
SYSTEMS = [
    PARTICLES,
    ModularSettings(n=5, hidden=6),
    SparseSettings(data=64, hidden=5),
]


def radius(frame):
    return np.linalg.norm(frame["embedding"], axis=-1)


def widest(frame):
    return radius(frame).max(axis=1)


OBSERVE = {"radius": radius, "widest": widest}


def expected_radius(trajectory):
    return np.linalg.norm(trajectory["embedding"].values, axis=-1)


@pytest.mark.parametrize("settings", SYSTEMS, ids=lambda settings: settings.system)
@pytest.mark.parametrize("out", [None, "a.nc"])
def test_observers_are_recorded_and_change_nothing_else(settings, out):
    options = {"runs": 3, "steps": 8, "every": 2}
    plain = simulate(settings, **options)
    observed = simulate(settings, **options, out=out, observe=OBSERVE)
    assert observed["radius"].dims == ("run", "step", "radius_0")
    assert observed["widest"].dims == ("run", "step")
    assert_array_equal(observed["radius"], expected_radius(plain))
    xr.testing.assert_equal(
        observed.drop_vars(["radius", "radius_0", "widest"]).drop_attrs(),
        plain.drop_attrs(),
    )
    metrics = simulate(settings, **options, record="metrics", observe=OBSERVE)
    assert "embedding" not in metrics
    assert_array_equal(metrics["radius"], observed["radius"])


def test_an_interrupted_run_with_observers_continues(monkeypatch):
    options = {"runs": 3, "steps": 8, "observe": OBSERVE}
    whole = simulate(PARTICLES, **options)
    monkeypatch.setattr(recorder, "PART_SECONDS", 0.0)
    add = recorder.FileRecorder.add

    def stop(self, state, system):
        if state.step == 5:
            raise OSError("full")
        add(self, state, system)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(recorder.FileRecorder, "add", stop)
        simulate(PARTICLES, **options, out="a.nc")
    with open_trajectory("a.nc") as part:
        assert part["radius"].sizes["step"] == 5
    with pytest.raises(SettingsError, match="out: found .*a.nc with observers="):
        simulate(PARTICLES, runs=3, steps=8, out="a.nc")
    simulate(PARTICLES, **options, out="a.nc").close()
    longer = simulate(PARTICLES, **{**options, "steps": 12}, out="a.nc")
    xr.testing.assert_equal(
        longer["radius"].isel(step=slice(9)).drop_attrs(), whole["radius"].drop_attrs()
    )


def test_names_and_sources_of_observers_identify_a_run():
    plain = Ensemble(PARTICLES, 3)
    assert "observers" not in plain.identity
    assert plain.path == run_path(PARTICLES, 3, 0)
    variants = [
        Ensemble(PARTICLES, 3, observe=observe)
        for observe in ({"a": radius}, {"b": radius}, {"a": widest})
    ]
    assert len({ensemble.path for ensemble in (plain, *variants)}) == 4
    assert variants[0] == Ensemble(PARTICLES, 3, observe={"a": radius})
    result = variants[0].simulate()
    assert result.attrs["observers"] == variants[0].identity["observers"]
    xr.testing.assert_equal(result, plain.simulate(observe={"a": radius}))


def test_branches_and_sweeps_observe():
    source = simulate(PARTICLES, runs=3, steps=10, out="a.nc")
    changed = branch(source, 4, fa=3.0, out="b.nc", observe=OBSERVE)
    assert_array_equal(changed["radius"], expected_radius(changed))
    plain = branch(source, 4, fa=3.0)
    assert_array_equal(changed["embedding"], plain["embedding"])
    with pytest.raises(SettingsError, match="out: found .*b.nc with observers="):
        branch(source, 4, fa=3.0, out="b.nc")
    points = sweep(PARTICLES, {"fa": [1.0, 2.0]}, runs=2, steps=4, observe=OBSERVE)
    for name in points["file"].values:
        with open_trajectory(f"runs/{name}") as point:
            assert point["widest"].shape == (2, 5)


def fails(frame):
    return frame["momentum"]


def changes(frame):
    frame["embedding"][:] = 0
    return radius(frame)


def not_finite(frame):
    return np.log(np.zeros(len(frame["embedding"])))


def later(frame, calls=[]):  # noqa: B006 - counts its calls
    calls.append(1)
    return np.zeros((len(frame["embedding"]), len(calls)))


REFUSED = [
    ([radius], "observe: found a list, allowed is a dict"),
    ({"a b": radius}, "observe: found the name 'a b', allowed is a name of letters"),
    ({3: radius}, "observe: found the name 3"),
    ({"embedding": radius}, "the name 'embedding', allowed is a name that the format"),
    ({"step": radius}, "the name 'step'"),
    ({"receptor": radius}, "the name 'receptor'"),
    ({"token": radius}, "the name 'token'"),
    ({"a": radius, "a_0": widest}, "the name 'a_0', allowed is a name that is no dim"),
    ({"a": 3}, "observer a: found 3, allowed is a function of a frame"),
    ({"a": len}, "observer a: found <built-in function len>, whose source"),
    ({"a": fails}, "observer a: found KeyError: 'momentum'"),
    ({"a": changes}, "observer a: found ValueError: assignment destination is read"),
    ({"a": lambda frame: 1.0}, "observer a: found a float, allowed is an array"),
    ({"a": lambda frame: np.array(["x", "y"])}, "observer a: found an array of <U1"),
    ({"a": lambda frame: np.ones(7)}, r"a: found an array of shape \(7,\)"),
    ({"a": not_finite}, "observer a: found a value that is not finite"),
    ({"a": later}, r"observer a: found float64 of shape \(2, 2\) at step 0, allowed"),
]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("observe", "message"), REFUSED)
def test_an_observer_that_cannot_be_recorded_is_refused(observe, message, tmp_path):
    with pytest.raises(SettingsError, match=message):
        simulate(PARTICLES, runs=2, steps=3, observe=observe, out="a.nc")
    assert not list(tmp_path.glob("*.nc"))


def test_values_from_outside_of_an_observer_identify_a_run(monkeypatch):
    def path_with(observer):
        return Ensemble(PARTICLES, 3, observe={"a": observer}).path

    def beyond(limit):
        return lambda frame: np.sum(frame["embedding"] > limit, axis=(1, 2))

    def scaled(factor):
        def largest(frame, factor=factor):
            return factor * widest(frame)

        return largest

    for create in (beyond, scaled):
        assert path_with(create(1.0)) == path_with(create(1.0))
        assert path_with(create(1.0)) != path_with(create(np.array([2.0])))
    before = path_with(widest)
    monkeypatch.setitem(globals(), "radius", fails)
    assert path_with(widest) != before
