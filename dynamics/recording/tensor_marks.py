"""Marks by which it is noticed that something has written to the tensors of a model."""

from typing import Any

import numpy as np
import torch

_ELEMENTS = 8
"""Elements of each tensor, evenly spaced, that are compared."""
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class TensorMarks:
    """The memory, version and some elements of tensors at one moment.

    torch counts the writes to a tensor in its version, but neither those of fused
    optimizers nor those to ``tensor.data``; these are noticed by the elements."""

    def __init__(self) -> None:
        self._tensors: list[torch.Tensor] = []
        self._addresses: list[int] = []
        self._versions: list[int] = []
        self._elements: list[Any] = []
        self._arrays: list[np.ndarray] = []
        self._views: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}

    def take(self, tensors: list[torch.Tensor]) -> None:
        """Mark the tensors as they are now."""
        self._tensors = tensors
        self._elements = self._read_elements()
        self._versions = [tensor._version for tensor in tensors]

    def have_changed(self) -> bool:
        """Whether something has written to the marked tensors."""
        addresses = self._addresses
        return (
            self._versions != [tensor._version for tensor in self._tensors]
            or self.values_differ()
            or self._addresses != addresses
        )

    def values_differ(self) -> bool:
        """Whether elements of the marked tensors have other values."""
        now = self._read_elements()
        return len(now) != len(self._elements) or any(
            not torch.equal(values, before)
            if isinstance(values, torch.Tensor) and isinstance(before, torch.Tensor)
            else values != before
            for values, before in zip(now, self._elements, strict=True)
        )

    def _read_elements(self) -> list[Any]:
        """The elements of tensors on a CPU, as bytes, and on other devices, as tensors."""
        addresses = [tensor.data_ptr() for tensor in self._tensors]
        if addresses != self._addresses:
            self._addresses = addresses
            self._arrays = []
            self._views = {}
            for view in map(_spaced_elements, self._tensors):
                if view.device.type == "cpu":
                    self._arrays.append(view.numpy())
                else:
                    kind = view.device, view.dtype
                    self._views.setdefault(kind, []).append(view)
        copies = [torch.cat(views) for views in self._views.values()]
        return [*copies, *(array.tobytes() for array in self._arrays)]


def _spaced_elements(tensor: torch.Tensor) -> torch.Tensor:
    """Some elements of a tensor, as integers of the same bits: a view of its memory."""
    memory = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    memory.set_(tensor.untyped_storage())
    begin = tensor.storage_offset()
    flat = memory[begin : begin + max(1, tensor.numel())]
    bits = flat.view(torch.uint8).view(
        _INTEGERS.get(tensor.element_size(), torch.uint8)
    )
    return bits[:: max(1, len(bits) // _ELEMENTS)]
