"""`steps`: models trained for twenty steps, every gradient compared with what doubles give.

Each step begins with eager's parameters and buffers, which ours and the doubles are given, so that what rounding makes
of twenty steps is not in the figures: each step's errors are that step's. AdamW then moves eager's. Each step has a
batch of its own. Dropout is off.

An error is the norm of a difference from the doubles' gradient, relative to that gradient's norm: of all gradients of a
step together, and of each parameter alone. That of a parameter is right where it is at most `MORE` times eager's own,
or less than `FLOOR`, relative to the parameter's gradient or, where that is next to nothing, to `TINY` of the greatest
gradient of the step.

Some batch norms here are over few elements with a relu behind them: then the last bit of a parameter decides over
percents of a gradient, in eager as well. So where an error is not within its bound, eager's own is taken as the worst
of some whose parameters were changed by at most their last bit; and where all of eager's is then off by more than
`BLURRED`, floats prove nothing: such a step is counted (``blurred``). At every step ours are computed in doubles as
well, where hardly anything is that close to a kink. Those have to be right within `DOUBLES`.

With ``--dropout`` the losses are compared instead: over runs of as many steps, each from the same parameters with
other random numbers, by Welch's test of their means and by the ratio of their variances.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import statistics
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import contestants, picked, record, training

STEPS = 20
RUNS = 12
"""Runs of each with dropout."""

MORE, FLOOR, TINY = 4.0, 2e-6, 0.05
BLURRED, DOUBLES = 1e-3, 1e-6
TRIES = 48
"""Changed parameters that eager is tried with: enough to meet a kink that one try of ten meets. In step 15 of
mnasnet0_5 four of the first 40 tries move one element of `layers.12.2.layers.2` across zero, none of the first six."""


Found = dict[str, torch.Tensor]
"""The loss and gradients by name."""


@dataclasses.dataclass
class Errors:
    """The worst of all steps."""

    eager: float = 0.0
    ours: float = 0.0
    worst: float = 0.0
    """The largest error of a parameter's gradient, over what it may have: right below 1."""
    where: str = ""
    doubles: float = 0.0
    """Of ours in doubles."""
    blurred: int = 0
    """Steps in which eager's floats are too far off themselves."""
    steps: int = 0

    @property
    def right(self) -> bool:
        """Whether all of it is."""
        # Some models go through floats of their own, so that their doubles are none.
        return self.worst <= 1 and self.doubles <= max(DOUBLES, 0.0 if self.blurred else self.eager)


def batch(inputs: dict[str, Any], seed: int) -> dict[str, Any]:
    """Inputs like the given ones: other numbers, other words; masks stay."""
    source = torch.Generator().manual_seed(seed)
    return {name: _like(name, value, source) for name, value in inputs.items()}


def _like(name: str, value: Any, source: torch.Generator) -> Any:
    if not isinstance(value, torch.Tensor) or "mask" in name:
        return value
    if value.is_floating_point():
        return torch.randn(value.shape, generator=source, dtype=value.dtype)
    return torch.randint(3, picked.SMALL["vocab_size"], value.shape, generator=source)


def gradients(function: Callable[..., Any], module: torch.nn.Module, inputs: dict[str, Any]) -> Found:
    """The loss and the gradients by name; they stay on the parameters."""
    module.zero_grad(set_to_none=True)
    loss = training.loss_of(function(**inputs))
    loss.backward()
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return {"loss": loss.detach(), **found}


def shares(eager: list[Found], ours: Found, exact: Found) -> tuple[float, str]:
    """The greatest error of ours over what it may be, and where; eager's is the worst of several."""
    if any(side.keys() != exact.keys() for side in (*eager, ours)):
        return math.inf, f"{sorted(ours.keys() ^ exact.keys())}"
    norms = {name: float(tensor.double().norm()) for name, tensor in exact.items()}
    greatest, worst, where = max(norms.values()), 0.0, ""
    for name, norm in norms.items():
        own = max(apart(side[name], exact[name]) for side in eager)
        may = max(MORE * own, FLOOR * max(norm, TINY * greatest))
        error = apart(ours[name], exact[name])
        share = error / may if math.isfinite(error) and may else math.inf
        if share > worst:
            worst, where = share, name
    return worst, where


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """The norm of the difference."""
    return float((one.double() - other.double()).norm())


