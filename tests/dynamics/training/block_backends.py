"""Backends that train a run in a block of threads, for tests."""

import numpy as np

from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.training.cuda_backends import (
    ModularBlockBackend,
    SparseBlockBackend,
    block_plan,
)
from dynamics.training.training_systems import ModularSystem, SparseSystem

NETWORKS = {
    "modular": (ConstantAttention, ModularBlockBackend, ModularSystem),
    "sparse": (ClusteringHead, SparseBlockBackend, SparseSystem),
}


def small_plan(settings, **changes):
    """The plan of a network with few threads, as the simulator is slow."""
    return block_plan(settings)._replace(**{"threads": 4, **changes})


def block_backend(settings, runs, seed=0, scale=1.0, plan=None):
    """The backend of runs at their initial weights times a scale."""
    network_class, kind, _ = NETWORKS[settings.system]
    network = network_class(settings)
    seeds = seed + np.arange(runs)
    backend = kind(network, seeds, plan=plan or small_plan(settings))
    rows = np.float32(scale) * network.flatten(network.initial(seeds))
    moments = dict.fromkeys(backend.names, np.zeros_like(rows))
    backend.set_state(rows, moments, 0)
    return backend


def block_system(settings):
    """The system of the settings with this backend."""
    _, kind, system_class = NETWORKS[settings.system]
    system = system_class(settings, "cpu")
    system.backend_name = "blocks"
    system.backend = lambda seeds: kind(
        system.network, seeds, plan=small_plan(settings)
    )
    return system
