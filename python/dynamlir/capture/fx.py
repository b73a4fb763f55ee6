"""The captured graph as a `torch.fx.GraphModule`, with torch's own targets and names."""

from __future__ import annotations

import dataclasses
import enum
import keyword
import linecache
import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .. import expressions, source_lines
from ..kernel_settings import CHOICES
from ..reasons import Fallback
from . import whole_graphs


class Ref(int):
    """Represents the value of a node, by its index, in the arguments that the native graph passes."""


@dataclasses.dataclass(frozen=True)
class GraphNode:
    """A node as the native graph passes it."""

    kind: str
    name: str
    base: str
    target: str
    object: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: Sequence[source_lines.Line]
    example: tuple[Any, bool] | None = None
    """The value of the node on fakes, and whether it is that value itself or only one with the same metadata."""


def export(
    nodes: Sequence[GraphNode],
    examples: Sequence[Any],
    name: str = "Captured",
    names: Sequence[str] = (),
    kinds: Sequence[type] = (),
    order: Sequence[int] = (),
    stores: Sequence[tuple[int, int, str]] = (),
    bound: Sequence[tuple[int, int] | None] = (),
    told: Any = None,
) -> torch.fx.GraphModule:
    """Builds the module; ``examples`` are the placeholders' fakes, as the nodes have them.

    ``names`` are the names of the placeholders, ``kinds`` their types, and ``order`` gives their order. ``stores`` are
    the program's assignments, as (node, number of preceding nodes, variable). ``bound`` gives, for each symbol, the
    placeholder and its dimension; a placeholder of the kind `int` is the symbol itself. None marks an unbacked symbol:
    these are nodes, and ``told`` has what is known about them.
    """
    graph = torch.fx.Graph()
    root = torch.nn.Module()
    made: dict[int, torch.fx.Node] = {}
    constants: list[tuple[Any, torch.fx.Node]] = []

    def value(argument: Any) -> Any:
        if type(argument) is Ref:
            return made[argument]
        if type(argument) in (list, tuple):
            return type(argument)(value(item) for item in argument)
        if type(argument) is dict:
            return {key: value(item) for key, item in argument.items()}
        if isinstance(argument, torch.SymInt):
            return spelled(argument)
        if type(argument) is torch.Size and any(isinstance(item, torch.SymInt) for item in argument):
            return tuple(map(value, argument))
        if type(argument) is slice:
            return slice(value(argument.start), value(argument.stop), value(argument.step))
        if not isinstance(argument, _PRINTED):
            return printable(argument)
        return argument

    def printable(constant: Any) -> Any:
        """Returns an object in a form that fx's Python code can name."""
        if isinstance(constant, type) and constant in _DTYPES:
            return _DTYPES[constant]
        if type(constant) is _TENSOR_TYPE:
            return f"{constant.__module__}.{constant.__name__}"
        for known, node in constants:
            if known is constant:
                return node
        name = f"_constant_{len(constants)}"
        setattr(root, name, constant)
        constants.append((constant, graph.create_node("get_attr", name)))
        return constants[-1][1]

    for at in order or range(len(examples)):
        made[at] = graph.placeholder(names[at] if names else f"L_{nodes[at].base}_", kinds[at] if kinds else None)
        made[at].meta["example_value"] = examples[at]
    inputs = [place and (made[place[0]], kinds[place[0]] if kinds else None, place[1]) for place in bound]
    sizes = _Sizes(graph, inputs, told, printable)
    spelled = sizes.spelled
    variables = _Variables(stores, made)
    for position, node in enumerate(nodes):
        variables.name_until(position)
        if position in made:
            continue
        args = tuple(value(argument) for argument in node.args)
        kwargs = {key: value(argument) for key, argument in node.kwargs.items()}
        if any(map(keyword.iskeyword, kwargs)):
            target = node.object if node.kind == "call_function" else node.target
            new = graph.call_function(WithKeywords(target), (*args, kwargs))
        elif node.kind == "call_function":
            new = graph.call_function(node.object, args, kwargs)
        elif node.kind == "call_method":
            new = graph.call_method(node.target, args, kwargs)
        elif node.kind == "output":
            results = args[0]
            new = graph.output(tuple(results) if isinstance(results, (list, tuple)) else (results,))
        else:
            raise ValueError(f"a node of kind {node.kind} cannot be exported")
        if node.location:
            new.meta["stack_trace"] = _stack_trace(node.location)
        if node.example is not None and isinstance(node.example[0], torch.SymInt):
            # Torch's own class prints the expression, whereas the program's asks for the number.
            new.meta["example_value"] = torch.SymInt(node.example[0].node)
            sizes.tell(node.example[0], new)
        elif node.example is not None:
            example, is_own = node.example
            new.meta["example_value"] = example if is_own else _alike(example)
        made[position] = new
    for new in reversed(graph.nodes):
        # Dynamo drops unused items of a tuple. So do we, unless the item is an operation; and sizes.
        is_item = new.target is operator.getitem and "example_value" not in new.args[0].meta
        if not new.users and (is_item or (new.target == "size" and new in sizes.told)):
            graph.erase_node(new)
    graph.lint()
    return torch.fx.GraphModule(root, graph, name)


