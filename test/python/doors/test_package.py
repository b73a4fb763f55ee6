"""Checks the package around the compiler: recorder facts, schemas, reasons, reports, logs, options."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import tomllib
import types
from pathlib import Path

import dynamlir
import forked
import pytest
import torch
from dynamlir import config, logs, options, reasons, reports, requirements
from dynamlir.cli import probe
from dynamlir.recording import Recording
from dynamlir.source_lines import parse_stack
from dynamlir.tracing import record
from interpreters import ROOT, SUPPORTED
from torch import Tensor, fx


def recorded(fn: object, *args: Tensor) -> Recording:
    return record(fx.symbolic_trace(fn), args)  # type: ignore[arg-type]


def test_mutation_is_recorded_with_its_functional_variant() -> None:
    found = recorded(lambda x: x.add_(1), torch.ones(3))
    (op,) = found.ops
    assert (op.schema, op.functional, op.mutates, op.aliases) == ("aten.add_.Tensor", "aten.add.Tensor", [0], [0])
    assert op.args == [("t", found.inputs[0].id), 1, 1]
    assert found.mutates_inputs and found.inputs[0].version_bumps == 1
    assert found.outputs[0].id == found.inputs[0].id


def test_views_alias_and_name_no_mutation() -> None:
    found = recorded(lambda x: x.t()[1:], torch.ones(3, 4))
    assert all(op.is_view for op in found.ops)
    assert found.ops[-1].results[0][1:] == ((3, 3), (1, 4), 1)
    assert found.outputs[0].base == ("arg", 0)


def test_overlapping_inputs_share_a_storage_number() -> None:
    x = torch.ones(4, 4)
    found = recorded(lambda x, y, z: x + y + z, x, x[1], torch.ones(4))
    assert [record.storage for record in found.inputs] == [0, 0, 1]
    assert found.inputs[1].meta.offset == 4


def test_constants_are_fresh_at_each_call() -> None:
    def fn(x: Tensor) -> Tensor:
        table = torch.tensor([1.0, 2.0, 3.0])
        table.add_(x)
        return table

    compiled = torch.compile(fn, backend="dynamlir")
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(3)), torch.tensor([2.0, 3.0, 4.0]))


def test_stack_is_innermost_first() -> None:
    text = '  File "a.py", line 3, in outer\n    f()\n  File "b.py", line 7, in inner\n    x + 1\n    ~~^~~\n'
    assert parse_stack(text) == [("b.py", 7, "inner", 0), ("a.py", 3, "outer", 0)]


def test_report_of_a_compilation() -> None:
    torch.compile(lambda x: x.cumsum(0) + 1, backend="dynamlir")(torch.ones(3))
    made = dynamlir.last_compile()
    assert made is not None and made.eager is None
    assert made.ops_recorded == 2 and made.stages and made.seconds >= 0
    assert Path(__file__).name in made.graph
    assert "operations recorded" in str(made)
    assert dynamlir.counters()["graphs_compiled"] == 1


def test_last_compile_starts_empty() -> None:
    assert dynamlir.last_compile() is None and dynamlir.counters()["fallbacks"] == {}


def test_reasons_have_explanation_and_line() -> None:
    assert all(reason.explanation for reason in reasons.REASONS.values())
    assert {reason.cause for reason in reasons.REASONS.values()} == {
        "function",
        "process",
        "argument",
        "call",
        "compiler",
    }
    torch.compile(lambda x: x.nonzero(), backend="dynamlir")(torch.ones(3))
    torch.compile(lambda x: x * 1j, backend="dynamlir")(torch.ones(3))
    (event,) = [event for event in dynamlir.fallbacks() if event.reason == "complex"]
    assert event.location[0][0] == __file__ and "Hint" in str(event)


def test_reason_ids_in_use_are_registered() -> None:
    package = Path(dynamlir.__file__).parent
    used = {
        name for path in package.glob("*.py") for name in re.findall(r'Fallback\(\s*"([a-z-]+)"', path.read_text())
    } | {name for path in package.glob("*.py") for name in re.findall(r'note\(\s*"([a-z-]+)"', path.read_text())}
    assert used and used <= set(reasons.REASONS)


def test_unknown_log_topic_warns(capsys: pytest.CaptureFixture[str]) -> None:
    assert logs.configure("fallbak,perf") == ["perf"]
    assert "did you mean 'fallback'" in capsys.readouterr().err
    logs.configure("")


def test_log_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("fallback")
    try:
        torch.compile(lambda x: x * 1j, backend="dynamlir")(torch.ones(3))
        assert "[dynamlir.fallback] complex" in capsys.readouterr().err
    finally:
        logs.configure("")


def test_options() -> None:
    assert options.resolve(None, {"dump": "d"}).native()["dump"] == "d"
    assert config.read("dump", {"DYNAMLIR_DUMP": "x"}) == "x"
    with pytest.raises(ValueError, match="unknown option"):
        options.resolve(None, {"dmup": "d"})
    with pytest.raises(ValueError, match="unknown mode"):
        options.resolve("fast")


def test_each_graph_has_its_dump_folder() -> None:
    asked = options.resolve(None, {"dump": "several"})
    assert [asked.native()["dump"] for _ in range(3)] == ["several", "several/graph-1", "several/graph-2"]


def test_options_through_torch_compile() -> None:
    with pytest.raises(Exception, match="unknown option"):
        torch.compile(lambda x: x + 1, backend="dynamlir", options={"dmup": "d"})(torch.ones(3))
    torch.compile(lambda x: x + 1, backend="dynamlir", mode="max-autotune")(torch.ones(3))


def test_the_name_that_a_user_gives() -> None:
    if "name" not in inspect.signature(torch.compile).parameters:
        pytest.skip("this torch names nothing")
    torch.compile(lambda x: x + 1, backend="dynamlir", name="step")(torch.ones(3))
    made = dynamlir.last_compile()
    assert made is not None and made.graph == "step"


def test_native_reasons_become_events(monkeypatch: pytest.MonkeyPatch) -> None:
    native = importlib.import_module("dynamlir.native").module()

    def refuse(*_: object) -> None:
        raise native.Unsupported("dtype", "on purpose", [("f.py", 3, "f", 5)])

    monkeypatch.setattr(native, "compile_trace", refuse)
    torch.testing.assert_close(torch.compile(lambda x: x + 1, backend="dynamlir")(torch.ones(3)), torch.ones(3) + 1)
    (event,) = dynamlir.fallbacks()
    assert (event.reason, event.message, event.location) == ("dtype", "on purpose", (("f.py", 3, "f", 5),))


def test_reports_table() -> None:
    extern = reports.Extern("aten.mm.default", "dispatcher", "m.py:3", 2)
    text = str(reports.CompileReport("g", 3, 2, 1, 1, (extern,), stages={"a": 0.5}))
    assert "aten.mm.default" in text and "m.py:3" in text and "500.0" in text


# ---- what the package says of itself


def test_help_tells_the_whole_public_surface() -> None:
    text = pydoc.plain(pydoc.render_doc(dynamlir))
    for name in dynamlir.__all__:
        assert hasattr(dynamlir, name) and (name in text or name == "__version__"), name
    public = {name for name, value in vars(dynamlir).items() if not name.startswith("_") and _is_ours(value)}
    assert public <= set(dynamlir.__all__), "public, but not said to be"
    for name in dynamlir.__all__:
        value = getattr(dynamlir, name)
        if callable(value) or isinstance(value, types.ModuleType):
            assert inspect.getdoc(value), f"{name} has no docs"


def _is_ours(value: object) -> bool:
    return callable(value) and getattr(value, "__module__", "").startswith("dynamlir")


def test_help_of_the_settings() -> None:
    text = pydoc.plain(pydoc.render_doc(dynamlir.config))
    for name, setting in config.SETTINGS.items():
        assert name in text and setting.environment in text


def test_the_package_is_typed() -> None:
    folder = Path(dynamlir.__file__).parent
    assert (folder / "py.typed").exists() and (folder / "_native.pyi").exists()
    stub = (folder / "_native.pyi").read_text()
    for name in dir(importlib.import_module("dynamlir._native")):
        assert name.startswith("_") or re.search(rf"^(def|class) {name}\b", stub, re.MULTILINE), name


def test_versions_are_the_same_everywhere() -> None:
    numbers = [tuple(map(int, version.split("."))) for version in SUPPORTED]
    assert requirements.PYTHONS == (probe.OLDEST, probe.NEWEST) == (numbers[0], numbers[-1])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (
        project["dependencies"][0] == requirements.TORCH
        and f"pip install '{requirements.TORCH}'" == probe.INSTALL_TORCH
    )
    torchs = tuple(tuple(map(int, part.split("."))) for part in re.findall(r"\d+\.\d+", requirements.TORCH))
    assert torchs == probe.TORCHS


@pytest.mark.parametrize(
    ("version", "name", "expected"),
    [
        ((3, 10, 4), "cpython", "ImportError"),
        ((3, 11, 0), "cpython", ""),
        ((3, 15, 9), "cpython", ""),
        ((3, 16, 0), "cpython", "RuntimeWarning"),
        ((3, 11, 0), "pypy", "RuntimeWarning"),
    ],
)
def test_another_python_is_reported(version: tuple[int, ...], name: str, expected: str) -> None:
    program = f"""
import sys, types, warnings
sys.version_info = {version}
sys.implementation = types.SimpleNamespace(**{{**vars(sys.implementation), "name": {name!r}}})
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    try:
        import dynamlir
    except ImportError as error:
        print(type(error).__name__, error)
for warning in said:
    if "dynamlir" in str(warning.message):
        print(warning.category.__name__, warning.lineno, warning.message)
"""
    done = forked.python(program)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert said.startswith(expected) and bool(said) is bool(expected)
    if expected:
        assert "CPython 3.11 to 3.15" in said
    if expected == "RuntimeWarning":
        assert said.split()[1] == str(program.splitlines().index("        import dynamlir") + 1)


def test_completion_shows_the_public_names() -> None:
    names = [name for name in dir(dynamlir) if not name.startswith("__")]
    assert sorted(names) == sorted(set(dynamlir.__all__) - {"__version__"})
    assert importlib.import_module("dynamlir.source_lines").caller
