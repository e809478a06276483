"""Evidence made by hand, and the numbers of claims on it."""

import numpy as np
import xarray as xr

from analysis.reproduction.claim import Claim, JudgedNumber, Verdict, judge_number
from analysis.reproduction.registry import CLAIMS

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


def judged(name: str, evidence: xr.Dataset) -> list[JudgedNumber]:
    """The numbers of a claim on evidence."""
    return [judge_number(item, evidence) for item in CLAIMS_BY_NAME[name].numbers]


def verdicts(claim: Claim, evidence: xr.Dataset) -> list[Verdict]:
    """The verdict on each number of a claim."""
    return [judge_number(item, evidence).verdict for item in claim.numbers]
