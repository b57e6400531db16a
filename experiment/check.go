package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// problem is what is wrong with a key of a Config.
type problem struct{ key, reason string }

// course is which stages an iteration goes through.
func (c Config) course() protocol.Course {
	return protocol.Course{Confirms: c.Mode == graph.Active.String(), Replaces: c.Noise == protocol.Replace.String()}
}

// dropoutStages are the stages that dropout-at names: any is each stage that there
// is. A word that names none gives none.
func (c Config) dropoutStages() []protocol.Stage {
	var list []protocol.Stage
	for s := range protocol.Stages {
		if c.course().Has(s) && (c.DropoutAt == s.String() || c.DropoutAt == "any") {
			list = append(list, s)
		}
	}
	return list
}

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

func (k *checker) least(key string, v, lo int) {
	if v < lo {
		k.bad(key, "%d is not at least %d", v, lo)
	}
}

// within is between for a number that need not be given.
func (k *checker) within(key string, n Number, lo, hi float64) {
	if n.Given {
		k.between(key, n.Value, lo, hi)
	}
}

// whole checks a number that, where given, counts something.
func (k *checker) whole(key string, n Number, lo, hi float64) {
	if v := n.Value; n.Given && (v < lo || v > hi || v != math.Trunc(v)) {
		k.bad(key, "%v is not a whole number from %v to %v", v, int(lo), int(hi))
	}
}

