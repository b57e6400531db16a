// Package forecast computes the plan of an experiment before it runs: its releases, assumptions,
// privacy and cost. fedsim plan prints it.
package forecast

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Forecast is the plan of a run. Everything follows from the configuration and from the size of the data; nothing is
// trained, drawn or sent. fedsim plan prints it as JSON.
type Forecast struct {
	Algorithm string       `json:"algorithm"`
	Rounds    int          `json:"rounds"` // rounds to attempt; passes for sgd-mf
	Data      DataForecast `json:"data"`
	// Uncovered names the fields that follow from the ratings exactly, in JSON with dots between. The statement of privacy
	// does not cover them: show them only to owners of the ratings.
	Uncovered []string `json:"uncovered,omitempty"`
	Secagg    string   `json:"secagg"` // as in the summary of the run
	Noise     string   `json:"noise"`

	// CohortForecast is set for the federated algorithms only.
	Cohort   *CohortForecast   `json:"cohort,omitempty"`
	Graph    *GraphForecast    `json:"graph,omitempty"` // for a real sum
	Releases []ReleaseForecast `json:"releases,omitempty"`
	Bytes    *BytesForecast    `json:"bytes_per_client,omitempty"`
	// Forms compares forms of the statistics, for algorithms that sum them.
	Forms  []FormForecast  `json:"gramian_forms,omitempty"`
	Memory *MemoryForecast `json:"aggregator_memory_bytes,omitempty"`
	// Encoder is the server's cost of fitting an encoder, for algorithms with an encoder.
	Encoder *algorithm.FitCost `json:"encoder,omitempty"`

	// Calibration is the cost of a simulation on this machine, if trials were timed.
	Calibration *Calibration `json:"effort,omitempty"`

	// Privacy is the statement of a run in which every attempt is charged in full.
	Privacy dp.Statement `json:"privacy"`

	// Sessions is set by the caller, for the first of several sessions.
	Sessions *SessionsForecast `json:"sessions,omitempty"`

	Released  dp.Problem `json:"-"` // what Privacy covers
	Observers string     `json:"-"` // the parties that Privacy protects a unit from
}

// DataForecast describes the data of the run.
type DataForecast struct {
	Name              string `json:"name"`
	Users             int    `json:"users"`
	Items             int    `json:"items"`
	Features          int    `json:"features,omitempty"` // for a regression: columns of the profile; users are its examples
	TrainingRatings   int    `json:"training_ratings"`
	TestRatings       int    `json:"test_ratings"`
	ValidationRatings int    `json:"validation_ratings"`
	// PublicUsers counts the users whose ratings are public, and in no other count; nothing protects these ratings.
	PublicUsers   int `json:"public_users,omitempty"`
	PublicRatings int `json:"public_ratings,omitempty"`
}

// Public returns the forecast without the fields that no statement of privacy covers.
func (d DataForecast) Public() DataForecast {
	d.TrainingRatings, d.TestRatings, d.ValidationRatings = 0, 0, 0
	return d
}

// uncovered returns the counts of ratings. It returns none for a published set, or if only labels
// are private and the set of users with a label is public.
func (e builder) uncovered() []string {
	if algorithm.FactsOf(e.Data).Published > 0 || !e.Private() || algorithm.UnitOf(e.Config) == dp.Example {
		return nil
	}
	return []string{"data.training_ratings", "data.test_ratings", "data.validation_ratings"}
}

// CohortForecast counts the clients of a round, and how many may be lost or collude.
type CohortForecast struct {
	Clients int `json:"clients"` // N
	// If clients take turns: the number of clients to choose from, the number that a round
	// continues with (the base of Lost), and the largest number of rounds that ask one client.
	Enrolled  int `json:"enrolled,omitempty"`
	Goal      int `json:"goal,omitempty"`
	Turns     int `json:"turns,omitempty"`
	Lost      int `json:"lost"`      // ⌊ωN⌋ of them may be lost
	Required  int `json:"required"`  // the others, ⌈(1-ω)N⌉
	Colluding int `json:"colluding"` // ⌈γN⌉ may collude
	// Exchanges counts the messages between the aggregator and a client in a round that was set up in the round before,
	// SetupExchanges those if the client is set up first.
	Exchanges      int `json:"exchanges"`
	SetupExchanges int `json:"setup_exchanges"`
}

// GraphForecast is the graph of a round with all N clients on its roster ([secagg.GraphParams]):
// every roster has its own degree and threshold.
type GraphForecast struct {
	Mode      string `json:"mode"`
	Clients   int    `json:"clients"`
	Complete  bool   `json:"complete"`
	Degree    int    `json:"degree"`    // k, neighbours of a client
	Threshold int    `json:"threshold"` // t neighbours restore a client's secret

	Colluding Chance `json:"colluding"` // that colluders open a client's secrets
	Cut       Chance `json:"cut"`       // that the graph of the honest survivors is cut
	Starved   Chance `json:"starved"`   // that a sum is lost although no more clients were lost than allowed
}

