"""The arguments of an ensemble, which commands offer as options."""

from dataclasses import dataclass

from dynamics.settings import RecordMode, Settings


@dataclass(frozen=True)
class EnsembleArguments:
    """Settings and size of an ensemble, what is recorded, and where it is computed."""

    settings: Settings
    runs: int = 100
    """Number of runs. Run r has the seed SEED + r and does not depend on the other
    runs."""
    seed: int = 0
    """Seed of the first run."""
    steps: int | None = None
    """Number of steps. Default: that of the system."""
    every: int | None = None
    """Steps between recorded frames. The first and the last step are always
    recorded."""
    record: RecordMode = "all"
    """Record all variables, or only metrics: losses, accuracies and norms, without
    embeddings and weights."""
    device: str = "auto"
    """Device to compute on."""
    backend: str = "auto"
    """How the constant-attention network is computed on a CPU: runs on SIMD lanes, or
    matrix products of each run. auto is the one that a cost model expects to be faster
    for this number of runs. The last bits of a run depend on it, and on nothing else of
    the ensemble."""
