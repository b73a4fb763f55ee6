"""Checks on a GPU that the other tests cannot make: ``python -m pytest -q test/python/gpu/test_gpu.py``

Skipped without a CUDA device, or with one older than all chips that code is generated for. Needs a CUDA build of torch
and the package; the tests of models and OpInfo also need transformers, timm and expecttest.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import dynamlir
import opinfo_runner
import pytest
import torch
from harness import clone_tree
from suite import catalog
from torch.nn import functional

WHY = "there is no CUDA device of compute capability 8.0 or later"
HERE = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HERE, reason=WHY)]

DOORS: dict[str, Callable[..., Any]] = {
    "own capture": dynamlir.compile,
    "torch.compile": lambda function: torch.compile(function, backend="dynamlir"),
}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return DOORS[request.param]


def generated() -> dynamlir.CompileReport:
    """The latest report, which must be of a graph with generated kernels."""
    report = dynamlir.last_compile()
    assert report is not None and report.eager is None and report.kernels >= 1, dynamlir.explain_last()
    assert dynamlir.fallbacks() == []
    return report


POINTWISE_OR_REDUCTION = ("UnaryUfuncInfo", "BinaryUfuncInfo", "ReductionOpInfo")


def operators() -> list[Any]:
    """OpInfo's pointwise operators and reductions."""
    if not HERE:
        return []
    return [
        op for op in opinfo_runner.forward_ops(opinfo_runner.Samples()) if type(op).__name__ in POINTWISE_OR_REDUCTION
    ]


@pytest.mark.parametrize("op", operators(), ids=opinfo_runner.op_name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_operator(op: Any, dtype: torch.dtype) -> None:
    if dtype not in op.supported_dtypes("cuda"):
        pytest.skip(f"it does not take {dtype}")
    for number, sample in enumerate(op.sample_inputs("cuda", dtype, requires_grad=False)):
        if number == 3:
            break
        inputs = (sample.input, *sample.args)
        torch._dynamo.reset()
        compiled = torch.compile(lambda *args, **kwargs: op.op(*args, **kwargs), backend="dynamlir")
        with torch.no_grad():
            torch.manual_seed(0)
            wanted = op.op(*clone_tree(inputs), **sample.kwargs)
            torch.manual_seed(0)
            found = compiled(*clone_tree(inputs), **sample.kwargs)
        torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("name", catalog.DEMO)
def test_model(name: str, door: Callable[..., Any]) -> None:
    module, inputs = catalog.MODELS[name].make(batch=2)
    module.cuda()
    inputs = {key: value.cuda() if isinstance(value, torch.Tensor) else value for key, value in inputs.items()}
    with torch.no_grad():
        found, wanted = door(module)(**inputs), module(**inputs)
    found, wanted = (out if isinstance(out, torch.Tensor) else out.logits for out in (found, wanted))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    generated()


def test_half_precision_attention(door: Callable[..., Any]) -> None:
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).cuda().half().eval()
    x = torch.randn(2, 64, 128, device="cuda", dtype=torch.half)
    with torch.no_grad():
        torch.testing.assert_close(door(layer)(x), layer(x), rtol=1e-2, atol=1e-2)
    assert dynamlir.fallbacks() == []


def rows(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(functional.gelu(x) * 2, -1)


def test_work_goes_to_the_current_stream(door: Callable[..., Any]) -> None:
    """A call sees the stream's earlier work, and the stream's later work sees the call."""
    compiled = door(rows)
    x = torch.randn(2048, 2048, device="cuda")
    with torch.no_grad():
        compiled(x)
        streams = [torch.cuda.Stream() for _ in range(3)]
        torch.cuda.synchronize()
        made = []
        for number, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                # Long enough that work on another stream would come too early.
                torch.cuda._sleep(20_000_000)
                made.append(compiled(x + number).sum(-1))
        torch.cuda.synchronize()
    for number, sums in enumerate(made):
        torch.testing.assert_close(sums, rows(x + number).sum(-1))
    generated()


def test_calls_are_captured_in_a_cuda_graph(door: Callable[..., Any]) -> None:
    compiled = door(rows)
    x = torch.randn(256, 256, device="cuda")
    with torch.no_grad():
        compiled(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = compiled(x)
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(made, rows(x))


def test_nothing_is_kept_between_calls(door: Callable[..., Any]) -> None:
    compiled = door(lambda x: rows(x @ x).sum(0))
    x = torch.randn(1024, 1024, device="cuda")
    with torch.no_grad():
        compiled(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        for _ in range(3):
            compiled(x)
        gc.collect()
        assert torch.cuda.memory_allocated() == before


def test_out_of_memory_is_torchs_own_error(door: Callable[..., Any]) -> None:
    """Neither the graph nor eager gets its memory: the caller gets torch's exception, and the graph writes nothing."""

    def wasteful(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.add_(1)
        return torch.softmax(x.unsqueeze(-1) * torch.ones(1 << 14, device="cuda"), -1)

    _, total = torch.cuda.mem_get_info()
    x = torch.randn(total // (1 << 14), device="cuda")
    y = torch.zeros(4, device="cuda")
    with torch.no_grad(), pytest.raises(torch.OutOfMemoryError):
        door(wasteful)(x, y)
    # Eager adds before it fails; the compiled graph had written nothing when eager began.
    assert y.max().item() <= 1
    assert torch.ones(4, device="cuda").sum().item() == 4


def test_an_input_that_lies_otherwise_runs_as_eager(door: Callable[..., Any]) -> None:
    compiled = door(lambda x: torch.relu(x) + 1)
    memory = torch.randn(1025, device="cuda")
    with torch.no_grad():
        compiled(memory[:1024].clone())
        found = compiled(memory[1:])
    torch.testing.assert_close(found, torch.relu(memory[1:]) + 1)
    assert {event.reason for event in dynamlir.fallbacks()} <= {"misaligned"}


def test_writes_to_an_input(door: Callable[..., Any]) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y.sum(-1, keepdim=True))
        return (x * 2).softmax(-1)

    x, y = torch.randn(64, 256, device="cuda"), torch.randn(64, 256, device="cuda")
    ours, theirs = x.clone(), x.clone()
    with torch.no_grad():
        torch.testing.assert_close(door(step)(ours, y), step(theirs, y))
    torch.testing.assert_close(ours, theirs)
    assert ours._version == theirs._version
    generated()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one device")
def test_a_graph_runs_on_the_device_of_its_tensors(door: Callable[..., Any]) -> None:
    x = torch.randn(64, 64, device="cuda:1")
    with torch.no_grad():
        found = door(rows)(x)
    assert found.device == x.device
    torch.testing.assert_close(found, rows(x))
    generated()


def test_devices_that_differ_run_as_eager() -> None:
    with torch.no_grad():
        found = torch.compile(lambda x: (x + 1).cpu(), backend="dynamlir")(torch.ones(4, device="cuda"))
    assert found.device.type == "cpu" and {event.reason for event in dynamlir.fallbacks()} == {"mixed-devices"}
