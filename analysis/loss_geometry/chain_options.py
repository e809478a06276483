"""Options of chains of Langevin dynamics."""

import dataclasses
import math

from dynamics.settings import check_integer, check_real


@dataclasses.dataclass(frozen=True)
class ChainOptions:
    """How chains sample. All values are dimensionless.

    Raises
    ------
    SettingsError
        If a value is not allowed.

    Examples
    --------
    >>> ChainOptions(draws=100).draws
    100
    """

    chains: int = 8
    """Number of chains at each frame, each with random numbers of its own."""
    draws: int = 400
    """Number of steps of a chain that are averaged over."""
    burn_in: int = 200
    """Number of steps before them."""
    step_size: float | None = None
    """Step size eps of a chain. Default: a fifth of 1 / (beta_n h + gamma) with the
    largest eigenvalue h of the Hessian at the frame, so that the variance along any
    direction is at most a twentieth too large; divided by 4, up to six times, while a
    chain diverges."""
    localisation: float = 100.0
    """Strength gamma of the attraction to the frame's parameters."""
    temperature: float | None = None
    """Inverse temperature beta_n, the factor of the mean loss. Default: n / log n for n
    examples."""
    batch: int = 0
    """Number of examples of a step, drawn with replacement, the same for all chains. 0:
    all."""
    chain_seed: int = 0
    """Seed of the random numbers of the chains."""

    def __post_init__(self) -> None:
        check_integer("chains", self.chains, 1, 10**6)
        check_integer("draws", self.draws, 2, 10**9)
        check_integer("burn_in", self.burn_in, 0, 10**9)
        check_integer("batch", self.batch, 0, 10**9)
        check_integer("chain_seed", self.chain_seed, 0, 2**62)
        check_real("localisation", self.localisation)
        for name in ("step_size", "temperature"):
            if getattr(self, name) is not None:
                check_real(name, getattr(self, name), positive=True)

    def beta_n(self, examples: int) -> float:
        """The inverse temperature for a number of examples."""
        if self.temperature is not None:
            return self.temperature
        return examples / math.log(max(examples, 2))
