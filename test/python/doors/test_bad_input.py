"""Programs that cannot be compiled: eager's result or exception, with the reason counted; never a crash."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from harness import check
from torch import Tensor

backend_module = importlib.import_module("dynamlir.backend")


def plus(x: Tensor, y: Any = 1) -> Tensor:
    return x + y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: torch.ones(3).to(torch.complex32), "complex"),
        (lambda: torch.ones(3, dtype=torch.complex64).conj(), "lazy-bit"),
        (lambda: torch.ones(3).to(torch.float8_e5m2).to(torch.float8_e4m3fn), "dtype"),
        (lambda: torch.ones(3, dtype=torch.uint16), "dtype"),
        (lambda: torch.ones(3, device="meta"), "device"),
    ],
    ids=["complex32", "conjugated", "float8", "uint16", "meta"],
)
def test_unsupported_tensor(make: Callable[[], Tensor], reason: str) -> None:
    fn = plus if reason == "device" else (lambda x: x.view(-1))
    tensor = make()
    with torch.no_grad():
        compiled = torch.compile(fn, backend="dynamlir")
        found, wanted = compiled(tensor), fn(tensor)
    assert (found.dtype, found.shape, found.device) == (wanted.dtype, wanted.shape, wanted.device)
    assert reason in dynamlir.counters()["fallbacks"]


def test_sparse() -> None:
    compiled = torch.compile(lambda x: (x * 2).to_dense(), backend="dynamlir")
    sparse = torch.eye(3).to_sparse()
    torch.testing.assert_close(compiled(sparse), torch.eye(3) * 2)


@pytest.mark.filterwarnings("ignore")
def test_quantized() -> None:
    quantized = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8)
    compiled = torch.compile(lambda x: x.dequantize() + 1, backend="dynamlir")
    torch.testing.assert_close(compiled(quantized), quantized.dequantize() + 1)


def test_sparse_inside() -> None:
    check(lambda x: torch.mm(x.to_sparse(), x), torch.eye(3))


class Tagged(Tensor):
    """A subclass that changes nothing."""


def test_subclass() -> None:
    tensor = torch.ones(3).as_subclass(Tagged)
    with torch.no_grad():
        found = torch.compile(plus, backend="dynamlir")(tensor)
    assert isinstance(found, Tagged)
    torch.testing.assert_close(found.as_subclass(Tensor), torch.ones(3) + 1)


def test_negative_bit() -> None:
    tensor = torch.ones(3, dtype=torch.complex64).conj().imag
    assert tensor.is_neg()
    found = torch.compile(plus, backend="dynamlir")(tensor)
    torch.testing.assert_close(found, tensor + 1)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[x > 1],
        lambda x: torch.nonzero(x),
        lambda x: torch.unique(x),
        lambda x: x * x.sum().item(),
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x + 1 if x.sum() > 0 else x - 1,
        lambda x: torch.zeros(int(x.max())),
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 3])),
    ],
    ids=["mask", "nonzero", "unique", "item", "select", "branch", "size", "repeat"],
)
def test_data_dependent(fn: Callable[[Tensor], Any]) -> None:
    check(fn, torch.tensor([0.0, 1.0, 2.0, 2.0]))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.clone().resize_(2),
        lambda x: x.clone().set_(torch.ones(3)),
        lambda x: torch.add(x, 1, out=torch.empty(0)),
    ],
    ids=["resize", "set", "out_resized"],
)
@pytest.mark.filterwarnings("ignore")
def test_storage_tricks(fn: Callable[[Tensor], Any]) -> None:
    check(fn, torch.arange(4.0))


def test_data_assignment() -> None:
    def fn(x: Tensor) -> Tensor:
        y = x.clone()
        y.data = x * 2
        return y + 1

    check(fn, torch.arange(4.0))


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3), (), (1,), (1, 1, 1)])
@pytest.mark.parametrize(
    "fn",
    [lambda x: x * 2 + 1, lambda x: x.sum(), lambda x: x.exp().mean(), lambda x: x.reshape(-1), lambda x: x.add_(1)],
    ids=["pointwise", "sum", "mean", "reshape", "inplace"],
)
def test_small_shapes(fn: Callable[[Tensor], Any], shape: tuple[int, ...]) -> None:
    check(fn, torch.randn(shape), expect="compiled")


SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, 3.4e38, -1.5])


@pytest.mark.parametrize(
    "fn",
    [
        torch.relu, torch.exp, torch.log, torch.sqrt, torch.sin, torch.tanh, torch.sigmoid, torch.sign, torch.floor,
        torch.reciprocal, torch.isnan, torch.isfinite, torch.signbit, torch.erf, torch.nan_to_num, torch.atan,
        lambda x: x.clamp(-1, 1), lambda x: torch.maximum(x, -x), lambda x: x.amax(), lambda x: x.argmax(),
        lambda x: x.softmax(0), lambda x: x > 0, lambda x: x == x.clone(), lambda x: x % 2, lambda x: x // 0.3,
        lambda x: x.max(0), lambda x: torch.where(x > 0, x, 0), lambda x: x.sum(), lambda x: x.nansum(),
    ],
)  # fmt: skip
def test_special_values(fn: Callable[[Tensor], Any]) -> None:
    check(fn, SPECIAL, expect="compiled")


INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1, lambda x: x * x, lambda x: -x, lambda x: x.abs(), lambda x: x << 1, lambda x: x.sum(),
        lambda x: x.prod(), lambda x: x**2, lambda x: x.cumsum(0), lambda x: x / 3, lambda x: x // 3, lambda x: x % 3,
        lambda x: x // -3, lambda x: x % -3,
    ],
)  # fmt: skip
def test_integer_overflow(fn: Callable[[Tensor], Any], dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    check(fn, torch.tensor([limits.min, limits.max, 0, 1, 7, limits.max - 1], dtype=dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("fn", [lambda x, y: x // y, lambda x, y: x % y, torch.div], ids=["floor", "rem", "true"])
def test_division_by_zero(fn: Callable[..., Any], dtype: torch.dtype) -> None:
    x, y = torch.tensor([1, 2, 3], dtype=dtype), torch.tensor([1, 0, 2], dtype=dtype)
    check(fn, x, y, dispatch=False)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=["i64", "i32"])
def test_smallest_integer_by_minus_one(dtype: torch.dtype) -> None:
    x = torch.tensor([torch.iinfo(dtype).min + 1, 5], dtype=dtype)
    check(lambda x, y: (x // y, x % y), x, torch.tensor([-1, -1], dtype=dtype))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: x[i],
        lambda x, i: torch.index_select(x, 0, i),
        lambda x, i: torch.gather(x, 0, i),
        lambda x, i: torch.nn.functional.embedding(i, x.view(-1, 1)),
        lambda x, i: x.clone().scatter_(0, i, 1.0),
    ],
    ids=["index", "select", "gather", "embedding", "scatter"],
)
@pytest.mark.parametrize("index", [[0, 99], [-100, 1]])
def test_index_out_of_range(fn: Callable[..., Any], index: list[int]) -> None:
    check(fn, torch.arange(4.0), torch.tensor(index), dispatch=False)


def test_failed_call_mutates_nothing() -> None:
    def fn(x: Tensor, i: Tensor) -> Tensor:
        x.add_(1)
        return x[i]

    check(fn, torch.arange(4.0), torch.tensor([99]), dispatch=False)


def test_shapes_change() -> None:
    compiled = torch.compile(lambda x: (x * 2).sum(0), backend="dynamlir")
    for shape in [(3, 4), (5, 4), (6, 4), (6, 9), (1, 1), (0, 4), (3, 4)]:
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), (x * 2).sum(0))


def test_strides_dtype_and_grad_change() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, backend="dynamlir")
    for x in [
        torch.randn(4, 4),
        torch.randn(4, 4).t(),
        torch.randn(8, 4)[4:],
        torch.randn(4, 4).double(),
        torch.ones(4, 4, dtype=torch.int32),
        torch.randn(4, 4, requires_grad=True),
    ]:
        found = compiled(x)
        torch.testing.assert_close(found, x * 2 + 1)
        assert found.requires_grad == x.requires_grad


def test_all_sizes_are_compiled_for_once_one_has_changed() -> None:
    """After one size changes, Dynamo makes sizes symbolic, and so does dynamlir."""
    compiled = torch.compile(plus, backend="dynamlir")
    for size in (5, 6, 7, 5, 7):
        x = torch.randn(size, 3)
        torch.testing.assert_close(compiled(x), x + 1)
    assert dynamlir.counters()["graphs_compiled"] == 2
    assert not dynamlir.counters()["fallbacks"]


def test_marked_dynamic() -> None:
    x = torch.randn(5, 3)
    torch._dynamo.mark_dynamic(x, 0)
    torch.testing.assert_close(torch.compile(plus, backend="dynamlir")(x), x + 1)


def test_expanded_input() -> None:
    check(lambda x: x.exp() + x.sum(0), torch.randn(4, 1).expand(4, 5), expect="compiled")


def test_write_to_expanded_input() -> None:
    check(lambda x: x.add_(1), torch.randn(4, 1).expand(4, 5))


def test_overlapping_input() -> None:
    check(lambda x: x * 2, torch.arange(8.0).as_strided((3, 4), (2, 1)), expect="compiled")


def test_requires_grad_is_compiled() -> None:
    weight = torch.randn(3, requires_grad=True)
    found = torch.compile(plus, backend="dynamlir")(weight)
    assert found.requires_grad and not dynamlir.counters()["fallbacks"]
    found.sum().backward()
    torch.testing.assert_close(weight.grad, torch.ones(3))


def test_requires_grad_without_grad_mode() -> None:
    check(plus, torch.randn(3, requires_grad=True), expect="compiled")


def test_no_grad_inside() -> None:
    def fn(x: Tensor) -> Tensor:
        with torch.no_grad():
            return x * 2

    check(fn, torch.randn(3, requires_grad=True), no_grad=False, expect="compiled")


def test_grad_enabled_inside() -> None:
    def fn(x: Tensor) -> Tensor:
        with torch.enable_grad():
            return x * 2

    check(fn, torch.randn(3, requires_grad=True), expect="autograd", dispatch=False)


def test_inference_mode() -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        y.mul_(2)
        x.add_(1)
        return y, y[0]

    with torch.inference_mode():
        check(fn, torch.randn(3, 3), no_grad=False)


def test_autocast() -> None:
    def fn(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.mm(x, x) + 1

    check(fn, torch.randn(3, 3))
    assert not torch.is_autocast_enabled("cpu")


def test_random_operations_agree() -> None:
    check(lambda x: x + torch.rand(4) * torch.randn(4).abs(), torch.randn(4), expect="compiled")


def test_higher_order() -> None:
    check(lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), torch.ones(3))


def test_vmap() -> None:
    check(torch.vmap(lambda x: x * x.sum()), torch.randn(3, 4))


def test_threads_compile_at_once() -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            x = torch.randn(number + 2, 5)
            compiled = torch.compile(lambda x: (x * number).tanh().sum(-1), backend="dynamlir", dynamic=False)
            torch.testing.assert_close(compiled(x), (x * number).tanh().sum(-1))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert dynamlir.last_compile() is not None


def test_unknown_torch_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module.torch, "__version__", "9.1.0")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in (3, 4):
            torch._dynamo.reset()
            torch.testing.assert_close(torch.compile(plus, backend="dynamlir")(torch.ones(size)), torch.ones(size) + 1)
    assert sum("9.1.0" in str(warning.message) for warning in caught) == 1
    assert dynamlir.counters()["fallbacks"]["unsupported-torch"] == 2


def test_compiler_failure_is_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("broken on purpose")

    monkeypatch.setattr(backend_module, "compile_graph", broken)
    torch.testing.assert_close(torch.compile(plus, backend="dynamlir")(torch.ones(3)), torch.ones(3) + 1)
    assert dynamlir.counters()["fallbacks"] == {"internal-error": 1}
    assert "broken on purpose" in dynamlir.explain_last()


def test_interrupted_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    original = backend_module.compile_graph

    def interrupted(*args: Any) -> Any:
        original(*args)
        raise KeyboardInterrupt

    compiled = torch.compile(plus, backend="dynamlir")
    with monkeypatch.context() as patch:
        patch.setattr(backend_module, "compile_graph", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiled(torch.ones(3))
    assert dynamlir.last_compile() is None and dynamlir.counters()["fallbacks"] == {}
    assert torch.is_grad_enabled()
    torch.testing.assert_close(compiled(torch.ones(3)), torch.ones(3) + 1)


def test_signal_while_compiling() -> None:
    """Ctrl-C in a fresh process that only compiles: KeyboardInterrupt, and the process can continue afterwards."""
    here = Path(__file__).resolve().parents[1]
    program = f"""
