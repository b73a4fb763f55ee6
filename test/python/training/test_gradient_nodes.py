"""The nodes of a compiled graph behave like eager's in autograd's graph: gradients between results, backward passes
through one result after the other, hooks that run when eager's do, and only then.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS, each_door
from dynamlir import reasons
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Program = Callable[..., Sequence[Tensor]]


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return DOORS[request.param]


def leaf(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def leaves() -> tuple[Tensor, Tensor]:
    return leaf(3, 4), leaf(4, 4, seed=2)


def chain(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    h = x @ w
    return h, h.sin(), (h * 2).sum()


def heads(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    trunk = (x @ w).tanh()
    return trunk.sin().sum(), trunk.exp().mean(), (x * 3).sum()


def deep(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    states = [x]
    for _ in range(4):
        states.append((states[-1] @ w).tanh() + states[0])
    return states[1:]


def views(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    h = x @ w
    part = h[:2]
    return part, part.exp(), x.t()


def views_of_an_input(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    part = x[1:]
    return part, (part * 2).sin(), (part.sum() * w).cos()


def several(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    var, mean = torch.var_mean(x @ w, dim=1)
    return mean, var.exp(), mean * var


def in_place(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    h = x * 2
    h.mul_(w[0])
    y = h.cos()
    return h, y, y.detach() * x


def diamond(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    a = x @ w
    b = a.sigmoid()
    return a * b, b.sum(), (a + b).exp()


PROGRAMS = [chain, heads, deep, views, views_of_an_input, several, in_place, diamond]


def attempt(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except RuntimeError as error:
        return str(error)[:60]


def gradients(output: Tensor, inputs: Sequence[Tensor], **options: Any) -> Any:
    return attempt(lambda: torch.autograd.grad(output.sum(), inputs, allow_unused=True, **options))


def assert_same(found: Any, expected: Any) -> None:
    """Checks that tensors are close, and that errors and missing values are equal."""
    flat, others = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert [type(one) for one in flat] == [type(one) for one in others]
    assert [one for one in flat if isinstance(one, str)] == [one for one in others if isinstance(one, str)]
    tensors = [[one for one in side if isinstance(one, Tensor)] for side in (flat, others)]
    torch.testing.assert_close(*tensors, rtol=1e-4, atol=1e-5)


def check(
    door: Callable[..., Any], program: Program, look: Callable[[Sequence[Tensor], Sequence[Tensor]], Any]
) -> None:
    compiled = door(program)
    for _ in range(2):
        mine, others = leaves(), leaves()
        found = look(compiled(*mine), mine)
        assert_same(found, look(program(*others), others))
    assert dynamlir.counters()["graphs"] and not reasons.events()


@pytest.mark.parametrize("program", PROGRAMS)
def test_of_each_result_with_respect_to_each(door: Callable[..., Any], program: Program) -> None:
    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        beneath = [*inputs, *results]
        return [gradients(result, beneath, retain_graph=True) for result in results if result.requires_grad]

    check(door, program, look)


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_derivatives_between_results(door: Callable[..., Any], program: Program) -> None:
    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        found: list[Any] = []
        for result in results:
            first = gradients(result, [*inputs, results[0]], create_graph=True)
            again = [one for one in first if one is not None and one.requires_grad] if isinstance(first, tuple) else []
            total: Any = sum((one * one).sum() for one in again)
            found.append(first)
            found += [gradients(total, [*inputs, results[0]], retain_graph=True)] if again else []
        return found

    check(door, program, look)


@pytest.mark.parametrize("program", [heads, diamond, lambda x, w: ((x * w[0]).softmax(1).exp(), (x * w[0]).sin())])
def test_third_derivatives(door: Callable[..., Any], program: Program) -> None:
    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        total: Any = sum(result.square().sum() for result in results)
        for _ in range(2):
            found = torch.autograd.grad(total, inputs, create_graph=True)
            total = total + sum(one.square().sum() for one in found) * 1e-3
        return torch.autograd.grad(total, inputs)

    check(door, program, look)


@pytest.mark.parametrize("program", PROGRAMS)
def test_hooks_run_when_eagers_do(door: Callable[..., Any], program: Program) -> None:
    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        seen: list[Any] = []
        for at, tensor in enumerate([*inputs, *results]):
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient, at=at: seen.append((at, gradient)))
        for at, tensor in enumerate(inputs):
            tensor.register_post_accumulate_grad_hook(lambda tensor, at=at: seen.append((-1 - at, tensor.grad.clone())))
        for result in results[:2]:
            if result.requires_grad:
                result.retain_grad()
        for result in results:
            attempt(lambda result=result: result.sum().backward(retain_graph=True))
        kept = [result.grad for result in results[:2]]
        return sorted(((at, gradient) for at, gradient in seen), key=lambda one: one[0]), kept

    check(door, program, look)


def test_results_that_share_nothing_are_walked_back_one_after_the_other(door: Callable[..., Any]) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return x.sin().sum(), (w * w).sum(), (x * 2).exp().sum()

    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        for result in results:
            result.backward()
        return [tensor.grad for tensor in inputs], attempt(results[0].backward)

    check(door, program, look)


def test_what_shares_saved_values_is_walked_back_once(door: Callable[..., Any]) -> None:
    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        results[0].backward()
        return attempt(results[1].backward), results[2].backward()

    check(door, heads, look)


def test_a_write_to_a_result_that_another_is_made_of(door: Callable[..., Any]) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        h = x.exp()
        return h, h * h, w.sum()

    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        with torch.no_grad():
            results[0].add_(1)
        return attempt(results[1].sum().backward), attempt(results[2].backward)

    check(door, program, look)


def test_a_parameter_that_a_loss_does_not_need_is_left_alone(door: Callable[..., Any]) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return (x * 2).sum(), (w.sin() * x.detach().sum()).sum()

    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        optimizer = torch.optim.SGD(inputs, lr=0.1, momentum=0.9, weight_decay=0.1)
        results[0].backward()
        optimizer.step()
        return [(tensor.detach().clone(), tensor.grad) for tensor in inputs]

    check(door, program, look)


def test_zeros_that_eager_leaves(door: Callable[..., Any]) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return x.round(), w.sum() + x.sum(), w.sign()

    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        return [gradients(result, inputs, retain_graph=True) for result in results]

    check(door, program, look)


@pytest.mark.parametrize("program", [chain, heads, diamond, several])
def test_batches_of_gradients(door: Callable[..., Any], program: Program) -> None:
    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        tangents = torch.randn(3, *results[1].shape, generator=torch.Generator().manual_seed(3))
        batched = torch.autograd.grad(
            results[1], [*inputs, results[0]], tangents, is_grads_batched=True, allow_unused=True, retain_graph=True
        )
        mapped = torch.func.vmap(lambda tangent: torch.autograd.grad(results[1], inputs, tangent, retain_graph=True))
        return batched, mapped(tangents)

    check(door, program, look)


class Written(nn.Module):
    """State that is written and read, and two results, one computed from the other."""

    def __init__(self, drop: float) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.drop(self.layer(self.norm(x)).tanh())
        return h, (h * h).sum()


def both_modules(drop: float) -> tuple[Written, Written]:
    torch.manual_seed(0)
    eager, other = Written(drop), Written(drop)
    other.load_state_dict(eager.state_dict())
    return eager, other


def test_penalties_with_written_state(door: Callable[..., Any]) -> None:
    eager, other = both_modules(0.0)
    compiled = door(other)
    for _ in range(3):
        found = []
        for module in (eager, compiled):
            x = leaf(5, 4)
            h, loss = module(x)
            (penalty,) = torch.autograd.grad(loss, x, create_graph=True)
            (penalty.square().sum() + h.sum()).backward()
            found.append((penalty.detach(), x.grad))
        assert_same(found[1], found[0])
        assert_same([p.grad for p in other.parameters()], [p.grad for p in eager.parameters()])


DOORS_OF_EAGER_RANDOM: dict[str, Callable[[nn.Module], Any]] = {
    "dynamlir.compile": lambda module: dynamlir.compile(module, options={"eager_random": True}),
    "torch.compile": lambda module: torch.compile(module, backend="dynamlir", options={"eager_random": True}),
}


@pytest.mark.parametrize("name", DOORS_OF_EAGER_RANDOM)
def test_batches_with_written_state_and_random_numbers(name: str) -> None:
    eager, other = both_modules(0.5)
    compiled = DOORS_OF_EAGER_RANDOM[name](other)
    each = torch.eye(5)[:, :, None].expand(5, 5, 4)
    for _ in range(2):
        found = []
        for module in (eager, compiled):
            torch.manual_seed(1)
            x = leaf(5, 4)
            h, loss = module(x)
            first = torch.autograd.grad(h, x, each, is_grads_batched=True, retain_graph=True)
            found.append((first, torch.autograd.grad(loss, [h, x])))
        assert_same(found[1], found[0])


def test_nothing_is_kept_alive_in_a_circle(door: Callable[..., Any]) -> None:
    compiled = door(diamond)
    x, w = leaves()
    compiled(x, w)
    results = compiled(x, w)
    gone = [weakref.ref(result) for result in results]
    gc.collect()
    gc.disable()
    try:
        del results
        assert all(reference() is None for reference in gone)
    finally:
        gc.enable()


def test_a_graph_with_one_loss_is_one_node() -> None:
    compiled = dynamlir.compile(lambda x, w: (x @ w).tanh().sum())
    loss = compiled(*leaves())
    assert type(loss.grad_fn).__name__ == "DynamlirBackward"
    assert all("AccumulateGrad" in type(node).__name__ for node, _ in loss.grad_fn.next_functions)


@each_door(dynamic=True)
def test_sizes_that_vary(door: Callable[..., Any]) -> None:
    compiled = door(heads)
    for rows in (3, 5, 8):
        found = []
        for function in (compiled, heads):
            x, w = leaf(rows, 4), leaf(4, 4, seed=2)
            first, second, third = function(x, w)
            (inner,) = torch.autograd.grad(first, x, create_graph=True)
            found.append(
                [*torch.autograd.grad(inner.sum() + second, [x, w], retain_graph=True), gradients(third, [x, w])]
            )
        assert_same(found[0], found[1])


def test_gradients_arrive_from_the_last_layer_to_the_first() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)
    )
    compiled = dynamlir.compile(net)
    seen: list[str] = []
    for name, parameter in net.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, layer=name[0]: seen.append(layer))
    orders = []
    for call in (net, compiled, compiled):
        seen.clear()
        call(torch.ones(2, 3)).sum().backward()
        orders.append(list(seen))
    assert orders[0] == orders[1] == orders[2] == list("66442200")


@pytest.mark.parametrize("view", [lambda x: x[None], lambda x: x.t(), lambda x: x[:, 1:]])
def test_a_view_of_an_expanded_argument_has_a_gradient_for_each_element(door: Callable[..., Any], view: Any) -> None:
    found = []
    compiled = door(lambda x: (view(x), x.sum()))
    for function in (view, lambda x: compiled(x)[0]):
        x = leaf(1, 3).expand(2, 3)
        x.retain_grad()
        result = function(x)
        (result * torch.arange(result.numel()).view(result.shape)).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.eigh(x)[0].log().sum(),
        lambda x: torch.linalg.svd(x)[1].sum(),
        lambda x: torch.std_mean(x[:, :1], -1)[1].sum(),
        lambda x: torch.linalg.slogdet(x)[1] + torch.linalg.qr(x)[1].sum(),
    ],
)
def test_of_several_results_one_is_used(door: Callable[..., Any], function: Any) -> None:
    """Zeros in place of the missing gradient would be multiplied by infinity, where eigenvalues are equal."""
    found = []
    for call in (function, door(function)):
        x = (torch.eye(3) * 2).requires_grad_()
        call(x).backward()
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0])


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.saved_tensors[0].exp()


def test_what_cannot_be_differentiated_twice_has_first_gradients(door: Callable[..., Any]) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        h = Once.apply(x @ w)
        return h, h.sin().sum()

    compiled = door(program)
    found = []
    for function in (program, compiled, compiled):
        x, w = leaves()
        h, loss = function(x, w)
        first = torch.autograd.grad(loss, [h, x], create_graph=True)
        # The messages differ, since a node does not know which path eager would have taken.
        found.append((first, isinstance(attempt(lambda first=first, x=x: torch.autograd.grad(first[1].sum(), x)), str)))
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2,
        lambda x: (x / 3).t() + 1,
        lambda x: x.t() + x,
        lambda x: x.sum(0),
        lambda x: (x + x.t())[:2] * 0.5,
    ],
)
def test_a_second_walk_is_refused_where_eager_refuses_it(door: Callable[..., Any], function: Any) -> None:
    found = []
    for call in (function, door(function)):
        x = leaf(4, 4)
        y = call(x)
        y.sum().backward()
        found.append((attempt(y.sum().backward), x.grad))
        y = call(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        found.append(x.grad)
    assert_same(found[2:], found[:2])


def test_a_view_of_a_whole_result(door: Callable[..., Any]) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        whole = (x @ w).view(3, 4)
        return whole, whole.sin(), (w * 2).view(4, 4)

    def look(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> Any:
        return [gradients(result, inputs, retain_graph=True) for result in results]

    check(door, program, look)


SEVERAL_RESULTS: dict[str, Program] = {
    "eigh": lambda a: torch.linalg.eigh(a + a.mT),
    "eigh used twice": lambda a: [part.sin() for part in torch.linalg.eigh(a + a.mT)],
    "svd": lambda a: torch.linalg.svd(a),
    "std_mean": lambda a: [part.sin() for part in torch.std_mean(a, 1)],
    "var_mean": lambda a: torch.var_mean(a, 1),
    "both in one loss": lambda a: [((a - (found := torch.std_mean(a, 1, keepdim=True))[1]) / (found[0] + 1)).sum()],
}


@pytest.mark.parametrize("name", SEVERAL_RESULTS)
@pytest.mark.parametrize(
    "matrix", [torch.eye(3), torch.ones(3, 3), torch.arange(9.0).view(3, 3).cos()], ids=["eye", "ones", "any"]
)
def test_a_result_without_a_gradient_gives_none_of_it(name: str, matrix: Tensor, door: Callable[..., Any]) -> None:
    """With equal eigenvalues the formula divides the vectors' gradient by zero: zeros do not mean "no gradient"."""
    function = SEVERAL_RESULTS[name]
    compiled = door(function)
    for at in range(len(function(matrix))):
        found = []
        for each in (function, compiled):
            a = matrix.clone().requires_grad_()
            result = each(a)[at]
            found.append(torch.autograd.grad(result.sum(), a)[0] if result.requires_grad else None)
        assert (found[1] is None) == (found[0] is None)
        if found[0] is not None:
            torch.testing.assert_close(found[1], found[0], equal_nan=True)


class Detached(Once):
    """Its gradient has no gradient with respect to the saved tensor."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        return gradient * a.detach().exp()


@pytest.mark.parametrize("kind", [Once, Detached])
def test_other_nodes_are_differentiated_twice(kind: type[torch.autograd.Function], door: Callable[..., Any]) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        h = x * x * x
        return kind.apply(h), h.sin(), h

    compiled = door(function)
    for at in (1, 2):
        found = []
        for each in (function, compiled):
            x = leaf(3)
            (gradient,) = torch.autograd.grad(each(x)[at].sum(), x, create_graph=True)
            found.append((gradient, torch.autograd.grad(gradient.sum(), x)[0]))
        torch.testing.assert_close(found[1], found[0])
    # The function's own result has first gradients.
    x, y = leaf(3), leaf(3)
    (first,) = torch.autograd.grad(compiled(x)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(function(y)[0].sum(), y)[0])
