"""``mode="max-autotune"``: measurements select the strategy of each product, and a record on disk stores them.

Results are right regardless of the record's content, and problems with the record show up only in the log.
"""

from __future__ import annotations

import json
import logging
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import forked
import pytest
import torch
from dynamlir import logs, native, reports
from dynamlir.autotune import measure, record
from dynamlir.autotune.problem import Problem
from dynamlir.reports import Product
from dynamlir.reports.plain_data import build
from products import close, exact, wide_vectors
from torch import Tensor
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def vectors() -> None:
    if not wide_vectors():
        pytest.skip("no processor with wide vectors: there is only the library")


@pytest.fixture(autouse=True)
def warnings_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_warned", set())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, which does not exist yet."""
    monkeypatch.setenv("DYNAMLIR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Makes measurements minimal; yields the list of measured problems."""
    measured: list[str] = []

    def noted(problem: Problem) -> record.Entry | None:
        measured.append(problem.text)
        return whole(problem)

    whole = measure.measure
    monkeypatch.setattr(measure, "measure", noted)
    monkeypatch.setattr(measure, "SECONDS", 0.001)
    monkeypatch.setattr(measure, "ROUNDS", (3, 3))
    yield measured


class Warned(logging.Handler):
    """Collects the warnings of the topic ``autotune``."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, entry: logging.LogRecord) -> None:
        self.messages.append(entry.getMessage())


@pytest.fixture
def warned() -> Iterator[list[str]]:
    handler, log = Warned(), logs.logger("autotune")
    log.addHandler(handler)
    yield handler.messages
    log.removeHandler(handler)


def layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(F.linear(x, w, b))


def operands(m: int = 6, k: int = 40, n: int = 24) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(m, k), torch.randn(n, k), torch.randn(n)


LAYER = "aten.addmm.default 24[1] 6x40[40,1] 40x24[1,40] followed"
"""The key of `layer` on `operands` in the record."""


def run(fn: Callable[..., Tensor], *args: Tensor, **options: Any) -> tuple[Tensor, tuple[Product, ...]]:
    """The result and the products of a function, compiled anew with measurements."""
    torch._dynamo.reset()
    reports.reset()
    with torch.no_grad():
        result = torch.compile(fn, backend="dynamlir", options={"max_autotune": True, **options})(*args)
    made = dynamlir.last_compile()
    assert made is not None and not dynamlir.fallbacks(), dynamlir.fallbacks()
    return result, made.products


def check(**options: Any) -> Product:
    """Checks that `layer` is right; returns the decision about it."""
    args = operands()
    result, (product,) = run(layer, *args, **options)
    close(result, exact(layer, *args), 40)
    assert product.problem == LAYER
    return product


def written(folder: Path) -> Path:
    """The one record in the folder."""
    (path,) = folder.glob("products-*.json")
    return path


def edit(path: Path, strategy: str, problem: str = LAYER) -> None:
    """Edits a record as by hand: this strategy for this problem, and no others."""
    content = json.loads(path.read_text())
    content["products"] = {problem: {"strategy": strategy, "milliseconds": {}}}
    path.write_text(json.dumps(content))


def externs() -> list[str]:
    """The operators of the latest graph that are extern calls."""
    made = dynamlir.last_compile()
    assert made is not None
    return [extern.schema for extern in made.externs]


def test_what_was_measured_is_remembered(folder: Path, quick: list[str]) -> None:
    first = check()
    assert first.source == "measured" and quick == [LAYER]
    assert {"library", first.strategy} <= first.milliseconds.keys() and all(t > 0 for t in first.milliseconds.values())
    second = check()
    assert second.source == "record" and quick == [LAYER], "nothing is measured again"
    assert (second.strategy, second.milliseconds) == (first.strategy, first.milliseconds)


def test_both_front_doors(folder: Path, quick: list[str]) -> None:
    """The ways a user would write it: by mode and by option."""
    args = operands()
    doors: list[Callable[..., Any]] = [
        torch.compile(layer, backend="dynamlir", mode="max-autotune"),
        torch.compile(layer, backend="dynamlir", mode="max-autotune-no-cudagraphs"),
        torch.compile(layer, backend="dynamlir", options={"mode": "max-autotune"}),
        dynamlir.compile(layer, mode="max-autotune"),
        dynamlir.compile(layer, options={"max_autotune": True}),
    ]
    for compiled in doors:
        torch._dynamo.reset()
        reports.reset()
        with torch.no_grad():
            close(compiled(*args), exact(layer, *args), 40)
        made = dynamlir.last_compile()
        assert made is not None and [product.problem for product in made.products] == [LAYER]
        assert LAYER in str(made) and "measure" in made.stages
    assert quick == [LAYER]


def test_other_modes_do_not_measure(folder: Path, quick: list[str]) -> None:
    for mode in ("default", "reduce-overhead"):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(layer, backend="dynamlir", mode=mode)(*operands())
        made = dynamlir.last_compile()
        assert made is not None and made.products == ()
    assert not quick and not folder.exists()


@pytest.mark.parametrize("options", [{"max_autotune": 1}, {"mode": "fast"}, {"cache_dir": 3}])
def test_options_that_are_none(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        dynamlir.compile(layer, options=options)


def test_another_process_measures_nothing(folder: Path, quick: list[str]) -> None:
    check()
    program = """
        import torch, dynamlir
        from dynamlir.autotune import measure
        measure.measure = None
        x, w, b = torch.randn(6, 40), torch.randn(24, 40), torch.randn(24)
        layer = lambda x, w, b: torch.relu(torch.nn.functional.linear(x, w, b))
        torch.set_num_threads(THREADS)
        with torch.no_grad():
            dynamlir.compile(layer, mode="max-autotune")(x, w, b)
        print([product.source for product in dynamlir.last_compile().products])
    """.replace("THREADS", str(torch.get_num_threads()))
    assert python(program) == "['record']"


def python(program: str, **environment: str) -> str:
    """The output of another process."""
    done = forked.python(textwrap.dedent(program), env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Checks that every strategy gives the right result.


def mm(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def scaled(a: Tensor, b: Tensor) -> Tensor:
    return torch.sigmoid(a @ b) * 2


def added(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.baddbmm(c, a, b)


def block(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(F.conv2d(x, w, b, stride=2, padding=1))


def pixels(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w)


def channels(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1, groups=w.shape[0])


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "convolution": (block, (torch.randn(2, 5, 13, 21), torch.randn(19, 5, 3, 3), torch.randn(19))),
    "windows of one": (pixels, (torch.randn(4, 16, 7, 7), torch.randn(24, 16, 1, 1))),
    "windows of single channels": (channels, (torch.randn(1, 6, 10, 17), torch.randn(6, 1, 3, 3))),
    "layer": (layer, operands(50, 70, 90)),
    "few lines": (layer, operands(3, 65, 33)),
    "columns side by side": (mm, (torch.randn(5, 40), torch.randn(40, 50))),
    "square": (scaled, (torch.randn(100, 90), torch.randn(90, 110))),
    "vector": (mm, (torch.randn(50, 40), torch.randn(40))),
    "batch": (torch.bmm, (torch.randn(3, 20, 30), torch.randn(3, 40, 30).transpose(1, 2))),
    "batch and bias": (added, (torch.randn(40), torch.randn(2, 9, 30), torch.randn(2, 30, 40))),
    "gaps": (mm, (torch.randn(20, 100)[:, 3:83], torch.randn(80, 64)[:, ::2])),
    "the same row again": (mm, (torch.randn(1, 40).expand(20, 40), torch.randn(40, 30))),
}


@pytest.mark.parametrize("name", CASES)
def test_each_way_is_right(name: str, folder: Path, quick: list[str]) -> None:
    fn, args = CASES[name]
    want, terms = exact(fn, *args), max(args[0].shape[-1], args[1][0].numel())
    result, (product,) = run(fn, *args)
    close(result, want, terms)
    assert product.source == "measured" and len(product.milliseconds) > 1 and "library" in product.milliseconds
    for strategy in product.milliseconds:
        edit(written(folder), strategy, product.problem)
        result, (chosen,) = run(fn, *args)
        close(result, want, terms)
        assert (chosen.strategy, chosen.source) == (strategy, "record")
        assert (strategy == "library") == any(product.problem.startswith(schema) for schema in externs()), strategy


def test_a_way_that_does_not_suit(folder: Path, quick: list[str]) -> None:
    """The record may name any strategy; where it does not apply, the cost model decides."""
    check()
    for strategy in ("dots-lhs-99", "stream-rhs-8", "panels-lhs-40"):
        edit(written(folder), strategy)
        assert check().strategy == strategy


def test_the_choice_is_seen_in_a_dump_and_replayed(folder: Path, quick: list[str], tmp_path: Path) -> None:
    check()
    args = operands()
    for strategy, number in (("panels-rhs-2", 0), ("library", 1)):
        edit(written(folder), strategy)
        dump = tmp_path / f"dump{number}"
        result, _ = run(layer, *args, dump=str(dump))
        assert f'dynamo.choices = {{"{LAYER}" = "{strategy}"}}' in (dump / "00-aten.mlir").read_text()
        replayed = dynamlir.load(dump / "00-aten.mlir")
        (again,) = replayed(*args)
        assert torch.equal(again, result)
        assert ("aten.addmm.default" in str(replayed.report()["externs"])) == (strategy == "library")
    marked = (tmp_path / "dump0" / "03-kernels.mlir").read_text()
    assert 'dynamo.choice = "panels-rhs-2"' in marked and "dynamo.choices" not in marked
    planned = re.findall(r"dynamo\.matmul = \{[^}]*\}", (tmp_path / "dump0" / "04-planned.mlir").read_text())
    assert 'form = "panels"' in planned[0] and 'lanes = "rhs"' in planned[0] and "vectors = 2" in planned[0]


# Checks that different problems are distinguished.


def test_another_layout_is_another_problem(folder: Path, quick: list[str]) -> None:
    x, w, b = operands()
    check()
    edit(written(folder), "library")
    turned = w.t().contiguous().t()
    _, (product,) = run(layer, x, turned, b)
    assert product.problem == LAYER.replace("[1,40]", "[24,1]") and product.source == "measured"
    _, (product,) = run(lambda x, w, b: F.linear(x, w, b), x, w, b)
    assert product.problem == LAYER.removesuffix(" followed") and product.source == "measured"
    assert check().strategy == "library"


def test_threads_have_records_of_their_own(folder: Path, quick: list[str]) -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            check()
    finally:
        torch.set_num_threads(before)
    assert quick == [LAYER, LAYER], "one for each number of threads"
    counts = [json.loads(path.read_text())["machine"]["threads"] for path in folder.glob("*.json")]
    assert sorted(counts) == [1, 2]


def test_what_changes_the_library_has_a_record_of_its_own(folder: Path, quick: list[str]) -> None:
    check()
    try:
        torch.set_float32_matmul_precision("medium")
        assert record.of_this_machine(None).path != written(folder)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_problem_that_is_too_large_is_left_to_the_model(
    folder: Path, quick: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "MOST_WORK", 100)
    product = check()
    assert (product.source, product.milliseconds) == ("model", {}) and not folder.exists()


def test_measuring_leaves_no_trace(folder: Path, quick: list[str]) -> None:
    """It changes neither the random state nor the reports, and the user's modes do not see it."""
    seen: list[str] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    layouts = (([24], [1]), ([6, 40], [40, 1]), ([40, 24], [1, 40]))
    problem = Problem(LAYER, "aten.addmm.default", layouts, (), True, 5760, ("library", "panels-lhs-1"))
    before, reports = torch.get_rng_state(), len(dynamlir.compiles())
    with Watch(), torch.inference_mode(), torch.autocast("cpu"), torch.device("meta"):
        entry = measure.measure(problem)
    assert entry is not None and set(entry.milliseconds) == {"library", "panels-lhs-1"}
    assert torch.equal(torch.get_rng_state(), before) and len(dynamlir.compiles()) == reports and not seen


def test_an_error_while_measuring_is_no_error(
    folder: Path, quick: list[str], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(measure, "race", broken)
    args = operands()
    result, products = run(layer, *args)
    close(result, exact(layer, *args), 40)
    assert products == () and len(warned) == 1 and "out of order" in warned[0]


def test_where_no_strategy_can_be_measured_it_is_said(
    folder: Path, quick: list[str], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the measurement itself must not look like strategies that do not apply."""

    def broken(*args: Any) -> None:
        raise TypeError("another signature")

    monkeypatch.setattr(measure, "_compiled", broken)
    for _ in range(2):
        assert check().source == "model"
    assert len(warned) == 1 and "no strategy can be measured" in warned[0] and "another signature" in warned[0]


def test_the_program_of_a_problem_has_that_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the cost model, not the chosen strategy, would decide what is measured."""
    met: list[Problem] = []
    monkeypatch.setattr(measure, "measure", met.append)
    for fn, args in CASES.values():
        run(fn, *args)
    assert len(met) == len(CASES)
    for problem in met:
        (again,) = (build(Problem, described) for described in native.module().problems(problem.trace()))
        assert again.text == problem.text and set(again.strategies) == set(problem.strategies)


def test_reset_forgets_what_is_only_in_memory(folder: Path, quick: list[str]) -> None:
    """The record on disk stays."""
    check()
    dynamlir.reset()
    assert check().source == "record"
    (path := written(folder)).unlink()
    path.mkdir()  # cannot be replaced by a file
    assert check().source == "measured" and check().source == "record"
    dynamlir.reset()
    assert check().source == "measured"
