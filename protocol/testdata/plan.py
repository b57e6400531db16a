"""Prints plan.json: the hash of the plan of TestPlanHash and what signs it, with
hashlib, struct and the package cryptography."""
import hashlib
import json
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

transcript = b""


def item(b):
    global transcript
    transcript += struct.pack(">Q", len(b)) + b


def text(s):
    item(s.encode())


def uint(v):
    item(struct.pack(">Q", v))


def real(v):
    item(struct.pack(">d", v))


text("fedsim/protocol/plan/v1")
item(bytes(range(16)))
uint(7)
text("item-gradient")
uint(100), real(0.3), real(0.05)
uint(2)
for name, length, l2, l1, l_inf, non_zero, scale, width, kind, variance, multiplier, rate, steps, spread in [
    ("V", 20, 2.5, 0, 1, 3, 1024, 29, "split", 1e6, 0, 0, 0, 0),
    ("counts", 4, 1, 2, 0, 4, 1, 16, "own", 0, 1.5, 0.25, 8, 1),
]:
    text(name), uint(length), real(l2), real(l1), real(l_inf)
    uint(non_zero), real(scale), uint(width)
    text(kind), real(variance), real(multiplier), real(rate), uint(steps), uint(spread)
item(hashlib.sha256(b"model").digest())

plan_hash = hashlib.sha256(transcript).digest()

seed = bytes(range(32))
key = Ed25519PrivateKey.from_private_bytes(seed)

transcript = b""
text("fedsim/protocol/signed-plan/v1")
item(plan_hash)
plan_signature = key.sign(transcript)

transcript = b""
text("fedsim/protocol/signed-final/v1")
item(bytes(range(16)))
item(hashlib.sha256(b"final model").digest())
final_signature = key.sign(transcript)

print(json.dumps({
    "comment": "plan.py: the hash of TestPlanHash's plan; signatures over it, and over the model 'final model' of its session, by the key of this seed",
    "hash": plan_hash.hex(),
    "seed": seed.hex(),
    "plan_signature": plan_signature.hex(),
    "final_signature": final_signature.hex(),
}, indent=1))
