"""`optimizers`: time of a step of AdamW and of SGD with momentum on a model's parameters, with comparisons.

Eager takes part in three forms: ``default`` handles the parameters one by one, ``foreach`` passes lists to torch,
``fused`` is torch's own kernel for a whole step. The compilers get the plain form, one parameter after the other. The
learning rate changes at each step, as under a schedule, which must not compile anything. Gradients are fixed:
`training` measures their computation.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import agree, catalog, contestants, measure, record

MODELS = ("bert", "mobilenetv3_large_100")
"""The models whose parameters are updated by default."""

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "sgd-momentum": lambda parameters, **settings: torch.optim.SGD(parameters, momentum=0.9, **settings),
}

FORMS: dict[str, dict[str, Any]] = {
    "default": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
"""Eager's forms."""

WARM = 4
"""The number of warm-up steps: the first creates the state, the second has another learning rate."""


class Stepper:
    """An optimizer whose learning rate changes with each call of its compiled, or plain, step."""

    def __init__(self, kind: str, model: str, settings: dict[str, Any]) -> None:
        module, _ = catalog.MODELS[model].make()
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        source = torch.Generator().manual_seed(0)
        for parameter in self.parameters:
            parameter.grad = torch.randn(parameter.shape, generator=source).mul_(1e-2)
        self.optimizer = OPTIMIZERS[kind](self.parameters, lr=1e-3, **settings)
        self.step: Callable[[], Any] = self.optimizer.step
        self.rates = itertools.cycle([1e-3 / (1 + at) for at in range(100)])

    def __call__(self) -> None:
        self.optimizer.param_groups[0]["lr"] = next(self.rates)
        self.step()


def pairs(field: contestants.Field) -> list[str]:
    """Returns the pairs to compare."""
    return [f"dynamlir/{base}" for base in (*FORMS, *["inductor"] * field.inductor)]


def run(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    threads: Sequence[int],
    seconds: float,
) -> None:
    """Prints and records the table, a line per model, optimizer and number of threads."""
    heads = "".join(f"{name:>10}" for name in (*FORMS, *field.compilers))
    output.part(
        "optimizers",
        f"optimizers: milliseconds per step, dynamlir through {field.door}; medians, 95 % intervals of the ratios",
        f"{'':38}{'threads':>8}{heads}  {'  '.join(pair.ljust(22) for pair in pairs(field))} {'error':>8}",
    )
    for count in threads:
        torch.set_num_threads(count)
        for model in chosen:
            for kind in OPTIMIZERS:
                line = one(field, model, kind, count, seconds)
                times = "".join(f"{line.times[name]:10.2f}" for name in (*FORMS, *field.compilers))
                worst = max(line.errors.values())
                output.add(line, f"{line.name:38}{count:8}{times}  {line.compared()} {worst:8.1e}")


def one(field: contestants.Field, model: str, kind: str, threads: int, seconds: float) -> record.Line:
    """Returns one line; the caller has set the number of threads."""
    contestants.forget()
    steppers = {name: Stepper(kind, model, settings) for name, settings in FORMS.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for who in field.compilers:
            own_door = who == "dynamlir" and field.door == contestants.DOORS[0]
            steppers[who] = stepper = Stepper(kind, model, FORMS["default"])
            stepper.step = compiled(who, own_door, stepper.optimizer.step)
        for stepper in steppers.values():
            for _ in range(WARM):
                stepper()
    graphs = graphs_made()
    wanted = [parameter.detach() for parameter in steppers["default"].parameters]
    errors = {
        who: agree.worst_error([parameter.detach() for parameter in steppers[who].parameters], wanted)
        for who in field.compilers
    }
    samples = measure.sample(steppers, seconds, measure.clock(threads))
    line = record.timed(f"{model} {kind}", {"threads": threads}, samples, pairs(field))
    line.errors, line.notes = errors, [note for note in contestants.notes() if "graphs" not in note]
    if graphs_made() != graphs:
        line.notes.append("the schedule was compiled")
    line.right = all(error <= agree.TOLERANCE for error in errors.values())
    return line


def compiled(who: str, own_door: bool, step: Callable[[], Any]) -> Callable[[], Any]:
    """Returns the step as a contestant compiles it. Not with static sizes: then torch treats floats as constants."""
    import dynamlir

    if own_door:
        return dynamlir.compile(step)
    return torch.compile(step, backend=who)


def graphs_made() -> int:
    """Returns the number of graphs that dynamlir has compiled for this line."""
    import dynamlir

    return len(dynamlir.compiles())
