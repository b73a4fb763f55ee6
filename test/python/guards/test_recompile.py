"""Changes between two calls: the result is eager's, and a recompilation happens only if something relevant has changed.

The cases are in `recompile_cases.py` and `recompile_tensors.py`. Each is called a few times before its change, so that
a remembered check has to notice it, and a few times after it.
"""

from __future__ import annotations

import contextlib
from typing import Any

import dynamlir
import pytest
import recompile_tensors
import torch
from recompile_cases import CASES, Case, Tools, X
from torch import Tensor, nn

assert recompile_tensors.Net, "the cases there register themselves"


def same(seen: Any, expected: Any) -> None:
    torch.testing.assert_close(seen, expected, check_stride=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_is_noticed_if_it_matters(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        scene = case.make(Tools(monkeypatch, stack.enter_context))
        compiled = dynamlir.compile(scene.function)
        arguments = scene.arguments
        for _ in range(4):
            same(compiled(*arguments), scene.function(*arguments))
        assert len(compiled._cache) == 1
        changed = scene.change()
        if type(changed) is tuple:
            arguments = changed
        for _ in range(3):
            same(compiled(*arguments), scene.function(*arguments))
        misses = [str(failure) for failure in compiled._cache[0].guards.failing_guards(*arguments)]
        assert len(compiled._cache) == 1 + case.recompilations, misses
        assert bool(misses) == bool(case.recompilations)


@torch.no_grad()
def test_a_check_that_has_passed_compares_words_and_walks_nothing() -> None:
    """The cost of a check: see ``remembered``. New tensors as arguments, and new containers of them, need no walk."""
    model = recompile_tensors.Net().eval()
    model.fc.weight.note = "an attribute of a tensor"
    compiled = dynamlir.compile(model)
    for turn in range(4):
        same(compiled(x=X + turn), model(X + turn))
    words, objects, again = compiled._cache[0].guards.remembered
    assert words > len(list(model.modules())) and again == []
    # The parameters and buffers that the graph takes: num_batches_tracked is not read in evaluation mode.
    assert objects == len(list(model.parameters())) + 3


class Scaled(nn.Module):
    """Many layers, and a number that changes between two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(30)))
        self.scale, self.offset = 0.5, 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.scale + self.offset


@torch.no_grad()
def test_what_lies_beside_a_number_that_changes_is_remembered() -> None:
    """Only the number and its neighbors are looked up; a change of any of those, or below them, is noticed."""
    model = Scaled().eval()
    compiled = dynamlir.compile(model)

    def check(graphs: int) -> None:
        for turn in range(4):
            model.scale = 1.5 + turn / 7
            same(compiled(X[:, :4]), model(X[:, :4]))
            assert len(dynamlir.compiles()) == graphs, dynamlir.explain_last()

    model.scale = 0.25
    same(compiled(X[:, :4]), model(X[:, :4]))
    model.scale = 0.75
    same(compiled(X[:, :4]), model(X[:, :4]))
    graphs = len(dynamlir.compiles())
    check(graphs)
    words, objects, again = compiled._cache[-1].guards.remembered
    assert "L['self'].scale" in again and not any("weight" in path for path in again), again
    assert words > len(list(model.modules())) and objects >= len(list(model.parameters()))
    model.offset = 2
    check(graphs + 1)
    model.layers[7].weight = nn.Parameter(torch.randn(4, 4))
    check(graphs + 1)
    model.layers[9].bias = None
    check(graphs + 2)
    model.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    check(graphs + 3)
    model.scale = 2
    same(compiled(X[:, :4]), model(X[:, :4]))


@torch.no_grad()
def test_no_class_of_c_is_looked_at_through_what_each_call_makes_anew() -> None:
    """Otherwise the check would restart at these objects: `dict.values` of the modules would be found through the
    call's `**kwargs`.
    """
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    compiled = dynamlir.compile(model)
    same(compiled(X), model(X))
    guards = str(compiled._cache[0].guards)
    assert "L['self']._modules" in guards
    for parameter in ("args", "kwargs"):
        assert f"type(L['{parameter}'])" not in guards


@torch.no_grad()
def test_what_is_changed_back_finds_its_first_entry() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled = dynamlir.compile(model, options={"eager_random": True})
    for training in (False, True, False, True, False):
        model.train(training)
        torch.manual_seed(3)
        seen = compiled(X)
        torch.manual_seed(3)
        same(seen, model(X))
    handle = model[0].register_forward_hook(lambda module, args, out: out + 1)
    same(compiled(X), model(X))
    handle.remove()
    same(compiled(X), model(X))
    assert len(compiled._cache) == 3


def add_to_both(x: Tensor, y: Tensor) -> Tensor:
    """Writes to its inputs: the memory that they share decides what the second addition sees."""
    x.add_(1)
    y.add_(x)
    return x + y


def pairs() -> list[tuple[str, Any]]:
    """Pairs of tensors of one shape that share memory in different ways, or not at all."""
    return [
        ("apart", lambda: (X.clone(), X + 1)),
        ("one tensor", lambda: (t := X.clone(), t)),
        ("a view", lambda: (t := X.clone(), t.view(3, 4))),
        ("overlapping rows", lambda: ((t := torch.arange(24.0).view(6, 4))[:3], t[2:5])),
        ("neighbours in one storage", lambda: ((t := torch.arange(24.0).view(6, 4))[:3], t[3:])),
    ]


@torch.no_grad()
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (1, 0, 3, 0, 2)])
def test_inputs_that_are_written_may_share_memory(order: tuple[int, ...]) -> None:
    compiled = dynamlir.compile(add_to_both)
    for at in order:
        name, make = pairs()[at]
        for _ in range(2):
            seen, expected = make(), make()
            same(outcome(compiled, seen), outcome(add_to_both, expected))
            for one, other in zip(seen, expected):
                torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


def outcome(function: Any, arguments: tuple[Tensor, ...]) -> Any:
    """The result, or the first line of eager's error: eager refuses to write over memory that it still reads."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        assert "refer to a single memory location" in str(error)
        return torch.zeros(0)


@torch.no_grad()
def test_memory_that_is_shared_until_it_is_written_stays_so_while_it_is_read() -> None:
    compiled = dynamlir.compile(lambda x: x + 1)
    for _ in range(3):
        lazy = torch._lazy_clone(X)
        same(compiled(lazy), X + 1)
        assert torch._C._is_cow_tensor(lazy)


@torch.no_grad()
def test_memory_that_is_shared_until_it_is_written_is_copied_when_it_is() -> None:
    compiled = dynamlir.compile(lambda x: x.mul_(2))
    for _ in range(3):
        original = X.clone()
        lazy = torch._lazy_clone(original)
        same(compiled(lazy), X * 2)
        same(original, X)
        assert not torch._C._is_cow_tensor(lazy)


@torch.no_grad()
def test_a_tensor_whose_storage_has_shrunk_is_not_read() -> None:
    """The tensor's sizes do not show it, so guards pass; eager runs, and its outcome is kept."""
    seen: list[bool] = []

    def function(x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            seen.append(True)
            return x.new_zeros(())
        return x + 1

    compiled = dynamlir.compile(function)
    x = X.clone()
    for _ in range(3):
        same(compiled(x), X + 1)
    assert not seen
    x.untyped_storage().resize_(8)
    compiled(x)
    assert seen


class Scale(nn.Module):
    """A class with many instances: guards check the class through the first of them."""

    by = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.by


class Shift(Scale):
    """Another class with the same storage."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


@torch.no_grad()
def test_what_a_class_holds_is_guarded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_classes(depth: int) -> int:
        compiled = dynamlir.compile(nn.Sequential(*(Scale() for _ in range(depth))))
        compiled(X)
        return sum("___lookup(type(" in part for part in compiled._cache[0].guards.code_parts)

    assert of_classes(8) == of_classes(2)

    model = nn.Sequential(*(Scale() for _ in range(3)))
    compiled = dynamlir.compile(model)
    entries = 1
    changes = [
        lambda: None,
        lambda: monkeypatch.setattr(Scale, "by", 5.0),
        lambda: monkeypatch.setattr(model[2], "by", 7.0),
        lambda: monkeypatch.setattr(model[1], "__class__", Shift),
        lambda: monkeypatch.setattr(model[0], "__class__", Shift),
        lambda: monkeypatch.setattr(Scale, "forward", lambda self, x: x - self.by),
    ]
    for entries, change in enumerate(changes, 1):
        change()
        for _ in range(4):
            same(compiled(X), model(X))
        assert len(compiled._cache) == entries
