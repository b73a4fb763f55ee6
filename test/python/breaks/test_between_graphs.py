"""Between graphs: functions called there, observers, reports to the user; and breaks at every instruction."""

from __future__ import annotations

import functools
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch
from between import X, alike, goes_on, said, say

HERE = __file__


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    yield


# -- functions that are called between graphs


class Talks(torch.nn.Module):
    """A module that needs Python in the middle of its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        say("forward")
        return torch.relu(y)


def test_modules_are_compiled_around_a_break_in_one_of_them() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), Talks(), torch.nn.Linear(6, 6), torch.nn.Tanh())
    compiled = dynamlir.compile(model)
    for _ in range(3):
        said.clear()
        alike(compiled(X), model(X))
        assert [entry[0] for entry in said] == ["forward", "forward"]
    assert dynamlir.counters()["graphs"] == 2


def test_a_break_in_a_callee_ends_one_graph_and_begins_one() -> None:
    def helper(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        say("helper")
        return y - 1

    def function(x: torch.Tensor) -> torch.Tensor:
        return helper(x + 1) * 2

    compiled = goes_on(function, X, graphs=2)
    assert len(compiled._cache) == 1


def test_recursion_with_breaks() -> None:
    def function(x: torch.Tensor, depth: int) -> torch.Tensor:
        if depth == 0:
            return x
        say(depth)
        return function(x + depth, depth - 1) * 2

    goes_on(function, X, 6)


def test_what_is_disabled_stays_python_s_with_all_that_it_calls() -> None:
    def beneath(x: torch.Tensor) -> torch.Tensor:
        return x * 5

    @torch.compiler.disable
    def left_alone(x: torch.Tensor) -> torch.Tensor:
        return beneath(x) + 1

    def function(x: torch.Tensor) -> torch.Tensor:
        return left_alone(x + 1) * 2

    goes_on(function, X, graphs=2)


def test_keywords_and_defaults_at_a_break() -> None:
    def function(x: torch.Tensor, *rest: Any, scale: float = 2.0, **named: Any) -> torch.Tensor:
        say(*rest, **{}) if named["talks"] else None
        return x * scale + sum(rest)

    goes_on(lambda x: function(x, 1, 2, talks=True), X)
    goes_on(functools.partial(function, scale=3.0, talks=True), X)


def test_another_compiled_function_between() -> None:
    inner = dynamlir.compile(lambda x: x * 7)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        say("before")
        return inner(y) - 1

    compiled = dynamlir.compile(function)
    for _ in range(3):
        alike(compiled(X), (X + 1) * 7 - 1)


def train(model: Any, optimizer: Any, scheduler: Any, loader: Any, metrics: dict[str, Any]) -> None:
    """A typical training program."""
    model.train()
    for epoch in range(2):
        total = 0.0
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            scores = model(x)
            loss = torch.nn.functional.cross_entropy(scores, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
            metrics.setdefault("right", []).append((scores.argmax(1) == y).float().mean().item())
            if i % 2 == 0:
                print(f"{epoch} {i} {loss.item():.3f}")
        scheduler.step()
        metrics[f"epoch {epoch}"] = total / len(loader)
        metrics["rate"] = optimizer.param_groups[0]["lr"]


def test_a_whole_training_program(capsys: pytest.CaptureFixture[str]) -> None:
    def made() -> tuple[Any, ...]:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 3)]
        model = torch.nn.Sequential(*layers).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        data = torch.utils.data.TensorDataset(torch.randn(40, 6).double(), torch.randint(0, 3, (40,)))
        loader = torch.utils.data.DataLoader(data, batch_size=8)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5), loader

    theirs, ours = made(), made()
    wanted, found = {}, {}
    train(*theirs, wanted)
    printed = capsys.readouterr().out
    dynamlir.compile(train)(*ours, found)
    assert capsys.readouterr().out == printed
    assert list(found) == list(wanted) and found["rate"] == wanted["rate"] and found["right"] == wanted["right"]
    assert found["epoch 1"] == pytest.approx(wanted["epoch 1"])
    for mine, other in zip(ours[0].state_dict().values(), theirs[0].state_dict().values()):
        alike(mine, other)
    assert dynamlir.counters()["graphs"] > 2


# -- observers


def test_loggers_and_warnings_see_the_user_s_line(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("between")

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        log.warning("here")
        return y * 2

    compiled = dynamlir.compile(function)
    for _ in range(2):
        alike(compiled(X), function(X))
    line = function.__code__.co_firstlineno + 2
    assert {(record.funcName, record.lineno) for record in caplog.records} == {("function", line)}
    assert "warning() of logging" in [event.message for event in dynamlir.fallbacks()]


def test_a_trace_function_that_is_set_on_the_way_sees_the_rest() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        say("now")
        sys.settrace(lambda *event: None)
        y = y * 2
        sys.settrace(None)
        return y + 1

    goes_on(function, X)
    assert sys.gettrace() is None


def test_threads_at_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for i in range(5):
            x = x + i
            say(i)
        return x * 2

    compiled = dynamlir.compile(function)
    results: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(compiled(X))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        alike(result, (X + 10) * 2)
    assert len(results) == 6


def test_arguments_are_let_go() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        say("holds nothing")
        return y * 2

    compiled = dynamlir.compile(function)
    for _ in range(3):
        x = X.clone()
        watched = weakref.ref(x)
        result = compiled(x)
        del x
        said.clear()
        gc.collect()
        assert watched() is None
        alike(result, (X + 1) * 2)


# -- reports to the user


def test_a_break_is_told_once_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamlir.config, "on_plain", "warn")

    def helper(x: torch.Tensor) -> torch.Tensor:
        say("loud")
        return x * 2

    def function(x: torch.Tensor) -> torch.Tensor:
        return helper(x + 1) + 1

    compiled = dynamlir.compile(function)
    with pytest.warns(dynamlir.PlainRunWarning, match="compiled in parts, with plain Python between") as told:
        for _ in range(3):
            compiled(X)
    assert len([warning for warning in told if warning.category is dynamlir.PlainRunWarning]) == 1


def test_fullgraph_raises_for_the_same_reason() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print(end="")
        return y * 2

    with pytest.raises(dynamlir.Unsupported, match="print"):
        dynamlir.compile(function, fullgraph=True)(X)


def test_on_plain_error_raises_before_anything_has_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamlir.config, "on_plain", "error")
    seen: list[int] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        print(end="")
        return x * 2

    compiled = dynamlir.compile(function)
    for _ in range(2):
        with pytest.raises(dynamlir.Unsupported, match="compiled in parts"):
            compiled(X)
    assert seen == []


def test_an_explanation_has_all_pieces() -> None:
    def helper(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        say("helper")
        return y - 1

    def function(x: torch.Tensor) -> torch.Tensor:
        y = helper(x + 1)
        print(end="")
        return y * 2

    explanation = dynamlir.explain(function)(X)
    assert explanation.graph_count == 3
    assert [reason.split()[0] for reason, _ in explanation.break_reasons] == ["c-function", "print"]
    assert explanation.break_reasons[1][1][0][:3] == (HERE, function.__code__.co_firstlineno + 2, "function")
    assert len(explanation.ops) == 4


# -- breaks everywhere


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_a_break_after_every_few_instructions(every: int) -> None:
    class Box:
        total = 0

    def helper(x: torch.Tensor, *, scale: int) -> torch.Tensor:
        with torch.no_grad():
            return x * scale

    def function(x: torch.Tensor) -> tuple[Any, ...]:
        box = Box()
        found = {}
        for i, name in enumerate(("a", "b", "c")):
            try:
                box.total += i
                found[name] = [helper(x, scale=j) + k for j, k in zip(range(2), (3, 4))]
                if i == 1:
                    raise ValueError(name)
            except ValueError as error:
                found[str(error)] = f"{error!r:>20}"
            finally:
                x = x + 1
        first, *rest = (lambda y=x: (y, y * 2, y if y is x else None))()
        return found, box.total, first, rest, 0 < box.total <= 3 and x.shape

    with dynamlir.config.patch(break_every=every):
        goes_on(function, X, calls=3)
