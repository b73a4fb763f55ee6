"""Graphs that are several nodes of autograd's graph, in odd or wrong uses: eager's result, or its exception."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from torch import Tensor

Function = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


def program(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    h = x @ w
    return h, h.sin(), (h * x).sum(), (w * 2).exp()


class Short(torch.autograd.Function):
    """Returns too few gradients."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return DOORS[request.param]


def leaves() -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(3)
    return torch.randn(4, 4, generator=made).requires_grad_(), torch.randn(4, 4, generator=made).requires_grad_()


def told(work: Callable[[Function, Tensor, Tensor], Any], function: Function) -> Any:
    """The result of some work with a function, the leaves' gradients after it, and the exception's class and text."""
    x, w = leaves()
    raised = None
    found = None
    try:
        found = work(function, x, w)
    except Exception as error:
        raised = type(error), str(error).split("\n")[0][:40]
    return found, x.grad, w.grad, raised


def compare(
    work: Callable[[Function, Tensor, Tensor], Any], door: Callable[..., Any], function: Function = program
) -> None:
    eager, ours = told(work, function), told(work, door(function))
    assert ours[3] == eager[3]
    torch.testing.assert_close(ours[:3], eager[:3])


def walked_twice(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    outputs[1].sum().backward()
    outputs[1].sum().backward()


def walked_twice_by_two_results(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    outputs[1].sum().backward()
    outputs[2].backward()


def some_results_are_gone(f: Function, x: Tensor, w: Tensor) -> Any:
    last = f(x, w)[2]
    gc.collect()
    last.backward()


def after_a_write_to_a_leaf(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    with torch.no_grad():
        w.mul_(2)
    outputs[2].backward()


def after_a_write_to_a_result(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    with torch.no_grad():
        outputs[0].zero_()
    outputs[1].sum().backward()


def a_result_is_written_with_a_gradient(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    outputs[3].mul_(x)
    return torch.autograd.grad(outputs[3].sum(), (x, w))


def under_another_grad_mode(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    with torch.no_grad():
        first = torch.autograd.grad(outputs[2], x, retain_graph=True)
        outputs[2].backward()
    return first


def in_inference_mode(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    with torch.inference_mode():
        outputs[2].backward()


def in_another_thread(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(torch.autograd.grad(outputs[2], (x, w, outputs[0]))))
    thread.start()
    thread.join()
    return found


def in_two_threads_at_once(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    found: list[Any] = [None, None]

    def walk(at: int) -> None:
        found[at] = torch.autograd.grad(outputs[1 + at].sum(), (x, w), retain_graph=True)

    threads = [threading.Thread(target=walk, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def a_hook_raises(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)

    def hook(gradient: Tensor) -> None:
        raise ValueError("a hook's own error")

    outputs[0].register_hook(hook)
    outputs[1].sum().backward()


def a_hook_removes_itself(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    calls: list[Tensor] = []

    def hook(gradient: Tensor) -> None:
        calls.append(gradient.clone())
        handle.remove()

    handle = outputs[0].register_hook(hook)
    for _ in range(2):
        outputs[1].sum().backward(retain_graph=True)
    return calls


def a_hook_walks_back(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    found: list[Any] = []
    outputs[0].register_hook(lambda gradient: found.extend(torch.autograd.grad(outputs[3].sum(), w)))
    outputs[1].sum().backward()
    return found


def a_hook_replaces_the_gradient(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    outputs[0].register_hook(lambda gradient: gradient.double().float().t().contiguous().t() * 3)
    (outputs[1].sum() + outputs[2]).backward()


def a_hook_gives_another_size(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    outputs[0].register_hook(lambda gradient: gradient[:1])
    outputs[1].sum().backward()


def tangents_of_another_dtype(f: Function, x: Tensor, w: Tensor) -> Any:
    return torch.autograd.grad(f(x, w)[1], x, torch.ones(4, 4, dtype=torch.float64))


def tangents_of_another_size(f: Function, x: Tensor, w: Tensor) -> Any:
    return torch.autograd.grad(f(x, w)[1], x, torch.ones(4, 5))


def tangents_of_another_layout(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    return torch.autograd.grad(
        outputs[:2], (x, w), (torch.ones(1, 1).expand(4, 4), torch.arange(16.0).reshape(4, 4).t())
    )


def tangents_that_are_missing(f: Function, x: Tensor, w: Tensor) -> Any:
    return torch.autograd.grad(f(x, w)[1], x)


def a_backward_frees_what_another_thread_has(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = f(x, w)
    thread = threading.Thread(target=outputs[1].sum().backward)
    thread.start()
    thread.join()
    torch.autograd.grad(outputs[1].sum(), x)


def results_are_deleted_in_a_hook(f: Function, x: Tensor, w: Tensor) -> Any:
    outputs = list(f(x, w))
    loss = outputs[1].sum()
    outputs[0].register_hook(lambda gradient: outputs.clear())
    loss.backward()


WORK = [
    walked_twice,
    walked_twice_by_two_results,
    some_results_are_gone,
    after_a_write_to_a_leaf,
    after_a_write_to_a_result,
    a_result_is_written_with_a_gradient,
    under_another_grad_mode,
    in_inference_mode,
    in_another_thread,
    in_two_threads_at_once,
    a_hook_raises,
    a_hook_removes_itself,
    a_hook_walks_back,
    a_hook_replaces_the_gradient,
    a_hook_gives_another_size,
    tangents_of_another_dtype,
    tangents_of_another_size,
    tangents_of_another_layout,
    tangents_that_are_missing,
    a_backward_frees_what_another_thread_has,
    results_are_deleted_in_a_hook,
]


@pytest.mark.parametrize("work", WORK)
def test_it_goes_as_in_eager(work: Callable[[Function, Tensor, Tensor], Any], door: Callable[..., Any]) -> None:
    compare(work, door)


def test_too_few_gradients() -> None:
    """Dynamo takes missing gradients for None with every backend."""

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        h = Short.apply(x, w)
        return h, h.sin()

    def work(f: Function, x: Tensor, w: Tensor) -> Any:
        f(x, w)[1].sum().backward()

    compare(work, dynamlir.compile, function)


def test_backward_while_another_thread_compiles(door: Callable[..., Any]) -> None:
    compiled, other = door(program), dynamlir.compile(lambda x, w: (x @ w).cos().sum())
    x, w = leaves()
    expected = torch.autograd.grad(program(x, w)[2], (x, w))
    outputs = compiled(x, w)
    begun = threading.Event()

    def work() -> None:
        begun.set()
        other(*leaves()).backward()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    while True:
        found = torch.autograd.grad(outputs[2], (x, w), retain_graph=True)
        torch.testing.assert_close(found, expected)
        if not thread.is_alive():
            break
    thread.join()
