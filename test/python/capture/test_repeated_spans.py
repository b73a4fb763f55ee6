"""`dynamlir.repeated_layers`: spans that are recorded again without being dispatched, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamlir import memo
from dynamlir.fakes import Faker
from dynamlir.recorder import OpRecorder
from dynamlir.recording import Recording
from dynamlir.repeated_layers import Span, repeat
from dynamlir.tracing import fresh_fake_mode
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes


class Recorded:
    """A function that was recorded on ``x`` and on the weight ``w``, which it reads on the way."""

    def __init__(self, function: Callable[[Tensor, Tensor], Any], x: Tensor, w: Tensor) -> None:
        mode = fresh_fake_mode()
        self.faker = Faker(mode)
        self.recorder = OpRecorder(Recording("test"), self.faker)
        self.function = function
        self.x = self.add(x, "x")
        with torch.no_grad(), mode, self.recorder:
            self.out = function(self.x, self.add(w, "w"))
        self.w = self.faker.known(w)
        self.ops = range(len(self.recorder.recording.ops))

    def add(self, real: Tensor, name: str) -> Tensor:
        with _disable_current_modes():
            fake = self.faker.fake(real)
            self.recorder.add_input(fake, name)
            return fake

    def again(self, x: Tensor, w: Tensor, wanted: list[Tensor] | None = None) -> Any:
        """Records the span again on another argument, a fake, and another weight, a real tensor."""
        before = len(self.recorder.recording.ops), len(self.recorder.recording.inputs)
        span = Span.of(self.recorder, self.ops, [self.w], [self.x], [self.out] if wanted is None else wanted)
        made = None if span is None else repeat(self.recorder, span, [(w, "other")], [x], self.add)
        if made is None:  # nothing was done
            assert before == (len(self.recorder.recording.ops), len(self.recorder.recording.inputs))
        return made

    def interpreted(self, x: Tensor, w: Tensor) -> OpRecorder:
        """The recorder of the same calls, each dispatched."""
        with memo.disabled():
            other = Recorded(self.function, self.reals[0], self.reals[1])
            with torch.no_grad(), other.faker.mode, other.recorder:
                other.function(other.add(x, "x2"), other.add(w, "other"))
        return other.recorder

    reals: tuple[Tensor, Tensor]


def recorded(function: Callable[[Tensor, Tensor], Any], x: Tensor | None = None, w: Tensor | None = None) -> Recorded:
    """A recording on tensors of 3×4 and 4×4."""
    x = torch.ones(3, 4) if x is None else x
    w = torch.ones(4, 4) if w is None else w
    made = Recorded(function, x, w)
    made.reals = (x, w)
    return made


def layer(x: Tensor, w: Tensor) -> Tensor:
    """Views, lists, several results."""
    first, second = (x @ w).split(2, 1)
    return torch.cat([second, first, x], 1).t().relu()


@pytest.mark.parametrize(
    "function",
    [
        layer,
        torch.mm,
        lambda x, w: torch.nn.functional.linear(x[None], w)[0],
        lambda x, w: torch.nn.functional.scaled_dot_product_attention(x[None, None], w[None, None], w[None, None]),
        lambda x, w: torch.where(x > 0, (x @ w).softmax(-1), torch.scalar_tensor(2.0)),
    ],
)
def test_the_same_is_recorded_as_if_it_had_been_dispatched(function: Callable[[Tensor, Tensor], Any]) -> None:
    case = recorded(function)
    x, w = torch.zeros(3, 4), torch.zeros(4, 4)
    inputs, outputs = case.again(case.add(x, "x2"), w)
    slow = case.interpreted(x, w).recording
    fast = case.recorder.recording
    assert repr(fast.ops) == repr(slow.ops)
    assert repr(fast.inputs) == repr(slow.inputs)
    assert fast.metas == slow.metas
    assert inputs == [case.faker.known(w)]
    assert outputs[0].shape == case.out.shape and outputs[0] is not case.out


def test_fakes_are_made_of_what_is_wanted_and_no_more() -> None:
    case = recorded(layer)
    x = case.add(torch.zeros(3, 4), "x2")
    before = len(case.recorder._alive)
    _, (out,) = case.again(x, torch.zeros(4, 4))
    assert len(case.recorder._alive) == before + 1 and case.recorder._alive[-1] is out


def test_what_a_wanted_value_shows_is_made_as_well() -> None:
    case = recorded(lambda x, w: (x @ w).view(12)[2:].relu().view(5, 2)[1:])
    _, (out,) = case.again(case.add(torch.zeros(3, 4), "x2"), torch.zeros(4, 4))
    assert out._base.shape == (10,) and out.storage_offset() == 2
    assert case.recorder.number(out._base) is not None


def test_views_that_nobody_sees_are_counted() -> None:
    # Memory can be seen from elsewhere depending on the number of values that show it.
    case = recorded(lambda x, w: x.t().unsqueeze(0) + (x @ w).t().unsqueeze(0))
    x = case.add(torch.zeros(3, 4), "x2")
    case.again(x, torch.zeros(4, 4))
    shown = [case.recorder.shown.of(fake.untyped_storage()._cdata) for fake in (case.x, x)]
    assert shown == [3, 3]


def test_a_view_becomes_a_view_of_the_same() -> None:
    case = recorded(lambda x, w: (x.t(), w[0], (x @ w).view(-1), (x @ w).t().t()))
    x, w, seen = case.add(torch.zeros(3, 4), "x2"), torch.zeros(4, 4), list(case.out)
    inputs, made = case.again(x, w, wanted=seen)
    assert made[0]._base is x and made[1]._base is inputs[0]
    assert all(new._is_view() and new._base is not old._base for new, old in zip(made, seen))
    with torch.no_grad(), case.faker.mode, case.recorder:
        made[0].add_(1)
        made[1].add_(1)
    # A write to a view counts as a write to its base.
    assert x._version == 1 and inputs[0]._version == 1 and case.x._version == 0


def test_a_view_that_its_argument_is_already() -> None:
    whole = torch.zeros(12)
    case = recorded(lambda x, w: (x * 1).view(-1).view(3, 4).t())
    made = case.again(case.add(whole.view(3, 4), "x2"), torch.ones(4, 4), wanted=[case.out])[1][0]
    assert made._is_view() and made._base.shape == (3, 4)


def test_what_shows_memory_and_is_no_view_is_refused() -> None:
    case = recorded(lambda x, w: x.detach())
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4)) is None
    case = recorded(lambda x, w: x.detach().view(-1))
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4)) is None


def refuses(case: Recorded, x: Tensor, w: Tensor) -> bool:
    """Returns true if the span is refused on these tensors; it must be recorded on tensors like the first ones."""
    refused = case.again(case.add(x, "x2"), w) is None
    assert case.again(case.add(torch.ones(3, 4), "x3"), torch.ones(4, 4)) is not None
    return refused


def test_other_looks_are_refused() -> None:
    case = recorded(torch.mm)
    assert refuses(case, torch.ones(2, 4), torch.ones(4, 4))
    assert refuses(case, torch.ones(3, 4), torch.ones(4, 5))
    assert refuses(case, torch.ones(4, 3).t(), torch.ones(4, 4))
    assert refuses(case, torch.ones(3, 4).double(), torch.ones(4, 4).double())
    assert refuses(case, torch.ones(3, 4), torch.ones(20)[4:].view(4, 4))
    assert refuses(case, torch.ones(3, 4), torch.ones(4, 4, requires_grad=True))


def test_memory_is_shared_as_before() -> None:
    whole = torch.ones(16)
    assert refuses(recorded(torch.mm), whole[:12].view(3, 4), whole.view(4, 4))
    other = torch.ones(16)
    case = recorded(torch.mm, other[:12].view(3, 4), other.view(4, 4))
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4)) is None
    assert case.again(case.add(whole[:12].view(3, 4), "x3"), whole.view(4, 4)) is not None


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: (x @ w).relu_(),
        lambda x, w: torch.dropout(x @ w, 0.5, True),
        lambda x, w: (x @ w).unsqueeze_(0),
        lambda x, w: torch.nn.functional.scaled_dot_product_attention(
            x[None, None], w[None, None], w[None, None], dropout_p=0.5
        ),
    ],
)
def test_what_writes_or_draws_is_refused(function: Callable[[Tensor, Tensor], Any]) -> None:
    case = recorded(function)
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4)) is None


def test_a_value_of_elsewhere_is_refused() -> None:
    case = recorded(torch.mm)
    with torch.no_grad(), case.faker.mode, case.recorder:
        case.out = torch.add(case.out, 1)
    case.ops = range(1, 2)
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4)) is None


def test_an_operation_in_between_is_refused() -> None:
    case = recorded(torch.mm)
    with torch.no_grad(), case.faker.mode, case.recorder:
        torch.neg(case.x)
        case.out = torch.add(case.x, 1)
    case.ops = range(2, 3)
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4)) is None


def test_a_stranger_is_refused() -> None:
    case = recorded(torch.mm)
    assert case.again(torch.ones(3, 4), torch.ones(4, 4)) is None
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4), wanted=[torch.ones(1)]) is None


def test_a_tensor_that_has_changed_its_looks_since_is_refused() -> None:
    case = recorded(lambda x, w: (x @ w) + 1)
    with torch.no_grad(), case.faker.mode, case.recorder:
        case.out.unsqueeze_(0)
    assert case.again(case.add(torch.ones(3, 4), "x2"), torch.ones(4, 4)) is None
