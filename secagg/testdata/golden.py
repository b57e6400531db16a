#!/usr/bin/env python3
"""Computes the golden vectors of the secure sum, golden.json, from the specification
alone, to standard output:

    python3 golden.py > golden.json

Nothing of it was taken from the Go code but the formats that its documentation
states. What clients draw comes from the repeatable streams of package
internal/entropy/simulated; degree and threshold, whose arithmetic has tests of its own, are
given. Messages are written field by field, bytes in hexadecimal, without fields
that are zero or empty.
"""

import base64
import hashlib
import json
import struct

from primitives import L, aes_ctr, ed25519_public, ed25519_sign, hkdf, point, point_common, seal, x25519

# Transcripts (protocol.Transcript) and entropy.


def transcript(domain, *items):
    """Every item behind its length; an int is 8 bytes, big endian, a float those of IEEE 754."""
    out = b""
    for item in (domain, *items):
        if isinstance(item, str):
            item = item.encode()
        elif isinstance(item, int):
            item = item.to_bytes(8, "big")
        elif isinstance(item, float):
            item = struct.pack(">d", item)
        out += len(item).to_bytes(8, "big") + item
    return out


def digest(domain, *items):
    return hashlib.sha256(transcript(domain, *items)).digest()


def drawn(party, label, n, size):
    """The first bytes of a party's stream."""
    item = lambda b: len(b).to_bytes(4, "big") + b
    prefix = hashlib.sha256(b"fedsim/entropy/simulated\0" + item((1).to_bytes(8, "big")) + item(party.encode())).digest()
    key = hashlib.sha256(prefix + n.to_bytes(8, "big") + item(label.encode())).digest()
    return aes_ctr(key[:16], size)


def scalars(stream):
    """64 bytes each, little endian, modulo the order of edwards25519."""
    return [int.from_bytes(stream[i : i + 64], "little") % L for i in range(0, len(stream), 64)]


# What all sums have in common.

SESSION = bytes(range(0xA0, 0xB0))
ROUND = 3
COHORT = {"Clients": 9, "Tolerance": 0.34, "Colluders": 0.1}
BROADCAST = b"the model"


def plan(noise):
    """Two releases, the second with noise of that kind."""
    return {
        "Session": list(SESSION),
        "Round": ROUND,
        "Phase": "item-gradient",
        "Cohort": COHORT,
        "Releases": [
            {"Name": "g", "length": 9, "L2": 1.5, "L1": 2.5, "LInf": 0.75, "max_non_zero": 4, "Scale": 100.0, "ring_bits": 29, "Noise": {"Kind": "none", "Variance": 0.0}},
            {"Name": "h", "length": 3, "L2": 2.0, "L1": 0.0, "LInf": 0.0, "max_non_zero": 3, "Scale": 8.0, "ring_bits": 45, "Noise": {"Kind": noise, "Variance": 10.0}},
        ],
        "Broadcast": base64.b64encode(BROADCAST).decode(),
    }


def plan_hash(plan):
    items = []
    for r in plan["Releases"]:
        items += [r["Name"], r["length"], r["L2"], r["L1"], r["LInf"], r["max_non_zero"], r["Scale"], r["ring_bits"]]
        items += [r["Noise"]["Kind"], r["Noise"]["Variance"], 0.0, 0.0, 0, 0]
    return digest("fedsim/protocol/plan/v1", SESSION, ROUND, plan["Phase"], *COHORT.values(), len(plan["Releases"]), *items,
                  hashlib.sha256(BROADCAST).digest())


ROUNDS = 8
BEACON = b"a beacon"
CLIENTS = range(COHORT["Clients"])
WITNESS = 8  # the client whose incoming messages are written down
INPUTS = [[[(-1) ** j * (1000 * i + 77 * j) for j in range(9)], [(i - 4) * 10**12 + j for j in range(3)]] for i in CLIENTS]
CHANGES = [[i - 4, (-2) ** (i % 5), 20 - i] for i in CLIENTS]  # of noise, in the second release
CHANGES[6], CHANGES[8] = [6, -6, -6], [6, -6, 6]  # between which the parameter of the code changes
IDENTITIES = [drawn("identities", "identity", i, 32) for i in CLIENTS]  # Ed25519 seeds


