"""`dynamlir.report`: the pages of a real program's report, its settings, and what goes wrong when it is written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import dynamlir
import forked
import pytest
import report_program
from report_pages import Pages

PROGRAM = Path(report_program.__file__)


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DYNAMLIR_")}
    return {**kept, "PYTHONPATH": os.pathsep.join([*forked_paths(), os.environ.get("PYTHONPATH", "")]), **settings}


def forked_paths() -> list[str]:
    return [str(Path(dynamlir.__file__).parents[1])]


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The report of the program, with stages."""
    folder = tmp_path_factory.mktemp("report")
    done = forked.python(
        PROGRAM, str(folder / "report.html"), env=environment(DYNAMLIR_DUMP=str(folder / "dump")), ignore_warnings=True
    )
    assert done.returncode == 0, done.stderr
    return Pages((folder / "report.html").read_text())


def line(text: str) -> int:
    return next(at for at, one in enumerate(PROGRAM.read_text().splitlines(), 1) if text in one)


def test_pages_are_whole_and_links_lead_somewhere(dumped: Pages) -> None:
    dumped.check()
    assert [name for name in dumped.ids if name in PAGES] == PAGES
    assert dumped.links[1 : 1 + len(PAGES)] == [f"#{page}" for page in PAGES]
    text = "".join(dumped.texts[""])
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "") and "https:" not in text


PAGES = ["overview", "source", "graphs", "profile", "memory", "recompilations", "decisions"]


def test_the_source_has_breaks_guards_and_kernels_beside_its_lines(dumped: Pages) -> None:
    branch = line("if y.sum() > 0")
    assert f"f0-L{branch}" in dumped.ids
    assert "data-dependent-branch" in dumped.text
    assert "compiled again: L['scale'] == 1.0: expected 1.0, seen 2.0" in dumped.text
    assert re.search(r"gated: \d entries, [\d,]+ guards", dumped.text)
    classes = {attributes.get("class") for _, attributes in dumped.elements}
    assert {"row has break", "remark kernel", "remark break", "remark again", "remark guard"} <= classes


def test_a_node_leads_from_its_line_to_its_assembly(dumped: Pages) -> None:
    picture = dumped.data["g0-data"]
    assert picture["exact"]
    nodes = [node for node in picture["nodes"] if node[1] == "aten.addmm.default"]
    modules = [picture["modules"][node[6]] for node in nodes]
    assert modules == [f"layers.{at}.{name}" for at in (0, 1) for name in ("qkv", "proj", "mlp.0", "mlp.2")]
    first = nodes[0]
    place, anchor, chain = picture["places"][first[5]]
    assert anchor == f"f0-L{line('self.qkv(self.norm(x))')}" and place.endswith(f":{anchor[4:]}")
    assert "linear.py:" in chain
    assert "dynamo.matmul" in picture["primitives"][str(first[5])]
    (name, row, texts) = picture["kernels"][first[7][0]]
    assert row in dumped.ids and "matmul" in name
    assert "dynamo.matmul" in texts["kernels"] and "linalg." in texts["linalg"] and " loc(" not in texts["kernels"]
    assert f"{name}:" in texts["assembly"] or f"{name}(" in texts["assembly"]
    assert first[8] == ["layers.0.qkv.bias", "layers.0.qkv.weight"]


def test_operations_without_parameters_are_in_the_module_that_calls_them(dumped: Pages) -> None:
    picture = dumped.data["g0-data"]
    places = [(node[0], picture["modules"][node[6]]) for node in picture["nodes"]]
    assert [module for name, module in places if name == "gelu"] == ["layers.0.mlp", "layers.1.mlp"]
    assert [module for name, module in places if name == "_softmax"] == ["layers.0", "layers.1"]
    assert [module for name, module in places if name == "add"] == [f"layers.{at}" for at in (0, 0, 1, 1)]
    assert [module for name, module in places if name == "mean"] == [""]
    # TorchDynamo gives parameters other names.
    dynamos = dumped.data["g1-data"]
    assert {"layers.0.qkv", "layers.1.mlp.2"} <= set(dynamos["modules"])


def test_profile_and_memory_are_pictures(dumped: Pages) -> None:
    tags = [(tag, attributes.get("class")) for tag, attributes in dumped.elements]
    assert ("svg", "roofline") in tags and ("svg", "plan") in tags and ("div", "timeline") in tags
    assert "in the order of the plan" in dumped.text
    assert sum(tag == "circle" for tag, _ in tags) >= 3
    assert re.search(r"forward: \d+ buffers in [\d.]+ KiB over \d+ steps", dumped.text)
    assert re.search(r"gradients: \d+ buffers", dumped.text)


