"""Strides and version counters that a graph is recorded with, against eager's, over many operators and layouts.

A compiled graph returns what is recorded (`test_metadata.py` checks that for a few operators), so nothing is compiled:
all operators on one layout form one graph, which is recorded and then run by eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dynamlir.recording import Recording
from dynamlir.tracing import record
from sampled import one_in
from torch import Tensor

SIZES = {3: (2, 4, 6), 4: (2, 4, 6, 8), 5: (2, 4, 3, 6, 8)}


def last(x: Tensor) -> Tensor:
    """The tensor with its channels moved to the end in memory."""
    return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)


def empty(*sizes: int) -> Tensor:
    return torch.ones(sizes)


LAYOUTS: dict[str, tuple[tuple[int, ...], Callable[..., Tensor]]] = {
    "contiguous": ((3, 4, 5), lambda *s: empty(*s)),
    "reversed": ((3, 4, 5), lambda *s: empty(*s[::-1]).permute(*range(len(s) - 1, -1, -1))),
    "two swapped": ((3, 4, 5), lambda *s: empty(s[0], s[2], s[1], *s[3:]).transpose(1, 2)),
    "batch inside": ((3, 4), lambda *s: empty(s[1], s[0], *s[2:]).transpose(0, 1)),
    "channels last": ((4, 5), lambda *s: last(empty(*s))),
    "expanded": ((3, 4, 5), lambda *s: empty(s[0], 1, *s[2:]).expand(s)),
    "every other": ((3, 4, 5), lambda *s: empty(*s[:-1], 2 * s[-1])[..., ::2]),
    "every other channel": ((4, 5), lambda *s: last(empty(s[0], 2 * s[1], *s[2:]))[:, ::2]),
    "one image, channels last": ((4,), lambda *s: last(empty(1, *s[1:]))),
    "one channel, last": ((4,), lambda *s: last(empty(s[0], 1, *s[2:]))),
    "one pixel": ((4,), lambda *s: last(empty(s[0], s[1], 1, 1))),
}
CASES = [(name, rank) for name, (ranks, _) in LAYOUTS.items() for rank in ranks]

channels = torch.ones(4)
POINTWISE: list[Callable[[Tensor], Any]] = [
    torch.relu, F.gelu, F.silu, F.elu, F.leaky_relu, F.hardswish, F.hardtanh, F.mish, F.logsigmoid, F.softplus, F.selu,
    F.softshrink, F.rrelu, F.relu6, torch.sign, torch.logical_not, torch.isnan, torch.frexp, torch.angle, torch.clone,
    lambda x: x + 1, lambda x: 2**x, lambda x: x**2.5, lambda x: x / 3, lambda x: x == 0, lambda x: x.clamp(-1, 1),
    lambda x: x + torch.ones(x.shape[-1]), lambda x: x + torch.ones(x.shape), lambda x: torch.ones(x.shape) + x,
    lambda x: torch.where(x > 0, x, 0.0), lambda x: torch.maximum(x, x.flip(0)), lambda x: torch.lerp(x, x + 1, 0.5),
    lambda x: torch.addcmul(x, x, x), lambda x: x.to(torch.float64), lambda x: x.half(), torch.zeros_like,
    lambda x: x.masked_fill(x > 0, 0.0), lambda x: torch.copysign(x, x.contiguous()), torch.nan_to_num,
    lambda x: torch.xlogy(x, x.contiguous()), lambda x: torch.atan2(x.contiguous(), x), lambda x: torch.isin(x, x[0]),
    lambda x: x.unfold(1, 1, 1) + 1, lambda x: x.transpose(0, 1) + 1, lambda x: F.mse_loss(x, x, reduction="none"),
    lambda x: x.contiguous(), lambda x: torch.full_like(x, 2), torch.empty_like, lambda x: torch.heaviside(x, x),
]  # fmt: skip
MOVING: list[Callable[[Tensor], Any]] = [
    lambda x: torch.roll(x, 1, 1), lambda x: torch.roll(x, 3), lambda x: torch.roll(x, (1, 2), (0, 2)),
    lambda x: x.flip(1), lambda x: torch.rot90(x, 1, (1, 2)), torch.tril, lambda x: x.cumsum(1), lambda x: x.sort(1),
    lambda x: torch.cat([x, x]), lambda x: torch.cat([x, x + 1], 1), lambda x: torch.cat([torch.ones(x.shape), x], 1),
    lambda x: torch.stack([x, x], 1), lambda x: x.repeat(1, 2, *[1] * (x.dim() - 2)), lambda x: F.pad(x, (1, 1)),
    lambda x: F.pad(x, (1, 1) * (x.dim() - 2), mode="reflect"), lambda x: F.channel_shuffle(x, 2),
    lambda x: F.pad(x, (1, 1) * (x.dim() - 2), mode="replicate"), lambda x: x[:, torch.tensor([0, 0])],
    lambda x: x.index_select(1, torch.tensor([0])), lambda x: x.index_fill(1, torch.tensor([0]), 2.0),
    lambda x: x.index_add(1, torch.tensor([0]), x[:, :1]), lambda x: x.gather(1, (x > 2).long()),
    lambda x: x.scatter(1, (x > 2).long(), x), lambda x: torch.select_scatter(x, x[:, 0], 1, 0), torch.diag_embed,
    lambda x: torch.slice_scatter(x, x[:, :1], 1, 0, 1), lambda x: x.reshape(x.shape[0], -1), lambda x: x.flatten(1),
    lambda x: x.movedim(1, -1) + 1, lambda x: F.one_hot((x > 0).long(), 3), lambda x: x.diff(dim=-1), torch.msort,
    lambda x: F.pixel_unshuffle(x, 2), lambda x: F.interpolate(x, scale_factor=2), lambda x: x.unflatten(0, (1, -1)),
]  # fmt: skip
REDUCING: list[Callable[[Tensor], Any]] = [
    lambda x: x.sum(1), lambda x: x.sum(1, keepdim=True), lambda x: x.sum((0, 2)), lambda x: x.mean((-1, -2)),
    lambda x: x.amax(1), lambda x: x.max(1), lambda x: x.argmax(1), lambda x: x.var(1),
    lambda x: torch.aminmax(x, dim=1),
    lambda x: torch.var_mean(x, 1, keepdim=True), lambda x: x.norm(dim=1), lambda x: x.any(1), lambda x: x.prod(1),
    lambda x: x.logsumexp(1), lambda x: x.median(1), lambda x: x.topk(1, 1), lambda x: x.softmax(1), torch.aminmax,
    lambda x: x.log_softmax(-1), lambda x: F.normalize(x), lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: F.rms_norm(x, x.shape[-1:]), lambda x: F.group_norm(x, x.shape[1]), lambda x: F.instance_norm(x),
    lambda x: F.batch_norm(x, channels, channels), lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.batch_norm(x, channels, channels, channels, channels), lambda x: F.local_response_norm(x, 3),
    lambda x: F.linear(x, torch.ones(5, x.shape[-1])), lambda x: x @ x.transpose(-1, -2), lambda x: F.glu(x, -1),
    lambda x: {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}[x.dim()](x, 2),
    lambda x: {3: F.avg_pool1d, 4: F.avg_pool2d, 5: F.avg_pool3d}[x.dim()](x, 2),
    lambda x: {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()](x, torch.ones(5, x.shape[1], *[1] * (x.dim() - 2))),
    lambda x: F.cosine_similarity(x, x), lambda x: torch.cdist(x, x), lambda x: torch.renorm(x, 2, 1, 1.0),
]  # fmt: skip


def leaves(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [leaf for part in result for leaf in leaves(part)]


@pytest.mark.parametrize("table", [POINTWISE, MOVING, REDUCING], ids=["pointwise", "moving", "reducing"])
@pytest.mark.parametrize(("layout", "rank"), one_in(2, [pytest.param(*case) for case in CASES]))
def test_metadata(layout: str, rank: int, table: list[Callable[[Tensor], Any]]) -> None:
    x = LAYOUTS[layout][1](*SIZES[rank])
    with torch.no_grad():
        eager: dict[Callable[[Tensor], Any], list[Tensor]] = {}
        for function in table:
            try:
                eager[function] = leaves(function(x))
            except (RuntimeError, IndexError, ValueError, KeyError):
                continue  # not applicable to this shape
        recorded: list[Recording] = []

        def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            recorded.append(record(graph, inputs))
            return graph.forward

        functions = [*eager]
        torch.compile(lambda x: [leaves(function(x)) for function in functions], backend=backend)(x)
    (recording,) = recorded
    own = {operand.id for operand in recording.inputs}
    wanted = [(at, result) for at, function in enumerate(functions) for result in eager[function]]
    assert len(wanted) == len(recording.outputs)
    for (at, result), output in zip(wanted, recording.outputs):
        where = f"operator {table.index(functions[at])}, {tuple(result.shape)}"
        assert recording.metas[output.id].strides == result.stride(), where
        assert output.id in own or output.version == result._version, where
