"""An invalid text, stage, launch or input is an error of `load` or of the call, never a crash."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import dynamlir
import mutations
import pytest
import torch
from stages import dump, dynamlir_opt, stages
from torch import Tensor


def program(x: Tensor, state: Tensor, index: Tensor, mask: Tensor, table: Tensor) -> tuple[Tensor | None, ...]:
    """A product, a gather, a write through a view, a flip, a join, bools and bytes; outputs of every kind."""
    state.mul_(0.5)
    state[1:3].add_(x.sum(0))
    y = torch.softmax(x @ state.t(), -1)
    rows = torch.nn.functional.embedding(index, table)
    joined = torch.cat([torch.where(mask, y, 0.0).flip(0), y], 1)
    return y, joined[:, 1:], state[0], y.t(), rows, mask & (y > 0.1), (x > 0).to(torch.uint8), None, x


def tensors() -> dict[str, Tensor]:
    """The arguments of `program`."""
    index = torch.tensor([3, 0, 5])
    return dict(
        x=torch.randn(4, 8), state=torch.randn(6, 8), index=index, mask=torch.rand(4, 6) > 0.5, table=torch.randn(10, 4)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stages of `program`, without locations, and its inputs in the order of the graph."""
    made = tmp_path_factory.mktemp("stages")
    given = tensors()
    torch._dynamo.reset()
    dynamlir.reset()
    dump(program, made / "dump", *given.values())
    for label, _ in stages():
        command = [dynamlir_opt(), made / "dump" / f"{label}.mlir", "-o", made / f"{label}.mlir"]
        subprocess.run(command, check=True)
    text = (made / "04-planned.mlir").read_text()
    order = sorted(given, key=lambda name: text.index(f'"L_{name}_"'))
    torch.save([given[name] for name in order], made / "inputs.pt")
    return made


def inputs(folder: Path) -> list[Tensor]:
    """New inputs for each call."""
    return torch.load(folder / "inputs.pt")


def test_the_text_tells_its_stage(folder: Path, tmp_path: Path) -> None:
    wanted = [out for out in dynamlir.load(folder / "04-planned.mlir")(*inputs(folder)) if out is not None]
    for label, _ in stages():
        path = tmp_path / "edited.mlir"
        path.write_text((folder / f"{label}.mlir").read_text())
        for stage in (None, label, label.partition("-")[2]):
            found = [out for out in dynamlir.load(path, stage=stage)(*inputs(folder)) if out is not None]
            torch.testing.assert_close(found, wanted, msg=f"{label} as {stage}")


BAD_FILES: dict[str, tuple[bytes, str | None, str]] = {
    "empty": (b"", None, "no function has the attribute dynamo.entry"),
    "prose": (b"this is not a module", None, "cannot parse the module"),
    "garbage": (bytes(range(256)), None, "is not text"),
    "zero": (b"module {\n\0}", None, "line 2: a zero byte"),
    "nested": (b"module attributes {a = " + b"[" * 100_000, None, "line 1: brackets are nested too deep"),
    "no_graph": (b"func.func @main() { return }", None, "so there is no graph"),
    "no_stage": (b"module {}", "late", "there is no stage 'late', there are aten, functional"),
}
"""By name: a file, the stage passed to `load`, the message."""


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_no_program_is_a_value_error(name: str, tmp_path: Path) -> None:
    content, stage, message = BAD_FILES[name]
    path = tmp_path / "file.mlir"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        dynamlir.load(path, stage=stage)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        dynamlir.load(tmp_path / "absent.mlir")
    with pytest.raises(ValueError, match="holds no exported program"):
        dynamlir.load(tmp_path)


def test_another_stage_than_the_text_is_at(folder: Path) -> None:
    for stage, other in (
        ("00-aten", "planned"),
        ("04-planned", "aten"),
        ("08-llvm", "linalg"),
        ("04-planned", "prims"),
    ):
        with pytest.raises(ValueError, match=rf"not at stage {other}|not primitive"):
            dynamlir.load(folder / f"{stage}.mlir", stage=other)


