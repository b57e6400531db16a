"""Prints descriptor.json: what a server signs of a session, written by the rules of Descriptor's documentation.

The description is one JSON object without spaces, its keys in the order below. Hashes are hexadecimal, the session is a
list of 16 numbers, times are nanoseconds, the experiment is base64. A number that is whole has no fraction. The digest
is the SHA-256 of a transcript: each item stands behind its length in 8 bytes, big endian. Its items are the domain
and the SHA-256 of the description.
"""
import base64
import hashlib
import json
import struct

SECOND = 10**9


def number(x):
    return int(x) if x == int(x) else x


def noise(kind, variance=0, multiplier=0, sampling_rate=0, steps=0, spread=False):
    return {"kind": kind, "variance": number(variance), "multiplier": number(multiplier),
            "sampling_rate": number(sampling_rate), "steps": steps, "spread": spread}


def release(name, length, l2, l1, linf, max_non_zero, scale, bits, noise, sensitivity=0):
    out = {"name": name, "length": length, "l2": number(l2), "l1": number(l1), "linf": number(linf), "max_non_zero": max_non_zero,
           "scale": number(scale), "ring_bits": bits, "noise": noise}
    if sensitivity:
        out["sensitivity"] = number(sensitivity)
    return out


DESCRIPTOR = {
    "federation": bytes(range(32)).hex(),
    "list": bytes(range(32, 64)).hex(),
    "terms": {
        "session": list(range(1, 17)),
        "cohort": {"clients": 40, "tolerance": 0.25, "colluders": 0.125, "enrolled": 60, "goal": 35},
        "mode": 1,
        "verify_inputs": True,
        "sit_out": 0.0625,
        "stage_timeout": 60 * SECOND,
        "tail": 10 * SECOND,
        "gather": 600 * SECOND,
        "steps": [
            {"rounds": 3, "phase": "gramian", "releases": [
                release("G", 200, 2.5, 4, 0.5, 20, 1024, 29, noise("split", 1000000, sampling_rate=0.5), 0.75),
                release("h", 4, 1, 0, 0, 4, 1, 64, noise("own", multiplier=1.5, sampling_rate=0.25, steps=8, spread=True)),
            ], "model_bytes": 4096},
            {"rounds": 1, "phase": "last", "releases": [
                release("none", 1, 1, 0, 0, 1, 1, 8, noise("none")),
                release("replace", 1, 1, 0, 0, 1, 1, 8, noise("replace", 3)),
                release("local", 1, 1, 0, 0, 1, 1, 8, noise("local", 9)),
            ], "model_bytes": 0},
        ],
        "claims": {"unit": "user", "delta": 0.125, "sampler_error": 0.0009765625, "search": "private", "search_digest": "ab", "start": "cd"},
    },
    "experiment": base64.b64encode(b"the experiment").decode(),
}


def transcript(*items):
    return b"".join(struct.pack(">Q", len(i)) + i for i in items)


text = json.dumps(DESCRIPTOR, separators=(",", ":"))
digest = hashlib.sha256(transcript(b"fedsim/node/session/v1", hashlib.sha256(text.encode()).digest()))
print(json.dumps({"descriptor": text, "digest": digest.hexdigest()}, indent=1))
