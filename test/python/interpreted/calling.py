"""Calls, functions, methods, recursion."""

import sys

from .support import Noisy, case

# --- calls and functions


def everything(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    """Takes everything."""
    return a, b, c, args, d, e, kwargs


@case
def calls():
    return (
        everything(1, d=4),
        everything(1, 2, 3, 4, 5, d=6, f=7),
        everything(*[1, 2], *(3, 4), d=5, **{"e": 6}, **{"g": 7}),
        everything(*range(3), **dict(d=1)),
        dict(a=1, **{"b": 2}),
        max(*[1, 5], 3),
        Noisy()(1, x=2),
        "{}-{a}".format(1, a=2),
        (lambda *a, **k: (a, k))(1, b=2),
    )


@case
def missing_argument():
    return everything(1)


@case
def unexpected_argument():
    return calls(1, 2)


@case
def argument_twice():
    return everything(1, **{"d": 1}, **{"d": 2})


@case
def star_of_no_iterable():
    return everything(*1, d=2)


@case
def star_star_of_no_mapping():
    return everything(1, **[1])


@case
def star_star_of_custom_mapping():
    class Mapping:
        def keys(self):
            return ["d", "z"]

        def __getitem__(self, key):
            return key * 2

    return everything(1, **Mapping())


@case
def star_of_failing_generator():
    def numbers():
        yield 1
        raise KeyError("inside")

    return everything(*numbers(), d=1)


@case
def call_of_no_callable():
    number = 1
    return number()


@case
def methods():
    class C:
        def plain(self, x):
            return "plain", x

        @classmethod
        def of_class(cls, x):
            return cls.__name__, x

        @staticmethod
        def static(x):
            return "static", x

        @property
        def prop(self):
            return lambda x: ("prop", x)

        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    c = C()
    bound = c.plain
    return c.plain(1), c.of_class(2), c.static(3), c.prop(4), bound(5), C.plain(c, 6), C.of_class(7)


@case
def decorators():
    def twice(function):
        def inner(*args):
            return function(*args), function(*args)

        return inner

    def tagged(tag):
        def decorate(function):
            function.tag = tag
            return function

        return decorate

    @twice
    @tagged("t")
    def add(a, b=1):
        return a + b

    return add(1), add(2, 3)


@case
def function_attributes():
    def f(a: int, b: "str" = "x", *, c: float = 1.0) -> list:
        """Doc."""

    return f.__annotations__, f.__defaults__, f.__kwdefaults__, f.__doc__, f.__qualname__, f.__closure__


@case
def callbacks_from_c():
    log = []

    def key(value):
        log.append(value)
        return -value

    return sorted([3, 1, 2], key=key), list(map(lambda x, y: x + y, [1], [2])), max([1, -5], key=abs), log


@case
def recursion():
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    return factorial(200)


@case
def endless_recursion():
    def down(n):
        return down(n + 1)

    try:
        down(0)
    except RecursionError as error:
        return str(error)


@case
def deep_recursion():
    limit = sys.getrecursionlimit()

    def down(n):
        return n and down(n - 1)

    sys.setrecursionlimit(30_000)
    try:
        return down(20_000)
    finally:
        sys.setrecursionlimit(limit)


@case
def super_calls():
    class A:
        def hi(self, *args):
            return "A", args

        @property
        def value(self):
            return 1

    class B(A):
        def hi(self, *args):
            return super().hi(*args, 1), super(B, self).hi(), super().value, [super(B, self).hi() for _ in range(1)]

        @classmethod
        def make(cls):
            return super().__new__(cls)

        def missing(self):
            return super().nothing

    try:
        B().missing()
    except AttributeError as error:
        return B().hi(0), type(B.make()).__name__, str(error)
