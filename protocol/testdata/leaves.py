"""Prints leaves.json: two entries of the log of sessions, written by the rules of Leaf's documentation.

An entry is one JSON object without spaces, its keys in the order below; an empty search, start, survivors or model is
left out. Digests, keys and signatures are base64, the session is hexadecimal. Numbers are as ECMAScript writes them. A
transcript has each item behind its length in 8 bytes, big endian.
"""
import base64
import hashlib
import json
import struct
from decimal import Decimal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SERVER = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
SESSION = bytes(range(1, 17))
AGREEMENT, PLAN, MODEL = (hashlib.sha256(x).digest() for x in (b"the agreement", b"the description", b"the model"))


def transcript(*items):
    return b"".join(struct.pack(">Q", len(i)) + i for i in items)


def text(x):
    if isinstance(x, dict):
        return "{" + ",".join(text(k) + ":" + text(v) for k, v in x.items()) + "}"
    if isinstance(x, list):
        return "[" + ",".join(map(text, x)) + "]"
    if isinstance(x, bytes):
        return text(base64.b64encode(x).decode())
    if isinstance(x, float):
        return format(Decimal(repr(x)), "f") if abs(x) >= 1e-6 else repr(x).replace("e-0", "e-")
    return json.dumps(x)


def leaf(claims, charges, signature, survivors=None, model=None):
    out = {"format": "fedsim-session-v1", "session": SESSION.hex(), "agreement": AGREEMENT, "plan": PLAN, "claims": claims, "clients": 20, "rounds": 12}
    if survivors:
        out["survivors"] = survivors
    out["charges"] = charges
    if model:
        out["model"] = model
    out |= {"server": SERVER, "signature": signature}
    return text(out)


begun = leaf({"unit": "user", "delta": 0.00001, "sampler_error": 0}, [],
             KEY.sign(hashlib.sha256(transcript(b"fedsim/node/session/v1", PLAN)).digest()))
ended = leaf({"unit": "rating", "delta": 2.5e-8, "sampler_error": 1.25e-19, "search": "private", "search_digest": "ab" * 32, "start": "cd" * 32},
             [{"mechanism": "skellam", "variance": 1992552.6488, "l2": 500.5, "l1": 500.25, "count": 12},
              {"mechanism": "subsampled-gaussian", "noise_multiplier": 1.5, "sampling_rate": 0.01, "count": 3}],
             KEY.sign(transcript(b"fedsim/protocol/signed-final/v1", SESSION, MODEL)),
             [[1, -1], [8, 20], [1, 0], [2, 19]], MODEL)
print(json.dumps({"begun": begun, "ended": ended}, indent=1))
