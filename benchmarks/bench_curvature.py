"""Closed-form Hessians compared with products with all unit vectors, and the Jacobian
of the particle force."""

import statistics
import time

import numpy as np
import torch

from analysis.linearization.force_jacobian import (
    constrained_field,
    eigenvalues,
    force_and_jacobian,
)
from analysis.linearization.network_curvature import loss_curvature
from analysis.linearization.training_loss import training_objective
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.settings import ModularSettings, ParticleSettings, SparseSettings
from dynamics.simulation import simulate

NETWORKS = {
    "sparse, 196": ClusteringHead(SparseSettings()),
    "sparse, 198": ClusteringHead(SparseSettings(table=3)),
    "sparse, d = 8": ClusteringHead(SparseSettings(dim=8)),
    "modular, 691": ConstantAttention(ModularSettings()),
}


def first_state(network) -> torch.Tensor:
    """Flat initial parameters of seed 0."""
    return torch.from_numpy(
        network.flatten(network.initial(np.array([0])))[0].astype(np.float64)
    )


def by_products(loss, row: torch.Tensor) -> torch.Tensor:
    """The Hessian from forward-over-reverse products with all unit vectors, 64 at a
    time."""
    gradient = torch.func.grad(loss)
    columns = torch.func.vmap(
        lambda vector: torch.func.jvp(gradient, (row,), (vector,))[1], chunk_size=64
    )
    return columns(torch.eye(len(row), dtype=torch.float64))


def median_time(function, repeats: int) -> float:
    """Median time of a call, in seconds."""
    function()
    result = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        result.append(time.perf_counter() - begin)
    return statistics.median(result)


class OneHessian:
    """The whole Hessian of each network, on one thread."""

    params = list(NETWORKS)
    param_names = ("network",)
    timeout = 600

    def setup(self, name):
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.objective, self.row = (
            training_objective(NETWORKS[name], 0),
            first_state(NETWORKS[name]),
        )
        self.objective.hessian(self.row)

    def teardown(self, name):
        torch.set_num_threads(self.threads)

    def time_hessian(self, name):
        self.objective.hessian(self.row)

    def track_against_products(self, name):
        ours = median_time(lambda: self.objective.hessian(self.row), 15)
        return median_time(lambda: by_products(self.objective.loss, self.row), 3) / ours

    track_against_products.unit = "times"


class Spectra:
    """Hessian spectra of an ensemble on all threads: seconds for 100 runs x 20
    steps."""

    timeout = 600

    def setup(self):
        self.trajectory = simulate(
            SparseSettings(table=3), runs=10, steps=20 * 64, every=64
        )

    def track_two_thousand(self):
        return 10 * median_time(
            lambda: loss_curvature(self.trajectory, range(1, 21), quiet=True), 3
        )

    track_two_thousand.unit = "s"


class Particles:
    """The Jacobian of the force at 100 embeddings, and its eigenvalues."""

    params = [17, 59]
    param_names = ("n",)

    def setup(self, n):
        self.settings = ParticleSettings(n=n)
        self.x = np.random.default_rng(0).standard_normal((100 if n == 17 else 4, n, 2))

    def time_jacobian(self, n):
        force_and_jacobian(self.x, self.settings)

    def time_modes(self, n):
        for x in self.x:
            field = force_and_jacobian(x, self.settings)
            eigenvalues(constrained_field(x, field, self.settings).jacobian)
