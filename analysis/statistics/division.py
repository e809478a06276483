"""Division of arrays of which some divisors may be 0."""

from typing import Any

import numpy as np


def ratio(values: Any, divisors: Any, missing: float = np.nan) -> np.ndarray:
    """Quotients of arrays that are broadcast; `missing` where the divisor is not above
    0.

    Examples
    --------
    >>> ratio(np.array([1.0, 2.0]), np.array([4.0, 0.0]))
    array([0.25,  nan])
    """
    values, divisors = np.broadcast_arrays(values, divisors)
    dtype = np.result_type(values, divisors, np.float32)
    out = np.full_like(values, missing, dtype)  # in the order of the values in memory
    return np.divide(values, divisors, out=out, where=divisors > 0)