def together(found: Found, exact: Found) -> float:
    """The error of all gradients."""
    if found.keys() != exact.keys():
        return math.inf
    off = math.hypot(*(apart(found[name], exact[name]) for name in exact))
    return off / math.hypot(*(float(tensor.double().norm()) for tensor in exact.values()))


def other_last_bits(module: torch.nn.Module, seed: int) -> None:
    """Changes each parameter by at most its last bit."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1 + 2.0**-23 * torch.randint(-1, 2, parameter.shape, generator=source))


def give(module: torch.nn.Module, other: torch.nn.Module) -> None:
    """The other has the parameters and buffers of this one."""
    _write(_tensors(module), other)


def _write(tensors: list[torch.Tensor], module: torch.nn.Module) -> None:
    with torch.no_grad():
        for target, source in zip(_tensors(module), tensors, strict=True):
            target.copy_(source)


def _tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def train(made: picked.Made, compile: Callable[[Any], Any], steps: int = STEPS) -> Errors:
    """Trains eager, and holds the gradients of what ``compile`` makes of a copy against it."""
    module, inputs = made
    ours, tried, exact = copy.deepcopy(module), copy.deepcopy(module), copy.deepcopy(module).double()
    wide_ours = copy.deepcopy(exact)
    compiled, compiled_wide = compile(ours), compile(wide_ours)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    errors = Errors()
    for step in range(steps):
        given = batch(inputs, step)
        wide = {n: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for n, v in given.items()}
        for other in (ours, exact, wide_ours):
            give(module, other)
        begun = [tensor.clone() for tensor in _tensors(module)]
        eager, found = gradients(module, module, given), gradients(compiled, ours, given)
        right = gradients(exact, exact, wide)
        share, where = shares([eager], found, right)
        if 1 < share < math.inf:
            several = [eager]
            for seed in range(TRIES):
                if max(together(each, right) for each in several) > BLURRED:
                    errors.blurred, share = errors.blurred + 1, 0.0
                    break
                _write(begun, tried)
                other_last_bits(tried, seed)
                several.append(gradients(tried, tried, given))
            else:
                share, where = shares(several, found, right)
        if share > errors.worst:
            errors.worst, errors.where = share, f"{where}, step {step}"
        errors.eager = max(errors.eager, together(eager, right))
        errors.ours = max(errors.ours, together(found, right))
        errors.doubles = max(errors.doubles, together(gradients(compiled_wide, wide_ours, wide), right))
        errors.steps += 1
        optimizer.step()
    return errors


def losses(made: picked.Made, compile: Callable[[Any], Any], steps: int, runs: int) -> tuple[list[float], list[float]]:
    """Of eager and of ours, the mean loss of the later half of each run."""
    module, inputs = made
    begun, ours = copy.deepcopy(module), copy.deepcopy(module)
    results: tuple[list[float], list[float]] = ([], [])
    for at, (trained, call) in enumerate(((module, module), (ours, compile(ours)))):
        for run in range(runs):
            give(begun, trained)
            torch.manual_seed(1 + 2 * run + at)
            optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
            seen = []
            for step in range(steps):
                seen.append(float(gradients(call, trained, batch(inputs, step))["loss"]))
                optimizer.step()
            results[at].append(statistics.fmean(seen[steps // 2 :]))
    return results


def alike(eager: list[float], ours: list[float]) -> tuple[float, float]:
    """Welch's t of the two means, and the ratio of the deviations."""
    first, second = (statistics.stdev(side) for side in (eager, ours))
    apart = statistics.fmean(ours) - statistics.fmean(eager)
    return apart / (math.sqrt((first**2 + second**2) / len(eager)) or math.inf), second / first