PLANNED, LLVM = "04-planned", "08-llvm"
WINDOW = "sizes: [2, 8], strides: [{0}, 1] : memref<6x8xf32> to memref<2x8xf32"
SIGNATURE = "dynamo.signature = (memref<48xf32>) -> memref<{0}xf32>"

HAND_EDITS: dict[str, tuple[str, str, str, str]] = {
    "workspace": (PLANNED, "memref<448xi8>", "memref<192xi8>", "'dynamo.buffer' op reaches byte"),
    "window": (PLANNED, WINDOW.format(8), WINDOW.format(800), "strid"),
    "commit": (PLANNED, "    dynamo.commit\n", "", "dynamo.launch @copy .*input . is written before the commit"),
    "operator": (PLANNED, "aten.mm.default", "aten.gone.default", "torch has no operator aten.gone.default"),
    "writes": (PLANNED, "aten.mm.default", "aten.mul_.Tensor", "aten.mul_.Tensor .* writes to its arguments"),
    "arguments": (PLANNED, "aten.mm.default", "aten.addmm.default", "takes 5 arguments, 2 are given"),
    "outputs": (PLANNED, "#dynamo.output<result 0>", "#dynamo.output<result 70>", "names nothing"),
    "entry": (PLANNED, "dynamo.entry, ", "", "no function has the attribute dynamo.entry"),
    "signature": (LLVM, SIGNATURE.format(48), SIGNATURE.format(47), "its kernel takes 'memref<47xf32>'"),
    "unsigned": (LLVM, SIGNATURE.format(48), "unsigned", "its kernel takes '!llvm.ptr'"),
}
"""By name: a stage, a text, its replacement, the message."""


@pytest.mark.parametrize("name", HAND_EDITS)
def test_a_wrong_edit_is_refused_with_its_op(name: str, folder: Path, tmp_path: Path) -> None:
    stage, old, new, message = HAND_EDITS[name]
    text = (folder / f"{stage}.mlir").read_text()
    assert old in text
    path = tmp_path / f"{stage}.mlir"
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        dynamlir.load(path)


FORMAT = re.compile(r'dynamo\.format = #dynamo\.format<(\d+), "([^"]*)">')

OTHER_VERSIONS: dict[str, tuple[str, str, str]] = {
    "newer": (
        "dynamo.format",
        'dynamo.format = #dynamo.format<77, "9.8.7">',
        rf"format 77 and was written by dynamlir 9\.8\.7, but this is dynamlir {dynamlir.__version__}, which reads",
    ),
    "unknown name": (
        "dynamo.entry",
        "dynamo.entry, dynamo.entered",
        "'dynamo.entered', which dynamlir .* does not know",
    ),
    "old name": (
        "dynamo.entry",
        "dynamo.entry, dynamo.arg_versions = array<i64>",
        "of an older version .*: arguments have 'dynamo.version_bumps' now",
    ),
}
"""By name: the attribute that is replaced, its replacement, the message."""


def test_each_stage_states_its_format(folder: Path) -> None:
    found = {label: FORMAT.findall((folder / f"{label}.mlir").read_text()) for label, _ in stages()}
    (own,) = found["00-aten"]
    assert own[1] == dynamlir.__version__ and found == {label: [own] for label, _ in stages()}


@pytest.mark.parametrize("name", OTHER_VERSIONS)
def test_a_text_of_another_version_names_it(name: str, folder: Path, tmp_path: Path) -> None:
    attribute, new, message = OTHER_VERSIONS[name]
    for stage in ("00-aten", PLANNED, LLVM):
        text = (folder / f"{stage}.mlir").read_text()
        pattern = FORMAT if attribute == "dynamo.format" else re.compile(r"\bdynamo\.entry\b")
        edited = pattern.sub(new, text, count=1)
        assert edited != text
        path = tmp_path / f"{stage}.mlir"
        path.write_text(edited)
        line = 1 + next(at for at, line in enumerate(edited.splitlines()) if new in line)
        # The file and the line, as MLIR writes them.
        with pytest.raises(ValueError, match=rf'{re.escape(str(path))}":{line}:\d+\): .*{message}'):
            dynamlir.load(path)


