package algorithm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// The keys of every run, by name; [config.Keys] tells what each means. They are declared
// in init, since their rules refer to one another.
var (
	Name, Data, Unit, Accountant, Noise, NoiseDraw, Secagg, Mode, VerifyInputs,
	FeatureSpec, Feedback, DropoutAt, Baselines, EvalTopK, EvalDrift, Out, RunName,
	Columns, Duplicates, Separator, NoHeader, DayFirst, Encoding, Member, Unrated, BadRows, PublicIDs, PublicBinary, SplitBy, SplitTime, SplitTestFile, SplitTarget, SplitUsers, SplitFold, StartFrom, ChosenBy config.TextKey
	RatingMin, RatingMax, LeastRatings, PublicUsers, Epsilon, Delta, Rounds, Rank, Parties,
	Dropout, Tolerance, Colluders, CohortSize, CohortOver, SitOut, Leave, Away, AwayRounds, Workers,
	SplitTest, SplitValidation, SplitLeast, Positive, EvalRelevant, EvalUsers, EvalNegatives, EvalBuckets, StageTimeout, Tail, Gather, Latency, Up, Down, Compute, Patience config.NumberKey
	Seed, SplitSeed config.SeedKey
)

func init() {
	declareRun()
	declareData()
	declareFederation()
	declareSplit()
	declareHoldOut()
	declareEval()
	declareNetwork()
}