class _Sizes:
    """Dynamic sizes as expressions that the graph computes from its inputs; unbacked ones are nodes."""

    def __init__(
        self,
        graph: torch.fx.Graph,
        bound: Sequence[tuple[torch.fx.Node, type | None, int] | None],
        known: Any,
        constant: Callable[[Any], Any],
    ) -> None:
        self._tracer = torch.fx.proxy.GraphAppendingTracer(graph)
        self._bound = bound
        self._symbols: dict[str, torch.fx.Proxy] = {}
        self._made: dict[str, Any] = {}
        self._known, self._constant = known, constant
        self._checked = [] if known is None else known.checked()
        self._numbers = {number for number, place in enumerate(bound) if place is not None}
        self.told: set[torch.fx.Node] = set()
        """The nodes that produce a size."""

    def spelled(self, size: torch.SymInt) -> Any:
        """Returns the node that computes a size, or the number itself."""
        text = expressions.of_native(str(size.node))
        if text not in self._made:
            values = {name: self._symbol(name) for name in sorted(expressions.names_in(text))}
            made = expressions.at(text, values, _EXTREMES)
            self._made[text] = made.node if isinstance(made, torch.fx.Proxy) else made
        return self._made[text]

    def tell(self, symbol: torch.SymInt, node: torch.fx.Node) -> None:
        """Records the node that produces a symbol. Adds checks of the known facts that can now be evaluated."""
        name = str(symbol.node)
        number = int(name[1:])
        self._symbols[name] = torch.fx.Proxy(node, self._tracer)
        self._numbers.add(number)
        self.told.add(node)
        ready = [names for names in self._checked if number in names and self._numbers.issuperset(names)]
        due = {other for names in ready for other in names}
        if due:
            numbers = sorted(due)
            values = [self._symbol(f"s{number}").node for number in numbers]
            checks = self._constant(whole_graphs.Checks(self._known, numbers))
            check = self._tracer.graph.call_function(whole_graphs.check_sizes, (checks, *values))
            check.meta["stack_trace"] = node.meta.get("stack_trace", "")

    def _symbol(self, name: str) -> torch.fx.Proxy:
        if name not in self._symbols:
            place = self._bound[int(name[1:])]
            if place is None:
                raise Fallback("data-dependent-size", "for another's backend: one that is within another operation")
            node, kind, dim = place
            proxy = torch.fx.Proxy(node, self._tracer)
            self._symbols[name] = proxy if kind is int else proxy.size(dim)
        return self._symbols[name]


_EXTREMES = {"min": torch.sym_min, "max": torch.sym_max}


class _Variables:
    """Names nodes after variables as Dynamo does: when the program stores a value, and only the first time.

    The order is Dynamo's, too, since the names already taken determine the numeric suffixes.
    """

    def __init__(self, stores: Sequence[tuple[int, int, str]], made: dict[int, torch.fx.Node]) -> None:
        self._stores = iter(stores)
        self._next = next(self._stores, None)
        self._made = made
        self._named: set[int] = set()

    def name_until(self, position: int) -> None:
        """Names the nodes stored by the program before it created the node at this position."""
        while self._next is not None and self._next[1] <= position:
            node, _, variable = self._next
            if node not in self._named:
                self._named.add(node)
                self._made[node]._rename(variable)
            self._next = next(self._stores, None)


def _alike(example: FakeTensor) -> torch.Tensor:
    """Returns a fake with the metadata of another, in its own memory.

    It equals what the mode would create, without a dispatch: there is one for each node of each repeated layer.
    """
    memory = torch.empty_strided(
        example.shape, example.stride(), dtype=example.dtype, device="meta", requires_grad=example.requires_grad
    )
    return FakeTensor(example.fake_mode, memory, example.device)


# These set thread state: passes of fx must not drop them as unused.
for _switch in (
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
    torch.clear_autocast_cache,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
):
    torch.fx.node.has_side_effect(_switch)
for _, _put in CHOICES:
    torch.fx.node.has_side_effect(_put)

_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""The element types that torch uses for Python's types."""

_TENSOR_TYPE = type(torch.FloatTensor)

_MODULES = os.path.join(source_lines.TORCH, "nn", "modules", "")

_PRINTED = (
    *(str, int, float, bool, complex, type(None), type(Ellipsis), range, enum.Enum),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket),
)
"""Constants that fx's Python code can name."""


class WithKeywords:
    """A call with keywords that Python reserves, such as ``from``: they are passed in a dict, as the last argument."""

    def __init__(self, target: str | Callable[..., Any]) -> None:
        self.target = target
        self.__name__ = self.__qualname__ = target if isinstance(target, str) else target.__name__
        self.__module__ = __name__

    def __call__(self, *args: Any) -> Any:
        *given, keywords = args
        if isinstance(self.target, str):
            return getattr(given[0], self.target)(*given[1:], **keywords)
        return self.target(*given, **keywords)


def _stack_trace(location: Sequence[source_lines.Line]) -> str:
    """Returns the location as Python prints it, outermost frame first, including source lines, which torch requires.

    Lines of torch's modules and of ours are left out, as Dynamo does: a layer's operation gets the line that calls the
    layer.
    """
    return "".join(
        f'  File "{file}", line {line}, in {function}\n    {linecache.getline(file, line).strip()}\n'
        for file, line, function, _ in reversed(location)
        if not file.startswith((_MODULES, source_lines.OURS))
    )
