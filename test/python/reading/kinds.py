"""The kinds of containers from which the grid's programs read a number, and the places of these containers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

HERE = Path(__file__).parent


def entries(name: str) -> tuple[str, ...]:
    """The ways of reading listed in a file, one per line."""
    return tuple(HERE.joinpath(f"{name}.txt").read_text().splitlines())


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of container."""

    name: str
    made: str
    """The expression that creates a container with the number `n`."""
    ways: tuple[str, ...]
    """The files that list the ways of reading it."""
    written: str | None = None
    """The statement that writes another number to it, if it can be written to."""
    whole: bool = False
    """True if it can hold only ints."""


def _sequence(name: str, made: str, *more: str, written: str | None = None, whole: bool = False) -> Kind:
    return Kind(name, made, ("sequences", *more), written, whole)


def _mapping(name: str, made: str, *more: str) -> Kind:
    return Kind(name, made, ("mappings", *more), 'v["a"] = n')


def _record(name: str, made: str, *more: str, written: str | None = "v.a = n") -> Kind:
    return Kind(name, made, ("attributes", *more), written)


KINDS = (
    _sequence("tuple", "(n, 1)"),
    _sequence("list", "[n, 1]", written="v[0] = n"),
    _sequence("named tuple", "Named(n, 1)", "named"),
    _sequence("typed named tuple", "Typed(n)", "named"),
    _sequence("subclass of a named tuple", "Fielded(n)", "named", "sequences_of_ours"),
    _sequence("subclass of tuple", "Tupled((n, 1))", "sequences_of_ours"),
    _sequence("subclass of list", "Listed([n, 1])", "sequences_of_ours", written="v[0] = n"),
    _sequence("subclass of deque", "Queued([n, 1])", "sequences_of_ours", written="v[0] = n"),
    _sequence("tuple with own methods", "Asking((n, 1))"),
    _sequence("list with own methods", "AskingList([n, 1])", written="v[0] = n"),
    _sequence("deque", "collections.deque([n, 1])", written="v[0] = n"),
    _sequence("size", "torch.Size((n, 1))", whole=True),
    _sequence("struct sequence", "os.terminal_size((n, 1))"),
    _sequence("array", 'array.array("q", [n, 1])', written="v[0] = n", whole=True),
    _sequence("array of numpy", "np.array([n, 1])", written="v[0] = n"),
    _sequence("values of a dict", '{"a": n, "b": 1}.values()'),
    _sequence("chain of tuples", "[*((n,), (1,))][0] + (1,)"),
    _mapping("dict", '{"a": n, "b": 1}'),
    _mapping("subclass of dict", "Mapped(a=n, b=1)", "mappings_of_ours"),
    _mapping("ordered dict", "collections.OrderedDict(a=n, b=1)"),
    _mapping("subclass of an ordered dict", "Ordered(a=n, b=1)", "mappings_of_ours"),
    _mapping("defaultdict", "collections.defaultdict(int, a=n, b=1)"),
    _mapping("subclass of defaultdict", "Defaulted(int, a=n, b=1)", "mappings_of_ours"),
    _mapping("counter", "collections.Counter(a=n, b=1)", "mappings_of_counts"),
    _mapping("subclass of a counter", "Counted(a=n, b=1)", "mappings_of_counts", "mappings_of_ours"),
    _mapping("dict by attribute", "Attributed(a=n, b=1)", "mappings_of_ours"),
    _mapping("dict by a method", "AttributedByMethod(a=n, b=1)", "mappings_of_ours"),
    _mapping("dict with own methods", "AskingDict(a=n, b=1)", "mappings_of_ours"),
    _mapping("user's dict", "collections.UserDict(a=n, b=1)"),
    _mapping("chain of dicts", 'collections.ChainMap({"a": n}, {"b": 1})'),
    Kind("view of a dict", 'types.MappingProxyType({"a": n, "b": 1})', ("mappings",)),
    _record("object", "Plain(n)"),
    _record("dataclass", "Record(n)", "records"),
    _record("frozen dataclass", "Frozen(n)", "records", written=None),
    _record("dataclass with slots", "SlottedRecord(n)", "records"),
    _record("ordered dataclass", "OrderedRecord(n)", "records"),
    _record("namespace", "types.SimpleNamespace(a=n, b=1)"),
    _record("object with slots", "SlottedPair(n)"),
    _record("object with properties", "Computed(n)", written="v.pair = (n, 1)"),
    _record("nn.Module", "Module(n)"),
    _record("class", 'type("Kind", (), {"a": n, "b": 1})'),
    _record("module", "fresh_module(n)"),
    _record("partial's keywords", "types.SimpleNamespace(**functools.partial(taking, a=n, b=1).keywords)"),
    Kind("speaking object", "Speaking(n)", ("speaking",), "v.a = n"),
    Kind("object that asks a pair", "SpeakingOfPair(n)", ("speaking",), "v.pair = Named(n, 1)"),
    Kind("object that asks a dict", "SpeakingOfDict(n)", ("speaking",), 'v.table["a"] = n'),
    Kind("range", "range(n, 9)", ("ranges", "sequences"), whole=True),
    Kind("range to", "range(n)", ("ranges",), whole=True),
    Kind("slice", "slice(n)", ("slices",)),
    Kind("slice with a step", "slice(None, n, 2)", ("slices",)),
    Kind("partial", "functools.partial(taking, n, b=1)", ("callables", "partials")),
    Kind("partial of a pair", "functools.partial(max, (n, 1))", ("callables",)),
    Kind("bound method", "Method(n).ask", ("callables", "methods"), "v.__self__.a = n"),
    Kind("bound method of a pair", "MethodOfPair(n).ask", ("callables", "methods"), "v.__self__.pair = Named(n, 1)"),
    Kind("callable object", "Method(n)", ("callables",), "v.a = n"),
    Kind("bound method of C", '{"a": n}.values().__iter__().__length_hint__', ("callables",)),
    Kind("function", "made_function(n)", ("callables", "functions"), "v.__closure__[0].cell_contents = n"),
    Kind("function with a default", "made_function(n)", ("callables", "functions"), "v.__defaults__ = (n,)"),
    Kind("closure", "made_lambda(n)", ("callables",), "v.__closure__[0].cell_contents = n"),
    Kind("generator's closure", "made_generator_function(n)", ("callables",), "v.__closure__[0].cell_contents = n"),
    Kind("number", "n", ("numbers",)),
    Kind("number of numpy", "np.float64(n)", ("numbers",)),
    Kind("int of numpy", "np.int64(n)", ("numbers",), whole=True),
    Kind("scalar of numpy", "np.array(n)", ("numbers",), "v[()] = n"),
    Kind("fraction", "fractions.Fraction(n)", ("numbers",)),
    Kind("decimal", "decimal.Decimal(n)", ("numbers",)),
    Kind("complex number", "complex(n, 1)", ("numbers",)),
    Kind("subclass of int", "Whole(n)", ("numbers",), whole=True),
    Kind("subclass of float", "Real(n)", ("numbers",)),
    Kind("bool", "bool(n > 2)", ("numbers",)),
    Kind("text of a number", "str(n)", ("texts",)),
    Kind("set", "{n, 1}", ("sets",), "v.clear(); v.update([n, 1])"),
    Kind("frozenset", "frozenset([n, 1])", ("sets",)),
    Kind("bytes", "bytes([n, 1])", ("bytes",), whole=True),
    Kind("bytearray", "bytearray([n, 1])", ("bytes",), "v[0] = n", whole=True),
    Kind("reference", "referring(n)", ("references",), "v().a = n"),
)


