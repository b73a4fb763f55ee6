"""The interaction of `dynamlir.compile` and torch.compile: an object compiled by either is recompiled from the
original, and torch's tracer stays out of our files."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import torch

from . import native, source_lines
from .capture import compiled_modules
from .reasons import Fallback


def innermost(model: Any) -> Any:
    """Returns the original that was given to `torch.compile` or `dynamlir.compile`, however often, to create ``model``.
    As in torch, the last one that compiles it decides how."""
    while (inner := _made_of(model)) is not None:
        model = inner
    return model


def _made_of(model: Any) -> Any:
    try:
        ours = isinstance(model, native.module().CompiledFunction)
    except Fallback:
        ours = False  # without the extension, nothing has been compiled
    if ours:
        return model.__wrapped__
    if isinstance(model, torch.nn.Module):
        return _module_in(model)
    if type(model) is types.MethodType:
        inner = _made_of(model.__func__)
        return None if inner is None else types.MethodType(inner, model.__self__)
    return _function_in(model) if type(model) is types.FunctionType else None


def _module_in(model: torch.nn.Module) -> Any:
    """Returns the module of which another one is the compiled form; None otherwise."""
    if (made := compiled_modules.made_of(model)) is not None:
        return made.module
    of_torch: Any = sys.modules.get("torch._dynamo.eval_frame")
    if of_torch is None or type(model) is not of_torch.OptimizedModule:
        return None
    # torch.compiler.disable marks a module in this way.
    return None if isinstance(model.dynamo_ctx, of_torch.DisableContext) else model._orig_mod


def _function_in(function: types.FunctionType) -> Any:
    """Returns the original of a function compiled by torch.compile. A wrapper of such a function has its attributes,
    but other code."""
    of_torch: Any = sys.modules.get("torch._dynamo.eval_frame")
    if of_torch is None or vars(function).get("_torchdynamo_wrapper_id") != id(function):
        return None
    code = function.__code__
    is_its = code.co_filename == of_torch.__file__ and code.co_name == "compile_wrapper"
    return vars(function).get("_torchdynamo_orig_callable") if is_its else None


def keep_tracer_out() -> None:
    """Makes TorchDynamo, if loaded, run our frames as plain Python: otherwise it would trace a capture from within."""
    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None and not getattr(rules, "_knows_dynamlir", False):
        rules.add(os.path.basename(source_lines.OURS.rstrip(os.sep)))
        rules._knows_dynamlir = True
