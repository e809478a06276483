"""Settings as options of a command line, without those that commands have other words for."""

import dataclasses

import tyro

from dynamics.settings import SparseSettings, StartRuns


@dataclasses.dataclass(frozen=True)
class SparseOptions(SparseSettings):
    """What is learned, by what network, and how. All values are dimensionless."""

    start: tyro.conf.Suppress[str] = "random"
    start_step: tyro.conf.Suppress[int] = 0
    start_runs: tyro.conf.Suppress[StartRuns] = "seed"

    @classmethod
    def of(cls, settings: SparseSettings) -> "SparseOptions":
        """Options with these settings as defaults."""
        return cls(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)})

    @property
    def settings(self) -> SparseSettings:
        """The settings themselves."""
        return SparseSettings(**dataclasses.asdict(self))