def test_gradients_have_times_of_their_own(dumped: Pages) -> None:
    assert "Model , gradients" in dumped.text
    row = r"(\S+) (?:kernel|c_shim|dispatcher) (forward|gradients) \d+ (?:[\d.]+ \w+ )?([\d.]+ [µmn]?s) "
    rows = re.findall(row, dumped.text)
    assert {part for _, part, _ in rows} == {"forward", "gradients"}


def test_recompilations_are_a_tree_with_causes(dumped: Pages) -> None:
    tree = dumped.text[dumped.text.index("The graphs of each function.") :]
    assert re.search(r"gated .* compiled again .*guard failed L\['x'\]\.shape", tree)
    assert "graph break" in tree and "dynamic sizes" in tree


def test_decisions_name_what_was_refused(dumped: Pages) -> None:
    data = dumped.data["decision-data"]
    found = [[data["texts"][at] for at in row[1:8]] for row in data["rows"]]
    assert any(by == "guards" and refused == "reuse an entry" for by, _, _, refused, *_ in found)
    assert any(by == "dynamo-fuse" and numbers.startswith("saved bytes") for by, _, _, _, _, numbers, _ in found)


def test_at_exit_each_process_writes_its_own_file_and_stages_are_not_needed(tmp_path: Path) -> None:
    for _ in range(2):
        done = forked.python(PROGRAM, env=environment(DYNAMLIR_REPORT=str(tmp_path / "new")), ignore_warnings=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
    files = sorted((tmp_path / "new").iterdir())
    assert len(files) == 2 and all(re.fullmatch(r"report_program-\d+\.html", file.name) for file in files)
    pages = Pages(files[0].read_text())
    pages.check()
    picture = pages.data["g0-data"]
    assert not picture["exact"] and not any(texts for _, _, texts in picture["kernels"])
    nodes = [node for node in picture["nodes"] if node[1] == "aten.addmm.default"]
    assert all(node[7] for node in nodes), "kernels of the same line"
    assert "the order is known only if stages are dumped" in pages.text


def test_a_process_that_compiled_nothing(tmp_path: Path) -> None:
    done = forked.python("import dynamlir", env=environment(DYNAMLIR_REPORT=str(tmp_path)))
    assert done.returncode == 0 and not done.stderr, done.stderr
    (file,) = tmp_path.iterdir()
    pages = Pages(file.read_text())
    pages.check()
    assert "Nothing has been compiled in this process." in pages.text and "g0" not in pages.ids


def test_the_setting_may_change_while_the_program_runs(tmp_path: Path) -> None:
    program = f"import dynamlir; dynamlir.config.report = {str(tmp_path / 'a')!r}"
    assert forked.python(program, env=environment(DYNAMLIR_REPORT=str(tmp_path / "b"))).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"dynamlir: the report cannot be written to .*/file/report\.html: ") as error:
        dynamlir.report(tmp_path / "file" / "report.html")
    assert error.value.errno
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize("flags", ["", "error"])
def test_at_exit_it_is_one_warning(tmp_path: Path, flags: str) -> None:
    (tmp_path / "file").write_text("in the way")
    settings = environment(DYNAMLIR_REPORT=str(tmp_path / "file" / "in"), PYTHONWARNINGS=flags)
    done = forked.python("import dynamlir\nprint('ran')", env=settings)
    assert done.returncode == 0 and done.stdout == "ran\n"
    assert done.stderr.count("RuntimeWarning: dynamlir: the report cannot be written to") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("path", [None, 3, b"report.html", ""])
def test_only_paths_are_paths(path: object) -> None:
    with pytest.raises(TypeError, match="takes the path of a file or folder"):
        dynamlir.report(path)  # type: ignore[arg-type]


def test_an_existing_file_is_replaced_and_a_folder_gets_a_name(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("before")
    assert dynamlir.report(str(file)) == file and file.read_text().startswith("<!DOCTYPE html>")
    assert file.stat().st_mode & 0o777 == 0o666 & ~_mask()
    made = dynamlir.report(tmp_path)
    assert made.parent == tmp_path and re.fullmatch(rf".+-{os.getpid()}\.html", made.name)
    assert sorted(tmp_path.iterdir()) == sorted([file, made])


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
