"""Equal layers: a call that was captured before with another module is repeated, with the same outcome as interpreting
it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import memo, native, repeated_layers
from dynamlir.capture import session, sharing
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

X = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def captured(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The complete outcome of a capture, and the classes of the modules whose calls were repeated in it."""
    frame = native.module().capture(sharing.caller(), (module, *args), kwargs)
    if isinstance(frame, tuple):
        return {"stop": frame[:2]}, []
    recording = frame.session.recording
    facts = {
        "graph": frame.text,
        "guards": frame.code_parts,
        "sources": frame.sources,
        "stage 00": recording.emit(native.module().TraceBuilder).text(),
        "operations": repr(recording.ops),
        "outputs": repr(recording.outputs),
        "bumps": [record.version_bumps for record in recording.inputs],
    }
    return facts, frame.session.repeated


def repeated(module: nn.Module, *args: Any, **kwargs: Any) -> list[str]:
    """Compares captures with and without repeated calls, and the module with eager; returns the repeated classes."""
    with memo.disabled():
        slow, none = captured(module, args, kwargs)
    fast, found = captured(module, args, kwargs)
    assert not none
    for name, value in slow.items():
        if fast[name] != value:  # not an assertion, which would compare thousands of lines
            pytest.fail(f"{name} differ")
    compiled = dynamlir.compile(module)
    for _ in range(2):
        results, wanted = compiled(*args, **kwargs), module(*args, **kwargs)
        torch.testing.assert_close(results, wanted)
        assert existing(results, module, args) == existing(wanted, module, args)
    return found


def existing(results: Any, module: nn.Module, args: tuple[Any, ...]) -> list[str | None]:
    """For each result, the existing tensor that it is, if any; equal values would not prove identity."""
    known = {id(arg): f"argument {at}" for at, arg in enumerate(args)}
    known |= {id(tensor): name for name, tensor in [*module.named_parameters(), *module.named_buffers()]}
    return [known.get(id(result)) for result in tree_flatten(results)[0]]


class Layer(nn.Module):
    """One of the layers below."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.scale = 2.0
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.linear(self.norm(x)).chunk(2, -1)
        return x + torch.cat([second, first], -1) * self.scale + self.shift


class Stack(nn.Module):
    """Layers, called one after the other."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def stack(kind: type[nn.Module] = Layer, count: int = 6) -> Stack:
    """A model of equal layers."""
    return Stack(*(kind() for _ in range(count))).eval()


def test_equal_layers_are_repeated() -> None:
    # The first is given the input, and the next two are captured as usual.
    assert repeated(stack(), X).count("Layer") == 3


def test_operations_of_equal_layers_are_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = []

    def watched(recorder: Any, span: repeated_layers.Span, *args: Any) -> Any:
        spans.append((len(span.events), repeated_layers.repeat(recorder, span, *args)))
        return spans[-1][1]

    monkeypatch.setattr(session, "repeat", watched)
    captured(stack(), (X,), {})
    assert len(spans) >= 3 and all(events and made is not None for events, made in spans)


def test_each_layer_is_guarded_as_if_it_had_been_interpreted() -> None:
    model = stack()
    compiled = dynamlir.compile(model)
    compiled(X)
    for at in range(6):
        model.layers[at].scale = 3.0 + at
        torch.testing.assert_close(compiled(X), model(X))
        model.layers[at].linear = nn.Linear(4, 4, bias=False)
        torch.testing.assert_close(compiled(X), model(X))


class Same(nn.Module):
    """Has its argument a second time, as a separate node."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.to(torch.float32)
        return self.linear(y), self.linear.weight.to(torch.float32)


class Sums(Stack):
    """Continues to use the argument of a layer."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            made, weight = layer(x)
            x = made + x + weight.sum()
        return x


def test_a_tensor_that_is_two_nodes() -> None:
    model = Sums(*(Same() for _ in range(6))).eval()
    assert repeated(model, X).count("Same") == 3


class Keeps(nn.Module):
    """Returns a weight, and a value computed from another argument."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.randn(3, 4))
        self.settings = {"scale": 2.0}

    def forward(self, x: Tensor, y: Any = None) -> tuple[Tensor, Tensor]:
        if isinstance(y, Tensor):
            return x.neg(), self.shift.neg()
        return x.neg() * (3 if y is self.settings else 2), self.shift


class Reads(Stack):
    """Reads a weight of the first layers before their calls, and passes a value to all."""

    def forward(self, x: Tensor) -> Any:
        x, found = (x * 1).view(3, 4), []
        s = sum(self.layers[at].shift.sum() for at in range(3))
        for layer in self.layers:
            x, shown = layer(x, self.passed())
            found.append(shown)
        return x + s, found

    def passed(self) -> Any:
        """An argument."""


class PassesWeight(Reads):
    def passed(self) -> Any:
        return self.layers[2].shift


class PassesFirst(Reads):
    def passed(self) -> Any:
        return self.layers[1].shift


class PassesSettings(Reads):
    def passed(self) -> Any:
        return self.layers[2].settings


@pytest.mark.parametrize("kind", [Reads, PassesWeight, PassesFirst, PassesSettings])
def test_what_belongs_to_the_pattern_is_not_that_of_the_others(kind: type[Reads]) -> None:
    # A layer's member that was read before, or passed as an argument, is known by the source that first reached it.
    repeated(kind(*(Keeps() for _ in range(6))).eval(), X)


class Listed(nn.Module):
    """Returns a list, which is not repeated, of the result of a module within it, which may be repeated."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.times = Times()
        self.at = at

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.times(x, self.at)]


