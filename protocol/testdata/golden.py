"""Prints golden.json: messages as bytes, written by hand in protobuf's wire format.

Good ones are those of golden_test.go, under the same titles; bad ones say which
rule they break, and in which field. Limits: 300 clients, 4 neighbours, 4 releases,
4096 bytes a message.
"""
import json
import struct

KINDS = ["open", "announce", "invite", "advertise", "roster", "shares", "delivery", "masked-input",
         "survivors", "consistency", "quorum", "unmask", "answered", "replacement", "result", "abort", "final",
         "forward", "relay-ack", "relay-collect", "partial", "relay-status", "held",
         "prepared", "proceed", "refusal"]  # from 1 in a frame


def varint(v):
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7F | 0x80])
        v >>= 7
    return out + bytes([v])


def uint(field, v):
    return varint(field << 3 | 0) + varint(v)


def real(field, v):
    return varint(field << 3 | 1) + struct.pack("<d", v)


def data(field, *parts):
    b = b"".join(p.encode() if isinstance(p, str) else p for p in parts)
    return varint(field << 3 | 2) + varint(len(b)) + b


def fill(n, first):
    return bytes((first + i) % 256 for i in range(n))


SESSION = fill(16, 1)

# Plan
SPLIT = data(5, data(1, "V"), uint(2, 200), real(3, 2.5), real(5, 0.5), uint(6, 20), real(7, 1024.0), uint(8, 29),
             data(9, uint(1, 2), real(2, 1e6)))
OWN = data(5, data(1, "counts"), uint(2, 4), real(3, 1.0), real(4, 2.0), uint(6, 4), real(7, 1.0), uint(8, 64),
           data(9, uint(1, 4), real(3, 1.5), real(4, 0.25), uint(5, 8), uint(6, 1)))
EXACT = data(5, data(1, "exact"), uint(2, 1), real(3, -0.0), real(7, float("inf")), data(9, uint(1, 1)))
REPLACE = data(5, data(1, "\u03be"), uint(2, 2**31 - 1), data(9, uint(1, 3), real(2, 3.0)))
COHORT = uint(1, 300), real(2, 0.25), real(3, 0.125)
PLAN = data(1, data(1, SESSION), uint(2, 7), data(3, "item-gradient"), data(4, *COHORT), SPLIT, OWN, EXACT, REPLACE,
            data(6, "model"), data(7, fill(64, 3)))
LOCAL = data(1, data(1, SESSION), uint(2, 3), data(4, uint(1, 2)), data(5, data(1, "g"), uint(2, 8), data(9, uint(1, 5), real(2, 9.0)), real(10, 0.75)))
TURNS = data(1, data(1, SESSION), uint(2, 3), data(4, uint(1, 12), real(2, 0.25), uint(4, 300), uint(5, 10)), EXACT)
SMALL = data(1, data(1, SESSION), uint(2, 2**64 - 1), data(4, uint(1, 2)), EXACT)

# What messages are made of
KEYS = data(1, fill(32, 10)), data(2, fill(32, 60))
ACTIVE_KEYS = KEYS + (data(3, fill(64, 110)),)
COMMITTED = data(3, data(1, fill(32, 20)), data(2, fill(32, 30)), data(3, fill(64, 40)))
SHARES = uint(1, 9), data(2, fill(32, 70)), data(3, data(2, fill(80, 1))), data(3, uint(1, 299), data(2, fill(80, 2)))
ACTIVE_SHARES = (uint(1, 300), data(2, fill(32, 70)), data(3, uint(1, 127), data(2, fill(80, 1)), COMMITTED),
                 data(3, uint(1, 128), data(2, fill(80, 2)), COMMITTED))
