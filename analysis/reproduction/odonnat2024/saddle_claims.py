"""VC appendix A.1 and section 4.1: whether plateaus of the loss are saddle points, and
how runs leave them.

Gradient and Hessian of the whole training loss, whatever the batches, are exact
(`analysis.linearization.hessians`): in the middle of the last plateau before the first
drop, of that drop, and of the first plateau between the first two drops, and at the
end. An eigenvalue counts as negative if it is below zero by more than a millionth of
the largest in magnitude. The escape is that of
`analysis.linearization.plateau_escapes`."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.linearization.eigenmodes import NULL_MODE_TOLERANCE
from analysis.linearization.hessians import training_objective
from analysis.linearization.network_curvature import flat_weight_pairs
from analysis.linearization.plateau_escapes import measure_plateau_escapes
from analysis.reproduction.verification import (
    Estimate,
    Params,
    RequiredRuns,
    Runner,
    declare_experiment,
    described,
    samples,
)
from analysis.statistics.intervals import Interval, mean_interval
from analysis.transitions import DEFAULT_DETECTION, event_table, trajectory_scalar
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import SparseSettings
from dynamics.trajectory.diverged import not_diverged

SETUPS = FULL, MINI = ("full batch", "mini-batch")
MOMENTS = ("start", "plateau", "drop", "between", "end")


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks trained with full batches and with mini-batches; `analysis.paper` uses
    the same files."""
    full = SparseSettings(batch=SparseSettings().data), params["full"]
    mini = RequiredRuns(SparseSettings(), params["mini"], params.get("epochs"))
    return [
        RequiredRuns(*full, params.get("updates", 4000), params.get("every", 4)),
        mini,
    ]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Gradient and Hessian, (setup, run, moment), NaN at moments that a run lacks;
    directions of the movement at the escape, (setup, run)."""
    trajectories = [runner.ensemble(need) for need in ensembles(params)]
    with single_torch_thread():  # its Hessians are small
        setups = [_measure_setup(trajectory) for trajectory in trajectories]
    return xr.concat(
        setups,
        xr.Variable("setup", list(SETUPS)),
        join="outer",
        combine_attrs="override",
    )


def _measure_setup(trajectory: xr.Dataset) -> xr.Dataset:
    network = clustering_head_of(trajectory)
    runs = trajectory.sizes["run"]
    steps = trajectory["step"].values
    events = event_table(trajectory_scalar(trajectory, "loss"))
    values = np.full((2, runs, len(MOMENTS)), np.nan)
    for run in tqdm(
        np.flatnonzero(not_diverged(trajectory)),
        "saddles",
        unit="run",
        disable=None,
        leave=False,
    ):
        objective = training_objective(network, int(trajectory["seed"][run]))
        moments = np.array(
            event_steps(events.isel(event=events["of_run"].values == run), steps)
        )
        present = np.isfinite(moments)
        frames = np.abs(steps - moments[present, None]).argmin(axis=1)
        rows = torch.from_numpy(
            flat_weight_pairs(trajectory.isel(run=[run]), network, frames)[0, :, 0]
        )
        values[0, run, present] = [
            torch.func.grad(objective.loss)(row).norm() for row in rows
        ]
        eigenvalues = torch.stack(
            [torch.linalg.eigvalsh(objective.hessian(row)) for row in rows]
        )
        bounds = -NULL_MODE_TOLERANCE * eigenvalues.abs().amax(-1, keepdim=True)
        values[1, run, present] = (eigenvalues < bounds).sum(-1)
    columns = {
        "gradient": (values[0], "norm of the gradient of the whole training loss"),
        "negative": (values[1], "negative eigenvalues of its Hessian"),
    }
    escapes = measure_plateau_escapes(trajectory).drop_vars("seed")
    coords = {"run": np.arange(runs), "moment": list(MOMENTS)}
    return described(("run", "moment"), columns, coords).merge(escapes)


def event_steps(events: xr.Dataset, steps: np.ndarray) -> list[float]:
    """Steps of `MOMENTS`, from the events of one run in order; NaN for those that it
    lacks."""
    kinds, initial = events["kind"].values, events["initial"].values.astype(bool)
    begin, end, middle = (events[name].values for name in ("begin", "end", "middle"))
    drops = np.flatnonzero((kinds == "drop") & ~initial)
    plateaus = np.flatnonzero(kinds == "plateau")
    before = [p for p in plateaus if len(drops) and end[p] <= begin[drops[0]]]
    between = [
        p
        for p in plateaus
        if len(drops) > 1 and end[drops[0]] <= begin[p] and end[p] <= begin[drops[1]]
    ]
    chosen = (before[-1:], drops[:1], between[:1])
    return [
        float(steps[0]),
        *(float(middle[indices[0]]) if len(indices) else np.nan for indices in chosen),
        float(steps[-1]),
    ]


SADDLES = declare_experiment(
    "vc.saddles",
    measure,
    ensembles,
    depends={"events": DEFAULT_DETECTION, "tolerance": NULL_MODE_TOLERANCE},
)


def plateau_gradient_ratio(
    evidence: xr.Dataset, setup: str, moment: str = "plateau"
) -> Estimate:
    """Gradient norm on a plateau over that in the middle of the first drop: median over
    runs that have both."""
    norms = evidence["gradient"].sel(setup=setup)
    norm = samples.finite_values(norms.sel(moment=moment))
    note = f"a norm of {np.median(norm):.2g}" if len(norm) else "no plateau was found"
    return samples.estimate_median(
        norms.sel(moment=moment) / norms.sel(moment="drop"), "runs with both", note
    )


def negative_curvature(
    evidence: xr.Dataset, setup: str, moment: str = "plateau"
) -> Estimate:
    """Percentage of runs whose Hessian has negative eigenvalues at a moment."""
    negative = samples.finite_values(
        evidence["negative"].sel(setup=setup, moment=moment)
    )
    note = (
        f"median number: {np.median(negative):.0f}"
        if len(negative)
        else f"no run has a {moment}"
    )
    return samples.percentage_of_ones(negative > 0, "runs", note)


def excess_negative_curvature(
    evidence: xr.Dataset, setup: str, moment: str = "plateau"
) -> Estimate:
    """Number of negative eigenvalues on a plateau minus that of the same run at its
    end, in the mean over runs."""
    negative = (
        evidence["negative"].sel(setup=setup, moment=[moment, "end"]).dropna("run")
    )
    plateau, end = negative.transpose("moment", "run")
    estimate = samples.paired_difference(plateau, end, "runs with a plateau")
    if not estimate.count:
        return estimate
    values = *negative.median("run").values, *(100 * (negative > 0).mean("run").values)
    note = (
        "{:.0f} against {:.0f} at the end (medians); {:.0f}% and {:.0f}% of the runs"
        " have any"
    )
    return estimate._replace(note=note.format(*values))


def escape_along(evidence: xr.Dataset, name: str, setup: str = MINI) -> Estimate:
    """Percentage of the movement at the escape that lies in some directions: mean over
    runs."""
    values = samples.finite_values(100 * evidence[f"escape_{name}"].sel(setup=setup))
    return Estimate(
        Interval(*np.clip(mean_interval(values), 0, 100).tolist()), len(values)
    )


def escape_beyond_chance(evidence: xr.Dataset, setup: str = MINI) -> Estimate:
    """Percentage of the movement in directions of negative curvature minus that of a
    random movement."""
    one = evidence.sel(setup=setup)
    return samples.paired_difference(
        100 * one["escape_negative_share"], 100 * one["escape_negative_chance"]
    )
