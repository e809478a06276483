"""Beyond CA: what its open choices change."""

from collections.abc import Callable

import xarray as xr

from analysis.reproduction.own import sensitivity
from analysis.reproduction.verification.claim import Claim, Measurement, part
from analysis.reproduction.verification.criteria import Above
from analysis.reproduction.verification.estimate import Estimate


def _every_reading(measure: Callable[[xr.Dataset], Estimate]) -> tuple[Measurement, ...]:
    """Of all readings, and of most: a count of all that there are, which no sampling makes uncertain."""
    return part(measure, Above(99), "all readings", "%"), part(measure, Above(50), "more than half", "%")


CLAIMS = (
    Claim(
        "OWN.sensitivity",
        "Table 2 does not depend on the choices that the paper leaves open.",
        "each of nine choices changed alone from the defaults: of how many none of the six numbers is further "
        "from the paper's than by chance and than the margins of table 2's claims. Three changes that the paper's "
        "words exclude are measured as well and not counted. The choices are all that were thought of, not a sample",
        experiment="own.sensitivity",
        parts=_every_reading(sensitivity.uncontradicted_readings),
        readings=("no number contradicted by the paper's", "no further from the defaults than by chance"),
        importance=2,
        meaning="the table is evidence for one reading of section 6 more than for the forces alone; defaults were "
        "chosen because they reproduce it",
    ),
    Claim(
        "OWN.sensitivity-rise",
        "Whatever choice is made where the paper leaves one open, circles become more with f_a.",
        "the same nine choices: of how many no step of f_a, from 0.5 to 1 and from 1 to 2, has fewer circles "
        "by more than chance",
        experiment="own.sensitivity",
        parts=_every_reading(sensitivity.rising_circles),
        readings=("nowhere fewer for certain", "everywhere more for certain, which two rows without circles never are"),
        meaning="even that alignment makes circles would hang on a choice that the paper does not tell",
    ),
)