// declareRun declares what an algorithm may or may not have: which of them have an effect with it, it says in [About].
func declareRun() {
	Name = config.DeclareText(config.Key{
		Name: "algorithm", Kind: config.Word, Flag: true, Placeholder: "NAME", Blocking: true,
		Only: runnable,
		// The defaults are the algorithms that say so of themselves: see [Register].
		DefaultBy: func(c config.Config) string {
			if ranks != "" && Feedback.Is(c, "implicit") {
				return ranks
			}
			return Name.Default
		},
		Help: "Algorithm to train with; fedsim explain NAME describes it. Where none is named and feedback is implicit, it is private-ease. docs/algorithms.md compares all.",
	})
	Data = config.DeclareText(config.Key{
		// Needs no download. At MovieLens 1M's shape, 6,040 users cooperate. With the few hundred users of a small set, the noise
		// of any ε below 100 drowns what they could learn about thousands of items.
		Name: "data", Kind: config.Text, Default: "synthetic", Scope: config.Own, Flag: true, Placeholder: "DATA",
		Help: "Ratings to train on: a folder, archive or file of ratings, or - to read standard input. Also a set by its name (fedsim data get downloads it) or generated ratings, synthetic[:small|:ml-1m|:ml-10m]. synthetic is synthetic:ml-1m; fedsim data list names all.",
	})

	Epsilon = config.DeclareNumber(config.Key{
		Name: "epsilon", Kind: config.Real, Default: "auto", Auto: "10 with noise, inf without", Flag: true, Placeholder: "E",
		Help:         "Privacy budget of the whole run, or inf for no noise.",
		ChooseNumber: config.Either(func(c config.Config) bool { return Of(c).About().Private && !Noise.Is(c, "none") }, config.Fixed(defaultEpsilon), config.Fixed(math.Inf(1))),
		Check:        checkEpsilon,
	})
	Delta = config.DeclareNumber(config.Key{
		Name: "delta", Kind: config.Real, Default: "auto", Auto: "1e-5, or 1/(10·users) if that is smaller; of other units their public number", Range: config.Inside(0, 1),
		Flag: true, Placeholder: "D", Help: "δ of the guarantee.",
		When: func(c config.Config) bool {
			return noiseForms[Of(c).About().Noise].accountant != dp.Pure || !Private(c)
		},
		ChooseNumber: config.ByFacts(func(c config.Config, f *config.Facts) float64 { return dp.DefaultDelta(PublicUnits(c, f)) }),
	})
	Unit = config.DeclareText(config.Key{
		Name: "unit", Kind: config.Word, Default: "auto", Auto: "user; rating where parties see single ratings only; example where features are public and labels are not", Words: []string{string(dp.User), string(dp.Rating), string(dp.Example)},
		Flag: true, Placeholder: "UNIT", Help: "Unit of privacy: all ratings of a user, one rating, or the label of one example whose features are public.",
		ChooseWord: func(c config.Config, _ *config.Facts) string { return string(Of(c).About().Units[0]) },
		Check:      checkUnit,
	})
	Accountant = config.DeclareText(config.Key{
		Name: "accountant", Kind: config.Text, Default: "auto", Auto: "gdp-skellam of Skellam noise, pld of sampled Gaussian noise: the tightest that is proved; pure of a noised objective and of labels, shuffling of responses",
		Flag: true, Placeholder: "NAME",
		Help: "How noise is converted into ε; all are proved. Skellam noise: gdp-skellam (tight) or rdp (5 to 9% more noise). Sampled Gaussian noise: pld (tight) or rdp. A noised objective or randomised labels: pure, without a δ. Shuffled responses: shuffling. Best takes the smallest.",
		ChooseWord: func(c config.Config, _ *config.Facts) string {
			return string(noiseForms[Of(c).About().Noise].accountant)
		},
		Check: checkAccountant,
	})
	Noise = config.DeclareText(config.Key{
		Name: "noise", Kind: config.Word, Default: "auto", Auto: "split for users, own for organisations, else the algorithm's one kind; none if epsilon is inf", Words: []string{"split", "replace", "local", "own", "objective", "response", "labels", "steps", "none"},
		Flag: true, Placeholder: "KIND", Help: "Which noise is added. Clients that are users: split, replace (the published scheme, which leaks, at its true cost) or local (each client adds all of it, for lfl-sgdmf and private-item-bias alone). Organisations: own. Other algorithms have one kind, which fedsim plan names.",
		Only: func(c config.Config) []string {
			about := Of(c).About()
			words := slices.Concat([]string{"auto"}, noiseForms[about.Noise].words)
			if about.LocalNoise {
				words = append(words, protocol.LocalNoise.String())
			}
			return append(words, "none")
		},
		ChooseWord: func(c config.Config, _ *config.Facts) string {
			if !Private(c) {
				return "none"
			}
			return noiseForms[Of(c).About().Noise].words[0]
		},
		Check: checkNoise,
	})
	NoiseDraw = config.DeclareText(config.Key{
		Name: "noise-draw", Kind: config.Word, Default: "auto", Auto: "sum, at a cost that does not grow with clients; client of real sums", Words: []string{"sum", "client"},
		Flag: true, Placeholder: "WHO", Help: "Simulated noise: sum draws the noise of a sum at once, client draws the part of each client. Both have the same distribution.",
		ChooseWord: config.Either(func(c config.Config) bool { return Secagg.Is(c, "real") }, "client", "sum"),
		Check: config.Against(func(c config.Config) bool {
			return Secagg.Is(c, "real") && NoiseDraw.Is(c, "sum")
		}, "with secagg real each client draws its own noise, so that the adder does not know it; use noise-draw client"),
	})
	Secagg = config.DeclareText(config.Key{
		Name: "secagg", Kind: config.Word, Default: "ideal", Words: []string{"ideal", "real", "none"}, Flag: true, Placeholder: "KIND",
		Help:  "How sums are made: ideal (the exact sum, without cryptography), real (secure aggregation, with the same integers) or none (a single party).",
		Check: checkSecagg,
	})
	Mode = config.DeclareText(config.Key{
		Name: "mode", Kind: config.Word, Default: "semi-honest", Words: []string{"semi-honest", "active"}, Flag: true, Placeholder: "MODE",
		Help: "Threat that a real sum withstands: semi-honest parties, or active parties, who may lie.",
		Check: func(c config.Config) string {
			if Mode.Is(c, "active") && !Secagg.Is(c, "real") {
				return fmt.Sprintf("an %s sum withstands no attack; active is a mode of secagg real", Secagg.Of(c))
			}
			return ""
		},
	})
	VerifyInputs = config.DeclareText(config.Key{
		Name: "verify-inputs", Kind: config.Word, Default: "no", Words: []string{"yes", "no"}, Flag: true, Switch: true, Placeholder: "yes|no",
		Help: "Each client proves that its vector is within its bounds, and no other vector is added. Needs mode active.",
		Check: config.Against(func(c config.Config) bool {
			return VerifyInputs.Is(c, "yes") && !Mode.Is(c, "active")
		}, "a client whose proof is wrong is excluded, which only mode active does; use --mode active of --secagg real with it"),
	})

	Rounds = config.DeclareNumber(config.Key{
		Name: "rounds", Kind: config.Whole, Default: "auto", Auto: "by the algorithm: 10 to 1000 of matrix factorization, 1 to 16 outer steps of sufficient statistics",
		Range: config.Between(1, 1_000_000), Flag: true, Placeholder: "T", Help: "Rounds to attempt.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number { return Of(c).About().Rounds(c, f) },
	})
	Rank = config.DeclareNumber(config.Key{
		Name: "rank", Kind: config.Whole, Default: "auto", Auto: "by the algorithm: 1 where there is little but noise to learn from, up to 20", Range: config.Between(1, 1024),
		Flag: true, Placeholder: "P", Help: "Length of an embedding.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number { return Of(c).About().Rank(c, f) },
	})
	Parties = config.DeclareNumber(config.Key{ // FMF paper, section 4.3
		Name: "parties", Kind: config.Whole, Default: "auto", Auto: "10; 1 of dp-sgld", Range: config.Between(1, 1000), Flag: true, Placeholder: "S",
		Help:         "Organisations that take part.",
		ChooseNumber: config.Either(func(c config.Config) bool { return Of(c).About().OneParty }, config.Fixed(1), config.Fixed(10)),
	})
	FeatureSpec = config.DeclareText(config.Key{
		Name: "features", Kind: config.Text, Default: "auto", Auto: "genres, decades and what public users gave, as far as the set has them; for decades single years of private-ease, era and genre-era of ssp-c and ssp-i", Scope: config.Own, Flag: true, Placeholder: "SPEC",
		Help:  "Public features of items to learn from, with commas between, or none: genres, year (decades of release), released (single years), era (decades that blend), genre-era (genres with blended twenties of years) or rater (of public-users). CSV files have the columns item_id, category, value and perhaps weight; FILE.csv:NAME is one category of a file. FILE.npy holds vectors, such as embeddings of titles, a row for each item as data ids --of items lists them. auto,FILE.csv adds to auto.",
		Check: checkFeatures,
	})
	Feedback = config.DeclareText(config.Key{
		Name: "feedback", Kind: config.Word, Default: "auto", Auto: "explicit; implicit of algorithms that only rank", Words: []string{"explicit", "implicit"}, Flag: true, Placeholder: "KIND",
		Help:       "Kind of the ratings: explicit (a value on the scale) or implicit (an item was consumed).",
		ChooseWord: config.Either(func(c config.Config) bool { return Of(c).About().OnlyRanks }, "implicit", "explicit"),
		Check: func(c config.Config) string {
			if check := Of(c).About().CheckFeedback; check != nil {
				return check(c)
			}
			return ""
		},
	})
}

