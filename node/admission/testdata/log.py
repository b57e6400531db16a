"""Prints log.json: the files of a log of sessions with 300 entries, by the rules of C2SP's tlog-tiles, tlog-checkpoint and
signed-note, and the entries' first and last. It shares no code with this program.
"""
import base64
import hashlib
import json
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SIZE, WIDTH = 300, 256
ORIGIN = "fedsim/" + bytes(range(8)).hex()


def sha(b):
    return hashlib.sha256(b).digest()


def b64(b):
    return base64.b64encode(b).decode()


def key(seed):
    k = Ed25519PrivateKey.from_private_bytes(seed)
    return k, k.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def transcript(*items):
    return b"".join(struct.pack(">Q", len(i)) + i for i in items)


server, server_public = key(bytes(range(32)))
aggregator, aggregator_public = key(bytes.fromhex("41441311b20c2359ae3a8be9f50c912e8cbf15bcb26031b981540d9623f8af98"))  # the test's
plan = sha(b"the description")
signature = server.sign(sha(transcript(b"fedsim/node/session/v1", plan)))
entries = [('{"format":"fedsim-session-v1","session":"%032x","agreement":"%s","plan":"%s","claims":{"unit":"user","delta":0.5,"sampler_error":0},'
            '"clients":20,"rounds":3,"charges":[],"server":"%s","signature":"%s"}'
            % (i, b64(sha(b"the agreement")), b64(plan), b64(server_public), b64(signature))).encode() for i in range(SIZE)]


def root(leaves):
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return sha(b"\x01" + root(leaves[:k]) + root(leaves[k:]))


leaves = [sha(b"\x00" + e) for e in entries]
bundles = [b"".join(struct.pack(">H", len(e)) + e for e in entries[i:i + WIDTH]) for i in range(0, SIZE, WIDTH)]
text = "%s\n%d\n%s\n" % (ORIGIN, SIZE, b64(root(leaves)))
number = sha(ORIGIN.encode() + b"\n\x01" + aggregator_public)[:4]
files = {
    "tile/entries/000": bundles[0],
    "tile/entries/001.p/44": bundles[1],
    "tile/0/000": b"".join(leaves[:WIDTH]),
    "tile/0/001.p/44": b"".join(leaves[WIDTH:]),
    "tile/1/000.p/1": root(leaves[:WIDTH]),
    "checkpoint": (text + "\n\u2014 %s %s\n" % (ORIGIN, b64(number + aggregator.sign(text.encode())))).encode(),
}
print(json.dumps({"first": entries[0].decode(), "checkpoint": files["checkpoint"].decode(),
                  "sha256": {name: sha(b).hex() for name, b in sorted(files.items())}}, indent=1))
