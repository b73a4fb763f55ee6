"""GPU kernels run: the mock driver interprets their PTX on the CPU's memory, with eager's numbers as results.

Everything except the hardware is real: kernels are built for a chip, and loaded and launched through the driver's
interface, between calls of torch's own operators.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import forked
import on_chip
import pytest
import torch
from suite import catalog
from torch.nn import functional

MOCK = on_chip.mock()
pytestmark = [
    pytest.mark.skipif(MOCK is None, reason=f"{on_chip.LIBRARY} has not been built"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

DOORS: dict[str, Callable[..., Any]] = {
    "own capture": dynamlir.compile,
    "torch.compile": lambda function, **options: torch.compile(function, backend="dynamlir", **options),
}


@pytest.fixture(autouse=True, params=["sm_80", "sm_90"])
def chip(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DYNAMLIR_CUDA_LIBRARY", str(MOCK))
    with on_chip.kernels_for(request.param):
        yield request.param


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return DOORS[request.param]


def half_precision(x: torch.Tensor) -> torch.Tensor:
    return functional.silu(x.half()) * x.bfloat16().float().t()


def columns(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(0), x.amax(0), (x - x.mean(0)).pow(2).mean(0)


def whole(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(), x.std(), (x > 0).any(), (x > 5).all(), x.amin()


def integers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    n = (x * 100).long()
    return n % 7, n // 3, n & 255, n << 2, (n.int() * 3).char(), n.prod(-1)


def special(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    edges = torch.stack([x / 0, -x / 0, x * 0, x * float("nan"), x * 1e30])
    return edges.exp(), edges.tanh(), torch.maximum(edges, -edges), edges.clamp(-1, 1), torch.round(x * 4)


def pieces(x: torch.Tensor) -> torch.Tensor:
    # Three columns, so that the following parts begin in the middle of memory.
    return torch.cat([x[:, :3].sin(), x.cos(), x[:, 5:6].exp()], 1) * 2


def windows(x: torch.Tensor) -> torch.Tensor:
    return (
        functional.pad(x, (1, 2)).flip(0)[1:, ::2] + functional.max_pool1d(x[:, 1:].unsqueeze(1), 2).squeeze(1)[1:, :1]
    )


def indices(x: torch.Tensor) -> torch.Tensor:
    # Checked, and read, by the library.
    return x[torch.tensor([1, 0, 2])] + functional.embedding(torch.tensor([3, 1, 1]), x.exp())


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: torch.softmax(x * 3, -1) + torch.log_softmax(x, 0),
    "layer norm": lambda x: functional.layer_norm(functional.gelu(x), x.shape[-1:], x[0], x[1]),
    "group norm": lambda x: functional.group_norm(x.reshape(2, 4, -1), 2),
    "math": lambda x: (
        (x.abs() + 1).log() + x.erf() + torch.atan2(x, x + 2) + x.sinh().tanh() + x.pow(3).rsqrt().nan_to_num()
    ),
    "products": lambda x: torch.relu(x @ x.t() + 1) @ x,
    **{
        function.__name__: function
        for function in (half_precision, columns, whole, integers, special, pieces, windows, indices)
    },
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [(8, 8), (33, 65)])
def test_numbers(name: str, size: tuple[int, int], door: Callable[..., Any]) -> None:
    if name in ("half_precision",) and size[0] != size[1]:
        pytest.skip("it is about squares")
    x = torch.randn(size)
    if name == "group norm" and x.numel() % 8:
        x = x[:32]
    with torch.no_grad():
        found, wanted = door(FUNCTIONS[name])(x), FUNCTIONS[name](x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    report = dynamlir.last_compile()
    assert report is not None and report.eager is None and report.kernels >= 1, dynamlir.explain_last()
    assert dynamlir.fallbacks() == []


@pytest.mark.parametrize("name", catalog.DEMO)
def test_models(name: str, door: Callable[..., Any], chip: str) -> None:
    if chip == "sm_80" and name == "resnet18":
        pytest.skip("its million points take long to interpret; once is enough")
    module, inputs = catalog.MODELS[name].make()
    with torch.no_grad():
        found, wanted = door(module)(**inputs), module(**inputs)
    found, wanted = (out if isinstance(out, torch.Tensor) else out.logits for out in (found, wanted))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    assert dynamlir.fallbacks() == []


def test_writes_to_an_input(door: Callable[..., Any]) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y.sum(-1, keepdim=True))
        return (x * 2).softmax(-1)

    x, y = torch.randn(6, 32), torch.randn(6, 32)
    ours, theirs = x.clone(), x.clone()
    with torch.no_grad():
        torch.testing.assert_close(door(step)(ours, y), step(theirs, y))
    torch.testing.assert_close(ours, theirs)
    assert ours._version == theirs._version and dynamlir.fallbacks() == []


def test_an_input_that_lies_otherwise_runs_as_eager(door: Callable[..., Any]) -> None:
    """The code moves 16 bytes at a time, so it does not serve a call whose memory begins in between."""
    compiled = door(lambda x: torch.relu(x) + 1)
    memory = torch.randn(1025)
    with torch.no_grad():
        compiled(memory[:1024].clone())
        found = compiled(memory[1:])
    torch.testing.assert_close(found, torch.relu(memory[1:]) + 1)
    assert {event.reason for event in dynamlir.fallbacks()} <= {"misaligned"}


def test_a_dumped_stage_is_loaded_again(tmp_path: Path, chip: str) -> None:
    x = torch.randn(8, 40)
    with torch.no_grad():
        wanted = torch.compile(torch.nn.Softmax(-1), backend="dynamlir", options={"dump": str(tmp_path)})(x)
    for stage in ("00-aten", "03-kernels", "05-linalg"):
        text = (tmp_path / f"{stage}.mlir").read_text()
        assert f'chip = "{chip}">' in text
        (found,) = dynamlir.load(str(tmp_path / f"{stage}.mlir"))(x)
        assert torch.equal(found, wanted), stage


def in_a_process(body: str, **environment: str) -> Any:
    """Runs lines in a separate process with the mock; returns what they put into ``said``."""
    before = f"""
        import sys, json
        sys.path[:0] = {[str(Path(__file__).parents[1])]!r}
        import on_chip, registration
        registration.ensure()
        on_chip.make_kernels_for("sm_80")
        import dynamlir, torch
        said = {{}}
        def reasons():
            return [event.reason for event in dynamlir.fallbacks()]
    """
    after = "print(json.dumps(said))"
    text = "\n".join(textwrap.dedent(part) for part in (before, body, after))
    variables = {**os.environ, "DYNAMLIR_CUDA_LIBRARY": str(MOCK), **environment}
    done = forked.python(text, env=variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


ONE_CALL = """
    x = torch.randn(8, 8)
    with torch.no_grad():
        found = torch.compile(lambda x: x.exp() + 1, backend="dynamlir")(x)
    said["right"] = torch.allclose(found, x.exp() + 1)
    said["reasons"] = reasons()
    said["messages"] = [event.message for event in dynamlir.fallbacks()]
