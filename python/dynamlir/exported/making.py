"""`dynamlir.export`: captures one call of a function or module as an `ExportedProgram`, without running it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import foreign_modes, native, reasons
from ..capture import sharing
from ..capture.api import entry_point, forward_of, name_of
from ..capture.backends import Captured
from ..capture.compiled_modules import original
from ..compilation import written
from ..plain_warnings import Unsupported
from ..reasons import Fallback, Location
from ..recording import Recording
from .binding import Arguments
from .check_declared import Judged
from .declared import Declaration
from .program import ExportedProgram
from .signature import CONSTANTS, Signature, Source, UserInput, autocast, flatten, leaf_places, places
from .state import copied


def export(fn: Callable[..., Any], /, *args: Any, dynamic_shapes: Any = None, **kwargs: Any) -> ExportedProgram:
    """Captures ``fn(*args, **kwargs)`` whole, as a program that can be saved and called without ``fn``.

    ``fn`` is a function, method or module. A graph break raises `Unsupported`, as with ``fullgraph=True``, and so does
    an effect that a program cannot have: on anything except tensors and buffers. The call itself is not run.

    Sizes, and arguments that are not tensors, are fixed to those of this call; others are refused. Exceptions are
    declared by ``dynamic_shapes``, in the forms of `torch.export.export`: ``{"x": {0: Dim("batch", max=512)}}`` by
    parameter names or a tuple by their order, nested as the arguments are. Each size is a ``Dim``, one derived from it
    (``2*batch + 1``), ``Dim.DYNAMIC``, ``Dim.AUTO``, ``Dim.STATIC``, a number or None. The same goes for an int.
    Dynamic sizes are at least 2, and calls are checked against the declaration. If the program assumes more about a
    ``Dim`` than was declared, or needs it as a number, torch's ``ConstraintViolationError`` gives the line and the
    declaration to use. Decisions of Python along the way – on a mode, a global, whether gradients were on – are fixed.
    Parameters are shared with the module; tensors that the program writes, such as a buffer, are the program's own
    copies.
    """
    entry, bound = entry_point(fn)
    function = entry or sharing.caller()
    leaves, in_spec = flatten((args, kwargs))
    user_inputs = leaf_places(leaves, places(in_spec))
    declared = None
    if dynamic_shapes is not None:
        where = [one.place for one in user_inputs]
        arguments = Arguments(fn, function, len(bound), args, kwargs, leaves, where)
        declared = Declaration(dynamic_shapes, fn, arguments)
    try:
        if (active := foreign_modes.active()) is not None:
            raise active
        frame = _captured(function, (*bound, *args), kwargs, declared)
        if isinstance(frame, tuple):
            reason, message, location = frame
            raise _ended(reason, message, location, declared)
        forward = forward_of(fn) if isinstance(fn, torch.nn.Module) else None
        making = _Making(fn, Captured.of(name_of(fn), frame, forward), leaves, user_inputs, declared)
        signature = making.signature(in_spec)
        trace = written(making.recording(), making.captured.session.mode)
        program = ExportedProgram(making.captured.module, trace.text(), signature)
    except Fallback as failure:
        raise _unsupported(function, failure) from None
    making.fill(program)
    return program


def _unsupported(function: types.FunctionType, failure: Fallback) -> Unsupported:
    """Returns the exception that ``fullgraph=True`` raises."""
    code = function.__code__
    location = failure.location or [(code.co_filename, code.co_firstlineno, code.co_name, 0)]
    return Unsupported(str(reasons.note(failure.reason, failure.message, location)))


def _captured(
    function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], declared: Declaration | None
) -> Any:
    """Returns the captured frame, or the reason for none. Arguments that the frame does not read constrain no sizes."""
    for _ in range(3):
        told = None if declared is None else declared.native()
        frame = native.module().capture(function, args, kwargs, shows=True, declared=told)
        if declared is None or isinstance(frame, tuple) or not declared.read_from(declared.met(frame.session)):
            break
    return frame


def _ended(reason: str, message: str, location: Location, declared: Declaration | None) -> Fallback:
    """Returns the reason that there is no graph; if it concerns sizes, with the declarations."""
    if reason == "dynamic-shape" and declared is not None and declared.numbers:
        names = ", ".join(declared.numbers)
        message = f"{message} (what varies: {names}). Dim.STATIC or Dim.AUTO has it be one number"
    return Fallback(reason, message, location)


class _Making:
    """The program under construction: maps tensors of the capture to those of the user."""

    def __init__(
        self,
        fn: Any,
        captured: Captured,
        leaves: list[Any],
        user_inputs: list[UserInput],
        declared: Declaration | None,
    ) -> None:
        self.captured = captured
        self.declared = declared
        self.judged = None
        if declared is not None:
            self.judged = Judged(declared, captured.session, [one.place for one in user_inputs])
        self.user_inputs, self.leaves = user_inputs, leaves
        owner = fn.__self__ if isinstance(fn, types.MethodType) else fn
        self.root = original(owner) if isinstance(owner, torch.nn.Module) else None
        self.leaf_of = {id(leaf): at for at, leaf in reversed([*enumerate(leaves)]) if isinstance(leaf, torch.Tensor)}
        self.parameters: dict[str, torch.nn.Parameter] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        if self.root is not None:
            self.parameters = dict(self.root.named_parameters(remove_duplicate=False))
            self.buffers = dict(self.root.named_buffers(remove_duplicate=False))
        self.constants: dict[str, torch.Tensor] = {}
        self.names = {id(tensor): name for name, tensor in reversed([*self.parameters.items(), *self.buffers.items()])}
        faker = captured.session.faker
        self.real_of = {id(faker.known(real)): real for real in captured.session.inputs}

    def signature(self, in_spec: pytree.TreeSpec) -> Signature:
        """Returns the program's inputs and outputs; raises `Fallback` if it does something that a program cannot."""
        captured, session = self.captured, self.captured.session
        returned, results, effects = captured.frame.ends
        groups: dict[str, dict[str, str]] = {"parameters": {}, "buffers": {}, "constants": {}}
        at_leaf: dict[int, str] = {}
        ints = self._ints()
        for at in captured.order:
            real, name = captured.inputs[at], captured.names[at]
            if at in ints:
                at_leaf[ints[at]] = name
            elif id(real) in self.leaf_of:
                at_leaf[self.leaf_of[id(real)]] = name
            else:
                kind, own = self._state(real, name)
                groups[kind][name] = own
        entry = [*captured.names]
        for fetch in session.recording.captures:
            name = f"_tensor_constant{len(entry) - len(captured.names)}"
            self.constants[name] = fetch()
            entry.append(name)
        results_at = {id(fake): at for at, fake in enumerate(results)}
        assigned = dict(self._assigned(effects, results_at))
        tree, out_spec = flatten(returned)
        outputs = tuple(self._source(leaf, results_at) for leaf in tree)
        written_to = self._written()
        return Signature(
            tuple(
                dataclasses.replace(self._varied(at, one), graph_input=at_leaf.get(at))
                for at, one in enumerate(self.user_inputs)
            ),
            in_spec,
            **groups,
            outputs=outputs,
            out_spec=out_spec,
            mutated_inputs=tuple(self.leaf_of[id(real)] for real in written_to if id(real) in self.leaf_of),
            mutated_state=tuple(self.names[id(real)] for real in written_to if id(real) not in self.leaf_of),
            assigned=assigned,
            graph_inputs=tuple(captured.names[at] for at in captured.order),
            entry_inputs=tuple(entry),
            grad_enabled=torch.is_grad_enabled(),
            autocast=autocast(),
            training=None if self.root is None else self.root.training,
            sizes=() if self.judged is None else self.judged.numbers,
            assumed=() if self.judged is None else self.judged.assumed,
        )

    def recording(self) -> Recording:
        """Returns the recording, with the facts about its sizes."""
        session = self.captured.session
        varying = None if session.sizes is None or not session.sizes.declared else (session.sizes, session.bound)
        return dataclasses.replace(session.recording, varying=varying)

    def _ints(self) -> dict[int, int]:
        """Returns the leaves that are dynamic ints, by the inputs of the capture that represent them."""
        if self.declared is None:
            return {}
        sources = self.declared.ints()
        return {at: sources[where] for at, where in enumerate(self.captured.frame.sources) if where in sources}

    def _varied(self, at: int, one: UserInput) -> UserInput:
        """Returns an input with names for its dynamic sizes."""
        if self.declared is None or self.judged is None or not (lines := self.declared.lines(at)):
            return one
        if one.tensor is None:
            return dataclasses.replace(one, value=None, size=lines[None].name)
        shape = tuple(str(lines[d]) if d in lines else size for d, size in enumerate(one.tensor.shape))
        fake = self.captured.session.faker.known(self.leaves[at])
        strides = [None] * len(shape) if fake is None else [self.judged.text(stride) for stride in fake.stride()]
        return dataclasses.replace(one, tensor=one.tensor._replace(shape=shape, strides=tuple(strides)))

    def fill(self, program: ExportedProgram) -> None:
        """Gives the program its tensors."""
        written_to = [*self._written(), *(self.buffers[name] for name in program.signature.assigned)]
        everything = [*self.parameters.values(), *self.buffers.values(), *self.constants.values()]
        own = copied(everything, written_to)
        for name, parameter in self.parameters.items():
            program.state.add_parameter(name, own.get(id(parameter), parameter))  # type: ignore[arg-type]
        hidden = _non_persistent(self.root)
        for name, buffer in self.buffers.items():
            program.state.add_buffer(name, own.get(id(buffer), buffer), name not in hidden)
        for name, tensor in self.constants.items():
            program.state.add_constant(name, own.get(id(tensor), tensor))
        program.state.settle()

    def _state(self, real: torch.Tensor, placeholder: str) -> tuple[str, str]:
        """Returns the group and the name of a tensor that is not an argument."""
        name = self._name(real, placeholder)
        if name in self.constants:
            return "constants", name
        return ("parameters" if name in self.parameters else "buffers"), name

    def _name(self, real: torch.Tensor, otherwise: str) -> str:
        """Returns the name of a tensor in the state: a new one if reached by a global, a closure or an attribute."""
        name = self.names.get(id(real))
        if name is None:
            name = self.names[id(real)] = otherwise
            if isinstance(real, torch.nn.Parameter):
                self.parameters[name] = real
            else:
                self.constants[name] = real
        return name

    def _written(self) -> list[torch.Tensor]:
        """Returns the pre-existing tensors that are written in place, but not others that share their memory."""
        recording = self.captured.session.recording
        roots = recording.roots()
        operands = {op.operands[at] for op in recording.ops for at in op.mutates}
        found = {roots.get(value, value) for value in operands}
        inputs = zip(recording.inputs, self.captured.inputs)
        return [real for record, real in inputs if record.id in found]

    def _source(self, leaf: Any, results: dict[int, int]) -> Source:
        """Returns the source of a leaf of the frame's result."""
        if isinstance(leaf, torch.Tensor):
            real = self.real_of.get(id(leaf), leaf)
            if id(real) in self.leaf_of:
                return Source("input", at=self.leaf_of[id(real)])
            if id(leaf) in results:
                return Source("result", at=results[id(leaf)])
            # It existed before, and possibly no operation uses it.
            return Source("state", name=self._name(real, f"_returned_{len(self.names)}"))
        if isinstance(leaf, torch.SymInt) and self.judged is not None:
            return Source("size", value=self.judged.text(leaf))
        if type(leaf) is torch.Size and self.judged is not None and any(isinstance(one, torch.SymInt) for one in leaf):
            return Source("size", value=tuple(map(self.judged.text, leaf)))
        if isinstance(leaf, CONSTANTS):
            return Source("constant", value=leaf)
        raise Fallback("output", f"a {type(leaf).__qualname__} in the result, which is no tensor, constant or pytree")

    def _is_unchanged(self, container: Any, held: Any) -> bool:
        """Returns true if a container keeps its present contents, as modules' tables after `functional_call`."""

        def objects(items: Any) -> list[int]:
            return [id(self.real_of.get(id(item), item)) for item in items]

        if isinstance(container, dict):
            return list(container) == list(held) and objects(container.values()) == objects(held.values())
        return isinstance(container, list) and objects(container) == objects(held)

    def _assigned(self, effects: Any, results: dict[int, int]) -> list[tuple[str, Source]]:
        """Returns the buffers that are set, by their names; raises `Fallback` for any other effect."""
        tables: dict[int, tuple[str, torch.nn.Module]] = {}
        hidden: set[int] = set()
        if self.root is not None:
            for path, module in self.root.named_modules():
                tables[id(module._buffers)] = (path, module)
                hidden.add(id(module._non_persistent_buffers_set))
        found: list[tuple[str, Source]] = []
        for owner, action, key, value, told, location in effects:
            if action in ("add", "discard") and id(owner) in hidden and (value in owner) == (action == "add"):
                continue  # `Module.register_buffer` repeats what is already so
            is_there = action == "=" and _is_stored(owner, key, value)
            if is_there or (action == "holds" and self._is_unchanged(owner, value)):
                continue
            name = None
            if action == "__setitem__" and id(owner) in tables and isinstance(value, torch.Tensor):
                name = f"{tables[id(owner)][0]}.{key}".lstrip(".")
            if name is None or name not in self.buffers:
                raise Fallback("side-effect", f"{told}, which an exported program cannot do", location)
            now = self.buffers[name]
            varies = any(isinstance(size, torch.SymInt) for size in value.shape)
            if varies or (value.shape, value.dtype, value.device) != (now.shape, now.dtype, now.device):
                raise Fallback("side-effect", f"{told}, a buffer of another shape or type in each call", location)
            found.append((name, self._source(value, results)))
        return found


def _is_stored(owner: Any, name: str, value: Any) -> bool:
    """Returns true if this very object is stored there now, so that storing it has no effect."""
    if isinstance(owner, types.CellType):
        try:
            return owner.cell_contents is value
        except ValueError:
            return False
    held = owner if type(owner) is dict else getattr(owner, "__dict__", {})
    return name in held and held[name] is value


def _non_persistent(root: torch.nn.Module | None) -> set[str]:
    """Returns the names of the buffers that are not in the state dict."""
    modules = [] if root is None else [*root.named_modules(remove_duplicate=False)]
    return {f"{path}.{name}".lstrip(".") for path, module in modules for name in module._non_persistent_buffers_set}
