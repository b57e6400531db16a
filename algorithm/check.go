package algorithm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
)

// noiseForms lists for each form of noise the words of the key noise, the word for auto
// first; the accountants that cover the form; the accountant for auto; and who adds the noise.
var noiseForms = map[NoiseForm]struct {
	words       []string
	accountants []dp.Accountant
	accountant  dp.Accountant
	who         string
}{
	DistributedNoise: {[]string{"split", "replace"}, []dp.Accountant{dp.GDPSkellam, dp.RDP, dp.Best}, dp.GDPSkellam, "clients add Skellam noise"},
	PartyNoise:       {[]string{"own"}, []dp.Accountant{dp.RDP, dp.PLD, dp.Best}, dp.PLD, "parties add Gaussian noise to samples"},
	ObjectiveNoise:   {[]string{"objective"}, []dp.Accountant{dp.Pure}, dp.Pure, "the objective is noised once, and epsilon needs no delta"},
	LabelNoise:       {[]string{"labels"}, []dp.Accountant{dp.Pure}, dp.Pure, "labels are randomised once, and epsilon needs no delta"},
	LabelStepNoise:   {[]string{"labels"}, []dp.Accountant{dp.PLD}, dp.PLD, "labels are randomised once, and steps are noised"},
	StepNoise:        {[]string{"steps"}, []dp.Accountant{dp.RDP, dp.PLD, dp.Best}, dp.PLD, "steps on samples of examples are noised"},
	ResponseNoise:    {[]string{"response"}, []dp.Accountant{dp.Shuffling}, dp.Shuffling, "users randomise what they send, and a shuffler mixes it"},
}

func checkEpsilon(c config.Config) string {
	switch e := Epsilon.Chosen(c); {
	case !(e > 0):
		return fmt.Sprintf("%v is not a privacy budget; it must be positive, or inf for no noise", e)
	case !Of(c).About().Private && !math.IsInf(e, 1):
		return fmt.Sprintf("%s adds no noise and gives no privacy; use inf, or another algorithm", Name.Of(c))
	default:
		return ""
	}
}

// checkCohort refuses settings that do not go with turns.
func checkCohort(c config.Config) string {
	switch {
	case CohortSize.Value(c) == 0:
		return ""
	case Mode.Is(c, "active"):
		return "the order of turns follows from the session, which an active server would draw until it suits it; take all clients, or mode semi-honest"
	case Noise.Is(c, "replace"):
		return "replaced noise is charged for all rounds together; use noise split with turns"
	case SitOut.Value(c) > 0:
		return "rounds of different clients are not set up ahead, so no client can sit one out; leave sit-out at 0"
	default:
		return ""
	}
}

// checkUnit refuses units that an algorithm cannot protect.
func checkUnit(c config.Config) string {
	about := Of(c).About()
	if unit := Unit.Of(c); unit != "auto" && !slices.Contains(about.Units, dp.Unit(unit)) {
		return about.OtherUnit
	}
	return ""
}

func checkAccountant(c config.Config) string {
	form := noiseForms[Of(c).About().Noise]
	words := append([]string{"auto"}, lists.Map(form.accountants, func(a dp.Accountant) string { return string(a) })...)
	if a := Accountant.Of(c); !slices.Contains(words, a) {
		return fmt.Sprintf("%q is not one of %s; %s", a, strings.Join(words, ", "), form.who)
	}
	return ""
}

func checkNoise(c config.Config) string {
	e, noise := Epsilon.Chosen(c), Noise.Of(c)
	switch {
	case math.IsInf(e, 1) && noise != "auto" && noise != "none":
		return fmt.Sprintf("there is no noise to %s with epsilon inf; use none, or a finite epsilon", noise)
	case !math.IsInf(e, 1) && noise == "none":
		return fmt.Sprintf("without noise there is no epsilon of %v; use --epsilon inf with it", e)
	case Secagg.Is(c, "real") && Mode.Is(c, "active") && noise == "replace":
		return "in mode active clients would have to agree on who replaced noise, too, and there is no stage for that; use split, or mode semi-honest"
	default:
		return ""
	}
}

