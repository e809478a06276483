"""Estimators for claims that name the variables of the evidence to use.

All take the name of a variable, and coordinates at which its values are selected, as
`xarray.Dataset.sel` does. Where two samples are compared, the name or a coordinate is a
pair, and the first sample is compared with the second. Common arguments:

    of      what a value is of, such as "runs"
    unit    factor of the values, such as 100 for percentages
    where   values that other variables have in the runs that are used
"""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import xarray as xr

from analysis.reproduction.verification import samples
from analysis.reproduction.verification.estimate import Estimate


def selected_values(
    evidence: xr.Dataset,
    name: str,
    unit: float = 1,
    where: Mapping[str, Hashable] | None = None,
    **coordinates: Hashable,
) -> xr.DataArray:
    """Values of a variable at some coordinates; NaN for runs that are not used."""
    selected = evidence.sel(coordinates)
    values = unit * selected[name]
    for condition, value in (where or {}).items():
        values = values.where(selected[condition] == value)
    return values


def compared_values(
    evidence: xr.Dataset, **selection: Any
) -> tuple[xr.DataArray, xr.DataArray]:
    """The two samples of a comparison."""
    pairs = {key: value for key, value in selection.items() if isinstance(value, tuple)}
    first, second = (
        selection | {key: pair[place] for key, pair in pairs.items()}
        for place in (0, 1)
    )
    return selected_values(evidence, **first), selected_values(evidence, **second)


def mean_of(
    evidence: xr.Dataset,
    of: str = "runs",
    limits: tuple[float, float] = (-math.inf, math.inf),
    **selection: Any,
) -> Estimate:
    """Mean over runs."""
    return samples.estimate_mean(
        selected_values(evidence, **selection), of, limits=limits
    )


def median_of(evidence: xr.Dataset, of: str = "runs", **selection: Any) -> Estimate:
    """Median over runs."""
    return samples.estimate_median(selected_values(evidence, **selection), of)


def percentage_of(evidence: xr.Dataset, of: str = "runs", **selection: Any) -> Estimate:
    """Percentage of runs in which a variable is 1, not 0."""
    return samples.percentage_of_ones(selected_values(evidence, **selection), of)


def percentage_difference_of(
    evidence: xr.Dataset, of: str = "runs", **selection: Any
) -> Estimate:
    """Difference of such percentages, in points."""
    return samples.difference_of_ones(*compared_values(evidence, **selection), of)


def paired_difference_of(
    evidence: xr.Dataset, of: str = "runs", **selection: Any
) -> Estimate:
    """Mean difference in runs of equal seeds."""
    return samples.paired_difference(*compared_values(evidence, **selection), of)


def independent_difference_of(
    evidence: xr.Dataset, of: str = "runs", **selection: Any
) -> Estimate:
    """Difference of the means of independent runs."""
    return samples.independent_difference(*compared_values(evidence, **selection), of)


def ratio_of(evidence: xr.Dataset, of: str = "runs", **selection: Any) -> Estimate:
    """Geometric mean of the ratio in runs of equal seeds."""
    return samples.paired_ratio(*compared_values(evidence, **selection), of)


def trend_of(
    evidence: xr.Dataset, setting: str, of: str = "networks", **selection: Any
) -> Estimate:
    """Spearman's correlation with a setting, which is a dimension of the evidence."""
    values = selected_values(evidence, **selection).transpose(setting, "run")
    return samples.setting_trend(values, of)
