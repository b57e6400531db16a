package main

// mutant is one mistake: in a file, a text that stands there once, what is put in its place,
// and the packages of whose tests at least one must fail.
type mutant struct {
	name, file, right, wrong string
	packages                 []string
}

var mutants = []mutant{
	{
		"half of a release's bound", "protocol/plan.go",
		"dp.Fixed{L2: r.L2, L1: r.L1", "dp.Fixed{L2: r.L2 / 2, L1: r.L1",
		[]string{"./protocol"},
	},
	{
		"noise of colluders counted as protecting", "protocol/cohort.go",
		"return v / float64(c.Honest(c.Required()))", "return v / float64(c.Required())",
		[]string{"./protocol"},
	},
	{
		"noise thinned for a survivor too many", "client/noise.go",
		"uint64(c.Honest(survivors)))", "uint64(c.Honest(survivors)+1))",
		[]string{"./client", "./secagg", "./sim/..."},
	},
	{
		"noise thinned by its own bits", "client/noise.go",
		"return sampler.Removal(dst, sh.bits(r), noise.NewBits(sh.thinning.Stream(r.Name)), thinning)",
		"return sampler.Removal(dst, sh.bits(r), sh.bits(r), thinning)",
		[]string{"./client", "./secagg", "./lab/audit"},
	},
	{
		"a mask left in the sum", "secagg/reconstruct.go",
		"masks[g*len(masks)/groups:(g+1)*len(masks)/groups]", "masks[g*len(masks)/groups:max(g*len(masks)/groups, (g+1)*len(masks)/groups-1)]",
		[]string{"./secagg"},
	},
	{
		"the other share of a client revealed", "secagg/unmask.go",
		"revealed(in.Has(p.at))", "revealed(!in.Has(p.at))",
		[]string{"./secagg"},
	},
	{
		"other survivors answered too", "secagg/consistency.go",
		"return c.lie(protocol.StageUnmask, ErrLocked)", "return nil",
		[]string{"./secagg"},
	},
	{
		"no quorum needed", "secagg/unmask.go",
		"if c.active() && !c.checked {", "if c.active() && c.checked {",
		[]string{"./secagg"},
	},
	{
		"a threshold of shares less by one", "secagg/shamir/split.go",
		"uniform(coefficients[1:], random)", "uniform(coefficients[1:max(1, threshold-1)], random)",
		[]string{"./secagg/shamir"},
	},
	{
		"a masked input sent before its charge is durable", "client/round.go",
		"	return []protocol.Record{record}, nil\n", "	_ = record\n	return nil, nil\n",
		[]string{"./client", "./sim/..."},
	},
	{
		"a round left out of the composition", "algorithm/calibrate.go",
		"events, refused = s.Charges(s.Schedule.Rounds())", "events, refused = s.Charges(s.Schedule.Rounds() - 1)",
		[]string{"./algorithm"},
	},
	{
		"half of the test ratings trained on", "dataset/split/split.go",
		"case u < p.test():\n", "case u < p.test()/2:\n",
		[]string{"./dataset/split"},
	},
}
