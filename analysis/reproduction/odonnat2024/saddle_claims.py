"""VC appendix A.1 and section 4.1: whether plateaus of the loss are saddle points, and
how runs leave them.

Gradient and Hessian of the whole training loss, whatever the batches, are exact
(`analysis.linearization`): in the middle of the last plateau before the first drop,
where the loss falls most in that drop, and at the end. Negative curvature is minus the
lowest eigenvalue, as a fraction of the largest in magnitude."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from analysis.linearization.eigenmodes import NULL_MODE_TOLERANCE
from analysis.linearization.network_curvature import flat_weight_pairs, loss_curvature
from analysis.linearization.training_loss import training_objective
from analysis.reproduction import estimates
from analysis.reproduction.claim import Claim, Number, Sign
from analysis.reproduction.estimates import Estimate
from analysis.reproduction.experiment import (
    Experiment,
    Params,
    RequiredRuns,
    Runner,
    Sizing,
    described,
)
from analysis.reproduction.odonnat2024 import gradient_norm_claims
from analysis.reproduction.odonnat2024.gradient_norm_claims import FULL, MINI
from analysis.statistics import Interval
from analysis.transitions import DEFAULT_DETECTION, event_table, trajectory_scalar
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.from_trajectory import clustering_head_of
from dynamics.networks.threads import single_torch_thread
from dynamics.progress import progress_bar
from dynamics.settings import SparseSettings
from dynamics.trajectory.diverged import not_diverged

MOMENTS = ("plateau", "drop", "end")
SHARES = {
    "lowest_share": "fraction of the movement along the lowest eigenvector",
    "negative_share": "the same along all of negative eigenvalue",
    "negative_chance": "the same of a random movement",
}
OF = "runs with a plateau before a drop"


def ensembles(params: Params) -> Sequence[RequiredRuns]:
    """Networks of two dimensions trained with full batches and with mini-batches."""
    return gradient_norm_claims.ensembles({**params, "three": 1})[:2]


def measure(runner: Runner, params: Params) -> xr.Dataset:
    """Gradient and curvature, (setup, run, moment), and the direction of the movement
    in the drop, (setup, run); NaN in runs without a plateau before a drop."""
    trajectories = [runner.ensemble(need) for need in ensembles(params)]
    with single_torch_thread():  # its Hessians are small
        setups = [_measure_setup(trajectory) for trajectory in trajectories]
    names = xr.Variable("setup", [FULL, MINI])
    return xr.concat(setups, names, join="outer", combine_attrs="override")


def _measure_setup(trajectory: xr.Dataset) -> xr.Dataset:
    network = clustering_head_of(trajectory)
    runs = trajectory.sizes["run"]
    loss = trajectory_scalar(trajectory, "loss")
    events = event_table(loss)
    gradient, negative = np.full((2, runs, len(MOMENTS)), np.nan)
    shares = {name: np.full(runs, np.nan) for name in SHARES}
    alive = np.flatnonzero(not_diverged(trajectory))
    for run in progress_bar(alive, desc="saddles", unit="run"):
        of_run = events.isel(event=events["of_run"].values == run)
        frames = plateau_and_drop(of_run, loss.isel(run=run))
        if frames is None:
            continue
        one = trajectory.isel(run=[run])
        frames = [*frames, loss.sizes["step"] - 1]
        curvature = loss_curvature(one, frames, quiet=True).isel(run=0)
        spectrum = curvature["eigenvalue"].transpose("step", "mode").values
        negative[run] = -spectrum[:, 0] / np.abs(spectrum).max(axis=1)
        for name, values in shares.items():
            values[run] = curvature[name].values[MOMENTS.index("drop")]
        objective = training_objective(network, int(one["seed"].item()))
        rows = flat_weight_pairs(one, network, frames)[0, :, 0]
        gradient[run] = [
            torch.func.grad(objective.loss)(row).norm()
            for row in torch.from_numpy(rows)
        ]
    columns = {
        "gradient": (gradient, "norm of the gradient of the whole training loss"),
        "negative": (negative, "minus the lowest eigenvalue over the largest"),
    }
    coords = {"run": np.arange(runs), "moment": list(MOMENTS)}
    by_run = {name: (shares[name], text) for name, text in SHARES.items()}
    return described(("run", "moment"), columns, coords).merge(described("run", by_run))


def plateau_and_drop(events: xr.Dataset, loss: xr.DataArray) -> list[int] | None:
    """Frames of the middle of the last plateau before the first drop, and before the
    largest fall of the loss (step,) in that drop, from the events of the run in order;
    None without them."""
    kinds = events["kind"].values
    initial = events["initial"].values.astype(bool)
    begin, end, middle = (events[name].values for name in ("begin", "end", "middle"))
    drops = np.flatnonzero((kinds == "drop") & ~initial)
    if not len(drops):
        return None
    drop = drops[0]
    plateaus = np.flatnonzero((kinds == "plateau") & (end <= begin[drop]))
    if not len(plateaus):
        return None
    steps = loss["step"].values
    plateau = int(np.abs(steps - middle[plateaus[-1]]).argmin())
    first = int(np.searchsorted(steps, begin[drop], "right")) - 1
    last = int(np.searchsorted(steps, end[drop]))
    return [plateau, first + int(np.diff(loss.values[first : last + 1]).argmin())]


# ------------------------------------------------------------------------------ saddles


def plateau_ratio(evidence: xr.Dataset, name: str, setup: str, moment: str) -> Estimate:
    """Decimal logarithm of a quantity on the plateau over that at another moment of the
    same run: mean over runs."""
    values = evidence[name].sel(setup=setup)
    plateau, other = (values.sel(moment=one) for one in ("plateau", moment))
    ratio = estimates.paired_ratio(plateau, other, OF)
    return ratio._replace(interval=Interval(*np.log10(ratio.interval).tolist()))


def curvature_number(setup: str) -> Number:
    """Negative curvature on the plateau in a setup."""
    return Number(
        lambda evidence: plateau_ratio(evidence, "negative", setup, "end"),
        Sign.POSITIVE,
        "negative curvature, as a fraction of the largest, on the plateau over that at"
        f" the end (log10), {setup}",
    )


def gradient_number(setup: str) -> Number:
    """The gradient norm on the plateau in a setup."""
    return Number(
        lambda evidence: plateau_ratio(evidence, "gradient", setup, "drop"),
        Sign.NEGATIVE,
        f"gradient norm on the plateau over that in the drop after it (log10), {setup}",
    )


SADDLE = Claim(
    "VC.appA.1.saddle",
    "appendix A.1",
    "the optimizer reaching a saddle point in the loss function",
    "On the plateau before the first drop training is near a saddle point: the gradient"
    " is small, and the loss curves down in some directions, far more than at the end.",
    (
        curvature_number(FULL),
        curvature_number(MINI),
        gradient_number(FULL),
        gradient_number(MINI),
    ),
    "1 is a factor of ten. The gradient is small, not zero. The loss has negative"
    " eigenvalues at the end of training as well, but far smaller ones. Other unfinished"
    " states were not compared.",
    summary="before the first drop training is near a saddle point",
    figure="vc15",
)

# ------------------------------------------------------------------------------- escapes


def escape_share(evidence: xr.Dataset, name: str, chance: xr.DataArray) -> Estimate:
    """Percentage of the squared movement in the drop that lies in some directions, less
    that of a random movement, given as a fraction: mini-batches, mean over runs."""
    share, random = (100 * one.sel(setup=MINI) for one in (evidence[name], chance))
    difference = estimates.paired_difference(share, random, OF)
    return estimates.note_means(difference, share, random, "%")


def lowest_share(evidence: xr.Dataset) -> Estimate:
    """The same along the lowest eigenvector, one of as many directions as there are
    parameters."""
    size = sum(ClusteringHead(SparseSettings()).lengths)
    chance = xr.full_like(evidence["lowest_share"], 1 / size)
    return escape_share(evidence, "lowest_share", chance)


ESCAPE = Claim(
    "OWN.escape",
    "",
    "",
    "When the loss falls most in the first drop, VC's networks move along directions of"
    " negative curvature more than a random movement would.",
    (
        Number(
            lambda evidence: escape_share(
                evidence, "negative_share", evidence["negative_chance"]
            ),
            Sign.POSITIVE,
            "movement along directions of negative curvature, minus that of a random"
            " movement",
            "points",
        ),
        Number(
            lowest_share,
            Sign.POSITIVE,
            "movement along the direction of most negative curvature, minus that of a"
            " random movement",
            "points",
        ),
    ),
    "Squared movement in the epoch of the first drop in which the loss falls most, and"
    " the Hessian before it. About half of the movement is along directions of negative"
    " curvature, hardly any along the most negative one, along which gradient flow would"
    " leave. Other epochs are not compared.",
    summary="where the loss falls most in the first drop, VC's networks move along"
    " directions of negative curvature more than by chance",
)

SADDLES = Experiment(
    "vc.saddles",
    "gradient and Hessian of the training loss on plateaus, in drops and at the end; the"
    " direction of the movement in the drops",
    measure,
    quick=Sizing(
        8,
        {"full": 12, "mini": 32, "updates": 2000},
        "fewer runs than 100, half as many full-batch updates",
    ),
    default=Sizing(20, {"full": 60, "mini": 100}, "60 full-batch runs, not 100"),
    full=Sizing(25, {"full": 100, "mini": 100}),
    ensembles=ensembles,
    depends={"events": DEFAULT_DETECTION, "tolerance": NULL_MODE_TOLERANCE},
    version=2,
    command="python -m analysis.curvature RUN.nc",
    claims=(SADDLE, ESCAPE),
)
