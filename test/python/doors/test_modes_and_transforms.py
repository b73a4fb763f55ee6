"""Dispatch modes, transforms, tracers and forward-mode tangents, which take part in each operation besides its kernel,
see the operations of compiled functions.

A compiled call has no operations to show, so a call under such machinery runs as plain Python, with a counted reason:
whether or not an entry fits, at the first call of the process or a later one. Our own operations stay invisible to it.
"""

from __future__ import annotations

import functools
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import forked
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

X = torch.randn(3, 4)

own = dynamlir.compile
stock = functools.partial(torch.compile, backend="dynamlir")
DOORS = pytest.mark.parametrize("door", [own, stock], ids=["own", "torch.compile"])
WARM = pytest.mark.parametrize("warm", [False, True], ids=["first call", "later call"])


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    dynamlir.reset()
    with torch.no_grad():
        yield


def reasons() -> set[str]:
    return set(dynamlir.counters()["fallbacks"])


def product(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() @ x.t()).relu() + 1


def ready(door: Callable[..., Any], function: Callable[..., Any], warm: bool) -> Callable[..., Any]:
    """A new function of the same code, compiled, and called first if it is to have entries."""
    compiled = door(lambda *args: function(*args))
    if warm:
        for _ in range(3):
            assert torch.allclose(compiled(X), function(X))
    dynamlir.reasons.reset()
    return compiled


class Names(TorchDispatchMode):
    """Records the operations, and doubles one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.ops.aten.sin.default else out


class Calls(TorchFunctionMode):
    """Records the calls, and doubles one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.Tensor.sin else out


def same_under(make_mode, compiled):
    """Asserts that the mode sees and changes the same as in plain Python, twice."""
    for _ in range(2):
        with make_mode() as expected:
            right = product(X)
        with make_mode() as mode:
            seen = compiled(X)
        assert torch.equal(seen, right)
        assert mode.seen == expected.seen


@DOORS
@WARM
def test_a_dispatch_mode_sees_and_changes_the_operations_and_nothing_else(door, warm):
    compiled = ready(door, product, warm)
    same_under(Names, compiled)
    assert torch.allclose(compiled(X), product(X)), "without the mode all is as before"


@WARM
def test_a_dispatch_mode_is_a_counted_reason(warm):
    compiled = ready(own, product, warm)
    with Names():
        compiled(X)
    assert [(event.reason, event.message) for event in dynamlir.fallbacks()] == [("dispatch-mode", "Names")]


def test_entries_are_not_made_for_modes():
    compiled = ready(own, product, True)
    for _ in range(20):
        with Names():
            compiled(X)
    assert len(compiled._cache) == 1


@pytest.mark.parametrize("enter", [Names, Calls, forward_ad.dual_level])
def test_fullgraph_raises_where_plain_python_would_run(enter):
    compiled = dynamlir.compile(product, fullgraph=True)
    compiled(X)
    with enter(), pytest.raises(dynamlir.Unsupported):
        compiled(X)
    assert torch.allclose(compiled(X), product(X))


@DOORS
@WARM
def test_flops_are_counted(door, warm):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    compiled = door(model)
    if warm:
        compiled(X)
    with FlopCounterMode(display=False) as expected:
        model(X)
    with FlopCounterMode(display=False) as counter:
        compiled(X)
    assert counter.get_total_flops() == expected.get_total_flops() > 0


@WARM
def test_a_function_mode_sees_and_changes_the_calls(warm):
    compiled = ready(own, product, warm)
    same_under(Calls, compiled)
    assert reasons() == {"function-mode"}


