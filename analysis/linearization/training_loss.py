"""The training loss of any trajectory with recorded weights, as a function of flat
parameters: that of a network of this package on its training split, or that of a model
file.

The loss of a network is the mean cross-entropy, without the L2 term or the weight decay
of the optimizer: for CA over the training pairs of the run's seed, for VC over its
training sequences. `training_objective` has the same loss with its Hessian in closed
form, over the distinct sequences, weighted by how often they occur."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch.utils._pytree import (
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

from analysis.linearization.clustering_head_hessian import ClusteringHeadHessian
from analysis.linearization.constant_attention_hessian import ConstantAttentionHessian
from dynamics.networks.clustering_head import ClusteringHead
from dynamics.networks.constant_attention import ConstantAttention
from dynamics.networks.from_trajectory import Network, network_of
from dynamics.recording.model_file import ModelFile
from dynamics.recording.model_loss import ModelLoss, RecordedModel
from dynamics.recording.quantities import PARAMETER, SECOND_MOMENT
from dynamics.recording.recorded_network import recorded_loss
from dynamics.settings import (
    MODEL_FILE,
    ModularSettings,
    RecordedSettings,
    SettingsError,
    SparseSettings,
)
from dynamics.tasks import (
    all_pairs,
    distinct_sequences,
    modular_training_mask,
    operation_pairs,
    operation_splits,
    sample_sequences,
    sparse_sum,
)
from dynamics.trajectory.schema import check_variable_recorded


def training_model(
    trajectory: xr.Dataset,
    run: int,
    functions: ModelFile | None = None,
    dtype: torch.dtype = torch.float64,
) -> RecordedModel:
    """The training loss of one run of a trajectory.

    Parameters
    ----------
    trajectory : xr.Dataset
        Of a network of this package, or of a recorded model with its parameters.
    run : int
        Index of the run; the model has this run alone.
    functions : ModelFile, optional
        Functions of a recorded model.
    dtype : torch.dtype
        Type in which the loss is computed.

    Returns
    -------
    RecordedModel
        Flat parameters of each frame, and the mean loss of each batch. A network of this
        package has one batch, its whole training split.

    Raises
    ------
    SettingsError
        If a recorded model has no model file with a loss.
    TrajectoryError
        If the trajectory is of particles, or the weights are not recorded.

    Examples
    --------
    >>> from dynamics import ModularSettings, simulate
    >>> short = simulate(ModularSettings(n=5), runs=1, steps=2, progress=False)
    >>> model = training_model(short, 0)
    >>> loss = model.losses(0, 1)[0](model.row(0, 1))
    >>> abs(float(loss - short["loss"][0, 1, 0])) < 1e-6
    True
    """
    single = trajectory.isel(run=[run])
    if trajectory.attrs["system"] == RecordedSettings.system:
        if functions is None:
            raise SettingsError("model", "none for a recorded model", MODEL_FILE)
        return RecordedModel(single, recorded_loss(single, functions), dtype)
    network = network_of(trajectory)
    for name in network.variables:
        check_variable_recorded(trajectory, name)
    batch = training_batch(network, int(trajectory["seed"][run]))

    def loss(
        parameters: Mapping[str, torch.Tensor], batch: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        losses: Any = network.losses
        return losses(parameters, *batch).mean()

    names = {name: f"{PARAMETER}{name}" for name in network.variables}
    moments = [name for name in single if str(name).startswith(SECOND_MOMENT)]
    weights = single[[*names, *moments]].rename(names)
    return RecordedModel(weights, ModelLoss(loss, lambda: [batch]), dtype)


def training_batch(network: Network, seed: int) -> tuple[torch.Tensor, ...]:
    """The training split of the run with a seed: the arguments of `network.losses`
    after the weights, each (example, ...)."""
    settings = network.settings
    seeds = np.array([seed])
    if isinstance(settings, SparseSettings):
        tokens = sample_sequences(settings, seeds, "train")[0].astype(np.int64)
        targets = sparse_sum(tokens, settings)
        return torch.from_numpy(tokens), torch.from_numpy(targets)
    if isinstance(settings, ModularSettings):
        chosen = modular_training_mask(settings, seeds)[0]
        return (torch.from_numpy(all_pairs(settings.n)[chosen]),)
    train, _ = operation_splits(settings, seeds)
    return (torch.from_numpy(operation_pairs(settings)[train[0]]),)


def training_objective(
    network: ConstantAttention | ClusteringHead, seed: int
) -> ClusteringHeadHessian | ConstantAttentionHessian:
    """The training loss of the run with a seed, with the methods `loss(row)` and
    `hessian(row)` (exact)."""
    if isinstance(network, ConstantAttention):
        (pairs,) = training_batch(network, seed)
        return ConstantAttentionHessian(network, pairs)
    tokens, counts = distinct_sequences(network.settings, seed, "train")
    return ClusteringHeadHessian(network, tokens, counts / counts.sum())


class ExampleLoss:
    """The training loss of a frame on all examples or some of them.

    Examples are the entries along the first axes of the batches' tensors; tensors of
    another length than most are shared by all examples. Raises SettingsError if the
    number of examples of a batch is not known."""

    def __init__(self, model: RecordedModel, frame: int) -> None:
        self.losses = model.losses(0, frame)
        self.batch_loss = model.batch_loss(0, frame)
        counts = [_count_examples(batch) for batch in model.batches]
        self.examples = sum(counts)
        self.merged = _merge(model.batches) if len(set(counts)) == 1 else None
        """All examples as one batch; None if the batches have other lengths."""

    def __call__(
        self, row: torch.Tensor, indices: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The mean loss at flat parameters (parameter,), on the examples with some
        indices."""
        if indices is None or len(indices) == self.examples:
            if len(self.losses) == 1:
                return self.losses[0](row)
            return torch.stack([loss(row) for loss in self.losses]).mean()
        return self.batch_loss(self.select(indices), row)

    def select(self, indices: torch.Tensor) -> Any:
        """A batch of the examples with some indices. Raises SettingsError if batches
        have other lengths."""
        if self.merged is None:
            found = "batches of different lengths"
            raise SettingsError("batch", found, "0, or batches of the same length")
        return tree_map(lambda leaf: self._rows(leaf, indices), self.merged)

    def _rows(self, leaf: Any, indices: torch.Tensor) -> Any:
        is_data = isinstance(leaf, torch.Tensor) and leaf.ndim > 0
        return leaf[indices] if is_data and len(leaf) == self.examples else leaf


