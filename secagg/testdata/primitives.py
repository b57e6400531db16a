"""The primitives of the secure sum by their standards, from integers and hashlib.

Slow, and not in constant time: for computing golden vectors, of no use for secrets.
Importing it holds every primitive against a vector of its standard.
"""

import hashlib
import hmac
import struct

# FIPS 197: AES.


def _gmul(a, b):
    r = 0
    while b:
        if b & 1:
            r ^= a
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return r


def _sbox():
    box = []
    for x in range(256):
        inverse = next((y for y in range(256) if _gmul(x, y) == 1), 0)
        s = 0x63
        for shift in range(5):
            s ^= inverse << shift | inverse >> (8 - shift)
        box.append(s & 0xFF)
    return box


SBOX = _sbox()


def _round_keys(key):
    words = [list(key[i : i + 4]) for i in range(0, len(key), 4)]
    n, rcon = len(words), 1
    for i in range(n, 4 * (n + 7)):
        w = list(words[-1])
        if i % n == 0:
            w = [SBOX[b] for b in w[1:] + w[:1]]
            w[0] ^= rcon
            rcon = _gmul(rcon, 2)
        elif n > 6 and i % n == 4:
            w = [SBOX[b] for b in w]
        words.append([a ^ b for a, b in zip(words[i - n], w)])
    return [sum(words[i : i + 4], []) for i in range(0, len(words), 4)]


def _encrypt_block(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0])]
    for key in keys[1:]:
        state = [SBOX[b] for b in state]
        state = [state[(i + 4 * (i % 4)) % 16] for i in range(16)]  # rows shifted; state is by columns
        if key is not keys[-1]:
            mixed = []
            for c in range(0, 16, 4):
                col = state[c : c + 4]
                mixed += [_gmul(col[i], 2) ^ _gmul(col[(i + 1) % 4], 3) ^ col[(i + 2) % 4] ^ col[(i + 3) % 4] for i in range(4)]
            state = mixed
        state = [a ^ b for a, b in zip(state, key)]
    return bytes(state)


