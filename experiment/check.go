package experiment

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/protocol"
)

// problem is what is wrong with a key of a Config.
type problem struct{ key, reason string }

// stages are the words of dropout-at.
var stages = func() map[string][]protocol.Stage {
	words := make(map[string][]protocol.Stage)
	for s := range protocol.Stages {
		words[s.String()] = []protocol.Stage{s}
		words["any"] = append(words["any"], s)
	}
	return words
}()

// checker collects the problems of a Config.
type checker struct{ list []problem }

func (k *checker) bad(key, format string, args ...any) {
	k.list = append(k.list, problem{key, fmt.Sprintf(format, args...)})
}

func (k *checker) oneOf(key, value string, words ...string) {
	if !slices.Contains(words, value) {
		k.bad(key, "%q is not one of %s", value, strings.Join(words, ", "))
	}
}

func (k *checker) between(key string, v, lo, hi float64) {
	if !(v >= lo && v <= hi) {
		k.bad(key, "%v is outside %v to %v", v, lo, hi)
	}
}

func (k *checker) below(key string, v, lo, hi float64) {
	if !(v >= lo && v < hi) {
		k.bad(key, "%v is outside; it must be at least %v and below %v", v, lo, hi)
	}
}

func (k *checker) positive(key string, v float64) {
	if !(v > 0) || math.IsInf(v, 1) {
		k.bad(key, "%v is not positive and finite", v)
	}
}