// Chance is an upper bound of a probability, in a round and over the run, beside its limits.
type Chance struct {
	Round      float64 `json:"round"`
	RoundLimit float64 `json:"round_limit"`
	Run        float64 `json:"run"`
	RunLimit   float64 `json:"run_limit"`
}

// ReleaseForecast describes a vector whose sum a round releases.
type ReleaseForecast struct {
	// Phase and Rounds say in which rounds, if rounds differ.
	Phase  string `json:"phase,omitempty"`
	Rounds int    `json:"rounds,omitempty"`

	Name  string  `json:"name"`
	Len   int     `json:"length"`
	Width uint8   `json:"ring_bits"`
	Scale float64 `json:"scale"` // integers per unit of the values

	// Bounds on a client's vector that hold by construction, null if there are only the bounds that
	// follow from others; and its sensitivities in integers.
	L2         float64  `json:"l2"`
	L1         *float64 `json:"l1"`
	LInf       *float64 `json:"linf"`
	MaxNonZero int      `json:"max_non_zero"`
	// Sensitivity bounds the distance by which one unit of privacy moves the vector, if it is less than the norm.
	Sensitivity *float64 `json:"sensitivity,omitempty"`
	IntegerL2   float64  `json:"integer_l2"`
	IntegerL1   float64  `json:"integer_l1"`

	Noise  NoiseForecast  `json:"noise"`
	Unseen UnseenForecast `json:"unseen"`
}

// UnseenForecast bounds the attacks that the server cannot detect. It accepts sums up to these
// bounds, in units of the values, with no client lost before the masked input and as many lost
// after it as allowed. One client that lies about its vector shifts a sum by as much if the others'
// sum is about zero, and by less than twice as much in every case. A sum beyond the bounds is
// refused.
type UnseenForecast struct {
	Coordinate float64 `json:"coordinate"`
	L2         float64 `json:"l2"`
	// CoordinateClients is Coordinate in multiples of one honest client's largest part.
	CoordinateClients float64 `json:"coordinate_clients"`
	L2Clients         float64 `json:"l2_clients"`
	// Proved: inputs are verified. A client then changes a sum by the vector that it proves, and by the noise that it takes back.
	Proved bool `json:"proved,omitempty"`
}

// NoiseForecast is the noise of a release, per coordinate, without the fields that its kind lacks.
type NoiseForecast struct {
	Kind string `json:"kind"`

	// For noise that clients add in shares: the variance of the noise that stays in the sum, in
	// integers and in units of the values, and the variance of a client's share in integers.
	Variance      float64 `json:"variance,omitempty"`
	ValueVariance float64 `json:"value_variance,omitempty"`
	ShareVariance float64 `json:"share_variance,omitempty"`

	// For parties' own noise: its deviation in sensitivities, the rate of the samples that it
	// hides, and the steps of a party in the whole run.
	Multiplier   float64      `json:"multiplier,omitempty"`
	SamplingRate float64      `json:"sampling_rate,omitempty"`
	Steps        []LocalSteps `json:"steps,omitempty"`
}

// LocalSteps are steps of a party's training with equal noise, in units of the gradient.
type LocalSteps struct {
	Count       int     `json:"count"`
	Sensitivity float64 `json:"sensitivity"`
	Variance    float64 `json:"variance"`
}

type builder struct{ *experiment.Experiment }

// New returns the forecast of an experiment.
func New(x *experiment.Experiment) (*Forecast, error) {
	e := builder{x}
	spent, err := e.Planned()
	if err != nil {
		return nil, err
	}
	f := &Forecast{
		Algorithm: e.About().Name, Uncovered: e.uncovered(), Secagg: "none", Noise: algorithm.Noise.Of(e.Config), Privacy: e.Statement(spent), Released: e.Released(), Observers: e.Observers(),
		Data: DataForecast{
			Name: e.Data.Name, Users: e.Data.Users, Items: e.Data.Items, TrainingRatings: e.Split.Train.Len(),
			TestRatings: e.Split.Test.Len(), ValidationRatings: e.Split.Validation.Len(),
		},
	}
	if r := e.Data.Raters; r != nil {
		f.Data.PublicUsers, f.Data.PublicRatings = r.Users, r.Len()
	}
	if profile := e.Data.Profile; profile != nil {
		f.Data.Features = profile.Features()
	}
	if c, ok := e.Instance().(algorithm.Central); ok {
		f.Rounds = c.Epochs()
		return f, nil
	}
	f.Rounds, f.Secagg = e.Schedule.Rounds(), algorithm.Secagg.Of(e.Config)
	f.Cohort = e.cohortForecast()
	if sums := e.Sums; sums != nil { // the graph follows from the cohort, so all rounds have it
		f.Graph = graphForecast(e.Mode(), e.Cohort.Wanted(), sums[0].Choice, f.Rounds)
	}
	f.Releases = e.releaseForecasts()
	f.Bytes = e.bytesForecast()
	f.Memory = e.memoryForecast(true)
	if f.Forms, err = e.forms(); err != nil {
		return nil, err
	}
	if c, ok := e.Instance().(algorithm.CostReporter); ok {
		f.Encoder, err = c.FitCost()
		if f.Encoder != nil && len(f.Uncovered) > 0 {
			f.Uncovered = append(f.Uncovered, "encoder.visits", "encoder.ratio")
		}
	}
	return f, err
}

