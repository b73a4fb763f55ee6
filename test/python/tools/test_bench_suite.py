"""The benchmark suite itself: sampling, comparison, checks and records. No times are asserted."""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from suite import agree, catalog, chain, cli, contestants, fresh, gpu, kernels, measure, plot, record, targets

TINY = catalog.Entry(
    "torch",
    lambda sizes: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)),
    lambda batch: {"input": torch.randn(batch, 8)},
)


@pytest.fixture(autouse=True)
def as_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Restores the thread count and the cache folder, which a run sets for its process."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_the_interval_is_of_the_median_and_repeatable() -> None:
    noisy = torch.randn(400, generator=torch.Generator().manual_seed(0)).mul(0.05).add(0.8).tolist()
    few, many = (measure.interval(measure.median(seen), measure.draws(seen)) for seen in (noisy[:40], noisy))
    assert few.low < 0.8 < few.high and many.low < 0.8 < many.high
    assert many.high - many.low < few.high - few.low
    assert many == measure.interval(measure.median(noisy), measure.draws(noisy))


def test_a_machine_that_slows_down_leaves_the_ratio_alone() -> None:
    """Within a round all are slowed alike: the ratio of medians would be arbitrary here, that of rounds is not."""
    load = [1.0, 5.0, 2.0, 9.0, 1.5, 3.0, 1.0, 7.0]
    samples = {"ours": [0.5 * slow for slow in load], "theirs": load}
    assert measure.ratio(samples, "ours", "theirs") == measure.Estimate(0.5, 0.5, 0.5)


def test_one_slow_round_is_no_outlier_of_the_median() -> None:
    samples = {"ours": [1.0] * 20 + [100.0], "theirs": [2.0] * 21}
    assert measure.ratio(samples, "ours", "theirs") == measure.Estimate(0.5, 0.5, 0.5)


def test_the_mean_over_models_is_geometric() -> None:
    twice_and_half = [[2.0] * 9, [0.5] * 9]
    mean = measure.mean_ratio(twice_and_half)
    assert (mean.value, mean.low, mean.high) == pytest.approx((1, 1, 1))


def test_contestants_take_turns_and_who_begins_changes() -> None:
    ticks = itertools.count()
    turns: list[str] = []
    functions = {name: (lambda name=name: turns.append(name)) for name in "abc"}
    samples = measure.sample(functions, 0.0, lambda: float(next(ticks)))
    assert {len(seen) for seen in samples.values()} == {measure.ROUNDS}
    rounds = turns[-3 * measure.ROUNDS :]
    assert ["".join(rounds[at : at + 3]) for at in range(0, 12, 3)] == ["abc", "bca", "cab", "abc"]


def test_a_quick_call_is_repeated_within_a_sample() -> None:
    now = itertools.count(step=int(measure.SAMPLE * 1e9 / 10))
    calls: list[None] = []
    measure.sample({"quick": lambda: calls.append(None)}, 0.0, lambda: next(now) / 1e9)
    assert len(calls) >= 10 * measure.ROUNDS


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, 2.1], [1.0, 2.0], False),
        ([float("-inf"), 1.0], [float("-inf"), 1.0], True),
        ([float("nan"), 1.0], [float("nan"), 1.0], True),
        ([float("nan"), 1.5], [float("nan"), 1.0], False),
        ([float("nan"), 1.0], [0.0, 1.0], False),
        ([float("inf"), 1.0], [float("-inf"), 1.0], False),
        ([1.0], [1.0, 2.0], False),
    ],
)
def test_results_are_held_against_eagers(found: list[float], wanted: list[float], right: bool) -> None:
    error = agree.worst_error([torch.tensor(found)], [torch.tensor(wanted)])
    assert (error <= agree.TOLERANCE) == right


def test_missing_results_differ() -> None:
    assert agree.worst_error([], [torch.ones(1)]) == float("inf")
    assert agree.worst_error([torch.ones(1, dtype=torch.int64)], [torch.ones(1)]) == float("inf")


def test_the_limit_is_the_slower_of_memory_and_arithmetic() -> None:
    operands = [torch.empty(64, 64)]
    times = {"copy": 1.0, "product": 1.0}
    nothing = kernels.Kernel(torch.relu, [(64, 64)], instructions=0)
    assert kernels.limit(nothing, operands, operands[0], times) == (1.0, "memory")
    much = kernels.Kernel(torch.relu, [(64, 64)], instructions=kernels.SIDE**3)
    assert kernels.limit(much, operands, operands[0], times) == (64.0 * 64.0, "arithmetic")


def test_targets_are_read_off_a_record() -> None:
    def line(name: str, eager: float, **more: Any) -> dict[str, Any]:
        seen = {"value": eager, "low": eager - 0.1, "high": eager + 0.1}
        return {"name": name, "case": {"batch": 1, "threads": 1, **more}, "ratios": {"dynamlir/eager": seen}}

    models = {
        "lines": [line("quick", 0.7), line("as slow", 1.05), line("slow", 1.2)],
        "summary": {"dynamlir/inductor, batch 1, 1 thread(s)": {"value": 0.88}, "dynamlir/eager": {"value": 0.9}},
    }
    products = [{**line("cube", 1.0, rows=256), "figures": {"rate": 0.98}}]
    products += [{**line("rows", 0.7, rows=4), "figures": {"rate": 1.4}}]
    compiled = {"lines": [], "summary": {"dynamlir/inductor": {"value": 0.2}}}
    parts = {"models": models, "gemm": {"lines": products, "summary": {}}, "compile": compiled}
    found = {figure[0].split(":")[0]: targets.met(figure) for figure in targets.figures({"parts": parts})}
    assert found == {
        "models": True,
        "slow (batch 1, threads 1)": False,
        "cube (batch 1, threads 1)": True,
        "rows (batch 1, threads 1)": False,
        "cold compilations": False,
    }
    assert targets.table({"parts": {}}) == ""


