#!/usr/bin/env python3
"""Plants one mistake at a time into the code, without changing a file, and runs the tests that must find it:

    tools/mutants/mutants.py            the usual tests
    tools/mutants/mutants.py --short    those of a look
    tools/mutants/mutants.py --check    no tests: only whether each mistake can still be planted
    tools/mutants/mutants.py --root DIR --only NAME    another checkout; mistakes whose name has this in it

It ends with 1 if a mistake is not found, or cannot be planted.
"""
import argparse, json, pathlib, re, subprocess, sys, tempfile

# A mistake: its name, a file, a text that occurs there once, what is put in its place, and the packages of whose tests at
# least one must fail.
MUTANTS = [
    ("half of a release's bound", "protocol/plan.go",
     "dp.Fixed{L2: r.L2, L1: r.L1", "dp.Fixed{L2: r.L2 / 2, L1: r.L1", ["./protocol"]),
    ("noise of colluders counted as protecting", "protocol/cohort.go",
     "return v / float64(c.Honest(c.Required()))", "return v / float64(c.Required())", ["./protocol"]),
    ("noise thinned for a survivor too many", "client/noise.go",
     "uint64(c.Honest(survivors))", "uint64(c.Honest(survivors)+1)", ["./client", "./secagg", "./sim/..."]),
    ("noise thinned by its own bits", "client/noise.go",
     "return sampler.Removal(dst, noise.NewBits(sh.noise.Stream(r.Name)), noise.NewBits(sh.thinning.Stream(r.Name)), thinning)",
     "return sampler.Removal(dst, noise.NewBits(sh.noise.Stream(r.Name)), noise.NewBits(sh.noise.Stream(r.Name)), thinning)", ["./client", "./secagg", "./lab/audit"]),
    ("a mask left in the sum", "secagg/reconstruct.go",
     "masks[g*len(masks)/groups:(g+1)*len(masks)/groups]",
     "masks[g*len(masks)/groups:max(g*len(masks)/groups, (g+1)*len(masks)/groups-1)]", ["./secagg"]),
    ("the other share of a client revealed", "secagg/unmask.go",
     "revealed(in.Has(p.at))", "revealed(!in.Has(p.at))", ["./secagg"]),
    ("other survivors answered too", "secagg/consistency.go",
     "return c.lie(protocol.StageUnmask, ErrLocked)", "return nil", ["./secagg"]),
    ("no quorum needed", "secagg/unmask.go",
     "if c.Confirms() && !c.checked {", "if c.Confirms() && c.checked {", ["./secagg"]),
    ("a threshold of shares less by one", "internal/secagg/shamir/shamir.go",
     "uniform(coefficients[1:], random)", "uniform(coefficients[1:max(1, threshold-1)], random)", ["./internal"]),
    ("points of a degree too high taken", "internal/secagg/shamir/shamir.go",
     "g := make([]edwards25519.Scalar, len(l.holders)-threshold)", "g := make([]edwards25519.Scalar, max(1, len(l.holders)-threshold-1))", ["./internal"]),
    ("points that are dealt unchecked", "secagg/share.go",
     "return a.checkPoints(at, m)", "return nil", ["./secagg", "./sim"]),
    ("a masked input sent before its charge is durable", "client/round.go",
     "\treturn []protocol.Record{record}, nil\n", "\t_ = record\n\treturn nil, nil\n", ["./client", "./sim/..."]),
    ("a round left out of the composition", "algorithm/calibrate.go",
     "events, refused = s.Charges(s.Schedule.Rounds())", "events, refused = s.Charges(s.Schedule.Rounds() - 1)", ["./algorithm"]),
    ("half of the test ratings trained on", "dataset/split/split.go",
     "case u < c.test:\n", "case u < c.test/2:\n", ["./dataset/split"]),
    ("another name of a signed field", "internal/node/session/description.go",
     '`json:"stage_timeout"`', '`json:"stage_limit"`', ["./internal/node/hub"]),
    ("no rate limit of a party that is let in", "internal/node/hub/carry.go",
     "messagesPerSecond = 20", "messagesPerSecond = 20000", ["./internal/node/hub", "./node"]),
    ("no room in the time that hides how many ratings there are", "node/pace.go",
     "paceFactor = 4", "paceFactor = 1", ["./node"]),
    ("no limit of how far a packed file unpacks", "internal/dataset/files/unwrap.go",
     "unpacked > freeSize && unpacked/maxRatio > packed:", "unpacked > freeSize && unpacked/maxRatio > 1000*packed:", ["./dataset/read"]),
    ("a survivor more than on paper, by rounding", "protocol/cohort.go",
     "math.Floor(c.Tolerance*float64(c.Wanted())+slack)", "math.Floor(c.Tolerance*float64(c.Wanted())-slack)", ["./protocol"]),
    ("a rank that the budget does not pay for", "internal/fedssp/settings/values.go",
     "case n < 2400:", "case n < 240:", ["./fedssp", "./internal/fedssp/...", "./algorithm"]),
    ("a hung program left alive", "algorithm/external/program.go",
     "end(p.cmd.Process) // it may have ended meanwhile", "_ = p.cmd.Process.Pid", ["./algorithm/external"]),
    ("samplers' error of a private search once, not once a run", "dp/search.go",
     "sum += s.SamplerError * s.Law.Runs()", "sum += s.SamplerError", ["./dp"]),
    ("half of a ceiling's period", "node/account.go",
     "now.Add(-c.Period)", "now.Add(-c.Period / 2)", ["./node"]),
    ("a sum in place of a mean for items that an organisation lacks", "fedmf/party_instance.go",
     "\t\tmean[c] /= count\n", "\t\tmean[c] /= 1\n", ["./internal/fedmf/..."]),
    ("norms compared with the squared bound", "internal/fedmf/kernel/lfl.go",
     "!(norm2 <= c*c) {", "!(norm2 <= c*c*c*c) {", ["./internal/fedmf/..."]),
    ("a norm above the bound let through", "client/noise.go",
     "math.Sqrt(x.l2) > r.L2*(1+rounding)", "math.Sqrt(x.l2) > r.L2*(1+rounding)*2", ["./client"]),
    ("a log that does not continue the one seen last", "node/store/sessionlog.go",
     "case tlog.CheckTree(parted(proof), tree.N, tree.Hash, x.tree.N, x.tree.Hash) == nil:", "case len(proof) > 0:", ["./node/admission"]),
    ("a ticket redeemed without its key", "node/admission/invitation.go",
     'if !e.Ticket.Key.Verify(e.signed("redemption"), e.Redemption) {', 'if e.Redemption == (Signature{}) {', ["./node/admission"]),
    ("a proof of bounds whose numbers contradict them", "internal/secagg/inputproof/verify.go",
     "if !s.product(c, at, l, r1, r2, t) {", "if !s.product(c, at, l, r1, r2, t) && len(l) == 0 {", ["./internal"]),
    ("places of a list counted from one too many", "eval/ranking.go",
     "1 / math.Log2(float64(place)+2)", "1 / math.Log2(float64(place)+3)", ["./eval"]),
]


