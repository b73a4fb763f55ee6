"""Torch's process-wide switches apply to `dynamlir.compile`: the same programs through both doors."""

from __future__ import annotations

import os
from typing import Any

import dynamlir
import forked
import pytest
import torch
from dynamlir import reasons
from torch import Tensor

X = torch.arange(4.0)

PROGRAM = """
import torch
import {package}
{imports}
calls = []
def backend(gm, inputs):
    calls.append(1)
    {body}
x = torch.ones(2)
for options, function in ({{}}, lambda x: x + 1), ({{"fullgraph": True}}, lambda x: x + 1):
    compiled = {package}.compile(function, backend=backend, **options)
    try:
        print(compiled(x).tolist(), compiled(x).tolist(), len(calls), compiled is function)
    except Exception as error:
        print("raised", "on purpose" in str(error))
"""


def run(package: str, variable: str, imports: str = "", body: str = "return gm.forward", value: str = "1") -> str:
    code = PROGRAM.format(package=package, imports=imports, body=body)
    environment = {**os.environ, variable: value}
    done = forked.python(code, env=environment, ignore_warnings=True, only_torch=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("imports", ["", "import torch._dynamo"], ids=["before", "after torch._dynamo is imported"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [("TORCHDYNAMO_DISABLE", "1"), ("TORCH_COMPILE_DISABLE", "1"), ("TORCHDYNAMO_DISABLE", "0"), ("NOTHING", "1")],
)
def test_disabled_by_the_environment(variable: str, value: str, imports: str) -> None:
    ours, theirs = (run(package, variable, imports, value=value) for package in ("dynamlir", "torch"))
    # Torch refuses fullgraph=True under its second switch, which leaves nothing to be compiled whole.
    same = 1 if variable == "TORCH_COMPILE_DISABLE" else 2
    assert ours.splitlines()[:same] == theirs.splitlines()[:same]
    calls = [line.split("] ")[-1].split()[0] for line in ours.splitlines()]
    compiles = value == "0" or variable == "NOTHING"
    assert calls == (["1", "2"] if compiles else ["0", "0"])
    assert ("True" in ours) == (variable == "TORCHDYNAMO_DISABLE" and not compiles)


@pytest.mark.parametrize("value", ["1", ""])
def test_errors_suppressed_by_the_environment(value: str) -> None:
    """With ``fullgraph=True`` torch does not suppress errors."""
    body = "raise ZeroDivisionError('on purpose')"
    lines = [
        run(package, "TORCHDYNAMO_SUPPRESS_ERRORS", body=body, value=value).splitlines()
        for package in ("dynamlir", "torch")
    ]
    assert lines[0][1] == lines[1][1] == "raised True"
    assert lines[0][0].startswith("[2.0, 2.0] [2.0, 2.0]" if value else "raised True")
    assert lines[0][0].split("] ")[:2] == lines[1][0].split("] ")[:2]


def test_disabled_by_the_setting() -> None:
    """Existing entries are used, new ones are not created, and nothing is reported, since the user asked for this."""

    def function(x: Tensor, n: int) -> Tensor:
        return x + n

    compiled = dynamlir.compile(function, fullgraph=True)
    compiled(X, 1)
    with dynamlir.config.patch(on_plain="error"), torch._dynamo.config.patch(disable=True):
        for n in (1, 2):
            assert torch.equal(compiled(X, n), X + n)
        assert len(compiled._cache) == 1
    compiled(X, 2)
    assert len(compiled._cache) == 2 and reasons.counts() == {}


def test_errors_suppressed_by_the_setting() -> None:
    def fails(gm: Any, inputs: Any) -> Any:
        raise ZeroDivisionError("on purpose")

    compiled = dynamlir.compile(lambda x: x + 1, backend=fails)
    with pytest.raises(Exception, match="on purpose"):
        compiled(X)
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(dynamlir.PlainRunWarning) as caught:
        assert torch.equal(compiled(X), X + 1)
    assert "backend-error (ZeroDivisionError: on purpose)" in str(caught[0].message)
    assert reasons.counts() == {"backend-error": 1}


def test_interruptions_are_never_suppressed() -> None:
    def interrupted(gm: Any, inputs: Any) -> Any:
        raise KeyboardInterrupt

    compiled = dynamlir.compile(lambda x: x + 1, backend=interrupted)
    with torch._dynamo.config.patch(suppress_errors=True), pytest.raises(KeyboardInterrupt):
        compiled(X)