class Times(nn.Module):
    """Its calls differ by a number."""

    def forward(self, x: Tensor, by: int) -> Tensor:
        return x * by


class Lists(Stack):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            (x,) = layer(x)
        return x


def test_calls_within_calls_that_are_never_repeated() -> None:
    assert repeated(Lists(*map(Listed, range(1, 6))).eval(), X) == []


def test_layers_of_layers() -> None:
    # The second block has repeated layers itself, and is repeated with them.
    found = repeated(stack(lambda: stack(count=4), 5), X)
    assert found.count("Stack") == 2 and found.count("Layer") == 9


def test_a_model_of_modules_within_modules() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    repeated(nn.TransformerEncoder(layer, 5, enable_nested_tensor=False).eval(), X[None])


def changed(change: Callable[[list[Any]], Any]) -> int:
    """The number of repeated layers if the fourth of six, or one near it, is different."""
    model = stack()
    change(model.layers)
    return repeated(model, X).count("Layer")


def tie(layers: list[Any]) -> None:
    layers[3].linear.weight = layers[0].linear.weight


def tie_within(layers: list[Any]) -> None:
    layers[3].norm.bias = layers[3].norm.weight


def share(layers: list[Any]) -> None:
    layers[3].norm = layers[1].norm


def other_number(layers: list[Any]) -> None:
    layers[3].scale = 2


def other_size(layers: list[Any]) -> None:
    layers[3].shift = torch.randn(1)


def no_bias(layers: list[Any]) -> None:
    layers[3].linear = nn.Linear(4, 4, bias=False)


def hook(layers: list[Any]) -> None:
    layers[3].linear.register_forward_hook(lambda module, args, result: result * 2)


def own_forward(layers: list[Any]) -> None:
    layers[3].forward = lambda x: x.relu()


def other_class(layers: list[Any]) -> None:
    class Other(nn.LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    layers[3].norm = Other(4)


def non_contiguous(layers: list[Any]) -> None:
    layers[3].linear.weight = nn.Parameter(torch.randn(4, 4).t())


def another_attribute(layers: list[Any]) -> None:
    layers[3].extra = 1


def views_of_one(layers: list[Any]) -> None:
    memory = torch.randn(8)
    layers[3].shift, layers[4].shift = memory[:4], memory[4:]


@pytest.mark.parametrize(
    "change",
    [tie, tie_within, share, other_number, other_size, no_bias, hook, own_forward, other_class, non_contiguous],
    ids=lambda change: change.__name__,
)
def test_a_layer_that_differs_is_interpreted(change: Callable[[list[Any]], Any]) -> None:
    assert changed(change) == 2


@pytest.mark.parametrize("change", [another_attribute, views_of_one], ids=lambda change: change.__name__)
def test_what_nobody_asks_makes_no_difference(change: Callable[[list[Any]], Any]) -> None:
    assert changed(change) == 3


def test_one_layer_called_again_and_again() -> None:
    layer = Layer()
    repeated(Stack(*[layer] * 5).eval(), X)
    repeated(Stack(layer, Layer(), layer, Layer(), Layer(), layer, Layer()).eval(), X)


class Pair(Layer):
    """Takes and returns several values."""

    def forward(self, x: Tensor, state: tuple[Tensor, int], *, mask: Tensor | None = None) -> Any:
        y = super().forward(x) + state[0] * state[1]
        return (y if mask is None else y.masked_fill(mask, 0.0)), (state[0], state[1])


class Pairs(Stack):
    """Passes tuples from layer to layer."""

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        state = (x * 2, 3)
        for layer in self.layers:
            x, state = layer(x, state, mask=mask)
        return x, state[0]


def test_arguments_in_tuples_and_by_name() -> None:
    assert repeated(Pairs(*(Pair() for _ in range(6))).eval(), X, X > 0).count("Pair") == 3


class Collected(Stack):
    """Passes its layers a list to write to."""

    def forward(self, x: Tensor) -> Any:
        seen: list[Tensor] = []
        for layer in self.layers:
            x = layer(x, seen)
        return x, seen


class Collecting(Layer):
    """Writes to its argument, a list."""

    def forward(self, x: Tensor, seen: list[Tensor]) -> Tensor:
        seen.append(x)
        return super().forward(x) * len(seen)


def test_what_the_frame_made_can_be_written() -> None:
    model = Collected(*(Collecting() for _ in range(5))).eval()
    # The modules within may be repeated, but not the layers: each sees the list with other contents.
    assert "Collecting" not in repeated(model, X)


class InPlace(Layer):
    """Writes to its argument."""

    def forward(self, x: Tensor) -> Tensor:
        x.add_(self.linear(x)).mul_(self.scale)
        return x


def test_writing_to_an_argument() -> None:
    class Copied(Stack):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.clone())

    assert "InPlace" not in repeated(Copied(*(InPlace() for _ in range(5))).eval(), X)  # versions differ


