"""VC appendix A.1 and section 4.1: whether the plateaus of the loss are saddle points, and how runs leave them.

A run is looked at with its whole training loss, whatever its batches: in the middle of the last plateau before its
first drop, where the drop is half done, in the middle of the plateau between the first drop and the second, and at the
end. Gradient and Hessian are exact (`analysis.linearization.hessians`); an eigenvalue is negative if it is below zero
by more
than a millionth of the largest in size. The escape is that of `analysis.linearization.plateau_escapes`.
"""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from tqdm import tqdm

from analysis.linearization.eigenmodes import NULL_MODE_TOLERANCE
from analysis.linearization.hessians import training_objective
from analysis.linearization.plateau_escapes import measure_plateau_escapes
from analysis.reproduction.verification.estimate import Estimate, percentage
from analysis.reproduction.verification.experiment import Experiment, Params, Runner, Size
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.reproduction.verification.samples import paired_difference
from analysis.statistics.intervals import Interval, mean_interval, median_interval
from analysis.transitions.detection import DEFAULT_DETECTION
from analysis.transitions.loss_events import event_table, trajectory_scalar
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.networks.threads import single_torch_thread
from dynamics.settings import SparseSettings
from dynamics.trajectory.diverged import not_diverged

SETUPS = ("full batch", "mini-batch")
MOMENTS = ("start", "plateau", "drop", "between", "end")
KEPT = ("gradient", "lowest", "negative", "highest")


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks trained with full batches and with mini-batches, as `analysis.paper` has them."""
    s = SparseSettings()
    full = RequiredRuns(
        SparseSettings(batch=s.data), params["full"], params.get("updates", 4000), params.get("every", 4)
    )
    return [full, RequiredRuns(s, params["mini"], epochs=params.get("epochs"))]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Gradient and Hessian, (setup, run, moment), NaN for moments that a run does not have; shares of its movement at
    its escape, (setup, run)."""
    trajectories = [runner.ensemble(need) for need in ensembles(params)]
    with single_torch_thread():  # its Hessians are small
        found = [_of_setup(each) for each in trajectories]
    return xr.concat(
        found,
        xr.Variable("setup", list(SETUPS)), join="outer", combine_attrs="override",
    )  # fmt: skip


def _of_setup(trajectory: xr.Dataset) -> xr.Dataset:
    network, runs = clustering_head_of(trajectory), trajectory.sizes["run"]
    found = event_table(trajectory_scalar(trajectory, "loss"))
    values = {name: np.full((runs, len(MOMENTS)), np.nan) for name in KEPT}
    for run in tqdm(range(runs), "saddles", unit="run", disable=None, leave=False):
        if not not_diverged(trajectory)[run]:
            continue
        loss = training_objective(network, int(trajectory["seed"][run]))
        mine = found.isel(event=np.flatnonzero(found["of_run"].values == run))
        for place, step in enumerate(event_steps(mine, trajectory["step"].values)):
            if np.isfinite(step):
                at = int(np.abs(trajectory["step"].values - step).argmin())
                for name, value in _point(loss, _row(trajectory, network, run, at)).items():
                    values[name][run, place] = value
    data: dict[str, tuple] = {name: (("run", "moment"), each, MEANINGS[name]) for name, each in values.items()}
    left = measure_plateau_escapes(trajectory).drop_vars("seed")
    data |= {name: ("run", left[name].values, left[name].attrs) for name in map(str, left.data_vars)}
    return xr.Dataset(data, {"run": np.arange(runs), "moment": list(MOMENTS)})


MEANINGS = {
    "gradient": {"long_name": "norm of the gradient of the whole training loss", "units": "1"},
    "lowest": {"long_name": "lowest eigenvalue of its Hessian", "units": "1"},
    "negative": {"long_name": "number of negative eigenvalues", "units": "1"},
    "highest": {"long_name": "highest eigenvalue", "units": "1"},
}


