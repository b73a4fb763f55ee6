"""Every rule of `dynamo-autodiff` against torch's autograd, on the calls that torch itself dispatches.

A case is a function of tensors. Its dispatched calls are recorded, differentiated and run. Outputs and gradients must
be eager's, and the same arguments must have gradients. The last test checks that every rule has a case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from differentiated import Program, joint, opt, seeded
from dynamlir import _native
from gradient_cases import CASES, COMPOSITES, F64, Case, made
from sampled import one_in
from torch import Tensor


def compare(found: Tensor | None, expected: Tensor | None, what: str, tolerance: float) -> None:
    """Checks that both have the same type and value, or that both are missing."""
    assert (found is None) == (expected is None), f"{what}: {found} and not {expected}"
    if found is not None and expected is not None:
        torch.testing.assert_close(
            found, expected, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text: f"{what}: {text}"
        )


def check(case: Case, dtype: torch.dtype = F64, tolerance: float = 1e-9) -> dict[int, Tensor]:
    inputs = made(case.inputs, dtype)
    copies = [tensor.detach() if 0 in tensor.stride() else tensor.detach().clone() for tensor in inputs]
    torch.manual_seed(7)
    program = Program(case.function, inputs)
    compiled = joint(program)
    # Each differentiable output here is a separate result, a view of one, or an argument.
    fresh = [at for at in program.differentiable if not any(program.outputs[at] is tensor for tensor in inputs)]
    seeds = {at: seeded(program.outputs[at].detach(), at) for at in program.differentiable}
    assert len(compiled.tangents) == len(fresh)
    torch.manual_seed(7)
    arguments = [*copies, *(tensor.detach() for tensor in program.arguments[len(copies) :])]
    shown = [(program.outputs[at].detach(), seeds[at]) for at in fresh]
    tangents = [tangent_of(*pair, result) for pair, result in zip(shown, compiled.tangents, strict=True)]
    outputs, found = compiled(arguments, tangents)
    gradients = dict(zip(compiled.gradients, found, strict=True))
    for at, (found, expected) in enumerate(zip(outputs, program.outputs, strict=True)):
        compare(found.detach(), expected.detach(), f"output {at}", tolerance)
    wanted = [at for at, tensor in enumerate(inputs) if tensor.requires_grad]
    # The tangent of an input that is returned unchanged is added outside.
    taken = [program.outputs[at] for at in fresh]
    expected = torch.autograd.grad(taken, [inputs[at] for at in wanted], [seeds[at] for at in fresh], allow_unused=True)
    for at, gradient in zip(wanted, expected, strict=True):
        compare(gradients.get(at), gradient, f"gradient {at}", tolerance)
    return gradients


def tangent_of(output: Tensor, seed: Tensor, result: tuple[int, list[int], list[int]]) -> Tensor:
    """The tangent of a result of which an output shows a part, or all of it with other sizes."""
    _, sizes, strides = result
    whole = torch.empty_strided(sizes, strides, dtype=seed.dtype).zero_()
    whole.as_strided(output.shape, output.stride(), output.storage_offset()).copy_(seed)
    return whole


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rule(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "name", ["mlp", "layer_norm", "softmax", "conv2d", "add broadcast", "pow 2", "var", "gelu", "attention"]
)
def test_single_precision(name: str) -> None:
    check(case_of(name), torch.float32, 2e-5)


@pytest.mark.parametrize(
    "name", ["mlp", "softmax", "add broadcast", "mul", "expand", "gelu", "cat", "layer_norm", "var"]
)
def test_half_precision(name: str) -> None:
    check(case_of(name), torch.bfloat16, 5e-2)


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def transposed(*shape: int) -> Callable[[torch.dtype], Tensor]:
    return lambda dtype: torch.randn(shape, dtype=F64).to(dtype).t().requires_grad_()


def expanded(*shape: int) -> Callable[[torch.dtype], Tensor]:
    return lambda dtype: torch.randn((1, shape[-1]), dtype=F64).to(dtype).expand(shape).requires_grad_()


@pytest.mark.parametrize("name", ["mm", "exp", "softmax", "mul square", "t", "sum"])
def test_gradients_lie_as_the_arguments_do(name: str) -> None:
    """The layout that autograd uses for accumulation: row-major where the argument is not contiguous."""
    case = case_of(name)
    for gradient in check(case._replace(inputs=tuple(transposed(3, 3) for _ in case.inputs))).values():
        assert gradient.stride() == (1, 3)
    for gradient in check(case._replace(inputs=tuple(expanded(3, 3) for _ in case.inputs))).values():
        assert gradient.stride() == (3, 1)


@pytest.mark.parametrize(("operator", "inputs"), COMPOSITES, ids=[str(operator) for operator, _ in COMPOSITES])
def test_composite(operator: Any, inputs: tuple[Any, ...]) -> None:
    """Here torch's gradient is that of the operations that the composite consists of."""
    arguments = made(inputs, F64)
    program = Program(operator, arguments)
    compiled = joint(program)
    seed = seeded(program.outputs[0].detach(), 1)
    _, found = compiled([tensor.detach() for tensor in program.inputs], [seed])
    wanted = [tensor for tensor in program.inputs if tensor.requires_grad]
    expected = torch.autograd.grad(program.outputs, wanted, [seed])
    torch.testing.assert_close(tuple(found), expected)


