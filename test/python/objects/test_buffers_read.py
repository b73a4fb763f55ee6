"""Numbers that a program reads from the buffers of its modules, as codecs read their kernel sizes: they are guarded
constants of one graph until the buffer changes.
"""

from __future__ import annotations

from collections.abc import Callable

import dynamlir
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

X = torch.linspace(-1, 1, 18).reshape(2, 9)


class Numbers(nn.Module):
    """Computes with numbers that it keeps in buffers."""

    flag: Tensor
    size: Tensor
    step: Tensor

    def __init__(self, function: Callable[[Numbers, Tensor], Tensor], size: int = 3, step: int = 2) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("size", torch.tensor(size))
        self.register_buffer("step", torch.tensor([step], dtype=torch.int32))
        self.register_buffer("flag", torch.tensor(True))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def padded(self: Numbers, x: Tensor) -> Tensor:
    """Like a causal convolution of a codec."""
    frames = torch.ceil((x.shape[-1] - self.size + self.step[0]) / self.step[0] + 1).to(torch.int64)
    return F.pad(x, (self.size, frames * self.step[0] - x.shape[-1] + 9))


READ: dict[str, Callable[[Numbers, Tensor], Tensor]] = {
    "int": lambda self, x: x * int(self.size),
    "float": lambda self, x: x * float(self.size),
    "bool": lambda self, x: x * bool(self.flag),
    "item": lambda self, x: x + (self.size * self.step - 1).item(),
    "tolist": lambda self, x: x + self.size.tolist(),
    "of one element": lambda self, x: x * int(self.step),
    "a branch": lambda self, x: x.exp() if self.flag else x,
    "a comparison": lambda self, x: x.exp() if self.size > self.step else x,
    "both": lambda self, x: x.exp() if self.flag and not self.size < 2 else x,
    "a slice": lambda self, x: x[:, self.size :: int(self.step)],
    "an index": lambda self, x: x[:, self.size],
    "a size": lambda self, x: x.new_ones(self.size, int(self.step)),
    "a range": lambda self, x: sum((x * i for i in range(int(self.size))), x),
    "pad": padded,
    "largest": lambda self, x: F.pad(x, (max(self.size, self.step), min(self.size, 1, self.step))),
    "of ints first": lambda self, x: F.pad(x, (max(1, 2, self.size), min(x.shape[0], 4, self.size, 1))),
    "divided": lambda self, x: F.pad(x, (self.size // self.step, self.size % self.step)),
    "a list": lambda self, x: [x, x.exp(), x.sin(), x.cos()][self.size],
}


@pytest.fixture
def compiled() -> Callable[..., nn.Module]:
    """Compiles as one graph."""
    return lambda module: dynamlir.compile(module, fullgraph=True)


@pytest.mark.parametrize("name", READ)
def test_reading(name: str, compiled: Callable[..., nn.Module]) -> None:
    module = Numbers(READ[name])
    torch.testing.assert_close(compiled(module)(X), module(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", READ)
def test_what_changes(name: str, quiet: None) -> None:
    """Once a buffer has changed, its value is read when the graph runs, or the graph breaks there."""
    module = Numbers(READ[name])
    program = dynamlir.compile(module)
    for size in (3, 2, 2, 3, 1):
        module.size.fill_(size)
        module.flag.fill_(size != 2)
        torch.testing.assert_close(program(X), module(X), rtol=0, atol=1e-6)


def test_guards() -> None:
    """The values read are guarded, and the guards name them."""
    module = Numbers(READ["a slice"])
    program = dynamlir.compile(module.forward)
    program(X)
    guards, _ = program._cache[0]
    found = {part for part in guards.code_parts if ".item()" in part}
    assert found == {"L['self'].size.item() == 3", "L['self'].step.item() == 2"}
    assert not guards.failing_guards(X)
    module.size.fill_(4)
    (failing,) = guards.failing_guards(X)
    assert "size.item() == 3" in str(failing)


def test_what_is_not_read_is_not_guarded(compiled: Callable[..., nn.Module]) -> None:
    """A change of another number does not recompile."""
    module = Numbers(lambda self, x: x * self.size)
    program = compiled(module)
    program(X)
    with dynamlir.config.patch(on_plain="error"):
        before = dynamlir.counters()["graphs_compiled"]
        module.size.fill_(5)
        torch.testing.assert_close(program(X), module(X))
        assert dynamlir.counters()["graphs_compiled"] == before


def test_modules_that_hold_other_numbers(compiled: Callable[..., nn.Module]) -> None:
    """Calls of equal modules are not merged where they read different buffers."""
    layers = nn.Sequential(*[Numbers(READ["int"], size) for size in (1, 2, 3, 2, 5, 1)])
    torch.testing.assert_close(compiled(layers)(X), layers(X))
    for size in (1, 2, 7):
        module = Numbers(READ["a slice"], size)
        torch.testing.assert_close(compiled(module)(X), module(X))


def test_one_module_twice(compiled: Callable[..., nn.Module]) -> None:
    first, second = Numbers(READ["int"], 3), Numbers(READ["int"], 5)
    layers = nn.Sequential(first, first, second, first, second)
    torch.testing.assert_close(compiled(layers)(X), layers(X))


def counts(self: Numbers, x: Tensor) -> Tensor:
    self.size.add_(1)
    return x * int(self.size)


def counts_later(self: Numbers, x: Tensor) -> Tensor:
    x = x * int(self.size)
    self.size += 1
    return x + int(self.size)


def counts_by_a_view(self: Numbers, x: Tensor) -> Tensor:
    x = x * int(self.size)
    self.size.view(1).add_(1)
    return x + int(self.size)


def replaced(self: Numbers, x: Tensor) -> Tensor:
    self.size = self.size + 1
    return x * int(self.size)


def given_other_data(self: Numbers, x: Tensor) -> Tensor:
    x = x * int(self.size)
    self.size.data = torch.tensor(10)
    return x + int(self.size)


WRITTEN = (counts, counts_later, counts_by_a_view, replaced, given_other_data)


@pytest.mark.parametrize("function", WRITTEN)
def test_buffers_that_are_written(function: Callable[[Numbers, Tensor], Tensor], quiet: None) -> None:
    module, program = Numbers(function), Numbers(function)
    call = dynamlir.compile(program)
    for _ in range(4):
        torch.testing.assert_close(call(X), module(X))
        assert program.size == module.size


def caught(self: Numbers, x: Tensor) -> Tensor:
    try:
        quotient = self.size // (self.step - 2)
    except RuntimeError:
        return x.exp()
    return x * int(quotient)


def test_what_raises_raises_where_it_is_computed(quiet: None) -> None:
    module = Numbers(caught)
    torch.testing.assert_close(dynamlir.compile(module)(X), module(X))


class Shared(nn.Module):
    """Two buffers that share their memory."""

    view: Tensor
    whole: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.tensor([3]))
        self.register_buffer("view", self.whole[0])

    def forward(self, x: Tensor) -> Tensor:
        x = x * int(self.view)
        self.whole.mul_(2)
        return x + int(self.view)


def test_buffers_that_share_memory(quiet: None) -> None:
    module, program = Shared(), Shared()
    call = dynamlir.compile(program)
    for _ in range(4):
        torch.testing.assert_close(call(X), module(X))


def test_arguments_are_not_taken_for_constants(quiet: None) -> None:
    program = dynamlir.compile(Numbers(lambda self, x: x.exp() if x.sum() > self.size else x))
    for scale in (1.0, 100.0, -100.0):
        given = X * scale + scale
        torch.testing.assert_close(program(given), given.exp() if given.sum() > 3 else given)


@pytest.mark.parametrize("varies", [False, True])
def test_exported_programs(varies: bool) -> None:
    """A program owns its buffers, which may be written, and nothing checks guards."""
    shapes = {"x": {0: torch.export.Dim("n")}} if varies else None
    with pytest.raises(dynamlir.Unsupported, match="read from a tensor's contents"):
        dynamlir.export(Numbers(READ["int"]), X, dynamic_shapes=shapes)


def test_training(compiled: Callable[..., nn.Module]) -> None:
    module = Numbers(padded)
    leaves = [X.clone().requires_grad_() for _ in range(2)]
    for leaf, function in zip(leaves, (module, compiled(module))):
        function(leaf).square().sum().backward()
    assert leaves[0].grad is not None
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad)


def test_sizes_that_vary(quiet: None) -> None:
    module = Numbers(padded)
    program = dynamlir.compile(module)
    for size in (9, 7, 12, 5, 8):
        x = torch.randn(2, size)
        torch.testing.assert_close(program(x), module(x))
