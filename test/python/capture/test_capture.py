"""The front door `dynamlir.compile` against plain Python, on small functions. Models are in test_capture_models."""

from __future__ import annotations

import collections
import dataclasses
import functools
import importlib.machinery
import math
import sys
import types

import dynamlir
import pytest
import torch
from dynamlir import reasons

A, B = torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def reference(x, y):
    z = x + y
    w = z * 2
    return w.sum()


def check(function, *args, backend="python", graphs=1, **kwargs):
    """Compiles, calls twice and compares with plain Python; the second call must be a hit."""
    compiled = dynamlir.compile(function, backend=backend, fullgraph=bool(graphs))
    for _ in range(2):
        assert_same(compiled(*args, **kwargs), function(*args, **kwargs))
        assert len(compiled._cache) == 1
    return compiled


def assert_same(seen, expected):
    assert type(seen) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(seen, expected)
    elif isinstance(expected, dict):
        assert list(seen) == list(expected)
        for key in expected:
            assert_same(seen[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(seen) == len(expected)
        for left, right in zip(seen, expected):
            assert_same(left, right)
    else:
        assert seen == expected


# -- the walk-through of the reference


def test_the_twelve_steps():
    trace = dynamlir.trace_steps(reference)(A, B)
    assert [step.stack for step in trace.steps] == [
        ("TensorVar(x)",),
        ("TensorVar(x)", "TensorVar(y)"),
        ("TensorVar(add_0)",),
        (),
        ("TensorVar(add_0)",),
        ("TensorVar(add_0)", "ConstVar(2)"),
        ("TensorVar(mul_0)",),
        (),
        ("TensorVar(mul_0)",),
        ('MethodVar(mul_0, "sum")',),
        ("TensorVar(sum_0)",),
        (),
    ]
    assert trace.steps[5].instruction in ("LOAD_CONST 2", "LOAD_SMALL_INT 2")
    assert [step.node for step in trace.steps if step.node] == [
        "add_0 = torch.add(x, y)",
        "mul_0 = torch.mul(add_0, 2)",
        "sum_0 = mul_0.sum()",
        "return sum_0",
    ]


def test_the_steps_of_a_module():
    """The module's class has a `__getattr__`, which the trace does not call."""

    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x).relu()

    model = Gate().eval()
    for trace in (dynamlir.trace_steps(model), dynamlir.trace_steps(model.forward)):
        assert [step.node for step in trace(A).steps if step.node][-1].startswith("return relu")
    assert dynamlir.disassemble(model) == dynamlir.disassemble(Gate.forward)


def test_trace_compile_guard_cache_execute():
    fn = dynamlir.compile(reference)
    assert_same(fn(A, B), reference(A, B))
    assert len(fn._cache) == 1
    guards, compiled = fn._cache[0]
    assert "L['x'].shape == (3, 4)" in guards.code_parts
    assert "L['y'].dtype == torch.float32" in guards.code_parts
    assert guards.check_all(A + 1, B)
    assert callable(compiled)
    fn(A + 1, B)
    assert len(fn._cache) == 1
    wide = torch.ones(5, 6)
    assert not guards.check_all(wide, wide)
    failures = guards.failing_guards(wide, wide)
    assert repr(failures) == "[Guard(L['x'].shape == (3, 4)), Guard(L['y'].shape == (3, 4))]"
    assert failures[0].expected == "(3, 4)" and "[5, 6]" in failures[0].seen
    assert_same(fn(wide, wide), reference(wide, wide))
    assert len(fn._cache) == 2


def test_the_graph_as_fx_and_as_a_table():
    explanation = dynamlir.explain(reference)(A, B)
    assert explanation.graph_count == 1 and explanation.graph_break_count == 0
    assert explanation.ops == ("add_0 = torch.add(x, y)", "mul_0 = torch.mul(add_0, 2)", "sum_0 = mul_0.sum()")
    nodes = [(node.op, node.name) for node in explanation.graphs[0].graph.nodes]
    assert nodes == [
        ("placeholder", "l_x_"),
        ("placeholder", "l_y_"),
        ("call_function", "z"),
        ("call_function", "w"),
        ("call_method", "sum_1"),
        ("output", "output"),
    ]


@pytest.mark.parametrize("backend", ["dynamlir", "python", "jit", "eager", "aot_eager"])
def test_backends(backend):
    check(reference, A, B, backend=backend)


def test_any_callable_is_a_backend():
    seen = []

    def backend(module, example_inputs):
        seen.append([node.op for node in module.graph.nodes])
        return module.forward

    check(reference, A, B, backend=backend)
    assert seen == [["placeholder", "placeholder", "call_function", "call_function", "call_method", "output"]]


# -- Python in a frame


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    dtype: torch.dtype = torch.float64
    layers: tuple = (1, 2, 3)


Pair = collections.namedtuple("Pair", "first second")


def helper(t, factor=3):
    if t.shape[0] > 10:
        return t * 2
    return t + factor


def branches(x):
    return helper(x)


def loops(x):
    for scale in (1, 2, 3):
        x = x * scale
    total = 0
    while total < 3:
        x, total = x + total, total + 1
    return x


def containers(x):
    kept = {"a": x, "b": [x + 1, (x * 2,)]}
    kept["c"] = kept["b"][1][0].sum(0)
    return kept


def comprehension(x):
    return [x * scale for scale in range(3)], {str(scale): x + scale for scale in range(2)}


def generator(x):
    def scaled():
        for scale in range(3):
            yield x * scale

    return sum(scaled())


def closure(x):
    factor = x.shape[1]

    def inner(y):
        return y * factor

    return inner(x) + inner(x)


def handled(x):
    try:
        raise ValueError("never mind")
    except ValueError as error:
        return x * len(str(error))
    finally:
        x = x + 1


def with_block(x):
    with torch.no_grad():
        return x * 2


def strings(x):
    name = f"{x.dim()}-{'abc'.upper():>5}"
    return x * len(name), name


def partials(x):
    return functools.partial(torch.add, alpha=2)(x, x)


class Countdown:
    def __init__(self, left):
        self.left = left

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


class Holder:
    def __iter__(self):
        return Countdown(3)


def iterators_without_iter(x):
    """The iterator that `__iter__` returns needs only a `__next__`."""
    first, _, _ = Holder()
    return x * sum(Holder()) + first + (lambda a, b, c: a)(*Holder())


def lambdas(x):
    return (lambda y, *rest, scale=2, **more: y * scale + len(rest) + len(more))(x, 1, 2, a=3)


def pattern(x):
    match tuple(x.shape):
        case (rows, 4):
            return x * rows
        case _:
            return x


def named_tuple(x):
    return Pair(x, Pair(x + 1, None))


def split(x):
    first, *rest = x.split(1)
    return first + rest[0], torch.max(x, dim=1)


def math_calls(x):
    return x * math.sqrt(x.shape[0]) + max(1, 2) - abs(-3)


def operators(x):
    y = -x
    y += 1
    return (y @ x.T, ~(x > 2), x**2 // 3 % 2, x[0, 1:], x[..., None], x < y)


def slice_assignment(x):
    y = x.clone()
    y[1:] = 0
    y[0, 2] += 5
    return y


@pytest.mark.parametrize(
    "function",
    [
        branches, loops, containers, comprehension, generator, closure, handled, with_block, strings,
        partials, iterators_without_iter, lambdas,
        pattern, named_tuple, split, math_calls, operators, slice_assignment,
    ],
)  # fmt: skip
def test_python(function):
    check(function, A)
    check(function, A, backend="dynamlir")


def test_a_dataclass_argument_is_guarded_by_what_is_read():
    def scaled(x, config):
        return x.to(config.dtype) * config.scale

    compiled = check(scaled, A, Config())
    compiled(A, Config(layers=()))
    assert len(compiled._cache) == 1
    assert_same(compiled(A, Config(scale=5.0)), scaled(A, Config(scale=5.0)))
    assert len(compiled._cache) == 2


def test_what_is_returned_is_rebuilt_or_the_same():
    def several(x, extra):
        shared = [x + 1]
        return x, extra, shared, {"again": shared}, None, 3

    extra = object()
    compiled = dynamlir.compile(several, backend="python")
    x, same, shared, again, *_ = compiled(A, extra)
    assert x is A and same is extra and again["again"] is shared


def filled_and_emptied(x):
    numbers = set(range(100, 0, -7))
    for number in (9, 16, 23):
        numbers.discard(number)
    numbers.add(1024)
    return x + 1, numbers


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 1, {8, 0, 16, 3}),
        lambda x: (x + 1, {16, 0, 8, 3}),
        lambda x: (x + 1, set(range(50, 0, -3))),
        lambda x: (x + 1, set(range(6)) | {64, 32}),
        lambda x: (x + 1, frozenset({40, 8, 0, 24, 16, 1})),
        lambda x: (x + 1, {f"name {number}" for number in range(20)}),
        lambda x: (x + 1, {(number, "a") for number in range(7)}),
        lambda x: (x + 1, {1024, 0, 2048} - {0}),
        lambda x: (x + 1, {"a": {8, 0}, "b": frozenset((16, 8, 0))}),
        filled_and_emptied,
    ],
)
def test_a_set_is_iterated_as_plain_python_does(function):
    def order(value):
        if isinstance(value, dict):
            return {key: order(item) for key, item in value.items()}
        # Elements added later find the same place.
        return list(value), list(value | {5, 6, 77, 1032})

    compiled = dynamlir.compile(function, backend="python")
    for _ in range(2):
        (seen, elements), (expected, plain) = compiled(A), function(A)
        assert_same(seen, expected)
        assert type(elements) is type(plain) and order(elements) == order(plain)