# Torch has a second derivative of these, but the rules do not: they fall back to eager.
ONCE = {
    "hardswish",
    "hardsigmoid",
    "softplus",
    "elu",
    "log_sigmoid",
    "gelu tanh",
    "lgamma",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "nll_loss2d",
    "max_pool2d",
}
FAMILIES = ("layer_norm", "group_norm", "batch_norm", "_native_batch_norm", "conv", "attention")


def is_once(case: Case) -> bool:
    return case.name in ONCE or case.name.startswith(FAMILIES)


@pytest.mark.parametrize("case", one_in(3, CASES), ids=lambda case: case.name)
def test_twice(case: Case) -> None:
    inputs = made(case.inputs, F64)
    copies = [tensor.detach() if 0 in tensor.stride() else tensor.detach().clone() for tensor in inputs]
    torch.manual_seed(7)
    program = Program(case.function, inputs)
    once = joint(program)
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    fresh = [at for at in program.differentiable if not any(program.outputs[at] is tensor for tensor in inputs)]
    seeds = [seeded(program.outputs[at].detach(), at).requires_grad_() for at in fresh]
    if is_once(case):
        with pytest.raises(AssertionError, match="no derivative of"):
            joint(program, again=True)
        return
    first = torch.autograd.grad(
        [program.outputs[at] for at in fresh], wanted, seeds, allow_unused=True, create_graph=True
    )
    twice = joint(program, again=True)
    shown = [program.outputs[at].detach() for at in fresh]
    tangents = [tangent_of(o, s.detach(), r) for o, s, r in zip(shown, seeds, twice.tangents, strict=False)]
    places = {argument: at for at, argument in enumerate(once.gradients)}
    order = [at for at, tensor in enumerate(inputs) if tensor.requires_grad]
    pairs = [
        (g, seeded(g.detach().clone(memory_format=torch.contiguous_format), 50 + at))
        for at, g in zip(order, first, strict=True)
        if g is not None
    ]
    more = [
        seeded(torch.empty_strided(sizes, strides, dtype=F64), 0) for _, sizes, strides in twice.tangents[len(fresh) :]
    ]
    listed = [at for at, g in zip(order, first, strict=True) if g is not None]
    for (_, seed), argument in zip(pairs, listed, strict=True):
        more[places[argument]].copy_(seed)
    torch.manual_seed(7)
    arguments = [*copies, *(tensor.detach() for tensor in program.arguments[len(copies) :])]
    _, found = twice(arguments, [*tangents, *more])
    count = len(once.gradients)
    tolerance = 1e-6 if "aten._to_copy.default" in program.schemas else 1e-8
    seconds = dict(zip(twice.gradients[count:], found[count:], strict=True))
    pairs = [(g, seed) for g, seed in pairs if g.requires_grad]
    sources = [*wanted, *seeds]
    if pairs:
        expected = torch.autograd.grad([g for g, _ in pairs], sources, [seed for _, seed in pairs], allow_unused=True)
    else:
        expected = (None,) * len(sources)
    indices = [*order, *(len(program.arguments) + at for at in range(len(seeds)))]
    for index, source, gradient in zip(indices, sources, expected, strict=True):
        ours = seconds.get(index)
        # A missing gradient and a gradient of zeros are equivalent here.
        ours = torch.zeros_like(source) if ours is None else ours
        if ours.shape == source.shape:
            compare(ours, torch.zeros_like(source) if gradient is None else gradient, f"argument {index}", tolerance)


def test_no_rule_is_without_a_case() -> None:
    seen = {str(operator).replace("aten::", "aten.") for operator, _ in COMPOSITES}
    programs = [Program(case.function, made(case.inputs, F64)) for case in CASES]
    for program in programs:
        seen |= set(program.schemas)
    differentiable = [program.text for program in programs if program.differentiable]
    # Separated as `--split-input-file` requires: the pass takes less time per program than starting a process would.
    text = opt("\n// -----\n".join(differentiable), "--split-input-file", "--dynamo-functionalize", "--dynamo-autodiff")
    assert text.count("func.func @main(") == len(differentiable)
    seen |= set(re.findall(r'dynamo\.aten "([^"]*)"', text))
    assert _native.rust_rules() - seen == set()
