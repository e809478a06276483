"""Made evidence of networks at several weight decays."""

import numpy as np
import xarray as xr

from analysis.reproduction.musat2024.networks import DECAYS, DIMS

DECAY = np.array(DECAYS)[:, None]


def table(circle, decays=DECAYS, **quantities) -> xr.Dataset:
    """Evidence of networks from rows that broadcast to (weight_decay, run)."""
    shape = np.broadcast_shapes(np.shape(circle), *(np.shape(values) for values in quantities.values()))
    data = {name: (DIMS, np.broadcast_to(np.asarray(values, float), shape))
            for name, values in {"circle": circle, **quantities}.items()}  # fmt: skip
    return xr.Dataset(data, {"weight_decay": list(decays), "run": np.arange(shape[1])})
