"""Wrong arguments raise an error that names them and what is expected. `reset` drops compiled code, and keeps files."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import native
from torch import Tensor

X = torch.arange(4.0)


def plus(x: Tensor) -> Tensor:
    return x + 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"backend": 3}, TypeError, "backend is 3, expected a name or a callable"),
        ({"backend": None}, TypeError, "backend is None, expected a name or a callable"),
        ({"backend": "inducto"}, ValueError, r"unknown backend 'inducto'; did you mean 'inductor'\?; known: "),
        ({"backend": ""}, ValueError, "unknown backend ''; known: "),
        ({"options": [1]}, TypeError, r"options is \[1\], expected a dictionary"),
        ({"options": "dump"}, TypeError, "options is 'dump', expected a dictionary"),
        ({"options": {"dump": 3}}, ValueError, "dump is 3, expected a path or None"),
        ({"options": {"dmup": "d"}}, ValueError, r"unknown option\(s\) dmup; did you mean 'dump'\?; known: "),
        ({"options": {3: 3}}, ValueError, r"unknown option\(s\) 3; known: "),
        ({"options": {"no_cache": 1}}, ValueError, "no_cache is 1, expected True or False"),
        ({"mode": "fast"}, ValueError, "unknown mode 'fast'; known: default"),
        ({"mode": 3}, ValueError, "unknown mode 3"),
        ({"options": {"mode": 3}}, ValueError, "unknown mode 3"),
        ({"fullgraph": "yes"}, TypeError, "True or False for fullgraph, not 'yes'"),
        ({"dynamic": 1}, TypeError, "True, False or None for dynamic, not 1"),
    ],
)
def test_wrong_arguments_of_compile(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    """The error comes when `compile` is called, not when its result is."""
    for make in (lambda: dynamlir.compile(plus, **arguments), lambda: dynamlir.compile(**arguments)(plus)):
        with pytest.raises(error, match=words):
            make()


@pytest.mark.parametrize("what", [3, "text", [plus], object()])
def test_what_cannot_be_compiled(what: Any) -> None:
    with pytest.raises(TypeError, match=f"takes a function or a module, not {type(what).__name__}"):
        dynamlir.compile(what)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"dump": 3}, "dump is 3, expected a path or None"), ({"dmup": "d"}, "did you mean 'dump'")],
)
def test_wrong_options_of_torch_compile(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words):
        torch.compile(plus, backend="dynamlir", options=options)(X)


def test_wrong_arguments_of_load(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot read .*/none\.mlir: No such file"):
        dynamlir.load(tmp_path / "none.mlir")
    with pytest.raises(ValueError, match=f"{tmp_path} holds no exported program: "):
        dynamlir.load(tmp_path)
    with pytest.raises(TypeError, match=r"path of a dumped \.mlir file, not 3"):
        dynamlir.load(3)  # type: ignore[arg-type]
    dynamlir.compile(plus, options={"dump": tmp_path})(X)
    with pytest.raises(TypeError, match="name of a stage such as 'linalg', not 5"):
        dynamlir.load(tmp_path / "05-linalg.mlir", 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lnalg"):
        dynamlir.load(tmp_path / "05-linalg.mlir", "lnalg")
    (tmp_path / "bytes.mlir").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not text"):
        dynamlir.load(tmp_path / "bytes.mlir")
    assert torch.equal(dynamlir.load(tmp_path / "05-linalg.mlir")(X)[0], X + 1)


@pytest.mark.parametrize("door", ["dynamlir.compile", "torch.compile"])
def test_a_folder_for_stages_that_cannot_be_written(door: str, tmp_path: Path) -> None:
    """A file in its place, or a missing folder that cannot be created: the result is correct, with a warning."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "folder", Path("/proc/nowhere")):
        options = {"dump": str(folder)}
        if door == "torch.compile":
            torch._dynamo.reset()
            compiled: Any = torch.compile(plus, backend="dynamlir", options=options)
        else:
            compiled = dynamlir.compile(plus, options=options)
        dynamlir.reset()
        with pytest.warns(dynamlir.PlainRunWarning) as caught:
            assert torch.equal(compiled(X), X + 1)
        assert str(folder) in str(caught[0].message) and "report this" not in str(caught[0].message)


def test_a_folder_for_measurements_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    model = torch.nn.Linear(64, 64)
    compiled = dynamlir.compile(model, mode="max-autotune", options={"cache_dir": "/proc/nowhere"})
    with torch.no_grad():
        assert torch.allclose(compiled(torch.ones(1, 64)), model(torch.ones(1, 64)), atol=1e-5)
    report = dynamlir.last_compile()
    assert report is not None and report.eager is None
    if report.products:  # else there was nothing to measure
        assert "/proc/nowhere" in caplog.text


