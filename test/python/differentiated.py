"""Programs of ATen calls as text, and their joint functions by `dynamo-autodiff`.

A `Recording` notes what torch dispatches below autograd, as the importer would write it at stage aten. It supports only
what the tests need: it writes no locations, and a tensor that is neither an input nor a result becomes one more
argument.
"""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dynamlir
import torch
from stages import dynamlir_opt
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ELEMENTS = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "ui8",
    torch.bool: "i1",
}


def type_of(tensor: Tensor | None) -> str:
    """The type of a tensor at stage aten; for a result that an operator leaves undefined, a type of no elements."""
    if tensor is None:
        return "!dynamo.tensor<0xf32, [1]>"
    sizes = "".join(f"{size}x" for size in tensor.shape)
    offset = f", {tensor.storage_offset()}" if tensor.storage_offset() else ""
    return f"!dynamo.tensor<{sizes}{ELEMENTS[tensor.dtype]}, {list(tensor.stride())}{offset}>"


def number(value: float) -> str:
    """A double in MLIR's syntax."""
    if math.isfinite(value):
        return f"{value!r} : f64" if "." in repr(value) else f"{value:.17e} : f64"
    bits = {math.inf: "0x7FF0000000000000", -math.inf: "0xFFF0000000000000"}
    return f"{bits.get(value, '0x7FF8000000000000')} : f64"


def is_inference(func: Any, args: Sequence[Any]) -> bool:
    """Returns true if a batch norm leaves its statistics alone."""
    return func is torch.ops.aten._native_batch_norm_legit.default and not args[5]


def functional(schema: str) -> str:
    """The variant of an operator that returns what it would otherwise write."""
    base, overload = schema.split(".")[1:]
    known = {
        "bernoulli_.float": "bernoulli.p",
        "rrelu_with_noise.default": "rrelu_with_noise_functional.default",
    }
    return f"aten.{known.get(f'{base}.{overload}', f'{base[:-1]}.{overload}')}"