func (e builder) cohortForecast() *CohortForecast {
	n := e.Cohort
	f := &CohortForecast{Clients: n.Clients, Lost: n.Wanted() - n.Required(), Required: n.Required(), Colluding: n.Colluding(), Exchanges: 3}
	if e.Mode() == secagg.Active {
		f.Exchanges++
	}
	if algorithm.Flow(e.Config).Replaces {
		f.Exchanges++
	}
	f.SetupExchanges = f.Exchanges + 2
	if n.Enrolled > 0 {
		f.Enrolled, f.Goal, f.Turns = n.Enrolled, n.Goal, e.Statement(dp.Result{}).Turns
		f.Exchanges = f.SetupExchanges // nothing is set up ahead
	}
	return f
}

// releaseForecasts returns the releases of all steps, or of one step if all rounds are equal.
func (e builder) releaseForecasts() (list []ReleaseForecast) {
	for step, r := range e.Schedule.All() {
		f := e.releaseForecast(*r)
		f.Unseen = e.unseenForecast(len(step.Releases), *r)
		if e.Schedule.Uniform() {
			return []ReleaseForecast{f}
		}
		f.Phase, f.Rounds = step.Phase, step.Rounds
		list = append(list, f)
	}
	return list
}

func graphForecast(m secagg.Mode, clients int, c secagg.GraphChoice, rounds int) *GraphForecast {
	// The bounds of a run are union bounds: rounds times the bounds of a round.
	chance := func(b secagg.FailureBound) Chance {
		return Chance{Round: b.Achieved / float64(rounds), RoundLimit: b.Limit / float64(rounds), Run: b.Achieved, RunLimit: b.Limit}
	}
	return &GraphForecast{
		Mode: m.String(), Clients: clients, Complete: c.Complete, Degree: c.Degree, Threshold: c.Threshold,
		Colluding: chance(c.Colluding), Cut: chance(c.Cut), Starved: chance(c.Starved),
	}
}

func (e builder) releaseForecast(r protocol.Release) ReleaseForecast {
	known := func(bound float64) *float64 {
		if bound == 0 {
			return nil
		}
		return &bound
	}
	f := ReleaseForecast{
		Name: r.Name, Len: r.Len, Width: r.Width, Scale: r.Scale,
		L2: r.L2, L1: known(r.L1), LInf: known(r.LInf), Sensitivity: known(r.Sensitivity), MaxNonZero: r.MaxNonZero,
		Noise: NoiseForecast{Kind: r.Noise.Kind.String()},
	}
	f.IntegerL2, f.IntegerL1 = r.Bounds()
	n := &f.Noise
	switch r.Noise.Kind {
	case protocol.NoNoise:
	case protocol.PartyNoise:
		n.Multiplier, n.SamplingRate = r.Noise.Multiplier, r.Noise.SamplingRate
		if l, ok := e.Instance().(algorithm.LocalNoiser); ok {
			for _, s := range l.LocalSteps() {
				deviation := n.Multiplier * s.Sensitivity
				n.Steps = append(n.Steps, LocalSteps{Count: s.Count, Sensitivity: s.Sensitivity, Variance: deviation * deviation})
			}
		}
	case protocol.Split, protocol.TwoRound, protocol.LocalNoise:
		n.Variance = r.Noise.Variance
		n.ValueVariance = r.Noise.Variance / (r.Scale * r.Scale)
		n.ShareVariance = r.Noise.Share(e.Cohort)
	}
	return f
}

// unseenForecast returns the bounds for one of several releases of a round, the last of the run.
func (e builder) unseenForecast(releases int, r protocol.Release) UnseenForecast {
	p := protocol.Plan{Round: uint64(e.Schedule.Rounds()), Cohort: e.Cohort, Releases: make([]protocol.Release, releases)}
	reach := p.HonestSumBound(r, e.Cohort.Wanted(), e.Cohort.Required())
	if e.VerifiesInputs() {
		linf, l2 := p.InputBound(r, e.Schedule.Rounds())
		if r.Noise.Kind == protocol.Split {
			removal, norm := p.RemovalBound(r, e.Schedule.Rounds(), e.Cohort.Wanted())
			linf, l2 = linf+removal, l2+norm
		}
		reach.LInf, reach.L2 = min(reach.LInf, linf), min(reach.L2, l2)
	}
	f := UnseenForecast{Coordinate: reach.LInf / r.Scale, L2: reach.L2 / r.Scale, L2Clients: reach.L2 / reach.Client.L2, Proved: e.VerifiesInputs()}
	if reach.Client.LInf > 0 {
		f.CoordinateClients = reach.LInf / reach.Client.LInf
	}
	return f
}
