"""The mode, train or eval, of the torch modules that a loss calls.

In train mode, layers such as BatchNorm normalise by the batch and update their running
statistics in place, which derivatives of `torch.func` do not allow. The statistics are
hidden from them meanwhile: the result of the layer is the same."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch.nn.modules import module as torch_module
from torch.nn.modules.batchnorm import _NormBase

Mode = Literal["train", "eval"]

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class ModuleModes:
    """Sets the mode of modules while a loss is computed, if one is given, and collects
    their modes and the statistics by which they normalise.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    >>> modes = ModuleModes("eval")
    >>> with modes.observed({}):
    ...     _ = model(torch.ones(1, 2))
    >>> modes.description, model.training
    ('eval', True)
    """

    def __init__(self, mode: Mode | None = None) -> None:
        self.mode = mode
        self.modes: set[str] = set()
        """The modes (train or eval) of the modules that the loss has called."""
        self.statistics: set[str] = set()
        """What normalising layers used: batch, recorded or other."""
        self._changed: dict[torch.nn.Module, bool] = {}
        self._hidden: list[tuple[torch.nn.Module, dict[str, torch.Tensor | None]]] = []
        self._buffers: set[int] = set()

    @property
    def description(self) -> str:
        """The modes in words; empty if no module was called."""
        return " and ".join(sorted(self.modes, reverse=True))

    @contextlib.contextmanager
    def observed(self, buffers: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """Observe the modules that are called. `buffers` are the recorded ones."""
        self._buffers = {id(buffer) for buffer in buffers.values()}
        hooks = (
            torch_module.register_module_forward_pre_hook(self._before_call),
            torch_module.register_module_forward_hook(
                lambda module, arguments, result: self._show_statistics(module),
                always_call=True,
            ),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            while self._hidden:
                self._show_statistics(self._hidden[-1][0])
            for module, training in self._changed.items():
                module.training = training
            self._changed = {}

    def _before_call(self, module: torch.nn.Module, arguments: Any) -> None:
        if self.mode is not None and module not in self._changed:
            for part in module.modules():
                self._changed.setdefault(part, part.training)
                part.training = self.mode == "train"
        self.modes.add("train" if module.training else "eval")
        if not isinstance(module, _NormBase) or module.running_mean is None:
            return
        if not module.training:
            recorded = id(module.running_mean) in self._buffers
            self.statistics.add("recorded" if recorded else "other")
            return
        self.statistics.add("batch")
        hidden = {name: module._buffers[name] for name in _STATISTICS}
        self._hidden.append((module, hidden))
        module._buffers.update(dict.fromkeys(_STATISTICS))

    def _show_statistics(self, module: torch.nn.Module) -> None:
        if self._hidden and self._hidden[-1][0] is module:
            module._buffers.update(self._hidden.pop()[1])