// declareFederation declares who is lost and what is assumed of clients, and how a run is made.
func declareFederation() {
	Dropout = config.DeclareNumber(config.Key{
		Name: "dropout", Kind: config.Real, Default: "auto", Auto: "0.1 where clients are users: phones do drop out; 0 of organisations", Range: config.Below(0, 1), Scope: config.Simulated,
		Flag: true, Placeholder: "SHARE", Help: "Chance of a client to be lost in a round.",
		ChooseNumber: config.Either(func(c config.Config) bool { return Of(c).About().Clients.Organisations() }, config.Fixed(0), config.Fixed(0.1)),
	})
	DropoutAt = config.DeclareText(config.Key{
		Name: "dropout-at", Kind: config.Word, Default: "any", Words: []string{"advertise", "share", "masked-input", "consistency", "unmask", "replace", "any"}, Scope: config.Simulated,
		Flag: true, Placeholder: "STAGE", Help: "Stage at which clients are lost. Only mode active has consistency, only noise replace has replace.",
		When:  func(c config.Config) bool { return Dropout.Chosen(c) > 0 },
		Check: checkDropoutAt,
	})
	Tolerance = config.DeclareNumber(config.Key{ // FMF paper, section 6.3
		Name: "tolerance", Kind: config.Real, Default: "0.3", Range: config.Below(0, 1), Flag: true, Placeholder: "SHARE",
		Help: "Share of the clients that a round may lose.",
	})
	Colluders = config.DeclareNumber(config.Key{
		Name: "colluders", Kind: config.Real, Default: "auto", Auto: "0.05: one client in twenty may help the aggregator; 0 of one alone", Range: config.Below(0, 1), Flag: true, Placeholder: "SHARE",
		Help:         "Share of the clients whose noise does not count, because they may help the aggregator.",
		ChooseNumber: config.Either(SingleOrganisation, config.Fixed(0), config.Fixed(0.05)),
	})
	CohortSize = config.DeclareNumber(config.Key{
		Name: "cohort.size", Kind: config.Whole, Default: "0", Range: config.Between(0, 1e9),
		Help:  "Clients that a round continues with. Clients take turns in a public order that the session settles, and noise is for the turns of one client. 0 takes all clients in every round.",
		Check: checkCohort,
	})
	CohortOver = config.DeclareNumber(config.Key{
		Name: "cohort.over", Kind: config.Real, Default: "1.2", Range: config.Between(1, 100),
		Help: "A round asks this many times cohort.size clients, and continues with the first that answer.",
		When: func(c config.Config) bool { return CohortSize.Value(c) > 0 },
	})
	SitOut = config.DeclareNumber(config.Key{
		Name: "sit-out", Kind: config.Real, Default: "0", Range: config.Between(0, 1), Flag: true, Placeholder: "SHARE",
		Help: "Share of the clients that may sit the next round out if they were lost in this one. The next round then needs no new set-up with all clients: three exchanges instead of five.",
		Check: func(c config.Config) string {
			if v, most := SitOut.Value(c), Tolerance.Value(c); v > max(0, most) {
				return fmt.Sprintf("%v is above the tolerance %v; who sits out is lost to the round", v, most)
			}
			return ""
		},
	})
	Leave = config.DeclareNumber(config.Key{
		Name: "leave", Kind: config.Real, Default: "0", Range: config.Between(0, 1), Scope: config.Simulated, Flag: true, Placeholder: "SHARE",
		Help: "Share of the clients that leave for good in the course of the run.",
	})
	Away = config.DeclareNumber(config.Key{
		Name: "away", Kind: config.Real, Default: "0", Range: config.Between(0, 1), Scope: config.Simulated, Flag: true, Placeholder: "SHARE",
		Help: "Share of the clients that go away once and come back.",
	})
	AwayRounds = config.DeclareNumber(config.Key{
		Name: "away-rounds", Kind: config.Whole, Default: "3", Range: config.AtLeast(1), Scope: config.Simulated, Flag: true, Placeholder: "N",
		Help: "Rounds for which such clients are away.",
		When: func(c config.Config) bool { return Away.Value(c) > 0 },
	})
	Baselines = config.DeclareText(config.Key{
		Name: "baselines", Kind: config.Word, Default: "all", Words: []string{"all", "quick"}, Scope: config.Simulated, Flag: true, Placeholder: "WHICH",
		Help: "Baselines of the run: all, or quick, which leaves out baselines that train the federation again.",
	})
	Seed = config.DeclareSeed(config.Key{
		Name: "seed", Kind: config.Seed, Default: "1", Flag: true, Placeholder: "N", Help: "Seed of everything random in the run, except secrets.",
	})
	Workers = config.DeclareNumber(config.Key{
		Name: "workers", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), Scope: config.Own, Flag: true, Placeholder: "N",
		Help:  "Number of goroutines; the result does not depend on it. 0 takes all cores.",
		Check: func(config.Config) string { return "" },
	})
	Out = config.DeclareText(config.Key{
		Name: "out", Kind: config.Text, Default: "runs", Scope: config.Own, Flag: true, Placeholder: "DIR", Help: "Where runs are kept.",
		Check: config.Against(func(c config.Config) bool { return Out.Is(c, "") }, "no folder is named"),
	})
	StartFrom = config.DeclareText(config.Key{
		Name: "start-from", Kind: config.Text, Default: "", Scope: config.Own, Flag: true, Placeholder: "FOLDER",
		Help: "Finished run from whose releases the session starts, or last: the newest run in out. Using releases again costs no privacy; the summary states the epsilon of all sessions together.",
	})
	ChosenBy = config.DeclareText(config.Key{
		Name: "chosen-by", Kind: config.Text, Default: "", Scope: config.Simulated,
		Help:  "Search over the same ratings that chose the settings: plain, or the record that fedsim tune writes. The statement of privacy covers that search, and after a plain search it has no epsilon.",
		Check: reads(SearchOf),
	})
	RunName = config.DeclareText(config.Key{
		Name: "name", Kind: config.Text, Default: "", Scope: config.Own, Flag: true, Placeholder: "NAME",
		Help: "Name of the run's folder in out. Default: made of algorithm, data, epsilon and seed.",
		Check: func(c config.Config) string {
			if name := RunName.Of(c); strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
				return fmt.Sprintf("%q is not the name of a folder: it must not hold a slash nor start with a dot", name)
			}
			return ""
		},
	})
}

