"""Mutation, views and aliasing: compiled code has the function's effects on its inputs and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import check
from sampled import one_in_product
from torch import Tensor


def _x(*shape: int) -> Tensor:
    return torch.arange(1.0, 1 + int(torch.tensor(shape).prod())).reshape(shape).clone()


def inplace_on_input(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def inplace_returns_input(x: Tensor) -> Tensor:
    return x.mul_(2).add_(1)


def inplace_on_intermediate(x: Tensor) -> Tensor:
    y = x + 1
    y.relu_()
    y.mul_(3)
    return y


def write_through_view(x: Tensor) -> Tensor:
    x[1:].add_(1)
    return x.sum()


def write_through_view_of_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x[1:].t()[0]
    y.fill_(7)
    return y, x


def write_base_read_view(x: Tensor) -> Tensor:
    y = x + 0
    view = y[0]
    y.add_(1)
    return view * 2


def slice_assignment(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1] = 0
    y[0, :2] = y[1, 1:3] * 5
    return y


def index_assignment(x: Tensor) -> Tensor:
    y = x.clone()
    y[torch.tensor([0, 2])] = 1.5
    return y


def masked_assignment(x: Tensor) -> Tensor:
    x[x > 4] = 0
    return x + 1


def transposed_write(x: Tensor) -> Tensor:
    x.t().copy_(torch.ones(4, 3) * 2)
    return x.t()


def strided_write(x: Tensor) -> Tensor:
    x.as_strided((2, 2), (4, 2), 1).mul_(10)
    return x * 1


def diagonal_write(x: Tensor) -> Tensor:
    x.diagonal().zero_()
    return x


def unfold_read_after_write(x: Tensor) -> Tensor:
    w = x.reshape(-1).unfold(0, 3, 2)
    x.add_(1)
    return w.sum(-1)


def expanded_read(x: Tensor) -> Tensor:
    y = x[:1].expand(3, 4)
    x[0, 0] = 100
    return y + 1


def returns_view_of_input(x: Tensor) -> Tensor:
    return x[1:, ::2]


def returns_view_of_mutated_input(x: Tensor) -> Tensor:
    x.add_(1)
    return x.view(-1)


def returns_input_and_views(x: Tensor) -> tuple[Tensor, ...]:
    return x, x.t(), x[0], x + 0


def returns_view_of_intermediate(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    return y[0], y[1]


def returns_intermediate_and_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    y.add_(1)
    return y, y.t()


def returns_same_twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.exp()
    return y, y


def returns_equal_views(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.view(-1), x.view(-1)


def detached_output(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    return y.detach(), y


def detached_input(x: Tensor) -> Tensor:
    return x.detach()


def detached_then_written(x: Tensor) -> Tensor:
    d = x.detach()
    d.mul_(3)
    return x + d


def expanded_output(x: Tensor) -> Tensor:
    return x[:, :1].expand(3, 5)


def split_and_write(x: Tensor) -> tuple[Tensor, ...]:
    a, b = x.split(2, dim=1)
    a.add_(b)
    return a, b


def unbind_and_write(x: Tensor) -> Tensor:
    rows = x.unbind(0)
    rows[0].copy_(rows[1])
    return torch.stack(rows)


def swap_halves(x: Tensor) -> Tensor:
    left = x[:, :2].clone()
    x[:, :2] = x[:, 2:]
    x[:, 2:] = left
    return x


def overlapping_rows(x: Tensor) -> Tensor:
    x[1:].copy_(x[:-1].clone())
    return x


def out_argument(x: Tensor) -> Tensor:
    y = torch.empty(3, 4)
    torch.add(x, 1, out=y)
    return y


def out_into_input(x: Tensor) -> Tensor:
    torch.mul(x, 2, out=x)
    return x


def inplace_view_change(x: Tensor) -> Tensor:
    y = x + 1
    y.t_()
    y.unsqueeze_(0)
    y.add_(1)
    return y


def many_versions(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    for _ in range(3):
        y.add_(1)
    x.mul_(2)
    x.zero_()
    return y, y[0]


def inplace_type_promotion(x: Tensor) -> Tensor:
    y = x.to(torch.float16)
    y.add_(x)
    z = torch.ones(3, 4, dtype=torch.int32)
    z.mul_(torch.full((3, 4), 3, dtype=torch.int64))
    return y + z


def view_as_other_dtype(x: Tensor) -> Tensor:
    y = x + 1
    y.view(torch.int32).bitwise_and_(-2)
    return y


def mutated_unreturned(x: Tensor) -> None:
    x.sin_()


def none_and_numbers(x: Tensor) -> tuple[Any, ...]:
    return None, 3, x + 1, x.shape[0], "s", 1.5, True


def no_operation(x: Tensor) -> Tensor:
    return x


def dead_write(x: Tensor) -> Tensor:
    y = x + 1
    y.mul_(2)
    return x * 3


def foreach_inplace(x: Tensor) -> list[Tensor]:
    parts = [x[0] + 1, x[1] + 1]
    torch._foreach_add_(parts, 2.0)
    return parts


ON_ONE: list[Callable[[Tensor], Any]] = [
    inplace_on_input, inplace_returns_input, inplace_on_intermediate, write_through_view, write_through_view_of_view,
    write_base_read_view, slice_assignment, index_assignment, masked_assignment, transposed_write, strided_write,
    diagonal_write, unfold_read_after_write, expanded_read, returns_view_of_input, returns_view_of_mutated_input,
    returns_input_and_views, returns_view_of_intermediate, returns_intermediate_and_view, returns_same_twice,
    returns_equal_views, detached_output, detached_input, detached_then_written, expanded_output, split_and_write,
    unbind_and_write, swap_halves, overlapping_rows, out_argument, out_into_input, inplace_view_change, many_versions,
    inplace_type_promotion, view_as_other_dtype, mutated_unreturned, none_and_numbers, no_operation, dead_write,
    foreach_inplace,
]  # fmt: skip

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: _x(3, 4),
    "transposed": lambda: _x(4, 3).t(),
    "offset": lambda: _x(5, 4)[2:],
    "strided": lambda: _x(6, 8)[::2, ::2],
}


@pytest.mark.parametrize(("fn", "layout"), one_in_product(3, ON_ONE, LAYOUTS))
def test_one_input(fn: Callable[[Tensor], Any], layout: str) -> None:
    reshaped = fn in (returns_view_of_mutated_input, returns_equal_views, unfold_read_after_write)
    if reshaped and layout in ("transposed", "strided"):
        pytest.skip("eager cannot view this layout")
    check(fn, LAYOUTS[layout]())


def test_compiles_at_all() -> None:
    check(inplace_on_input, _x(3, 4), expect="compiled")
    check(returns_input_and_views, _x(3, 4), expect="compiled")


def write_one_read_other(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    return y * 2


def write_both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.mul_(2)
    y.add_(1)
    return x + 0, y


def _with(tensor: Tensor, other: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    return tensor, other(tensor)


def _parts(tensor: Tensor, *slices: Any) -> tuple[Tensor, ...]:
    return tuple(tensor[part] for part in slices)


PAIRS: dict[str, Callable[[], tuple[Tensor, ...]]] = {
    "apart": lambda: (_x(3, 4), _x(3, 4)),
    "same_tensor": lambda: _with(_x(3, 4), lambda t: t),
    "view_of_first": lambda: _with(_x(3, 4), lambda t: t[:]),
    "row_of_first": lambda: _with(_x(3, 4), lambda t: t[1]),
    "transposed": lambda: _with(_x(3, 3), lambda t: t.t()),
    "overlapping": lambda: _parts(_x(12), slice(0, 6), slice(3, 9)),
    "neighbours": lambda: _parts(_x(12), slice(0, 6), slice(6, 12)),
    "two_views": lambda: _parts(_x(3, 4), 0, 1),
    "detached": lambda: _with(_x(3, 4), lambda t: t.detach()),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("fn", [write_one_read_other, write_both], ids=lambda fn: fn.__name__)
def test_aliasing_inputs(fn: Callable[..., Any], pair: str) -> None:
    check(fn, *PAIRS[pair]())


def test_aliasing_changes_between_calls() -> None:
    compiled = torch.compile(write_one_read_other, backend="dynamlir")
    with torch.no_grad():
        for _ in range(2):
            x, y = _x(3, 4), _x(3, 4)
            torch.testing.assert_close(compiled(x, y), _x(3, 4) * 2)
            base = _x(3, 4)
            torch.testing.assert_close(compiled(base, base[:]), (_x(3, 4) + 1) * 2)
            long = _x(16)
            expected = _x(16)
            expected[:12].add_(1)
            found = compiled(long[:12].view(3, 4), long[4:].view(3, 4))
            torch.testing.assert_close(found, expected[4:].view(3, 4) * 2)


class Counter(torch.nn.Module):
    """A module whose forward writes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x * self.weight + self.calls


def test_module_buffer() -> None:
    check(Counter(), _x(3, 4), expect="compiled")


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_running_statistics(training: bool) -> None:
    check(torch.nn.BatchNorm1d(4).train(training), torch.randn(6, 4), expect="compiled")


@pytest.mark.parametrize("training", [False, True])
def test_dropout(training: bool) -> None:
    check(torch.nn.Dropout(0.5).train(training), torch.randn(64), expect="compiled")
