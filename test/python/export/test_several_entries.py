"""Texts with several entries: each entry is called separately, and kernels that they share are compiled once."""

from __future__ import annotations

import re
from pathlib import Path

import dynamlir
import pytest
import torch
from dynamlir import _native
from stages import dump
from torch import Tensor

# At stage prims: the softplus of a matrix, and of a vector with as many elements, whose double is returned as well.
TWO = """
module {
  func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32>
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %0 = dynamo.exp %x : tensor<4x8xf32>
    %1 = dynamo.log1p %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
  func.func @backward(%x: tensor<32xf32>, %y: tensor<4x4xf32>) -> (tensor<32xf32>, tensor<4x4xf32>)
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 1>]} {
    %0 = dynamo.exp %x : tensor<32xf32>
    %1 = dynamo.log1p %0 : tensor<32xf32>
    %2 = dynamo.add %y, %y : tensor<4x4xf32>
    return %1, %2 : tensor<32xf32>, tensor<4x4xf32>
  }
}
"""


def written(folder: Path, text: str, name: str = "02-prims.mlir") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def check(entries: dict[str, _native.Executable]) -> None:
    """Checks that each entry computes what the text says."""
    assert list(entries) == ["forward", "backward"]
    x, y = torch.randn(4, 8), torch.randn(4, 4)
    for _ in range(2):
        (forward,) = entries["forward"](x)
        flat, double = entries["backward"](x.flatten(), y)
        torch.testing.assert_close(forward, x.exp().log1p())
        torch.testing.assert_close(flat, x.exp().log1p().flatten())
        torch.testing.assert_close(double, y + y)


def test_entries_share_a_kernel(tmp_path: Path) -> None:
    dynamlir.reset()
    entries = dynamlir.load_entries(written(tmp_path, TWO))
    check(entries)
    forward, backward = (entry.report() for entry in entries.values())
    # Compilation is reported for all entries together, the work of a call for each entry.
    assert forward["kernels"] == backward["kernels"] == 2
    assert len(forward["launched"]) == 1 and len(backward["launched"]) == 2
    assert forward["launched"][0]["name"] == backward["launched"][0]["name"]
    assert (forward["launches"], backward["launches"]) == (1, 2)


def test_each_stage_replays_with_all_entries(tmp_path: Path) -> None:
    folder = tmp_path / "stages"
    check(dynamlir.load_entries(written(tmp_path, TWO), dump=folder))
    texts = {path.name: path.read_text() for path in sorted(folder.glob("*.mlir"))}
    assert len(texts) == len(_native.stages()) - 2  # all but aten and functional
    planned = texts["04-planned.mlir"]
    assert planned.count("func.func @") == 4, "two entries, two kernels"
    shared = re.findall(r"dynamo\.launch @kernels::@(\w*log1p\w*)\(", planned)
    assert len(shared) == 2 and len(set(shared)) == 1
    for name in texts:
        check(dynamlir.load_entries(folder / name))
        with pytest.raises(ValueError, match=rf"{name} has the entries forward, backward: dynamlir\.load_entries"):
            dynamlir.load(folder / name)


def test_threads_compile_kernels_of_all_entries(tmp_path: Path) -> None:
    _native.clear_kernel_cache()
    check(dict(_native.load(str(written(tmp_path, TWO)), None, {"threads": 2})))


