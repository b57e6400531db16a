#!/usr/bin/env python3
"""Computes the ring of a small roster, ring.json, from the specification alone (RFC 6962,
section 2.1, and the documentation of package secagg), to standard output:

    python3 ring.py > ring.json
"""

import hashlib
import json


def transcript(domain, *items):
    """Every item behind its length; an int is 8 bytes, big endian."""
    out = b""
    for item in (domain, *items):
        if isinstance(item, str):
            item = item.encode()
        elif isinstance(item, int):
            item = item.to_bytes(8, "big")
        out += len(item).to_bytes(8, "big") + item
    return out


def digest(domain, *items):
    return hashlib.sha256(transcript(domain, *items)).digest()


def fill(first):
    return bytes((first + i) % 256 for i in range(32))


def tree(leaves):
    """MTH of RFC 6962."""
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + tree(leaves[:k]) + tree(leaves[k:])).digest()


def prove(leaves, wanted, first=0):
    """The hashes of all subtrees without a wanted leaf whose parents have one, from left to right."""
    if not any(first <= p < first + len(leaves) for p in wanted):
        return [tree(leaves)]
    if len(leaves) == 1:
        return []
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return prove(leaves[:k], wanted, first) + prove(leaves[k:], wanted, first + k)


SETTING, BEACON, DEGREE = fill(200), b"", 4
MEMBERS = [(3 * i + 1, fill(i), fill(100 + i)) for i in range(13)]

flat = [x for m in MEMBERS for x in m]
keys = digest("fedsim/secagg/roster/v1", SETTING, len(MEMBERS), *flat)
seed = digest("fedsim/secagg/ring/v1", keys, BEACON)
order = sorted(range(len(MEMBERS)), key=lambda i: digest("fedsim/secagg/ring-key/v1", seed, MEMBERS[i][0]))
leaves = [hashlib.sha256(b"\0" + transcript("fedsim/secagg/ring-member/v1", *MEMBERS[i])).digest() for i in order]
n = len(MEMBERS)
parts = []
for place in range(n):
    start = (order.index(place) - DEGREE // 2) % n
    positions = [(start + i) % n for i in range(DEGREE + 1)]
    parts.append({"start": start, "members": sorted(order[p] for p in positions), "proof": [h.hex() for h in prove(leaves, positions)]})
print(json.dumps({
    "comment": "ring.py: a roster of 13 clients as they stand on the ring, and what each is shown",
    "keys": keys.hex(),
    "order": order,
    "hash": digest("fedsim/secagg/ring-roster/v1", SETTING, n, keys, tree(leaves)).hex(),
    "parts": parts,
}, indent=1))
