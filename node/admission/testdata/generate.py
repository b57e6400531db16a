#!/usr/bin/env python3
"""Writes the golden documents beside it, from the descriptions in the Go
documentation and without any Go code. Needs the package cryptography. The private
keys are made of their names and protect nothing.

A federation of three clients. Client 1 was put out and its key barred; the first
ticket of client 2 went astray and was replaced by a second."""

import base64
import hashlib
import json
import pathlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HERE = pathlib.Path(__file__).parent


class Key:
    def __init__(self, name):
        self.seed = hashlib.sha256(name.encode()).digest()
        self.key = Ed25519PrivateKey.from_private_bytes(self.seed)
        self.public = self.key.public_key().public_bytes_raw()

    def sign(self, digest):
        return base64.urlsafe_b64encode(self.key.sign(digest)).decode().rstrip("=")


def armor(prefix, raw):
    checked = raw + hashlib.sha256(prefix.encode() + raw).digest()[:4]
    return prefix + base64.b32encode(checked).decode().lower().rstrip("=")


def public(raw):
    return armor("fedsim-public-", raw)


def encoding(domain, *items):
    out = b""
    for item in (domain, *items):
        if isinstance(item, int):
            item = struct.pack(">Q", item)
        elif isinstance(item, str):
            item = item.encode()
        out += struct.pack(">Q", len(item)) + item
    return out


def transcript(domain, *items):
    return hashlib.sha256(encoding(domain, *items)).digest()


def tree(leaves):
    """The Merkle tree hash of RFC 6962, section 2.1, of the hashes of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + tree(leaves[:k]) + tree(leaves[k:])).digest()


def place(p):
    """Role and number as in a transcript."""
    role, _, number = p.partition(" ")
    return role, int(number or 0)


def write(name, kind, doc):
    text = json.dumps({kind: doc}, indent=2, ensure_ascii=False) + "\n"
    (HERE / name).write_text(text, encoding="utf-8")


operator = Key("operator")
CREATED, CREATED_TEXT = 1772366400, "2026-03-01T12:00:00Z"
END, END_TEXT = 1773575999, "2026-03-15T11:59:59Z"
ID = bytes(range(16))
NAME = "Films & séries <3>"

federation_hash = transcript("fedsim/admission/federation/v1", operator.public, NAME, ID, 3, CREATED)
federation = {"name": NAME, "id": ID.hex(), "clients": 3, "created": CREATED_TEXT,
              "operator": public(operator.public), "signature": operator.sign(federation_hash)}


def ticket(p, serial):
    key = Key(f"ticket {p} {serial}")
    digest = transcript("fedsim/admission/ticket/v1", federation_hash, *place(p), serial, key.public, END)
    return key, digest, {"federation": federation_hash.hex(), "place": p, "serial": serial, "key": public(key.public),
                         "not_after": END_TEXT, "signature": operator.sign(digest)}


def enrol(p, serial):
    key, digest, doc = ticket(p, serial)
    identity = Key(f"identity {p} {serial}")
    return {"ticket": doc, "identity": public(identity.public),
            "redemption": key.sign(transcript("fedsim/admission/redemption/v1", digest, identity.public)),
            "possession": identity.sign(transcript("fedsim/admission/possession/v1", digest, identity.public))}


contact = {"addresses": ["/dns4/agg.example.org/tcp/4001", "/ip6/2001:db8::1/udp/4001/quic-v1"], "peer": "12D3KooWExample",
           "server": public(Key("identity server 1").public)}

revoked = [("client 1", 1, Key("identity client 1 1").public), ("client 2", 1, b"")]
items = [x for p, serial, identity in revoked for x in (*place(p), serial, identity)]
revocations_hash = transcript("fedsim/admission/revocations/v1", federation_hash, 2, len(revoked), *items)
revocations = {"federation": federation_hash.hex(), "serial": 2,
               "entries": [{"place": p, "serial": serial} | ({"identity": public(identity)} if identity else {})
                           for p, serial, identity in revoked],
               "signature": operator.sign(revocations_hash)}

on_list = [("server", 1), ("aggregator", 1), ("client 0", 1), ("client 2", 2)]
leaves = [hashlib.sha256(b"\0" + encoding("fedsim/admission/party/v1", *place(p), serial, Key(f"identity {p} {serial}").public)).digest()
          for p, serial in on_list]
list_hash = transcript("fedsim/admission/list/v2", federation_hash, revocations_hash, len(on_list), tree(leaves))

write("key.json", "fedsim-key-v1", {"public": public(operator.public), "private": armor("fedsim-private-", operator.seed)})
identity = Key("identity client 2 2")
write("identity.json", "fedsim-key-v1", {"public": public(identity.public), "private": armor("fedsim-private-", identity.seed)})
write("federation.json", "fedsim-federation-v1", federation)
invited, _, its_ticket = ticket("client 2", 2)
write("invitation.json", "fedsim-invitation-v1", {"federation": federation, "ticket": its_ticket,
                                                  "key": armor("fedsim-private-", invited.seed), "contact": contact})
write("membership.json", "fedsim-membership-v1", {"federation": federation, "enrolment": enrol("client 2", 2), "contact": contact})
write("enrolment.json", "fedsim-enrolment-v1", enrol("client 2", 2))
write("revocations.json", "fedsim-revocations-v1", revocations)
write("list.json", "fedsim-enrolment-list-v1", {"federation": federation, "revocations": revocations,
                                                "enrolments": [enrol(p, serial) for p, serial in on_list]})
write("part.json", "fedsim-enrolment-list-v1", {"federation": federation, "revocations": revocations,
                                                "enrolments": [enrol(*on_list[i]) for i in (0, 1, 3)],
                                                "part": {"enrolled": 4, "positions": [0, 1, 3], "proof": [leaves[2].hex()]}})
hashes = {"federation": federation_hash.hex(), "ticket": ticket("client 2", 2)[1].hex(),
          "revocations": revocations_hash.hex(), "list": list_hash.hex()}
(HERE / "hashes.json").write_text(json.dumps(hashes, indent=2) + "\n", encoding="utf-8")