// problems checks everything that can be checked without the data.
func (c Config) problems() []problem {
	k := new(checker)
	words := make([]string, len(Algorithms()))
	for i, a := range Algorithms() {
		words[i] = string(a)
	}
	if k.oneOf("algorithm", string(c.Algorithm), words...); len(k.list) > 0 {
		return k.list // what else is wrong depends on it
	}
	if c.Algorithm.Organisations() {
		k.oneOf("noise", c.Noise, "auto", "own", "none")
		c.checkOrganisations(k)
	} else {
		k.oneOf("noise", c.Noise, "auto", "split", "replace", "none")
	}
	k.oneOf("noise-draw", c.NoiseDraw, "auto", "sum", "client")
	k.oneOf("secagg", c.Secagg, "ideal", "real", "none")
	k.oneOf("mode", c.Mode, graph.SemiHonest.String(), graph.Active.String())
	if c.Secagg == "none" && !(c.Algorithm.Organisations() && c.parties() == 1) {
		k.bad("secagg", "none would show what each party sends; only a party that is alone may go without a secure sum")
	}
	k.oneOf("baselines", c.Baselines, "all", "quick")
	k.oneOf("dropout-at", c.DropoutAt, "advertise", "share", "masked-input", "consistency", "unmask", "replace", "any")
	c.checkSum(k)
	c.checkPrivacy(k)
	c.checkModel(k)
	c.checkFederation(k)
	c.checkData(k)
	c.checkStatistics(k)
	c.checkNetwork(k)
	c.checkDeployment(k)
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

// checkSum checks what depends on the kind of secure sum.
func (c Config) checkSum(k *checker) {
	active := c.Mode == graph.Active.String()
	if active && c.Secagg != "real" {
		k.bad("mode", "an %s sum defends against nobody; active is a mode of secagg real", c.Secagg)
	}
	if !active && c.DropoutAt == protocol.StageConsistency.String() {
		k.bad("dropout-at", "consistency is a stage of mode active alone")
	}
	if c.Noise != "replace" && c.DropoutAt == protocol.StageReplace.String() {
		k.bad("dropout-at", "replace is a stage of noise replace alone")
	}
	if c.Secagg != "real" {
		return
	}
	if !c.Algorithm.Federated() {
		k.bad("secagg", "%s has all ratings in one place and sums nothing", c.Algorithm)
	}
	if c.Algorithm.Organisations() && c.parties() == 1 {
		k.bad("secagg", "a party that is alone has nobody to hide among; its plain sum is secagg none")
	}
	if c.NoiseDraw == "sum" {
		k.bad("noise-draw", "nobody could draw the noise of a whole real sum but its adder; with secagg real each client draws its own")
	}
	if active && c.Noise == "replace" {
		k.bad("noise", "in mode active clients would have to agree on who replaced noise, too, and there is no stage for that; use split, or mode semi-honest")
	}
}

func (c Config) checkFederation(k *checker) {
	k.below("dropout", c.dropout(), 0, 1)
	k.below("tolerance", c.Tolerance, 0, 1)
	k.below("colluders", c.colluders(), 0, 1)
	if k.between("sit-out", c.SitOut, 0, 1); c.SitOut > max(0, c.Tolerance) {
		k.bad("sit-out", "%v is above the tolerance %v; who sits out is lost to the iteration", c.SitOut, c.Tolerance)
	}
	k.between("leave", c.Leave, 0, 1)
	k.between("away", c.Away, 0, 1)
	k.least("away-rounds", c.AwayRounds, 1)
}

func (c Config) checkModel(k *checker) {
	k.whole("rounds", c.Rounds, 1, 1_000_000)
	k.whole("rank", c.Rank, 1, 1024)
	k.oneOf("contribution", c.Contribution, string(fedmf.OneRating), string(fedmf.AllRatings))
	k.positive("clip-norm", c.clipNorm())
	if c.Model.LearningRate.Given {
		k.positive("model.learning-rate", c.Model.LearningRate.Value)
	}
	if c.Model.StartMean.Given {
		k.positive("model.start-mean", c.Model.StartMean.Value)
	}
	k.between("model.start-spread", c.Model.StartSpread, 0, 1)
	k.least("model.fit-steps", c.Model.FitSteps, 0)
	if !(c.Model.FitRidge >= 0) {
		k.bad("model.fit-ridge", "%v is negative", c.Model.FitRidge)
	}
	k.least("model.epochs", c.Model.Epochs, 1)
}

// checkOrganisations checks what only parties that are organisations have.
func (c Config) checkOrganisations(k *checker) {
	k.whole("parties", c.Parties, 1, 1000)
	k.whole("local-steps", c.LocalSteps, 1, 100_000)
	k.whole("clip-ratings", c.ClipRatings, 0, 1e6)
	k.oneOf("clipping", c.Clipping, string(fedmf.EmbeddingClipping), string(fedmf.GradientClipping), string(fedmf.BothClippings))
	if !(c.SamplingRate > 0 && c.SamplingRate <= 1) {
		k.bad("sampling-rate", "%v is outside; it must be above 0 and at most 1", c.SamplingRate)
	}
	switch {
	case c.unit() == dp.User && c.clipRatings() < 1 && c.Clipping == string(fedmf.EmbeddingClipping):
		k.bad("clip-ratings", "with unit user and clipping embedding a party must trim each user, to at least 1 rating")
	case c.unit() == dp.Rating && c.clipRatings() > 0:
		k.bad("clip-ratings", "with unit rating nothing is trimmed: which ratings of a user are kept would depend on the others")
	}
	if c.Model.UserRate.Given {
		k.positive("model.user-rate", c.Model.UserRate.Value)
	}
	if c.Model.ItemRate.Given {
		k.positive("model.item-rate", c.Model.ItemRate.Value)
	}
	if c.Model.Density.Given && !(c.Model.Density.Value > 0 && c.Model.Density.Value <= 1) {
		k.bad("model.density", "%v is outside; it must be above 0 and at most 1", c.Model.Density.Value)
	}
	if c.Algorithm.vertical() {
		k.oneOf("partition", c.Partition, string(dataset.RandomPartition), string(dataset.CategoryPartition))
		k.least("item-steps", c.ItemSteps, 0)
		return
	}
	k.oneOf("train", c.Train, "auto", trainItems, trainBoth)
	k.least("model.fine-tune", c.Model.FineTune, 0)
	k.least("model.local-passes", c.Model.LocalPasses, 0)
	k.positive("model.fine-tune-rate", c.Model.FineTuneRate)
	if c.Algorithm == HFLSynSGD && c.localSteps() != 1 {
		k.bad("local-steps", "%s averages the gradient of a single step; it must be 1", c.Algorithm)
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
	if c.Split.Positive.Given {
		k.below("split.positive", c.Split.Positive.Value, 0, math.Inf(1))
	}
}

func (c Config) checkNetwork(k *checker) {
	k.positive("network.up-mbps", c.Network.UpMbps)
	k.positive("network.down-mbps", c.Network.DownMbps)
	k.positive("network.stage-timeout-s", c.Network.StageTimeout)
	k.below("network.latency-ms", c.Network.LatencyMS, 0, 1e9)
	k.below("network.compute-ms", c.Network.ComputeMS, 0, 1e9)
}

func (c Config) checkDeployment(k *checker) {
	if s := c.Deployment.StageTimeout; !(s > 0 && s <= 86_400) {
		k.bad("deployment.stage-timeout-s", "%v is outside; it must be above 0 and at most 86400, a day", s)
	}
	k.between("deployment.gather-s", c.Deployment.Gather, 0, 604_800) // a week
}

// checkPrivacy checks ε, δ, the unit, the noise and the accountant together.
func (c Config) checkPrivacy(k *checker) {
	switch e := c.epsilon(); {
	case !(e > 0):
		k.bad("epsilon", "%v is not a privacy budget; it must be positive, or inf for no noise", e)
	case !c.Algorithm.private() && !math.IsInf(e, 1):
		k.bad("epsilon", "%s adds no noise and gives no privacy; use inf, or another algorithm", c.Algorithm)
	case math.IsInf(e, 1) && c.Noise != "auto" && c.Noise != "none":
		k.bad("noise", "there is no noise to %s with epsilon inf; use none, or a finite epsilon", c.Noise)
	case !math.IsInf(e, 1) && c.Noise == "none":
		k.bad("noise", "without noise there is no epsilon of %v; use --epsilon inf with it", e)
	}
	if c.Delta.Given && !(c.Delta.Value > 0 && c.Delta.Value < 1) {
		k.bad("delta", "%v is outside; it must be above 0 and below 1", c.Delta.Value)
	}
	c.checkUnit(k)
	c.checkAccountant(k)
}

// checkUnit refuses units that an algorithm cannot protect.
func (c Config) checkUnit(k *checker) {
	k.oneOf("unit", c.Unit, "auto", string(dp.User), string(dp.Rating))
	if c.Unit != string(dp.Rating) {
		return
	}
	switch c.Algorithm.form().(type) {
	case devices:
		k.bad("unit", "a client of %s is a user and u_i is trained on all its ratings, so one rating moves whatever the user sends: privacy is stated per user", c.Algorithm)
	case statistics:
		k.bad("unit", "a user of %s fits u_i to all its ratings, and multiplies every row that it contributes to by it, so one rating moves all of them: what can be proved for a rating is no better than per user, which is what is stated (theorem 1 of the am-ssp paper takes u_i for given)", c.Algorithm)
	case horizontal:
		k.bad("unit", "a party of %s fits u_i to all ratings of the user without noise, so one rating moves every row of V that the user touches, by more than the bound for one rating; what can be proved is worse than privacy per user, which is what is stated", c.Algorithm)
	case central:
		k.bad("unit", "%s protects nothing", c.Algorithm)
	case vertical:
	}
}

func (c Config) checkAccountant(k *checker) {
	covered := []string{"auto", string(dp.RDP), string(dp.GDPSkellam), string(dp.Best)}
	noise := "clients add Skellam noise"
	if c.Algorithm.Organisations() {
		covered = []string{"auto", string(dp.RDP), string(dp.PLD), string(dp.Best)}
		noise = "parties add Gaussian noise to samples"
	}
	if !slices.Contains(covered, c.Accountant) {
		k.bad("accountant", "%q is not one of %s; %s", c.Accountant, strings.Join(covered, ", "), noise)
	}
}

// Warnings are what a user should know before an experiment is simulated although
// it can be.
func (c Config) Warnings() []string {
	list := slices.Concat(c.noEffect(c.meaningless(), "with "+string(c.Algorithm)), c.noEffect(deploymentKeys(), "in a simulation"))
	if !c.Algorithm.Federated() {
		return list
	}
	if loss := c.expectedLoss(); loss > c.Tolerance+1e-9 {
		consequence := "before anybody sends a masked input, at no cost"
		for _, s := range c.dropoutStages() {
			if s >= protocol.StageMaskedInput {
				consequence = "and charged all the same to whoever sent a masked input"
			}
		}
		what := fmt.Sprintf("dropout %v", c.dropout())
		if c.Leave > 0 || c.Away > 0 {
			what = fmt.Sprintf("dropout %v with leave %v and away %v, in the end a loss of %.3g,", c.dropout(), c.Leave, c.Away, loss)
		}
		if c.Algorithm.Organisations() && c.Private() {
			consequence = "and charged all the same to whoever took the plan up"
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
	away := c.Away * min(1, float64(c.AwayRounds)/float64(c.iterations()))
	there := (1 - c.dropout()) * (1 - c.Leave) * (1 - away)
	if lost := 1 - there; lost <= c.SitOut {
		return 1 - there*there // those lost in the iteration before sit this one out
	}
	return 1 - there
}

// meaningless lists the keys that have no effect with the algorithm.
func (c Config) meaningless() []string {
	return append(meaningless(c.Algorithm.form()), c.idleStatistics()...)
}

// meaningless lists the keys that have no effect in a form, but for those of statistics.
func meaningless(f form) []string {
	organisations := []string{"parties", "partition", "local-steps", "item-steps", "sampling-rate", "clip-ratings", "clipping", "train",
		"model.user-rate", "model.item-rate", "model.density", "model.fine-tune", "model.fine-tune-rate", "model.local-passes"}
	silo := []string{"contribution", "noise-draw", "model.learning-rate", "model.epochs"}
	switch f.(type) {
	case vertical:
		return append(silo, "train", "model.fine-tune", "model.fine-tune-rate", "model.local-passes", "model.fit-steps", "model.fit-ridge")
	case horizontal:
		return append(silo, "partition", "item-steps")
	case central:
		return append(organisations, "rounds", "dropout", "dropout-at", "leave", "away", "away-rounds", "tolerance", "colluders", "sit-out",
			"noise-draw", "contribution", "clip-norm", "baselines")
	case statistics:
		return append(organisations, "contribution", "clip-norm", "model.learning-rate", "model.start-mean", "model.start-spread",
			"model.fit-steps", "model.fit-ridge", "model.epochs")
	default:
		return append(organisations, "model.epochs")
	}
}
