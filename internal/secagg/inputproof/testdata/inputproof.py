#!/usr/bin/env python3
"""An independent prover and verifier of the proofs of inputproof.md.

Written from the page alone, in pure Python. Run without arguments it writes
inputproof.json beside itself: honest proofs, proofs of dishonest provers, and
sums. Not constant in time, and its randomness is public: for tests only.
"""

import hashlib
import json
import math
import os
import sys

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)  # a square root of -1


class Refused(Exception):
    """The proof, or the sum, is refused."""


# Points: extended coordinates (X, Y, Z, T), RFC 8032 section 5.1.4.

ZERO = (0, 1, 1, 0)


def add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def double(p):
    a = p[0] * p[0] % P
    b = p[1] * p[1] % P
    c = 2 * p[2] * p[2] % P
    h = a + b
    e = h - (p[0] + p[1]) ** 2 % P
    g = a - b
    f = c + g
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def negate(p):
    return (-p[0] % P, p[1], p[2], -p[3] % P)


def times8(p):
    return double(double(double(p)))


def same(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def multiply(terms):
    """The sum of scalar * point over pairs, by windows of 4 bits that share their doublings."""
    tables = []
    for scalar, point in terms:
        scalar %= L
        if scalar:
            table = [ZERO, point]
            while len(table) < 16:
                table.append(add(table[-1], point))
            tables.append((scalar, table))
    result = ZERO
    for shift in range(252, -1, -4):
        if result is not ZERO:
            result = double(double(double(double(result))))
        for scalar, table in tables:
            digit = scalar >> shift & 15
            if digit:
                result = add(result, table[digit])
    return result


def encode(p):
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decode(data):
    """The point of 32 bytes as RFC 8032 section 5.1.3 has it, or None."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P == -u % P:
        x = x * ROOT % P
    if v * x * x % P != u:
        return None
    if x == 0 and sign:
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE = decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
GENERATORS = []


def generators(count):
    """G_0, ..., G_(count-1)."""
    while len(GENERATORS) < count:
        i, t = len(GENERATORS), 0
        while True:
            text = b"fedsim/inputproof/generator/v1" + i.to_bytes(4, "big") + t.to_bytes(4, "big")
            point = decode(hashlib.sha512(text).digest()[:32])
            if point is not None and not same(times8(point), ZERO):
                GENERATORS.append(times8(point))
                break
            t += 1
    return GENERATORS[:count]


def commit(row, blinding):
    return multiply(list(zip(row, generators(len(row)))) + [(blinding, BASE)])


class Stream:
    """Scalars in order from the output of SHAKE256 over a seed, 64 bytes each."""

    def __init__(self, seed):
        self.seed, self.at, self.data = seed, 0, b""

    def scalar(self):
        if self.at + 64 > len(self.data):
            self.data = hashlib.shake_256(self.seed).digest(2 * len(self.data) + 4096)
        piece = self.data[self.at:self.at + 64]
        self.at += 64
        return int.from_bytes(piece, "little") % L

    def scalars(self, count):
        return [self.scalar() for _ in range(count)]


class Shape:
    """The layout of a list of bounds (Len, K, Q)."""

    def __init__(self, bounds):
        self.bounds = [tuple(b) for b in bounds]
        self.digits = [(2 * k).bit_length() for _, k, _ in self.bounds]
        total = sum(size * b for (size, _, _), b in zip(self.bounds, self.digits))
        eighth = 1
        while 3 * (8 * eighth) ** 2 < total:
            eighth += 1
        self.columns = 8 * eighth
        self.values = []  # for each value row: its release, and the numbers of its committed rows from 0
        self.weights = []  # for each committed row of a value row: its weight
        self.value_rows = []  # for each release: how many value rows
        for release, ((size, k, _), b) in enumerate(zip(self.bounds, self.digits)):
            count = -(-size // self.columns)
            self.value_rows.append(count)
            for _ in range(count):
                self.values.append((release, range(len(self.weights), len(self.weights) + b)))
                self.weights += [1 << i for i in range(b - 1)] + [2 * k + 1 - (1 << b - 1)]
        self.slack = [(release, t) for release, (_, _, q) in enumerate(self.bounds) for t in range(q.bit_length())]
        self.slack_rows = -(-len(self.slack) // self.columns)
        self.rows = len(self.weights) + self.slack_rows
        self.n = 1 + math.isqrt(2 * self.rows + 1)
        self.negative = self.rows // self.n + 1
        self.positive = -(-self.rows // self.n)
        self.factors = [self.n * (i - self.negative) for i in range(self.negative)]
        self.factors += [1 + self.n * i for i in range(self.positive)] + [1, 2]
        self.first_points = self.rows + 3
        self.second_points = len(self.factors)
        self.scalars = 3 * self.columns + self.n + 4
        self.size = 32 * (self.first_points + self.second_points + self.scalars)

    def cut(self, vectors):
        """Value rows of the vectors."""
        rows = []
        for vector, (size, _, _), count in zip(vectors, self.bounds, self.value_rows):
            assert len(vector) == size
            padded = list(vector) + [0] * (count * self.columns - size)
            rows += [padded[i * self.columns:(i + 1) * self.columns] for i in range(count)]
        return rows

    def bits(self, vectors, slacks=None):
        """Committed rows of the vectors. The slacks are lists of bits, or those of an honest client if None."""
        rows = []
        for row, (release, numbers) in zip(self.cut(vectors), self.values):
            _, k, _ = self.bounds[release]
            bits = [[] for _ in numbers]
            for y in row:
                rest = y + k
                last = self.weights[numbers[-1]]
                top = int(rest >= last)
                rest -= top * last
                for i in range(len(numbers) - 1):
                    bits[i].append(rest >> i & 1)
                bits[-1].append(top)
            rows += bits
        if slacks is None:
            slacks = []
            for vector, (_, _, q) in zip(vectors, self.bounds):
                slack = q - sum(y * y for y in vector)
                slacks.append([slack >> t & 1 for t in range(q.bit_length())])
        flat = [bit for bits in slacks for bit in bits]
        assert len(flat) == len(self.slack)
        flat += [0] * (self.slack_rows * self.columns - len(flat))
        return rows + [flat[i * self.columns:(i + 1) * self.columns] for i in range(self.slack_rows)]

    def tau(self, omega):
        """The rows tau of the slack rows."""
        flat = [omega[release] * (1 << t) % L for release, t in self.slack]
        flat += [0] * (self.slack_rows * self.columns - len(flat))
        return [flat[i * self.columns:(i + 1) * self.columns] for i in range(self.slack_rows)]

    def constant(self, omega):
        return sum(
            w * (q - self.columns * count * k * k) for w, (_, k, q), count in zip(omega, self.bounds, self.value_rows)
        ) % L

    def challenge(self, context, first):
        """u, v, omega, and the 32 bytes of the second challenge."""
        label = b"fedsim/inputproof/v1"
        text = len(label).to_bytes(8, "big") + label + len(context).to_bytes(8, "big") + context
        for bound in self.bounds:
            for number in bound:
                text += number.to_bytes(8, "big")
        count = 16 * self.rows + 14 * self.columns + 16 * len(self.bounds) + 32
        data = hashlib.shake_256(text + first).digest(count)
        at = 0

        def take(size):
            nonlocal at
            at += size
            return int.from_bytes(data[at - size:at], "little")

        u = [take(16) for _ in range(self.rows)]
        v = [take(14) for _ in range(self.columns)]
        omega = [take(16) for _ in self.bounds]
        return u, v, omega, data[at:]

    def powers(self, x):
        """Powers of x from -(R+n) to R+n, as a function of the exponent."""
        span = self.rows + self.n + 2
        inverse = pow(x, L - 2, L)
        up, down = [1], [1]
        for _ in range(span):
            up.append(up[-1] * x % L)
            down.append(down[-1] * inverse % L)
        return lambda e: up[e] if e >= 0 else down[-e]


def second_challenge(seed, second):
    x = int.from_bytes(hashlib.shake_256(seed + second).digest(64), "little") % L
    if x == 0:
        raise Refused("x is zero")
    return x


def inner(a, b):
    return sum(p * q for p, q in zip(a, b)) % L


def combine(terms, size):
    """The sum of scalar * row over pairs."""
    result = [0] * size
    for scalar, row in terms:
        for m, value in enumerate(row):
            result[m] += scalar * value
    return [value % L for value in result]


def opened(shape, s):
    """The blindings sigma_j of the value rows."""
    return [sum(shape.weights[i] * s[i] for i in numbers) % L for _, numbers in shape.values]


def prove(shape, context, bits, stream, blind=None, first_hook=None, rows_hook=None, points_hook=None, slack=None):
    """A proof of committed rows, which may be any scalars, and the blindings.

    Hooks are for dishonest provers: blind changes the s, first_hook the list of
    encoded points of the first message before it is hashed, rows_hook the rows of the second
    message before they are committed to (it gets the error of the constant coefficient as well),
    points_hook its points with the same error.
    """
    s = stream.scalars(shape.rows)
    if blind:
        blind(s)
    d, d1, d2 = (stream.scalars(shape.columns) for _ in range(3))
    e, e1, e2 = stream.scalars(3)
    a = stream.scalars(shape.n - 1)
    rho = stream.scalars(shape.second_points)
    first = [encode(commit(row, blinding)) for row, blinding in zip(bits + [d, d1, d2], s + [e, e1, e2])]
    if first_hook:
        first_hook(first)
    u, v, omega, seed = shape.challenge(context, b"".join(first))

    values = []
    for release, numbers in shape.values:
        _, k, _ = shape.bounds[release]
        row = combine([(shape.weights[i], bits[i]) for i in numbers], shape.columns)
        values.append([(y - k) % L for y in row])
    tau = shape.tau(omega)
    right = {}
    for (release, numbers), y in zip(shape.values, values):
        _, k, _ = shape.bounds[release]
        for i in numbers:
            right[-(i + 1)] = [
                (u[i] * v[m] * (bits[i][m] - 1) + omega[release] * shape.weights[i] * (y[m] - k)) % L
                for m in range(shape.columns)
            ]
    for number in range(shape.slack_rows):
        i = len(shape.weights) + number
        right[-(i + 1)] = [(u[i] * v[m] * (bits[i][m] - 1) + tau[number][m]) % L for m in range(shape.columns)]
    right[-(shape.rows + 2)] = [(v[m] * d1[m] + d2[m]) % L for m in range(shape.columns)]
    left = {i + 1: row for i, row in enumerate(bits)}
    left[shape.rows + 1] = d
    product = {}
    for i, row in left.items():
        for j, other in right.items():
            product[i + j] = product.get(i + j, 0) + inner(row, other)
    error = (product.pop(0) - shape.constant(omega)) % L
    assert min(product) >= -(shape.rows + 1) and max(product) <= shape.rows

    n = shape.n
    rows = [[product.get(factor + m, 0) % L for m in range(n)] for factor in shape.factors[:-2]]
    rows.append([0] + a)
    rows.append([-value % L for value in a] + [0])
    if rows_hook:
        rows_hook(rows, error)
    points = [commit(row, blinding) for row, blinding in zip(rows, rho)]
    if points_hook:
        points_hook(points, error)
    second = b"".join(encode(point) for point in points)
    x = second_challenge(seed, second)
    power = shape.powers(x)
    hide = power(-(shape.rows + 2))
    l = combine([(power(i), row) for i, row in left.items()], shape.columns)
    h = (sum(power(i + 1) * s[i] for i in range(shape.rows)) + power(shape.rows + 1) * e) % L
    weights1 = [u[i] * power(-(i + 1)) % L for i in range(shape.rows)]
    r1 = combine(list(zip(weights1, bits)) + [(hide, d1)], shape.columns)
    h1 = (inner(weights1, s) + hide * e1) % L
    c = coefficients(shape, omega, power)
    r2 = combine(list(zip(c, values)) + [(hide, d2)], shape.columns)
    sigma = opened(shape, s)
    h2 = (inner(c, sigma) + hide * e2) % L
    factors = [power(factor) for factor in shape.factors]
    t = combine(zip(factors, rows), n)
    ht = inner(factors, rho)
    third = b"".join(value.to_bytes(32, "little") for value in l + r1 + r2 + t + [h, h1, h2, ht])
    return b"".join(first) + second + third, sigma


def coefficients(shape, omega, power):
    """The c_j."""
    return [
        omega[release] * sum(shape.weights[i] * power(-(i + 1)) for i in numbers) % L
        for release, numbers in shape.values
    ]


def honest(bounds, context, vectors, seed):
    shape = Shape(bounds)
    return prove(shape, context, shape.bits(vectors), Stream(seed))


def value_commitments(shape, points):
    """C_j of the decoded points of the first message."""
    total = ZERO
    for generator in generators(shape.columns):
        total = add(total, generator)
    result = []
    for release, numbers in shape.values:
        _, k, _ = shape.bounds[release]
        terms = [(shape.weights[i], points[i]) for i in numbers]
        # The last term is not of the prime order if the prover wanted so, but all is multiplied by 8 later.
        result.append(multiply(terms + [(-k, total)]))
    return result


def verify(bounds, context, proof):
    """Raises Refused, or returns the points C_j."""
    shape = Shape(bounds)
    if len(proof) != shape.size:
        raise Refused("size")
    pieces = [proof[i:i + 32] for i in range(0, len(proof), 32)]
    cut1, cut2 = shape.first_points, shape.first_points + shape.second_points
    points = [decode(piece) for piece in pieces[:cut2]]
    if None in points:
        raise Refused("no point")
    numbers = [int.from_bytes(piece, "little") for piece in pieces[cut2:]]
    if max(numbers) >= L:
        raise Refused("no scalar")
    columns, n, rows = shape.columns, shape.n, shape.rows
    l, r1, r2 = numbers[:columns], numbers[columns:2 * columns], numbers[2 * columns:3 * columns]
    t = numbers[3 * columns:3 * columns + n]
    h, h1, h2, ht = numbers[-4:]
    u, v, omega, seed = shape.challenge(context, b"".join(pieces[:cut1]))
    x = second_challenge(seed, b"".join(pieces[cut1:cut2]))
    power = shape.powers(x)
    committed, (big, big1, big2), second = points[:rows], points[rows:cut1], points[cut1:]
    opens = value_commitments(shape, committed)
    hide = power(-(rows + 2))
    weights1 = [u[i] * power(-(i + 1)) % L for i in range(rows)]
    c = coefficients(shape, omega, power)

    def check(name, terms, row, blinding):
        if not same(times8(multiply(terms)), times8(commit(row, blinding))):
            raise Refused(name)

    check("equation 1", [(power(i + 1), committed[i]) for i in range(rows)] + [(power(rows + 1), big)], l, h)
    check("equation 2", list(zip(weights1, committed)) + [(hide, big1)], r1, h1)
    check("equation 3", list(zip(c, opens)) + [(hide, big2)], r2, h2)
    check("equation 4", [(power(factor), point) for factor, point in zip(shape.factors, second)], t, ht)
    tau = shape.tau(omega)
    slack = combine([(power(-(len(shape.weights) + i + 1)), row) for i, row in enumerate(tau)], columns)
    sum1 = sum(weights1)
    sum2 = sum(value * shape.bounds[release][1] for value, (release, _) in zip(c, shape.values))
    r = [(v[m] * r1[m] + r2[m] - sum1 * v[m] - sum2 + slack[m]) % L for m in range(columns)]
    if inner(l, r) != (shape.constant(omega) + sum(t[m] * power(m) for m in range(n))) % L:
        raise Refused("equation 5")
    return opens


def check_sum(bounds, opens, vectors, blindings):
    """Raises Refused unless the sum of vectors and of blindings opens the sum of the C_j, a list for each client."""
    shape = Shape(bounds)
    for j, row in enumerate(shape.cut(vectors)):
        total = ZERO
        for client in opens:
            total = add(total, client[j])
        if not same(times8(total), times8(commit([y % L for y in row], blindings[j]))):
            raise Refused("sum")


def accepted(bounds, context, proof):
    try:
        verify(bounds, context, proof)
    except Refused as reason:
        return False, str(reason)
    return True, ""


SEED = b"fedsim/inputproof/test"
CONTEXT = b"round 7, client 3"


def vector(size, k, q, salt):
    """Integers within bounds: small ones by a hash, until the squares are used up."""
    data = hashlib.shake_256(b"vector" + salt).digest(8 * size)
    result, left = [], q
    for i in range(size):
        y = int.from_bytes(data[8 * i:8 * i + 8], "little") % (2 * k + 1) - k
        if y * y > left:
            y = 0
        left -= y * y
        result.append(y)
    return result


def order8():
    """A point of order 8."""
    t = 0
    while True:
        point = decode(hashlib.sha512(b"small" + bytes([t])).digest()[:32])
        t += 1
        if point is None:
            continue
        low = ZERO
        for bit in bin(L)[2:]:
            low = double(low)
            if bit == "1":
                low = add(low, point)
        if not same(double(double(low)), ZERO):
            return low


def cheats(bounds, context, vectors):
    """Proofs of dishonest provers: name, context, proof, whether it is right to accept, remark."""
    shape = Shape(bounds)
    bits = shape.bits(vectors)
    (size, k, q), digits = bounds[0], shape.digits[0]
    proof, _ = prove(shape, context, bits, Stream(SEED))
    pieces = [proof[i:i + 32] for i in range(0, len(proof), 32)]
    cut1, cut2 = shape.first_points, shape.first_points + shape.second_points
    found = []

    def note(name, data, accept=False, where=context, remark=""):
        found.append((name, where, data, accept, remark))

    def lie(name, rows, accept=False, remark="", **hooks):
        data, _ = prove(shape, context, rows, Stream(SEED), **hooks)
        note(name, data, accept, remark=remark)

    def copy():
        return [list(row) for row in bits]

    def with_y(y0):
        """The vectors with y0 as the first coordinate."""
        changed = [list(v) for v in vectors]
        changed[0][0] = y0
        return changed

    # Bits that are no bits.
    for name, value in (("a bit is 2", 2), ("a bit is -1", L - 1)):
        rows = copy()
        rows[0][0] = value
        lie(name, rows)
    # The squares and the slack are right here: only the bit is wrong.
    big = with_y(k)
    big[0][0] = k + 1
    big[0][1:] = [0] * (size - 1)
    slack = q - (k + 1) ** 2
    inside = [list(v) for v in big]
    inside[0][0] = k
    slacks = [[slack >> t & 1 for t in range(q.bit_length())]]
    for v, (_, _, other) in list(zip(vectors, bounds))[1:]:
        rest = other - sum(y * y for y in v)
        slacks.append([rest >> t & 1 for t in range(other.bit_length())])
    rows = shape.bits(inside, slacks)
    rows[0][0] += 1
    assert sum(shape.weights[i] * rows[i][0] for i in range(digits)) == 2 * k + 1
    lie("a coordinate beyond K by a bit that is 2", rows)
    rows = shape.bits(inside, slacks)
    rows[digits - 1][0] = (1 + pow(shape.weights[digits - 1], L - 2, L)) % L
    lie("a coordinate beyond K by a last bit that is a fraction", rows)

    # Squares beyond Q.
    beyond = [list(v) for v in vectors]
    total = 0
    for i in range(size):
        beyond[0][i] = k if total <= q else 0
        total += beyond[0][i] ** 2
    assert total > q
    missing = q - total
    digits_q = q.bit_length()
    rest = slacks[1:]
    one = [missing % L] + [0] * (digits_q - 1)
    lie("a slack that is negative modulo l, in its lowest bit", shape.bits(beyond, [one] + rest))
    lie("a slack that is negative modulo l, with -1 as a bit", shape.bits(
        beyond, [[(-(-missing >> t & 1)) % L for t in range(digits_q)]] + rest))
    lie("squares beyond Q, with the slack modulo a power of two", shape.bits(
        beyond, [[missing >> t & 1 for t in range(digits_q)]] + rest))
    lie("squares beyond Q, with slack 0", shape.bits(beyond, [[0] * digits_q] + rest))
    flat = sum(y * y for y in vectors[0])
    slack = q - flat
    two = [slack >> t & 1 for t in range(digits_q)]
    two[0], two[1] = (two[0] - 2) % L, two[1] + 1
    lie("slack bits that are not bits but give the slack", shape.bits(vectors, [two] + rest))
    if len(shape.slack) % shape.columns:
        rows = copy()
        rows[-1][-1] = 2
        lie("the unused end of the last slack row is no bit", rows)
    # If the padding could hold no bits, its squares would pay for others: -1 * -1 is not minus one.
    if size % shape.columns:
        rows = shape.bits(beyond, [[0] * digits_q] + rest)
        last = shape.value_rows[0] - 1
        column = shape.columns - 1
        numbers = shape.values[last][1]
        root = square_root(missing % L)
        if root is not None:
            for i in numbers:
                rows[i][column] = 0
            rows[numbers[0]][column] = (root + k) % L
            lie("squares beyond Q, paid by a square that is negative modulo l behind the vector", rows)

    # The error of the constant coefficient, hidden in the second message.
    bad = shape.bits(beyond, [[0] * digits_q] + rest)
    last = shape.negative - 1

    def into(row, column):
        def hook(rows, error):
            rows[row][column] = (rows[row][column] + error) % L
        return hook

    lie("the error of the constant at exponent -1", bad, rows_hook=into(last, shape.n - 1))
    lie("the error of the constant at exponent 1", bad, rows_hook=into(shape.negative, 0))
    lie("the error of the constant in a row that hides", bad, rows_hook=into(-1, shape.n - 1))

    def outside(points, error):
        points[last] = add(points[last], multiply([(error, generators(shape.n + 1)[-1])]))

    lie("the error of the constant in a column behind the row of exponent -1", bad, points_hook=outside)
    longer, _ = prove(shape, context, bad, Stream(SEED), points_hook=outside)
    at = 32 * (cut2 + 3 * shape.columns + shape.n)
    note("the same, with a scalar more in t", longer[:at] + bytes(32) + longer[at:])
    # Columns 0, ..., n-2 of the last negative row moved by one: its last coefficient has the factor of exponent 0.

    def moved(rows, error):
        rows[last] = rows[last][1:] + [error]

    lie("the row of exponent -1 moved by one, with the error at its end", bad, rows_hook=moved)

    # A third message that solves equation 5 after the challenges, as if l, r or t were free.
    for name, at in (("t", 3 * shape.columns), ("l", 0), ("r'", shape.columns), ("r''", 2 * shape.columns)):
        data, _ = prove(shape, context, bad, Stream(SEED))
        note("equation 5 solved by a coefficient of " + name, solve5(shape, context, data, at))

    # Honest proofs that are changed.
    note("another context", proof, where=context + b"0")
    note("a longer context", proof, where=context + bytes(1))
    note("no context", proof, where=b"")
    torsion = order8()

    def shifted(number, by):
        changed = list(pieces)
        changed[number] = encode(add(decode(changed[number]), by))
        return b"".join(changed)

    note("a point of order 8 added to a commitment after the challenge", shifted(0, torsion))
    note("a point of order 8 added to the second message after the challenge", shifted(cut1, torsion))

    def twist(first):
        first[0] = encode(add(decode(first[0]), torsion))

    harmless = "Right to accept: the equations are multiplied by 8, as is the check of sums, so the vector is the same."
    lie("a point of order 8 added to a commitment before the challenge", bits, True, harmless, first_hook=twist)

    def twist_second(points, error):
        points[-1] = add(points[-1], torsion)

    lie("a point of order 8 added to the second message before the challenge", bits, True, harmless,
        points_hook=twist_second)
    note("a multiple of the base point added to a commitment", shifted(0, BASE))

    # The first committed row with zeros only and no blinding is the neutral point. It has encodings beyond RFC 8032.
    zero = [list(v) for v in vectors]
    zero[0] = [0] * size
    numbers = shape.values[0][1]
    plain = shape.bits(zero, [[q >> t & 1 for t in range(digits_q)]] + rest)
    number = next((i for i in numbers if not any(plain[i])), None)
    if number is not None:
        def unblinded(s):
            s[number] = 0

        lie("the neutral point as a commitment", plain, True,
            "Right to accept: a client that does not blind its row harms itself only.", blind=unblinded)
        for name, code in (
            ("the neutral point as p + 1", P + 1), ("the neutral point with a sign", 1 | 1 << 255),
            ("the neutral point as p + 1 with a sign", P + 1 | 1 << 255),
        ):
            def other(first, code=code):
                first[number] = code.to_bytes(32, "little")

            lie(name + ", which is no encoding of RFC 8032", plain, blind=unblinded, first_hook=other)

    # Encodings.
    for at, name in ((0, "l"), (shape.scalars - 1, "h_t"), (3 * shape.columns, "t")):
        changed = list(pieces)
        changed[cut2 + at] = (int.from_bytes(pieces[cut2 + at], "little") + L).to_bytes(32, "little")
        note("a scalar plus l in " + name, b"".join(changed))
    changed = list(pieces)
    changed[-1] = L.to_bytes(32, "little")
    note("the scalar l", b"".join(changed))
    note("all bytes zero", bytes(len(proof)))
    note("all points neutral, all scalars zero", (b"\x01" + bytes(31)) * cut2 + bytes(32 * shape.scalars))
    note("all bytes 255", b"\xff" * len(proof))
    note("a byte less", proof[:-1])
    note("a byte more", proof + b"\0")
    note("nothing", b"")
    changed = list(pieces)
    changed[0] = next(c for c in (bytes([i]) + bytes(31) for i in range(256)) if decode(c) is None)
    note("a commitment that is no point", b"".join(changed))

    def swap(name, a, b):
        changed = list(pieces)
        changed[a], changed[b] = changed[b], changed[a]
        note(name, b"".join(changed))

    swap("two committed rows swapped", 0, 1)
    swap("D and D' swapped", shape.rows, shape.rows + 1)
    swap("D' and D'' swapped", shape.rows + 1, shape.rows + 2)
    swap("two rows of the second message swapped", cut1, cut1 + 1)
    swap("the rows that hide swapped", cut2 - 1, cut2 - 2)
    swap("l and r' swapped in a column", cut2, cut2 + shape.columns)
    swap("h and h' swapped", len(pieces) - 4, len(pieces) - 3)

    def swap_rows(first):
        first[0], first[-4] = first[-4], first[0]

    lie("a committed row and a slack row swapped before the challenge", bits, first_hook=swap_rows)
    return found


def square_root(a):
    """A square root modulo l, or None. l is 5 modulo 8."""
    if pow(a, (L - 1) // 2, L) != 1:
        return None
    root = pow(a, (L + 3) // 8, L)
    if root * root % L != a:
        root = root * pow(2, (L - 1) // 4, L) % L
    assert root * root % L == a
    return root


def solve5(shape, context, proof, at):
    """The proof with the scalar of the third message at this place changed so that equation 5 holds."""
    pieces = [proof[i:i + 32] for i in range(0, len(proof), 32)]
    cut1, cut2 = shape.first_points, shape.first_points + shape.second_points
    numbers = [int.from_bytes(piece, "little") for piece in pieces[cut2:]]
    u, v, omega, seed = shape.challenge(context, b"".join(pieces[:cut1]))
    power = shape.powers(second_challenge(seed, b"".join(pieces[cut1:cut2])))
    columns, n = shape.columns, shape.n
    c = coefficients(shape, omega, power)
    slack = combine(
        [(power(-(len(shape.weights) + i + 1)), row) for i, row in enumerate(shape.tau(omega))], columns)
    sum1 = sum(u[i] * power(-(i + 1)) for i in range(shape.rows))
    sum2 = sum(value * shape.bounds[release][1] for value, (release, _) in zip(c, shape.values))

    def gap():
        l, r1, r2 = numbers[:columns], numbers[columns:2 * columns], numbers[2 * columns:3 * columns]
        t = numbers[3 * columns:3 * columns + n]
        r = [v[m] * r1[m] + r2[m] - sum1 * v[m] - sum2 + slack[m] for m in range(columns)]
        return (inner(l, r) - shape.constant(omega) - sum(t[m] * power(m) for m in range(n))) % L

    before, start = gap(), numbers[at]
    numbers[at] = (start + 1) % L
    slope = (gap() - before) % L
    numbers[at] = (start - before * pow(slope, L - 2, L)) % L
    assert gap() == 0 and before != 0
    pieces[cut2 + at] = numbers[at].to_bytes(32, "little")
    return b"".join(pieces)


def main():
    shapes = [
        [(20, 3, 40)], [(37, 5, 100), (3, 1, 2)], [(5, 2**31, 2**62), (16, 1000, 2000000)],
        [(1, 2**31, 2**62)], [(1, 1, 1)], [(300, 7, 900), (9, 100, 30000)],
        # Widths where a square root is whole, and the next.
        [(64, 2, 100)], [(64, 2, 100), (1, 1, 1)], [(8, 1, 2), (8, 2, 4), (8, 1, 1)],
        [(1, 1, 1)] * 30, [(9, 2**31 - 1, 2**62 - 1)], [(1, 4, 2**40)] * 3,
    ]
    cases = [(bounds, [vector(*bound, salt=bytes([n, i])) for i, bound in enumerate(bounds)]) for n, bounds in enumerate(shapes)]
    # The ends of what bounds allow.
    cases += [
        ([(3, 2**31, 2**62)], [[0, 2**31, 0]]), ([(3, 2**31, 2**62)], [[-2**31, 0, 0]]),
        ([(9, 1, 9)], [[1] * 9]), ([(9, 1, 9)], [[-1] * 9]), ([(9, 1, 9)], [[0] * 9]),
        ([(4, 2**30, 2**62)], [[2**30, -2**30, 2**30, -2**30]]), ([(7, 3, 2**62)], [[-3, -2, -1, 0, 1, 2, 3]]),
    ]
    result = {"seed": SEED.decode(), "generators": [encode(g).hex() for g in generators(8)], "honest": []}
    for number, (bounds, vectors) in enumerate(cases):
        proof, sigma = honest(bounds, CONTEXT, vectors, SEED)
        verify(bounds, CONTEXT, proof)
        entry = {
            "context": CONTEXT.hex(), "bounds": bounds, "vectors": vectors, "size": len(proof),
            "sha256": hashlib.sha256(proof).hexdigest(), "blindings": [value.to_bytes(32, "little").hex() for value in sigma],
        }
        if number < 2:
            entry["proof"] = proof.hex()
        result["honest"].append(entry)
        print("honest", bounds, len(proof), flush=True)

    result["cheating"] = []
    for salt, bounds in enumerate(shapes[:2]):
        vectors = [vector(*bound, salt=bytes([salt, i])) for i, bound in enumerate(bounds)]
        found = cheats(bounds, CONTEXT, vectors)
        if salt:  # one shape is enough for proofs that are changed: the file stays small
            found = found[:[name for name, *_ in found].index("another context")]
        for name, context, proof, accept, remark in found:
            answer, reason = accepted(bounds, context, proof)
            print("cheating", name, "-", "accepted" if answer else reason, flush=True)
            assert answer == accept, name
            entry = {"name": name, "bounds": bounds, "context": context.hex(), "proof": proof.hex(), "accept": accept}
            if remark:
                entry["remark"] = remark
            if reason:
                entry["reason"] = reason
            result["cheating"].append(entry)

    bounds = shapes[1]
    shape = Shape(bounds)
    clients, opens = [], []
    sums, total = [[0] * size for size, _, _ in bounds], [0] * len(shape.values)
    for client in range(2):
        context, seed = b"round 7, client %d" % client, SEED + b"/%d" % client
        vectors = [vector(*bound, salt=bytes([100 + client, i])) for i, bound in enumerate(bounds)]
        proof, sigma = honest(bounds, context, vectors, seed)
        opens.append(verify(bounds, context, proof))
        clients.append({"context": context.hex(), "seed": seed.decode(), "vectors": vectors, "proof": proof.hex()})
        sums = [[a + b for a, b in zip(p, q)] for p, q in zip(sums, vectors)]
        total = [(a + b) % L for a, b in zip(total, sigma)]
    check_sum(bounds, opens, sums, total)
    for release, at in ((0, 0), (1, 2)):
        sums[release][at] += 1
        try:
            check_sum(bounds, opens, sums, total)
            raise AssertionError("a wrong sum")
        except Refused:
            sums[release][at] -= 1
    result["sum"] = {
        "bounds": bounds, "clients": clients, "vectors": sums,
        "blindings": [value.to_bytes(32, "little").hex() for value in total],
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputproof.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(result, file, indent=0, separators=(",", ":"))
        file.write("\n")
    print(os.path.getsize(path), "bytes")


if __name__ == "__main__":
    sys.exit(main())
