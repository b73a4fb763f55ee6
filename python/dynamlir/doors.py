"""How `dynamlir.compile` and torch.compile go through each other: what has been compiled, by either, is compiled as
what it was made of, and torch's tracer stays out of our files.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import torch

from . import native, places
from .capture import views
from .reasons import Fallback


def innermost(model: Any) -> Any:
    """What was given to `torch.compile` or to `dynamlir.compile`, however often, to make ``model``; the last one that
    compiles decides how, as it does in torch."""
    while (inner := _made_of(model)) is not None:
        model = inner
    return model


def _made_of(model: Any) -> Any:
    try:
        ours = isinstance(model, native.module().CompiledFunction)
    except Fallback:
        ours = False  # without the extension nothing has been compiled
    if ours:
        return model.__wrapped__
    if isinstance(model, torch.nn.Module):
        return _module_in(model)
    if type(model) is types.MethodType:
        inner = _made_of(model.__func__)
        return None if inner is None else types.MethodType(inner, model.__self__)
    return _function_in(model) if type(model) is types.FunctionType else None


def _module_in(model: torch.nn.Module) -> Any:
    """The module that another one is the compiled form of; None where it is none."""
    if (made := views.made_of(model)) is not None:
        return made.module
    of_torch: Any = sys.modules.get("torch._dynamo.eval_frame")
    if of_torch is None or type(model) is not of_torch.OptimizedModule:
        return None
    # This is how torch.compiler.disable marks a module.
    return None if isinstance(model.dynamo_ctx, of_torch.DisableContext) else model._orig_mod


def _function_in(function: types.FunctionType) -> Any:
    """The function that torch.compile has made another one of. What wraps that has its attributes, but other code."""
    of_torch: Any = sys.modules.get("torch._dynamo.eval_frame")
    if of_torch is None or vars(function).get("_torchdynamo_wrapper_id") != id(function):
        return None
    code = function.__code__
    is_its = code.co_filename == of_torch.__file__ and code.co_name == "compile_wrapper"
    return vars(function).get("_torchdynamo_orig_callable") if is_its else None


def keep_tracer_out() -> None:
    """Have TorchDynamo, if it is there, leave our own frames to Python: it would see a capture from within."""
    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None and not getattr(rules, "_knows_dynamlir", False):
        rules.add(os.path.basename(places.OURS.rstrip(os.sep)))
        rules._knows_dynamlir = True
