"""What compiled loops do with a row: allocate, draw dropout, multiply, copy, and e to the x of an element."""

import numpy as np

from bertcli.kernels.loops.compiled import row_loop, scalar
from bertcli.kernels.loops.elements import F, S, U, float_of, load, rounded

BLOCK = 32  # columns that share 16 hashes, as in models/dropout.py


@scalar
def in_order(bits):
    """The bits of a float32 as an integer of the same order, whose maximum LLVM finds in vectors; and back."""
    bits = S(bits)
    return S(bits ^ S(S(bits >> S(31)) & S(0x7FFFFFFF)))


@scalar
def exp(x):
    """Return e to the x <= 0, to 5e-7 of it for x > -10: 2 to a whole number times a polynomial of the rest, |f| <= 0.5."""
    # Above denormal numbers; NaN stays NaN.
    x = F(-80) if x < F(-80) else x
    whole = np.floor(x * F(1.44269504) + F(0.5))
    f = x * F(1.44269504) - whole
    power = F(0.0013266971)
    for factor in (F(0.00967546), F(0.055507425), F(0.24022122), F(0.69314694), F(1.0000001)):
        power = power * f + factor
    return power * float_of(U(U(S(whole) + S(127)) << U(23)))


@row_loop
def new_row(columns):
    """An uninitialized row, aligned to cache lines."""
    room = np.empty(columns + 16, F)
    first = -(room.ctypes.data // 4) % 16
    return room[first : first + columns]


@row_loop
def new_factors(columns):
    """A row of ones, of whole blocks, for `draw`."""
    kept = new_row(columns + -columns % BLOCK)
    kept[:] = F(1)
    return kept


@scalar
def mixed(bits):
    """lowbias32 of hash-prospector: a one-to-one function of 32 bits."""
    bits = U(U(bits ^ U(bits >> U(16))) * U(0x7FEB352D))
    bits = U(U(bits ^ U(bits >> U(15))) * U(0x846CA68B))
    return U(bits ^ U(bits >> U(16)))


@scalar
def of_head(name, head):
    """The name of the row of a token in an attention head."""
    return mixed(U(name + U(U(head) * U(0x9E3779B9))))


@row_loop
def draw(kept, name, mask):
    """Fill a row of factors with 0 or the scale, as models/dropout.py; leave it where the mask drops nothing."""
    key, threshold, scale, _ = mask
    if threshold == 0:
        return
    below = U(threshold)
    first = mixed(U(U(name) ^ U(key)))
    second = mixed(U(first + U(key >> np.uint64(32))))
    for block in range(kept.size // BLOCK):
        start = block * BLOCK
        for j in range(BLOCK // 2):
            bits = mixed(U(mixed(U(U(block * (BLOCK // 2) + j) ^ first)) + second))
            kept[start + j] = F(0) if U(bits & U(0xFFFF)) < below else scale
            kept[start + BLOCK // 2 + j] = F(0) if U(bits >> U(16)) < below else scale


@row_loop
def times(x, kept, y):
    """Write a row times factors."""
    for j in range(x.size):
        y[j] = rounded(load(x, j) * kept[j], y)


@row_loop
def copy(x, y):
    """Write a row."""
    for j in range(x.size):
        y[j] = rounded(load(x, j), y)
