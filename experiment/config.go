// Package experiment is what a run is made from and what it leaves behind: the
// experiment file with its defaults and checks ([Config]), the federation built
// of it ([Experiment]), what is known of the run before it ([Forecast]), the quality
// that is measured beside the baselines, and the run's folder ([Folder]).
//
// It knows neither the simulator nor a network: a command hands its
// Federation to one of them and the outcome back to a Folder.
//
// A deployment has no place that holds all ratings. What its parties have in common is
// [Public]: the server publishes it, and each party opens the same experiment from it
// ([OpenPublic]), which makes the server's side, says what the sums, the ledgers and the
// final statement go by, and adds a party's own data ([Experiment.Party]). All of it
// follows again from the configuration and from facts that are public; nobody is
// believed.
package experiment

import (
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf"
)

// Config is an experiment, with the same names as the flags of the command and
// the keys of the file. Defaults returns a complete one.
type Config struct {
	Algorithm Algorithm `yaml:"algorithm"`
	Data      string    `yaml:"data"`
	RatingMin Number    `yaml:"rating-min"`
	RatingMax Number    `yaml:"rating-max"`

	Epsilon    Number `yaml:"epsilon"`
	Delta      Number `yaml:"delta"`
	Unit       string `yaml:"unit"`
	Accountant string `yaml:"accountant"`
	Noise      string `yaml:"noise"`
	NoiseDraw  string `yaml:"noise-draw"`
	Secagg     string `yaml:"secagg"`
	Mode       string `yaml:"mode"`

	Rounds Number `yaml:"rounds"`
	Rank   Number `yaml:"rank"`

	Features string `yaml:"features"`
	Feedback string `yaml:"feedback"`

	Contribution string `yaml:"contribution"`
	ClipNorm     Number `yaml:"clip-norm"`

	Parties      Number  `yaml:"parties"`
	Partition    string  `yaml:"partition"`
	LocalSteps   Number  `yaml:"local-steps"`
	ItemSteps    int     `yaml:"item-steps"`
	SamplingRate float64 `yaml:"sampling-rate"`
	ClipRatings  Number  `yaml:"clip-ratings"`
	Clipping     string  `yaml:"clipping"`
	Train        string  `yaml:"train"`

	Dropout    Number  `yaml:"dropout"`
	DropoutAt  string  `yaml:"dropout-at"`
	Tolerance  float64 `yaml:"tolerance"`
	Colluders  Number  `yaml:"colluders"`
	SitOut     float64 `yaml:"sit-out"`
	Leave      float64 `yaml:"leave"`
	Away       float64 `yaml:"away"`
	AwayRounds int     `yaml:"away-rounds"`

	Model      Model      `yaml:"model"`
	Statistics Statistics `yaml:"statistics"`
	Encoder    Encoder    `yaml:"encoder"`
	CMF        Collective `yaml:"cmf"`
	Split      Split      `yaml:"split"`
	Network    Network    `yaml:"network"`
	Deployment Deployment `yaml:"deployment"`

	Baselines string `yaml:"baselines"`

	Seed    uint64 `yaml:"seed"`
	Workers int    `yaml:"workers"`
	Out     string `yaml:"out"`
	Name    string `yaml:"name"`
}

// Model is the part of Config about the factorization.
type Model struct {
	LearningRate Number  `yaml:"learning-rate"`
	UserRate     Number  `yaml:"user-rate"`
	ItemRate     Number  `yaml:"item-rate"`
	Density      Number  `yaml:"density"`
	FineTune     int     `yaml:"fine-tune"`
	FineTuneRate float64 `yaml:"fine-tune-rate"`
	LocalPasses  int     `yaml:"local-passes"`
	StartMean    Number  `yaml:"start-mean"`
	StartSpread  float64 `yaml:"start-spread"`
	FitSteps     int     `yaml:"fit-steps"`
	FitRidge     float64 `yaml:"fit-ridge"`
	Epochs       int     `yaml:"epochs"`
}

// Split is the part of Config about training and test ratings.
type Split struct {
	Test       float64 `yaml:"test"`
	Validation float64 `yaml:"validation"`
	// Positive is the fewest stars that count as liked, with implicit feedback.
	Positive Number `yaml:"positive"`
}

