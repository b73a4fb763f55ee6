"""`loss.backward()` within a compiled function: its effect on ``.grad``, and training steps that are one graph."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from sampled import one_in
from torch import Tensor
from worlds import alike

F = torch.nn.functional
X = torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 1.0]], dtype=torch.float64)


def leaf(*shape: int, seed: int = 0) -> Tensor:
    made = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_()


def told(value: Any) -> Any:
    """A description of tensors, rounded to some digits: kernels sum in another order."""
    if isinstance(value, Tensor):
        facts = tuple(value.shape), value.stride(), value.requires_grad, value.is_leaf
        return facts, (value.detach() * 2**20).round().tolist()
    if isinstance(value, (list, tuple)):
        return [told(one) for one in value]
    return value


def both(function: Callable[..., Any], *reasons: str, first: Callable[[Tensor], Any] = lambda w: None) -> None:
    """Calls a function with a leaf and a tensor several times, compiled and plain; ``first`` is applied to the leaf
    before.
    """

    def world(compile_: Any) -> Any:
        compiled, w, seen = compile_(function), leaf(2, 2), []
        first(w)
        for at in range(3):
            before = w.grad
            result = compiled(w, X + at)
            seen.append(told([result, w.grad, w.grad is before, w]))
        return seen

    alike(world, *reasons)


# -- gradients


def test_a_gradient_is_set_and_then_added_to_in_place() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        (x @ w).tanh().sum().backward()
        return x + 1

    both(function)


def test_a_gradient_that_was_there_is_the_same_object() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        held = w.grad
        (x @ w).sum().backward()
        return held is w.grad

    both(function, first=lambda w: setattr(w, "grad", torch.ones_like(w)))


def test_it_is_read_clipped_and_cleared() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        w.grad = None
        (x @ w).exp().sum().backward()
        assert w.grad is not None
        norm = torch.nn.utils.clip_grad_norm_([w], 0.5)
        value = w.grad.sum()
        torch.nn.utils.clip_grad_value_([w], 0.1)
        return norm, value

    both(function)


def test_of_several_passes() -> None:
    """Gradients of parts of a batch are summed."""

    def function(w: Tensor, x: Tensor) -> Any:
        for part in x.split(1):
            (part @ w).square().sum().backward()
        total = w.grad.clone()
        w.grad = None
        return total

    both(function)


def test_of_one_history_twice() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        y = (x @ w).sin().sum()
        y.backward(retain_graph=True)
        y.backward()
        return x + 1

    both(function)


def test_torchs_function_of_several_outputs_with_tangents_of_ones_own() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        torch.autograd.backward([(x @ w).sin(), (w * w).sum()], [x.cos(), None])
        return x + 1

    both(function)


@pytest.mark.parametrize("one", [False, True])
def test_to_some_leaves_only(one: bool) -> None:
    def function(w: Tensor, v: Tensor, x: Tensor) -> Any:
        (x @ w @ v).sum().backward(inputs=v if one else [v])
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, w, v = compile_(function), leaf(2, 2), leaf(2, 2, seed=1)
        return [told([compiled(w, v, X), w.grad, v.grad]) for _ in range(3)]

    alike(world)


def test_a_leaf_that_is_not_reached_keeps_what_it_has() -> None:
    def function(w: Tensor, v: Tensor, x: Tensor) -> Any:
        (x @ w).sum().backward()
        return v + 1

    def world(compile_: Any) -> Any:
        compiled, w, v = compile_(function), leaf(2, 2), leaf(3, 3, seed=1)
        return [told([compiled(w, v, X), w.grad, v.grad]) for _ in range(3)]

    alike(world)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    "use", [lambda w: w.sum(), lambda w: w.expand(5, 2, 3).square().sum(), lambda w: (w.t() * 2).sum()]
)
def test_a_gradient_is_laid_out_as_its_leaf(use: Callable[[Tensor], Tensor], order: tuple[int, int]) -> None:
    def function(w: Tensor) -> Any:
        use(w).backward()
        return w.detach() + 1

    def world(compile_: Any) -> Any:
        shape = [(2, 3)[at] for at in order]
        w = leaf(*shape).detach().permute(order).requires_grad_()
        compiled = compile_(function)
        return [told([compiled(w), w.grad]) for _ in range(2)]

    alike(world)


def test_two_leaves_have_gradients_in_memory_of_their_own() -> None:
    def function(w: Tensor, v: Tensor) -> Any:
        (w + v).sum().backward()
        w.grad.mul_(3)
        return w.grad is v.grad

    def world(compile_: Any) -> Any:
        compiled, w, v = compile_(function), leaf(2), leaf(2, seed=1)
        return told([compiled(w, v), w.grad, v.grad]), w.grad.data_ptr() == v.grad.data_ptr()

    alike(world)


def test_of_equal_layers() -> None:
    """Each is interpreted, since a repeated call has no history."""
    layers = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()) for _ in range(6)])

    def function(model: Any, x: Tensor) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    def world(compile_: Any) -> Any:
        compiled, model = compile_(function), copy.deepcopy(layers).double()
        x = torch.ones(3, 4, dtype=torch.float64)
        return [told([compiled(model, x), [p.grad for p in model.parameters()]]) for _ in range(3)]

    alike(world)


# -- results


def test_what_is_returned_has_a_history_that_is_used_up() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        y = (x @ w).tanh()
        loss = y.square().sum()
        loss.backward()
        return loss, y, y[0]

    def world(compile_: Any) -> Any:
        compiled, w, seen = compile_(function), leaf(2, 2), []
        for _ in range(3):
            results = compiled(w, X)
            seen.append(told(results))
            for result in results:
                with pytest.raises(RuntimeError) as raised:
                    result.sum().backward()
                seen.append(str(raised.value))
        return seen, told(w.grad)

    alike(world)


def test_gradients_that_are_asked_for_use_it_up_as_well() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        y = (x @ w).tanh().square().sum()
        return y, torch.autograd.grad(y, w)

    def world(compile_: Any) -> Any:
        compiled, w = compile_(function), leaf(2, 2)
        y, gradients = compiled(w, X)
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        return told([y, gradients, w.grad])

    alike(world)


def test_what_is_returned_and_stored_is_one_object() -> None:
    class Log:
        loss: Any = None

    def function(w: Tensor, log: Log, x: Tensor) -> Any:
        log.loss = (x @ w).square().sum()
        log.loss.backward()
        return log.loss

    def world(compile_: Any) -> Any:
        compiled, log, w = compile_(function), Log(), leaf(2, 2)
        result = compiled(w, log, X)
        return result is log.loss, told([result, result.detach() * 2])

    alike(world)


def test_a_history_that_needs_nothing_saved_is_there_again() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        y = (w + x[:2]).sum()
        y.backward()
        return y

    def world(compile_: Any) -> Any:
        compiled, w, seen = compile_(function), leaf(2, 2), []
        for _ in range(2):
            compiled(w, X).backward()
            seen.append(told(w.grad))
        return seen

    alike(world)


def test_one_that_is_retained_is_there_again() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        y = (x @ w).sin().sum()
        y.backward(retain_graph=True)
        return y

    def world(compile_: Any) -> Any:
        compiled, w, seen = compile_(function), leaf(2, 2), []
        for _ in range(2):
            compiled(w, X).backward()
            seen.append(told(w.grad))
        return seen

    alike(world)


# -- what falls back to plain Python


def test_gradients_with_a_history_are_left_to_python(request: pytest.FixtureRequest) -> None:
    # Torch warns once in a process, and an earlier test may have had it.
    request.addfinalizer(lambda: torch.set_warn_always(False))
    torch.set_warn_always(True)

    def function(w: Tensor, x: Tensor) -> Any:
        (x @ w).square().sum().backward(create_graph=True)
        return x + 1

    with pytest.warns(UserWarning, match="create_graph"):
        both(function, "autograd")


@pytest.mark.whole
def test_a_leaf_with_hooks_is_left_to_python() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        (x @ w).sum().backward()
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, w, seen = compile_(function), leaf(2, 2), []
        seen.append(told([compiled(w, X), w.grad]))
        handle = w.register_hook(lambda grad: grad * 2)
        seen.append(told([compiled(w, X), w.grad]))
        handle.remove()
        w.register_post_accumulate_grad_hook(lambda tensor: seen.append(told(tensor.grad)))
        compiled(w, X)
        return seen

    alike(world, "autograd")


@pytest.mark.filterwarnings("ignore:Error detected", "ignore:Anomaly Detection")
def test_hooks_on_what_is_saved_and_anomaly_mode_are_left_to_python() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        w.grad = None
        (x @ w).sqrt().sum().backward()
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, w, seen = compile_(function), leaf(2, 2), []

        def packed(tensor: Tensor) -> Tensor:
            seen.append(tuple(tensor.shape))
            return tensor

        compiled(w, X)
        with torch.autograd.graph.saved_tensors_hooks(packed, packed):
            compiled(w, X)
        with pytest.raises(RuntimeError, match="nan"), torch.autograd.detect_anomaly():
            compiled(w, X)
        seen.append(told([compiled(w, X.abs())]))
        return seen

    alike(world, "autograd", "unguardable")


def test_the_history_of_an_argument_is_left_to_python() -> None:
    def function(y: Tensor) -> Any:
        y.square().sum().backward()
        return y.detach() + 1

    def world(compile_: Any) -> Any:
        compiled, w = compile_(function), leaf(2, 2)
        return [told([compiled(w * 2), w.grad]) for _ in range(2)]

    alike(world, "autograd")


@pytest.mark.whole
def test_memory_of_a_tangent_is_left_to_python() -> None:
    def function(w: Tensor, t: Tensor) -> Any:
        w.view(4).backward(t)
        return t + 1

    def world(compile_: Any) -> Any:
        compiled, w, t = compile_(function), leaf(2, 2), torch.ones(4, dtype=torch.float64)
        compiled(w, t)
        t.add_(5)
        return told(w.grad)

    alike(world, "autograd")


def without_gradients(w: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad():
        return (x @ w).sum()


WRONG: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "not a number": lambda w, x: (x @ w).backward(),
    "without a gradient": lambda w, x: x.sum().backward(),
    "twice": lambda w, x: [(y := (x @ w).exp().sum()).backward(), y.backward()],
    "with grad mode off": lambda w, x: without_gradients(w, x).backward(),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_torch_refuses_it_refuses_here(wrong: str) -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        WRONG[wrong](w, x)
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, w, seen = compile_(function), leaf(2, 2), []
        for _ in range(2):
            with pytest.raises(RuntimeError) as raised:
                compiled(w, X)
            seen.append((str(raised.value), told(w.grad)))
        return seen

    alike(world, "raised", "autograd")


def test_a_leaf_of_the_functions_own_is_left_to_python() -> None:
    def function(w: Tensor, x: Tensor) -> Any:
        own = x.detach().clone().requires_grad_()
        (own @ w.detach()).square().sum().backward()
        return own.grad

    both(function, "tensor-escape")


# -- whole steps


def mlp() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))


def convolutions() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 2)
    )


INPUTS = {mlp: (3, 4), convolutions: (3, 1, 4, 4)}
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2, momentum=0.5),
}


def train(model: Any, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, set_to_none: bool) -> Tensor:
    """A training step."""
    optimizer.zero_grad(set_to_none)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def tensors_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [one for state in optimizer.state.values() for one in state.values() if isinstance(one, Tensor)]


def ways() -> Iterator[Any]:
    """Each model with each optimizer, and both ways to clear gradients, in alternating order."""
    for at, make in enumerate(INPUTS):
        for number, optimizer in enumerate(OPTIMIZERS):
            for set_to_none in (False, True) if (at + number) % 2 else (True, False):
                yield pytest.param(make, optimizer, set_to_none)


@pytest.mark.parametrize(("make", "optimizer", "set_to_none"), one_in(2, ways()))
def test_a_step_is_one_graph(make: Callable[[], Any], optimizer: str, set_to_none: bool) -> None:
    dynamlir.reset()
    torch.manual_seed(0)
    models = [make().double()]
    models.append(copy.deepcopy(models[0]))
    optimizers = [OPTIMIZERS[optimizer](model.parameters()) for model in models]
    steps = [train, dynamlir.compile(train)]
    for at in range(5):
        x, y = torch.randn(*INPUTS[make], dtype=torch.float64), torch.randint(0, 2, (3,))
        held = [[p.grad for p in model.parameters()] for model in models]
        losses = [step(*given, x, y, set_to_none) for step, *given in zip(steps, models, optimizers)]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        assert losses[1].requires_grad
        for own, other in zip(*(model.parameters() for model in models)):
            # Bias corrections of compiled optimizers are float32, see docs/guides/training.md.
            torch.testing.assert_close(other, own, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(other.grad, own.grad, rtol=1e-3, atol=1e-5)
            assert other.grad.stride() == own.grad.stride() and other.grad.grad_fn is None
        torch.testing.assert_close(*map(tensors_of, optimizers), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(*[list(model.buffers()) for model in models], rtol=1e-4, atol=1e-5)
        same = [[p.grad is one for p, one in zip(model.parameters(), grads)] for model, grads in zip(models, held)]
        assert same[0] == same[1] == [at > 0 and not set_to_none] * len(same[0])
    # The first step creates the state.
    assert dynamlir.counters()["graphs_compiled"] <= 3
    assert not dynamlir.fallbacks(), dynamlir.explain_last()


def test_its_entry_as_python_does_the_same() -> None:
    def world(compile_: Any) -> Any:
        torch.manual_seed(0)
        model = mlp().double()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        given = optimizer, torch.ones(3, 4, dtype=torch.float64), torch.tensor([0, 1, 1]), True
        compiled = compile_(train)
        compiled(model, *given)
        compiled(model, *given)
        again = compiled if compiled is train else compiled._cache[-1].function
        loss = again(model, *given)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        return told([loss, [(p, p.grad) for p in model.parameters()]])

    alike(world)


# -- the state of an optimizer


def state_of(optimizer: torch.optim.Optimizer, weights: list[Tensor]) -> Any:
    """The optimizer's state, for the same tensors, in memory of its own."""
    assert [id(weight) for weight in weights] == [id(key) for key in optimizer.state]
    tensors = tensors_of(optimizer)
    assert len({one.data_ptr() for one in tensors}) == len(tensors)
    states = [list(optimizer.state[weight].items()) for weight in weights]
    kinds = [(name, type(one), one.dtype) for state in states for name, one in state if isinstance(one, Tensor)]
    return type(optimizer.state).__name__, [told(state) for state in states], str(kinds)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_first_step_makes_the_state(optimizer: str) -> None:
    """Each optimizer gets its own state, though the function is compiled once."""
    if optimizer == "sgd":
        return

    def function(made: torch.optim.Optimizer, x: Tensor) -> Tensor:
        made.step()
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, seen = compile_(function), []
        weights = [[leaf(2, 3, seed=at), leaf(3, seed=at)] for at in range(3)]
        optimizers = [OPTIMIZERS[optimizer](own) for own in weights]
        for _ in range(3):
            for own, made in zip(weights, optimizers):
                for weight in own:
                    weight.grad = weight.detach().clone()
                compiled(made, X)
                # The step tensors of Adam are left out: their last digits are float32.
                seen.append(
                    (len(made.state), [list(state) for state in made.state.values()], state_of(made, own)[0::2])
                )
        return seen

    alike(world)