// problems checks everything that can be checked without the data.
func (c Config) problems() []problem {
	k := new(checker)
	k.oneOf("algorithm", string(c.Algorithm), string(LFLSGDMF), string(FMFLFL), string(SGDMF))
	k.oneOf("noise", c.Noise, "auto", "split", "replace", "none")
	k.oneOf("noise-draw", c.NoiseDraw, "sum", "client")
	k.oneOf("secagg", c.Secagg, "ideal")
	k.oneOf("dropout-at", c.DropoutAt, "advertise", "share", "masked-input", "unmask", "any")
	c.checkPrivacy(k)
	c.checkModel(k)
	c.checkFederation(k)
	c.checkData(k)
	c.checkNetwork(k)
	if c.Workers < 0 {
		k.bad("workers", "%d is negative; 0 takes all cores", c.Workers)
	}
	if c.Out == "" {
		k.bad("out", "no folder is named")
	}
	if c.Name != "" && (strings.ContainsAny(c.Name, `/\`) || strings.HasPrefix(c.Name, ".")) {
		k.bad("name", "%q is not the name of a folder: it must not hold a slash nor start with a dot", c.Name)
	}
	return k.list
}

func (c Config) checkFederation(k *checker) {
	k.below("dropout", c.Dropout, 0, 1)
	k.below("tolerance", c.Tolerance, 0, 1)
	k.below("colluders", c.Colluders, 0, 1)
	k.between("leave", c.Leave, 0, 1)
	k.between("away", c.Away, 0, 1)
	if c.AwayRounds < 1 {
		k.bad("away-rounds", "%d is not at least 1", c.AwayRounds)
	}
}

func (c Config) checkModel(k *checker) {
	if c.Rounds < 1 || c.Rounds > 1_000_000 {
		k.bad("rounds", "%d is outside 1 to 1000000", c.Rounds)
	}
	if r := c.Rank.Or(1); r < 1 || r > 1024 || r != math.Trunc(r) {
		k.bad("rank", "%v is not a whole number from 1 to 1024", r)
	}
	k.oneOf("contribution", c.Contribution, string(fedmf.OneRating), string(fedmf.AllRatings))
	k.positive("clip-norm", c.ClipNorm)
	if c.Model.LearningRate.Given {
		k.positive("model.learning-rate", c.Model.LearningRate.Value)
	}
	if c.Model.StartMean.Given {
		k.positive("model.start-mean", c.Model.StartMean.Value)
	}
	k.between("model.start-spread", c.Model.StartSpread, 0, 1)
	if c.Model.FitSteps < 0 {
		k.bad("model.fit-steps", "%d is negative", c.Model.FitSteps)
	}
	if !(c.Model.FitRidge >= 0) {
		k.bad("model.fit-ridge", "%v is negative", c.Model.FitRidge)
	}
	if c.Model.Epochs < 1 {
		k.bad("model.epochs", "%d is not at least 1", c.Model.Epochs)
	}
}

func (c Config) checkData(k *checker) {
	if c.RatingMin.Given && !(c.RatingMin.Value >= 0) {
		k.bad("rating-min", "%v is negative; embeddings are non-negative, so ratings must be at least 0", c.RatingMin.Value)
	}
	if c.RatingMax.Given {
		k.positive("rating-max", c.RatingMax.Value)
	}
	if !(c.Split.Test > 0 && c.Split.Test < 1) {
		k.bad("split.test", "%v is outside; it must be above 0 and below 1: quality is measured on it", c.Split.Test)
	}
	k.below("split.validation", c.Split.Validation, 0, 1)
}

func (c Config) checkNetwork(k *checker) {
	k.positive("network.up-mbps", c.Network.UpMbps)
	k.positive("network.down-mbps", c.Network.DownMbps)
	k.positive("network.stage-timeout-s", c.Network.StageTimeout)
	k.below("network.latency-ms", c.Network.LatencyMS, 0, 1e9)
	k.below("network.compute-ms", c.Network.ComputeMS, 0, 1e9)
}

// checkPrivacy checks ε, δ, the unit, the noise and the accountant together.
func (c Config) checkPrivacy(k *checker) {
	switch e := c.epsilon(); {
	case !(e > 0):
		k.bad("epsilon", "%v is not a privacy budget; it must be positive, or inf for no noise", e)
	case c.Algorithm != LFLSGDMF && !math.IsInf(e, 1):
		k.bad("epsilon", "%s adds no noise and gives no privacy; use inf, or another algorithm", c.Algorithm)
	case math.IsInf(e, 1) && c.Noise != "auto" && c.Noise != "none":
		k.bad("noise", "there is no noise to %s with epsilon inf; use none, or a finite epsilon", c.Noise)
	case !math.IsInf(e, 1) && c.Noise == "none":
		k.bad("noise", "without noise there is no epsilon of %v; use --epsilon inf with it", e)
	}
	if c.Delta.Given && !(c.Delta.Value > 0 && c.Delta.Value < 1) {
		k.bad("delta", "%v is outside; it must be above 0 and below 1", c.Delta.Value)
	}
	switch {
	case c.Unit == "user":
	case c.Unit == "rating":
		k.bad("unit", "a client of %s is a user and u_i is trained on all its ratings, so one rating moves whatever the user sends: privacy is stated per user", c.Algorithm)
	default:
		k.bad("unit", "%q is not a unit; use user", c.Unit)
	}
	switch a, err := dp.ParseAccountant(c.Accountant); {
	case err != nil:
		k.bad("accountant", "%q is not one of rdp, gdp-skellam, best", c.Accountant)
	case a == dp.Exact:
		k.bad("accountant", "exact covers Gaussian noise, and clients add Skellam noise; use rdp, gdp-skellam or best")
	}
}

// epsilon is the budget, chosen where none was given.
func (c Config) epsilon() float64 {
	if c.Algorithm == LFLSGDMF && c.Noise != "none" {
		return c.Epsilon.Or(defaultEpsilon)
	}
	return c.Epsilon.Or(math.Inf(1))
}

// Private reports whether the experiment promises a finite ε.
func (c Config) Private() bool { return !math.IsInf(c.epsilon(), 1) }

// federated reports whether the algorithm runs through clients, aggregator and
// server.
func (c Config) federated() bool { return c.Algorithm != SGDMF }

// Warnings are what a user should know before an experiment runs although it
// can run.
func (c Config) Warnings() []string {
	if !c.federated() {
		return c.ignored()
	}
	var list []string
	if loss := c.expectedLoss(); loss > c.Tolerance+1e-9 {
		consequence := "before anybody sends a masked input, at no cost"
		for _, s := range stages[c.DropoutAt] {
			if s >= protocol.StageMaskedInput {
				consequence = "and charged all the same to whoever sent a masked input"
			}
		}
		what := fmt.Sprintf("dropout %v", c.Dropout)
		if c.Leave > 0 || c.Away > 0 {
			what = fmt.Sprintf("dropout %v with leave %v and away %v, in the end a loss of %.3g,", c.Dropout, c.Leave, c.Away, loss)
		}
		list = append(list, fmt.Sprintf("%s is above the tolerance %v: most iterations will be skipped, %s", what, c.Tolerance, consequence))
	}
	if c.Noise == "replace" {
		list = append(list, "noise replace shows every sum twice: the true epsilon is above the claimed one")
	}
	return list
}

// expectedLoss is the share of clients that is expected to be lost in the worst
// iteration, the last one: by then whoever leaves has left, and whoever is away
// at all is away in one of rounds/away-rounds cases.
func (c Config) expectedLoss() float64 {
	away := c.Away * min(1, float64(c.AwayRounds)/float64(c.Rounds))
	return 1 - (1-c.Dropout)*(1-c.Leave)*(1-away)
}

// ignored names the settings that have no meaning without a federation.
func (c Config) ignored() []string {
	var list []string
	mine, defaults := reflect.ValueOf(c), reflect.ValueOf(Defaults())
	for _, key := range []string{"dropout", "dropout-at", "leave", "away", "away-rounds", "tolerance", "colluders", "noise-draw", "contribution", "clip-norm"} {
		a, errA := field(mine, key)
		b, errB := field(defaults, key)
		if errA == nil && errB == nil && !a.Equal(b) {
			list = append(list, fmt.Sprintf("%s has no effect with %s, which has no clients", key, c.Algorithm))
		}
	}
	return list
}