import sys; sys.path[:0] = [{str(here)!r}, {str(here.parents[1] / "python")!r}]
import registration; registration.ensure()
import torch, dynamlir, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell
torch.set_grad_enabled(False)
n = 0
try:
    while True:
        n += 1
        torch._dynamo.reset()
        torch.compile(lambda x: (x * n).tanh().sum() + x.softmax(-1), backend="dynamlir")(torch.ones(n, 3))
        if n == 1:
            print("ready", flush=True)  # nothing is left to be imported
except KeyboardInterrupt:
    print("interrupted", flush=True)
torch._dynamo.reset()
found = torch.compile(lambda x: x * 2 + 1, backend="dynamlir")(torch.ones(3))
assert found.tolist() == [3.0] * 3
print("alive", dynamlir.last_compile().eager is None, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ.copy())
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "ready"
    interrupted = threading.Event()
    lines: list[str] = []

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line.strip())
            interrupted.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        interrupted.wait(0.5)
        for _ in range(20):  # a signal may land where Python can only ignore it, as in a finalizer
            child.send_signal(signal.SIGINT)
            if interrupted.wait(3.0):
                break
        assert child.wait(timeout=120) == 0
    finally:
        child.kill()
        reader.join()
    assert lines == ["interrupted", "alive True"]