def event_steps(found: xr.Dataset, steps: np.ndarray) -> list[float]:
    """Steps of `MOMENTS`, of the events of one run in order; NaN where there is none."""
    kinds, initial = found["kind"].values, found["initial"].values.astype(bool)
    drops = np.flatnonzero((kinds == "drop") & ~initial)
    plateaus = np.flatnonzero(kinds == "plateau")
    if not len(drops):
        return [float(steps[0]), np.nan, np.nan, np.nan, float(steps[-1])]
    begin, end, middle = (found[name].values for name in ("begin", "end", "middle"))
    before = [p for p in plateaus if end[p] <= begin[drops[0]]]
    between = [p for p in plateaus if len(drops) > 1 and end[drops[0]] <= begin[p] and end[p] <= begin[drops[1]]]
    return [
        float(steps[0]),
        float(middle[before[-1]]) if before else np.nan,
        float(middle[drops[0]]),
        float(middle[between[0]]) if between else np.nan,
        float(steps[-1]),
    ]


def _row(trajectory: xr.Dataset, network: ClusteringHead, run: int, place: int) -> torch.Tensor:
    """Flat weights (parameter,) of a run at a frame, float64."""
    one = trajectory[list(network.variables)].isel(run=run, step=place)
    frame = {name: one[name].transpose(*dims).values[None] for name, dims in network.variables.items()}
    return torch.from_numpy(network.flatten(frame)[0].astype(np.float64))


def _point(loss, row: torch.Tensor) -> dict[str, float]:
    """Gradient and spectrum of a loss at flat weights."""
    slope = torch.func.grad(loss.loss)(row)
    values = torch.linalg.eigvalsh(loss.hessian(row)).numpy()
    negative = int((values < -NULL_MODE_TOLERANCE * np.abs(values).max()).sum())
    return {"gradient": float(slope.norm()), "lowest": values[0], "negative": negative, "highest": values[-1]}


SADDLES = Experiment(
    "vc.saddles",
    "gradient and Hessian of the training loss on plateaus, in drops and at the end; the direction of the escape",
    sizes={
        Size.QUICK: {"full": 12, "mini": 32, "updates": 2000},
        Size.DEFAULT: {"full": 60, "mini": 100},
        Size.FULL: {"full": 100, "mini": 100},
    },
    seconds={Size.QUICK: 8, Size.DEFAULT: 20, Size.FULL: 25},
    measure=measure,
    reduced={
        Size.QUICK: "12 runs of full batches, of half as many updates, and 32 of mini-batches in place of 100 of each",
        Size.DEFAULT: "60 runs of full batches in place of 100",
    },
    ensembles=ensembles,
    depends={"events": DEFAULT_DETECTION, "tolerance": NULL_MODE_TOLERANCE},
    command="python -m analysis.curvature RUN.nc",
)


# ------------------------------------------------------------------------------------------------- findings


def plateau_gradient_ratio(evidence: xr.Dataset, setup: str, moment: str = "plateau") -> Estimate:
    """Gradient norm on a plateau over that half-way down the first drop: median over runs that have both."""
    one = evidence["gradient"].sel(setup=setup)
    ratio = (one.sel(moment=moment) / one.sel(moment="drop")).values
    ratio = ratio[np.isfinite(ratio)]
    found = median_interval(ratio)
    norm = one.sel(moment=moment).values
    note = f"a norm of {np.nanmedian(norm):.2g}" if np.isfinite(norm).any() else "no plateau was found"
    return Estimate(found, len(ratio), "runs with a plateau and a drop", found.value, "ratio", note)


def negative_curvature(evidence: xr.Dataset, setup: str, moment: str = "plateau") -> Estimate:
    """Percentage of runs whose Hessian has negative eigenvalues at a moment."""
    negative = evidence["negative"].sel(setup=setup, moment=moment).values
    negative = negative[np.isfinite(negative)]
    note = f"{np.median(negative):.0f} of them in the median" if len(negative) else f"no run has a {moment}"
    return percentage(int((negative > 0).sum()), len(negative), "runs", note)


def escape_along(evidence: xr.Dataset, name: str, setup: str = "mini-batch") -> Estimate:
    """Percentage of the movement at the escape that lies in some directions: mean over runs."""
    values = 100 * evidence[f"escape_{name}"].sel(setup=setup).values
    values = values[np.isfinite(values)]
    return Estimate(Interval(*np.clip(mean_interval(values), 0, 100).tolist()), len(values))


def escape_beyond_chance(evidence: xr.Dataset, setup: str = "mini-batch") -> Estimate:
    """How many points more of the movement lies in directions of negative curvature than of a random one."""
    one = evidence.sel(setup=setup)
    return paired_difference(100 * one["escape_negative_share"], 100 * one["escape_negative_chance"])
