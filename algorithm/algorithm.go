// Package algorithm defines what an algorithm is, the registry that finds an algorithm by its name,
// and the keys of every run. It knows no algorithm by name.
//
// Begin with package peruser if every client of your algorithm is a user and every round sums one
// vector of each user: five functions make an algorithm, and nothing else of this package is needed.
// Package external takes the same functions from a program in another language.
//
// For all other algorithms there is the full interface. An algorithm owns everything about itself: name, paper, keys and their
// defaults, the releases of its rounds, and its words in the summary. It makes the two sides that train ([Strategy] of the server,
// [Trainer] of a client) and the baselines. A simulation and a deployment both go through [Instance] and ask for nothing else.
//
// A new algorithm calls [MustRegister] from its package's init, and is imported where the
// families are listed (package internal/families), or by the program that brings it. A program can also
// run an algorithm by its value ([Use]), such as two variants side by side.
package algorithm

import (
	"context"
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Algorithm is a way to train.
type Algorithm interface {
	// About says what is known of the algorithm without any data.
	About() *About
	// Open fixes everything that follows from configuration, data and cohort. It chooses what is still open in s.Config, and sets
	// s.Schedule, calibrated noise included ([Setup.CalibrateSplit], [Setup.CalibrateParty]). It returns a [config.Error] if the
	// configuration cannot be run.
	Open(s *Setup) (Instance, error)
}

// Clients names the kind of an algorithm's clients.
type Clients uint8

const (
	// Users: every client is one user.
	Users Clients = iota
	// ItemParties: a client is an organisation with some of the items. All have the same users (VFL).
	ItemParties
	// UserParties: a client is an organisation with some of the users (HFL).
	UserParties
	// All ratings are in one place; there are no clients.
	Nobody
)

// Organisations reports whether a client stands for more than one user.
func (c Clients) Organisations() bool { return c == ItemParties || c == UserParties }

// String returns the kind in words, for a table.
func (c Clients) String() string {
	return [...]string{"users", "parties that hold items", "parties that hold users", "one place"}[c]
}

// NoiseForm says where noise comes from.
type NoiseForm uint8

const (
	// DistributedNoise: clients add shares of integer noise to what is summed.
	DistributedNoise NoiseForm = iota
	// PartyNoise: each party noises its own training.
	PartyNoise
	// ObjectiveNoise: what is minimised is noised once, with all ratings in one place. ε is pure: there is no δ.
	ObjectiveNoise
	// ResponseNoise: each user randomises its messages, and a shuffler mixes them.
	ResponseNoise
	// LabelNoise: labels are randomised once, with all examples in one place. ε is pure.
	LabelNoise
	// LabelStepNoise: labels are randomised once, and steps are noised besides.
	LabelStepNoise
	// StepNoise: steps on samples of examples are noised, with all of them in one place.
	StepNoise
)

// String says who draws the noise.
func (n NoiseForm) String() string {
	return [...]string{
		DistributedNoise: "each client's share of integer noise", PartyNoise: "each organisation's own noise", ObjectiveNoise: "one noise term of the objective",
		ResponseNoise: "responses that users randomise and a shuffler mixes", LabelNoise: "labels that are randomised once",
		LabelStepNoise: "randomised labels and noisy steps", StepNoise: "noise of each step",
	}[n]
}

// FeatureUse says whether an algorithm learns from public features of items.
type FeatureUse uint8

// The uses of features.
const (
	NoFeatures FeatureUse = iota
	TakesFeatures
	NeedsFeatures
)

// About describes an algorithm as far as it is known without any data.
type About struct {
	Name string // in lower case, as the key algorithm has it
	// Default: it runs where none is named. One does, and another where feedback is implicit, which only ranks.
	Default bool
	Help    string // what it does, in a line
	Paper   string // and section; "" of what is ours alone

	Clients Clients
	Noise   NoiseForm
	Private bool // it adds noise where ε is finite
	// LocalNoise: its clients may add noise that suffices by itself (noise local).
	LocalNoise bool
	// OneParty: it was made for ratings in one place, and has one party unless more are asked for.
	OneParty bool
	Features FeatureUse
	// Years are the features that it takes of years of release, with commas between; "": year, the decades.
	Years string
	// OnlyRanks: it learns from implicit feedback alone, and predicts no ratings.
	OnlyRanks bool
	// Profiles: it learns from public features of users, and of regressions ([dataset.Set.Profile]).
	Profiles bool
	// Fields: from their categories alone ([dataset.Profile.Fields]); the same features as numbers are not needed.
	Fields bool
	// ByUser: it reads ratings user by user, as clients work on them, so that they may stay packed ([dataset.Packed]).
	ByUser bool
	// NoFeatures says why there must be features, where Features is NeedsFeatures.
	NoFeatures string

	Units     []dp.Unit // that it can protect, the default first
	OtherUnit string    // why it cannot protect the others
	Relation  dp.Relation
	// Genres reports whether the parties of a deployment need the items' genres, because the items are dealt by genre; nil: never.
	Genres func(config.Config) bool

	// Donors reports whether sums have what users add who give their ratings openly, as exact numbers; nil: never.
	Donors func(config.Config) bool
	// Keys lists the keys that have an effect, besides the keys of every run: [Federated] for
	// algorithms with clients, Rounds and Rank where the algorithm has them, and its own keys.
	Keys []*config.Key
	// Rounds and Rank return the meaning of auto ([Always]). The facts are nil while they are unknown; what needs
	// them is auto until then.
	Rounds, Rank func(config.Config, *config.Facts) config.Number
	// Sums returns the number of secure sums of a run, where it differs from Rounds.
	Sums func(config.Config) int
	// CheckFeedback says why the algorithm cannot learn from the feedback of a configuration, "" if it can; nil: it takes any.
	CheckFeedback func(config.Config) string
}

// Always is a meaning of auto that depends on nothing.
func Always(v float64) func(config.Config, *config.Facts) config.Number {
	return func(config.Config, *config.Facts) config.Number { return config.Fixed(v) }
}

// sums returns the number of secure sums that a run attempts.
func (a *About) sums(c config.Config) float64 {
	if a.Sums != nil {
		return float64(a.Sums(c))
	}
	return Rounds.Chosen(c)
}

// Federated reports whether the algorithm runs through clients, aggregator and server.
func (a *About) Federated() bool { return a.Clients != Nobody }

// Has reports whether Keys contains a key.
func (a *About) Has(k *config.Key) bool { return slices.Contains(a.Keys, k) }

// Instance is an algorithm with its data, ready to run. In a simulation all its methods may be
// called; in a deployment no party has all ratings.
type Instance interface {
	// Strategy makes the server's side, before its first round.
	Strategy(protocol.SessionID) (Strategy, error)
	// ClientSide makes the clients of a simulation, untrained.
	ClientSide() (ClientSide, error)
	// Party makes one client's trainer of a deployment from the ratings that it has. An
	// error for data that do not hold what is said wraps [ErrPartyData].
	Party(which PartyData, l *LocalData) (*Party, error)
	// Shared returns the embeddings in a model as the server has it. The statement of privacy is about these.
	Shared(shared []byte) ([]model.Embeddings, error)
	// Baselines lists the comparisons of a run besides means and biases, in the order of the summary.
	Baselines() []Baseline
}

// Strategy is the algorithm as the server sees it. Package server documents each method.
type Strategy interface {
	Next() (plan *protocol.Plan, done bool, err error)
	Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error
	Skip(*protocol.Plan, error)
	Model() []byte
	Save() ([]byte, error)
	Restore(state []byte) error
}

// Trainer is the algorithm as one client sees it. Package client documents each method.
type Trainer interface {
	Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error)
	Finish(model []byte, run protocol.Runner) error
}

