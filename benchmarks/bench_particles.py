"""Whole runs of the particle system."""

import numpy as np

from analysis import committor
from benchmarks.baselines import _plain
from dynamics import simulate
from dynamics.particles.particle_system import ParticleSystem
from dynamics.settings import ParticleSettings


class Runs:
    """Simulation without recording, from the initial state to the last step."""

    params = (
        [(1000, 17, 100), (100, 17, 100), (1, 17, 100), (16, 59, 10), (1, 113, 1)],
    )
    param_names = ("runs, N, steps",)

    def setup(self, size):
        runs, n, self.steps = size
        self.system = ParticleSystem(ParticleSettings(n=n))
        self.state = self.system.initial(np.arange(runs))
        self.system.advance(self.state, 1)  # compiled and warm

    def time_advance(self, size):
        self.system.advance(self.state, self.steps)


class Steps:
    """One step of one run in the plane for several N, by direct and by fast sums."""

    params = ([59, 113, 199, 257, 997, 1997], ["direct", "mesh"])
    param_names = ("N", "method")
    timeout = 600

    def setup(self, n, method):
        if n > 300 and method == "direct":
            raise NotImplementedError("takes minutes")
        self.system = ParticleSystem(ParticleSettings(n=n, method=method))
        self.state = self.system.initial(np.arange(1))  # compiled and warm

    def time_step(self, n, method):
        self.system.advance(self.state, 1)


class Committors:
    """Committors of 100 runs at 20 steps by 100 copies, N = 17, and the same number of
    steps of runs without branching."""

    timeout = 600

    def setup(self):
        settings = ParticleSettings(fa=2.0)
        self.source = simulate(settings, runs=100, steps=100, progress=False)
        committor(self.source, "circle", [99], 2)  # compiled and warm

    def time_committor(self):
        committor(self.source, "circle", 20, 100)

    def time_runs(self):
        """The copies take 52.5 steps on average."""
        system = ParticleSystem(ParticleSettings(fa=2.0))
        for begin in range(0, 200_000, 10_000):
            system.advance(system.initial(np.arange(begin, begin + 10_000)), 52)


class Baseline:
    """One force evaluation of one run at N = 17 with the plain loop, for comparison."""

    def setup(self):
        i, j = np.triu_indices(17)
        self.arguments = (
            np.random.default_rng(1).standard_normal((17, 2)),
            i,
            j,
            17,
            True,
        )
        _plain(*self.arguments)

    def time_plain_force(self):
        _plain(*self.arguments)
