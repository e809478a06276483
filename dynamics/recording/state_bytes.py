"""Nested states, such as those of optimizers, as bytes and back, without pickle.

The bytes are the length of a header, the header in JSON, and the values of all tensors
and arrays. Dictionaries, lists, tuples, numbers, strings, booleans and None are written
in the header; everything else is refused."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from dynamics.errors import RecordingError, TrajectoryError


def state_to_bytes(state: Mapping[str, Any]) -> np.ndarray:
    """The bytes of a state, (byte,) uint8. Raises RecordingError if it contains
    something that cannot be stored."""
    blocks: list[bytes] = []
    header = json.dumps(_encode(state, "state", blocks)).encode()
    return np.frombuffer(
        struct.pack("<Q", len(header)) + header + b"".join(blocks), np.uint8
    )


def state_from_bytes(stored: np.ndarray) -> dict[str, Any]:
    """The state from its bytes; bytes after its end are ignored. Raises
    TrajectoryError."""
    data = stored.tobytes()
    try:
        (length,) = struct.unpack_from("<Q", data)
        return _decode(json.loads(data[8 : 8 + length]), memoryview(data)[8 + length :])
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise TrajectoryError(f"the restart state cannot be read ({error})") from None


def _encode(value: Any, where: str, blocks: list[bytes]) -> Any:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        flat = value.detach().cpu().contiguous()
        return _add_block(
            "tensor",
            kind,
            value.shape,
            flat.reshape(-1).view(torch.uint8).numpy().tobytes(),
            blocks,
        )
    if isinstance(value, np.ndarray):
        return _add_block(
            "array",
            value.dtype.str,
            value.shape,
            np.ascontiguousarray(value).tobytes(),
            blocks,
        )
    if isinstance(value, Mapping):
        return {
            "dict": [
                [_encode(k, where, blocks), _encode(v, f"{where}.{k}", blocks)]
                for k, v in value.items()
            ]
        }
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {
            kind: [
                _encode(item, f"{where}[{place}]", blocks)
                for place, item in enumerate(value)
            ]
        }
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    allowed = "tensors, arrays, numbers, strings, and dictionaries and lists of them"
    raise RecordingError(
        f"{where}: found a {type(value).__name__}, allowed are {allowed}"
    )


def _add_block(
    sort: str, kind: str, shape: Any, data: bytes, blocks: list[bytes]
) -> dict[str, Any]:
    begin = sum(map(len, blocks))
    blocks.append(data)
    return {sort: [kind, list(shape), begin, len(data)]}


def _decode(value: Any, data: memoryview) -> Any:
    if not isinstance(value, dict):
        return value
    ((sort, content),) = value.items()
    if sort in ("list", "tuple"):
        items = [_decode(item, data) for item in content]
        return items if sort == "list" else tuple(items)
    if sort == "dict":
        return {_decode(k, data): _decode(v, data) for k, v in content}
    kind, shape, begin, length = content
    block = bytearray(data[begin : begin + length])
    if len(block) != length:
        raise ValueError("it was cut short")
    if sort == "array":
        return np.frombuffer(block, kind).reshape(shape)
    flat = (
        torch.frombuffer(block, dtype=torch.uint8)
        if length
        else torch.empty(0, dtype=torch.uint8)
    )
    return flat.view(getattr(torch, kind)).reshape(shape)
