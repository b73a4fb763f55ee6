"""Exported programs as folders: ``program.json``, the text of stage 00, and the tensors in the safetensors format.

Nothing in such a folder is executed or trusted: everything read is validated, tensors and text by their hashes.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import json
import os
import re
from typing import Any

import torch

from .. import expressions, parsing
from ..recording import DTYPE_NAMES, DTYPES
from ..version import __version__
from . import encoding
from .declared import LEAST, MOST, RESERVED
from .encoding import Unreadable
from .program import ExportedProgram
from .signature import Signature, Size, Source, TensorFacts, UserInput

FORMAT = "dynamlir.export"
VERSION = 2
PROGRAM, TEXT, TENSORS = "program.json", "00-aten.mlir", "tensors.safetensors"


def save(program: ExportedProgram, path: str) -> None:
    """Writes a program; see `ExportedProgram.save`."""
    save_file = _safetensors().save_file
    try:
        written, tensors = _written(program)
    except ValueError as error:
        raise ValueError(f"dynamlir: the program cannot be saved: {error}") from None
    os.makedirs(path, exist_ok=True)
    save_file(tensors, os.path.join(path, TENSORS))
    for name, text in ((TEXT, program.mlir), (PROGRAM, json.dumps(written, indent=1, allow_nan=False))):
        with open(os.path.join(path, name), "w", encoding="utf-8", newline="\n") as file:
            file.write(text)


def _written(program: ExportedProgram) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    tensors: dict[str, torch.Tensor] = {}
    rows: dict[str, Any] = {}
    seen: dict[int, str] = {}
    memory: dict[int, str] = {}
    for name in program.state:
        tensor, kind = program.state[name], program.state.kind(name)
        if id(tensor) in seen:
            rows[name] = {"kind": kind, "same_as": seen[id(tensor)]}
            continue
        address = tensor.untyped_storage().data_ptr()
        if address and (other := memory.setdefault(address, name)) != name:
            raise ValueError(f"{name} shares memory with {other}")
        if tensor.grad_fn is not None:
            raise ValueError(f"{name} has a history of autograd's")
        if tensor.device.type != "cpu":
            raise ValueError(f"{name} is on {tensor.device}, and a file is for the CPU")
        if any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride())):
            raise ValueError(f"{name} repeats its elements")
        seen[id(tensor)] = name
        tensors[name] = tensor.detach().contiguous()
        row = {"kind": kind, **_facts(TensorFacts.of(tensor)), "sha256": _hash(tensors[name])}
        rows[name] = row
    written = {
        "format": FORMAT,
        "version": VERSION,
        "dynamlir": __version__,
        "torch": torch.__version__,
        "name": program.graph_module._get_name(),
        "text": hashlib.sha256(program.mlir.encode()).hexdigest(),
        "tensors": rows,
        "signature": _signature(program.signature),
        "graph": encoding.graph(program.graph_module),
    }
    return written, tensors


def load(path: str) -> ExportedProgram:
    """Reads a program; raises `ValueError` if the folder does not hold one, or if a part is not as it was written."""
    try:
        return _load(path)
    except OSError as error:
        raise ValueError(f"{path} holds no exported program: {error}") from None
    except Unreadable as error:
        raise ValueError(f"{path} holds no exported program that can be read: {error}") from None
    except ImportError:
        raise
    except Exception as error:
        # The errors of json, safetensors and torch about their input.
        text = f"{type(error).__name__}: {error}".split("\n")[0]
        raise ValueError(f"{path} holds no exported program that can be read: {text}") from None


def _safetensors() -> Any:
    try:
        import safetensors.torch  # an optional dependency
    except ImportError as error:
        raise ImportError("dynamlir: exported programs are saved with the package safetensors: install it") from error
    return safetensors.torch


def _load(path: str) -> ExportedProgram:
    with open(os.path.join(path, PROGRAM), encoding="utf-8") as file:
        written = json.load(file, parse_constant=_no_constant)
    _expect(type(written) is dict and written.get("format") == FORMAT, f"{PROGRAM} is not of {FORMAT}")
    _expect(written.get("version") == VERSION, f"it is of version {written.get('version')!r}, and {VERSION} is known")
    _check_torch(written["torch"])
    with open(os.path.join(path, TEXT), "rb") as text:
        mlir = text.read()
    _expect(hashlib.sha256(mlir).hexdigest() == written["text"], f"{TEXT} is not what was written")
    # The text is parsed in this process at the first call.
    parsing.check(os.path.join(path, TEXT))
    signature = _read_signature(written["signature"])
    name = written["name"]
    _expect(type(name) is str and name.isidentifier(), "its name is none")
    graph_module = encoding.read_graph(written["graph"], name)
    program = ExportedProgram(graph_module, mlir.decode(), signature)
    _read_tensors(program, written["tensors"], os.path.join(path, TENSORS))
    _check(program)
    for node in graph_module.graph.find_nodes(op="placeholder"):
        state = signature.state_of(str(node.target))
        node.type = torch.Tensor if state is None else type(program.state[state])
    graph_module.recompile()
    return program


def _no_constant(text: str) -> Any:
    raise Unreadable(f"{text} is no number of JSON's")


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise Unreadable(message)


def _check_torch(version: Any) -> None:
    """Rejects programs of newer torch versions, in which the same names may have another meaning."""

    def numbers(text: Any) -> tuple[int, int]:
        found = re.match(r"(\d{1,6})\.(\d{1,6})", text) if type(text) is str else None
        if found is None:
            raise Unreadable(f"{text!r} is no version of torch")
        return int(found[1]), int(found[2])

    _expect(
        numbers(version) <= numbers(str(torch.__version__)),
        f"it is of torch {version}, and this is {torch.__version__}",
    )


def _read_tensors(program: ExportedProgram, rows: Any, file: str) -> None:
    _expect(type(rows) is dict and all(type(row) is dict for row in rows.values()), "its tensors are no table")
    tensors = _safetensors().load_file(file)
    own = {name for name, row in rows.items() if "same_as" not in row}
    if own != set(tensors):
        raise Unreadable(f"{TENSORS} has other tensors than {PROGRAM}: {', '.join(sorted(own ^ set(tensors)))}")
    made: dict[str, torch.Tensor] = {}
    for name, row in rows.items():
        _expect(all(part.isidentifier() or part.isdigit() for part in name.split(".")), f"{name!r} is no tensor's name")
        if "same_as" in row:
            _expect(row["same_as"] in made, f"{name} is the same as {row['same_as']!r}, which is none of the tensors")
            tensor = made[row["same_as"]]
        else:
            facts, tensor = _read_facts(row), tensors[name]
            alike = (tensor.dtype, tuple(tensor.shape)) == (facts.dtype, facts.shape)
            _expect(alike, f"{name} is {tensor.dtype} of {tuple(tensor.shape)}, and not what {PROGRAM} says")
            _expect(_hash(tensor) == row["sha256"], f"the contents of {name} are not what was written")
            tensor = _laid_out(tensor, facts).requires_grad_(facts.requires_grad)
        kind = row["kind"]
        if kind == "parameter":
            parameter = (
                tensor if isinstance(tensor, torch.nn.Parameter) else torch.nn.Parameter(tensor, tensor.requires_grad)
            )
            program.state.add_parameter(name, parameter)
            tensor = parameter
        elif kind in ("buffer", "non-persistent buffer"):
            program.state.add_buffer(name, tensor, kind == "buffer")
        else:
            _expect(kind == "constant", f"{name} is a {kind!r}")
            program.state.add_constant(name, tensor)
        made[name] = tensor
    program.state.settle()


def _laid_out(tensor: torch.Tensor, facts: TensorFacts) -> torch.Tensor:
    """Returns the tensor with its original strides."""
    strides = _numbers(list(facts.strides))
    if tuple(tensor.stride()) == strides:
        return tensor
    size = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides))
    fits = len(strides) == tensor.dim() and min(strides, default=1) > 0
    _expect(fits and size <= 64 * max(1, tensor.numel()), f"{list(strides)} are no strides of a tensor")
    return torch.empty_strided(tensor.shape, strides, dtype=facts.dtype).copy_(tensor)


def _check(program: ExportedProgram) -> None:
    """Checks that the parts of a program fit together."""
    signature = program.signature
    placeholders = [str(node.target) for node in program.graph_module.graph.find_nodes(op="placeholder")]
    _expect(placeholders == list(signature.graph_inputs), "the graph takes other inputs than the signature says")
    given = {one.graph_input for one in signature.user_inputs if one.tensor is not None or one.size is not None}
    for name in (*signature.graph_inputs, *signature.entry_inputs):
        known = name in given or (signature.state_of(name) or name) in program.state
        _expect(known, f"nothing is known of the input {name}")
    spec = signature.in_spec
    _expect(spec.num_leaves == len(signature.user_inputs), "the arguments have another number of leaves")
    args_and_kwargs = spec.unflatten([None] * spec.num_leaves)
    fits = type(args_and_kwargs) is tuple and list(map(type, args_and_kwargs)) == [tuple, dict]
    _expect(fits and all(type(name) is str for name in args_and_kwargs[1]), "the arguments are no arguments")
    _expect(signature.out_spec.num_leaves == len(signature.outputs), "the result has another number of leaves")
    _check_sizes(signature)
    (output,) = program.graph_module.graph.find_nodes(op="output")
    for source in (*signature.outputs, *signature.assigned.values()):
        if source.kind == "result":
            _expect(0 <= source.at < len(output.args[0]), f"the graph has no result {source.at}")
        elif source.kind == "input":
            _expect(0 <= source.at < len(signature.user_inputs), f"there is no argument {source.at}")
        elif source.kind == "state":
            _expect(source.name in program.state, f"there is no tensor {source.name!r}")
        elif source.kind == "size":
            _check_expressions(source.value if type(source.value) is tuple else (source.value,), signature)
    _expect(all(name in program.state for name in signature.assigned), "a buffer is set that there is not")


def _check_sizes(signature: Signature) -> None:
    """Checks that dynamic sizes are read where sizes exist, and that expressions over their names are valid."""
    names = [one.name for one in signature.sizes]
    fits = all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name not in RESERVED for name in names)
    _expect(fits and len({*names}) == len(names), "its sizes have no names")
    for one in signature.sizes:
        _expect(0 <= one.input < len(signature.user_inputs), f"there is no argument that {one.name} is read from")
        wanted = signature.user_inputs[one.input]
        rank = None if wanted.tensor is None else len(wanted.tensor.shape)
        is_there = wanted.size == one.name if rank is None else one.dim is not None and 0 <= one.dim < rank
        _expect(is_there and (rank is not None or one.dim is None), f"{one.name} is read where there is no size")
        within = one.factor >= 1 and one.line.of(one.least) >= LEAST and one.least <= one.most <= MOST
        _expect(within, f"{one.name} is of no range that sizes have")
    for one_ in signature.user_inputs:
        _expect(one_.size is None or one_.size in names, f"nothing is known of the size {one_.size}")
        if one_.tensor is not None:
            _check_expressions((*one_.tensor.shape, *one_.tensor.strides), signature)
    for rule in signature.assumed:
        expressions.check(rule, frozenset(names), relation=True)


def _check_expressions(given: Any, signature: Signature) -> None:
    names = frozenset(one.name for one in signature.sizes)
    for one in given:
        if type(one) is not int and one is not None:
            expressions.check(one, names)


def _hash(tensor: torch.Tensor) -> str:
    flat = tensor.detach().contiguous()
    found = hashlib.sha256(str((tensor.dtype, tuple(tensor.shape))).encode())
    if flat.numel():
        found.update((ctypes.c_char * flat.nbytes).from_address(flat.data_ptr()))
    return found.hexdigest()


def _facts(facts: TensorFacts) -> dict[str, Any]:
    if facts.dtype not in DTYPE_NAMES:
        raise ValueError(f"a tensor of {facts.dtype}")
    return {
        "dtype": DTYPE_NAMES[facts.dtype],
        "shape": list(facts.shape),
        "strides": list(facts.strides),
        "device": str(facts.device),
        "requires_grad": facts.requires_grad,
    }


def _read_facts(row: Any, *, is_state: bool = True) -> TensorFacts:
    shape, strides = ((_numbers if is_state else _sizes)(row[name]) for name in ("shape", "strides"))
    _expect(type(row["requires_grad"]) is bool and row["dtype"] in DTYPES, "that is no tensor")
    return TensorFacts(DTYPES[row["dtype"]], shape, strides, torch.device(row["device"]), row["requires_grad"])


def _numbers(given: Any) -> tuple[int, ...]:
    _expect(type(given) is list and all(type(one) is int and one >= 0 for one in given), f"{given!r} are no sizes")
    return tuple(given)


def _sizes(given: Any) -> tuple[Any, ...]:
    """Reads numbers, expressions and ignored entries; the names in expressions are checked later."""
    fits = type(given) is list and all(
        one is None or type(one) is str or (type(one) is int and one >= 0) for one in given
    )
    _expect(fits, f"{given!r} are no sizes")
    return tuple(given)


def _signature(signature: Signature) -> dict[str, Any]:
    inputs = []
    for one in signature.user_inputs:
        what = {"constant": encoding.constant(one.value)} if one.tensor is None else {"tensor": _facts(one.tensor)}
        if one.size is not None:
            what = {"size": one.size}
        inputs.append({"place": one.place, **what, "same_as": one.same_as, "graph_input": one.graph_input})
    own = {field.name: getattr(signature, field.name) for field in dataclasses.fields(signature)}
    return {
        **own,
        "user_inputs": inputs,
        "in_spec": encoding.tree(signature.in_spec),
        "outputs": [_source(source) for source in signature.outputs],
        "out_spec": encoding.tree(signature.out_spec),
        "assigned": [[name, _source(source)] for name, source in signature.assigned.items()],
        "sizes": [dataclasses.asdict(one) for one in signature.sizes],
    }


def _source(source: Source) -> dict[str, Any]:
    return {"kind": source.kind, "at": source.at, "name": source.name, "value": encoding.constant(source.value)}


def _read_signature(given: Any) -> Signature:
    _expect(type(given) is dict, "its signature is none")
    _expect(set(given) == {field.name for field in dataclasses.fields(Signature)}, "its signature has other parts")
    inputs: list[UserInput] = []
    for row in given["user_inputs"]:
        facts = _read_facts(row["tensor"], is_state=False) if "tensor" in row else None
        size = row.get("size")
        _expect(size is None or (type(size) is str and facts is None), "an int is no size")
        value = None if "tensor" in row or size is not None else encoding.read_constant(row["constant"])
        same_as = row["same_as"]
        _expect(same_as is None or (type(same_as) is int and 0 <= same_as < len(inputs)), "an argument is another")
        _expect(row["graph_input"] is None or type(row["graph_input"]) is str, "an argument has no name")
        inputs.append(UserInput(str(row["place"]), facts, value, size, same_as, row["graph_input"]))
    for name in ("graph_inputs", "entry_inputs", "mutated_state", "assumed"):
        _expect(type(given[name]) is list and all(type(one) is str for one in given[name]), f"{name} are no names")
    for name in ("parameters", "buffers", "constants"):
        group = given[name]
        fits = type(group) is dict and all(type(one) is str for one in group.values())
        _expect(fits, f"{name} are no names")
    _expect(type(given["grad_enabled"]) is bool and given["training"] in (None, True, False), "a mode is none")
    fits = type(given["autocast"]) is dict and all(type(one) is str for one in given["autocast"].values())
    _expect(fits, "autocast is none")
    return Signature(
        user_inputs=tuple(inputs),
        in_spec=encoding.read_tree(given["in_spec"]),
        parameters=given["parameters"],
        buffers=given["buffers"],
        constants=given["constants"],
        outputs=tuple(_read_source(row) for row in given["outputs"]),
        out_spec=encoding.read_tree(given["out_spec"]),
        mutated_inputs=_numbers(given["mutated_inputs"]),
        mutated_state=tuple(given["mutated_state"]),
        assigned={str(name): _read_source(row) for name, row in given["assigned"]},
        graph_inputs=tuple(given["graph_inputs"]),
        entry_inputs=tuple(given["entry_inputs"]),
        grad_enabled=given["grad_enabled"],
        autocast=given["autocast"],
        training=given["training"],
        sizes=tuple(_read_size(row) for row in given["sizes"]),
        assumed=tuple(given["assumed"]),
    )


def _read_size(row: Any) -> Size:
    fields = {"name": str, "symbol": str} | dict.fromkeys(("input", "factor", "offset", "least", "most"), int)
    _expect(type(row) is dict and set(row) == {*fields, "dim"}, "a size is none")
    fits = all(type(row[name]) is kind for name, kind in fields.items()) and type(row["dim"]) in (int, type(None))
    _expect(fits, "a size is none")
    return Size(**row)


def _read_source(row: Any) -> Source:
    fits = row["kind"] in ("result", "input", "state", "constant", "size")
    _expect(fits and type(row["at"]) is int and type(row["name"]) is str, "a result comes from nowhere")
    return Source(row["kind"], row["at"], row["name"], encoding.read_constant(row["value"]))