// declareEval declares which lists of recommendations are measured at the end of a run.
func declareEval() {
	EvalTopK = config.DeclareText(config.Key{
		Name: "eval.top-k", Kind: config.Text, Default: "5,10,20", Scope: config.Simulated,
		Help:  "Lengths of the lists of recommendations that are measured at the end, with commas between, or none. All items are ranked that the user has not rated in training.",
		Check: reads(Cutoffs),
	})
	lists := func(c config.Config) bool { return !EvalTopK.Is(c, noLists) && !Ranks(c) }
	EvalRelevant = config.DeclareNumber(config.Key{
		Name: "eval.relevant", Kind: config.Real, Default: "auto", Auto: "0.8 of the scale's top, four stars of five", Range: config.AtLeast(0), Unit: "stars", Scope: config.Simulated,
		Help:         "Fewest stars of a relevant test rating, whose item should be in the lists, with explicit feedback.",
		When:         lists,
		ChooseNumber: config.ByFacts(func(_ config.Config, f *config.Facts) float64 { return positiveShare * (f.Max - f.Shift) }),
	})
	EvalBuckets = config.DeclareNumber(config.Key{ // the DP-CMF paper has four; no more than eval.MostBuckets
		Name: "eval.buckets", Kind: config.Whole, Default: "5", Range: config.Between(1, 10), Scope: config.Simulated,
		Help: "Number of buckets of equal size that items are divided into by popularity, each measured apart.",
	})
	EvalDrift = config.DeclareText(config.Key{
		Name: "eval.drift", Kind: config.Word, Default: "yes", Words: []string{"yes", "no"}, Scope: config.Simulated,
		Help: "Also measures the error with drift, if the data have timestamps: predictions corrected by the time of the test rating and the user's ratings around it, which no served model knows.",
		When: func(c config.Config) bool { return !Ranks(c) },
	})
	EvalUsers = config.DeclareNumber(config.Key{ // at the shape of MovieLens 25M, seconds instead of minutes
		Name: "eval.users", Kind: config.Whole, Default: "10000", Range: config.AtLeast(0), Scope: config.Simulated,
		Help: "Lists are measured for at most this many users, evenly spread, with explicit feedback. 0 takes all.",
		When: lists,
	})
	EvalNegatives = config.DeclareNumber(config.Key{
		Name: "eval.negatives", Kind: config.Whole, Default: "0", Range: config.Between(0, 1000), Scope: config.Simulated,
		Help: "Also ranks each relevant item among itself and so many items drawn at random, as many papers do with 99. Such figures compare with such papers only. 0 does not.",
		When: func(c config.Config) bool { return !EvalTopK.Is(c, noLists) },
	})
}

