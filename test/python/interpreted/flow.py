"""Containers, unpacking, loops, patterns, the order of events."""

from .support import case

# --- containers and unpacking


@case
def displays():
    a, b = [1, 2], {"x": 1}
    return (
        (1, *a, 3),
        [*a, *a, 0],
        {*a, 5},
        {**b, "y": 2, **{"x": 3}},
        {"a": 1, "b": 2, "c": 3, "d": 4},
        [],
        {},
        (),
        {1: 2, "k": a},
        (*a,),
        [i * j for i in range(3) for j in range(i) if i + j],
        {i % 3 for i in range(9)},
        {i: i * i for i in range(4)},
        list(x for x in a),
    )


@case
def star_in_a_list_of_no_iterable():
    return [*1]


@case
def star_in_a_set_of_no_iterable():
    return {*1}


@case
def star_star_in_a_dict_of_no_mapping():
    return {**1}


@case
def unhashable():
    return {[]: 1}


@case
def unpacking():
    a, b = 1, 2
    (c, [d, *e]), f = (3, "xyz"), 4
    *g, h = range(4)
    i, *j, k = "ab"
    first, *_, last = {1: 2, 3: 4, 5: 6}
    [m, n] = {7, 8}
    return a, b, c, d, e, f, g, h, i, j, k, first, last, m + n


@case
def unpack_too_few():
    a, b, c = 1, 2


@case
def unpack_too_many():
    a, b = 1, 2, 3


@case
def unpack_star_too_few():
    a, *b, c = [1]


@case
def unpack_no_iterable():
    a, b = 5


@case
def unpack_failing_iterator():
    def numbers():
        yield 1
        raise ValueError("inside")

    a, b = numbers()


# --- loops and jumps


@case
def loops():
    seen = []
    for i in range(10):
        if i % 2:
            continue
        if i > 6:
            break
        seen.append(i)
    else:
        seen.append("never")
    n = 0
    while n < 3:
        n += 1
    else:
        seen.append("else")
    while True:
        n -= 1
        if not n:
            break
    for a, (b, c) in [(1, (2, 3))]:
        seen.append(a + b + c)
    return seen, n


@case
def long_jumps():
    body = "".join(f"    x = x + {i} if x != {i} else x\n" for i in range(300))
    scope = {}
    exec(f"def f(x):\n  for _ in range(2):\n{body}  return x\n", scope)
    return scope["f"](1)


@case
def iteration_over_no_iterable():
    for _ in 5:
        pass


@case
def none_tests():
    return [("none" if x is None else "some") for x in (None, 0)], [1 for x in (None, 1) if x is not None]


# --- patterns


class Point:
    """A class with positional patterns."""

    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


def describe(value):
    match value:
        case 0 | 1:
            return "small"
        case int(n) if n > 100:
            return "big", n
        case bool() | float():
            return "number"
        case str() as s:
            return "text", s
        case []:
            return "empty"
        case [x]:
            return "one", x
        case [first, *_, last] if first == last:
            return "framed", first
        case (a, b, *rest):
            return "many", a, b, rest
        case {"kind": "k", "value": v, **others}:
            return "mapping", v, others
        case {}:
            return "other mapping"
        case Point(0, y=y):
            return "on axis", y
        case Point(x, y):
            return "point", x, y
        case None:
            return "none"
        case _:
            return "unknown"


@case
def patterns():
    values = [0, 1, 500, 7, 2.5, "s", [], [1], [1, 2, 1], (1, 2, 3, 4), {"kind": "k", "value": 1, "more": 2}, {"a": 1}]
    values += [Point(0, 1), Point(2, 3), None, True, object, {1, 2}, b"bytes"]
    return [describe(value) for value in values]


@case
def pattern_of_too_many_positions():
    match Point(1, 2):
        case Point(1, 2, 3):
            pass


@case
def pattern_of_no_class():
    make = 5
    match 1:
        case make():
            pass


@case
def pattern_key_twice():
    key = "a"

    class K:
        k = "a"

    match {"a": 1}:
        case {"a": x, K.k: y}:
            return x, y
    return key


# --- order of events


class Tracked:
    """Says when it goes away."""

    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone", self.name)


@case
def order_of_destruction():
    a = Tracked("a")
    a = Tracked("b")
    Tracked("c")
    [Tracked("d"), Tracked("e")][0].name
    del a
    x = Tracked("x")
    y = Tracked("y")
    return "returning", bool(x and y)


@case
def destruction_by_exception():
    def f():
        inside = Tracked("inside")
        return inside.missing

    try:
        f()
    except AttributeError:
        print("handled")


@case
def order_of_evaluation():
    def say(x):
        print(x)
        return x

    {say(1): say(2), say(3): say(4)}
    say("list")[0:1]
    d = {}
    d[say("k")] = say("v")
    (say("f") and max)(say(1), *[say(2)], key=say(None) or (lambda v: v))
    return [say(1), say(2)], (say(3), say(4))