def found(root, scratch, args, name, file, right, wrong, packages):
    """Reports whether a mistake can be planted and, unless args.check, is found by a test."""
    path = root / file
    text = path.read_text()
    if text.count(right) != 1:
        print(f"{name}: {right!r} occurs {text.count(right)} times in {file}; it must once")
        return False
    if args.check:
        return True
    mistaken, overlay = scratch / "wrong.go", scratch / "overlay.json"
    mistaken.write_text(text.replace(right, wrong))
    overlay.write_text(json.dumps({"Replace": {str(path): str(mistaken)}}))
    short = ["-short"] if args.short else []
    run = subprocess.run(["go", "test", "-overlay", overlay, "-count=1", "-failfast", *packages, *short], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    failed = re.findall(r"^--- FAIL: (\S+)", run.stdout, re.M)
    if run.returncode and not failed:  # it does not compile
        print(f"{name}:\n{run.stdout}")
    else:
        print(f"found      {name}: {len(failed)}, {', '.join(failed[:3])}" if failed else f"NOT FOUND  {name}", flush=True)
    return bool(failed)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[2])
    p.add_argument("--only", default="")
    p.add_argument("--short", action="store_true")
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        list_ = [m for m in MUTANTS if args.only in m[0]]
        sys.exit(not all([found(args.root.resolve(), pathlib.Path(scratch), args, *m) for m in list_]))


main()