def neighbours(n, degree, seed):
    """Places on a ring in the order of a Fisher-Yates shuffle, joined to the degree/2 next on either side."""
    if degree >= n - 1:
        return [[j for j in range(n) if j != i] for i in range(n)]
    stream = aes_ctr(hkdf(seed, b"fedsim/entropy/seed/secagg/graph/permutation", 32), 64 * n)
    ring, at = list(range(n)), 0
    for i in range(n - 1, 0, -1):
        while True:  # Lemire's method
            product = int.from_bytes(stream[at : at + 8], "little") * (i + 1)
            at += 8
            if product % 2**64 >= 2**64 % (i + 1):
                break
        j = product >> 64
        ring[i], ring[j] = ring[j], ring[i]
    out = [[] for _ in range(n)]
    for p in range(n):
        for step in range(1, degree // 2 + 1):
            out[ring[p]] += [ring[(p + step) % n], ring[(p - step) % n]]
    return [sorted(o) for o in out]


def bitmap(places, n):
    return sum(1 << i for i in places).to_bytes((n + 7) // 8, "little")


def packed(values, width):
    return sum((v % 2**width) << (j * width) for j, v in enumerate(values)).to_bytes((len(values) * width + 7) // 8, "little")


def rice(values):
    """The code of a removal (protocol.AppendRemoval)."""
    zigzag = [2 * v if v >= 0 else -2 * v - 1 for v in values]
    k = 0
    while 2**k < 0.7 * sum(zigzag) / len(zigzag):
        k += 1
    bits = "".join("1" * (z >> k) + "0" + "".join(str(z >> b & 1) for b in range(k)) for z in zigzag)
    code = sum(int(b) << i for i, b in enumerate(bits))
    return bytes([k]) + code.to_bytes((len(bits) + 7) // 8, "little")


def tidy(x):
    """Fields that are zero or empty are not written down."""
    if isinstance(x, dict):
        return {k: tidy(v) for k, v in x.items() if v}
    return [tidy(v) for v in x] if isinstance(x, list) else x


# The layers of a round, by what transcripts prefix their words with: the sum of
# the inputs and, where noise is replaced, that of what it changes by.
INPUT, CHANGE = "", "change-"


class Sum:
    """One round among all clients, of whom some are lost before a stage."""

    def __init__(self, mode, noise, degree, threshold, lost, liar=None):
        self.mode, self.active, self.degree, self.threshold, self.lost = mode, mode == "active", degree, threshold, lost
        self.liar = liar or {}  # who dealt badly, and to whom
        self.plan, self.replaces = plan(noise), noise == "replace"
        self.layers = (INPUT, CHANGE) if self.replaces else (INPUT,)
        self.sent, self.opened = {}, {}
        keys = [ed25519_public(s) for s in IDENTITIES] if self.active else []
        self.setting = digest("fedsim/secagg/setting/v1", SESSION, ROUND, *COHORT.values(), len(self.layers),
                              mode, ROUNDS, BEACON, len(keys), *keys)

    def left(self, stage, clients):
        return [i for i in clients if i != self.lost.get(stage)]

    def message(self, stage, client, **fields):
        self.sent.setdefault(stage, {})[str(client)] = {"Round": ROUND, **fields}

    def signature(self, client, what):
        return ed25519_sign(IDENTITIES[client], what).hex() if self.active else ""

    def derive(self, kind, secret, client):
        info = transcript("fedsim/secagg/secret/v1", kind, SESSION, ROUND, client)
        return hkdf(secret.to_bytes(32, "little"), info, 32)

    def advertise(self):
        self.secrets, self.mask_key, self.public, self.channel_key, self.channel = {}, {}, {}, {}, {}
        self.members = self.left("advertise", CLIENTS)
        members, roster = [], []
        for i in self.members:
            party = f"client/{i}"
            drawn_scalars = iter(scalars(drawn(party, "secagg/secrets", 1, 128 * len(self.layers))))
            for l in self.layers:
                self.secrets[l, i] = {"seed": next(drawn_scalars), "key": next(drawn_scalars)}
                if self.active:  # the mask key is the secret that is shared, its public half a point
                    self.mask_key[l, i] = self.secrets[l, i]["key"]
                    self.public[l, i] = point(self.mask_key[l, i])
                else:
                    self.mask_key[l, i] = self.derive(l + "key", self.secrets[l, i]["key"], i)
                    self.public[l, i] = x25519(self.mask_key[l, i])
            self.channel_key[i] = drawn(party, "secagg/channel", 0, 32)
            self.channel[i] = x25519(self.channel_key[i])
            signed = digest("fedsim/secagg/advertise/v2", self.setting, i, self.public[INPUT, i], self.channel[i])
            keys = {"Mask": self.public[INPUT, i].hex(), "Channel": self.channel[i].hex(), "Signature": self.signature(i, signed)}
            roster += [i, self.public[INPUT, i], self.channel[i]]
            if self.replaces:
                keys["Change"] = self.public[CHANGE, i].hex()
                roster.append(self.public[CHANGE, i])
            self.message("advertise", i, Keys=keys)
            members.append({"Client": i, "Keys": keys})
        self.roster = digest("fedsim/secagg/roster/v1", self.setting, len(members), *roster)
        near = neighbours(len(members), self.degree, digest("fedsim/secagg/ring/v1", self.roster, BEACON))
        self.near = {self.members[p]: [self.members[q] for q in near[p]] for p in range(len(near))}
        self.opened["advertise"] = {"Round": ROUND, "Clients": len(members), "Members": members}

    def deal(self, dealer, holder, plain, share):
        """One encrypted share; in active mode with its commitments."""
        info = transcript("fedsim/secagg/channel/v1", self.roster, dealer, self.channel[dealer], holder, self.channel[holder])
        key = hkdf(x25519(self.channel_key[dealer], self.channel[holder]), info, 32)
        if self.complains(holder, dealer):
            plain = bytes([plain[0] ^ 1]) + plain[1:]  # not what it commits to
        sealed = seal(key, bytes(12), plain)
        out = {"Ciphertext": sealed.hex()}
        if self.active:
            commit = {k: point(int.from_bytes(share[k], "little")) for k in share}
            signed = digest("fedsim/secagg/dealt/v2", self.roster, dealer, holder, sealed, commit["seed"], commit["key"])
            out["Committed"] = {"Seed": commit["seed"].hex(), "Key": commit["key"].hex(), "Signature": self.signature(dealer, signed)}
        return out

    def complains(self, holder, dealer):
        return self.liar.get("Dealer") == dealer and self.liar["Holder"] == holder

    def share(self):
        self.shares, self.seeds, dealt = {}, {}, {}
        self.live = self.left("share", self.members)
        for i in self.live:
            near, t = self.near[i], self.threshold
            coefficients = scalars(drawn(f"client/{i}", "secagg/polynomials", 1, 64 * 2 * (t - 1) * len(self.layers)))
            for l in self.layers:
                self.seeds[l, i] = self.derive(l + "seed", self.secrets[l, i]["seed"], i)
                for k in ("seed", "key"):
                    polynomial, coefficients = [self.secrets[l, i][k], *coefficients[: t - 1]], coefficients[t - 1 :]
                    for h in near:
                        value = sum(a * (h + 1) ** e for e, a in enumerate(polynomial)) % L
                        self.shares[l, i, h, k] = value.to_bytes(32, "little")
            for h in near:
                share = {k: self.shares[INPUT, i, h, k] for k in ("seed", "key")}
                plain = b"".join(self.shares[l, i, h, k] for l in self.layers for k in share)
                dealt[i, h] = self.deal(i, h, plain, share)
            seed_hash = {l: digest(f"fedsim/secagg/{l}seed-hash/v1", SESSION, ROUND, i, self.seeds[l, i]).hex() for l in self.layers}
            if self.active:
                seed_hash[INPUT] = point(self.secrets[INPUT, i]["seed"]).hex()
            shares = [{"Peer": h, **dealt[i, h]} for h in near]
            self.message("share", i, SeedHash=seed_hash[INPUT], ChangeHash=seed_hash.get(CHANGE), Shares=shares)
        self.arrived = self.subset(self.live)
        self.binding = {INPUT: digest("fedsim/secagg/binding/v1", plan_hash(self.plan), self.setting, self.roster, self.arrived)}
        shares = [{"Peer": d, **dealt[d, WITNESS]} for d in self.near[WITNESS] if d in self.live]
        self.opened["share"] = {"Round": ROUND, "Clients": len(self.live), "Arrived": self.arrived.hex(), "Shares": shares}

    def subset(self, clients):
        return bitmap([self.members.index(i) for i in clients], len(self.members))

    def pair(self, l, i, j):
        low, high = min(i, j), max(i, j)
        word = "pair-of-points" if self.active else l + "pair"
        info = transcript(f"fedsim/secagg/{word}/v1", low, self.public[l, low], high, self.public[l, high])
        common = point_common if self.active else x25519
        return hkdf(common(self.mask_key[l, i], self.public[l, j]), info, 32)

    def mask(self, l, secret, kind, release):
        info = transcript("fedsim/secagg/mask/v1", kind, SESSION, ROUND, self.binding[l], release["Name"], release["ring_bits"], release["length"])
        word = 4 if release["ring_bits"] <= 32 else 8
        stream = aes_ctr(hkdf(secret, info, 16), word * release["length"])
        return [int.from_bytes(stream[i : i + word], "little") for i in range(0, len(stream), word)]

    def masked(self, l, client, among, release, values):
        """A client's vector under its own mask and those with its neighbours among some clients."""
        values = [v + m for v, m in zip(values, self.mask(l, self.seeds[l, client], "self", release))]
        for j in self.near[client]:
            if j in among and not self.complains(client, j):
                sign = -1 if j < client else 1
                values = [v + sign * m for v, m in zip(values, self.mask(l, self.pair(l, client, j), "pair", release))]
        return packed(values, release["ring_bits"]).hex()

    def masked_input(self):
        self.survivors = self.left("masked-input", self.live)
        for i in self.survivors:
            masked = [self.masked(INPUT, i, self.live, r, values) for r, values in zip(self.plan["Releases"], INPUTS[i])]
            complaints = [{"Of": d, "Secret": self.pair(INPUT, i, d).hex()} for d in self.near[i] if self.complains(i, d)]
            self.message("masked-input", i, Masked=masked, Complaints=complaints)
        self.u1 = self.subset(self.survivors)
        self.opened["masked-input"] = {"Round": ROUND, "Count": len(self.survivors), "U1": self.u1.hex()}

    def consistency(self):
        signatures = []
        for i in self.survivors:
            signed = self.signature(i, digest("fedsim/secagg/consistency/v1", self.binding[INPUT], i, self.u1))
            self.message("consistency", i, Signature=signed)
            signatures.append({"Client": i, "Signature": signed})
        self.opened["consistency"] = {"Round": ROUND, "Signatures": signatures}

    def reveal(self, l, holder, among, summed):
        """The holder's shares of its neighbours' secrets, but of whom it complained."""
        shares = []
        for d in self.near[holder]:
            if d in among and not self.complains(holder, d):
                kind = "seed" if d in summed else "key"
                shares.append({"Of": d, "Share": self.shares[l, d, holder, kind].hex()})
        return shares

    def unmask(self):
        self.answered = self.left("unmask", self.survivors)
        self.binding[CHANGE] = digest("fedsim/secagg/change-binding/v1", self.binding[INPUT], self.u1)
        for i in self.answered:
            if self.replaces:
                change = self.masked(CHANGE, i, self.survivors, self.plan["Releases"][1], CHANGES[i])
            else:
                change = rice(CHANGES[i]).hex()
            self.message("unmask", i, Shares=self.reveal(INPUT, i, self.live, self.survivors), Removed=["", change])

    def replace(self):
        u2 = self.subset(self.answered).hex()
        self.opened["unmask"] = {"Round": ROUND, "Count": len(self.answered), "U2": u2}
        for i in self.answered:
            self.message("replace", i, Shares=self.reveal(CHANGE, i, self.survivors, self.answered))

    def sum(self):
        """Plainly; it must not need masks to be right."""
        g, h = ([sum(INPUTS[i][k][j] for i in self.survivors) for j in range(r["length"])] for k, r in enumerate(self.plan["Releases"]))
        return [g, [x + sum(CHANGES[i][j] for i in self.answered) for j, x in enumerate(h)]]

    def run(self):
        self.advertise()
        self.share()
        self.masked_input()
        if self.active:
            self.consistency()
        self.unmask()
        if self.replaces:
            self.replace()
        return {"Mode": self.mode, "Plan": self.plan, "Degree": self.degree, "Threshold": self.threshold, "Lost": self.lost, "Liar": self.liar,
                "Sent": tidy(self.sent), "Opened": tidy(self.opened), "Sum": self.sum()}


def main():
    # Eight of nine are on the roster; six are required, and one colludes. In active
    # mode the graph is complete, and there client 4 deals falsely to the witness.
    sums = [
        Sum("semi-honest", "split", 4, 2, {"advertise": 2, "share": 5, "masked-input": 7}),
        Sum("semi-honest", "replace", 4, 2, {"advertise": 2, "masked-input": 7, "unmask": 5}),
        Sum("active", "split", 7, 5, {"advertise": 2, "masked-input": 7}, {"Dealer": 4, "Holder": WITNESS}),
    ]
    print(json.dumps({
        "Rounds": ROUNDS, "Beacon": base64.b64encode(BEACON).decode(), "Witness": WITNESS,
        "Inputs": INPUTS, "Changes": CHANGES, "Sums": [s.run() for s in sums],
    }, indent=1))


main()
