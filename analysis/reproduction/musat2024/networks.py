"""Networks trained at the four weight decays of CA table 1: what the claims of several
sections measure on them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import xarray as xr

from analysis.reproduction.verification import samples
from analysis.reproduction.verification.claim import Measurement, part
from analysis.reproduction.verification.criteria import Criterion
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.experiment import Params, Runner
from analysis.reproduction.verification.final_frames import measure_ensembles
from analysis.reproduction.verification.required_runs import RequiredRuns
from analysis.structures.circles_and_grids import count_imperfections
from dynamics.randomness import random_stream
from dynamics.settings import ModularSettings

DECAYS = (0.0, 0.3, 0.6, 1.0)
"""Weight decays of the table."""
DIMS = ("weight_decay", "run")
OTHERS = "non-circles"
SHUFFLES = 20
"""Number of random permutations of the tokens, from which the imperfections expected by
chance are computed."""


def ensembles(
    params: Params, decays: Sequence[float] = DECAYS
) -> Sequence[RequiredRuns]:
    """Networks of each row, or of other weight decays."""
    settings = [
        ModularSettings(weight_decay=each, **params.get("settings", {}))
        for each in decays
    ]
    return [
        RequiredRuns(each, params["runs"], params.get("epochs"), params.get("every"))
        for each in settings
    ]


def measure_by_weight_decay(
    runner: Runner,
    needs: Sequence[RequiredRuns],
    quantities: Mapping[str, str],
    measure_runs: Callable[[xr.Dataset, np.ndarray], dict[str, np.ndarray]],
) -> xr.Dataset:
    """Quantities of the networks of several weight decays, (weight_decay, run); NaN for
    networks that diverged.

    quantities are names with descriptions. measure_runs is called with a trajectory and
    which runs have not diverged, (run,), and returns values of these."""
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


def mean_at_decay(evidence: xr.Dataset, name: str, decay: float) -> Estimate:
    """Mean of a quantity at a weight decay."""
    return samples.estimate_mean(evidence[name].sel(weight_decay=decay), "networks")


def difference(
    evidence: xr.Dataset, name: str, at: tuple[float, float] = (1.0, 0.0)
) -> Estimate:
    """Mean of a quantity at one weight decay minus that at another, over seeds."""
    first, second = (evidence[name].sel(weight_decay=decay) for decay in at)
    return samples.paired_difference(first, second, "seeds")


def ratio_without_decay(evidence: xr.Dataset, name: str) -> Estimate:
    """A quantity without weight decay divided by that at weight decay 1, a geometric
    mean over seeds."""
    values = evidence[name]
    return samples.paired_ratio(
        values.sel(weight_decay=0.0), values.sel(weight_decay=1.0), "seeds"
    )


def weight_decay_trend(
    evidence: xr.Dataset, name: str, of_circles: bool | None = None
) -> Estimate:
    """Spearman's correlation of a quantity with weight decay, over all networks or one
    kind, seeds left out in turn."""
    every = evidence[name].transpose(*DIMS)
    return samples.setting_trend(
        every if of_circles is None else every.where(evidence["circle"] == of_circles)
    )


def mean_in_circles(evidence: xr.Dataset, name: str, unit: float = 1.0) -> Estimate:
    """Mean of a quantity over the circles of all weight decays, those of one seed
    counting as one."""
    rows = evidence[[name, "circle"]].to_dataframe(list(DIMS)).reset_index()
    return samples.mean_by_seed(
        unit * rows[name].values,
        rows["circle"].values == 1,
        rows["run"].values,
        "circles",
    )


def circles_minus_others(
    evidence: xr.Dataset, name: str, unit: float = 1.0
) -> Estimate:
    """Mean of a quantity over circles less that over the others, within weight decays,
    seeds left out in turn."""
    rows = evidence[[name, "circle"]].to_dataframe(list(DIMS)).reset_index()
    values, circle, run, decay = (
        rows[each].values for each in (name, "circle", "run", "weight_decay")
    )
    return samples.stratified_difference(
        unit * values, circle == 1, circle == 0, run, decay, "networks"
    )


def shuffled_imperfections(embedding: np.ndarray) -> np.ndarray:
    """Mean grid imperfections of the same positions with tokens permuted at random:
    (run, token, axis) -> (run,)."""
    generator = random_stream(0, "verify/tokens")
    permuted = [
        count_imperfections(embedding[:, generator.permutation(embedding.shape[1])])
        for _ in range(SHUFFLES)
    ]
    return np.mean(permuted, axis=0)


def trend_part(rule: Criterion, name: str, **more) -> Measurement:
    """A quantity rises or falls with weight decay."""
    return part(
        weight_decay_trend,
        rule,
        "rank correlation with weight decay",
        digits=2,
        name=name,
        **more,
    )
