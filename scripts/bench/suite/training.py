"""`training`: time of a training step – forward, loss, backward – with comparisons.

The models are in training mode: batch norms use and update the statistics of the batch. Dropout is off unless
requested, because random draws differ between contestants. The loss is the mean of the squares of all outputs; its own
time is part of the step, as in any training loop. Gradients are discarded after each step, as `zero_grad` does.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from . import agree, catalog, contestants, measure, models, record, saved_memory

EIGHT = ("bert", "gpt2", "llama", "t5", "vit", "resnet18", "mobilenetv3_large_100", "convnext_atto")
"""The models that are trained by default."""


MORE = 4.0
"""The allowed multiple of eager's own error for a gradient, if that is more than `agree.TOLERANCE`."""


def loss_of(output: Any) -> torch.Tensor:
    """Returns the mean of the squares of all outputs that have a gradient."""
    parts = [
        (tensor if tensor.dtype is torch.float64 else tensor.float()).square().mean()
        for tensor in agree.tensors_of(output)
        if tensor.requires_grad
    ]
    return torch.stack(parts).sum()


def step(function: Callable[..., Any], module: torch.nn.Module, inputs: dict[str, Any]) -> None:
    """Runs one step without an optimizer."""
    loss_of(function(**inputs)).backward()
    module.zero_grad(set_to_none=True)


def without_dropout(module: torch.nn.Module) -> torch.nn.Module:
    """Returns the module in training mode, with dropout off."""
    for part in module.train().modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        for name, value in list(vars(part).items()):
            if "drop" in name and isinstance(value, float):
                setattr(part, name, 0.0)
        for name, value in list(vars(getattr(part, "config", None) or torch.nn.Identity()).items()):
            if "drop" in name and isinstance(value, float):
                setattr(part.config, name, 0.0)
    return module


def gradients(function: Callable[..., Any], module: torch.nn.Module, inputs: dict[str, Any]) -> list[torch.Tensor]:
    """Returns the loss and all gradients of one step; buffers are restored."""
    buffers = [buffer.clone() for buffer in module.buffers()]
    loss = loss_of(function(**inputs))
    loss.backward()
    found = [loss.detach(), *(p.grad for p in module.parameters() if p.grad is not None)]
    module.zero_grad(set_to_none=True)
    with torch.no_grad():
        for buffer, before in zip(module.buffers(), buffers):
            buffer.copy_(before)
    return found


def exact_gradients(module: torch.nn.Module, inputs: dict[str, Any]) -> list[torch.Tensor]:
    """Like `gradients`, computed in double precision."""
    double = copy.deepcopy(module).double()
    wide = {name: value.double() if _is_floating(value) else value for name, value in inputs.items()}
    return [gradient.float() for gradient in gradients(double, double, wide)]


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def worst_error(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """Like `agree.worst_error`, except for gradients that are negligible beside the others: some, such as that of a
    bias that a softmax cancels, consist only of rounding."""
    floor = 1e-4 * max((float(tensor.abs().max()) for tensor in wanted[1:]), default=0.0)
    if len(found) != len(wanted):
        return float("inf")
    pairs = list(zip(found, wanted))
    small = [float(b.abs().max()) < floor for _, b in pairs]
    rest = agree.worst_error(*([pair[side] for pair, is_small in zip(pairs, small) if not is_small] for side in (0, 1)))
    tiny = [float((a - b).abs().max()) / floor for (a, b), is_small in zip(pairs, small) if is_small]
    return max([rest, *tiny])


def run(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    batches: Sequence[int],
    threads: Sequence[int],
    seconds: float,
    dropout: bool,
) -> None:
    """Prints and records the table, a line per model, batch and number of threads; then the geometric means."""
    cases = (chosen, batches, threads)
    models.table(output, field, "training", "step", cases, lambda *case: one(field, *case, seconds, dropout))


def one(
    field: contestants.Field, name: str, batch: int, threads: int, seconds: float, dropout: bool
) -> models.Measured:
    """Returns one line, and the ratios round by round; the caller has set the number of threads."""
    module, inputs = catalog.MODELS[name].make(batch)
    module = module.train() if dropout else without_dropout(module)
    contestants.forget()
    functions: dict[str, Callable[..., Any]] = {"eager": module}
    # For a single image, batch norms leave little of some gradients, also in eager: the reference is doubles.
    wanted = exact_gradients(module, inputs)
    own = worst_error(gradients(module, module, inputs), wanted)
    errors: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for who in field.compilers:
            functions[who] = field.enter(who, module)
            found = gradients(functions[who], module, inputs)
            errors[who] = 0.0 if dropout else worst_error(found, wanted)
    samples = measure.sample(
        {who: partial(step, function, module, inputs) for who, function in functions.items()},
        seconds,
        measure.clock(threads),
    )
    line = record.timed(name, {"batch": batch, "threads": threads}, samples, field.pairs)
    line.errors, line.notes = errors, contestants.notes()
    saved = {who: saved_memory.kept_bytes(function, module, inputs) / 1e6 for who, function in functions.items()}
    line.figures = {f"{who} saved MB": value for who, value in saved.items()}
    line.notes.append("MB kept for backward: " + ", ".join(f"{who} {value:.1f}" for who, value in saved.items()))
    each = {"eager": own, **errors}
    line.notes = [*line.notes, "errors: " + ", ".join(f"{who} {error:.1e}" for who, error in each.items())]
    # Errors of others are in the notes.
    line.right = errors.get("dynamlir", 0.0) <= max(agree.TOLERANCE, MORE * own)
    return line, {pair: measure.ratios(samples, *pair.split("/")) for pair in field.pairs}