class Counts(torch.overrides.TorchFunctionMode):
    """Sees functions, and does not change them."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_a_default_device_is_guarded():
    def made(x):
        return x + torch.ones(4), torch.ones(2)

    compiled = own(made)
    for _ in range(3):
        with torch.device("cpu"):
            seen, right = compiled(X), made(X)
        assert torch.equal(seen[0], right[0]) and seen[1].device == right[1].device
        compiled(X)
        with Counts() as ours:
            compiled(X)
        with Counts() as theirs:
            made(X)
        assert ours.seen == theirs.seen and theirs.seen
    assert len(compiled._cache) == 2
    assert reasons() == {"function-mode"}


def test_the_default_device_of_the_process():
    def made(x):
        return x + torch.ones(4)

    compiled = own(made)
    torch.set_default_device("cpu")
    try:
        for _ in range(2):
            assert torch.equal(compiled(X), made(X))
    finally:
        torch.set_default_device(None)
    assert not reasons()


@WARM
def test_another_device_as_context_is_a_function_mode(warm):
    def made(x):
        return x + torch.ones(4, device=x.device), torch.ones(2)

    compiled = own(made)
    if warm:
        compiled(X)
    with torch.device("meta"):
        seen, right = compiled(X), made(X)
    assert torch.equal(seen[0], right[0])
    assert seen[1].device == right[1].device
    assert reasons() == {"function-mode"}


@DOORS
@WARM
@pytest.mark.parametrize("name", ["vmap", "grad", "jvp", "functionalize", "vmap of grad", "jacrev"])
def test_transforms(door, warm, name):
    func = torch.func
    transform = {
        "vmap": lambda f: func.vmap(lambda row: f(row.reshape(2, 2))),
        "grad": lambda f: func.grad(lambda x: f(x).sum()),
        "jvp": lambda f: lambda x: func.jvp(f, (x,), (torch.ones_like(x),))[1],
        "functionalize": func.functionalize,
        "vmap of grad": lambda f: func.vmap(func.grad(lambda row: f(row.reshape(2, 2)).sum())),
        "jacrev": lambda f: func.jacrev(f),
    }[name]
    with torch.enable_grad():
        compiled = door(lambda x: product(x))
        if warm:
            compiled(X)
            compiled(X)
        for _ in range(2):
            assert torch.allclose(transform(compiled)(X), transform(product)(X))


@DOORS
@WARM
@pytest.mark.parametrize("grad", [False, True])
def test_tangents_are_carried_on(door, warm, grad):
    with torch.set_grad_enabled(grad):
        compiled = ready(door, product, warm)
        for _ in range(2):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(X, torch.ones_like(X))
                expected, seen = forward_ad.unpack_dual(product(dual)), forward_ad.unpack_dual(compiled(dual))
            assert torch.equal(seen.primal, expected.primal)
            assert seen.tangent is not None
            assert torch.equal(seen.tangent, expected.tangent)
        dynamlir.reset()
        assert torch.allclose(compiled(X), product(X))
        assert "forward-ad" not in reasons()


def test_tangents_of_parameters_are_carried_on():
    model = nn.Linear(4, 2)
    compiled = dynamlir.compile(model)
    compiled(X)
    for _ in range(2):
        with forward_ad.dual_level():
            weight = model.weight
            del model.weight
            model.weight = forward_ad.make_dual(weight, torch.ones_like(weight))
            expected, seen = (forward_ad.unpack_dual(f(X)).tangent for f in (model, compiled))
            del model.weight
            model.weight = weight
            assert torch.equal(seen, expected)


@DOORS
@WARM
def test_fake_tensors_stay_fake(door, warm):
    compiled = ready(door, product, warm)
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = compiled(torch.ones(3, 4))
        assert type(made) is type(product(torch.ones(3, 4)))
        assert type(compiled(X)) is type(product(X))


@WARM
def test_a_fake_tensor_outside_of_its_mode(warm):
    compiled = ready(own, product, warm)
    with FakeTensorMode():
        fake = torch.ones(3, 4)
    for _ in range(2):
        assert type(compiled(fake)) is type(fake)
    assert torch.allclose(compiled(X), product(X))


@WARM
@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_make_fx_records_the_operations(warm, pre_dispatch):
    compiled = ready(own, product, warm)
    for _ in range(2):
        traced = make_fx(compiled, pre_dispatch=pre_dispatch)(X)
        expected = make_fx(product, pre_dispatch=pre_dispatch)(X)
        assert [node.target for node in traced.graph.nodes][1:] == [node.target for node in expected.graph.nodes][1:]
        assert torch.equal(traced(X * 2), product(X * 2))


class Wrapper(nn.Module):
    def __init__(self, inner: Callable[..., Any]) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()


@WARM
def test_export_has_the_operations_of_a_compiled_part(warm):
    inner = nn.Linear(4, 4)
    wrapper = Wrapper(dynamlir.compile(inner))
    if warm:
        wrapper(X)
    program = torch.export.export(wrapper, (X,))
    assert [node.target for node in program.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.linear.default,
        torch.ops.aten.relu.default,
    ]
    assert torch.equal(program.module()(X), inner(X).relu())


@WARM
def test_jit_trace_records_the_operations(warm):
    compiled = ready(own, product, warm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in (compiled, lambda x: x * 2 + compiled(x).sum()):
            plain = torch.jit.trace(lambda x, f=function: f(x), X)
            # The recording has torch's own product, whose sums may round differently from ours.
            torch.testing.assert_close(plain(X * 2), function(X * 2))
    assert reasons() == {"tracing"}


@pytest.mark.parametrize("guard", ["_AutoDispatchBelowAutograd", "_DisablePythonDispatcher"])
def test_other_dispatch_keys(guard):
    compiled = ready(own, product, True)
    with getattr(torch._C, guard)():
        assert torch.allclose(compiled(X), product(X))


def test_autocast_and_inference_mode_are_no_disturbance():
    compiled = own(lambda x: product(x))
    for context in (torch.autocast("cpu"), torch.inference_mode(), torch.enable_grad()):
        with context:
            right = product(X)
            seen = compiled(X)
            torch.testing.assert_close(seen, right)
    assert not reasons()
    assert len(compiled._cache) == 3


@DOORS
def test_hooks_for_saved_tensors_see_no_fakes(door):
    packed: list[type] = []

    def pack(tensor):
        packed.append(type(tensor))
        return tensor

    x = torch.ones(4, requires_grad=True)
    for function in (lambda x: x * X[0], lambda x: (x.sin() * x).sum()):
        for compiled in (door(function), dynamlir.compile(function, backend="aot_eager")):
            with torch.enable_grad():
                for _ in range(3):
                    packed.clear()
                    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                        function(x)
                    expected = list(packed)
                    packed.clear()
                    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                        compiled(x)
                    # The number of saved tensors depends on the partition of the graph, ours or AOTAutograd's; their
                    # kinds do not.
                    assert packed and set(packed) == set(expected)


FIRST_CALLS = {
    "vmap": "print(torch.vmap(c)(x).shape == x.shape)",
    "grad": "print(torch.func.grad(lambda x: c(x).sum())(x).shape == x.shape)",
    "jvp": "print(torch.func.jvp(c, (x,), (x,))[1].shape == x.shape)",
    "functionalize": "print(torch.equal(torch.func.functionalize(c)(x), f(x)))",
    "export": "print('sin' in str(torch.export.export(Part(), (x,)).graph))",
    "export strict": "print('sin' in str(torch.export.export(Part(), (x,), strict=True).graph))",
    "make_fx": "from torch.fx.experimental.proxy_tensor import make_fx; print('sin' in make_fx(c)(x).code)",
    "fake mode": "with FakeTensorMode(): print(type(c(torch.ones(3))).__name__ == 'FakeTensor')",
    "a dispatch mode": "with Twice(): print(torch.equal(c(x), f(x)))",
    "a function mode": "with TorchFunctionMode(): print(torch.equal(c(x), f(x)))",
    "a default device": "torch.set_default_device('meta'); print(torch.equal(c(x), f(x)))",
    "jit.trace": "print(torch.equal(torch.jit.trace(c, x)(x * 2), f(x * 2)))",
    "tangents": "with fa.dual_level(): print(fa.unpack_dual(c(fa.make_dual(x, x))).tangent is not None)",
    "inference mode": "with torch.inference_mode(): print(torch.equal(c(x), f(x)))",
    "torch functions disabled": "with torch._C.DisableTorchFunction(): print(torch.equal(c(x), f(x)))",
}


@pytest.mark.parametrize("name", FIRST_CALLS)
def test_the_first_call_of_a_process(name):
    program = f"""
    import warnings; warnings.simplefilter("ignore")
    import torch, dynamlir, torch.autograd.forward_ad as fa
    from torch._subclasses import FakeTensorMode
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    class TorchFunctionMode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {{}}))
    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {{}})) * 2
    f = lambda x: x.sin() + 1
    x = torch.ones(2, 3)
    c = dynamlir.compile(f)
    class Part(torch.nn.Module):
        def forward(self, x): return c(x)
    {FIRST_CALLS[name]}
    torch.set_default_device(None)
    y = torch.ones(5)
    print(torch.equal(c(y), f(y)), len(c._cache))
    """
    done = forked.python(textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    first, later = done.stdout.splitlines()
    assert first == "True"
    assert later.startswith("True") and not later.endswith(" 0")
