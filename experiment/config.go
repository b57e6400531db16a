// Package experiment is what a run is made from and what it leaves behind: the
// experiment file with its defaults and checks ([Config]), the federation built
// of it ([Experiment]), the quality that is measured beside the baselines, and the
// run's folder ([Folder]).
//
// It knows neither the simulator nor a network: a command hands its
// Federation to one of them and the outcome back to a Folder.
package experiment

import "github.com/fedsim/fedsim/fedmf"

// Algorithm names a way to train.
type Algorithm string

const (
	// LFLSGDMF is matrix factorization with one client per user, secure sums
	// and distributed noise (FMF paper, section 6).
	LFLSGDMF Algorithm = "lfl-sgdmf"
	// FMFLFL is the same without noise.
	FMFLFL Algorithm = "fmf-lfl"
	// SGDMF is matrix factorization on all ratings in one place, without
	// privacy: what cooperation without any restraint would reach.
	SGDMF Algorithm = "sgd-mf"
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

	Rounds int    `yaml:"rounds"`
	Rank   Number `yaml:"rank"`

	Contribution string  `yaml:"contribution"`
	ClipNorm     float64 `yaml:"clip-norm"`

	Dropout    float64 `yaml:"dropout"`
	DropoutAt  string  `yaml:"dropout-at"`
	Tolerance  float64 `yaml:"tolerance"`
	Colluders  float64 `yaml:"colluders"`
	Leave      float64 `yaml:"leave"`
	Away       float64 `yaml:"away"`
	AwayRounds int     `yaml:"away-rounds"`

	Model   Model   `yaml:"model"`
	Split   Split   `yaml:"split"`
	Network Network `yaml:"network"`

	Seed    uint64 `yaml:"seed"`
	Workers int    `yaml:"workers"`
	Out     string `yaml:"out"`
	Name    string `yaml:"name"`
}

// Model is the part of Config about the factorization.
type Model struct {
	LearningRate Number  `yaml:"learning-rate"`
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
}

// Network is the part of Config about the simulated connections.
type Network struct {
	LatencyMS    float64 `yaml:"latency-ms"`
	UpMbps       float64 `yaml:"up-mbps"`
	DownMbps     float64 `yaml:"down-mbps"`
	ComputeMS    float64 `yaml:"compute-ms"`
	StageTimeout float64 `yaml:"stage-timeout-s"`
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
		Delta:      Auto,   // the smaller of 1e-5 and a tenth of 1/users
		Unit:       "user", // LFL clients are users
		Accountant: "rdp",  // the proved one
		Noise:      "auto", // split where ε is finite: the published scheme leaks
		NoiseDraw:  "sum",  // the same law at a cost that does not grow with clients
		Secagg:     "ideal",

		Rounds: 10,   // FMF paper, section 6.3: devices talk rarely
		Rank:   Auto, // see defaultRank

		Contribution: string(fedmf.OneRating), // the paper's algorithm is what lfl-sgdmf names
		ClipNorm:     5,                       // of all-ratings only; 2 to 10 end within 0.004 of one another

		Dropout:    0.1, // phones do drop out
		DropoutAt:  "any",
		Tolerance:  0.3,  // FMF paper, section 6.3
		Colluders:  0.05, // one client in twenty may help the aggregator
		AwayRounds: 3,    // takes effect with away only

		Model: Model{
			LearningRate: Auto, // by the noise: see learningRate
			StartMean:    Auto, // 0.7 of the scale's top: public, 3.5 stars of 5
			StartSpread:  0.01, // enough to let ranks differ, too little to be seen in the error
			FitSteps:     50,   // converged for the ranks that noise allows
			FitRidge:     1,    // a user with one rating is believed half: cold users do not overfit
			Epochs:       30,   // of sgd-mf: more overfit the small sets
		},
		Split:   Split{Test: 0.1}, // FMF paper, section 4.3
		Network: Network{LatencyMS: 50, UpMbps: 10, DownMbps: 50, ComputeMS: 1000, StageTimeout: 60},

		Seed: 1,
		Out:  "runs",
	}
}

// defaultEpsilon is a budget at which LFL-SGDMF on the default data beats what
// the same users reach without cooperating by more than the deviation over seeds.
const defaultEpsilon = 10