// ClientSide holds the clients of a simulation, for the measurement of quality.
type ClientSide interface {
	Trainers() []Trainer
	// Interim predicts by the shared model between two rounds.
	Interim(shared []byte, run protocol.Runner) (model.Predictor, error)
	// Final returns the model at the end of the run. A client that has left counts as if it came back to fetch the model.
	Final(shared []byte, run protocol.Runner) (*model.Trained, error)
}

// Trainers lists n trainers.
func Trainers(n int, of func(i int) Trainer) []Trainer {
	list := make([]Trainer, n)
	for i := range list {
		list[i] = of(i)
	}
	return list
}

// Central is an Instance without clients: it trains where all ratings are.
type Central interface {
	// Epochs returns the number of passes over the ratings.
	Epochs() int
	// Train begins with the first pass and calls passed after each. If from has passes, it continues after
	// them to the same bits; an error says what in from does not fit. It draws secrets from src.
	Train(ctx context.Context, run protocol.Runner, from Passes, src entropy.Source, passed func(Epoch) error) (*model.Trained, error)
}

// Epoch is the state of a Central after a pass.
type Epoch struct {
	Number int // of the pass, from 1
	Model  model.Predictor
	Save   func() []byte // makes the State from which Train can continue
}

// Passes states after which passes a Central continues. The zero Passes stand for none.
type Passes struct {
	Done  int
	State []byte // saved after them
}

