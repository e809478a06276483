"""CA section 5, figures 3 and 4: whether pair sums cluster by their modular sum, in grids and in circles."""

import xarray as xr

from analysis.reproduction.musat2024 import networks
from analysis.reproduction.musat2024.table1 import TABLE_1
from analysis.reproduction.verification.claim import Claim, claims_of, main_result, part
from analysis.reproduction.verification.criteria import Above, Below
from analysis.reproduction.verification.estimate import Estimate
from analysis.reproduction.verification.samples import estimate_mean, paired_difference
from dynamics.settings import ModularSettings


def _clustered(imperfections: xr.DataArray) -> xr.DataArray:
    """Percentage of the 153 pair sums whose nearest other has the same modular sum: those that are not imperfect."""
    return 100 - 100 * imperfections / ModularSettings().pairs


def clustered_sums(evidence: xr.Dataset, decay: float, less: str = "") -> Estimate:
    """Percentage of clustered pair sums of the networks that are not circles, or its difference from another state."""
    row = evidence.sel(weight_decay=decay)
    row = row.isel(run=row["circle"].values == 0)
    values, of = _clustered(row["imperfections"]), networks.OTHERS
    return paired_difference(values, _clustered(row[less]), of) if less else estimate_mean(values, of)


def clustered_by_kind(evidence: xr.Dataset) -> Estimate:
    """The percentage in circles less that in other networks of equal weight decay, in points."""
    return networks.circles_minus_others(evidence.assign(clustered=_clustered(evidence["imperfections"])), "clustered")


CLAIMS = claims_of(
    TABLE_1,
    main_result(
        "CA.figure3.clusters",
        "In networks that form grids the pair sums cluster by their modular sum.",
        "percentage of pair sums whose nearest other has the same modular sum, at the end of training, its start, and "
        "with tokens renamed at random; networks with weight decay 0.6 that are not circles",
        (
            part(clustered_sums, Above(50, 10, ours=True), "at the end", "%", decay=0.6),
            part(clustered_sums, Above(0, 10), "minus start", "points", decay=0.6, less="start_imperfections"),
            part(clustered_sums, Above(0, 10), "minus renamed", "points", decay=0.6, less="chance_imperfections"),
        ),
        places="section 2, section 5, section 5.1, figure 3, appendix E",
    ),
    Claim(
        "CA.figure4.no-clusters",
        "In circles the pair sums are no longer clustered by their modular sum.",
        "percentage of pair sums whose nearest other pair sum has the same modular sum",
        (part(clustered_by_kind, Below(0, 20), "circles minus others", "points"),),
    ),
)