def test_a_version_that_writes_the_same_format_is_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "04-planned.mlir"
    text = (folder / path.name).read_text()
    path.write_text(FORMAT.sub(r'dynamo.format = #dynamo.format<\1, "0.0.1">', text))
    dynamlir.load(path, dump=tmp_path / "again")(*inputs(folder))
    # What this version writes from it is this version's.
    assert FORMAT.findall((tmp_path / "again" / path.name).read_text())[0][1] == dynamlir.__version__


class Dispatching(Tensor):
    """A tensor subclass without memory of its own."""

    @staticmethod
    def __new__(cls, like: Tensor) -> Dispatching:
        return Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype, strides=like.stride())

    def __init__(self, like: Tensor) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("nobody asks")


def emptied(tensor: Tensor) -> Tensor:
    """A copy whose storage is too small for its sizes."""
    made = tensor.clone()
    made.untyped_storage().resize_(0)
    return made


BAD_INPUTS: dict[str, Callable[[list[Tensor]], list[Any]]] = {
    "none": lambda given: [],
    "fewer": lambda given: given[:-1],
    "more": lambda given: [*given, given[0]],
    "no_tensor": lambda given: [None, *given[1:]],
    "number": lambda given: [3.0, *given[1:]],
    "numpy": lambda given: [given[0].numpy(), *given[1:]],
    "claims_to_be_one": lambda given: [mock.Mock(spec=Tensor), *given[1:]],
    "dtype": lambda given: [given[0].double(), *given[1:]],
    "shape": lambda given: [given[0][:-1], *given[1:]],
    "rank": lambda given: [given[0][None], *given[1:]],
    "strides": lambda given: [given[0].t().contiguous().t(), *given[1:]],
    "meta": lambda given: [given[0].to("meta"), *given[1:]],
    "sparse": lambda given: [given[0].to_sparse(), *given[1:]],
    "negative": lambda given: [torch.complex(given[0], given[0]).conj().imag, *given[1:]],
    "subclass": lambda given: [Dispatching(given[0]), *given[1:]],
    "storage": lambda given: [emptied(given[0]), *given[1:]],
    "overlap": lambda given: [
        given[0],
        *(given[0].view(-1)[:32].view(4, 8) if t.shape == (4, 8) else t for t in given[1:]),
    ],
}
"""By name: the inputs passed instead of valid ones."""


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_wrong_inputs_are_an_error_and_nothing_is_written(name: str, folder: Path) -> None:
    from dynamlir import _native

    executable = dynamlir.load(folder / "04-planned.mlir")
    given = inputs(folder)
    before = [tensor.clone() for tensor in given]
    with pytest.raises((TypeError, _native.RunError)) as caught:
        executable(*BAD_INPUTS[name](given))
    assert str(caught.value)
    torch.testing.assert_close(given, before)
    # The executable itself is undamaged.
    torch.testing.assert_close(executable(*inputs(folder)), dynamlir.load(folder / "04-planned.mlir")(*inputs(folder)))


PER_STAGE = 36


def test_damaged_stages_are_refused_or_run(folder: Path, tmp_path: Path) -> None:
    files = []
    for number, (label, _) in enumerate(stages()):
        text = (folder / f"{label}.mlir").read_text()
        # From stage 05 on the bodies of kernels are code, which is trusted like any code.
        editable = mutations.everything if number < 5 else mutations.around_code
        for seed in range(PER_STAGE):
            path = tmp_path / f"{label}_{seed}.mlir"
            path.write_text(mutations.mutate(text, seed, editable))
            files.append(path)
    outcomes = mutations.replay(files, folder / "inputs.pt")
    assert outcomes.keys() == set(files)
    bad = [f"{path.name}: {outcome}" for path, outcome in outcomes.items() if outcome.startswith(("bug", "died"))]
    assert not bad, "\n".join(bad)
    # Some of the damage is invisible to the parser.
    assert sum(outcome == "ran" for outcome in outcomes.values()) >= 10
    assert sum("cannot parse" not in outcome for outcome in outcomes.values()) >= 30