def test_inputs_are_written_in_place():
    def update(x, y):
        x.add_(y)
        return x

    ours, eager = A.clone(), A.clone()
    compiled = dynamlir.compile(update, fullgraph=True)
    assert compiled(ours, B) is ours
    update(eager, B)
    assert_same(ours, eager)
    assert ours._version == eager._version


# -- modules


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(2)])
        self.register_buffer("offset", torch.ones(8))

    def forward(self, x, scale=1.0):
        x = self.first(x).relu()
        for layer in self.layers:
            x = layer(x) + self.offset
        return x * scale


def test_a_compiled_module_is_the_module():
    net = Net().eval()
    compiled = dynamlir.compile(net, fullgraph=True)
    assert isinstance(compiled, Net) and compiled.state_dict().keys() == net.state_dict().keys()
    assert repr(compiled) == repr(net)
    assert_same(compiled(A), net(A))
    compiled.train()
    assert net.training
    net.eval()
    assert_same(compiled(A, scale=2.0), net(A, scale=2.0))


def test_what_a_module_changes_is_seen():
    net = Net().eval()
    compiled = dynamlir.compile(net, fullgraph=True)
    compiled(A)
    changes = [
        lambda: net.first.weight.mul_(2),
        lambda: setattr(net, "first", torch.nn.Linear(4, 8)),
        lambda: setattr(net.layers[0], "bias", None),
        lambda: net.layers.append(torch.nn.Linear(8, 8)),
        lambda: net.register_buffer("offset", torch.zeros(8)),
        lambda: net.first.register_forward_hook(lambda module, args, out: out + 1),
        lambda: setattr(net.layers[1], "forward", lambda x: x * 3),
    ]
    for change in changes:
        change()
        assert_same(compiled(A), net(A))