def test_a_tensor_that_two_groups_have_at_a_later_call() -> None:
    def function(table: Any, v: Tensor, w: Tensor, x: Tensor) -> Tensor:
        table[v]["sum"] = x.sum()
        table[w]["product"] = x.prod()
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, seen = compile_(function), []
        v, w = leaf(2), leaf(2, seed=1)
        for pair in ((v, w), (w, w), (v, w)):
            table: Any = collections.defaultdict(dict)
            compiled(table, *pair, X)
            seen.append([(key is v, key is w, told(list(own.items()))) for key, own in table.items()])
        return seen

    alike(world)


def test_a_table_that_is_looked_at_after_something_was_put_into_it() -> None:
    def function(table: Any, v: Tensor, w: Tensor, x: Tensor) -> Any:
        table[v]["sum"] = x.sum()
        found = len(table), [key is v for key in table], table.get("none"), table[v]["sum"] + 1
        table[w]["sum"] = table[v]["sum"] * 2
        return found

    def world(compile_: Any) -> Any:
        compiled, seen = compile_(function), []
        v, w = leaf(2), leaf(2, seed=1)
        for _ in range(2):
            table: Any = collections.defaultdict(dict)
            seen.append(told(compiled(table, v, w, X)))
            seen.append([(key is v, told(list(own.items()))) for key, own in table.items()])
        return seen

    dynamlir.reset()
    assert world(dynamlir.compile) == world(lambda function: function)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "python"])
def test_other_backends_get_it_as_operations(backend: str) -> None:
    def world(compile_: Any) -> Any:
        torch.manual_seed(0)
        model = mlp().double()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        compiled, y = compile_(train), torch.tensor([0, 1, 1])
        seen = []
        for at in range(3):
            compiled(model, optimizer, torch.ones(3, 4, dtype=torch.float64) + at, y, True)
            seen.append(told([(p, p.grad) for p in model.parameters()]))
        return seen

    dynamlir.reset()
    assert world(lambda function: dynamlir.compile(function, backend=backend)) == world(lambda function: function)
    assert not dynamlir.fallbacks(), dynamlir.explain_last()
