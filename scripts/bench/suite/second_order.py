"""`second-order`: time of a step whose loss contains derivatives of a network, with comparisons.

Three common losses: the gradient penalty of WGAN-GP, an inner loop of MAML over weights passed as tensors, and the
residual of an equation with a third derivative. Each has two lines. In the first only the network is compiled, and
torch's engine is asked for gradients with ``create_graph=True``. In the second the whole loss is compiled, with
``torch.autograd.grad`` in it. Inductor takes part where it can: it does not compile gradients of gradients.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import contestants, measure, record

Enter = Callable[[Any], Callable[..., Any]]
"""Compiles a module or a function, or returns it unchanged."""

MORE, FLOOR = 4.0, 1e-5
"""The allowed multiple of eager's error, and the error that is always allowed: relative to the largest gradient."""

WIDTH, BATCH = 256, 64


def perceptron(first: int, *, last: int = 1, layers: int = 3) -> torch.nn.Sequential:
    """Returns layers with tanh between, which has all derivatives."""
    widths = [first, *[WIDTH] * layers, last]
    parts: list[torch.nn.Module] = []
    for rows, columns in itertools.pairwise(widths):
        parts += [torch.nn.Linear(rows, columns), torch.nn.Tanh()]
    return torch.nn.Sequential(*parts[:-1])


@dataclasses.dataclass
class Step:
    """A step: gradients of the loss with respect to ``parameters``, computed by means of a compiled function."""

    compiled: Any
    parameters: list[Tensor]
    loss: Callable[[Callable[..., Any]], Tensor]

    def whole(self) -> Tensor:
        """Computes the whole loss, to be compiled."""
        return self.loss(self.compiled)

    def gradients(self, call: Callable[..., Any], whole: bool = False) -> Sequence[Tensor]:
        """Returns the gradients for an optimizer; ``call`` is the network, or the loss as a whole."""
        return torch.autograd.grad(call() if whole else self.loss(call), self.parameters)


def gradient_penalty(dtype: torch.dtype) -> Step:
    """WGAN-GP's critic: scores of real and generated samples, and the norm of the gradient between them."""
    critic = perceptron(128).to(dtype)
    real, made, between = (torch.randn(BATCH, 128).to(dtype) for _ in range(3))
    between.requires_grad_()

    def loss(call: Callable[..., Any]) -> Tensor:
        (gradient,) = torch.autograd.grad(call(between).sum(), between, create_graph=True)
        return call(made).mean() - call(real).mean() + 10 * ((gradient.norm(2, dim=1) - 1) ** 2).mean()

    return Step(critic, list(critic.parameters()), loss)


def inner_loop(dtype: torch.dtype) -> Step:
    """MAML: three steps of descent on one half of the data, and the loss of the other half after them."""
    weights = [p.detach().to(dtype).requires_grad_() for p in perceptron(32).parameters()]
    x, y = torch.randn(2 * BATCH, 32).to(dtype), torch.randn(2 * BATCH, 1).to(dtype)

    def fit(x: Tensor, y: Tensor, *weights: Tensor) -> Tensor:
        for weight, bias in zip(weights[:-2:2], weights[1:-2:2]):
            x = torch.tanh(torch.nn.functional.linear(x, weight, bias))
        return (torch.nn.functional.linear(x, weights[-2], weights[-1]) - y).square().mean()

    def loss(call: Callable[..., Any]) -> Tensor:
        current = weights
        for _ in range(3):
            gradients = torch.autograd.grad(call(x[:BATCH], y[:BATCH], *current), current, create_graph=True)
            current = [weight - 0.1 * gradient for weight, gradient in zip(current, gradients)]
        return call(x[BATCH:], y[BATCH:], *current)

    return Step(fit, weights, loss)


