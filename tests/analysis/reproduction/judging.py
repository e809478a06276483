"""Made evidence, and verdicts on single claims given the evidence of their
experiment."""

import numpy as np
import xarray as xr

from analysis.reproduction.registry import CLAIMS
from analysis.reproduction.rule import (
    Verdict,
    combine_verdicts,
    judge_estimate,
)
from analysis.reproduction.estimates import Estimate

YES, PARTLY, NO, OPEN = (
    Verdict.REPRODUCED,
    Verdict.PARTLY,
    Verdict.NOT,
    Verdict.UNDECIDED,
)
UNTESTABLE = Verdict.UNTESTABLE
CLAIMS_BY_NAME = {claim.name: claim for claim in CLAIMS}


def dataset(dims, coords=None, **columns) -> xr.Dataset:
    """Evidence whose columns all have the same dimensions."""
    return xr.Dataset(
        {name: (dims, np.asarray(values)) for name, values in columns.items()}, coords
    )


def made_evidence(lengths, columns, **attrs) -> xr.Dataset:
    """Evidence from columns by their dimensions, such as "run phase", to whose lengths
    they are broadcast. lengths: of each dimension the length or the coordinates."""
    coords = {
        dim: names for dim, names in lengths.items() if not isinstance(names, int)
    }
    sizes = lengths | {dim: len(names) for dim, names in coords.items()}
    data = {}
    for dims, values_by_name in columns.items():
        names = dims.split()
        shape = [sizes[dim] for dim in names]
        for column, values in values_by_name.items():
            data[column] = (names, np.broadcast_to(values, shape).copy())
    return xr.Dataset(data, coords, attrs)


def part_estimate(name: str, evidence: xr.Dataset, part: int = 0) -> Estimate:
    """The estimate of one part of a claim."""
    return CLAIMS_BY_NAME[name].parts[part].measure(evidence)


def part_verdict(name: str, evidence: xr.Dataset, part: int) -> Verdict:
    """The verdict on one part of a claim."""
    criterion = CLAIMS_BY_NAME[name].parts[part].criterion
    return judge_estimate(criterion, part_estimate(name, evidence, part)).verdict


def part_verdicts(name: str, evidence: xr.Dataset) -> list[Verdict]:
    """The verdict on each part of a claim."""
    return [
        part_verdict(name, evidence, part)
        for part in range(len(CLAIMS_BY_NAME[name].parts))
    ]


def verdicts(evidence: xr.Dataset, experiment: str) -> dict[str, Verdict]:
    """The verdict on each of the claims that an experiment tests, by name."""
    names = [claim.name for claim in CLAIMS if claim.experiment == experiment]
    return {name: combine_verdicts(part_verdicts(name, evidence)) for name in names}