DELIVERY = uint(1, 9), data(2, b"\x81\x04"), data(3, uint(1, 5), data(2, fill(80, 3)))
ROSTER = uint(1, 9), data(2, data(2, *KEYS)), data(2, uint(1, 127), data(2, *KEYS)), data(2, uint(1, 128), data(2, *KEYS))
RING = uint(3, 250), data(4, data(1, fill(32, 120)), uint(2, 249), data(3, fill(32, 130)), data(3, fill(32, 140)))
DIGEST = fill(32, 150)
ADVERTISE = uint(1, 10), data(2, *KEYS)
CHANGE = data(4, fill(32, 90))  # where noise is replaced
REPLACED_SHARES = (uint(1, 10), data(2, fill(32, 70)), data(3, uint(1, 4), data(2, fill(144, 1))), uint(4, 1), data(5, fill(32, 80)))
MASKED = data(2, fill(3, 1)), data(2, fill(200, 5))
REVEALED = data(2, data(2, fill(32, 8))), data(2, uint(1, 299), data(2, fill(32, 9)))
REMOVED = data(3, fill(5, 6)), data(3)
HELD_INPUT = uint(1, 9), data(3, *ADVERTISE, uint(3, 1))  # what is left of a message without vectors
HELD_ANSWER = (uint(1, 9),) + REVEALED
CONSISTENCY = uint(1, 9) + data(2, fill(64, 5))