// Network is the part of Config about the simulated connections.
type Network struct {
	LatencyMS    float64 `yaml:"latency-ms"`
	UpMbps       float64 `yaml:"up-mbps"`
	DownMbps     float64 `yaml:"down-mbps"`
	ComputeMS    float64 `yaml:"compute-ms"`
	StageTimeout float64 `yaml:"stage-timeout-s"`
}

// Deployment is the part of Config about a federation on separate machines; a
// simulation has no use for it.
type Deployment struct {
	// StageTimeout is how many seconds the aggregator waits in a stage for clients
	// that do not answer: what network.stage-timeout-s is to a simulation.
	StageTimeout float64 `yaml:"stage-timeout-s"`
	// Gather is for how many seconds at the most the first iteration waits for all
	// clients to be there. After that it begins with those who are, if they are enough.
	Gather float64 `yaml:"gather-s"`
}

// Defaults is the experiment that runs when nothing is said, with the reason for
// each value. What auto stands for depends on algorithm, data and noise: see
// rate.go, and choose in experiment.go.
func Defaults() Config {
	return Config{
		Algorithm: LFLSGDMF,
		// Needs no download. At MovieLens 1M's shape, 6,040 users cooperate:
		// with the few hundred of a small set the noise of any ε below 100
		// drowns what they could learn of thousands of items.
		Data:      "synthetic",
		RatingMin: Auto, // the scale of the format, public
		RatingMax: Auto,

		Epsilon:    Auto,   // 10 with noise, inf without: see defaultEpsilon
		Delta:      Auto,   // the smaller of 1e-5 and a tenth of 1/units
		Unit:       "auto", // user; of vfl-sgdmf rating
		Accountant: "auto", // rdp for Skellam noise, pld for sampled Gaussian: the tightest proved one
		Noise:      "auto", // split where ε is finite: the published scheme leaks; own of organisations
		NoiseDraw:  "auto", // sum, the same law at a cost that does not grow with clients; client of real sums
		Secagg:     "ideal",
		Mode:       "semi-honest",

		Rounds: Auto, // 10 of devices, which talk rarely (FMF paper, section 6.3); 100 of organisations (4.3)
		Rank:   Auto, // see defaultRank

		Features: "auto", // genres and decades, as far as the set has them, where they are used
		Feedback: "explicit",

		Contribution: string(fedmf.OneRating), // the paper's algorithm is what lfl-sgdmf names
		ClipNorm:     Auto,                    // see clipNorm

		Parties:      Auto,     // 10 organisations (FMF paper, section 4.3)
		Partition:    "random", // needs no categories
		LocalSteps:   Auto,     // 10 (FMF paper, section 4.3); 1 of hfl-synsgd
		SamplingRate: 0.05,     // the paper's 0.01 needs more noise than it saves time
		ClipRatings:  Auto,     // see clipRatings: 10, 5 or 2 (FMF paper, sections 4.3 and 5.3)
		Clipping:     string(fedmf.EmbeddingClipping),
		Train:        "auto", // users, then items; both of hfl-synsgd, as the paper has it

		Dropout:    Auto, // 0.1 of devices: phones do drop out; 0 of organisations
		DropoutAt:  "any",
		Tolerance:  0.3,  // FMF paper, section 6.3
		Colluders:  Auto, // 0.05: one client in twenty may help the aggregator; 0 of one alone
		SitOut:     0,    // nobody is left out for the sake of fewer exchanges
		AwayRounds: 3,    // takes effect with away only

		Model: Model{
			LearningRate: Auto, // by the noise: see learningRate
			UserRate:     Auto, // likewise: see siloRates
			ItemRate:     Auto,
			Density:      Auto, // by the published counts of the data set, else 0.01
			FineTune:     5,    // best for parties of 15 to 600 users; more overfits
			FineTuneRate: 0.01,
			LocalPasses:  5,    // of local_only: likewise
			StartMean:    Auto, // 0.7 of the scale's top: public, 3.5 stars of 5
			StartSpread:  0.01, // enough to let ranks differ, too little to be seen in the error
			FitSteps:     50,   // converged for the ranks that noise allows
			FitRidge:     1,    // a user with one rating is believed half: cold users do not overfit
			Epochs:       30,   // of sgd-mf: more overfit the small sets
		},
		Statistics: Statistics{Gramian: "auto", Budgeting: "auto", BiasFirst: "auto", Priors: "auto", Loss: "auto"}, // see statistics
		Encoder: Encoder{
			Dense: no,                                                                                      // layers cost more to learn through noise than they give
			IDs:   "auto", StartNorm: Auto, Optimiser: "auto", Rate: Auto, Decay: "cosine", WarmStart: yes, // see chooseByNoise
		},
		CMF:        Collective{FeatureWeight: Auto, FeatureRidge: 0.1, Unobserved: 0.1, Sweeps: 5}, // likewise
		Split:      Split{Test: 0.1},                                                               // FMF paper, section 4.3
		Network:    Network{LatencyMS: 50, UpMbps: 10, DownMbps: 50, ComputeMS: 1000, StageTimeout: 60},
		Deployment: Deployment{StageTimeout: 60, Gather: 600}, // time to start ten machines by hand

		Baselines: "all",

		Seed: 1,
		Out:  "runs",
	}
}

