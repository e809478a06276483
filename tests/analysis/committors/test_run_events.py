"""Decisions compared with other events of the same runs."""

import numpy as np
from numpy.testing import assert_array_equal

from analysis import circles, committor
from analysis.committors import add_events, count_growing_modes, describe_events
from analysis.transitions import plateau_escape_times, trajectory_scalar
from dynamics import ModularSettings, ParticleSettings, simulate


def test_decisions_are_compared_with_escapes_and_formation():
    source = simulate(ParticleSettings(fa=2.0), runs=3, steps=100)
    result = add_events(source, committor(source, "circle", [0, 20, 40], 30))
    assert result["event"].values.tolist() == ["escape", "circle"]
    lines = describe_events(result).split("\n")[1:]
    escapes = plateau_escape_times(trajectory_scalar(source, "force"))
    moment = escapes["escape"].where(escapes["escaped"])
    assert_array_equal(result["event_step"].sel(event="escape"), moment)
    median = float(np.nanmedian(moment))
    assert lines[0].endswith(f"its first level (median: step {median:.0f})")
    circle = circles(source).values[1:]
    formed = [int(np.flatnonzero(~row)[-1]) + 1 for row in circle]
    assert result["event_step"].sel(event="circle").values.tolist()[1:] == formed
    assert lines[1] == (
        "2 of 2 runs are decided before their circle forms (median: step"
        f" {np.median(formed):.0f})"
    )
    few = add_events(source.isel(step=[0, -1]), result.drop_dims("event"))
    assert not describe_events(few)


def test_decisions_are_compared_with_the_last_growing_mode():
    source = simulate(ParticleSettings(fa=2.0), runs=3, steps=100)
    result = committor(source, "circle", [0, 20, 40, 60, 80], 20, bisections=1)
    counted = add_events(source, count_growing_modes(source, result, quiet=True))
    for run in range(3):
        counts = counted["growing_modes"].isel(run=run).dropna("step")
        step = counted["event_step"].sel(event="rest").values[run]
        if counts[-1] > 0:
            assert np.isnan(step)
        else:
            assert not counts.sel(step=slice(step, None)).any()
            assert counts.sel(step=slice(None, step - 1))[-1] > 0
    lines = describe_events(counted).split("\n")
    assert "runs are decided before their last growing mode disappears" in lines[-2]
    late = counted["decision_step"].values > 0
    assert late.sum() == 1
    first, last = counted["growing_modes"].isel(step=[0, -1]).median("run").values
    assert lines[-1].startswith(f"growing modes (median): {first:g} in the first")
    assert "next to later decisions (1 of 3 runs)" in lines[-1]
    assert lines[-1].endswith(f"{last:g} in the last")


def test_the_highest_peak_of_the_gradient_norm_of_a_network():
    source = simulate(ModularSettings(n=5), runs=2, steps=400, every=2)
    norms = source["gradient_norm"].transpose("run", "step", "layer")
    norms = norms.copy(data=np.ones(norms.shape))
    norms[0, 60] = 5
    norms[0, 120] = 9
    result = committor(source, "circle", [0], 2)
    result = add_events(source.assign(gradient_norm=norms), result)
    assert_array_equal(result["event_step"].sel(event="norm peak"), [240, np.nan])
    assert "before the highest peak of their gradient norm" in describe_events(result)
