"""`steps`: models trained for twenty steps, every gradient compared with that of doubles.

Each step begins with eager's parameters and buffers, which are copied to ours and to the doubles, so that rounding does
not accumulate over twenty steps: each step's errors are its own. AdamW then updates eager's. Each step has its own
batch. Dropout is off.

An error is the norm of a difference from the doubles' gradient, relative to that gradient's norm: of all gradients of a
step together, and of each parameter separately. That of a parameter is right if it is at most `MORE` times eager's own,
or less than `FLOOR`, relative to the parameter's gradient or, if that is negligible, to `TINY` of the greatest gradient
of the step.

Some batch norms here are over few elements with a relu behind them: then the last bit of a parameter decides over
percents of a gradient, in eager as well. So if an error exceeds its bound, eager's own is taken as the worst of several
trials whose parameters were changed by at most their last bit. If all of eager's is then off by more than `BLURRED`,
floats prove nothing: such a step is counted (``blurred``). At every step ours are computed in doubles as well, where
hardly anything is that close to a kink. Those have to be right within `DOUBLES`.

With ``--dropout`` the losses are compared instead: over runs of the same number of steps, each from the same parameters
with other random numbers, by Welch's test of their means and by the ratio of their variances.
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

from . import contestants, record, training, training_models

STEPS = 20
RUNS = 12
"""The number of runs of each with dropout."""

MORE, FLOOR, TINY = 4.0, 2e-6, 0.05
BLURRED, DOUBLES = 1e-3, 1e-6
TRIES = 48
"""The number of perturbed parameter sets tried with eager: enough to hit a kink that one try in ten hits. In step 15 of
mnasnet0_5 four of the first 40 tries move one element of `layers.12.2.layers.2` across zero, none of the first six."""


Found = dict[str, torch.Tensor]
"""The loss and gradients by name."""


@dataclasses.dataclass
class Errors:
    """The worst errors of all steps."""

    eager: float = 0.0
    ours: float = 0.0
    worst: float = 0.0
    """The largest error of a parameter's gradient, divided by its bound: right below 1."""
    where: str = ""
    doubles: float = 0.0
    """The error of ours in doubles."""
    blurred: int = 0
    """The number of steps in which eager's floats themselves are too far off."""
    steps: int = 0

    @property
    def right(self) -> bool:
        """True if all errors are within their bounds."""
        # Some models use floats internally, so that their doubles are not exact.
        return self.worst <= 1 and self.doubles <= max(DOUBLES, 0.0 if self.blurred else self.eager)


def batch(inputs: dict[str, Any], seed: int) -> dict[str, Any]:
    """Returns inputs like the given ones: other numbers, other words; masks stay."""
    source = torch.Generator().manual_seed(seed)
    return {name: _like(name, value, source) for name, value in inputs.items()}


def _like(name: str, value: Any, source: torch.Generator) -> Any:
    if not isinstance(value, torch.Tensor) or "mask" in name:
        return value
    if value.is_floating_point():
        return torch.randn(value.shape, generator=source, dtype=value.dtype)
    return torch.randint(3, training_models.SMALL["vocab_size"], value.shape, generator=source)


def gradients(function: Callable[..., Any], module: torch.nn.Module, inputs: dict[str, Any]) -> Found:
    """Returns the loss and the gradients by name; they stay on the parameters."""
    module.zero_grad(set_to_none=True)
    loss = training.loss_of(function(**inputs))
    loss.backward()
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return {"loss": loss.detach(), **found}


def shares(eager: list[Found], ours: Found, exact: Found) -> tuple[float, str]:
    """Returns the greatest error of ours divided by its bound, and its place; eager's is the worst of several."""
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
    """Returns the norm of the difference."""
    return float((one.double() - other.double()).norm())


def together(found: Found, exact: Found) -> float:
    """Returns the error of all gradients together."""
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
    """Copies the parameters and buffers of this module to the other."""
    _write(_tensors(module), other)