# -- what cannot be captured


def data_dependent(x):
    return x + 1 if x.sum() > 0 else x - 1


def prints(x):
    print("seen")
    return x + 1


class Counter:
    value = 0


def counts(x):
    Counter.value = 1
    return x + 1


def contents(x):
    return x * x.tolist()[0][1]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (data_dependent, "data-dependent-branch"),
        (prints, "print"),
        (counts, "side-effect"),
        (contents, "data-dependent"),
    ],
)
def test_a_frame_that_cannot_be_captured_is_plain_python(function, reason, capfd):
    compiled = dynamlir.compile(function)
    for _ in range(2):
        assert_same(compiled(A), function(A))
    assert reasons.counts() == {reason: 1}
    event = dynamlir.fallbacks()[0]
    assert event.location[0][0] == __file__
    with pytest.raises(dynamlir.Unsupported, match=reason):
        dynamlir.compile(function, fullgraph=True)(A)


def test_exceptions_are_the_functions_own():
    def fails(x):
        return x.reshape(5, 5)

    with pytest.raises(RuntimeError, match="shape"):
        dynamlir.compile(fails)(A)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        dynamlir.compile(reference)(A)


def test_decorators_in_the_frame():
    def function(x):
        def doubled(x):
            return x * 2

        @functools.wraps(doubled)
        def shifted(*args):
            return doubled(*args) + 1

        return shifted(x), shifted.__name__

    check(function, A)


def test_what_modules_lack_is_looked_for():
    """CPython 3.13 queries a module's specification in Python code before it reports a missing attribute."""
    module = types.ModuleType("made")
    module.__spec__ = importlib.machinery.ModuleSpec("made", None)
    seen = check(lambda x: x + hasattr(module, "scale") + getattr(math, "scale", 2), A)

    def catches(x):
        try:
            return x + module.scale
        except AttributeError:
            return x + 1

    also = check(catches, A)
    module.scale = 3
    torch.testing.assert_close(seen(A), A + 3)
    torch.testing.assert_close(also(A), A + 3)


def test_what_torch_says_to_a_handler_is_about_tensors_not_fakes(capfd):
    def fits(x):
        try:
            return x.mul_(torch.ones(2, 3, 4)), "fits"
        except RuntimeError as error:
            return x, str(error)

    compiled = dynamlir.compile(fits)
    assert compiled(A.clone())[1] == fits(A.clone())[1]
    assert reasons.counts() == {"raised": 1}
    # Torch's log does not mention fakes either.
    assert capfd.readouterr().err == ""


def test_modules_made_in_a_frame_after_torch_compile_was_used():
    """`torch.compile` patches `nn.Module.__init__` to register modules."""

    def makes(x):
        return torch.nn.Softplus()(x)

    torch.compile(lambda x: x + 1, backend="eager")(A)
    check(makes, A)


@pytest.mark.whole
def test_a_frame_given_up_in_a_handler_leaves_no_exception_behind():
    def gives_up(x):
        try:
            raise KeyError("handled")
        except KeyError:
            print(end="")
        return x

    dynamlir.compile(gives_up)(A)
    assert reasons.counts() == {"print": 1}
    assert sys.exception() is None


def test_too_many_specializations_end_in_plain_python():
    def scaled(x, n):
        return x * n

    compiled = dynamlir.compile(scaled, backend="python")
    with pytest.warns(UserWarning, match="entries"):
        for n in range(12):
            assert_same(compiled(A, n), scaled(A, n))
    assert len(compiled._cache) == 8
