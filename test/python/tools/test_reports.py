"""Reports of a compilation: kernels with their lines, modes, logs by topic, explanations, and reproducers."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import forked
import pytest
import torch
from dynamlir import logs, native, options, reasons, reproducer
from torch import Tensor

X = torch.randn(5, 7)


@pytest.fixture(autouse=True)
def counted_anew() -> Iterator[None]:
    dynamlir.reset()
    reproducer.reset()
    with torch.no_grad():
        yield
    reproducer.reset()


def norm_and_more(x: Tensor) -> Tensor:
    y = torch.nn.functional.layer_norm(x, (7,))
    z = y.exp() + 1
    return z + torch.linalg.det(x[:5, :5])


FIRST = norm_and_more.__code__.co_firstlineno


def test_each_kernel_has_a_line_with_its_python_lines_and_bytes() -> None:
    dynamlir.compile(norm_and_more)(X)
    made = dynamlir.last_compile()
    assert made is not None and len(made.launched) == made.kernels
    lines = {line for kernel in made.launched for line in kernel.lines}
    assert {f"{__file__}:{FIRST + 1}", f"{__file__}:{FIRST + 2}"} <= lines
    assert all(os.path.dirname(torch.__file__) not in line for line in lines)
    # At least one read of the input and one write of the result.
    assert sum(kernel.bytes for kernel in made.launched) >= 2 * X.nbytes
    text = str(made)
    assert f"{1000 * made.seconds:.1f} ms" in text and "milliseconds by stage" in text
    assert all(kernel.name in text for kernel in made.launched)


@pytest.mark.parametrize("mode", options.MODES)
@pytest.mark.parametrize("door", ["dynamlir", "torch"])
def test_a_mode_says_what_it_does(mode: str, door: str) -> None:
    if door == "torch":
        torch.compile(lambda x: x * 3, backend="dynamlir", mode=mode)(X)
    else:
        dynamlir.compile(lambda x: x * 3, mode=mode)(X)
    made = dynamlir.last_compile()
    assert made is not None and made.mode == mode and made.eager is None
    assert (options.MODES[mode] in str(made)) is (mode != "default")
    assert options.resolve(mode).measures is mode.startswith("max-autotune")


# -- logs


@pytest.fixture
def topics() -> Iterator[Callable[[str], None]]:
    yield lambda text: logs.configure(text) and None
    logs.configure("")


def branches(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def test_graph_breaks_are_logged(topics: Any, capsys: pytest.CaptureFixture[str]) -> None:
    topics("graph_breaks")
    dynamlir.compile(branches)(X)
    err = capsys.readouterr().err
    assert err.count("[dynamlir.graph_breaks]") == 1
    assert "branches: data-dependent-branch at" in err and f"{__file__}:{branches.__code__.co_firstlineno + 1}" in err


def test_a_plus_asks_for_more(topics: Any, capsys: pytest.CaptureFixture[str]) -> None:
    topics("+graph_breaks,cache")
    dynamlir.compile(branches)(X)
    compiled = dynamlir.compile(lambda x: x + 1)
    compiled(X)
    compiled.reset()
    err = capsys.readouterr().err
    assert err.count("[dynamlir.graph_breaks]") == 2
    assert "a new entry, with" in err and "emptied" in err and "L['x']" not in err
    topics("+cache")
    dynamlir.compile(lambda x: x + 1)(X)
    assert "L['x']" in capsys.readouterr().err


def test_topics_without_a_plus_show_what_they_are() -> None:
    try:
        assert logs.configure("guards,+fallback,perf") == ["guards", "fallback", "perf"]
        levels = [logging.getLogger(f"dynamlir.{name}").level for name in ("guards", "fallback", "perf", "cache")]
        assert levels == [logging.DEBUG, logging.DEBUG, logging.INFO, logging.WARNING]
        assert set(logs.configure("all")) == set(logs.TOPICS)
    finally:
        logs.configure("")


# -- explanations


def test_an_explanation_tells_what_the_compiler_makes_of_the_graph() -> None:
    explanation = dynamlir.explain(norm_and_more)(X)
    assert explanation.eager_ops == 0 and "outside of graphs" not in str(explanation)
    assert not explanation.runs_plain and dynamlir.last_compile() is None
    assert explanation.extern_ops == {"aten._linalg_det.default": 1}
    assert explanation.compile_seconds > 0 and explanation.compiled is explanation.compiled
    (table,) = explanation.tables
    assert table.split()[:5] == ["opcode", "name", "target", "args", "kwargs"] and "layer_norm_0" in table


def test_an_explanation_of_a_branch() -> None:
    explanation = dynamlir.explain(branches)(X)
    assert explanation.eager_ops is None and "outside of graphs: not known" in str(explanation)
    assert not explanation.runs_plain and explanation.compiled is None and explanation.extern_ops == {}
    ((reason, traceback),) = explanation.break_reasons
    assert reason.startswith("data-dependent-branch") and traceback[0][0] == __file__


def test_readable_graphs_have_their_lines() -> None:
    (graph,) = dynamlir.explain(norm_and_more)(X).graphs
    text = graph.print_readable(print_output=False)
    assert f"File: {__file__}:{FIRST + 2} in norm_and_more, code: z = y.exp() + 1" in text


def test_targets_are_those_that_torch_gives() -> None:
    seen: list[list[tuple[str, Any]]] = []

    def keeps(module: torch.fx.GraphModule, inputs: Any) -> Any:
        nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
        seen.append([(node.op, node.target) for node in nodes])
        return module.forward

    def some(x: Tensor, y: Tensor) -> Tensor:
        a = torch.add(x, y) + y
        b = torch.nn.functional.gelu(a.relu().sum(-1, keepdim=True)) * 2
        return b[0] - (a @ y.mT).softmax(-1)

    torch.compile(some, backend=keeps)(X, X)
    dynamlir.compile(some, backend=keeps)(X, X)
    theirs, ours = (
        [entry for entry in nodes if "numpy_T" not in str(entry) and "mT" not in str(entry)] for nodes in seen
    )
    known = [entry for entry in theirs if entry[1] is not getattr]
    assert known == [entry for entry in ours if entry[1] is not getattr]


# -- reproducers


def fail(monkeypatch: pytest.MonkeyPatch, reason: str = "pass-failed") -> None:
    extension = native.module()

    def refuse(*_: object) -> None:
        if reason == "internal-error":
            raise extension.NativeError('cannot read the plan: "on purpose"')
        raise extension.Unsupported(reason, 'on purpose """ \\', [(__file__, 3, "f", 0)])

    monkeypatch.setattr(extension, "compile_trace", refuse)


