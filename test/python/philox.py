"""Philox4x32-10 in plain Python (Salmon and others 2011): the reference for `dynamo.random`."""

from __future__ import annotations

from collections.abc import Sequence

WORD = 0xFFFFFFFF


def block(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """The four words for a counter of four words, under a key of two."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ k, second & WORD, (first >> 32) ^ d ^ m, first & WORD
        k, m = (k + 0x9E3779B9) & WORD, (m + 0xBB67AE85) & WORD
    return [a, b, c, d]


def half(key: int, counter: int, which: int) -> int:
    """One half of the block for a key and a counter of 64 bits each, as a signed number."""
    words = block([counter & WORD, counter >> 32 & WORD, 0, 0], [key & WORD, key >> 32 & WORD])
    bits = words[2 * which] | words[2 * which + 1] << 32
    return bits - (1 << 64) if bits >> 63 else bits
