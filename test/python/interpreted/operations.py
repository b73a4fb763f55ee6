"""Attributes, items, operators, format strings."""

from .support import Noisy, case

# --- attributes, items, arithmetic


@case
def attributes():
    noisy = Noisy()
    noisy.x = 1
    del noisy.y
    return noisy.z, noisy.z.upper(), noisy.name


@case
def missing_attribute():
    return [].nothing


@case
def missing_method():
    return [].nothing(1)


@case
def items_and_slices():
    noisy = Noisy()
    noisy[1] = 2
    del noisy[3]
    noisy[1:2] = 3
    noisy[::-1], noisy[1:2, ..., None], noisy[:]
    values = list(range(10))
    values[2:4] = "ab"
    del values[::2]
    return values, values[1:3], "abc"[-1], values[5:][::-1]


@case
def operators():
    noisy = Noisy()
    other = noisy
    noisy += 1
    return (
        noisy + 1,
        1 + noisy,
        noisy is other,
        noisy is not other,
        noisy == 1,
        noisy in noisy,
        5 not in [1],
        -noisy,
        +noisy,
        ~noisy,
        not noisy,
        7 // 2,
        -7 % 3,
        2**10,
        7 / 2,
        1 << 4,
        255 >> 2,
        6 & 3,
        6 | 3,
        6 ^ 3,
        [1] * 2,
    )


@case
def in_place_operators():
    a = b = [1]
    a += [2]
    a *= 2
    n = 10
    n -= 1
    n //= 2
    n **= 2
    n %= 10
    n <<= 3
    n >>= 1
    n |= 1
    n &= 15
    n ^= 2
    f = 1.0
    f /= 4
    return a is b, a, n, f


@case
def unsupported_operands():
    return 1 + "a"


@case
def uncomparable():
    return Noisy() < 1


@case
def chained_comparison():
    def say(value):
        print("say", value)
        return value

    return say(1) < say(2) < say(3), say(1) < say(0) < say(9), 1 < 2 == 2 != 3


@case
def short_circuits():
    noisy = Noisy()
    return noisy and 1, noisy or 1, not noisy, 0 or "", None and 1, (1 if noisy else 2), [] or {} or 5


@case
def matrix_product():
    class M:
        def __matmul__(self, other):
            return "matmul", other

        def __imatmul__(self, other):
            return "imatmul"

    m = M()
    first = m @ 3
    m @= 4
    return first, m


@case
def walrus():
    if (n := len("abc")) > 2 and [y := n, y**2]:
        return n, y, [last := x for x in range(3)], last


# --- format strings


@case
def format_strings():
    noisy, x, width = Noisy(), 3.14159, 8
    return (
        f"{x:.2f} {x!r} {'a'!s:>{width}} {noisy!r} {noisy:spec} {noisy!s}",
        f"{'ä'!a} {x=} {x = :.1f} {{}} {1 if x else 2}",
        f"{[i for i in range(3)]} {(lambda: 1)()}",
        f"",
        f"{x}",
        f"{'s'}",
    )


@case
def bad_format():
    return f"{5:zz}"