GOOD = [
    ("open", "open", PLAN),
    ("open, of little", "open", SMALL),
    ("open, of local noise", "open", LOCAL),
    ("open, in turns", "open", TURNS),
    ("announce", "announce", PLAN),
    ("announce, set up ahead", "announce", SMALL + data(2, *DELIVERY)),
    ("announce, set up anew", "announce", SMALL + uint(3, 300)),
    ("invite", "invite", data(1, SESSION) + uint(2, 8) + data(3, *COHORT)),
    ("invite, replaced", "invite", data(1, SESSION) + uint(2, 8) + data(3, *COHORT) + uint(4, 1)),
    ("advertise", "advertise", b"".join(ADVERTISE)),
    ("advertise, ahead, replaced", "advertise", uint(1, 10) + data(2, *KEYS, CHANGE) + uint(3, 1)),
    ("advertise, anew", "advertise", b"".join(ADVERTISE) + uint(4, 2)),
    ("advertise, active", "advertise", uint(1, 300) + data(2, *ACTIVE_KEYS)),
    ("roster", "roster", b"".join(ROSTER)),
    ("roster, replaced", "roster", uint(1, 10) + data(2, data(2, *KEYS, CHANGE)) + data(2, uint(1, 7), data(2, *KEYS, CHANGE))),
    ("roster, active", "roster", uint(1, 1) + data(2, uint(1, 299), data(2, *ACTIVE_KEYS))),
    ("roster, in part", "roster", b"".join(ROSTER + RING)),
    ("shares", "shares", b"".join(SHARES)),
    ("shares, ahead, replaced", "shares", b"".join(REPLACED_SHARES)),
    ("shares, anew", "shares", b"".join(SHARES) + uint(6, 1)),
    ("shares, active", "shares", b"".join(ACTIVE_SHARES)),
    ("delivery", "delivery", b"".join(DELIVERY)),
    ("delivery, of a part", "delivery", b"".join(DELIVERY) + uint(4, 240) + data(5, DIGEST)),
    ("prepared", "prepared", uint(1, 9)),
    ("prepared, anew", "prepared", uint(1, 9) + uint(2, 300)),
    ("prepared, accusing", "prepared", uint(1, 9) + data(3, b"\x0a")),
    ("proceed", "proceed", uint(1, 9)),
    ("masked-input", "masked-input", b"".join((uint(1, 9),) + MASKED)),
    ("masked-input, next set up", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(3, *ADVERTISE, uint(3, 1))),
    ("masked-input, with a head", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(5, fill(104, 6))),
    ("masked-input, verified", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(6, fill(200, 7)) + data(7, fill(96, 8))),
    ("masked-input, with complaints", "masked-input",
     b"".join((uint(1, 9),) + MASKED) + data(4, data(2, fill(32, 3))) + data(4, uint(1, 299), data(2, fill(32, 4)))),
    ("survivors", "survivors", uint(1, 9) + data(2, b"\x03")),
    ("survivors, next set up", "survivors", uint(1, 8) + data(2, fill(38, 1)) + data(3, *ROSTER)),
    ("survivors, of a part, next set up", "survivors", uint(1, 8) + data(2, b"\x03") + data(3, *ROSTER, *RING) + uint(4, 240) + data(5, DIGEST)),
    ("consistency", "consistency", CONSISTENCY),
    ("quorum", "quorum", uint(1, 9) + data(2, data(2, fill(64, 6))) + data(2, uint(1, 2), data(2, fill(64, 7)))),
    ("unmask", "unmask", b"".join((uint(1, 9),) + REVEALED + REMOVED)),
    ("unmask, active, next set up", "unmask",
     uint(1, 299) + data(2, uint(1, 3), data(2, fill(32, 8))) + data(3) + data(4, *ACTIVE_SHARES)),
    ("unmask, replaced, next set up", "unmask", uint(1, 9) + REVEALED[1] + data(3, fill(200, 5)) + data(3) + data(4, *REPLACED_SHARES)),
    ("answered", "answered", uint(1, 9) + data(2, b"\x81\x04")),
    ("answered, of a part", "answered", uint(1, 9) + data(2, b"\x81\x04") + uint(3, 239) + data(4, DIGEST)),
    ("replacement", "replacement", b"".join((uint(1, 9),) + REVEALED)),
    ("replacement, active", "replacement", uint(1, 300) + data(2, uint(1, 3), data(2, fill(32, 8)))),
    ("result", "result", uint(1, 9) + uint(2, 290) + uint(3, 5) + data(4, struct.pack("<qqq", 1, -2, 2**62))
     + data(4, struct.pack("<qq", -2**63, 2**63 - 1))),
    ("result, nobody answered", "result", uint(1, 9) + uint(2, 1) + data(4, bytes(8))),
] + [
    ("abort, " + stage, "abort", uint(1, 9) + data(2, uint(1, i + 1), uint(2, i) if i else b"", uint(3, 200)))
    for i, stage in enumerate(["advertise", "share", "prepared", "masked-input", "consistency", "unmask", "replace"])
] + [
    ("abort, unproved", "abort", uint(1, 9) + data(4)),
    ("abort, unrecoverable", "abort", uint(1, 9) + data(3, uint(1, 17), uint(2, 3), uint(3, 4))),
    ("abort, dealt", "abort", uint(1, 9) + data(3, uint(2, 4), uint(3, 4), uint(4, 1))),
    ("final", "final", data(1, "the model")),
    ("final, signed", "final", data(1, fill(300, 0)) + data(2, fill(64, 9))),
    ("final, of a log", "final", data(1, b"m") + data(2, fill(64, 9)) + data(3, b"{}")),
    ("final, a receipt for the server", "final", data(3, b"{}")),
    ("forward", "forward", uint(1, 299) + uint(2, 6) + data(3, *SHARES)),
    ("forward, held", "forward", uint(1, 3) + uint(2, 8) + data(3, *HELD_INPUT) + uint(4, 1)),
    ("forward, held answer", "forward", uint(2, 12) + data(3, *HELD_ANSWER) + uint(4, 1)),
    ("forward, whole input", "forward", uint(2, 8) + data(3, uint(1, 9), *MASKED)),
    ("forward, opens", "forward", uint(1, 7) + uint(2, 7) + data(3, *DELIVERY) + uint(5, 1)),
    ("forward, opens nothing else", "forward", uint(1, 7) + uint(5, 1)),
    ("relay-ack", "relay-ack", uint(1, 9) + uint(2, 4) + uint(3, 299)),
    ("counted, an answer", "relay-ack", uint(1, 9) + uint(2, 6)),
    ("relay-collect", "relay-collect", uint(1, 300) + uint(2, 4)),
    ("partial", "partial", uint(1, 9) + uint(2, 6) + data(3, b"\x81\x04") + data(4, fill(200, 5)) + data(4)),
    ("refusal", "refusal", uint(1, 300)),
    ("held", "held", uint(1, 9) + uint(2, 3) + uint(3, 200)),
    ("relay-status", "relay-status", uint(1, 299) + data(3, fill(16, 7))),
    ("relay-status, gone", "relay-status", uint(1, 1) + uint(2, 1)),
    ("relay-status, first client gone", "relay-status", uint(2, 1)),
]


def plan(session=data(1, SESSION), round=uint(2, 7), cohort=data(4, uint(1, 2)), releases=EXACT, rest=b""):
    return data(1, session, round, cohort, releases, rest)


def release(*fields):
    return plan(releases=data(5, *fields))


NOISE = data(9, uint(1, 1))