@dataclasses.dataclass(frozen=True)
class Home:
    """The place from which a program gets its container."""

    name: str
    read: str
    """The expression that reads the container from there."""
    put: str
    """The statement that puts the container `v` there."""
    parameters: str = ""
    arguments: str = ""


HOMES = (
    Home("argument", "v", "", "v", "v"),
    Home("keyword argument", "v", "", "*, v", "v=v"),
    Home("global", "HOME", "HOME = v"),
    Home("cell", "home", "set_cell(v)"),
    Home("attribute", "o.held", "BOX_OF_HOME.held = v", "o", "BOX_OF_HOME"),
    Home("slot", "o.a", "SLOTS_OF_HOME.a = v", "o", "SLOTS_OF_HOME"),
    Home("item of a dict", 'o["k"]', 'TABLE_OF_HOME["k"] = v', "o", "TABLE_OF_HOME"),
    Home("item of a dict's subclass", 'o["k"]', "", "o", "Mapped(k=v)"),
    Home("item of a list", "o[1]", "LIST_OF_HOME[1] = v", "o", "LIST_OF_HOME"),
    Home("item of a tuple", "o[1]", "", "o", "(0, v)"),
    Home("field of a named tuple", "o.left", "", "o", "Named(v, 0)"),
    Home("item of a named tuple", "o[0]", "", "o", "Named(v, 0)"),
    Home("field of a dataclass", "o.first", "", "o", "Part(v)"),
    Home("more arguments", "o[0]", "", "*o", "v"),
    Home("more keywords", 'o["v"]', "", "**o", "v=v"),
    Home("class attribute", "Kept.held", "Kept.held = v"),
    Home("attribute by instance", "o.held", "Kept.held = v", "o", "KEPT"),
    Home("attribute of a module", "MODULE.held", "MODULE.held = v"),
    Home("default", "given()", "given.__defaults__ = (v,)"),
    Home("keyword default", "given_by_name()", 'given_by_name.__kwdefaults__ = {"held": v}'),
    Home("argument of a partial", "o()", "", "o", "functools.partial(same, v)"),
    Home("bound method", "o()", "BOX_OF_HOME.held = v", "o", "BOX_OF_HOME.ask"),
    Home("context variable", "VARIABLE.get()", "VARIABLE.set(v)"),
    Home("reference", "o().held", "BOX_OF_HOME.held = v", "o", "weakref.ref(BOX_OF_HOME)"),
    Home("frame's own tuple", "(v, 0)[0]", "", "v", "v"),
    Home("frame's own dict", '{"k": v}["k"]', "", "v", "v"),
    Home("generator", "next(generated([v]))", "", "v", "v"),
)