def are_alike(t: float, deviations: float) -> bool:
    """Bounds that a right implementation crosses less often than once in a thousand pairs of a dozen runs."""
    return abs(t) < 4 and 1 / 4 < deviations < 4


def dropping() -> dict[str, Callable[[], picked.Made]]:
    """Three language models as their configurations have them, and a ViT that drops features, attention and paths."""
    import zoo

    vit = zoo.timm_model("vit_tiny_patch16_224", img_size=64, depth=2, proj_drop_rate=0.1, drop_path_rate=0.1)
    return {**{name: zoo.MODELS[name] for name in ("bert", "gpt2", "t5")}, "vit-tiny": vit}


def run(output: record.Record, field: contestants.Field, only: str, dropout: bool) -> None:
    """Prints and records the table, a line per model."""
    torch.set_num_threads(1)
    models = dropping().items() if dropout else picked.all_of_them()
    chosen = ((name, make) for name, make in models if only in name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (with_dropout if dropout else without_dropout)(output, field, chosen)


def without_dropout(output: record.Record, field: contestants.Field, models: Iterable[tuple[str, Any]]) -> None:
    """Errors of gradients."""
    heads = f"{'':26}{'graphs':>7}{'eager':>9}{'ours':>9}{'doubles':>9}{'of bound':>9}{'blurred':>8}  worst parameter"
    about = f"steps: errors of gradients in {STEPS} steps, dynamlir through {field.door}, against doubles"
    output.part("steps", about, heads)
    for name, make in models:
        contestants.forget()
        errors = train(picked.made(make), lambda module: field.enter("dynamlir", module))
        line = record.Line(name, {"steps": errors.steps}, notes=_plain())
        line.figures = {"eager": errors.eager, "ours": errors.ours, "doubles": errors.doubles}
        line.figures |= {"of bound": errors.worst, "blurred": float(errors.blurred), "graphs": float(_graphs())}
        line.right = errors.right
        figures = f"{_graphs():7}{errors.eager:9.1e}{errors.ours:9.1e}{errors.doubles:9.1e}{errors.worst:9.2f}"
        text = f"{name:26}{figures}{errors.blurred:8}  {errors.where}"
        output.add(line, text + ("" if line.right else "  WRONG"))


def with_dropout(output: record.Record, field: contestants.Field, models: Iterable[tuple[str, Any]]) -> None:
    """Distributions of losses."""
    heads = f"{'':26}{'graphs':>7}{'eager':>10}{'ours':>10}{'t':>8}{'s/s':>8}"
    about = f"steps with dropout: mean losses of {RUNS} runs of {STEPS} steps, dynamlir through {field.door}"
    output.part("steps-dropout", about, heads)
    for name, make in models:
        contestants.forget()
        made = picked.made(make, dropout=True)
        eager, ours = losses(made, lambda module: field.enter("dynamlir", module), STEPS, RUNS)
        (t, deviations), graphs = alike(eager, ours), _graphs()
        line = record.Line(name, {"steps": STEPS, "runs": RUNS}, notes=_plain())
        means = [statistics.fmean(side) for side in (eager, ours)]
        line.figures = {"eager": means[0], "ours": means[1], "t": t, "deviations": deviations}
        line.right = are_alike(t, deviations)
        output.add(line, f"{name:26}{graphs:7}{means[0]:10.5f}{means[1]:10.5f}{t:8.2f}{deviations:8.2f}")


def _graphs() -> int:
    import dynamlir

    return len(dynamlir.compiles())


def _plain() -> list[str]:
    """The reasons for which something ran plain, and how often."""
    import dynamlir

    seen = {event.reason: str(event).splitlines()[0] for event in dynamlir.fallbacks()}
    return [f"plain, {count} times: {seen[reason]}" for reason, count in dynamlir.counters()["fallbacks"].items()]