def adds(x: Tensor, y: Tensor) -> Tensor:
    return x.t().add(y) * 2


def replay(event: reasons.Event) -> subprocess.CompletedProcess[str]:
    script = event.message.rsplit("python ", 1)[1]
    return forked.python(Path(script))


@pytest.mark.parametrize("door", ["dynamlir", "torch"])
@pytest.mark.parametrize("reason", ["pass-failed", "codegen-failed", "internal-error"])
def test_a_failure_of_the_compiler_leaves_a_reproducer(
    door: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail(monkeypatch, reason)
    compile_ = dynamlir.compile if door == "dynamlir" else lambda f: torch.compile(f, backend="dynamlir")
    memory = torch.arange(12.0)
    args = (memory[:6].view(2, 3), memory.as_strided((3, 2), (1, 4), 1))
    with dynamlir.config.patch(reproducers=str(tmp_path / "made")):
        torch.testing.assert_close(compile_(adds)(*args), adds(*args))
    (event,) = dynamlir.fallbacks()
    assert event.reason == reason and "on purpose" in event.message
    (folder,) = (tmp_path / "made").iterdir()
    assert sorted(file.name for file in folder.iterdir()) == ["00-aten.mlir", "inputs.json", "replay.py"]
    assert str(folder / "replay.py") in str(event)
    about = json.loads((folder / "inputs.json").read_text())
    assert [entry["sizes"] for entry in about["inputs"]] == [[2, 3], [3, 2]]
    assert [entry["strides"] for entry in about["inputs"]] == [[3, 1], [1, 4]]
    assert len({entry["storage"] for entry in about["inputs"]}) == 1
    if (door, reason) == ("dynamlir", "pass-failed"):
        done = replay(event)
        assert done.returncode == 0 and "compiles" in done.stdout and "[3, 2]" in done.stdout, done.stderr


def test_reproducers_go_beside_the_dump(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fail(monkeypatch)
    dynamlir.compile(lambda x: x + 1, options={"dump": str(tmp_path)})(X)
    assert len(list((tmp_path / "reproducers").iterdir())) == 1


def test_reproducers_are_few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fail(monkeypatch)
    with dynamlir.config.patch(reproducers=str(tmp_path)):
        for _ in range(2):
            dynamlir.compile(lambda x: x + 1)(X)
        assert len(list(tmp_path.iterdir())) == 1
        for size in range(1, reproducer.MOST + 4):
            dynamlir.compile(lambda x: x + 1)(torch.ones(size))
        assert len(list(tmp_path.iterdir())) == reproducer.MOST
        assert "replay it with" not in dynamlir.fallbacks()[-1].message
        reproducer.reset()
        monkeypatch.setattr(reproducer, "MOST_IN_A_PLACE", reproducer.MOST)
        dynamlir.compile(lambda x: x + 1)(torch.ones(99))
        assert len(list(tmp_path.iterdir())) == reproducer.MOST


def test_a_place_that_cannot_be_written_leaves_no_reproducer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fail(monkeypatch)
    (tmp_path / "file").write_text("")
    for place in ("/proc/no/such", str(tmp_path / "file")):
        dynamlir.reset()
        with dynamlir.config.patch(reproducers=place):
            torch.testing.assert_close(dynamlir.compile(lambda x: x + 1)(X), X + 1)
        (event,) = dynamlir.fallbacks()
        assert event.reason == "pass-failed" and "replay it with" not in event.message


def test_what_the_program_cannot_do_leaves_no_reproducer(tmp_path: Path) -> None:
    with dynamlir.config.patch(reproducers=str(tmp_path)):
        dynamlir.compile(lambda x: x.view(torch.int32))(X)
    (event,) = dynamlir.fallbacks()
    assert event.reason == "aliasing" and not list(tmp_path.iterdir())