// Baseline is a model, or another run, that a run is compared with.
type Baseline struct {
	Name string // in summary.json
	Note string // what it is, for the summary; "" keeps it out of the table
	// Predict makes it from the ratings in one place, or
	Predict func(protocol.Runner) (model.Predictor, error)
	// Vary makes it a run of its own, with a configuration changed so. Alone has every party train by itself, without dropouts. Or
	Vary  func(*config.Config)
	Alone bool
	// Itself says that it is the run.
	Itself bool
}

// An Instance may satisfy these interfaces too.
type (
	// RoundLossDescriber is an Instance some of whose rounds cannot be repeated.
	RoundLossDescriber interface {
		// Lost says what is lost for good with the round of a step; "" if nothing is.
		Lost(protocol.Step) string
	}
	// Stopper is an Instance that waits for computations outside the process. Stop ends them at once, and what waits for
	// them fails with [context.Canceled].
	Stopper interface{ Stop() }
	// Programmed is an Instance that computes by a program of the user. Program is a digest of its files: an edited program makes
	// another run, whose ε no earlier search paid.
	Programmed interface{ Program() string }
	// LocalNoiser is an Instance whose parties noise their own training.
	LocalNoiser interface {
		// LocalSteps lists the noised steps of a party over the whole run.
		LocalSteps() []LocalSteps
	}
	// StepWatcher is a LocalNoiser whose steps can be watched one by one, for an audit.
	StepWatcher interface {
		LocalNoiser
		// Watch prepares a party's steps of LocalSteps()[kind], by the code that trains. Their data are one unit that moves them as
		// far as it may, if full, or else an empty unit. Each call of the returned function takes a step and returns how far it
		// went towards the unit: in sensitivities, noise of the run's multiplier included.
		Watch(kind int, full bool, src entropy.Source) (func() (float64, error), error)
	}
	// ReleaseLister is an Instance that can send its releases in other forms.
	ReleaseLister interface {
		// Forms lists the words of a key whose traffic is worth a comparison; none if there is only one form.
		Forms() (key *config.Key, words []string)
	}
	// CostReporter is an Instance that fits an encoder to statistics. DP-SGD would go through the encoder for examples.
	CostReporter interface {
		// FitCost compares the two; nil where no encoder is fitted, and in a deployment, where no party has all ratings.
		FitCost() (*FitCost, error)
	}
	// ClipReporter is an Instance whose vectors may be beyond the bounds of their release, and are clipped to them.
	ClipReporter interface {
		Clipped() Clipped
	}
	// SummaryDescriber is an Instance that adds words of its own to the summary.
	SummaryDescriber interface {
		Words() Words
	}
)

