"""Source that decompiles to itself, whatever the version: what each form of statement and expression comes back as."""
# ruff: noqa

import os.path as path
from sys import argv, exit as leave


def displays(a, b, /, c=1, *rest, key=2, **options):
    x = [a, *rest, -1.5, 1.0 + 2.0j, 0.25, None, ...]
    y = {a: b, **options, "k": (1, 2)}
    z = {a, b}
    return x, y, z, a[1:b], a[::2], a[1, b:], lambda n, *m: n + 1


def operators(a, b, c):
    d = a + b * c - (a - b) ** -c
    d += a.b.c
    a.b -= 1
    a[b] |= c
    x = y = not d
    x, (y, *z) = y, (x, 1)
    x, y = y, x
    del a[b]
    del c.d
    return -a // b @ c, a and b or c, a < b <= c, a if b else c, a not in {1, 2}


def calls(f, args, **kw):
    f(1, a=2)(*args, **kw)
    f.method(x for x in args)
    f(*args, 1, **kw, b=2)
    return f(f"{f!r:>{args}} {{}} {kw['k']}", sep="")


def branches(a, b):
    if a and (b or not a):
        return 1
    if a:
        b()
    elif b:
        a()
    else:
        a(b)
    assert a, "message"
    while a < b:
        a += 1
        if a == 5:
            break
        b()
    else:
        return a
    return (b := a) + b


def loops(rows):
    global total
    for row in rows:
        for item in row:
            if item:
                break
        else:
            continue
        total = row
    return [x + y for x in rows if x for y in x], {k: v for k, v in rows}, {x for x in rows}


def handlers(a):
    try:
        a()
    except (OSError, ValueError) as error:
        raise RuntimeError("no") from error
    except KeyError:
        return
    else:
        a(1)
    finally:
        a(2)
    with a as b:
        b(3)
    with a:
        return b


def closures(a):
    count = 0

    @a.decorator(1)
    def inner(n: int = 5, *, m: str = "x") -> float:
        "Documented."
        nonlocal count
        count += n
        return a

    class Local(a, metaclass=inner):
        "A class."

        field = 1

        def method(self):
            return super().method()

    return inner, Local


def generator(a):
    x = yield a
    yield from x
    return x


async def coroutine(a):
    async with a as b:
        async for c in b:
            await c
    return [d async for d in b]


def scopes(a):
    total = a

    def reads():
        global total
        return total

    def raises():
        try:
            return a()
        finally:
            raise total

    return reads, raises
