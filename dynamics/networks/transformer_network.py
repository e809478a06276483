"""The transformer of Zhong et al. (arXiv 2306.17844, ZL) and Nanda et al. (arXiv
2301.05217, NA), for binary operations, as pure functions of a dict of tensors.

The sequence is (a, b) or (a, b, =). With the embedding E, the positions P and no layer
normalisation, each block is

    x_t = E[token t] + P_t                                              (before the first block)
    A = alpha softmax(q k / sqrt(head_axis)) + (1 - alpha)              (for each head)
    x <- x + O A v,    x <- x + W_out act(W_in x + b_in) + b_out,       logits = U x of the last position

The logits are computed in an order that needs fewer operations than this one. Only the
last position of the last block counts. Nothing nonlinear follows its MLP, so U W_out is
multiplied first. Before the first block there are as many different rows as tokens, not
as many as pairs, so what is linear in them is computed once for each token (`prepare`)
and gathered for the pairs (`pair_logits`). If alpha is 0, the input of the MLP is also
a sum of such rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from dynamics import randomness
from dynamics.networks.activation_functions import ACTIVATIONS
from dynamics.networks.parameters import NetworkParameters, Weights
from dynamics.settings import TransformerSettings
from dynamics.tasks import operation_table


class Transformer(NetworkParameters):
    """The transformer of ZL and NA for a binary operation.

    The network holds no weights; its methods take them as a dict, see
    `dynamics.networks.weights`. Tensors may have any leading axes, such as run and
    step.

    Parameters
    ----------
    settings : TransformerSettings
        Sizes of the network, its attention and activation, and its task.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from dynamics import TransformerSettings
    >>> network = Transformer(TransformerSettings(n=5, dim=8))
    >>> initial = {name: torch.from_numpy(values) for name, values in network.initial(np.arange(3)).items()}
    >>> pairs = torch.tensor([[0, 1], [2, 4]])
    >>> network.logits(initial, pairs).shape  # run, pair, class
    torch.Size([3, 2, 5])
    >>> network.target(pairs)
    tensor([1, 1])
    """

    def __init__(self, settings: TransformerSettings) -> None:
        s = self.settings = settings
        head = ("block", "head", "head_axis", "axis")
        variables: dict[str, tuple[str, ...]] = {
            "embedding": ("token", "axis"),
            "position_embedding": ("position", "axis"),
            "query_weight": head,
            "key_weight": head,
            "value_weight": head,
            "attention_output": ("block", "axis", "head", "head_axis"),
            "mlp_input": ("block", "hidden", "axis"),
            "mlp_input_bias": ("block", "hidden"),
            "mlp_output": ("block", "axis", "hidden"),
            "mlp_output_bias": ("block", "axis"),
            "unembedding": ("class", "axis"),
        }
        sizes = {
            "token": s.tokens,
            "position": s.positions,
            "axis": s.dim,
            "block": s.layers,
            "head": s.heads,
        }
        super().__init__(
            variables,
            {
                **sizes,
                "head_axis": s.head_width,
                "hidden": s.width,
                "class": s.elements,
            },
        )
        self.tables = {torch.device("cpu"): torch.from_numpy(operation_table(s))}
        self.activation = ACTIVATIONS[s.activation]

    def initial(self, seeds: np.ndarray) -> dict[str, np.ndarray]:
        """Initial weights, (run, ...) float32: normal, with the standard deviations of
        ZL or NA; biases are 0."""
        s = self.settings
        deviations = {
            **dict.fromkeys(self.variables, 1 / math.sqrt(s.dim)),
            **dict.fromkeys(("mlp_input_bias", "mlp_output_bias"), 0.0),
            "unembedding": 1 / math.sqrt(s.tokens),
        }
        if s.initialisation == "zhong":
            deviations["mlp_input"] = 1 / math.sqrt(s.width)
        return {
            name: (
                (
                    deviations[name]
                    * randomness.normal_samples(seeds, f"transformer/{name}", shape)
                ).astype(np.float32)
            )
            for name, shape in self.shapes.items()
        }

    def target(self, pairs: torch.Tensor) -> torch.Tensor:
        """The number of the correct result for pairs (..., pair, 2): (..., pair)."""
        if pairs.device not in self.tables:  # a CUDA graph cannot copy from the host
            table = self.tables[torch.device("cpu")]
            self.tables[pairs.device] = table.to(pairs.device)
        return self.tables[pairs.device][pairs[..., 0], pairs[..., 1]]

    def logits(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Logits of the last position for pairs (pair, 2), or (..., pair, 2) with the
        axes of the weights: (..., pair, class)."""
        return self.pair_logits(self.prepare(weights), pairs)

    def losses(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of each pair in float64: (..., pair)."""
        log_probability = torch.log_softmax(
            self.logits(weights, pairs).double(), dim=-1
        )
        index = self.target(pairs).expand(log_probability.shape[:-1])[..., None]
        return -torch.gather(log_probability, -1, index)[..., 0]

    def attention(self, weights: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """The row of the attention matrix of the last position in the first block:
        (..., pair, head, position)."""
        rows = self._token_rows(weights)
        index = self._indices(pairs)
        query = self._project(weights["query_weight"], 0, rows[-1])
        keys = [self._project(weights["key_weight"], 0, row) for row in rows]
        (query,) = _gather([query], index[-1])
        keys = [_gather([key], at)[0] for key, at in zip(keys, index, strict=True)]
        return self._attention(query, keys)

    # ----------------------------------------------------- the two stages of the logits

    def prepare(self, weights: Weights) -> dict[str, torch.Tensor]:
        """What `pair_logits` needs: with one block, tables with a row for each token;
        with more, the weights."""
        return (
            self._last_block(weights, self._token_rows(weights))
            if self.settings.layers == 1
            else dict(weights)
        )

    def pair_logits(self, prepared: Weights, pairs: torch.Tensor) -> torch.Tensor:
        """The `logits` of pairs, from what `prepare` returned."""
        index: Sequence[torch.Tensor | None] = self._indices(pairs)
        if self.settings.layers > 1:
            rows = [
                _gather([row], at)[0]
                for row, at in zip(self._token_rows(prepared), index, strict=True)
            ]
            for block in range(self.settings.layers - 1):
                rows = self._block(prepared, block, rows)
            prepared = self._last_block(prepared, rows)
            index = [None] * len(rows)
        return self._read_out(prepared, index)

    def _indices(self, pairs: torch.Tensor) -> list[torch.Tensor]:
        """The row of each position's table for pairs (..., pair, 2)."""
        index = [pairs[..., 0], pairs[..., 1]]
        return (
            [*index, torch.zeros_like(index[0])]
            if self.settings.equals_token
            else index
        )

    def _token_rows(self, weights: Weights) -> list[torch.Tensor]:
        """x before the first block, for each position and each token that occurs there:
        (..., row, axis)."""
        s = self.settings
        embedding = weights["embedding"]
        positions = weights["position_embedding"]
        firsts = [
            embedding[..., : s.elements, :],
            embedding[..., s.elements * s.own_vocabularies :, :],
        ]
        tables = [*firsts, embedding[..., -1:, :]][: s.positions]
        tables[1] = tables[1][..., : s.elements, :]
        return [table + positions[..., None, at, :] for at, table in enumerate(tables)]

    def _project(
        self, weight: torch.Tensor, block: int, rows: torch.Tensor
    ) -> torch.Tensor:
        """Queries, keys or values of all heads: (..., row, head x head_axis)."""
        return rows @ weight[..., block, :, :, :].flatten(-3, -2).mT

    def _attention(
        self, query: torch.Tensor, keys: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """Rows of the attention matrix: (..., pair, head, position)."""
        heads = (self.settings.heads, self.settings.head_width)
        alpha = self.settings.attention_rate
        scores = torch.stack(
            [(query * key).unflatten(-1, heads).sum(-1) for key in keys], dim=-1
        )
        return alpha * torch.softmax(scores / math.sqrt(heads[1]), dim=-1) + (1 - alpha)

    def _attended(
        self,
        query: torch.Tensor,
        keys: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor],
    ) -> torch.Tensor:
        """A v of one position: (..., pair, head x head_axis)."""
        attention = self._attention(query, keys)
        heads = (self.settings.heads, self.settings.head_width)
        parts = [
            attention[..., at, None] * value.unflatten(-1, heads)
            for at, value in enumerate(values)
        ]
        return sum(parts[1:], parts[0]).flatten(-2)

    def _block(
        self, weights: Weights, block: int, rows: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """x of all positions after a block, each (..., pair, axis)."""
        queries, keys, values = (
            [self._project(weights[f"{name}_weight"], block, row) for row in rows]
            for name in ("query", "key", "value")
        )
        output = weights["attention_output"][..., block, :, :, :].flatten(-2).mT
        after = []
        for at, (row, query) in enumerate(zip(rows, queries, strict=True)):
            seen = at + 1 if self.settings.causal else len(rows)
            x = row + self._attended(query, keys[:seen], values[:seen]) @ output
            hidden = (
                x @ weights["mlp_input"][..., block, :, :].mT
                + weights["mlp_input_bias"][..., None, block, :]
            )
            active = self.activation.function(hidden)
            changed = active @ weights["mlp_output"][..., block, :, :].mT
            after.append(x + changed + weights["mlp_output_bias"][..., None, block, :])
        return after

    def _last_block(
        self, weights: Weights, rows: Sequence[torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """All that is linear in the rows (..., row, axis) of each position, for
        `_read_out`.

        The names end in the number of the position. x of the last position after the
        attention is the sum of the rows "stream" of some positions, whose products with
        W_in and U are "hidden" and "direct", and of O z, where z is what the heads
        attend to."""
        last = len(rows) - 1
        unembedding = weights["unembedding"]
        output = weights["attention_output"][..., -1, :, :, :].flatten(-2)
        mlp_input = weights["mlp_input"][..., -1, :, :]
        values = [self._project(weights["value_weight"], -1, row) for row in rows]
        parts = {"logit_weight": unembedding @ weights["mlp_output"][..., -1, :, :]}
        if self.settings.attention_rate == 0:
            streams = {at: value @ output.mT for at, value in enumerate(values)}
            streams[last] = streams[last] + rows[last]
        else:
            streams = {last: rows[last]}
            parts["query"] = self._project(weights["query_weight"], -1, rows[last])
            for at, row in enumerate(rows):
                parts[f"key{at}"] = self._project(weights["key_weight"], -1, row)
                parts[f"value{at}"] = values[at]
            parts["hidden_weight"] = mlp_input @ output
            parts["direct_weight"] = unembedding @ output
        for at, stream in streams.items():
            parts[f"hidden{at}"] = stream @ mlp_input.mT
            parts[f"direct{at}"] = stream @ unembedding.mT
        parts[f"hidden{last}"] = (
            parts[f"hidden{last}"] + weights["mlp_input_bias"][..., None, -1, :]
        )
        bias = weights["mlp_output_bias"][..., None, -1, :] @ unembedding.mT
        parts[f"direct{last}"] = parts[f"direct{last}"] + bias
        return parts

    def _read_out(
        self, tables: Weights, index: Sequence[torch.Tensor | None]
    ) -> torch.Tensor:
        """Logits of pairs whose rows in the tables of each position are `index`."""
        rows: dict[str, torch.Tensor] = {}
        for at, position_index in enumerate(index):
            names = [f"{name}{at}" for name in ("key", "value", "hidden", "direct")]
            if at == len(index) - 1:
                names.append("query")
            names = [name for name in names if name in tables]
            gathered = _gather([tables[name] for name in names], position_index)
            rows.update(zip(names, gathered, strict=True))
        positions = range(len(index))
        hidden, direct, keys, values = (
            [rows[f"{name}{at}"] for at in positions if f"{name}{at}" in rows]
            for name in ("hidden", "direct", "key", "value")
        )
        if "query" in rows:
            z = self._attended(rows["query"], keys, values)
            hidden.append(z @ tables["hidden_weight"].mT)
            direct.append(z @ tables["direct_weight"].mT)
        preactivation, skipped = sum(hidden[1:], hidden[0]), sum(direct[1:], direct[0])
        active = self.activation.function(preactivation)
        return active @ tables["logit_weight"].mT + skipped


def _gather(
    tables: Sequence[torch.Tensor], index: torch.Tensor | None
) -> Sequence[torch.Tensor]:
    """Rows of tables (..., row, axis): (..., pair, axis) each. index: (pair,) or (...,
    pair); None: the tables themselves.

    With leading axes of the index, the rows are products with one-hot vectors, whose
    derivative is summed in a fixed order on every device."""
    if index is None or not tables:
        return tables
    if index.ndim > 1:
        row = torch.arange(tables[0].shape[-2], device=index.device)
        one_hot = (index[..., None] == row).to(tables[0].dtype)
        widths = [table.shape[-1] for table in tables]
        return (one_hot @ torch.cat(list(tables), dim=-1)).split(widths, dim=-1)
    return [
        torch.nn.functional.embedding(index, table)
        if table.ndim == 2
        else table[..., index, :]
        for table in tables
    ]
