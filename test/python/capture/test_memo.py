"""The recorder's memo: a recalled operation is recorded, and gives fakes, as if it had been run on them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import sampled
import torch
from dynamlir import memo, output_views
from dynamlir.fakes import Faker
from dynamlir.reasons import Fallback
from dynamlir.recorder import OpRecorder
from dynamlir.recording import Recording
from dynamlir.tracing import fresh_fake_mode, output_record, record
from torch import Tensor
from torch.utils import _pytree as pytree

TIMES = 2
"""The number of calls of each function in one recording: the first call fills the memo."""


def recorded(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], times: int = TIMES) -> Recording:
    """Some calls on the same fakes, in one recording; the tensors of the last result are its outputs."""
    recording = Recording("main")
    mode = fresh_fake_mode()
    faker = Faker(mode)
    recorder = OpRecorder(recording, faker)
    given, spec = pytree.tree_flatten((args, kwargs))
    leaves = [faker.fake(leaf) if isinstance(leaf, Tensor) else leaf for leaf in given]
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor):
            recorder.add_input(leaf, f"arg{at}")
    fake_args, fake_kwargs = pytree.tree_unflatten(leaves, spec)
    grad = torch.is_grad_enabled()
    try:
        with mode, recorder:
            for _ in range(times):
                result = call(*fake_args, **fake_kwargs)
    finally:
        torch.set_grad_enabled(grad)
    if recorder.failure is not None:
        raise recorder.failure
    results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
    recording.outputs = [output_record(leaf, recorder) for leaf in results]
    for output, base in zip(recording.outputs, output_views.bases(recorder, results)):
        output.base = base
    recorder.note_bumps()
    return recording


def outcome(call: Callable[..., Any], args: Any, kwargs: Any) -> Recording | str:
    """The recording, or the kind of the error."""
    try:
        return recorded(call, args, kwargs)
    except memo.Difference:
        raise
    except Fallback as failure:
        return f"{failure.reason}: {failure.message}"
    except Exception as error:
        return type(error).__name__


def hits(call: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """Compares recordings with and without the memo; returns the number of operations that it recalled."""
    with memo.disabled():
        slow = outcome(call, args, kwargs)
    fast = outcome(call, args, kwargs)
    assert repr(fast) == repr(slow)  # as text, since a NaN is not equal to itself
    with memo.checking():
        checked = outcome(call, args, kwargs)
        assert repr(checked) == repr(slow)
        return memo.Use.hits


X = torch.arange(12.0).reshape(3, 4)
FLAT = torch.arange(24.0)


def linear(x: Tensor) -> Tensor:
    return torch.nn.functional.linear(x, x, x[:, 0])


def test_what_was_met_is_recalled() -> None:
    # t, view or select, addmm: all except those of the first call.
    recording = recorded(linear, (X,), {})
    assert hits(linear, X) == len(recording.ops) * (TIMES - 1) // TIMES > 0


def views_of_views(x: Tensor) -> Tensor:
    return x.t()[1:].unsqueeze(0).expand(2, 3, 3)[1, :, 1]


def split(x: Tensor) -> Any:
    return x.split(2, 1), x.chunk(2), x.unbind(0), torch.stack([x[0], x[1]])


def strided(x: Tensor) -> Any:
    return x.as_strided((2, 2), (1, 2), 1), x.as_strided((2, 2), (1, 2), 1) + 1, x.expand(2, 3, 4) * 2


def in_place_after_view(x: Tensor) -> Any:
    y = x * 2
    row = y[0]
    row.add_(1)
    y.mul_(row)
    return y, row, y.view(-1)


def in_place_view(x: Tensor) -> Any:
    y = x * 2
    before = y + y.sum(0)
    y.t_()
    return before, y + y.sum(0, keepdim=True), y.t()


def shared_operands(x: Tensor) -> Any:
    return torch.broadcast_tensors(x, x[0]), torch.meshgrid(x[0], x[:, 0], indexing="ij"), x * x.view(3, 4)


def same_and_other_operand(x: Tensor) -> Any:
    y = x.clone()
    return x * x, x * y, y * y, torch.cat([x, x]), torch.cat([x, y])


def numbers(x: Tensor) -> Any:
    return x * True, x * 1, x * 1.0, x * -0.0, x * 0.0, x.sum(True), x.sum(1), x.sum(dim=[0, 1]), x.sum(dim=(0, 1))


def zero_dimensional(x: Tensor) -> Any:
    s = x.sum()
    return s + 1, x + s, s + x, s.view(1), s.expand(2, 2), x.double() + s, x[0, 0] * 2


def no_elements(x: Tensor) -> Any:
    e = x[:0]
    return e + 1, e.t(), torch.cat([e, x]), e.sum(0), e.as_strided((0, 2), (3, 1))


def out_variant(x: Tensor) -> Any:
    made = torch.empty(3, 4)
    torch.add(x, 1, out=made)
    return made, torch.mul(x, made, out=torch.empty(3, 4))


def random(x: Tensor) -> Any:
    return torch.rand_like(x), torch.bernoulli(x), torch.nn.functional.dropout(x, 0.5, True), torch.randn(2, 2)


def generator(x: Tensor) -> Any:
    return torch.bernoulli(x, generator=torch.Generator())


def complex_numbers(x: Tensor) -> Any:
    return torch.view_as_real(torch.complex(x, x)), x.to(torch.complex64)


def modes(x: Tensor) -> Any:
    with torch.no_grad():
        first = x * 2
    with torch.enable_grad():
        second = x * 2
    return first, second, torch.nn.functional.linear(x, x)


def autocast(x: Tensor) -> Any:
    first = x @ x.t()
    with torch.autocast("cpu", torch.bfloat16):
        second = x @ x.t()
        third = torch.nn.functional.layer_norm(second, (3,))
    return first, second, third, x @ x.t()


def default_dtype(x: Tensor) -> Any:
    before = torch.get_default_dtype()
    i = x.long()
    first = i / 2
    torch.set_default_dtype(torch.float64)
    try:
        return first, i / 2, i.sqrt(), torch.tensor(1.0) + i
    finally:
        torch.set_default_dtype(before)


def constants(x: Tensor) -> Any:
    three = torch.tensor(3)
    return x * three, x * (three + 1), torch.tensor([1.0, 2.0, 3.0, 4.0]) * x


def decisions_by_constants(x: Tensor) -> Any:
    two = torch.tensor(2)
    return x * int(two + two)


def detached(x: Tensor) -> Any:
    return x.detach(), x.detach().t(), x.detach() + 1, x.t().detach()[0], x.data


def several_results(x: Tensor) -> Any:
    norm = torch.nn.functional.layer_norm(x, (4,))
    return norm, torch.max(x, 1), torch.topk(x, 2), torch.sort(x), torch.native_layer_norm(x, [4], None, None, 1e-5)


def asked_contents(x: Tensor) -> Any:
    return x[x > 1], torch.nonzero(x)


def unsafe_views(x: Tensor) -> Any:
    weight = x.t().contiguous()
    batch = x.unsqueeze(0).expand(2, 3, 4)
    return torch.matmul(batch, weight), torch.matmul(batch, weight).view(-1), torch.ops.aten._unsafe_view(x, [12])


def unsafe_view_of_what_is_kept(x: Tensor) -> Any:
    y = x + 1
    first = torch.ops.aten._unsafe_view(y, [12])
    second = torch.ops.aten._unsafe_view(y, [12])
    return first, second


def conversions(x: Tensor) -> Any:
    return x.to(torch.float64), x.to(torch.float32), x.float(), x.half() + x, x.t().contiguous(), x.contiguous()


def questions(x: Tensor) -> Any:
    return x * x.numel() if x.t().is_contiguous() or x.is_floating_point() else x


TRAPS = [
    views_of_views, split, strided, in_place_after_view, in_place_view, shared_operands, same_and_other_operand,
    numbers, zero_dimensional, no_elements, out_variant, random, generator, complex_numbers, modes, autocast,
    default_dtype, constants, decisions_by_constants, detached, several_results, asked_contents, unsafe_views,
    unsafe_view_of_what_is_kept, conversions, questions,
]  # fmt: skip

INPUTS = {
    "plain": X,
    "transposed": torch.arange(12.0).reshape(4, 3).t(),
    "expanded": torch.arange(4.0).expand(3, 4),
    "view with an offset": FLAT[5:17].view(3, 4),
    "every other": FLAT.view(3, 8)[:, ::2],
    "parameter": torch.nn.Parameter(X.clone()),
    "one column": torch.arange(3.0)[:, None].expand(3, 4),
    "doubles": X.double(),
}


@pytest.mark.parametrize("shape", INPUTS)
@pytest.mark.parametrize("function", TRAPS, ids=lambda function: function.__name__)
def test_traps(function: Callable[[Tensor], Any], shape: str) -> None:
    with torch.no_grad():
        hits(function, INPUTS[shape])


def test_inputs_that_share_memory_and_those_that_do_not_have_records_of_their_own() -> None:
    def views(x: Tensor, y: Tensor, z: Tensor) -> Any:
        return [torch.broadcast_tensors(*pair) for pair in itertools.permutations((x, y, z), 2)]

    hits(views, FLAT[:4], FLAT[4:8], torch.arange(4.0))


def test_what_requires_a_gradient_is_told_from_the_same_without_one() -> None:
    def function(x: Tensor) -> Any:
        with torch.no_grad():
            first = x * 2
        return first, x * 2, first * 2, x * 2

    parameter = torch.nn.Parameter(X.clone())
    with torch.enable_grad():
        assert hits(function, parameter) == 5


def test_inference_mode() -> None:
    with torch.inference_mode():
        hits(linear, X)


def test_operators_of_others_and_those_that_draw_or_write_are_never_recalled() -> None:
    assert hits(lambda x: torch.bernoulli(x), X) == 0
    assert hits(lambda x: x.add_(1), X) == 0
    assert hits(lambda x, y: torch.add(x, 1, out=y), X, torch.empty(3, 4)) == 0


def test_a_copy_of_a_fake_is_the_constructors() -> None:
    """A fake created without the constructor of torch's class has everything that the constructor sets."""
    from dynamlir.fakes import made_fake
    from torch._subclasses.fake_tensor import FakeTensor

    mode = fresh_fake_mode()
    elem = torch.empty_strided((2, 3), (3, 1), device="meta")
    theirs, ours = FakeTensor(mode, elem, torch.device("cpu")), made_fake(mode, elem)
    assert vars(ours) == vars(theirs) and type(ours) is type(theirs)
    assert torch._C._dispatch_keys(ours) == torch._C._dispatch_keys(theirs)
    for fake in (ours, theirs):
        assert fake._version == 0 and fake.is_leaf and not fake._is_view() and not fake.requires_grad