func checkSecagg(c config.Config) string {
	about, kind := Of(c).About(), Secagg.Of(c)
	switch {
	case kind == "none" && !SingleOrganisation(c):
		return "none would show what each party sends; only a party that is alone may go without a secure sum"
	case kind == "real" && about.Clients == Nobody:
		return fmt.Sprintf("%s has all ratings in one place and sums nothing", about.Name)
	case kind == "real" && SingleOrganisation(c):
		return "a single party has no other party to hide among; use secagg none, the plain sum"
	default:
		return ""
	}
}

func checkDropoutAt(c config.Config) string {
	switch {
	case !Mode.Is(c, "active") && DropoutAt.Is(c, protocol.StageConsistency.String()):
		return "consistency is a stage of mode active alone"
	case !Noise.Is(c, "replace") && DropoutAt.Is(c, protocol.StageReplace.String()):
		return "replace is a stage of noise replace alone"
	default:
		return ""
	}
}

func checkFeatures(c config.Config) string {
	if about := Of(c).About(); about.Features == NeedsFeatures && FeatureSpec.Is(c, "none") {
		return about.NoFeatures
	}
	return ""
}

// Warnings lists what a user should know before the simulation of a configuration that is valid.
func Warnings(c config.Config) []string {
	about := Of(c).About()
	idle := slices.DeleteFunc(KeysWithoutEffect(c), func(k *config.Key) bool { return k.Scope == config.Deployed }) // a simulation ignores these for every algorithm
	list := slices.Concat(noEffect(c, idle, "with "+about.Name), noEffect(c, Scoped(config.Deployed), "in a simulation"))
	list = append(list, splitWarnings(c)...)
	if about.Clients == Nobody {
		return list
	}
	if loss := expectedLoss(c); loss > Tolerance.Value(c)+1e-9 {
		list = append(list, lossWarning(c, about, loss))
	}
	if Noise.Is(c, "replace") {
		list = append(list, "noise replace shows every sum twice: the true epsilon is above the claimed one")
	}
	return list
}

func lossWarning(c config.Config, about *About, loss float64) string {
	consequence := "before any client sends a masked input, at no cost"
	for _, s := range DropoutStages(c) {
		if s >= protocol.StageMaskedInput {
			consequence = "and charged all the same to clients that sent a masked input"
		}
	}
	dropout, leave, away := Dropout.Chosen(c), Leave.Value(c), Away.Value(c)
	what := fmt.Sprintf("dropout %v", dropout)
	if leave > 0 || away > 0 {
		what = fmt.Sprintf("dropout %v with leave %v and away %v, in the end a loss of %.3g,", dropout, leave, away, loss)
	}
	if about.Clients.Organisations() && Private(c) {
		consequence = "and charged all the same to parties that took the plan up"
	}
	return fmt.Sprintf("%s is above the tolerance %v: most rounds will be skipped, %s", what, Tolerance.Value(c), consequence)
}

// expectedLoss returns the share of clients that is expected to be lost in the last round, the worst of a run. By then every client
// that leaves has left. A client that is away at some time is away in the last round with probability away-rounds/sums.
func expectedLoss(c config.Config) float64 {
	away := Away.Value(c) * min(1, AwayRounds.Value(c)/Of(c).About().sums(c))
	there := (1 - Dropout.Chosen(c)) * (1 - Leave.Value(c)) * (1 - away)
	if lost := 1 - there; lost <= SitOut.Value(c) {
		return 1 - there*there // those lost in the round before sit this one out
	}
	return 1 - there
}

// KeysWithoutEffect lists the keys that have no effect with the algorithm and the other settings.
func KeysWithoutEffect(c config.Config) []*config.Key {
	used := Of(c).About().Used()
	return slices.DeleteFunc(config.Keys(), func(k *config.Key) bool {
		return slices.Contains(used, k) && (k.When == nil || k.When(c))
	})
}

// Used lists the keys that have an effect with an algorithm for some settings. The page of keys prints this list, and
// [KeysWithoutEffect] warns by it.
func (a *About) Used() []*config.Key {
	used := slices.Concat(a.common(), a.Keys)
	return slices.DeleteFunc(config.Keys(), func(k *config.Key) bool { return !slices.Contains(used, k) })
}

// Scoped lists the keys of a scope.
func Scoped(s config.Scope) []*config.Key {
	return slices.DeleteFunc(config.Keys(), func(k *config.Key) bool { return k.Scope != s })
}

