"""Type parameters and type statements."""


def function[T, *Ts, **P](value: T, other: int = 3, *, key=4) -> T:
    return value


async def bound[T: int, U: (str, bytes)](value=[1]):
    await value


class Generic[T](list, key=1):
    value: T

    def method[U](self, other: U) -> T:
        return super().method(other)


@function
class Decorated[T]:
    pass


type Plain = int
type Pairs[T] = list[tuple[T, T]]


def local(value):
    type Local[T: value] = T if value else value

    @value
    def inner[T](other: T = value):
        return T
    return inner, Local