const (
	noLists     = "none"
	mostCutoffs = 16
	mostItems   = 10_000 // of a list
)

// Cutoffs are the lengths of the lists that are measured, ascending; nil where none is.
func Cutoffs(c config.Config) ([]int, error) {
	text := EvalTopK.Of(c)
	if text == noLists {
		return nil, nil
	}
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		k, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || k < 1 || k > mostItems {
			return nil, fmt.Errorf("%q is not a length of a list; give whole numbers from 1 to %d with commas between, such as 5,10,20, or %s", part, mostItems, noLists)
		}
		list = append(list, k)
	}
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > mostCutoffs {
		return nil, fmt.Errorf("%d lengths are too many; %d are the most", len(list), mostCutoffs)
	}
	return list, nil
}

// declareNetwork declares the simulated connections, and what a deployment waits for.
func declareNetwork() {
	Latency = network("latency-ms", "50", "ms", config.Below(0, 1e9), "How long a message is on its way, whatever its size.")
	Up = network("up-mbps", "10", "Mbit/s", config.Positive(), "Bandwidth from a client.")
	Down = network("down-mbps", "50", "Mbit/s", config.Positive(), "Bandwidth to a client.")
	Compute = network("compute-ms", "1000", "ms", config.Below(0, 1e9), "How long a client computes in a round.")
	Patience = config.DeclareNumber(config.Key{
		Name: "network.stage-timeout-s", Kind: config.Real, Default: "auto", Auto: "60, or twice as long as the largest messages take where that is more", Range: config.Positive(),
		Unit: "s", Scope: config.Simulated, Help: "How long the aggregator waits in a stage.",
	})

	StageTimeout = config.DeclareNumber(config.Key{
		Name: "deployment.stage-timeout-s", Kind: config.Real, Default: "60", Range: config.Above(0, 86_400), Unit: "s", Scope: config.Deployed,
		Help: "How long the aggregator of a deployment waits in a stage for clients that do not answer.",
	})
	Tail = config.DeclareNumber(config.Key{
		Name: "deployment.tail-s", Kind: config.Real, Default: "10", Range: config.Above(0, 86_400), Unit: "s", Scope: config.Deployed,
		Help: "How long a stage of a deployment waits for the other connected clients once enough have answered.",
	})
	Gather = config.DeclareNumber(config.Key{ // time to start ten machines by hand
		Name: "deployment.gather-s", Kind: config.Real, Default: "600", Range: config.Between(0, 604_800), Unit: "s", Scope: config.Deployed,
		Help: "The first round of a deployment waits at most this long for all clients. It then begins with the connected clients, if they are enough. Later rounds wait until enough clients are connected: together at most T times as long in a session of T rounds.",
	})
}