// noEffect returns, for each key that was given, a sentence that it has no effect somewhere.
func noEffect(c config.Config, keys []*config.Key, where string) []string {
	given := slices.DeleteFunc(slices.Clone(keys), c.IsDefault)
	return lists.Map(given, func(k *config.Key) string { return fmt.Sprintf("%s has no effect %s", k.Name, where) })
}

// Deployed returns a configuration as separate machines run it: keys of simulations alone
// are at their defaults, sums are real, and each client draws its own noise. It returns a
// [config.Error] if there are reasons against a deployment, and lists every reason, one a line.
func Deployed(c config.Config) (config.Config, error) {
	if !ChosenBy.Is(c, "") {
		return c, config.Refuse([]config.Problem{{Key: ChosenBy.Key, Reason: "a search of a simulation saw all ratings in one place, and no party of a deployment does. Leave the key out if the settings were chosen by other data, such as a public set"}})
	}
	for _, k := range Scoped(config.Simulated) {
		c.Reset(k)
	}
	SplitTest.Set(&c, 0) // a deployment measures nothing, so it trains on all ratings
	about := Of(c).About()
	var list []config.Problem
	bad := func(k *config.Key, reason string) { list = append(list, config.Problem{Key: k, Reason: reason}) }
	switch Secagg.Of(c) {
	case "ideal":
		Secagg.Set(&c, "real") // no party is trusted with adding up
	case "none":
		bad(Secagg.Key, "none is a plain sum, which shows what is in it; the sums of a deployment are real")
	}
	if NoiseDraw.Is(c, "sum") {
		NoiseDraw.Set(&c, "client")
	}
	switch {
	case about.Clients == Nobody:
		bad(Name.Key, fmt.Sprintf("%s has all ratings in one place; there is nothing to deploy", about.Name))
	case SingleOrganisation(c):
		bad(Parties.Key, "a single party has no other party to hide among, and needs no deployment; give at least 2")
	}
	if Noise.Is(c, "replace") {
		bad(Noise.Key, "replaced noise shows every sum twice, and is there for comparison only; use split")
	}
	if !SplitTestFile.Is(c, "") {
		bad(SplitTestFile.Key, "a deployment does not measure; each party leaves out of its data what it does not want trained on")
	}
	if anyPublic(c) {
		bad(PublicUsers.Key, "no role of a deployment has all users' ratings, so none can take some out. Do not invite these users. With ssp-c each writes a gift by fednode client --donate, which the server takes up with --donations; else name a file of what they gave in features, which are public: fedsim data raters writes it")
	}
	if len(list) == 0 {
		list = c.Problems()
	}
	return c, config.Refuse(list)
}

// DeploymentWarnings lists what a user should know before a deployment of a valid
// configuration: which party it trusts, and which keys have no effect there. [Deployed] replaces
// ideal sums and their noise, so an experiment file that fedsim plan writes needs no warning of them.
func DeploymentWarnings(c config.Config) []string {
	var list []string
	if !Mode.Is(c, "active") {
		list = append(list, "mode semi-honest trusts the aggregator not to lie in rosters: an aggregator that shows a client only keys of its own making learns that client's contribution. "+
			"With mode active, clients sign their keys and check them")
	}
	if math.IsInf(Epsilon.Value(c), 1) {
		list = append(list, "epsilon inf adds no noise: sums may show ratings, and a client takes part only with --max-epsilon inf of its owner")
	}
	own := []*config.Key{Columns.Key, Duplicates.Key, Separator.Key, NoHeader.Key, DayFirst.Key, Encoding.Key, Member.Key, Unrated.Key}
	for _, k := range slices.DeleteFunc(own, c.IsDefault) {
		list = append(list, fmt.Sprintf("%s is each party's own: fednode client has --%s", k.Name, k.Name))
	}
	unused := slices.DeleteFunc(KeysWithoutEffect(c), func(k *config.Key) bool { return k.Scope == config.Simulated })
	without := slices.DeleteFunc(Scoped(config.Simulated), func(k *config.Key) bool { return k == SplitTest.Key && SplitTest.Value(c) == 0 }) // which a deployment has
	return slices.Concat(list, noEffect(c, unused, "with "+Name.Of(c)), noEffect(c, without, "in a deployment"))
}
