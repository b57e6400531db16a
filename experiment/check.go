package experiment

import (
	"fmt"
	"math"
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

// problems checks everything that can be checked without the data.
func (c Config) problems() []problem {
	var list []problem
	bad := func(key, format string, args ...any) {
		list = append(list, problem{key, fmt.Sprintf(format, args...)})
	}
	oneOf := func(key, value string, words ...string) {
		for _, w := range words {
			if value == w {
				return
			}
		}
		bad(key, "%q is not one of %s", value, strings.Join(words, ", "))
	}
	between := func(key string, v, lo, hi float64) {
		if !(v >= lo && v <= hi) {
			bad(key, "%v is outside %v to %v", v, lo, hi)
		}
	}
	below := func(key string, v, lo, hi float64) {
		if !(v >= lo && v < hi) {
			bad(key, "%v is outside; it must be at least %v and below %v", v, lo, hi)
		}
	}
	positive := func(key string, v float64) {
		if !(v > 0) || math.IsInf(v, 1) {
			bad(key, "%v is not positive and finite", v)
		}
	}

	oneOf("algorithm", string(c.Algorithm), string(LFLSGDMF), string(FMFLFL), string(SGDMF))
	oneOf("noise", c.Noise, "auto", "split", "replace", "none")
	oneOf("noise-draw", c.NoiseDraw, "sum", "client")
	oneOf("secagg", c.Secagg, "ideal")
	if c.Secagg == "ideal" && c.DropoutAt == "consistency" {
		bad("dropout-at", "the stage consistency exists in the active mode of the real secure sum only; use advertise, share, masked-input, unmask or any")
	} else if stages[c.DropoutAt] == nil {
		bad("dropout-at", "%q is not one of advertise, share, masked-input, unmask, any", c.DropoutAt)
	}
	c.privacyProblems(bad)

	if c.Rounds < 1 || c.Rounds > 1_000_000 {
		bad("rounds", "%d is outside 1 to 1000000", c.Rounds)
	}
	if r := c.Rank.Or(1); r < 1 || r > 1024 || r != math.Trunc(r) {
		bad("rank", "%v is not a whole number from 1 to 1024", r)
	}
	below("dropout", c.Dropout, 0, 1)
	below("tolerance", c.Tolerance, 0, 1)
	below("colluders", c.Colluders, 0, 1)
	between("leave", c.Leave, 0, 1)
	between("away", c.Away, 0, 1)
	if c.AwayRounds < 1 {
		bad("away-rounds", "%d is not at least 1", c.AwayRounds)
	}
	oneOf("contribution", c.Contribution, string(fedmf.OneRating), string(fedmf.AllRatings))
	positive("clip-norm", c.ClipNorm)
	if c.RatingMin.Given && !(c.RatingMin.Value >= 0) {
		bad("rating-min", "%v is negative; embeddings are non-negative, so ratings must be at least 0", c.RatingMin.Value)
	}
	if c.RatingMax.Given {
		positive("rating-max", c.RatingMax.Value)
	}
	if c.Model.LearningRate.Given {
		positive("model.learning-rate", c.Model.LearningRate.Value)
	}
	if c.Model.StartMean.Given {
		positive("model.start-mean", c.Model.StartMean.Value)
	}
	between("model.start-spread", c.Model.StartSpread, 0, 1)
	if c.Model.FitSteps < 0 {
		bad("model.fit-steps", "%d is negative", c.Model.FitSteps)
	}
	if !(c.Model.FitRidge >= 0) {
		bad("model.fit-ridge", "%v is negative", c.Model.FitRidge)
	}
	if c.Model.Epochs < 1 {
		bad("model.epochs", "%d is not at least 1", c.Model.Epochs)
	}
	if !(c.Split.Test > 0 && c.Split.Test < 1) {
		bad("split.test", "%v is outside; it must be above 0 and below 1: quality is measured on it", c.Split.Test)
	}
	below("split.validation", c.Split.Validation, 0, 1)
	positive("network.up-mbps", c.Network.UpMbps)
	positive("network.down-mbps", c.Network.DownMbps)
	positive("network.stage-timeout-s", c.Network.StageTimeout)
	below("network.latency-ms", c.Network.LatencyMS, 0, 1e9)
	below("network.compute-ms", c.Network.ComputeMS, 0, 1e9)
	if c.Workers < 0 {
		bad("workers", "%d is negative; 0 takes all cores", c.Workers)
	}
	if c.Out == "" {
		bad("out", "no folder is named")
	}
	if c.Name != "" && (strings.ContainsAny(c.Name, `/\`) || strings.HasPrefix(c.Name, ".")) {
		bad("name", "%q is not the name of a folder: it must not hold a slash nor start with a dot", c.Name)
	}
	return list
}

// privacyProblems checks ε, δ, the unit, the noise and the accountant together.
func (c Config) privacyProblems(bad func(key, format string, args ...any)) {
	switch e := c.epsilon(); {
	case !(e > 0):
		bad("epsilon", "%v is not a privacy budget; it must be positive, or inf for no noise", e)
	case c.Algorithm != LFLSGDMF && !math.IsInf(e, 1):
		bad("epsilon", "%s adds no noise and gives no privacy; use inf, or another algorithm", c.Algorithm)
	case math.IsInf(e, 1) && c.Noise != "auto" && c.Noise != "none":
		bad("noise", "there is no noise to %s with epsilon inf; use none, or a finite epsilon", c.Noise)
	case !math.IsInf(e, 1) && c.Noise == "none":
		bad("noise", "without noise there is no epsilon of %v; use --epsilon inf with it", e)
	}
	if c.Delta.Given && !(c.Delta.Value > 0 && c.Delta.Value < 1) {
		bad("delta", "%v is outside; it must be above 0 and below 1", c.Delta.Value)
	}
	switch {
	case c.Unit == "user":
	case c.Unit == "rating":
		bad("unit", "a client of %s is a user and u_i is trained on all its ratings, so one rating moves whatever the user sends: privacy is stated per user", c.Algorithm)
	default:
		bad("unit", "%q is not a unit; use user", c.Unit)
	}
	switch a, err := dp.ParseAccountant(c.Accountant); {
	case err != nil:
		bad("accountant", "%q is not one of rdp, gdp-skellam, best", c.Accountant)
	case a == dp.Exact:
		bad("accountant", "exact covers Gaussian noise, and clients add Skellam noise; use rdp, gdp-skellam or best")
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
	var list []string
	if c.federated() && c.Dropout > c.Tolerance {
		consequence := "before anybody sends a masked input, at no cost"
		for _, s := range stages[c.DropoutAt] {
			if s >= protocol.StageMaskedInput {
				consequence = "and charged all the same to whoever sent a masked input"
			}
		}
		list = append(list, fmt.Sprintf("dropout %v is above the tolerance %v: most iterations will be skipped, %s", c.Dropout, c.Tolerance, consequence))
	}
	if c.federated() && c.Leave+c.Away > c.Tolerance {
		list = append(list, fmt.Sprintf("leave %v and away %v together are above the tolerance %v: iterations may be skipped", c.Leave, c.Away, c.Tolerance))
	}
	if c.Noise == "replace" {
		list = append(list, "noise replace shows every sum twice: the true epsilon is above the claimed one")
	}
	return list
}
