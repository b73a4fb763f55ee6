"""`ExportedProgram`: a whole program as a graph, as text and as a callable."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import torch
import torch.fx

from .. import foreign_modes, interruptions, logs, native
from ..capture.api import compile as compile_
from ..compilation import compile_program
from ..options import resolve
from ..program import Program
from ..reasons import Fallback
from ..shape_env import of_length
from .signature import Signature, Source
from .state import ProgramModule, State


@dataclasses.dataclass(frozen=True)
class _Text:
    """The compiled text of a program."""

    executable: Any
    requires_grad: tuple[bool, ...]
    """For each tensor that it takes, true if the exported call required its gradient."""

    def covers(self, tensors: list[torch.Tensor]) -> bool:
        """Returns true if it computes what eager would, gradients included."""
        if foreign_modes.active() is not None or native.module().disturbance() is not None:
            return False
        if any(type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) for tensor in tensors):
            return False
        wants = torch.is_grad_enabled()
        return all(known or not (wants and tensor.requires_grad) for tensor, known in zip(tensors, self.requires_grad))


class ExportedProgram:
    """A function or module as one graph, with its tensors: created by `dynamlir.export`, read by `dynamlir.load`."""

    def __init__(self, graph_module: torch.fx.GraphModule, mlir: str, signature: Signature) -> None:
        self.graph_module = graph_module
        """The graph, with torch's functions and Dynamo's names; it takes `signature.graph_inputs`, and may be run."""
        self.mlir = mlir
        """The text of stage 00, which ``dynamlir-opt`` and `dynamlir.load` read."""
        self.signature = signature
        """Its inputs and outputs."""
        self.state = State(ProgramModule(self.__call__, signature.training))
        """Its tensors, by their names."""

    @property
    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and persistent buffers, by their names."""
        return self.state.module.state_dict()

    @property
    def constants(self) -> dict[str, torch.Tensor]:
        """Tensors that are neither parameters nor buffers, by the names that they have in `signature`."""
        return self.state.constants

    def module(self) -> torch.nn.Module:
        """Returns the program as a module. It has the program's own parameters and buffers."""
        return self.state.module

    @functools.cached_property
    def _text(self) -> _Text | None:
        """The compiled text; None, for a logged reason, if it cannot be compiled: the graph is then captured."""
        try:
            program = Program.read(self.mlir)
            return _Text(compile_program(program, resolve(), self.graph_module._get_name()), program.requires_grad)
        except Exception as error:
            interruptions.pass_on(error)
            failure = native.fallback_of(error) or Fallback("internal-error", f"{type(error).__name__}: {error}")
            logs.logger("fallback").info("the program's graph is captured, since its text: %s", failure)
            return None

    @functools.cached_property
    def _captured(self) -> Any:
        """Its graph, captured as any function is: for calls that the text does not cover."""
        compiled = compile_(self.graph_module.forward)
        native.module().expect_changes(compiled, self.signature.varying_places())
        return compiled

    def _run(self, leaves: list[Any], given: dict[str, torch.Tensor]) -> Any:
        """Returns the results of the graph."""
        text = self._text
        if text is not None:
            tensors = self._tensors(leaves, given)
            try:
                if text.covers(tensors):
                    return text.executable(*tensors)
            except native.module().RunError as error:
                # Nothing was written: for example, inputs that overlap.
                logs.logger("runtime").info("the program's graph is captured, since its text refuses a call: %s", error)
        return self._captured(*self._inputs(self.signature.graph_inputs, leaves, given))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program, compiled, on arguments like those of the captured call.

        Raises `TypeError` for other nesting or types, `ValueError` for other differences.
        """
        signature = self.signature
        leaves = signature.match(args, kwargs)
        values = signature.values(leaves)
        given = self.state.now()
        if torch.is_grad_enabled() and not signature.grad_enabled:
            self._refuse_gradients([*leaves, *given.values()])
        if torch.compiler.is_compiling():
            # The caller is being traced, by torch.compile or our own capture: the graph becomes part of that trace.
            results = self.graph_module.forward(*self._inputs(signature.graph_inputs, leaves, given))
        else:
            results = self._run(leaves, given)

        def made(source: Source) -> Any:
            if source.kind == "result":
                return results[source.at]
            if source.kind == "input":
                return leaves[source.at]
            if source.kind == "size":
                return signature.size(source.value, values)
            return given[source.name] if source.kind == "state" else source.value

        for name, source in signature.assigned.items():
            self.state[name] = made(source)
        return signature.out_spec.unflatten([made(source) for source in signature.outputs])

    def entry_arguments(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        """Returns the tensors that ``@main`` of `mlir` takes for these arguments, in its order."""
        return self._tensors(self.signature.match(args, kwargs), self.state.now())

    def _tensors(self, leaves: list[Any], given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        inputs = self._inputs(self.signature.entry_inputs, leaves, given)
        element = torch.zeros(1, dtype=torch.int64, device="cpu")
        # An int is passed as a tensor of that length.
        return [value if isinstance(value, torch.Tensor) else of_length(element, value) for value in inputs]

    def _inputs(self, names: tuple[str, ...], leaves: list[Any], given: dict[str, torch.Tensor]) -> list[Any]:
        inputs = {one.graph_input: leaf for one, leaf in zip(self.signature.user_inputs, leaves) if one.graph_input}
        found = []
        for name in names:
            if name in inputs:
                found.append(inputs[name])
            else:
                found.append(given[self.signature.state_of(name) or name])
        return found

    def _refuse_gradients(self, tensors: list[Any]) -> None:
        if any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors):
            raise ValueError(
                "the program was exported with gradients off, and would have none: call it under torch.no_grad()"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program into a folder, which `dynamlir.load` reads: text and tensors, nothing that is executed.

        Raises `ValueError` if a part has no such form: a function that is not torch's, a class of the user.
        """
        from .files import save  # which makes programs

        save(self, os.fspath(path))

    def __repr__(self) -> str:
        return f"<dynamlir.ExportedProgram {self.graph_module._get_name()}>\n{self.signature}"
