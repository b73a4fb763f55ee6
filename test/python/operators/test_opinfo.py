"""Checks every OpInfo on float32 samples against eager: no wrong result, no crash."""

from __future__ import annotations

import json
from pathlib import Path

import opinfo_runner
import pytest
import torch

TARGET = 0.85
# Each version of torch has different operators.
DESCRIBED = torch.__version__.startswith(f"{opinfo_runner.data()['torch']}.")


@pytest.fixture(scope="module")
def summary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> opinfo_runner.Summary:
    found = opinfo_runner.run(opinfo_runner.Samples(5 if request.config.getoption("--long") else 1))
    path: Path = tmp_path_factory.mktemp("opinfo") / "opinfo.json"
    path.write_text(json.dumps(found.as_json()))
    return found


def test_all_operators_run(summary: opinfo_runner.Summary) -> None:
    assert len(summary.results) >= (678 if DESCRIBED else 600)
    assert not [result.name for result in summary.results if result.samples == 0 and not result.crash]


def test_nothing_crashed(summary: opinfo_runner.Summary) -> None:
    assert not summary.crashed, summary.text(rows=False)


def test_nothing_wrong(summary: opinfo_runner.Summary) -> None:
    assert not summary.wrong, summary.text(rows=False)


def test_generated_share(summary: opinfo_runner.Summary) -> None:
    covered, own = summary.coverage()
    assert covered >= TARGET * own, summary.text()


@pytest.mark.skipif(not DESCRIBED, reason="the data file is about another version of torch")
def test_data_file_names_operators() -> None:
    names = {opinfo_runner.op_name(op) for op in opinfo_runner.forward_ops(opinfo_runner.Samples())}
    facts = opinfo_runner.data()
    kinds = [*facts["library"].values(), *facts["other"].values()]
    library = [name for entry in kinds for name in entry["ops"]]
    assert len(library) == len(set(library)), "an operator is listed twice"
    for listed in (library, facts["values_undefined"]["ops"], facts["beside_the_graph"]["ops"], facts["tolerance"]):
        assert not set(listed) - names
    assert all(entry["reason"] for entry in (*kinds, *facts["tolerance"].values()))


def test_pieces_of_an_operator_add_up() -> None:
    """The first piece reports the number of samples; the operator is reported once, with all of them."""
    reported: list[opinfo_runner.OpResult] = []
    schedule = opinfo_runner.Schedule(["long", "short"], lambda whole, done, total: reported.append(whole))
    sizes = {"long": 2 * opinfo_runner.PIECE + 5, "short": 1}
    starts: list[tuple[str, int]] = []
    while (piece := schedule.take()) is not None:
        name, start = piece
        starts.append(piece)
        ran = min(opinfo_runner.PIECE, sizes[name] - start)
        result = opinfo_runner.OpResult(name, samples=ran, externs={"x": 1}, wrong=[f"{start}"], total=sizes[name])
        schedule.done(name, start, result)
    assert sorted(starts) == [
        ("long", 0),
        ("long", opinfo_runner.PIECE),
        ("long", 2 * opinfo_runner.PIECE),
        ("short", 0),
    ]
    assert {whole.name: whole.samples for whole in reported} == sizes
    assert schedule.results["long"].externs == {"x": 3}
    assert len(schedule.results["long"].wrong) == 3