"""


@pytest.mark.parametrize(
    ("environment", "reason", "message"),
    [
        ({"DYNAMLIR_CUDA_LIBRARY": "libcuda-nowhere.so"}, "no-cuda", "no CUDA driver: libcuda-nowhere.so"),
        ({"DYNAMLIR_CUDA_MOCK_VERSION": "11040"}, "no-cuda", "it serves CUDA 11.4, and 12.0 or later is needed"),
        ({"DYNAMLIR_CUDA_MOCK_FAIL": "cuInit=100"}, "no-cuda", "CUDA_VISIBLE_DEVICES"),
        (
            {"DYNAMLIR_CUDA_MOCK_FAIL": "cuModuleLoadDataEx=218"},
            "gpu-kernel",
            "ptxas fatal: the tests want this to fail",
        ),
        ({"DYNAMLIR_CUDA_MOCK_FAIL": "cuLaunchKernel=701"}, "run-error", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"),
        ({"DYNAMLIR_CUDA_MOCK_FAIL": "cuCtxPushCurrent=2"}, "gpu-kernel", "out of memory"),
    ],
)
def test_failures_leave_the_call_to_eager(environment: dict[str, str], reason: str, message: str, chip: str) -> None:
    if chip != "sm_80":
        pytest.skip("nothing here depends on the chip")
    said = in_a_process(ONE_CALL, **environment)
    assert said["right"] and len(said["reasons"]) == 1
    assert said["reasons"][0] in (reason, "no-cuda") and message in said["messages"][0]


def test_a_launch_that_fails_before_anything_is_written_is_repeated(chip: str) -> None:
    if chip != "sm_80":
        pytest.skip("nothing here depends on the chip")
    body = """
        def step(x, y):
            x.add_(torch.softmax(y, -1) @ y)
            return x.sum(0)
        x, y = torch.ones(8, 8), torch.randn(8, 8)
        other = x.clone()
        with torch.no_grad():
            found = torch.compile(step, backend="dynamlir")(x, y)
            wanted = step(other, y)
        said["right"] = torch.allclose(found, wanted) and torch.allclose(x, other)
        said["reasons"] = reasons()
    """
    assert in_a_process(body, DYNAMLIR_CUDA_MOCK_FAIL="cuLaunchKernel=701@0") == {
        "right": True,
        "reasons": ["run-error"],
    }


def test_a_launch_that_fails_after_a_write_is_not_repeated(chip: str, tmp_path: Path) -> None:
    """A repeated call would add twice."""
    if chip != "sm_80":
        pytest.skip("nothing here depends on the chip")
    body = """
        def step(x, y):
            x.add_(y)
            y.mul_(x)
            return x.sum(0)
        compiled = {door}
        x, y = torch.ones(8, 8), torch.ones(8, 8)
        try:
            with torch.no_grad():
                compiled(x, y)
            said["error"] = None
        except RuntimeError as error:
            said["error"] = str(error)
        said["most"] = x.max().item()
        said["reasons"] = reasons()
    """
    for door in ('torch.compile(step, backend="dynamlir")', "dynamlir.compile(step)"):
        log = tmp_path / f"{len(door)}.log"
        in_a_process(body.replace("{door}", door), DYNAMLIR_CUDA_MOCK_LOG=str(log))
        launches = sum(line.startswith("launch") for line in log.read_text().splitlines())
        assert launches >= 2, "both inputs are written by launches"
        said = in_a_process(body.replace("{door}", door), DYNAMLIR_CUDA_MOCK_FAIL=f"cuLaunchKernel=701@{launches - 1}")
        assert said["error"] and "after inputs were written" in said["error"] and said["most"] == 2.0, said
        assert said["reasons"] == []
