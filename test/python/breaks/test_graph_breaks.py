"""Frames in pieces: where Python has to run something, the graph ends, and the next one begins after it."""

from __future__ import annotations

import copy
import gc
import random
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import torch
from between import X, alike, goes_on, outcome, said, say

HERE = __file__


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    yield


# -- places where graphs end


def test_a_print_between_two_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print("shape", tuple(y.shape))
        return y * 2

    goes_on(function, X, graphs=2)
    assert capsys.readouterr().out == "shape (6,)\n" * 8
    (event,) = dynamlir.fallbacks()
    assert event.reason == "print" and event.line == (HERE, function.__code__.co_firstlineno + 2, "function", 9)


def test_each_branch_that_data_decides_is_a_graph() -> None:
    def toy_example(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    compiled = dynamlir.compile(toy_example)
    for at in range(10):
        b = X - 2 * (at % 2)
        alike(compiled(X, b), toy_example(X, b))
    assert dynamlir.counters()["graphs"] == 3 and len(compiled._cache) == 1


def test_a_number_that_is_read() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        peak = x.max().item()
        return x / (peak + 1e-6) if peak > 0 else x

    goes_on(function, X, graphs=2)


def test_a_loop_has_one_graph_for_its_body_and_one_for_what_follows() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for i in range(12):
            say(i)
            x = x + 1
        return x * 3

    goes_on(function, X, graphs=2)


def test_a_loop_that_data_ends() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        count = 0
        while x.sum() < 40:
            x = x + 1
            count += 1
        else:
            say("else")
        return x, count

    goes_on(function, X)


def test_break_and_continue() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for i in range(10):
            x = x + i
            if i == 2:
                say("skipped")
                continue
            if x.sum() > 20:
                break
            x = x * 2
        return x

    goes_on(function, X)


def test_what_c_code_calls_for_each_item() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        smallest = sorted([x.sum(), x.max(), x.min()], key=lambda value: value.item())[0]
        return smallest * x

    goes_on(function, X)


def test_comprehensions_are_filled_by_python() -> None:
    def function(x: torch.Tensor) -> tuple[Any, ...]:
        numbers = [x * i for i in range(3) if say(i) is None]
        return numbers, {i: x + i for i in range(2) if say(i) is None}, tuple(x - i for i in range(2) if say(i) is None)

    goes_on(function, X)


def test_a_generator_is_half_consumed() -> None:
    def rows(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for i in range(4):
            say("yields", i)
            yield x * i

    def function(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        made = rows(x)
        first = next(made)
        say("between")
        return first + next(made), list(made)

    goes_on(function, X)


def test_an_iterator_that_is_given_is_not_advanced_by_the_capture() -> None:
    def function(x: torch.Tensor, numbers: Iterator[int]) -> tuple[torch.Tensor, list[int]]:
        total = x * next(numbers)
        for number in numbers:
            say(number)
            total = total + number
            if number == 3:
                break
        return total, list(numbers)

    goes_on(function, X, iter([1, 2, 3, 4, 5]))


# -- exceptions, finally, with


def test_an_exception_that_is_caught() -> None:
    def function(x: torch.Tensor, text: str) -> tuple[torch.Tensor, str]:
        y = x * 2
        try:
            say(text)
            number = int(text)
            y = y * number
        except ValueError as error:
            y, text = y - 1, str(error)
        else:
            text = "else"
        finally:
            say("finally")
        return y + 1, text

    goes_on(function, X, "none")
    goes_on(function, X, "3")


def test_an_exception_that_leaves_the_frame_has_its_lines() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        say("before")
        raise KeyError(tuple(y.shape))

    goes_on(function, X)


def test_what_is_raised_again_knows_what_it_was_raised_from() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            try:
                say("inner")
                raise ValueError("first")
            finally:
                x = x + 1
                say("cleans up")
        except ValueError as error:
            raise TypeError("second") from error

    compiled = goes_on(function, X)
    with pytest.raises(TypeError) as found:
        compiled(X)
    assert str(found.value.__cause__) == "first"


def test_an_exception_is_handled_where_python_looks_for_it() -> None:
    """Also where the graph would have raised it: Python raises the exception itself if the handler breaks."""

    def again(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        try:
            y = y + {}["key"]
        except KeyError:
            say("handles")
            raise
        return y

    def another(x: torch.Tensor) -> torch.Tensor:
        try:
            raise KeyError("first")
        except KeyError:
            say(str(sys.exc_info()[1]), traceback.format_exc().count("first"))
            int("none")
        return x + 1

    goes_on(again, X)
    compiled = goes_on(another, X)
    with pytest.raises(ValueError) as found:
        compiled(X)
    assert isinstance(found.value.__context__, KeyError)


def test_a_device_that_spans_a_break_is_left() -> None:
    def function(x: torch.Tensor) -> tuple[str, str, torch.Tensor]:
        with torch.device("meta"):
            first = torch.ones(2)
            say("inside")
            second = torch.ones(2)
        return first.device.type, second.device.type, x + 1

    goes_on(function, X)
    assert torch.ones(1).device.type == "cpu" and torch._C._len_torch_function_stack() == 0


def test_a_context_manager_that_swallows() -> None:
    class Swallows:
        def __enter__(self) -> list[str]:
            say("enters")
            self.seen: list[str] = []
            return self.seen

        def __exit__(self, kind: Any, value: Any, where: Any) -> bool:
            self.seen.append(kind.__name__ if kind else "nothing")
            return True

    def function(x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
        with Swallows() as seen:
            x = x + 1
            say("inside")
            x = x * 2
            raise LookupError
        return x, seen

    goes_on(function, X)


def test_state_of_the_thread_spans_breaks() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        w = torch.ones(6, requires_grad=True)
        with torch.no_grad():
            y = x * w
            say(y.requires_grad, torch.is_grad_enabled())
            z = y * w
        with torch.autocast("cpu", dtype=torch.bfloat16):
            say("autocast")
            product = torch.mm(z[None], w.detach()[:, None])
        return z * w, y, product

    goes_on(function, X)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_a_lock_is_python_s() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        lock = threading.Lock()
        with lock:
            y = x + 1
            say(lock.locked())
        return y * 2

    goes_on(function, X)


# -- objects that live on


def test_objects_are_the_same_ones_after_a_break() -> None:
    class Box:
        pass

    def function(x: torch.Tensor) -> tuple[Any, ...]:
        box, items = Box(), [x + 1]
        box.items = items
        alias, pair = items, (box, items)
        say(len(items))
        items.append(x * 2)
        return len(box.items), alias is items, pair[0] is box, pair[1] is alias, box.items[0] is alias[0], alias

    goes_on(function, X)


def test_views_stay_views() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x + 1
        view = base[1:4]
        say("between")
        view.mul_(10)
        x.add_(1)
        say("again")
        return base, view, x * 2

    goes_on(function, X)


def test_variables_of_inner_functions_are_shared() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        factor, calls = x * 2, 0

        def inner(y: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            say("inner", calls)
            return y + factor

        first = inner(x)
        factor = factor + 1
        return first, inner(x), torch.tensor(calls)

    goes_on(function, X)


def test_functions_that_the_frame_makes_are_known_by_their_code() -> None:
    """They are new objects in each call; the functions whose variables they share are compared."""

    def function(x: torch.Tensor, other: Any) -> tuple[torch.Tensor, Any]:
        factor = x * 2

        def inner(y: torch.Tensor, plus: int = 1) -> torch.Tensor:
            return y * factor + plus

        say("made")
        if other is not None:
            inner = other
        say("chosen")
        factor = factor + 1
        return inner(x), inner

    compiled = dynamlir.compile(function)
    ours = theirs = None
    for turn in range(8):
        x = X + turn
        mine, ours = compiled(x, ours if turn % 3 else None)
        wanted, theirs = function(x, theirs if turn % 3 else None)
        alike(mine, wanted)
    assert dynamlir.counters()["graphs"] <= 4


def test_a_variable_that_is_deleted_stays_so() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        y = x + 1
        del x
        say("deleted")
        try:
            return x * 2, ""  # noqa: F821
        except UnboundLocalError as error:
            return y, str(error)

    goes_on(function, X)


def test_locals_are_seen_where_they_are_looked_at() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
        dead = x + 1
        y = dead * 2
        say("break")
        names = sorted(locals())
        return y + 1, names

    goes_on(function, X)


variables = locals


def test_locals_are_seen_under_another_name() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
        say("break")
        y = x + 1
        z = y * 2
        return z, sorted(variables())

    goes_on(function, X)


def test_a_frame_is_looked_at_where_it_stands() -> None:
    def function(x: torch.Tensor) -> tuple[int, torch.Tensor, list[str]]:
        frame = sys._getframe()
        first = frame.f_lineno
        y = x + 1
        second = frame.f_lineno
        return second - first, y, sorted(frame.f_locals)

    goes_on(function, X)


def test_what_has_died_has_died() -> None:
    class Loud:
        def __del__(self) -> None:
            said.append("dies")

    def function(x: torch.Tensor) -> torch.Tensor:
        loud = Loud()
        y = x + 1
        say("alive")
        del loud
        say("dead")
        return y * 2

    goes_on(function, X)


def test_what_was_there_while_an_exception_was_handled_dies() -> None:
    class Held:
        pass

    held: list[Any] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        thing = Held()
        held.append(weakref.ref(thing))
        try:
            raise KeyError("handled")
        except KeyError:
            say("break")
            y = x * 2
        return y

    gc.collect()
    gc.disable()
    try:
        compiled = dynamlir.compile(function)
        for _ in range(3):
            compiled(X)
            assert held.pop()() is None
    finally:
        gc.enable()


def test_a_method_that_is_bound_before_a_break_changes_the_tensor_of_the_graph() -> None:
    def inner(x: torch.Tensor, flag: bool) -> torch.Tensor:
        return x.requires_grad_(say("break") is None and flag)

    def function(x: torch.Tensor) -> Any:
        made = inner(torch.ones(4), True)
        return made, made.requires_grad, (x + 1).mul(len(said))

    goes_on(function, X)


def test_attributes_are_written_before_python_looks() -> None:
    class Counter:
        count = 0

    counter = Counter()

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        counter.count += 1
        say(counter.count)
        counter.count += 10
        return y * 2

    compiled = dynamlir.compile(function)
    for turn in range(20):
        counter.count = turn
        said.clear()
        alike(compiled(X), (X + 1) * 2)
        assert said[0][2] == turn + 1 and counter.count == turn + 11
    assert dynamlir.counters()["graphs"] == 2


def test_random_numbers_are_drawn_in_order() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, float, torch.Tensor]:
        first = x + torch.rand(6)
        number = random.random()
        return first, number, torch.rand(6) * number

    with dynamlir.config.patch(eager_random=True):
        compiled = dynamlir.compile(function)
        for seed in range(3):
            torch.manual_seed(seed)
            random.seed(seed)
            theirs = function(X)
            torch.manual_seed(seed)
            random.seed(seed)
            alike(compiled(X), theirs)


def test_a_method_that_super_has_found_is_called_after_a_break() -> None:
    class Noted(list[Any]):
        def append(self, item: Any) -> None:
            append = super().append
            say("before", item)
            append(item * 2)

        def below(self) -> Any:
            return super().append

    def function(x: torch.Tensor) -> tuple[Any, ...]:
        items = Noted()
        items.append(x + 1)
        below = items.below()
        below(x * 3)
        return len(items), list(items), below

    _, items, below = function(X)
    compiled = dynamlir.compile(function)
    for _ in range(3):
        ours = compiled(X)
        alike(ours[:2], (2, items))
        ours[2](X)
        assert ours[2].__self__[2] is X and ours[2].__qualname__ == below.__qualname__
    one, other = random.Random(1), random.Random(1)

    def copied(x: torch.Tensor, source: random.Random) -> torch.Tensor:
        made = random.Random()
        made.setstate(source.getstate())
        return x + made.random()

    alike(dynamlir.compile(copied)(X, one), copied(X, other))


def test_gradients_go_through_breaks() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x * w)
        say("between")
        y = y * w
        say("again")
        return (y * y).sum()

    compiled = dynamlir.compile(function)
    for _ in range(3):
        ours, theirs = (torch.ones(6).requires_grad_() for _ in range(2))
        compiled(X, ours).backward()
        function(X, theirs).backward()
        alike(ours.grad, theirs.grad)
    assert dynamlir.counters()["graphs"] == 3


def test_a_training_loop_with_a_log() -> None:
    def step(model: torch.nn.Module, optimizer: Any, log: list[float], x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        log.append(loss.item())
        return loss.detach()

    torch.manual_seed(1)
    first = torch.nn.Linear(6, 3)
    second = copy.deepcopy(first)
    logs: list[list[float]] = [[], []]
    compiled = dynamlir.compile(step)
    runs = [
        (compiled, first, torch.optim.SGD(first.parameters(), lr=0.1), logs[0]),
        (step, second, torch.optim.SGD(second.parameters(), lr=0.1), logs[1]),
    ]
    for at in range(5):
        results = [run(model, optimizer, log, X + at) for run, model, optimizer, log in runs]
        alike(*results)
    assert logs[0] == pytest.approx(logs[1]) and all(type(loss) is float for loss in logs[0])
    for ours, theirs in zip(first.parameters(), second.parameters()):
        alike(ours, theirs)


@pytest.mark.parametrize("shared", [False, True])
def test_a_range_for_a_profiler_ends_where_python_leaves_it(shared: bool) -> None:
    known = torch.autograd.profiler.record_function("known")

    def function(x: torch.Tensor, fails: bool) -> torch.Tensor:
        with known if shared else torch.profiler.record_function("own"):
            y = x + 1
            say("break")
            z = y * 2
            if fails:
                raise KeyError("inside")
        return z

    compiled = dynamlir.compile(function)
    for fails in (False, True, True, False):
        alike(outcome(compiled, X, fails), outcome(function, X, fails))