# ---- reset


def test_reset_of_everything() -> None:
    function, module = dynamlir.compile(plus), dynamlir.compile(torch.nn.GELU())
    with torch.no_grad():
        function(X)
        module(X)
    assert len(function._cache) == len(module._cache) == 1
    dynamlir.reset()
    assert len(function._cache) == len(module._cache) == 0
    assert dynamlir.last_compile() is None and dynamlir.compiles() == [] and dynamlir.fallbacks() == []
    assert dynamlir.counters() == {"fallbacks": {}}
    with torch.no_grad():
        assert torch.equal(function(X), X + 1)
        module(X)
    assert len(function._cache) == len(module._cache) == 1
    made = dynamlir.compiles()
    assert len(made) == 2 and all(report.threads for report in made), "kernels were compiled anew"


@pytest.mark.parametrize("reset", [torch.compiler.reset, torch._dynamo.reset])
def test_torch_s_reset_forgets_kernels_and_its_own_entries(reset: Any) -> None:
    compiled = torch.compile(plus, backend="dynamlir")
    ours = dynamlir.compile(plus)
    for _ in range(2):
        compiled(X)
        made = dynamlir.last_compile()
        assert made is not None and made.threads, "compiled anew"
        ours(X)
        reset()
    assert len(ours._cache) == 1 and len(dynamlir.compiles()) == 3


def test_reset_of_one() -> None:
    first, second = dynamlir.compile(plus), dynamlir.compile(lambda x: x + 2)
    module = dynamlir.compile(torch.nn.ReLU())
    for one in (first, second, module):
        one(X)
    first.reset()
    assert [len(one._cache) for one in (first, second, module)] == [0, 1, 1]
    dynamlir.reset(second)
    assert [len(one._cache) for one in (first, second, module)] == [0, 0, 1]
    module.reset()
    assert len(module._cache) == 0
    module(X)
    dynamlir.reset(module)
    assert len(module._cache) == 0 and torch.equal(module(X), X)
    for wrong in (3, plus, torch.nn.ReLU(), None.__class__):
        with pytest.raises(TypeError, match=r"takes what dynamlir\.compile returned"):
            dynamlir.reset(wrong)


def test_a_module_s_own_reset() -> None:
    """A method, a submodule, an attribute set later, or one that `__getattr__` finds: it is the module's own."""

    class Method(torch.nn.Module):
        def reset(self) -> str:
            return "mine"

        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    class Submodule(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reset = torch.nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.reset(x)

    class Found(torch.nn.Module):
        def __getattr__(self, name: str) -> Any:
            return "found" if name == "reset" else super().__getattr__(name)

        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    method, submodule, found = (dynamlir.compile(kind()) for kind in (Method, Submodule, Found))
    assert method.reset() == "mine" and found.reset == "found"
    assert isinstance(submodule.reset, torch.nn.ReLU)
    later = dynamlir.compile(torch.nn.ReLU())
    later.reset = torch.nn.GELU()
    assert isinstance(later.reset, torch.nn.GELU)
    for compiled in (method, submodule, found, later):
        compiled(X)
        assert len(compiled._cache) == 1
        dynamlir.reset(compiled)
        assert len(compiled._cache) == 0


def test_reset_while_it_runs() -> None:
    """From a backend, in the middle of a compilation, and from the graph itself."""

    def backend(gm: Any, inputs: Any) -> Any:
        dynamlir.reset()

        def run(*tensors: Tensor) -> Any:
            dynamlir.reset()
            return gm.forward(*tensors)

        return run

    compiled = dynamlir.compile(plus, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(X), X + 1)


def test_reset_keeps_nothing_alive() -> None:
    compiled: Any = dynamlir.compile(lambda x: x + 1)
    compiled(X)
    gone = weakref.ref(compiled)
    dynamlir.reset()
    del compiled
    gc.collect()
    assert gone() is None


def test_eager_then_compile_begins_anew_after_reset() -> None:
    compiled = dynamlir.compile(plus)
    with torch.compiler.set_stance("eager_then_compile"):
        for _ in range(2):
            compiled(X)
            assert len(compiled._cache) == 0
            compiled(X)
            assert len(compiled._cache) == 1
            dynamlir.reset()


def test_reset_leaves_the_disk(tmp_path: Path) -> None:
    dynamlir.compile(plus, options={"dump": tmp_path})(X)
    before = sorted(os.listdir(tmp_path))
    dynamlir.reset()
    assert sorted(os.listdir(tmp_path)) == before and "00-aten.mlir" in before


def test_forgetting_before_anything_was_compiled() -> None:
    native.forget_kernels()
    native.forget_entries()
    dynamlir.reset()