def test_the_list_has_twelve_of_each_library() -> None:
    libraries = [entry.library for entry in catalog.MODELS.values()]
    assert (libraries.count("transformers"), libraries.count("timm")) == (12, 12)


def test_no_part_of_a_model_is_hidden_by_a_zero() -> None:
    """A layer scale of 1e-6 or a head of zeros would hide every error before it."""
    module = torch.nn.BatchNorm1d(4)
    torch.nn.init.zeros_(module.weight)
    catalog.draw_constants(module)
    for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
        assert tensor is not None and tensor.unique().numel() == 4
    assert bool((module.running_var > 0).all())


def run_tiny(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs the command on one small model, without inductor."""
    monkeypatch.setitem(catalog.MODELS, "tiny", TINY)
    quick = ["--no-inductor", "--model", "tiny", "--seconds", "0", "--threads", "1", "--batch", "1,3"]
    return cli.main([*arguments, *quick])


def test_a_run_writes_its_record_and_its_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written, drawn = tmp_path / "run.json", tmp_path / "run.svg"
    assert run_tiny(monkeypatch, "models", "profile", "--json", str(written), "--plot", str(drawn)) == 0
    document = json.loads(written.read_text())
    assert document["schema"] == record.SCHEMA
    assert {"processor", "cores", "torch"} <= document["machine"].keys()
    lines = document["parts"]["models"]["lines"]
    assert [line["case"] for line in lines] == [{"batch": 1, "threads": 1}, {"batch": 3, "threads": 1}]
    for line in lines:
        assert line["name"] == "tiny" and line["unit"] == "ms" and line["rounds"] >= measure.ROUNDS and line["right"]
        assert line["times"].keys() == {"eager", "dynamlir"}
        seen = line["ratios"]["dynamlir/eager"]
        assert seen["low"] <= seen["value"] <= seen["high"]
        assert line["errors"]["dynamlir"] <= agree.TOLERANCE and "notes" not in line
    assert "dynamlir/eager, batch 3, 1 thread(s)" in document["parts"]["models"]["summary"]
    assert {"product", "rest"} <= document["parts"]["profile"]["lines"][0]["figures"].keys()
    circles = [at for at in xml.etree.ElementTree.parse(drawn).iter() if at.tag.endswith("circle")]
    assert len(circles) == len(plot.COLOURS) + 4


def test_a_wrong_result_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def enter(field: contestants.Field, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **inputs: function(**inputs) + 1

    monkeypatch.setattr(contestants.Field, "enter", enter)
    assert run_tiny(monkeypatch, "models") == 1
    assert "dynamlir DIFFERS FROM EAGER" in capsys.readouterr().out


def test_a_fresh_process_compiles_and_weighs() -> None:
    pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    answer = fresh.ask({"model": "bert", "contestant": "dynamlir", "sizes": sizes}, {})
    assert answer["error"] <= agree.TOLERANCE and answer["graphs"] == 1 and answer["kernels"] > 0
    assert answer["notes"] == [] and answer["peak"] >= answer["start"] > 0


def test_a_gpus_kernel_is_held_against_a_copy_of_as_many_bytes() -> None:
    x = torch.empty(4, 4)
    # The copy and the kernel both read and write x once, so at the copy's speed they take equally long.
    assert gpu.share([x], x, copied=1.0, taken=1.0) == 1.0
    assert gpu.share([x, x], x, copied=1.0, taken=3.0) == 0.5
    kernel = gpu.Kernel(kernels.softmax, [(8, 16)])
    line, text = gpu.one(contestants.Field(inductor=False), "softmax", kernel, "cpu", 0.0)
    assert line.right and set(line.figures) == {"eager", "dynamlir"} and text.startswith("softmax")


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would measure")
def test_without_a_device_the_part_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    gpu.run(record.Record({}, None), contestants.Field(), "", 0.0)
    assert "there is no CUDA device" in capsys.readouterr().out


def test_a_chain_by_each_backend(tmp_path: Path) -> None:
    made = record.Record({}, tmp_path / "record.json")
    chain.run(made, contestants.Field(inductor=False), 0.0)
    whole, one, layers = made.document["parts"]["chain"]["lines"]
    assert whole["right"] and one["right"] and made.right
    assert set(whole["times"]) == {"plain", "python", "jit", "eager", "dynamlir"}
    assert len(layers["figures"]) == 4
    import dynamlir

    (graph,) = dynamlir.explain(chain.chain)(torch.ones(2, 2), torch.ones(2, 2)).graphs
    assert len(graph.graph.find_nodes(op="placeholder")) == 2
    assert len(graph.graph.nodes) - 3 == chain.OPERATIONS