// FitCost compares the cost of fitting an encoder to statistics with the cost of DP-SGD on the same ratings, with as many batches an
// epoch. It counts multiplications, up to constants that are alike. Visits and Ratio follow from exact counts of ratings.
type FitCost struct {
	Batch  int     `json:"batch"`  // items of a gradient step
	Epochs float64 `json:"epochs"` // times that each item is gone through
	Pass   float64 `json:"pass"`   // of the encoder, forward and back for an item
	Visits float64 `json:"visits"` // of an item in an epoch of DP-SGD, which goes through it once a batch that it is in
	Ratio  float64 `json:"ratio"`  // cost of statistics and gradients over the cost of DP-SGD
}

// Clipped counts the vectors of a run, and how many of them were clipped to the bounds of their release. The counts follow from exact
// ratings, and are for the person who simulates.
type Clipped struct {
	Vectors int64 `json:"vectors"`
	Clipped int64 `json:"clipped"`
}

// Words holds an algorithm's own words in the summary. Each may be "".
type Words struct {
	Model     string // the kind of model, besides "this run"
	Shared    string // the model behind predictions of [model.Trained.Shared]
	Untrained string // what is left when every round was skipped
}

// LocalSteps describes steps of a party's training that are noised alike: their number in
// the run, and the L2 sensitivity of one step, in units of the gradient.
type LocalSteps struct {
	Count       int
	Sensitivity float64
}

// SingleOrganisation reports whether the run has one party, and the party is an organisation.
func SingleOrganisation(c config.Config) bool {
	return Of(c).About().Clients.Organisations() && Parties.Chosen(c) == 1
}

// Files gives access to the model of a finished run in its folder.
type Files interface {
	// Matrix reads a matrix of finite numbers, which must have the given size; cols below 0: any number of columns.
	Matrix(name string, rows, cols int) (*model.Matrix, error)
	// Has reports whether there is a matrix of a name.
	Has(name string) bool
	// Mean returns the mean to which predictions are added; nil if the summary has none.
	Mean() *float64
	// Train returns the ratings that the run was trained on, by user.
	Train() *dataset.Rows
	// Features returns the features that the parties of a deployment agreed on; nil if
	// there are none, or if they are read again from the data.
	Features() *dataset.ItemFeatures
}

// ItemCounts names the matrix of how often items are rated, one number in a row, by counts that a run released. Lists
// are in the order of these counts and more.
const ItemCounts = "item_counts"

// Saved is a model that was read.
type Saved struct {
	Items *model.Matrix // an embedding a row, for likeness
	// Score writes the expected rating of every item by a user. With implicit feedback it
	// writes a number per item of which only the order counts.
	Score func(user int, out []float64)
	// Order turns scores of all items into scores that order lists, by the items that the user rated,
	// ascending. NaN stays NaN. nil: Score orders them.
	Order func(history []int32, scores []float64)
	// Failed returns why Score failed, and then wrote NaN; nil for a model that cannot fail.
	Failed func() error
	// Popularity holds the model's score of every item for a user without known ratings, in the unit of Score;
	// NaN for an item that the model does not know. It is nil for a model that does not say which items are liked most.
	Popularity []float64
}

// PopularityOf returns the scores of all items if two of them differ, and nil if they order nothing.
func PopularityOf(scores []float64) []float64 {
	first := math.NaN()
	for _, x := range scores {
		switch {
		case math.IsNaN(x):
		case math.IsNaN(first):
			first = x
		case x != first:
			return scores
		}
	}
	return nil
}

// Loader is an Algorithm whose finished runs can be asked for recommendations.
type Loader interface {
	Load(c config.Config, set *dataset.Set, files Files) (*Saved, error)
}

// NonPrivate returns the baseline of the same run without noise. vary may be nil; else it gives the run settings for training
// without noise, and own names them. A run without noise is its own baseline.
func NonPrivate(s *Setup, own string, vary func(*config.Config)) Baseline {
	b := Baseline{Name: "non_private", Itself: !s.Private()}
	if b.Itself {
		return b
	}
	b.Note = "these settings without noise"
	if vary != nil {
		b.Note += " (own " + own + ")"
	}
	b.Vary = func(c *config.Config) {
		Epsilon.Set(c, math.Inf(1))
		Noise.Set(c, "none")
		if vary != nil {
			vary(c)
		}
	}
	return b
}
