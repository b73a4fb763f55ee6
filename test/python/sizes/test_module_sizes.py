"""Checks every module of torch.nn against eager, with batches whose size changes from call to call.

Modules and inputs are those of torch's ModuleInfo. Each is called with the batch of its sample, with three more, with
2, 1 and 0, and again with the sample's; first in evaluation without gradients, then in training, where parameters have
gradients as well. Inputs of other batch sizes are created as in `test_opinfo_sizes`. Run as a program, with
``PYTHONPATH=test/python``, this file prints the outcome for each module.
"""

from __future__ import annotations

import collections
import copy
import re
import sys
import traceback
from typing import Any

import dynamlir
import harness
import pytest
import sampled
import torch
from gradients import run_with_gradients
from test_opinfo_sizes import Seen, count_graphs, first_rows, resized, shapes
from torch.testing._internal.common_modules import module_db

TOLERANCE = (1e-4, 1e-4)
"""Wide enough for gradients of attention, whose terms cancel."""

INFOS = {info.name: info for info in module_db}

SAMPLES = 3
"""The number of samples of each module and mode when run as a program. The test takes one."""

UNKNOWN = dict.fromkeys(
    ("nn.MultiLabelMarginLoss", "nn.MultiMarginLoss"), "eager returns uninitialised memory for an empty batch"
)


def state(module: torch.nn.Module) -> list[torch.Tensor]:
    return list(module.state_dict(keep_vars=True).values())


def outcome(module: Any, called: Any, arguments: Any, training: bool) -> harness.Outcome:
    """A call's results, with the gradients of inputs and parameters when training."""
    args, kwargs = harness.clone_tree(arguments)
    with torch.set_grad_enabled(training):
        runner = run_with_gradients if training else harness.run
        found = runner(called, args, kwargs, state(module))
    return found


def check_module(info: Any, training: bool, count: int) -> Seen:
    """Checks one module with all batch sizes."""
    seen = Seen(info.name)
    torch.manual_seed(0)
    drawn = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=training, training=training)
    for sample in drawn:
        forward = sample.forward_input
        if forward is None:
            continue
        arguments = (tuple(forward.args), dict(forward.kwargs))
        rows = first_rows(arguments)
        if rows is None:
            continue
        if seen.samples == count:
            break
        seen.samples += 1
        made = sample.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).train(training)
        theirs, ours = copy.deepcopy(module), copy.deepcopy(module)
        dynamlir.reset()
        compiled = dynamlir.compile(ours, dynamic=True)
        for batch in [rows, rows + 3, 2, 1, 0, rows]:
            given = resized(arguments, batch, every=False)
            if outcome_raises(module, given, training):
                other = resized(arguments, batch, every=True)
                if not outcome_raises(module, other, training):
                    given = other
            before = outcome(theirs, theirs, given, training)
            after = outcome(ours, compiled, given, training)
            seen.calls += 1
            if type(before.error) is type(after.error) is not type(None):
                continue
            found = harness.differences(before, after, tolerance=TOLERANCE)
            if found and not (batch == 0 and info.name in UNKNOWN):
                mode = f"{'train' if training else 'eval'}, batch {batch}, {made.args} {made.kwargs}"
                seen.wrong.append(f"{mode}, shapes {shapes(given)}: {'; '.join(found)[:600]}")
        count_graphs(seen, compiled)
    return seen


def outcome_raises(module: torch.nn.Module, arguments: Any, training: bool) -> bool:
    """Returns true if eager raises. Calls a copy, since a call writes statistics."""
    asked = copy.deepcopy(module)
    return outcome(asked, asked, arguments, training).error is not None


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", sampled.one_in(6, INFOS))
def test_modules_with_any_batch(name: str, training: bool) -> None:
    with dynamlir.config.patch(on_plain="ignore"):
        assert not check_module(INFOS[name], training, 1).wrong


def main() -> None:
    for training in (False, True):
        found: list[Seen] = []
        for name, info in INFOS.items():
            if len(sys.argv) > 1 and not re.search(sys.argv[1], name):
                continue
            try:
                with dynamlir.config.patch(on_plain="ignore"):
                    found.append(check_module(info, training, SAMPLES))
            except Exception:
                found.append(Seen(name, wrong=["the check itself: " + traceback.format_exc()[-1500:]]))
            for text in found[-1].wrong:
                print(f"WRONG {name}: {text}", flush=True)
        statuses = collections.Counter(seen.status for seen in found if seen.calls)
        reasons = collections.Counter(reason for seen in found for reason in seen.plain)
        kinds: collections.Counter[str] = collections.Counter()
        for seen in found:
            kinds.update(seen.kinds)
        print(f"{'train' if training else 'eval'}: {len(found)} modules, {sum(seen.calls for seen in found)} calls")
        print(f"  by the worst of their graphs: {dict(statuses)}; graphs: {dict(kinds)}")
        print(f"  plain by reason: {dict(reasons)}; wrong: {sum(bool(seen.wrong) for seen in found)}", flush=True)
        print("  plain:", [(seen.name, seen.plain) for seen in found if seen.plain])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