class Switching(Layer):
    """Changes state of the thread."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16), torch.enable_grad(), torch.no_grad():
            y = self.linear(x)
        return x + y.float()


def test_switches_of_the_thread_are_interpreted() -> None:
    repeated(stack(Switching), X)


class Showing(Layer):
    """Returns views: of its argument, of its result, of its weight."""

    def forward(self, x: Tensor) -> Any:
        y = super().forward(x)
        return y, y.t(), x.view(-1), self.linear.weight.t()


class Shown(Stack):
    """Writes to a view of each kind that a later layer returned, and returns another layer's."""

    def forward(self, x: Tensor) -> Any:
        y, seen = x, []
        for layer in self.layers:
            y, *views = layer(y * 1)
            seen.append((y, *views))
            seen[-1][2].add_(1)
        y.mul_(2)
        seen[4][1].mul_(2)
        return y, seen[3][:3], seen[4][:3], x


class Reading(Stack):
    """Writes to views of its argument."""

    def forward(self, x: Tensor) -> Any:
        views = [layer(x)[2] for layer in self.layers]
        views[4].add_(1)
        return views[3:]


@pytest.mark.parametrize("kind", [Shown, Reading])
def test_views_stay_views(kind: type[Stack]) -> None:
    """Writes to a view count as writes to its base, and results are views of the same tensors as in eager."""
    model = kind(*(Showing() for _ in range(6))).eval()
    with memo.disabled():
        slow, _ = captured(model, (X.clone(),), {})
    fast, found = captured(model, (X.clone(),), {})
    assert "Showing" in found and fast["bumps"] == slow["bumps"] and fast == slow

    def facts(function: Callable[[Tensor], Any]) -> tuple[list[Tensor], Any]:
        x = X.clone()
        leaves = torch.utils._pytree.tree_leaves(function(x))
        shown = [[leaf._base is other for other in [x, *leaves]] for leaf in leaves]
        return leaves, (x._version, [(leaf._version, leaf._is_view()) for leaf in leaves], shown)

    (values, ours), (expected, theirs) = facts(dynamlir.compile(model)), facts(model)
    torch.testing.assert_close(values, expected)
    assert ours == theirs


class Parting(Layer):
    """Returns parts of a tensor that is not returned itself."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x).chunk(2, -1)


def test_parts_of_a_hidden_tensor() -> None:
    class Parts(Stack):
        def forward(self, x: Tensor) -> Any:
            parts = []
            for layer in self.layers:
                first, second = layer(x)
                x = torch.cat([second, first], -1)
                parts += [first, second]
            parts[9].add_(1)
            return parts

    model = Parts(*(Parting() for _ in range(6))).eval()
    assert "Parting" in repeated(model, X)
    first, second = dynamlir.compile(model)(X)[8:10]
    assert first._base is second._base is not None and first._version == second._version == 1


class Detaching(Layer):
    """Returns a tensor that shares its argument's memory and is not a view of it."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x), x.detach()


def test_detached_tensors() -> None:
    class Detached(Stack):
        def forward(self, x: Tensor) -> Any:
            seen = []
            for layer in self.layers:
                x, detached = layer(x * 1)
                seen.append(detached)
            seen[4].add_(1)
            return x, seen

    repeated(Detached(*(Detaching() for _ in range(6))).eval(), X)


class Counting(Stack):
    """Sets an attribute of its layers while it runs."""

    def forward(self, x: Tensor) -> Tensor:
        for at, layer in enumerate(self.layers):
            if at == 3:
                layer.scale = 5.0
            x = layer(x)
            layer.scale = 2.0
        return x


def test_attributes_that_are_set_and_set_back() -> None:
    repeated(Counting(*(Layer() for _ in range(6))).eval(), X)


class Growing(Layer):
    """Returns results of another shape."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([super().forward(x), x])


def test_arguments_of_other_shapes_are_other_calls() -> None:
    assert not set(repeated(stack(Growing), X))


class Strided(Layer):
    """Reads more than shapes."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        if x.is_contiguous():
            y = y.t().contiguous().t()
        return y * (2 if x.stride(0) == 1 else 3)


def test_layouts_and_views_are_part_of_the_call() -> None:
    repeated(stack(Strided, 8), X)


def test_random_layers() -> None:
    model = Stack(*(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)) for _ in range(5)))
    with memo.disabled():
        slow, _ = captured(model, (X,), {})
    fast, _ = captured(model, (X,), {})
    assert fast == slow


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "vit", "albert", "regnety_004"])
def test_models(name: str) -> None:
    from suite import catalog

    with contextlib.suppress(ImportError):
        module, inputs = catalog.MODELS[name].make(1)
        with memo.disabled():
            slow, _ = captured(module, (), inputs)
        fast, found = captured(module, (), inputs)
        if fast != slow:
            pytest.fail("they differ")
        assert "stop" not in fast and found
