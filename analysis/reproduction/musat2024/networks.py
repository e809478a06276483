"""Networks trained at the four weight decays of CA table 1: what the claims of several
sections measure on them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.estimates import (
    Estimate,
    mean_by_seed,
    stratified_difference,
)
from analysis.reproduction.experiment import (
    Params,
    RequiredRuns,
    Runner,
    experiment_runs,
    measure_ensembles,
)
from dynamics.settings import ModularSettings

DECAYS = (0.0, 0.3, 0.6, 1.0)
"""Weight decays of the table."""
DIMS = ("weight_decay", "run")
OTHERS = "non-circles"
"""What the networks are that do not end as circles."""


def ensembles(
    params: Params, decays: Sequence[float] = DECAYS
) -> Sequence[RequiredRuns]:
    """Networks of each row, or of other weight decays."""
    settings = [ModularSettings(weight_decay=decay) for decay in decays]
    return [experiment_runs(one, params, params.get("every")) for one in settings]


def measure_by_weight_decay(
    runner: Runner,
    needs: Sequence[RequiredRuns],
    quantities: Mapping[str, str],
    measure_runs: Callable[[xr.Dataset], dict[str, np.ndarray]],
) -> xr.Dataset:
    """Quantities of the networks of several weight decays, (weight_decay, run), as
    `measure_ensembles` does."""
    decays = [need.settings.weight_decay for need in needs]  # type: ignore[attr-defined]
    return measure_ensembles(
        runner, needs, quantities, measure_runs, DIMS
    ).assign_coords(weight_decay=decays)


def networks_of_kind(
    evidence: xr.Dataset, decay: float, circles: bool = False
) -> xr.Dataset:
    """The networks at a weight decay that are circles, or those that are not,
    (run,)."""
    row = evidence.sel(weight_decay=decay)
    return row.isel(run=row["circle"].values == circles)


def mean_in_circles(evidence: xr.Dataset, name: str, unit: float = 1.0) -> Estimate:
    """Mean of a quantity over the circles of all weight decays, those of one seed
    counting as one."""
    values, circle = (evidence[one].transpose(*DIMS).values for one in (name, "circle"))
    seeds = np.indices(values.shape)[1]
    return mean_by_seed(
        unit * values.ravel(), circle.ravel() == 1, seeds.ravel(), "circles"
    )


def difference_within_decays(
    values: np.ndarray, first: np.ndarray, second: np.ndarray
) -> Estimate:
    """Mean over networks of one kind less that over another, within weight decays,
    seeds left out in turn; all (weight_decay, run), kinds bool."""
    decays, seeds = np.indices(values.shape)
    return stratified_difference(
        values.ravel(),
        first.ravel(),
        second.ravel(),
        seeds.ravel(),
        decays.ravel(),
        "networks",
    )


def circles_minus_others(
    evidence: xr.Dataset, name: str, unit: float = 1.0
) -> Estimate:
    """Mean of a quantity over circles less that over the others."""
    values, circle = (evidence[one].transpose(*DIMS).values for one in (name, "circle"))
    return difference_within_decays(unit * values, circle == 1, circle == 0)


def at_epoch(evidence: xr.Dataset, epoch: int) -> xr.Dataset:
    """Evidence at the recorded epoch that is nearest to a given one."""
    return evidence.sel(epoch=epoch, method="nearest")
