"""Annotations of variables: in modules and classes, met for sure or not."""
from os import sep

size: int = 3
name: str
if sep:
    kind: list[int] = []
else:
    kind: tuple
for each in (1, 2):
    place: float = each
    del each


class Plain:
    """Nothing is in a statement."""
    first: int
    second: 'str' = 'b'
    third: dict[str, int]

    def method(self, value: int, *rest: str, key: float = 1.0, **options: bytes) -> 'Plain':
        inner = value
        return inner


class Nested:
    always: int = 1
    if sep:
        perhaps: str = 'a'
    try:
        other: bytes
    except ValueError as error:
        failed: object = error
    last: int


def local(kind):
    class Local:
        part: kind
    return Local