class Recording(TorchDispatchMode):
    """Notes the calls that are dispatched while the mode is active."""

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.schemas: list[str] = []
        self.arguments: list[Tensor] = []
        self._alive: list[Any] = []
        self._names: dict[int, str] = {}
        self._shown: dict[Any, str] = {}
        for tensor in inputs:
            self._argument(tensor)

    def _argument(self, tensor: Tensor) -> str:
        name = f"%a{len(self.arguments)}"
        self.arguments.append(tensor)
        self._know(tensor, name)
        return name

    def _know(self, tensor: Tensor, name: str) -> None:
        self._alive.append(tensor)
        self._names[id(tensor)] = name
        self._shown[self._key(tensor)] = name

    @staticmethod
    def _key(tensor: Tensor) -> Any:
        return (tensor.untyped_storage()._cdata, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype)

    def name(self, tensor: Tensor) -> str:
        """The name of the value that a tensor is. Autograd may have created another object for a view."""
        name = self._names.get(id(tensor)) or self._shown.get(self._key(tensor))
        if name is None:
            return self._argument(tensor)
        if id(tensor) not in self._names:
            self._alive.append(tensor)
            self._names[id(tensor)] = name
        return name

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Calls an operator and notes the call."""
        operands: list[Tensor] = []
        names: list[str] = []
        written: list[int] = []
        words = []
        for at, argument in enumerate(func._schema.arguments):
            value = args[at] if at < len(args) else kwargs.get(argument.name, argument.default_value)
            words.append(self._word(value, operands, names))
            writes = argument.alias_info is not None and argument.alias_info.is_write and not is_inference(func, args)
            if writes and isinstance(value, Tensor):
                written.append(
                    operands.index(value) if False else next(i for i, o in enumerate(operands) if o is value)
                )
        types_before = [type_of(tensor) for tensor in operands]
        out = func(*args, **kwargs)
        results = list(out) if isinstance(out, (tuple, list)) else [out]
        storages = [tensor.untyped_storage()._cdata for tensor in operands]
        aliases = []
        made = []
        for result in results:
            storage = None if result is None else result.untyped_storage()._cdata
            aliases.append(storages.index(storage) if storage in storages else -1)
            made.append(f"%v{len(self.lines)}_{len(made)}")
        schema = f"aten.{func._schema.name.split('::')[1]}.{func._schema.overload_name or 'default'}"
        attributes = [f"aliases = array<i64: {', '.join(map(str, aliases))}>"]
        if written:
            attributes.append(f"mutates = array<i64: {', '.join(map(str, written))}>")
            attributes.append(f'functional = "{functional(schema)}"')
        if torch.is_grad_enabled():
            attributes.append("grad_enabled")
        self.schemas.append(schema)
        self.lines.append(
            f'  {", ".join(made)} = dynamo.aten "{schema}"({", ".join(names)}) args [{", ".join(words)}] '
            f"{{{', '.join(attributes)}}} : ({', '.join(types_before)}) -> "
            f"({', '.join(map(type_of, results))})"
        )
        for result, name in zip(results, made, strict=True):
            if result is not None:
                self._know(result, name)
        return out

    def _word(self, value: Any, operands: list[Tensor], names: list[str]) -> str:
        if isinstance(value, Tensor):
            for at, operand in enumerate(operands):
                if operand is value:
                    return f"#dynamo.operand<{at}>"
            operands.append(value)
            names.append(self.name(value))
            return f"#dynamo.operand<{len(operands) - 1}>"
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self._word(each, operands, names) for each in value)}]"
        match value:
            case None:
                return "unit"
            case bool():
                return "true" if value else "false"
            case int():
                return f"{value} : i64"
            case float():
                return number(value)
            case str():
                return f'"{value}"'
            case torch.dtype():
                return ELEMENTS[value]
            case torch.device():
                return f'#dynamo.device<"{value}">'
            case torch.layout():
                return f'#dynamo.layout<"{str(value).removeprefix("torch.")}">'
            case torch.memory_format():
                return f'#dynamo.memory_format<"{str(value).removeprefix("torch.")}">'
        raise TypeError(f"{value!r} has no word")


class Program:
    """A recorded function on tensors: its text at stage aten, and its outputs in eager. An operator is one call."""

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any]) -> None:
        self.inputs = [each for each in inputs if isinstance(each, Tensor)]
        recording = Recording(self.inputs)
        if isinstance(function, torch._ops.OpOverload):
            out = recording.call(function, inputs, {})
        else:
            with recording:
                out = function(*inputs)
        self.outputs: list[Tensor] = list(out) if isinstance(out, (tuple, list)) else [out]
        self.differentiable = [at for at, tensor in enumerate(self.outputs) if tensor.requires_grad]
        names = [recording.name(tensor) for tensor in self.outputs]
        self.schemas = recording.schemas
        self.arguments = recording.arguments
        words = [
            f"%a{at}: {type_of(tensor)}{' {dynamo.requires_grad}' if tensor.requires_grad else ''}"
            for at, tensor in enumerate(self.arguments)
        ]
        types = ", ".join(map(type_of, self.outputs))
        outputs = ", ".join(f"#dynamo.output<result {at}>" for at in range(len(self.outputs)))
        attributes = f"dynamo.entry, dynamo.outputs = [{outputs}]"
        if self.differentiable:
            attributes += f", dynamo.differentiable = array<i64: {', '.join(map(str, self.differentiable))}>"
        self.text = "\n".join(
            [
                f"func.func @main({', '.join(words)}) -> ({types}) attributes {{{attributes}}} {{",
                *recording.lines,
                f"  return {', '.join(names)} : {types}",
                "}",
            ]
        )


def opt(text: str, *passes: str) -> str:
    """The text after the given passes."""
    done = subprocess.run([dynamlir_opt(), "-", *passes], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return done.stdout


class Joint:
    """A joint function, to be called with arguments and then tangents."""

    def __init__(self, text: str) -> None:
        self.text = text
        head = text[text.index("func.func @main") : text.index(" attributes {")]
        arguments, results = head.split(" -> ")
        # The gradients are results of the function but not outputs; this adds them to the outputs.
        self.tangents: list[tuple[int, list[int], list[int]]] = []
        for sizes, words in re.findall(r"tensor<((?:\d+x)*)\w+> {([^}]*)}", arguments):
            if match := re.search(r"dynamo\.tangent = (\d+)", words):
                said = re.search(r"dynamo\.strides = array<i64([^>]*)>", words)
                strides = re.findall(r"\d+", said[1] if said else "")
                self.tangents.append(
                    (int(match[1]), [int(n) for n in sizes.split("x")[:-1]], [int(n) for n in strides])
                )
        each = re.findall(r"tensor<[^{]*{([^}]*)}", results)
        gradients = [
            (at, found) for at, words in enumerate(each) for found in re.findall(r"dynamo\.gradient = (\d+)", words)
        ]
        self.gradients = [int(argument) for _, argument in gradients]
        seen = "".join(f", #dynamo.output<result {at}>" for at, _ in gradients)
        start = text.index("[", text.index("dynamo.outputs = "))
        depths = itertools.accumulate((character == "[") - (character == "]") for character in text[start:])
        end = start + next(at for at, depth in enumerate(depths) if depth == 0)
        self.outputs = text[start:end].count("#dynamo.output<")
        text = text[:end] + (seen if self.outputs else seen.removeprefix(", ")) + text[end:]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "01-functional.mlir"
            # Random numbers must be eager's, because they are compared.
            drawn = re.sub(r"^module \{", "module attributes {dynamo.eager_random} {", text, flags=re.MULTILINE)
            assert drawn != text
            path.write_text(as_plain_function(drawn))
            self.executable = dynamlir.load(path, "functional")

    def __call__(self, arguments: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple[list[Any], list[Tensor]]:
        """The user's outputs, and the gradients of the arguments that ``gradients`` lists."""
        found = self.executable(*arguments, *tangents)
        return found[: self.outputs], found[self.outputs :]


def as_plain_function(text: str) -> str:
    """A joint function without its attributes about derivatives, so that it runs as it is and is not partitioned."""
    numbers, others = r"(?:tangent|gradient|saved) = \d+(?: : i64)?", r"requires_grad\b|vjp = @\w+"
    said = rf"dynamo\.(?:{numbers}|{others}|differentiable = array<[^>]*>)"
    return re.sub(rf", {said}|{said}, |{said}", "", text)


def joint(program: Program, *, again: bool = False) -> Joint:
    """The joint function of a program."""
    passes = ["--dynamo-functionalize", "--dynamo-verify-functional", "--dynamo-autodiff=one-node=true"]
    passes += ["--dynamo-autodiff=again=true"] if again else []
    return Joint(opt(program.text, *passes, "--dynamo-verify-functional"))


def seeded(like: Tensor, seed: int) -> Tensor:
    """Random numbers of the type and layout of a tensor."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.empty_strided(
        like.shape, like.stride() if 0 not in like.stride() else like.contiguous().stride(), dtype=like.dtype
    )
    return made.copy_(torch.randn(like.shape, generator=generator, dtype=torch.float64))