BAD = [
    # Not protobuf, or not this message.
    ("a tag cut off", "open", b"\x80", "syntax", ""),
    ("field number 0", "open", b"\x02\x00", "syntax", ""),
    ("a length beyond the end", "open", b"\x0a\x05\x0a", "syntax", "plan"),
    ("bytes left over", "consistency", CONSISTENCY + b"\x00", "syntax", ""),
    ("a number of 11 bytes", "advertise", b"\x08" + b"\xff" * 10 + b"\x01", "syntax", "round"),
    ("an unknown field", "advertise", b"".join(ADVERTISE) + uint(5, 1), "syntax", ""),
    ("an unknown field with a large number", "advertise", b"".join(ADVERTISE) + uint(1000, 1), "syntax", ""),
    ("an unknown field of a member", "roster", uint(1, 9) + data(2, data(2, *KEYS), uint(3, 1)), "syntax", "members[0]"),
    ("a group", "advertise", b"\x0b\x0c", "syntax", "round"),
    ("a number for bytes", "consistency", uint(1, 9) + uint(2, 1), "syntax", "signature"),
    ("bytes for a number", "consistency", data(1, b"\x09"), "syntax", "round"),
    ("fixed numbers for a float", "invite", data(1, SESSION) + uint(2, 8) + data(3, uint(1, 3), uint(2, 1)), "syntax", "cohort.tolerance"),
    ("a round twice", "advertise", uint(1, 9) + b"".join(ADVERTISE), "syntax", "round"),
    ("a message twice", "advertise", b"".join(ADVERTISE) + data(2, *KEYS), "syntax", "keys"),
    ("a client of 33 bits", "abort", uint(1, 9) + data(3, uint(1, 2**32 + 3), uint(3, 4)), "syntax", "unrecoverable.client"),
    ("a flag of 2", "abort", uint(1, 9) + data(3, uint(3, 4), uint(4, 2)), "syntax", "unrecoverable.dealt"),
    ("a flag of 2 for ahead", "advertise", b"".join(ADVERTISE) + uint(3, 2), "syntax", "ahead"),
    ("ahead twice", "shares", b"".join(SHARES) + uint(4, 1) + uint(4, 1), "syntax", "ahead"),
    ("bytes for replaces", "invite", data(1, SESSION) + uint(2, 8) + data(3, *COHORT) + data(4, b"\x01"), "syntax", "replaces"),
    ("a negative stage", "abort", uint(1, 9) + data(2, uint(1, 2**64 - 1), uint(3, 4)), "syntax", "too_few.stage"),
    ("a reason beside its alternative", "abort", uint(1, 9) + data(3, uint(3, 4)) + data(4), "syntax", "unproved"),
    ("a reason that says more than it has", "abort", uint(1, 9) + data(4, uint(1, 1)), "syntax", "unproved"),
    ("both reasons", "abort", uint(1, 9) + data(2, uint(1, 1), uint(3, 4)) + data(3, uint(3, 4)), "syntax", "unrecoverable"),
    ("a phase that is not UTF-8", "open", plan(round=uint(2, 7) + data(3, b"\xff")), "syntax", "plan.phase"),
    ("a phase after the releases", "open", plan(rest=data(3, "p")), "syntax", "plan"),

    # Missing.
    ("nothing", "final", b"", "value", ""),
    ("no plan", "announce", data(2, *DELIVERY), "value", "plan"),
    ("no session", "open", plan(session=b""), "value", "plan.session"),
    ("no round of a plan", "open", plan(round=b""), "value", "plan.round"),
    ("no cohort", "open", plan(cohort=b""), "value", "plan.cohort"),
    ("no releases", "open", plan(releases=b""), "value", "plan.releases"),
    ("no noise", "open", release(uint(2, 1)), "value", "plan.releases[0].noise"),
    ("no kind of noise", "open", release(uint(2, 1), data(9)), "value", "plan.releases[0].noise.kind"),
    ("no round", "advertise", data(2, *KEYS), "value", "round"),
    ("no keys", "advertise", uint(1, 9), "value", "keys"),
    ("no mask key", "advertise", uint(1, 9) + data(2, KEYS[1]), "value", "keys.mask"),
    ("no members", "roster", uint(1, 9), "value", "members"),
    ("a member without keys", "roster", uint(1, 9) + data(2, uint(1, 4)), "value", "members[0].keys"),
    ("no seed hash", "shares", SHARES[0] + SHARES[2], "value", "seed_hash"),
    ("no shares", "shares", SHARES[0] + SHARES[1], "value", "shares"),
    ("no ciphertext", "shares", SHARES[0] + SHARES[1] + data(3, uint(1, 4)), "value", "shares[0].ciphertext"),
    ("nobody arrived", "delivery", DELIVERY[0] + DELIVERY[2], "value", "arrived"),
    ("no shares delivered", "delivery", DELIVERY[0] + DELIVERY[1], "value", "shares"),
    ("no vectors", "masked-input", uint(1, 9), "value", "masked"),
    ("an empty vector", "masked-input", uint(1, 9) + MASKED[0] + data(2), "value", "masked[1]"),
    ("no survivors", "survivors", uint(1, 9), "value", "u1"),
    ("no signature", "consistency", uint(1, 9), "value", "signature"),
    ("a short secret of a complaint", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(4, data(2, fill(31, 3))), "value", "complaints[0].secret"),
    ("a proof without blindings", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(6, "p"), "value", "blindings"),
    ("blindings without a proof", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(7, fill(32, 1)), "value", "blindings"),
    ("a short blinding", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(6, "p") + data(7, fill(63, 1)), "value", "blindings"),
    ("a short head", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(5, fill(103, 6)), "value", "head"),
    ("complaints that descend", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(4, uint(1, 5), data(2, fill(32, 3))) + data(4, uint(1, 5), data(2, fill(32, 3))), "value", "complaints[1].client"),
    ("5 complaints", "masked-input", b"".join((uint(1, 9),) + MASKED) + data(4) * 5, "limit", "complaints"),
    ("no signatures", "quorum", uint(1, 9), "value", "signatures"),
    ("no revealed shares", "unmask", uint(1, 9) + REMOVED[0], "value", "shares"),
    ("no removals", "unmask", uint(1, 9) + REVEALED[0], "value", "removed"),
    ("nobody answered", "answered", uint(1, 9), "value", "u2"),
    ("no round of an answer", "answered", data(2, b"\x03"), "value", "round"),
    ("no shares in a replacement", "replacement", uint(1, 9), "value", "shares"),
    ("round 0 of a refusal", "refusal", uint(1, 0), "value", "round"),
    ("no round of a replacement", "replacement", b"".join(REVEALED), "value", "round"),
    ("no integers", "result", uint(1, 9) + uint(2, 3) + uint(3, 3), "value", "integers"),
    ("no coordinates", "result", uint(1, 9) + data(4), "value", "integers[0]"),
    ("no reason", "abort", uint(1, 9), "value", "reason"),
    ("no stage", "abort", uint(1, 9) + data(2, uint(2, 3), uint(3, 4)), "value", "too_few.stage"),
    ("no model", "final", data(2, fill(64, 9)), "value", "model"),

    # Of a wrong length.
    ("a short session", "invite", data(1, fill(15, 0)) + uint(2, 8) + data(3, *COHORT), "value", "session"),
    ("a long session", "open", plan(session=data(1, fill(17, 0))), "value", "plan.session"),
    ("a plan's short signature", "open", plan(rest=data(7, fill(63, 0))), "value", "plan.signature"),
    ("a short key", "advertise", uint(1, 9) + data(2, KEYS[0], data(2, fill(31, 0))), "value", "keys.channel"),
    ("a long key", "roster", uint(1, 9) + data(2, data(2, data(1, fill(33, 0)), KEYS[1])), "value", "members[0].keys.mask"),
    ("a short signature of keys", "advertise", uint(1, 9) + data(2, *KEYS, data(3, fill(32, 0))), "value", "keys.signature"),
    ("a short key of changes", "advertise", uint(1, 9) + data(2, *KEYS, data(4, fill(31, 0))), "value", "keys.change"),
    ("a long key of changes", "roster", uint(1, 9) + data(2, data(2, *KEYS, data(4, fill(33, 0)))), "value", "members[0].keys.change"),
    ("a short hash of changes", "shares", b"".join(SHARES) + data(5, fill(31, 0)), "value", "change_hash"),
    ("a short share in a replacement", "replacement", uint(1, 9) + data(2, data(2, fill(31, 0))), "value", "shares[0].share"),
    ("a short hash", "shares", SHARES[0] + data(2, fill(31, 0)) + SHARES[2], "value", "seed_hash"),
    ("a short commitment", "shares", SHARES[0] + SHARES[1] + data(3, data(2, fill(9, 0)), data(3, data(1, fill(31, 0)), data(2, fill(32, 0)), data(3, fill(64, 0)))),
     "value", "shares[0].committed.seed"),
    ("a commitment that is not signed", "delivery", DELIVERY[0] + DELIVERY[1] + data(3, data(2, fill(9, 0)), data(3, data(1, fill(32, 0)), data(2, fill(32, 0)))),
     "value", "shares[0].committed.signature"),
    ("a long signature", "consistency", uint(1, 9) + data(2, fill(65, 0)), "value", "signature"),
    ("a short signature in a quorum", "quorum", uint(1, 9) + data(2, data(2, fill(64, 0))) + data(2, uint(1, 4), data(2, fill(63, 0))), "value", "signatures[1].signature"),
    ("a long share", "unmask", uint(1, 9) + data(2, data(2, fill(33, 0))) + REMOVED[0], "value", "shares[0].share"),
    ("a nonce of a share", "unmask", uint(1, 9) + data(2, data(2, fill(32, 0)), data(3, fill(16, 0))) + REMOVED[0], "syntax", "shares[0]"),
    ("half a coordinate", "result", uint(1, 9) + data(4, bytes(8)) + data(4, bytes(12)), "value", "integers[1]"),
    ("a final model's short signature", "final", data(1, "m") + data(2, fill(1, 0)), "value", "signature"),

    ("a short hash of all keys", "roster", b"".join(ROSTER) + RING[0] + data(4, data(1, fill(31, 0))), "value", "ring.keys"),
    ("a short hash of a proof", "roster", b"".join(ROSTER) + RING[0] + data(4, data(1, fill(32, 0)), data(3, fill(31, 0))), "value", "ring.proof[0]"),
    ("a short hash of a set", "delivery", b"".join(DELIVERY) + uint(4, 240) + data(5, fill(31, 0)), "value", "digest"),

    # Out of range or order.
    ("round 0", "advertise", uint(1, 0) + data(2, *KEYS), "value", "round"),
    ("a kind of noise too many", "open", release(uint(2, 1), data(9, uint(1, 6))), "value", "plan.releases[0].noise.kind"),
    ("a stage too many", "abort", uint(1, 9) + data(2, uint(1, 8), uint(3, 4)), "value", "too_few.stage"),
    ("a client twice", "roster", uint(1, 9) + ROSTER[2] + ROSTER[2], "value", "members[1].client"),
    ("clients that descend", "quorum", uint(1, 9) + data(2, uint(1, 2), data(2, fill(64, 7))) + data(2, data(2, fill(64, 6))), "value", "signatures[1].client"),
    ("peers that descend", "shares", SHARES[0] + SHARES[1] + SHARES[3] + SHARES[2], "value", "shares[1].peer"),
    ("dealers that descend", "unmask", uint(1, 9) + REVEALED[1] + REVEALED[0] + REMOVED[0], "value", "shares[1].of"),
    ("dealers that descend in a replacement", "replacement", uint(1, 9) + REVEALED[1] + REVEALED[0], "value", "shares[1].of"),
    ("a number of clients without a ring", "roster", b"".join(ROSTER) + RING[0], "value", "clients"),
    ("a weight without a hash", "delivery", b"".join(DELIVERY) + uint(4, 240), "value", "clients"),
    ("survivors counted without a hash", "survivors", uint(1, 9) + data(2, b"\x03") + uint(4, 240), "value", "count"),
    ("a position of 2^31", "roster", b"".join(ROSTER) + RING[0] + data(4, data(1, fill(32, 0)), uint(2, 2**31)), "value", "ring.start"),
    ("a ring of 65 bits", "open", release(uint(2, 1), uint(8, 65), NOISE), "value", "plan.releases[0].width"),
    ("2^31 coordinates", "open", release(uint(2, 2**31), NOISE), "value", "plan.releases[0].len"),
    ("2^31 that are not zero", "open", release(uint(6, 2**31), NOISE), "value", "plan.releases[0].max_non_zero"),
    ("2^31 steps", "open", release(data(9, uint(1, 4), uint(5, 2**31))), "value", "plan.releases[0].noise.steps"),

    # More than the limits allow.
    ("4097 bytes", "final", data(1, bytes(4094)), "limit", ""),
    ("client 300", "roster", uint(1, 9) + data(2, uint(1, 300), data(2, *KEYS)), "limit", "members[0].client"),
    ("a share for client 300", "shares", SHARES[0] + SHARES[1] + data(3, uint(1, 300), data(2, b"c")), "limit", "shares[0].peer"),
    ("a cohort of 301", "invite", data(1, SESSION) + uint(2, 8) + data(3, uint(1, 301)), "limit", "cohort.clients"),
    ("301 that take turns", "invite", data(1, SESSION) + uint(2, 8) + data(3, uint(1, 3), uint(4, 301)), "limit", "cohort.enrolled"),
    ("a goal of 301", "invite", data(1, SESSION) + uint(2, 8) + data(3, uint(1, 3), uint(5, 301)), "limit", "cohort.goal"),
    ("301 members", "roster", uint(1, 9) + data(2) * 301, "limit", "members"),
    ("301 clients on a ring", "roster", b"".join(ROSTER) + uint(3, 301) + RING[1], "limit", "clients"),
    ("301 who arrived", "delivery", b"".join(DELIVERY) + uint(4, 301) + data(5, DIGEST), "limit", "clients"),
    ("41 hashes of a proof", "roster", b"".join(ROSTER) + RING[0] + data(4, data(1, fill(32, 0)), data(3, b"") * 41), "limit", "ring.proof"),
    ("301 signatures", "quorum", uint(1, 9) + data(2) * 301, "limit", "signatures"),
    ("5 shares", "shares", SHARES[0] + SHARES[1] + data(3) * 5, "limit", "shares"),
    ("5 revealed shares", "unmask", uint(1, 9) + data(2) * 5, "limit", "shares"),
    ("5 shares in a replacement", "replacement", uint(1, 9) + data(2) * 5, "limit", "shares"),
    ("a share of client 300", "replacement", uint(1, 9) + data(2, uint(1, 300), data(2, fill(32, 9))), "limit", "shares[0].of"),
    ("5 releases", "open", plan(releases=EXACT * 5), "limit", "plan.releases"),
    ("5 vectors", "masked-input", uint(1, 9) + MASKED[0] * 5, "limit", "masked"),
    ("5 removals", "unmask", uint(1, 9) + REVEALED[0] + data(3) * 5, "limit", "removed"),
    ("5 sums", "result", uint(1, 9) + data(4, bytes(8)) * 5, "limit", "integers"),
    ("a bitmap for more clients", "survivors", uint(1, 9) + data(2, bytes(39)), "limit", "u1"),
    ("a bitmap for more clients, delivered", "delivery", uint(1, 9) + data(2, bytes(39)) + DELIVERY[2], "limit", "arrived"),
    ("a bitmap for more clients, answered", "answered", uint(1, 9) + data(2, bytes(39)), "limit", "u2"),
    ("301 survivors", "result", uint(1, 9) + uint(2, 301) + data(4, bytes(8)), "limit", "survivors"),
    ("301 answers", "result", uint(1, 9) + uint(3, 301) + data(4, bytes(8)), "limit", "answered"),
    ("301 connected", "held", uint(1, 9) + uint(2, 301), "limit", "connected"),
    ("301 left", "abort", uint(1, 9) + data(2, uint(1, 1), uint(2, 301)), "limit", "too_few.left"),
    ("301 required", "abort", uint(1, 9) + data(3, uint(3, 301)), "limit", "unrecoverable.required"),

    # Between relays and the aggregator.
    ("nothing inside", "forward", uint(1, 7), "value", "message"),
    ("nothing inside that is held", "forward", uint(1, 7) + uint(4, 1) + uint(5, 1), "value", "message"),
    ("bytes of no kind inside", "forward", data(3, *SHARES), "syntax", "kind"),
    ("a kind inside that there is not", "forward", uint(2, 99) + data(3, *SHARES), "syntax", "kind"),
    ("a kind inside of more than a byte", "forward", uint(2, 262) + data(3, *SHARES), "syntax", "kind"),
    ("a forward inside", "forward", uint(2, 18) + data(3, uint(1, 7) + uint(5, 1)), "syntax", "kind"),
    ("a partial inside", "forward", uint(2, 21) + data(3, uint(1, 7)), "syntax", "kind"),
    ("shares that are held", "forward", uint(2, 6) + data(3, *SHARES) + uint(4, 1), "value", "held"),
    ("a roster that opens", "forward", uint(2, 5) + data(3, *ROSTER) + uint(5, 1), "value", "opens"),
    ("a held answer that opens", "forward", uint(2, 12) + data(3, *HELD_ANSWER) + uint(4, 1) + uint(5, 1), "value", "opens"),
    ("vectors that are held", "forward", uint(2, 8) + data(3, uint(1, 9), *MASKED) + uint(4, 1), "value", "message"),
    ("removals that are held", "forward", uint(2, 12) + data(3, uint(1, 9), *REVEALED, *REMOVED) + uint(4, 1), "value", "message"),
    ("an input without vectors inside", "forward", uint(2, 8) + data(3, *HELD_INPUT), "value", "message"),
    ("no bytes inside", "forward", uint(2, 6), "value", "message"),
    ("4097 bytes inside", "forward", uint(2, 17) + data(3, data(1, bytes(4089))), "limit", ""),
    ("a message of client 300", "forward", uint(1, 300) + uint(2, 6) + data(3, *SHARES), "limit", "client"),
    ("client 300 counted", "relay-ack", uint(1, 9) + uint(2, 4) + uint(3, 300), "limit", "client"),
    ("counted in no stage", "relay-ack", uint(1, 9), "value", "stage"),
    ("counted in the stage share", "relay-ack", uint(1, 9) + uint(2, 2), "value", "stage"),
    ("counted in the stage prepared", "relay-ack", uint(1, 9) + uint(2, 3), "value", "stage"),
    ("a sum of the stage replace", "relay-collect", uint(1, 9) + uint(2, 7), "value", "stage"),
    ("no round of what is ready", "prepared", uint(2, 1), "value", "round"),
    ("33 bits of setups", "prepared", uint(1, 9) + uint(2, 2**32), "syntax", "anew"),
    ("no round to go on with", "proceed", uint(1, 0), "value", "round"),
    ("more to go on with", "proceed", uint(1, 9) + uint(2, 1), "syntax", ""),
    ("a word from the aggregator that is held", "forward", uint(2, 25) + data(3, uint(1, 9)) + uint(4, 1), "value", "held"),
    ("no round of a sum", "relay-collect", uint(2, 4), "value", "round"),
    ("a sum over nobody", "partial", uint(1, 9) + uint(2, 4) + data(4, b"v"), "value", "clients"),
    ("no sums", "partial", uint(1, 9) + uint(2, 4) + data(3, b"\x01"), "value", "sums"),
    ("5 sums of a relay", "partial", uint(1, 9) + uint(2, 4) + data(3, b"\x01") + data(4) * 5, "limit", "sums"),
    ("a bitmap for more clients of a relay", "partial", uint(1, 9) + uint(2, 4) + data(3, bytes(39)) + data(4), "limit", "clients"),
    ("client 300 connected", "relay-status", uint(1, 300) + data(3, fill(16, 7)), "limit", "client"),
    ("a client without a life", "relay-status", uint(1, 9), "value", "incarnation"),
    ("the life of one that is gone", "relay-status", uint(1, 9) + uint(2, 1) + data(3, fill(16, 7)), "value", "incarnation"),

    # In what travels with a message.
    ("a delivery without shares", "announce", SMALL + data(2, *DELIVERY[:2]), "value", "delivery.shares"),
    ("keys without a round", "masked-input", uint(1, 9) + MASKED[0] + data(3, data(2, *KEYS)), "value", "next.round"),
    ("a roster of nobody", "survivors", uint(1, 9) + data(2, b"\x03") + data(3, uint(1, 9)), "value", "next.members"),
    ("a short hash of changes along", "unmask", uint(1, 9) + REVEALED[0] + REMOVED[0] + data(4, *REPLACED_SHARES[:4], data(5, b"h")), "value", "next.change_hash"),
    ("shares with too many for one", "unmask", uint(1, 9) + REVEALED[0] + REMOVED[0] + data(4, *SHARES[:2], data(3) * 5), "limit", "next.shares"),
]

print(json.dumps({
    "comment": "golden.py: messages in protobuf's wire format, and behind the header of their frame",
    "good": [{"title": t, "kind": k, "bytes": b.hex(), "frame": (struct.pack(">BI", KINDS.index(k) + 1, len(b)) + b).hex()}
             for t, k, b in GOOD],
    "bad": [{"title": t, "kind": k, "bytes": b.hex(), "rule": r, "field": f} for t, k, b, r, f in BAD],
}, indent=1))
