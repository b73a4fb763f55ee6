"""Runs the demo's three models through the whole stack and compares their values with eager."""

from __future__ import annotations

import dynamlir
import pytest
import torch
from suite import catalog


@pytest.mark.parametrize("name", catalog.DEMO)
def test_model(name: str) -> None:
    module, inputs = catalog.MODELS[name].make(batch=2)
    compiled = torch.compile(module, backend="dynamlir")
    with torch.no_grad():
        wanted, found = module(**inputs), compiled(**inputs)
    wanted, found = (out if isinstance(out, torch.Tensor) else out.logits for out in (wanted, found))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    reports = dynamlir.compiles()
    assert len(reports) == 1 and reports[0].eager is None, dynamlir.explain_last()