func network(name, standard, unit string, r config.Range, help string) config.NumberKey {
	return config.DeclareNumber(config.Key{Name: "network." + name, Kind: config.Real, Default: standard, Range: r, Unit: unit, Scope: config.Simulated, Help: help})
}

// Federated lists the keys of every algorithm with clients.
func Federated() []*config.Key {
	return []*config.Key{Dropout.Key, DropoutAt.Key, Leave.Key, Away.Key, AwayRounds.Key, Tolerance.Key, Colluders.Key, SitOut.Key}
}

// Placing lists the keys that results do not depend on: where a run leaves them, and the number of goroutines.
func Placing() []*config.Key { return []*config.Key{Out.Key, RunName.Key, Workers.Key} }

// common lists the keys that an algorithm shares with all others of its kind: each needs data, a split and a place
// for its results. An algorithm with clients needs sums and connections besides.
func (a *About) common() []*config.Key {
	list := []*config.Key{Name.Key, Data.Key, RatingMin.Key, RatingMax.Key, Epsilon.Key, Unit.Key, Noise.Key,
		Seed.Key, Workers.Key, Out.Key, RunName.Key, ChosenBy.Key, SplitTest.Key, SplitValidation.Key, SplitFold.Key, Columns.Key, Duplicates.Key, Separator.Key, NoHeader.Key, DayFirst.Key, Encoding.Key, Member.Key, Unrated.Key, BadRows.Key, PublicUsers.Key, PublicIDs.Key, SplitBy.Key, SplitTime.Key, SplitTestFile.Key, SplitSeed.Key,
		EvalTopK.Key, EvalNegatives.Key, EvalBuckets.Key}
	if !a.OnlyRanks {
		list = append(list, EvalRelevant.Key, EvalUsers.Key)
	}
	if !a.OnlyRanks && !a.Profiles {
		list = append(list, EvalDrift.Key)
	}
	if a.Private {
		list = append(list, Delta.Key, Accountant.Key)
	}
	if a.Private && a.Federated() { // baselines may leave out the variant without privacy
		list = append(list, Baselines.Key)
	}
	if a.Features != NoFeatures {
		list = append(list, PublicBinary.Key)
	}
	if a.Federated() {
		list = append(list, Secagg.Key, Mode.Key, VerifyInputs.Key, Latency.Key, Up.Key, Down.Key, Compute.Key, Patience.Key, StageTimeout.Key, Tail.Key, Gather.Key)
	}
	return list
}

