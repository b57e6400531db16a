"""Prints turns.json: whom rounds ask, with hashlib and struct alone."""
import hashlib
import json
import struct


def key(domain, session, *numbers):
    items = [domain.encode(), session] + [struct.pack(">Q", n) for n in numbers]
    return hashlib.sha256(b"".join(struct.pack(">Q", len(x)) + x for x in items)).digest()


def chosen(session, round, clients, enrolled):
    circle = sorted(range(enrolled), key=lambda i: key("fedsim/protocol/turn/v1", session, i))
    first = (round - 1) * clients
    asked = [circle[(first + i) % enrolled] for i in range(clients)]
    return sorted(asked, key=lambda i: key("fedsim/protocol/told/v1", session, round, i))


out = []
for seed, round, clients, enrolled in [(0, 1, 4, 10), (0, 2, 4, 10), (0, 3, 4, 10), (1, 3, 4, 10), (1, 2**64 - 1, 7, 9), (2, 2**40 + 5, 5, 5), (3, 8, 3, 1000)]:
    session = bytes(range(seed, seed + 16))
    out.append({"session": session.hex(), "round": round, "clients": clients, "enrolled": enrolled,
                "chosen": chosen(session, round, clients, enrolled)})
print(json.dumps(out, indent=1))