// defaultEpsilon is a budget at which LFL-SGDMF on the default data beats what
// the same users reach without cooperating by more than the deviation over seeds.
const defaultEpsilon = 10

// defaultClipNorm is C where a user's gradient is clipped: 2 to 10 end within
// 0.004 of one another with all-ratings.
const defaultClipNorm = 5

// The methods below are the configuration's own choices where it says auto and
// no data is needed to choose.

// epsilon is the budget.
func (c Config) epsilon() float64 {
	if c.Algorithm.private() && c.Noise != "none" {
		return c.Epsilon.Or(defaultEpsilon)
	}
	return c.Epsilon.Or(math.Inf(1))
}

// Private reports whether the experiment promises a finite ε.
func (c Config) Private() bool { return !math.IsInf(c.epsilon(), 1) }

// unit is what is protected.
func (c Config) unit() dp.Unit {
	switch {
	case c.Unit != "auto":
		return dp.Unit(c.Unit)
	case c.Algorithm.vertical():
		return dp.Rating
	default:
		return dp.User
	}
}

// accountant is who states ε.
func (c Config) accountant() dp.Accountant {
	switch {
	case c.Accountant != "auto":
		return dp.Accountant(c.Accountant)
	case c.Algorithm.Organisations():
		return dp.PLD
	default:
		return dp.RDP
	}
}

// noise is where the noise comes from when there is any.
func (c Config) noise() string {
	if c.Algorithm.Organisations() {
		return "own"
	}
	return "split"
}

// rounds is T, of sums of statistics outer steps.
func (c Config) rounds() int {
	switch {
	case c.biasOnly():
		return 0
	case c.Rounds.Given:
		return int(c.Rounds.Value)
	case c.Algorithm.statistical():
		return c.outerSteps()
	case c.Algorithm == HFLSynSGD:
		return 1000
	case c.Algorithm.Organisations():
		return 100
	default:
		return 10
	}
}

// localSteps is T'.
func (c Config) localSteps() int {
	if c.Algorithm == HFLSynSGD {
		return int(c.LocalSteps.Or(1))
	}
	return int(c.LocalSteps.Or(10))
}

// dropout is the chance of a client to be lost in an iteration.
func (c Config) dropout() float64 {
	if c.Algorithm.Organisations() {
		return c.Dropout.Or(0)
	}
	return c.Dropout.Or(0.1)
}

// colluders is γ.
func (c Config) colluders() float64 {
	if c.Algorithm.Organisations() && c.parties() == 1 {
		return c.Colluders.Or(0)
	}
	return c.Colluders.Or(0.05)
}

// parties is s, where parties are organisations.
func (c Config) parties() int { return int(c.Parties.Or(10)) }

// clipNorm is C.
func (c Config) clipNorm() float64 { return c.ClipNorm.Or(defaultClipNorm) }

// clipRatings is θ; 0 where nothing is trimmed. Where a user's whole gradient is
// clipped trimming would only lose ratings.
func (c Config) clipRatings() int {
	if c.unit() == dp.Rating || c.Clipping != string(fedmf.EmbeddingClipping) {
		return int(c.ClipRatings.Or(0))
	}
	switch s := c.parties(); {
	case s == 1 || c.Algorithm.horizontal():
		return int(c.ClipRatings.Or(10))
	case s <= 10:
		return int(c.ClipRatings.Or(5))
	default:
		return int(c.ClipRatings.Or(2))
	}
}