// defaultEpsilon is a budget at which LFL-SGDMF on the default data beats what
// the same users reach without cooperating by more than the deviation over seeds.
const defaultEpsilon = 10

// Private reports whether a configuration promises a finite ε.
func Private(c config.Config) bool { return !math.IsInf(Epsilon.Chosen(c), 1) }

// Ranks reports whether quality means rankings for held-out users.
func Ranks(c config.Config) bool {
	return slices.Contains(Of(c).About().Keys, Feedback.Key) && Feedback.Chosen(c) == "implicit"
}

// UnitOf returns the unit of privacy of a configuration.
func UnitOf(c config.Config) dp.Unit { return dp.Unit(Unit.Chosen(c)) }

// PublicUnits is an upper bound on the units of privacy, from public facts alone: the default of δ follows from it, and noise from
// that. How many ratings there are is public of a published set only; there are at most so many as users times items.
func PublicUnits(c config.Config, f *config.Facts) int {
	switch {
	case UnitOf(c) == dp.User:
		return f.Users
	case f.Published > 0:
		return f.Published
	case UnitOf(c) == dp.Example && f.Examples > 0: // how many there are is public, other than of ratings
		return f.Examples
	default:
		return f.Users * f.Items
	}
}

// Flow is which stages a round goes through.
func Flow(c config.Config) protocol.StageFlow {
	return protocol.StageFlow{Confirms: Mode.Is(c, "active"), Replaces: Noise.Is(c, protocol.TwoRound.String())}
}

// DropoutStages are the stages that dropout-at names: any is each stage that there is. A word that names none gives none.
func DropoutStages(c config.Config) []protocol.Stage {
	var list []protocol.Stage
	at := DropoutAt.Of(c)
	for s := range protocol.Stages {
		if Flow(c).Has(s) && (at == s.String() || at == "any") {
			list = append(list, s)
		}
	}
	return list
}
