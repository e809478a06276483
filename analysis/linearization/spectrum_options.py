"""Options of the spectrum of a recorded model."""

import dataclasses
from typing import Literal

from dynamics.settings import check_integer, check_real


@dataclasses.dataclass(frozen=True)
class SpectrumOptions:
    """How spectra are computed.

    Raises
    ------
    SettingsError
        If a value is not allowed.

    Examples
    --------
    >>> SpectrumOptions(eigenvalues=2).basis
    40
    """

    eigenvalues: int = 5
    """Number of eigenvalues at each end of the spectrum. All are computed, from the
    whole Hessian, if twice this number is at least that of the parameters (for up to
    `MOST_PARAMETERS`)."""
    tolerance: float = 1e-6
    """Residual |H v - lambda v| at which an eigenpair is accepted, over the largest
    magnitude of an eigenvalue."""
    probes: int = 16
    """Number of random vectors for the trace."""
    precision: Literal["float64", "float32"] = "float64"
    """Type in which the loss and its derivatives are computed."""
    mode: Literal["train", "eval"] | None = None
    """Mode of the torch modules that the loss calls. Default: the one that they
    have."""

    def __post_init__(self) -> None:
        check_integer("eigenvalues", self.eigenvalues, 1, 10**6)
        check_real("tolerance", self.tolerance, positive=True, below=1)
        check_integer("probes", self.probes, 2, 10**6)

    @property
    def basis(self) -> int:
        """Number of vectors that Lanczos keeps."""
        return max(40, 20 * self.eigenvalues)
