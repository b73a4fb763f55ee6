"""Functions that are compiled alike share their entries: compiling a function again at each call compiles it once."""

from __future__ import annotations

import gc
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dynamlir
import pytest
import torch
from dynamlir.capture import sharing
from torch import nn

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


class Scale(nn.Module):
    """Equal to everything and not hashable, so it must be recognized by identity."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by * 2

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Caller:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def compiled_graphs() -> int:
    return int(dynamlir.counters()["graphs"])


@pytest.mark.parametrize(
    "model", [double, Scale(3), Scale(3).twice, Caller()], ids=["function", "module", "method", "object"]
)
def test_compiled_at_each_call(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for _ in range(12):
        assert torch.equal(dynamlir.compile(model)(X), model(X))
    assert compiled_graphs() == 1 and not dynamlir.fallbacks()


@pytest.mark.parametrize(
    "other",
    [
        lambda: dynamlir.compile(double, fullgraph=True),
        lambda: dynamlir.compile(double, dynamic=False),
        lambda: dynamlir.compile(double, mode="max-autotune"),
        lambda: dynamlir.compile(double, options={"threads": 1}),
        lambda: dynamlir.compile(double, options={"no_cache": True}),
        lambda: dynamlir.compile(double, backend="eager"),
        lambda: dynamlir.compile(double, backend=lambda graph, _: graph),
    ],
)
def test_asked_for_otherwise(other: Callable[[], Any]) -> None:
    ours = dynamlir.compile(double)
    ours(X)
    theirs = other()
    assert len(theirs._cache) == 0
    assert torch.equal(theirs(X), X * 2) and len(theirs._cache) == len(ours._cache) == 1


def test_what_may_not_be_shared_is_its_own(tmp_path: Path) -> None:
    """Options that demand a compilation, or a third-party backend that may keep any state."""
    wishes: list[dict[str, Any]] = [
        {"options": {"no_cache": True}},
        {"options": {"dump": str(tmp_path)}},
        {"backend": lambda graph, _: graph},
    ]
    for wish in wishes:
        for _ in range(2):
            compiled = dynamlir.compile(double, **wish)
            assert len(compiled._cache) == 0
            compiled(X)


def test_objects_have_their_own() -> None:
    modules = [Scale(by) for by in range(12)]
    compiled = [dynamlir.compile(module) for module in modules]
    methods = [dynamlir.compile(module.twice) for module in modules]
    for by in range(12):
        assert torch.equal(compiled[by](X), X * by) and torch.equal(methods[by](X), X * by * 2)
        assert len(compiled[by]._cache) == len(methods[by]._cache) == 1
    assert not dynamlir.fallbacks()


def test_closures_of_one_code_have_their_own() -> None:
    def scaled(by: int) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: x * by

    for by in range(20):
        assert torch.equal(dynamlir.compile(scaled(by))(X), X * by)
    assert not dynamlir.fallbacks(), "those of functions that are gone do not count"


def test_reset_is_for_all_of_them() -> None:
    first, second = dynamlir.compile(double), dynamlir.compile(double)
    first(X)
    assert len(second._cache) == 1
    second.reset()
    assert len(first._cache) == 0
    assert torch.equal(first(X), X * 2) and compiled_graphs() == 2


def test_entries_outlive_what_uses_them_but_not_the_function() -> None:
    def local(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    dynamlir.compile(local)(X)
    gc.collect()
    assert len(dynamlir.compile(local)._cache) == 1
    gone = weakref.ref(local)
    gc.disable()
    try:
        del local
        assert gone() is None
    finally:
        gc.enable()


def class_of_a_static_method() -> tuple[Any, Callable[..., Any]]:
    class Made:
        @staticmethod
        def call(x: torch.Tensor) -> Any:
            return Made, x + 1

    return Made, Made.call


def class_itself() -> tuple[Any, Callable[..., Any]]:
    class Made:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x + 1

    return Made, Made


def named_tuple() -> tuple[Any, Callable[..., Any]]:
    class Pair(NamedTuple):
        a: Any
        b: int

    Pair.call = lambda x: Pair(x + 1, 2)  # type: ignore[attr-defined]
    return Pair, Pair.call  # type: ignore[attr-defined]


def module_of_a_class() -> tuple[Any, Callable[..., Any]]:
    class Output:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> Output:
            return Output(x + 1)

    Output.model = Model()  # type: ignore[attr-defined]
    return Output.model, Output.model  # type: ignore[attr-defined]


def met_by_c_code() -> tuple[Any, Callable[..., Any]]:
    class Made:
        pass

    Made.call = lambda x: (Made.__mro__, type(Made()), x + 1)  # type: ignore[attr-defined]
    return Made, Made.call  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make",
    [class_of_a_static_method, class_itself, named_tuple, module_of_a_class, met_by_c_code],
    ids=lambda f: f.__name__,
)
def test_nothing_keeps_the_class_of_a_result_alive(make: Callable[[], tuple[Any, Callable[..., Any]]]) -> None:
    """The entry creates an instance of the class, and the class refers to the compiled function."""
    made, call = make()
    compiled = dynamlir.compile(call)
    for _ in range(2):
        compiled(X)
    alive = weakref.ref(made)
    del made, call, compiled
    gc.collect()
    assert alive() is None


def test_a_result_of_a_class_that_is_gone() -> None:
    """The entry is freed with the class, and the next call creates an instance of the new one."""
    scope: dict[str, Any] = {}
    exec("class Made:\n    pass\n", scope)

    def function(x: torch.Tensor) -> Any:
        made = scope["Made"]()
        made.x = x + 1
        return made

    compiled = dynamlir.compile(function)
    first = type(compiled(X))
    exec("class Made:\n    pass\n", scope)
    assert first is not scope["Made"]
    assert type(compiled(X)) is scope["Made"]
    old = weakref.ref(first)
    del first
    gc.collect()
    assert old() is None
    assert type(compiled(X)) is scope["Made"]


def test_methods_that_go_leave_nothing_behind() -> None:
    """The object lives on, its method does not."""
    held = Caller()
    before = len(sharing._known)
    for factor in range(3):
        method = types.MethodType(lambda self, x, factor=factor: x * factor, held)
        assert torch.equal(dynamlir.compile(method)(X), X * factor)
        del method
    gc.collect()
    assert len(sharing._known) == before


def test_a_function_with_other_code_compiles_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert torch.equal(dynamlir.compile(function)(X), X + 1)
    function.__code__ = (lambda x: x + 2).__code__
    before = compiled_graphs()
    for _ in range(3):
        assert torch.equal(dynamlir.compile(function)(X), X + 2)
    assert compiled_graphs() == before + 1


@pytest.mark.parametrize("backend", ["dynamlir", "eager"])
def test_nothing_keeps_a_module_alive(backend: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    weight, gone = weakref.ref(model[0].weight), weakref.ref(model)
    dynamlir.compile(model, backend=backend)(X)
    dynamlir.compile(model.forward, backend=backend)(X)
    del model
    gc.collect()
    assert gone() is None and weight() is None


def test_other_code() -> None:
    def local(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    old = dynamlir.compile(local)
    assert torch.equal(old(X), X + 1)
    local.__code__ = double.__code__
    for _ in range(2):
        assert torch.equal(dynamlir.compile(local)(X), X * 2)
    assert len(old._cache) == 1


def test_the_limit_counts_once() -> None:
    with dynamlir.config.patch(recompile_limit=2):
        for size in (1, 2, 1, 2):
            dynamlir.compile(double, dynamic=False)(torch.ones(size))
        assert not dynamlir.fallbacks()
        with pytest.warns(dynamlir.PlainRunWarning, match="cache-limit"):
            dynamlir.compile(double, dynamic=False)(torch.ones(3))


def test_threads() -> None:
    def work() -> None:
        with torch.no_grad():
            for _ in range(20):
                assert torch.equal(dynamlir.compile(double)(X), X * 2)

    seen: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:
            seen.append(error)

    threads = [threading.Thread(target=watched) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not seen and len(dynamlir.compile(double)._cache) >= 1


def test_a_reset_releases_at_once() -> None:
    def local(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = dynamlir.compile(local)
    gone = weakref.ref(local)
    gc.disable()
    try:
        compiled.reset()
        del compiled, local
        assert gone() is None
    finally:
        gc.enable()
