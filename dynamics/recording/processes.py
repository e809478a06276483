"""Trainings that run in several processes: which of them records, and whether it has the
whole parameters."""

import os

import torch

from dynamics.settings import SettingsError

_RANK_VARIABLES = (
    ("RANK",),
    ("SLURM_PROCID",),
    ("OMPI_COMM_WORLD_RANK",),
    ("PMI_RANK",),
    ("NODE_RANK", "LOCAL_RANK"),
)
"""Variables by which launchers tell a process its place; the first ones that are set
count. Only the first process has 0 in all of them."""


def is_distributed() -> bool:
    """Whether a process group exists, of which this process is a member."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def process_count() -> int:
    """The number of processes of the process group; 1 if there is none."""
    return torch.distributed.get_world_size() if is_distributed() else 1


def is_first_process() -> bool:
    """Whether this process has rank 0: in the process group, or before that exists by
    the variables that its launcher has set."""
    if is_distributed():
        return torch.distributed.get_rank() == 0
    for names in _RANK_VARIABLES:
        values = [os.environ[name] for name in names if name in os.environ]
        if values:
            return all(value.strip() in ("", "0") for value in values)
    return True


def check_whole_parameters(model: torch.nn.Module) -> None:
    """Raise SettingsError if each process has only a shard of the parameters, as with
    FSDP and tensor parallelism."""
    sharded = [
        name
        for name, tensor in model.named_parameters()
        if hasattr(tensor, "placements")
    ]
    sharded += [
        name or type(module).__name__
        for name, module in model.named_modules()
        if type(module).__name__ == "FullyShardedDataParallel"
    ]
    if sharded:
        raise SettingsError(
            "model",
            f"{sharded[0]}, of which each process has a shard",
            "parameters that are whole in each process, as with DDP; sims.collect reads"
            " gathered checkpoints",
        )


def inner_module(model: torch.nn.Module) -> torch.nn.Module:
    """The module inside of those that torch.compile, DDP, DataParallel and Lightning
    Fabric put around it."""
    parallel = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    for name in ("_orig_mod", "_original_module"):
        if name in model._modules:
            return inner_module(model.get_submodule(name))
    return inner_module(model.module) if isinstance(model, parallel) else model
