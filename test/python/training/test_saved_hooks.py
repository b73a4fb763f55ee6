"""Hooks for saved tensors that a captured function sets itself: they are called where eager calls them."""

import dynamlir
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

A = torch.tensor([0.5, -1.0, 2.0])


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")


class Counter(saved_tensors_hooks):
    """Counts the calls of its hooks, which are methods."""

    def __init__(self):
        self.packed = self.unpacked = 0
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        self.packed += 1
        return tensor

    def unpack(self, tensor):
        self.unpacked += 1
        return tensor


def counted_after_an_operation(x):
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
        y = x.exp()
        before = len(seen)
        z = y * x
        return z, before, len(seen)


def counted_by_methods(x):
    inner = Counter()
    with Counter(), inner:
        first = inner.packed
        y = x.sin()
        second = inner.packed
        y.sum().backward()
    return y, first, second, inner.packed, inner.unpacked


def raises(x):
    def pack(tensor):
        raise KeyError("packed")

    with saved_tensors_hooks(pack, lambda t: t):
        try:
            y = x.cos()
        except KeyError as error:
            return x, str(error)
    return y, "nothing"


def writes(x):
    with saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        try:
            return torch.tanh(x), "nothing"
        except RuntimeError as error:
            return x, str(error)


def scaled(x):
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t + 1):
        y = x * x
    return y, 0


def of_what_needs_no_gradient(x):
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
        with torch.no_grad():
            y = x.exp()
        y = y * A
        return x + y, len(seen)


def nested(x):
    seen = []
    with saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            y = x.exp()
            one = tuple(seen)
        y = torch.cat([y, x.sin()])
        return y, one, tuple(seen)


FUNCTIONS = (counted_after_an_operation, counted_by_methods, raises, writes, scaled, of_what_needs_no_gradient, nested)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_hooks_do_is_done_before_the_next_line(function):
    compiled = dynamlir.compile(function)
    for _ in range(3):
        found = []
        for each in (function, compiled):
            x = A.clone().requires_grad_()
            y, *seen = each(x)
            if x.grad is None and y.grad_fn is not None:
                y.sum().backward()
            found.append((seen, x.grad, y.detach()))
        (right, grad, y), (ours, our_grad, our_y) = found
        assert ours == right
        torch.testing.assert_close(our_y, y)
        torch.testing.assert_close(our_grad, grad)


def test_torchs_own_hooks_are_captured():
    def function(x):
        with torch.autograd.graph.save_on_cpu():
            y = x.exp() * x.sin()
        return y.sum()

    compiled = dynamlir.compile(function)
    for _ in range(2):
        x, right = A.clone().requires_grad_(), A.clone().requires_grad_()
        compiled(x).backward()
        function(right).backward()
        torch.testing.assert_close(x.grad, right.grad)
    messages = {event.message for event in dynamlir.fallbacks()}
    assert not any("calls hooks for saved tensors" in message for message in messages)


def test_hooks_around_the_call_are_captured():
    seen = []

    def function(x):
        y = x.exp()
        print(end="")
        return (y * x.sin()).sum()

    compiled = dynamlir.compile(function)
    for _ in range(2):
        seen.clear()
        x, right = A.clone().requires_grad_(), A.clone().requires_grad_()
        with saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
            compiled(x).backward()
        assert seen
        function(right).backward()
        torch.testing.assert_close(x.grad, right.grad)
    messages = {event.message for event in dynamlir.fallbacks()}
    assert not any("calls hooks for saved tensors" in message for message in messages)
