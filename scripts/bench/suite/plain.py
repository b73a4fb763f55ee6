"""`plain`: the parts of the available models that are not compiled, by reason.

Each model is called three times for inference, and trained for three steps: forward, loss and backward compiled with
what comes between, and an optimizer's step with it. Counted are graphs, breaks – plain Python between two graphs – and
calls or graphs that run plain as a whole, after the first call, which may create an optimizer's state, or a model's
tables.
"""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import contestants, generate, record

CALLS = 3


def small() -> dict[str, Callable[[], tuple[torch.nn.Module, dict[str, torch.Tensor]]]]:
    """Returns the small models of torch, timm and transformers."""
    import small_networks

    return small_networks.MODELS


def loss_of(result: Any) -> torch.Tensor:
    """Reduces a model's result to a number."""
    if isinstance(result, torch.Tensor):
        return result.square().mean()
    return next(value for value in result.values() if isinstance(value, torch.Tensor)).square().mean()


def answers(name: str) -> Callable[[], Any]:
    """Returns a compiled call."""
    import dynamlir

    model, inputs = small()[name]()
    compiled = dynamlir.compile(model.eval())

    def call() -> Any:
        with torch.no_grad():
            return compiled(**inputs)

    return call


def trains(name: str) -> Callable[[], Any]:
    """Returns a compiled training step."""
    import dynamlir

    model, inputs = small()[name]()
    optimizer = torch.optim.AdamW(model.train().parameters(), 1e-3)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(**inputs))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return dynamlir.compile(step)


def generates(name: str, cache: str) -> Callable[[], Any]:
    """Returns all of ``generate``, compiled."""
    model = generate.MODELS[name]().eval()
    return generate.entered("whole", model, torch.randint(3, 500, (1, generate.PROMPT)), cache)


def programs() -> dict[str, Callable[[], Callable[[], Any]]]:
    """Returns all programs, by name."""
    made: dict[str, Callable[[], Callable[[], Any]]] = {}
    for name in small():
        made[name] = lambda name=name: answers(name)
        made[f"{name}, a step"] = lambda name=name: trains(name)
    for name in generate.MODELS:
        for cache in generate.CACHES:
            made[f"{name} {cache}, generate"] = lambda name=name, cache=cache: generates(name, cache)
    return made


def run(output: record.Record, only: str) -> None:
    """Prints and records the table: a line per program, with the reasons after its first call."""
    torch.set_num_threads(1)
    output.part(
        "plain",
        f"plain: graphs, graph breaks and plain occasions of {CALLS} calls; then by reason, after the first call",
        f"{'':36}{'graphs':>8}{'breaks':>8}{'plain':>8}",
    )
    total: collections.Counter[str] = collections.Counter()
    for name, make in programs().items():
        if only in name:
            line, met = one(name, make)
            figures = "".join(f"{line.figures[what]:8}" for what in ("graphs", "breaks", "plain"))
            output.add(line, f"{name:36}{figures}")
            total.update(met)
    for reason, count in total.most_common():
        output.summary(reason, count, f"{count:6} {reason}")


def one(name: str, make: Callable[[], Callable[[], Any]]) -> tuple[record.Line, collections.Counter[str]]:
    """Returns one line, and the count of each reason."""
    import dynamlir

    contestants.forget()
    torch.manual_seed(0)
    line = record.Line(name, {}, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = make()
        call()
        first = collections.Counter(dynamlir.counters()["fallbacks"])
        for _ in range(CALLS - 1):
            call()
    counters = dynamlir.counters()
    plain = sum(counters["fallbacks"].values()) - counters.get("graph_breaks", 0)
    line.figures = {"graphs": counters.get("graphs", 0), "breaks": counters.get("graph_breaks", 0), "plain": plain}
    events = dynamlir.fallbacks()
    met = collections.Counter(counters["fallbacks"]) - first
    shown = collections.Counter(str(event).splitlines()[0][:150] for event in events)
    line.notes = [f"{count} x {text}" for text, count in shown.most_common(4)]
    return line, met
