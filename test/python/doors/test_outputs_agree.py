"""The IR states what outputs are (values, objects, views and their bases, version counters, gradients, the random
state), so everything that runs it agrees: eager, both front doors, and a dumped stage that is loaded again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
import torch.fx
from both import DOORS
from dynamlir import _native
from dynamlir.tracing import record
from harness import clone_tree, differences, run
from torch import Tensor
from torch.utils import _pytree as pytree

# ---- programs


def view_of_input(x: Tensor) -> Any:
    return x.t(), x + 1


def view_of_fresh(x: Tensor) -> Any:
    y = x + 1
    return y[0], y, y.view(-1)


def detached(x: Tensor) -> Any:
    y = x * 2
    return y.detach(), y


def detached_input_beside_it(x: Tensor) -> Any:
    x.mul_(2)
    return x.detach(), x[0]


def detached_and_its_views(x: Tensor) -> Any:
    d = x.detach()
    return d.t(), d, d[0], x[0]


def data_of_fresh(x: Tensor) -> Any:
    y = x * 2
    return (y.data + 1), y[0]


def chunks(x: Tensor) -> Any:
    return x.chunk(2, 1), (x + 1).split(1), (x * 2).unbind(0)


def written_input(x: Tensor) -> Any:
    x.add_(1)
    x.mul_(2)
    return x * 3


def written_through_a_view(x: Tensor) -> Any:
    x[0].mul_(3)
    return x[1], x + 1


def written_through_detached(x: Tensor) -> Any:
    d = x.detach()
    d[0].mul_(3)
    return d[0], d


def the_same_twice(x: Tensor) -> Any:
    d = (x + 1).detach()
    return d, d, d[0]


def the_input_itself(x: Tensor) -> Any:
    x.add_(1)
    return x, x.view(-1)


def shape_changed_in_place(x: Tensor) -> Any:
    y = x + 1
    first = y[0]
    y.t_()
    return first, y, y[0]


def shape_of_a_view_changed(x: Tensor) -> Any:
    y = x[:1]
    y.unsqueeze_(0)
    return y, x + 1


def hidden_base_of_two(x: Tensor) -> Any:
    y = x + 1
    d = y.detach()
    return y, d[0], d[1], y[0]


def only_views(x: Tensor) -> Any:
    y = x * 2
    return y[0], y.t(), y[1]


def versions_of_fresh(x: Tensor) -> Any:
    y, z = x + 1, x * 2
    y.mul_(2).add_(1)
    z[0].add_(1)
    return y, z.view(-1), x - 1


def two_inputs(x: Tensor, y: Tensor) -> Any:
    y.add_(x)
    x[0].copy_(y[1])
    return x.t(), y.detach()


def dropped(x: Tensor) -> Any:
    y = torch.nn.functional.dropout(x, 0.5, training=True)
    return y, y[0]


PROGRAMS = [
    view_of_input,
    view_of_fresh,
    detached,
    detached_input_beside_it,
    detached_and_its_views,
    data_of_fresh,
    chunks,
    written_input,
    written_through_a_view,
    written_through_detached,
    the_same_twice,
    the_input_itself,
    shape_changed_in_place,
    shape_of_a_view_changed,
    hidden_base_of_two,
    only_views,
    versions_of_fresh,
    two_inputs,
    dropped,
]


# ---- doors


def inputs(fn: Callable[..., Any]) -> tuple[Tensor, ...]:
    return tuple(torch.arange(6.0).view(2, 3).clone() + at for at in range(len(inspect.signature(fn).parameters)))


MERGED = (the_same_twice, the_input_itself)
"""A capture of these returns an output once that the function returns twice, or leaves out an input that it returns."""


def dumped(fn: Callable[..., Any], folder: Path) -> list[Path]:
    """The stages to replay: the recording, the plan, the last one."""
    dynamlir.reset()
    if fn in MERGED:
        text = record(torch.fx.symbolic_trace(fn), inputs(fn)).emit(_native.TraceBuilder).text()
        source = folder / "recorded.mlir"
        source.write_text(text)
        dynamlir.load(source, dump=folder)
    else:
        # Random numbers are compared with eager's, as in `harness.run`.
        dynamlir.compile(fn, options={"dump": str(folder), "eager_random": True})(*inputs(fn))
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    stages = sorted(folder.glob("0*.mlir"))
    assert [stage.name[:2] for stage in stages[:5]] == ["00", "01", "02", "03", "04"]
    return [stages[0], stages[4], stages[-1]]


def loaded(fn: Callable[..., Any], stage: Path) -> Callable[..., Any]:
    """A stage as a function: it takes the arguments that the text names, and nests its outputs like the function."""
    executable = dynamlir.load(stage)
    entry = next(line for line in stage.read_text().split("\n") if "func.func @main" in line)
    names = [name.strip("L[']") for name in re.findall(r'dynamo\.name = "([^"]*)"', entry)]
    _, spec = pytree.tree_flatten(fn(*inputs(fn)))

    def call(*args: Tensor) -> Any:
        given = inspect.signature(fn).bind(*args).arguments
        return pytree.tree_unflatten(executable(*(given[name] for name in names)), spec)

    return call


def agree(fn: Callable[..., Any], other: Callable[..., Any], args: Any) -> list[str]:
    eager, ours = run(fn, clone_tree(args), {}), run(other, clone_tree(args), {})
    return differences(eager, ours)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_all_doors_agree(fn: Callable[..., Any], tmp_path: Path) -> None:
    with torch.no_grad():
        for name, door in DOORS.items():
            torch._dynamo.reset()
            dynamlir.reset()
            compiled = door(fn)
            for _ in range(2):
                assert not agree(fn, compiled, inputs(fn)), name
        for stage in dumped(fn, tmp_path):
            replayed = loaded(fn, stage)
            for _ in range(2):
                assert not agree(fn, replayed, inputs(fn)), stage.name


@pytest.mark.parametrize("fn", [dropped, hidden_base_of_two], ids=lambda fn: fn.__name__)
def test_in_inference_mode_too(fn: Callable[..., Any], tmp_path: Path) -> None:
    with torch.inference_mode():
        stages = dumped(fn, tmp_path)
        for stage in stages:
            assert not agree(fn, loaded(fn, stage), inputs(fn)), stage.name


def test_the_random_state_goes_on_alike(tmp_path: Path) -> None:
    """Later draws are those that follow eager's, since the numbers are eager's."""
    with torch.no_grad(), dynamlir.config.patch(eager_random=True):
        stages = dumped(dropped, tmp_path)
        for compiled in [*(door(dropped) for door in DOORS.values()), *(loaded(dropped, stage) for stage in stages)]:
            states = []
            for fn in (dropped, compiled):
                torch.manual_seed(3)
                fn(*inputs(dropped))
                states.append(torch.get_rng_state())
            assert torch.equal(*states)


# ---- what the text says


@pytest.mark.parametrize(
    ("fn", "bases"),
    [
        (view_of_input, None),
        (view_of_fresh, None),
        (only_views, None),
        (chunks, None),
        (written_input, None),
        (detached_input_beside_it, "[#dynamo.base<none>, unit]"),
        (hidden_base_of_two, "[unit, #dynamo.base<hidden 1>, #dynamo.base<hidden 1>, unit]"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_bases_are_said_where_the_runtime_would_make_others(
    fn: Callable[..., Any], bases: str | None, tmp_path: Path
) -> None:
    with torch.no_grad():
        dumped(fn, tmp_path)
    assert "dynamo.bases = [" in (tmp_path / "00-aten.mlir").read_text()
    for name in ("01-functional", "04-planned"):
        found = re.search(r"dynamo\.bases = (\[[^\]]*\])", (tmp_path / f"{name}.mlir").read_text())
        assert (found[1] if found else None) == bases


# ---- what fails


def draws_and_indexes(x: Tensor, at: Tensor) -> Any:
    return torch.rand(3), x[at]


@pytest.mark.parametrize("eager_random", [False, True])
def test_a_failure_before_the_commit_puts_the_random_state_back(tmp_path: Path, eager_random: bool) -> None:
    good, bad = torch.tensor([0, 1]), torch.tensor([0, 9])
    with torch.no_grad():
        options = {"dump": str(tmp_path), "eager_random": eager_random}
        dynamlir.compile(draws_and_indexes, options=options)(torch.ones(4), good)
        assert not dynamlir.counters()["fallbacks"]
        for stage in (tmp_path / "00-aten.mlir", tmp_path / "04-planned.mlir"):
            graph = dynamlir.load(stage)
            torch.manual_seed(7)
            state = torch.get_rng_state()
            with pytest.raises(_native.RunError, match="9"):
                graph(torch.ones(4), bad)
            assert torch.equal(torch.get_rng_state(), state)
            drawn, _ = graph(torch.ones(4), good)
            torch.manual_seed(7)
            assert torch.equal(drawn, torch.rand(3) if eager_random else graph(torch.ones(4), good)[0])


# Draws numbers, then fails after it has announced its write.
FAILS_LATE = """
module {
  func.func @main(%p: memref<4xf32>, %i: memref<1xi64>) -> (memref<4xf32>, memref<1xf32>)
      attributes {dynamo.entry, dynamo.random, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
    %0 = dynamo.extern dispatcher "aten.bernoulli.default"(%p) args [#dynamo.operand<0>, unit]
      : (memref<4xf32>) -> (memref<4xf32>)
    dynamo.commit
    %1 = dynamo.extern dispatcher "aten.index_select.default"(%p, %i) args [#dynamo.operand<0>, 0, #dynamo.operand<1>]
      : (memref<4xf32>, memref<1xi64>) -> (memref<1xf32>)
    return %0, %1 : memref<4xf32>, memref<1xf32>
  }
}
"""


def test_a_failure_after_the_commit_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "04-planned.mlir"
    path.write_text(FAILS_LATE)
    graph = dynamlir.load(path)
    probabilities = torch.full((4,), 0.5)
    torch.manual_seed(7)
    probabilities.bernoulli()
    after = torch.get_rng_state()
    for index in (3, 9):
        torch.manual_seed(7)
        if index < 4:
            graph(probabilities, torch.tensor([index]))
        else:
            with pytest.raises(_native.WrittenError, match="index out of range"):
                graph(probabilities, torch.tensor([index]))
        assert torch.equal(torch.get_rng_state(), after)


# ---- texts written by hand

WRITES = """
func.func @main(%x: !dynamo.tensor<4xf32, [1]> {dynamo.name = "x", dynamo.version_bumps = 3, GRAD})
    -> (!dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2xf32, [1]>)
    attributes {dynamo.entry, dynamo.versions = array<i64: 0, 0>,
                dynamo.bases = [#dynamo.base<none>, #dynamo.base<arg 0>]} {
  %0 = dynamo.aten "aten.relu_.default"(%x) args [#dynamo.operand<0>] {aliases = array<i64: 0>, mutates = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<4xf32, [1]>
  %1 = dynamo.aten "aten.slice.Tensor"(%x) args [#dynamo.operand<0>, 0, 0, 2, 1] {aliases = array<i64: 0>}
    : (!dynamo.tensor<4xf32, [1]>) -> !dynamo.tensor<2xf32, [1]>
  return %0, %1 : !dynamo.tensor<4xf32, [1]>, !dynamo.tensor<2xf32, [1]>
}
"""


def by_hand(folder: Path, text: str) -> _native.Executable:
    path = folder / "00-aten.mlir"
    path.write_text(text)
    return dynamlir.load(path)


def test_an_argument_that_wants_a_gradient_is_run_without(tmp_path: Path) -> None:
    """Its views then have no history, as under ``torch.no_grad()``; without the attribute in the text it is refused."""
    x = torch.tensor([-1.0, 1.0, -2.0, 2.0], requires_grad=True)
    with pytest.raises(_native.Unfit, match="input 0 requires a gradient"):
        by_hand(tmp_path, WRITES.replace(", GRAD", ""))(x)
    assert x.tolist() == [-1, 1, -2, 2] and x._version == 0
    whole, part = by_hand(tmp_path, WRITES.replace(", GRAD", ", dynamo.requires_grad"))(x)
    assert whole is x and part._base is x and x._version == part._version == 3
    assert part.grad_fn is None and torch.is_grad_enabled()
    assert x.tolist() == [0, 1, 0, 2]


def test_what_may_not_be_written_is_refused_before_it_is(tmp_path: Path) -> None:
    """A tensor from inference mode has no version counter and cannot be written outside of it."""
    graph = by_hand(tmp_path, WRITES.replace(", GRAD", ""))
    with torch.inference_mode():
        x = -torch.ones(4)
    with pytest.raises(_native.RunError, match="inference"):
        graph(x)
    assert x.tolist() == [-1] * 4
    with torch.inference_mode():
        graph(x)
        assert x.tolist() == [0] * 4


def test_the_same_tensor_twice_is_counted_once(tmp_path: Path) -> None:
    def fn(x: Tensor, y: Tensor) -> Any:
        x.add_(1)
        return y * 2

    with torch.no_grad():
        for door in DOORS.values():
            dynamlir.reset()
            torch._dynamo.reset()
            compiled = door(fn)
            for make in (lambda x: (x, x), lambda x: (x, x[:]), lambda x: (x, x.detach())):
                assert not agree(fn, compiled, make(torch.ones(2, 3)))
                ours = torch.ones(2, 3)
                compiled(*make(ours))
                assert ours._version == 1


# The dialect's verifier checks what it can, the plan's verifier the rest.
@pytest.mark.parametrize(
    ("bases", "message"),
    [
        ("[#dynamo.base<none>, #dynamo.base<arg 7>]", "names nothing: there are 2 arguments"),
        ("[#dynamo.base<none>, #dynamo.base<output 1>]", "is the output itself"),
        ("[unit, #dynamo.base<output 0>]", "output 0 is a view itself"),
        ("[unit, #dynamo.base<arg 1>]", "it shows other memory than the output"),
        ("[#dynamo.base<none>]", "one for each output"),
    ],
)
def test_bases_that_cannot_be_made(bases: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "04-planned.mlir"
    path.write_text(f"""
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {{dynamo.entry, dynamo.bases = {bases},
    dynamo.outputs = [#dynamo.output<arg_view 0, [4], [1], 0>, #dynamo.output<arg_view 0, [2], [1], 0>]}} {{
  return
}}""")
    with pytest.raises(ValueError, match=re.escape(message)):
        dynamlir.load(path)