def test_graphs_of_a_model_in_one_module(tmp_path: Path) -> None:
    # A graph as captured, with weights, views, writes and a library call, twice under two names.
    def program(x: Tensor, weight: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        hidden = torch.nn.functional.gelu(x @ weight)
        total.add_(hidden.sum(0))
        return torch.softmax(hidden, -1), x.t()

    def arguments() -> tuple[Tensor, Tensor, Tensor]:
        torch.manual_seed(0)
        return torch.randn(6, 16), torch.randn(16, 8), torch.zeros(8)

    dump(program, tmp_path / "dump", *arguments())
    for stage in ("00-aten", "01-functional", "02-prims", "03-kernels", "04-planned"):
        text = (tmp_path / "dump" / f"{stage}.mlir").read_text()
        function = re.search(r"  func\.func @main\(.*?\n  \}[^\n]*\n", text, re.DOTALL)
        assert function is not None
        again = function.group().replace("@main", "@again")
        path = written(tmp_path, text[: function.end()] + again + text[function.end() :], f"{stage}.mlir")
        entries = dynamlir.load_entries(path)
        assert list(entries) == ["main", "again"]
        expected_arguments = arguments()
        expected = program(*expected_arguments)
        for entry in entries.values():
            given = arguments()
            softmax, view = entry(*given)
            torch.testing.assert_close(softmax, expected[0])
            torch.testing.assert_close(given[2], expected_arguments[2])
            assert view.data_ptr() == given[0].data_ptr() and view.shape == (16, 6)
        main, again = (entry.report() for entry in entries.values())
        assert main["kernels"] == len(again["launched"]) > 0


def test_profiles_tell_entries_apart(tmp_path: Path) -> None:
    entries = dynamlir.load_entries(written(tmp_path, TWO))
    with dynamlir.profile() as profile:
        check(entries)
    text = str(profile)
    assert "02-prims.mlir @forward" in text and "02-prims.mlir @backward" in text


def test_one_entry_is_a_program_as_well(tmp_path: Path) -> None:
    text = TWO[: TWO.index("  func.func @backward")] + "}\n"
    path = written(tmp_path, text)
    x = torch.randn(4, 8)
    (by_name,) = dynamlir.load_entries(path).values()
    assert torch.equal(by_name(x)[0], dynamlir.load(path)(x)[0])


PLANNED = """
module {
  func.func @forward(%x: memref<4xf32>) -> memref<4xf32>
      attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} {
    %0 = dynamo.workspace : memref<0xi8, strided<[1]>>
    %1 = dynamo.output_buffer : memref<4xf32>
    return %1 : memref<4xf32>
  }
  SECOND
}
"""

REFUSED = {
    "two of one name": (
        TWO.replace("@backward", "@forward"),
        None,
        r"02-prims\.mlir: (.|\n)*:9:3\): redefinition of symbol named 'forward'",
    ),
    "no entry": (TWO.replace("dynamo.entry, ", ""), None, "no function has the attribute dynamo.entry"),
    "an entry at another stage": (
        PLANNED.replace(
            "SECOND",
            "func.func @backward(%x: tensor<4xf32>) -> tensor<4xf32> "
            "attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} { return %x : tensor<4xf32> }",
        ),
        None,
        r"different stages: @forward \(.*:3\) works on memory, @backward \(.*:9\) on tensors",
    ),
    "an entry without outputs": (
        PLANNED.replace("SECOND", "func.func @backward(%x: memref<4xf32>) attributes {dynamo.entry} { return }"),
        "planned",
        r":9\): the entry lacks dynamo\.outputs",
    ),
    "an entry without a body": (
        PLANNED.replace(
            "SECOND", "func.func private @backward(memref<4xf32>) attributes {dynamo.entry, dynamo.outputs = []}"
        ),
        "planned",
        r":9\): expected an entry of one block",
    ),
    "an entry that calls another": (
        TWO.replace(
            "dynamo.add %y, %y : tensor<4x4xf32>", "call @square(%y) : (tensor<4x4xf32>) -> tensor<4x4xf32>"
        ).replace(
            "module {",
            """module { func.func @square(%y: tensor<4x4xf32>) -> tensor<4x4xf32>
  attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>]} { return %y : tensor<4x4xf32> }""",
        ),
        "prims",
        r":14:10\): not primitive: 'func\.call'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_program_is_told_where(name: str, tmp_path: Path) -> None:
    text, stage, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        dynamlir.load_entries(written(tmp_path, text), stage)
