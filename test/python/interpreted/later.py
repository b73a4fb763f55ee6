"""Syntax of 3.12 and later; as text, since 3.11 cannot parse it."""

import sys

from .support import case

SOURCE = """
@case
def type_parameters():
    class Box[T: (int, str), *Ts, **P]:
        def put[U](self, x: U) -> U:
            return x

    type Alias[T] = list[T]

    def first[T: int](values: list[T]) -> T:
        return values[0]

    return Box.__type_params__, Box().put(1), Alias.__value__, first([1]), first.__type_params__[0].__bound__


@case
def comprehensions_in_line():
    x = 5
    values = [x for x in range(3)]

    class C:
        y = [z for z in range(2)]
        w = [v + 1 for v in y]

    return x, values, C.w, [[i * j for j in range(i)] for i in range(3)], [lambda: x for x in range(2)][0]()


@case
def unbound_after_comprehension():
    [x for x in range(3)]
    del x
    return x


@case
def nested_format_strings():
    return f"{f"{1 + 1}"}" f"{'\\n'.join(["a", "b"])}"
"""
if sys.version_info >= (3, 12):
    exec(SOURCE, {"case": case, "__name__": __name__})
