"""Compiled functions and modules are copied, pickled, inspected and traced like the originals."""

from __future__ import annotations

import copy
import inspect
import io
import os
import pickle
import types
import typing

import dynamlir
import forked
import pytest
import torch
from torch import nn

X = torch.randn(3, 2)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    dynamlir.reset()
    with torch.no_grad():
        yield


def scaled(x: torch.Tensor, by: float = 2.0, *, plus: int = 1) -> torch.Tensor:
    """Scales."""
    return x * by + plus


scaled.note = "kept"


@dynamlir.compile
def named(x):
    return x.sin() + 1


shifted = dynamlir.compile(scaled, fullgraph=True)


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x):
        return x * self.by


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.extra = 3

    def forward(self, x):
        return self.inner(x).relu()


def test_a_method_of_a_copied_module_is_the_copys():
    module = nn.Linear(2, 2)
    module.forward = dynamlir.compile(module.forward, fullgraph=True)
    module(X)
    other = copy.deepcopy(module)
    other.weight.zero_()
    other.bias.fill_(7)
    assert torch.equal(other(X), torch.full((3, 2), 7.0))
    assert not torch.equal(module(X), other(X))
    assert "fullgraph': True" in str(other.forward._dynamlir_asked)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_function_is_its_own_copy(copied):
    assert copied(scaled) is scaled
    assert copied(shifted) is shifted
    assert copied([named])[0] is named


def test_an_object_that_is_called_is_copied():
    compiled = dynamlir.compile(Scale(2.0))
    other = copy.deepcopy(compiled)
    other.__wrapped__.by = 5.0
    assert torch.equal(compiled(X), X * 2)
    assert torch.equal(other(X), X * 5)


def test_a_function_that_its_name_leads_to_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(named)) is named


def test_another_function_is_pickled_with_how_it_was_compiled():
    again = pickle.loads(pickle.dumps(shifted))
    assert again is not shifted
    assert again.__wrapped__ is scaled
    assert torch.equal(again(X), scaled(X))
    assert again._dynamlir_asked == shifted._dynamlir_asked


def test_what_cannot_be_pickled_says_so():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(dynamlir.compile(lambda x: x))


@pytest.mark.parametrize("backend", ["dynamlir", "eager", scaled])
def test_modules_are_copied_and_pickled(backend):
    module = Model()
    compiled = dynamlir.compile(module, backend=backend if isinstance(backend, str) else _eager)
    expected = module(X)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.allclose(other(X), expected)
        other.inner.weight.zero_()
        other.inner.bias.fill_(-1)
        assert torch.equal(other(X), torch.zeros(3, 2))
        assert torch.allclose(compiled(X), expected)


def _eager(gm, inputs):
    return gm.forward


def test_modules_keep_their_state_and_attributes():
    module = Model()
    compiled = dynamlir.compile(module)
    assert list(compiled.state_dict()) == list(module.state_dict())
    assert isinstance(compiled, Model)
    assert compiled.extra == 3
    compiled.extra = 4
    assert module.extra == 4
    file = io.BytesIO()
    torch.save(compiled.state_dict(), file)
    file.seek(0)
    other = Model()
    other.load_state_dict(torch.load(file))
    assert torch.allclose(other(X), compiled(X))
    with pytest.raises(AttributeError, match="missing"):
        _ = compiled.missing


@pytest.mark.parametrize("compiled", [shifted, torch.compile(scaled)], ids=["own", "torch.compile"])
def test_functions_are_looked_at_as_what_was_compiled(compiled):
    assert isinstance(compiled, types.FunctionType)
    assert inspect.isfunction(compiled)
    assert inspect.signature(compiled) == inspect.signature(scaled)
    assert inspect.getsource(compiled) == inspect.getsource(scaled)
    assert inspect.getdoc(compiled) == "Scales."
    assert compiled.__name__ == "scaled"
    assert compiled.note == "kept"
    assert typing.get_type_hints(compiled) == typing.get_type_hints(scaled)
    assert inspect.unwrap(compiled) is scaled


def test_a_function_has_the_parts_of_what_was_compiled():
    for part in ("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__"):
        assert getattr(shifted, part) is getattr(scaled, part)
    assert not isinstance(dynamlir.compile(Scale(1.0)), types.FunctionType)


def test_what_is_set_is_set_on_what_was_compiled(monkeypatch):
    monkeypatch.setattr(scaled, "__defaults__", scaled.__defaults__)
    shifted.__defaults__ = (5.0,)
    assert scaled.__defaults__ == (5.0,)
    assert torch.equal(shifted(X), X * 5 + 1)
    with pytest.raises(AttributeError):
        shifted.__globals__ = {}


def test_fx_traces_through():
    with torch._dynamo.config.patch(error_on_nested_fx_trace=False):
        assert torch.fx.symbolic_trace(named).code == torch.fx.symbolic_trace(named.__wrapped__).code
        traced = torch.fx.symbolic_trace(Wrapper())
    assert torch.allclose(traced(X), X.sin() + 2)


class Wrapper(nn.Module):
    def forward(self, x):
        return named(x) + 1


def test_dynamo_goes_on_through_it():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    compiled = torch.compile(lambda x: named(x) * 2, backend=backend, fullgraph=True)
    assert torch.equal(compiled(X), (X.sin() + 1) * 2)
    assert len(graphs) == 1


# -- torch's switches for the whole process


def told(variable: str | None, program: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TORCH")}
    if variable:
        environment[variable] = "1"
    head = "import torch, dynamlir\nf = lambda x: x + torch.compiler.is_compiling()\nx = torch.zeros(1)\n"
    done = forked.python(head + program, env=environment, only_torch=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROGRAM = "print(dynamlir.compile(f, fullgraph=True)(x).item(), dynamlir.counters()['fallbacks'])"


@pytest.mark.parametrize("variable", [None, "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
@pytest.mark.parametrize("imported", ["", "import torch._dynamo\n"])
def test_environment(variable, imported):
    assert told(variable, imported + PROGRAM) == ("0.0 {}" if variable else "1.0 {}")


def test_the_setting_holds_for_calls_that_would_compile():
    compiled = dynamlir.compile(lambda x: x + torch.compiler.is_compiling(), fullgraph=True)
    with torch._dynamo.config.patch(disable=True):
        assert torch.equal(compiled(X), X)
        assert len(compiled._cache) == 0
    assert torch.equal(compiled(X), X + 1)
    assert not dynamlir.fallbacks()