@pytest.mark.parametrize("start", range(0, 240, 40))
def test_random_programs(start: int) -> None:
    import programs

    for seed in range(start, start + 40):
        program = programs.make(seed)
        given = copy.deepcopy(program.inputs)
        with torch.no_grad(), memo.checking():
            outcome(lambda *inputs, program=program: program.module.forward(*inputs), tuple(given), {})
            try:
                checked = record(program.module, given)
            except memo.Difference:
                raise
            except Exception:
                continue
        with torch.no_grad(), memo.disabled():
            slow = record(program.module, given)
        for field in ("ops", "inputs", "outputs", "metas"):
            assert getattr(checked, field) == getattr(slow, field)


def test_operators() -> None:
    """Takes a sample of every OpInfo, or of every fifth, and calls it twice in one recording."""
    import opinfo_runner

    recalled, step = 0, sampled.examples(5, 1)
    for op in itertools.islice(opinfo_runner.forward_ops(opinfo_runner.Samples()), 0, None, step):
        torch.manual_seed(0)
        for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 1):
            with torch.no_grad():
                try:
                    recalled += hits(op.op, sample.input, *sample.args, **sample.kwargs)
                except (AssertionError, memo.Difference) as error:
                    raise AssertionError(f"{opinfo_runner.op_name(op)}: {error}") from error
    assert recalled * step > 1000