def aes_ctr(key, n):
    """n bytes of AES's keystream in counter mode, counting big endian from a block of zeros."""
    keys, out = _round_keys(key), b""
    while len(out) < n:
        out += _encrypt_block(keys, (len(out) // 16).to_bytes(16, "big"))
    return out[:n]


# RFC 5869: HKDF.


def hkdf(secret, info, n):
    """HKDF-SHA-256 without salt."""
    prk = hmac.digest(bytes(32), secret, "sha256")
    out, t = b"", b""
    while len(out) < n:
        t = hmac.digest(prk, t + info + bytes([len(out) // 32 + 1]), "sha256")
        out += t
    return out[:n]


# RFC 7748: X25519.

P = 2**255 - 19


def x25519(scalar, u=(9).to_bytes(32, "little")):
    k = int.from_bytes(scalar, "little") & ~7 & ~(1 << 255) | 1 << 254
    x1 = int.from_bytes(u, "little") & (1 << 255) - 1
    x2, z2, x3, z3 = 1, 0, x1, 1
    for t in range(254, -1, -1):
        if k >> t & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
        if k >> t & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little")


# RFC 8032: Ed25519.

L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def _add(p, q):
    (x1, y1), (x2, y2) = p, q
    t = D * x1 * x2 * y1 * y2
    return ((x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P)


def _base():
    y = 4 * pow(5, -1, P) % P
    xx = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(xx, (P + 3) // 8, P)
    if x * x % P != xx:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (x if x % 2 == 0 else P - x, y)


def _doubles():
    p = _base()
    out = []
    for _ in range(256):
        out.append(p)
        p = _add(p, p)
    return out


DOUBLES = _doubles()


def _encode(p):
    return (p[1] | (p[0] & 1) << 255).to_bytes(32, "little")


def _times_base(k):
    r = (0, 1)
    for i in range(256):
        if k >> i & 1:
            r = _add(r, DOUBLES[i])
    return _encode(r)


def point(k):
    """k times the base point of edwards25519."""
    return _times_base(k % L)


def _decode(b):
    y = int.from_bytes(b, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    xx = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(xx, (P + 3) // 8, P)
    if x * x % P != xx:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == xx
    return (x if x & 1 == sign else P - x, y)


def point_common(k, other):
    """8k times a point, which two secrets have in common if it is the point of the other."""
    r, p = (0, 1), _decode(other)
    for i in range(256):
        if 8 * k >> i & 1:
            r = _add(r, p)
        p = _add(p, p)
    return _encode(r)


def ed25519_public(seed):
    h = hashlib.sha512(seed).digest()
    return _times_base(int.from_bytes(h[:32], "little") & ~7 & ~(1 << 255) | 1 << 254)


def ed25519_sign(seed, message):
    h = hashlib.sha512(seed).digest()
    a = int.from_bytes(h[:32], "little") & ~7 & ~(1 << 255) | 1 << 254
    r = int.from_bytes(hashlib.sha512(h[32:] + message).digest(), "little") % L
    big_r = _times_base(r)
    k = int.from_bytes(hashlib.sha512(big_r + ed25519_public(seed) + message).digest(), "little")
    return big_r + ((r + k * a) % L).to_bytes(32, "little")


# RFC 8439: ChaCha20-Poly1305.


def _chacha_block(key, counter, nonce):
    def quarter(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = s[x] + s[y] & 0xFFFFFFFF
            v = s[z] ^ s[x]
            s[z] = (v << turn | v >> (32 - turn)) & 0xFFFFFFFF

    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    s = list(start)
    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *(a + b & 0xFFFFFFFF for a, b in zip(s, start)))


def seal(key, nonce, plain, extra=b""):
    """The ciphertext with the tag behind it."""
    out = b""
    for i in range(0, len(plain), 64):
        out += bytes(a ^ b for a, b in zip(plain[i : i + 64], _chacha_block(key, 1 + i // 64, nonce)))
    one_time = _chacha_block(key, 0, nonce)
    r = int.from_bytes(one_time[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    pad = lambda b: b + bytes(-len(b) % 16)
    text = pad(extra) + pad(out) + struct.pack("<QQ", len(extra), len(out))
    acc = 0
    for i in range(0, len(text), 16):
        acc = (acc + int.from_bytes(text[i : i + 16], "little") + 2**128) * r % (2**130 - 5)
    return out + (acc + int.from_bytes(one_time[16:32], "little") & 2**128 - 1).to_bytes(16, "little")


def _check():
    x = bytes.fromhex
    counted = bytes(range(32))
    # FIPS 197, appendices C.1 and C.3.
    block = x("00112233445566778899aabbccddeeff")
    assert _encrypt_block(_round_keys(counted[:16]), block) == x("69c4e0d86a7b0430d8cdb78070b4c55a")
    assert _encrypt_block(_round_keys(counted), block) == x("8ea2b7ca516745bfeafc49904b496089")
    # RFC 5869, test case 3.
    assert hkdf(b"\x0b" * 22, b"", 42) == x("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8")
    # RFC 7748, section 5.2, after one round.
    assert x25519(bytes([9] + [0] * 31)) == x("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079")
    # RFC 8032, section 7.1, test 1.
    seed = x("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert ed25519_public(seed) == x("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert ed25519_sign(seed, b"") == x(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    # A point's u = (1+y)/(1-y) is the public key of X25519 (RFC 7748, section 4.1), and two secrets agree.
    k = 1 << 254 | 8 * 12345
    y = int.from_bytes(point(k), "little") & (1 << 255) - 1
    assert ((1 + y) * pow(1 - y, -1, P) % P).to_bytes(32, "little") == x25519(k.to_bytes(32, "little"))
    assert point_common(k % L, point(77)) == point_common(77, point(k)) == point(8 * 77 * k)
    # RFC 8439, section 2.8.2: the tag, which is over all of the ciphertext.
    plain = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
    sealed = seal(bytes(range(0x80, 0xA0)), x("070000004041424344454647"), plain, x("50515253c0c1c2c3c4c5c6c7"))
    assert sealed[:16] == x("d31a8d34648e60db7b86afbc53ef7ec2") and sealed[-16:] == x("1ae10b594f09e26a7e902ecbd0600691")


_check()
