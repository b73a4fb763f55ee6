"""`whole`: time of a whole training step as one compiled function, with comparisons.

The function is the body of a usual training loop: gradients dropped, forward, loss, backward, clipping, optimizer. Each
contestant compiles all of it and trains a copy of the model; after the first steps the parameters must have moved as
eager's have. The notes have the number of graphs: the first step differs from the rest, because it creates the
optimizer's state, and `torch.compile` breaks graphs at ``backward`` and around the optimizer.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import agree, catalog, contestants, measure, models, record, training

MODELS = ("bert", "resnet18")
"""The models that are trained by default."""

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
}

LARGEST_NORM = 1.0
"""The norm to which gradients are clipped."""

WARM = 3
"""The number of warm-up steps: the first creates the optimizer's state."""


def step(module: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: dict[str, Any]) -> torch.Tensor:
    """Runs a training step."""
    optimizer.zero_grad()
    loss = training.loss_of(module(**inputs))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(module.parameters(), LARGEST_NORM)
    optimizer.step()
    return loss


class Trained:
    """A model, its optimizer and a contestant's step."""

    def __init__(
        self, module: torch.nn.Module, inputs: dict[str, Any], kind: str, function: Callable[..., Any]
    ) -> None:
        self.module = copy.deepcopy(module)
        self.optimizer = OPTIMIZERS[kind](self.module.parameters())
        self.inputs = inputs
        self.function = function

    def __call__(self) -> torch.Tensor:
        loss: torch.Tensor = self.function(self.module, self.optimizer, self.inputs)
        return loss

    def moved(self, module: torch.nn.Module) -> torch.Tensor:
        """Returns the difference of all parameters from those of the model that it was copied from."""
        pairs = zip(self.module.parameters(), module.parameters())
        return torch.cat([(after.detach() - before.detach()).flatten() for after, before in pairs])


def dynamo_graphs() -> int:
    """Returns the number of graphs that TorchDynamo has created so far."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def run(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    batches: Sequence[int],
    threads: Sequence[int],
    seconds: float,
) -> None:
    """Prints and records the table, a line per model and optimizer, batch and number of threads; then the means."""
    names = [f"{model} {kind}" for model in chosen for kind in OPTIMIZERS]
    cases = (names, batches, threads)
    models.table(output, field, "whole", "step", cases, lambda *case: one(field, *case, seconds))


def one(field: contestants.Field, name: str, batch: int, threads: int, seconds: float) -> models.Measured:
    """Returns one line, and the ratios round by round; the caller has set the number of threads."""
    model, kind = name.rsplit(" ", 1)
    module, inputs = catalog.MODELS[model].make(batch)
    module = training.without_dropout(module)
    contestants.forget()
    trained = {"eager": Trained(module, inputs, kind, step)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for who in field.compilers:
            trained[who] = Trained(module, inputs, kind, field.enter(who, step))
        before = dynamo_graphs()
        for each in trained.values():
            for _ in range(WARM):
                each()
    wanted = trained["eager"].moved(module)
    # Relative to the length: an optimizer that divides by a gradient's size turns mere rounding into a step.
    errors = {who: float((trained[who].moved(module) - wanted).norm() / wanted.norm()) for who in field.compilers}
    samples = measure.sample(trained, seconds, measure.clock(threads))
    line = record.timed(name, {"batch": batch, "threads": threads}, samples, field.pairs)
    line.errors, line.notes = errors, contestants.notes()
    if field.inductor:
        line.notes.append(f"inductor: {dynamo_graphs() - before} graphs")
    line.right = errors["dynamlir"] <= agree.TOLERANCE
    return line, {pair: measure.ratios(samples, *pair.split("/")) for pair in field.pairs}
