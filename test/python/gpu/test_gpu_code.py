"""Graphs of CUDA tensors are compiled to PTX on a machine without a GPU, and report why they then run in eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dynamlir
import fake_cuda
import pytest
import torch
from dynamlir.recording import Recording
from dynamlir.tracing import record
from suite import catalog
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

pytestmark = [
    pytest.mark.skipif(torch.cuda.is_available(), reason="fakes of CUDA tensors would meet the real driver"),
]

needs_ptxas = pytest.mark.skipif(not fake_cuda.PTXAS.is_file(), reason="triton, which brings ptxas, is not installed")


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMLIR_CUDA_LIBRARY", "libcuda-that-nobody-has.so")
    monkeypatch.setenv("DYNAMLIR_CUDA_CHIP", "sm_90")


class Sample(torch.nn.Module):
    """Pointwise chains, rows, columns and whole tensors, with several dtypes."""

    def forward(self, x: torch.Tensor, h: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Operations that become a kernel of each class."""
        scaled = functional.gelu(x) * torch.sigmoid(x.t().contiguous()) + 1
        return (
            torch.softmax(scaled, -1),
            functional.layer_norm(h, h.shape[-1:]).float(),
            scaled.sum(0),
            scaled.amax(),
            (n * 3 + 1) % 7,
            torch.cat([x, scaled[:, :3]], 1),
        )


def sample() -> tuple[torch.nn.Module, dict[str, Any]]:
    inputs = {
        "x": torch.randn(64, 64),
        "h": torch.randn(8, 96, dtype=torch.bfloat16),
        "n": torch.randint(9, (33,)),
    }
    return Sample(), inputs


GRAPHS: dict[str, Callable[[], tuple[torch.nn.Module, dict[str, Any]]]] = {
    "sample": sample,
    **{name: catalog.MODELS[name].make for name in catalog.DEMO},
}


@needs_ptxas
@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", GRAPHS)
def test_all_kernels_assemble(name: str, chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMLIR_CUDA_CHIP", chip)
    mode, module, inputs = fake_cuda.made_on_cuda(GRAPHS[name])
    event = fake_cuda.compiled(mode, module, inputs, tmp_path)
    assert event.reason == "no-cuda" and "libcuda-that-nobody-has.so" in event.message
    assert len(list(fake_cuda.assembled(tmp_path, chip))) >= 3
    stages = {path.name for path in tmp_path.rglob("*")}
    assert {"00-aten.mlir", "05-linalg.mlir", "06-gpu.mlir", "07-nvvm.mlir", "08-kernels.ptx"} <= stages
    first = next(tmp_path.rglob("00-aten.mlir")).read_text()
    assert 'dynamo.device = "cuda:0"' in first and f'chip = "{chip}">' in first


def test_products_and_convolutions_stay_with_the_library(tmp_path: Path) -> None:
    mode, module, inputs = fake_cuda.made_on_cuda(catalog.MODELS["resnet18"].make)
    fake_cuda.compiled(mode, module, inputs, tmp_path)
    planned = next(tmp_path.rglob("04-planned.mlir")).read_text()
    assert planned.count('"aten.convolution.default"') == 20 and "dynamo.convolution" not in planned
    # cuDNN's batch norm is generated in inference.
    assert "batch_norm" not in planned


def recorded(function: Callable[..., Any] | torch.fx.GraphModule, *inputs: Any) -> Recording:
    """A function's recording on fakes; a number represents a CUDA fake with that many rows."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        fakes = [torch.empty(value, 4, device="cuda") if isinstance(value, int) else value for value in inputs]
    return record(function if isinstance(function, torch.fx.GraphModule) else torch.fx.symbolic_trace(function), fakes)


def refusal(function: Callable[..., Any] | torch.fx.GraphModule, *inputs: Any) -> str:
    with pytest.raises(dynamlir.reasons.Fallback) as caught:
        recorded(function, *inputs)
    return caught.value.reason


def with_factory(
    join: Callable[..., Any] | None, factory: Callable[..., Any], *args: Any, **kwargs: Any
) -> torch.fx.GraphModule:
    """``join(x, factory(…))`` as a graph: tracing would call the factory immediately."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    made = graph.call_function(factory, args, kwargs)
    graph.output(graph.call_function(join, (x, made)) if join is not None else (x, made))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def test_tensors_of_a_graph_live_on_one_device() -> None:
    assert recorded(lambda x: x + 1, 3).device == torch.device("cuda", 0)
    assert refusal(lambda x, y: (x + 1, y + 1), 3, torch.ones(3)) == "mixed-devices"
    assert refusal(lambda x: (x + 1).cpu(), 3) == "mixed-devices"


def test_a_number_on_the_cpu_is_a_constant() -> None:
    made = recorded(with_factory(torch.mul, torch.full, (), 2.0), 3)
    assert made.device == torch.device("cuda", 0) and made.ops[0].schema == "aten.full.default"
    assert refusal(with_factory(None, torch.full, (), 2.0), 3) == "mixed-devices"


def test_a_device_without_a_number_is_the_graphs_own() -> None:
    made = recorded(with_factory(torch.add, torch.arange, 4, device="cuda"), 3)
    lines: list[Any] = []

    class Builder:
        def __init__(self, name: str) -> None:
            lines.append(name)

        def device(self, device: str) -> None:
            lines.append(device)

        def libraries(self, folders: Sequence[str]) -> None:
            pass

        def input(self, *args: Any) -> int:
            return 0

        def op(self, schema: str, args: list[Any], *rest: Any) -> list[int]:
            lines.append((schema, args))
            return [len(lines)]

        def output(self, *args: Any) -> None:
            pass

        def text(self) -> str:
            return ""

    made.emit(Builder)
    assert lines[1] == "cuda:0"
    (arange,) = [args for schema, args in lines[2:] if schema.startswith("aten.arange")]
    assert ("device", "cuda:0") in arange


def test_flash_attention_is_recorded_without_what_training_wants_of_it() -> None:
    def attend(x: torch.Tensor) -> Any:
        return torch.ops.aten._scaled_dot_product_flash_attention.default(x, x, x)[0]

    with FakeTensorMode():
        x = torch.empty(2, 4, 16, 32, dtype=torch.float16, device="cuda")
    (op,) = record(torch.fx.symbolic_trace(attend), [x]).ops
    assert [meta.dtype for meta in op.results][:3] == ["f16", "f32", "none"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [(torch.nn.functional.dropout, "gpu-random"), (lambda x: torch.rand_like(x) + x, "gpu-random")],
)
def test_what_a_gpu_gets_no_code_for_is_told(function: Callable[..., Any], reason: str, tmp_path: Path) -> None:
    mode = FakeTensorMode()
    with mode:
        x = torch.empty(4, 8, device="cuda")
    assert fake_cuda.compiled(mode, lambda x: function(x), {"x": x}, tmp_path).reason == reason


def test_chips_that_are_too_old_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMLIR_CUDA_CHIP", "sm_75")
    mode = FakeTensorMode()
    with mode:
        x = torch.empty(4, 8, device="cuda")
    event = fake_cuda.compiled(mode, lambda x: x + 1, {"x": x}, tmp_path)
    assert event.reason == "gpu-chip" and "sm_75" in event.message