def _write(tensors: list[torch.Tensor], module: torch.nn.Module) -> None:
    with torch.no_grad():
        for target, source in zip(_tensors(module), tensors, strict=True):
            target.copy_(source)


def _tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def train(made: training_models.Made, compile: Callable[[Any], Any], steps: int = STEPS) -> Errors:
    """Trains eager, and compares the gradients of a compiled copy with it."""
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


def losses(
    made: training_models.Made, compile: Callable[[Any], Any], steps: int, runs: int
) -> tuple[list[float], list[float]]:
    """Returns, for eager and for ours, the mean loss of the later half of each run."""
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
    """Returns Welch's t of the two means, and the ratio of the deviations."""
    first, second = (statistics.stdev(side) for side in (eager, ours))
    apart = statistics.fmean(ours) - statistics.fmean(eager)
    return apart / (math.sqrt((first**2 + second**2) / len(eager)) or math.inf), second / first


def are_alike(t: float, deviations: float) -> bool:
    """Checks bounds that a correct implementation exceeds less than once in a thousand pairs of a dozen runs."""
    return abs(t) < 4 and 1 / 4 < deviations < 4


def dropping() -> dict[str, Callable[[], training_models.Made]]:
    """Returns three language models with their default dropout, and a ViT that drops features, attention and paths."""
    import small_networks

    vit = small_networks.timm_model(
        "vit_tiny_patch16_224", img_size=64, depth=2, proj_drop_rate=0.1, drop_path_rate=0.1
    )
    return {**{name: small_networks.MODELS[name] for name in ("bert", "gpt2", "t5")}, "vit-tiny": vit}


def run(output: record.Record, field: contestants.Field, only: str, dropout: bool) -> None:
    """Prints and records the table, a line per model."""
    torch.set_num_threads(1)
    models = dropping().items() if dropout else training_models.all_of_them()
    chosen = ((name, make) for name, make in models if only in name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (with_dropout if dropout else without_dropout)(output, field, chosen)


def without_dropout(output: record.Record, field: contestants.Field, models: Iterable[tuple[str, Any]]) -> None:
    """Compares gradients."""
    heads = f"{'':26}{'graphs':>7}{'eager':>9}{'ours':>9}{'doubles':>9}{'of bound':>9}{'blurred':>8}  worst parameter"
    about = f"steps: errors of gradients in {STEPS} steps, dynamlir through {field.door}, against doubles"
    output.part("steps", about, heads)
    for name, make in models:
        contestants.forget()
        errors = train(training_models.made(make), lambda module: field.enter("dynamlir", module))
        line = record.Line(name, {"steps": errors.steps}, notes=_plain())
        line.figures = {"eager": errors.eager, "ours": errors.ours, "doubles": errors.doubles}
        line.figures |= {"of bound": errors.worst, "blurred": float(errors.blurred), "graphs": float(_graphs())}
        line.right = errors.right
        figures = f"{_graphs():7}{errors.eager:9.1e}{errors.ours:9.1e}{errors.doubles:9.1e}{errors.worst:9.2f}"
        text = f"{name:26}{figures}{errors.blurred:8}  {errors.where}"
        output.add(line, text + ("" if line.right else "  WRONG"))


def with_dropout(output: record.Record, field: contestants.Field, models: Iterable[tuple[str, Any]]) -> None:
    """Compares distributions of losses."""
    heads = f"{'':26}{'graphs':>7}{'eager':>10}{'ours':>10}{'t':>8}{'s/s':>8}"
    about = f"steps with dropout: mean losses of {RUNS} runs of {STEPS} steps, dynamlir through {field.door}"
    output.part("steps-dropout", about, heads)
    for name, make in models:
        contestants.forget()
        made = training_models.made(make, dropout=True)
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
    """Returns the reasons that something ran plain, with their counts."""
    import dynamlir

    seen = {event.reason: str(event).splitlines()[0] for event in dynamlir.fallbacks()}
    return [f"plain, {count} times: {seen[reason]}" for reason, count in dynamlir.counters()["fallbacks"].items()]