def residual(dtype: torch.dtype) -> Step:
    """The equation of Korteweg and de Vries, u_t + 6 u u_x + u_xxx = 0, for a network u(t, x)."""
    network = perceptron(2).to(dtype)
    at = torch.rand(4 * BATCH, 2).to(dtype).requires_grad_()

    def loss(call: Callable[..., Any]) -> Tensor:
        u = call(at)
        (first,) = torch.autograd.grad(u.sum(), at, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 1].sum(), at, create_graph=True)
        (third,) = torch.autograd.grad(second[:, 1].sum(), at, create_graph=True)
        return (first[:, 0] + 6 * u[:, 0] * first[:, 1] + third[:, 1]).square().mean()

    return Step(network, list(network.parameters()), loss)


LOSSES: dict[str, Callable[[torch.dtype], Step]] = {
    "gradient penalty (WGAN-GP)": gradient_penalty,
    "inner loop (MAML)": inner_loop,
    "third derivative (PINN)": residual,
}


def made(build: Callable[[torch.dtype], Step], dtype: torch.dtype = torch.float32) -> Step:
    """Returns the same weights and data each time."""
    torch.manual_seed(0)
    return build(dtype)


def error(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """Returns the largest difference, relative to the largest gradient."""
    off = max(float((a.double() - b).abs().max()) for a, b in zip(found, wanted, strict=True))
    largest = max(float(tensor.abs().max()) for tensor in wanted)
    return off / largest if math.isfinite(off) else math.inf


def run(output: record.Record, field: contestants.Field, only: str, threads: Sequence[int], seconds: float) -> None:
    """Prints and records the table, a line per loss and number of threads."""
    heads = "".join(f"{name:>10}" for name in ["eager", *field.compilers])
    pairs = "  ".join(pair.ljust(22) for pair in field.pairs)
    about = f"second-order: milliseconds per step, dynamlir through {field.door}; medians, 95 % intervals of the ratios"
    output.part("second-order", about, f"{'':38}{'threads':>8}{heads}  {pairs} {'error':>8}")
    for count in threads:
        torch.set_num_threads(count)
        for name, build in LOSSES.items():
            if only in name:
                for whole in (False, True):
                    output.add(*one(field, name, build, whole, count, seconds))


def one(
    field: contestants.Field, loss: str, build: Callable[[torch.dtype], Step], whole: bool, threads: int, seconds: float
) -> tuple[record.Line, str]:
    """Returns one line, and its text; the caller has set the number of threads."""
    contestants.forget()
    name = f"{loss}, {'whole' if whole else 'network'}"
    step, doubles = made(build), made(build, torch.float64)
    wanted = doubles.gradients(doubles.compiled)
    own = error(step.gradients(step.compiled), wanted)
    calls: dict[str, Callable[[], Any]] = {"eager": partial(step.gradients, step.compiled)}
    errors: dict[str, float] = {}
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for who in field.compilers:
            compiled = field.enter(who, step.whole if whole else step.compiled)
            try:
                errors[who] = error(step.gradients(compiled, whole), wanted)
            except Exception as failure:
                notes.append(f"{who}: {str(failure).strip().splitlines()[0]}")
                continue
            calls[who] = partial(step.gradients, compiled, whole)
    notes += [note for note in contestants.notes() if "graphs" not in note]
    samples = measure.sample(calls, seconds, measure.clock(threads))
    compared = [pair for pair in field.pairs if all(who in calls for who in pair.split("/"))]
    line = record.timed(name, {"threads": threads}, samples, compared)
    line.errors, line.notes = errors, [*notes, f"eager's own error {own:.1e}"]
    line.right = errors.get("dynamlir", math.inf) <= max(MORE * own, FLOOR)
    times = "".join(f"{line.times[who]:10.2f}" if who in calls else f"{'-':>10}" for who in ["eager", *field.compilers])
    ratios = "  ".join(
        (str(measure.Estimate(**line.ratios[pair])) if pair in line.ratios else "-").ljust(22) for pair in field.pairs
    )
    return line, f"{name:38}{threads:8}{times}  {ratios} {errors.get('dynamlir', math.inf):8.1e}"