def _count_examples(batch: Any) -> int:
    """The number of examples of a batch: the length of most of its tensors."""
    lengths = Counter(
        len(leaf)
        for leaf in tree_leaves(batch)
        if isinstance(leaf, torch.Tensor) and leaf.ndim
    ).most_common(2)
    if not lengths:
        allowed = "tensors (example, ...)"
        raise SettingsError("model", "batches() without tensors", allowed)
    if len(lengths) == 2 and lengths[0][1] == lengths[1][1]:
        words = f"a batch of tensors of {lengths[0][0]} and of {lengths[1][0]} entries"
        allowed = "tensors (example, ...), most of them of the same length"
        raise SettingsError("model", words, allowed)
    return lengths[0][0]


def _merge(batches: Sequence[Any]) -> Any:
    """Batches of the same length as one; None if they do not share the tensors that are
    not of single examples."""
    length = _count_examples(batches[0])
    leaves = []
    structure = tree_structure(batches[0])
    for first, *others in zip(*map(tree_leaves, batches), strict=True):
        if not isinstance(first, torch.Tensor) or not first.ndim:
            leaves.append(first)
        elif len(first) == length:
            leaves.append(torch.cat([first, *others]))
        elif all(torch.equal(first, other) for other in others):
            leaves.append(first)
        else:
            return None
    return tree_unflatten(leaves, structure)
