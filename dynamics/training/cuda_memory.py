"""Estimated memory that ensembles take on a CUDA device, in bytes.

The numbers of floats are those of the tensors that one update keeps for its gradient.
The estimates are above the peaks that torch reports on an NVIDIA H100, by up to two
thirds; tests/dynamics/training/test_cuda_memory.py has the peaks."""

from dynamics.settings import ModularSettings, SparseSettings, TransformerSettings

WORKSPACE = 160 * 2**20
"""What torch and cuBLAS take on a device beside the tensors of an ensemble."""
MAX_SCORING_NUMBERS = 1 << 28
"""Largest number of activations and one-hot tokens in the evaluation of clustering
heads."""


def modular_bytes(settings: ModularSettings, parameters: int, runs: int) -> int:
    """Memory of `runs` constant-attention networks with `parameters` parameters each."""
    pair = 6 + 3 * settings.hidden
    return WORKSPACE + 4 * runs * (16 * parameters + settings.pairs * pair)


def sparse_bytes(settings: SparseSettings, parameters: int, runs: int) -> int:
    """Memory of `runs` clustering heads with `parameters` parameters each."""
    training = 64 * parameters + settings.data * (8 * settings.length + 40)
    together = min(runs, runs_scored_together(settings))
    scoring = 5 * together * _scoring_numbers(settings)
    return WORKSPACE + runs * training + scoring


def runs_scored_together(settings: SparseSettings) -> int:
    """Number of clustering heads that are evaluated at a time; at least 1."""
    return max(1, MAX_SCORING_NUMBERS // _scoring_numbers(settings))


def _scoring_numbers(settings: SparseSettings) -> int:
    """Number of activations and one-hot tokens in the evaluation of one run."""
    return 2 * settings.data * (settings.hidden + 2 * settings.length * settings.rows)


def block_bytes(
    settings: ModularSettings | SparseSettings, parameters: int, runs: int
) -> int:
    """Memory of `runs` small networks with a block of threads each. The optimizer's
    moments are counted as three, the most that a known optimizer has."""
    numbers = 6 * parameters
    if isinstance(settings, ModularSettings):
        data = 4 * 4 * settings.pairs
    else:
        data = settings.data * (6 * (settings.length + 1) + 36)
    return WORKSPACE + runs * (4 * numbers + data)


def transformer_bytes(settings: TransformerSettings, parameters: int, runs: int) -> int:
    """Memory of `runs` transformers with `parameters` parameters each."""
    s = settings
    gathered = s.dim * (2 * s.positions + 1) + s.width + s.elements
    last_block = gathered + 2 * s.width + 4 * s.dim + 6 * s.elements
    block = s.positions * (2 * s.width + 4 * s.dim)
    pair = 4 * (last_block + (s.layers - 1) * block)
    training = 64 * parameters + 32 * s.pairs + s.batch_pairs * pair
    return WORKSPACE + runs * training + s.pairs * pair
