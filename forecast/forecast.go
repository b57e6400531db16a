// Package forecast says what an experiment would do, what it would rest on and what it
// would take, before anything runs: what fedsim plan prints.
package forecast

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Forecast is what a run would do, what it would rest on and what it would take,
// known before it. Everything follows from the configuration and from how much
// data there is; nothing is trained, drawn or sent. Its JSON is what fedsim plan
// prints.
type Forecast struct {
	Algorithm string       `json:"algorithm"`
	Rounds    int          `json:"rounds"` // rounds to attempt; of sgd-mf passes
	Data      DataForecast `json:"data"`
	// Uncovered are the fields that follow from the ratings exactly, by their names in JSON with
	// dots between. The statement of privacy does not cover them: they are for whoever has the
	// ratings.
	Uncovered []string `json:"uncovered,omitempty"`
	Secagg    string   `json:"secagg"` // as in the summary of the run
	Noise     string   `json:"noise"`

	// Of the federated algorithms only.
	Cohort   *CohortForecast   `json:"cohort,omitempty"`
	Graph    *GraphForecast    `json:"graph,omitempty"` // of a real sum
	Releases []ReleaseForecast `json:"releases,omitempty"`
	Bytes    *BytesForecast    `json:"bytes_per_client,omitempty"`
	// Forms compares forms of the statistics, of algorithms that sum them.
	Forms  []FormForecast  `json:"gramian_forms,omitempty"`
	Memory *MemoryForecast `json:"aggregator_memory_bytes,omitempty"`
	// Encoder is what fitting one costs the server, of algorithms that do.
	Encoder *algorithm.FitCost `json:"encoder,omitempty"`

	// Calibration is what a simulation takes on this machine, where it was tried out.
	Calibration *Calibration `json:"effort,omitempty"`

	// Privacy is the statement that the run ends with if every attempt is charged
	// in full.
	Privacy dp.Statement `json:"privacy"`

	samplerError float64
}

// DataForecast is what the run takes of the data.
type DataForecast struct {
	Name              string `json:"name"`
	Users             int    `json:"users"`
	Items             int    `json:"items"`
	Features          int    `json:"features,omitempty"` // of a regression: columns of the profile; users are its examples
	TrainingRatings   int    `json:"training_ratings"`
	TestRatings       int    `json:"test_ratings"`
	ValidationRatings int    `json:"validation_ratings"`
	// PublicUsers left the set, and PublicRatings of theirs are public: nothing protects them.
	PublicUsers   int `json:"public_users,omitempty"`
	PublicRatings int `json:"public_ratings,omitempty"`
}

// Public is the forecast without what no statement of privacy covers.
func (d DataForecast) Public() DataForecast {
	d.TrainingRatings, d.TestRatings, d.ValidationRatings = 0, 0, 0
	return d
}

// uncovered are the counts of ratings, unless they are of a set that everybody has, or only labels are private and who has
// one is public.
func (e builder) uncovered() []string {
	if algorithm.FactsOf(e.Data).Published > 0 || !e.Private() || algorithm.UnitOf(e.Config) == dp.Example {
		return nil
	}
	return []string{"data.training_ratings", "data.test_ratings", "data.validation_ratings"}
}

// CohortForecast is who takes part, and what is assumed of them in a round.
type CohortForecast struct {
	Clients int `json:"clients"` // N
	// Of clients that take turns: of how many, how many of them a round goes on with, which is what may be lost is of,
	// and for how many rounds one is asked at the most.
	Enrolled  int `json:"enrolled,omitempty"`
	Goal      int `json:"goal,omitempty"`
	Turns     int `json:"turns,omitempty"`
	Lost      int `json:"lost"`      // ⌊ωN⌋ of them may be
	Required  int `json:"required"`  // the others, ⌈(1-ω)N⌉
	Colluding int `json:"colluding"` // ⌈γN⌉ may be
	// Exchanges of the aggregator with a client in a round: of one that was set
	// up in the course of the round before, and of one that sets up first.
	Exchanges      int `json:"exchanges"`
	SetupExchanges int `json:"setup_exchanges"`
}

// GraphForecast is the graph of a round with all N clients on its roster
// (package graph): every roster has its own degree and threshold.
type GraphForecast struct {
	Mode      string `json:"mode"`
	Clients   int    `json:"clients"`
	Complete  bool   `json:"complete"`
	Degree    int    `json:"degree"`    // k, neighbours of a client
	Threshold int    `json:"threshold"` // t of them restore a client's secret

	Colluding Chance `json:"colluding"` // colluders open a client's secrets
	Cut       Chance `json:"cut"`       // the graph of the honest survivors is cut
	Starved   Chance `json:"starved"`   // a sum is lost although no more clients were than may be
}

// Chance is an upper bound of a probability, in a round and over the run,
// beside the limits that it must stay below.
type Chance struct {
	Round      float64 `json:"round"`
	RoundLimit float64 `json:"round_limit"`
	Run        float64 `json:"run"`
	RunLimit   float64 `json:"run_limit"`
}

// ReleaseForecast is one vector that a round releases the sum of.
type ReleaseForecast struct {
	// Phase and Rounds say in which rounds, where not all are alike.
	Phase  string `json:"phase,omitempty"`
	Rounds int    `json:"rounds,omitempty"`

	Name  string  `json:"name"`
	Len   int     `json:"length"`
	Width uint8   `json:"ring_bits"`
	Scale float64 `json:"scale"` // integers to a unit of the values

	// Bounds on a client's vector that hold by construction, null where none but
	// what follows from the others; and its sensitivities in integers.
	L2         float64  `json:"l2"`
	L1         *float64 `json:"l1"`
	LInf       *float64 `json:"linf"`
	MaxNonZero int      `json:"max_non_zero"`
	// Sensitivity is how far one unit of privacy moves the vector, where that is less than all of it.
	Sensitivity *float64 `json:"sensitivity,omitempty"`
	IntegerL2   float64  `json:"integer_l2"`
	IntegerL1   float64  `json:"integer_l1"`

	Noise  NoiseForecast  `json:"noise"`
	Unseen UnseenForecast `json:"unseen"`
}

// UnseenForecast is what the server cannot tell from honest: sums up to these bounds, in
// units of the values, with nobody lost before the masked input and as many after it as
// may be. One client that lies about its vector shifts a sum by as much where the others'
// is about zero, and by less than twice as much wherever it is. Beyond, the sum is refused.
type UnseenForecast struct {
	Coordinate float64 `json:"coordinate"`
	L2         float64 `json:"l2"`
	// The same, in what one honest client may add.
	CoordinateClients float64 `json:"coordinate_clients"`
	L2Clients         float64 `json:"l2_clients"`
}

// NoiseForecast is the noise of a release, per coordinate. What a kind does not
// have is left out.
type NoiseForecast struct {
	Kind string `json:"kind"`

	// Of noise that clients add in shares: the variance of what stays in the sum,
	// in integers and in units of the values, and of a client's share in integers.
	Variance      float64 `json:"variance,omitempty"`
	ValueVariance float64 `json:"value_variance,omitempty"`
	ShareVariance float64 `json:"share_variance,omitempty"`

	// Of parties' own noise: its deviation in sensitivities, the rate of the
	// samples that it hides, and the steps of a party in the whole run.
	Multiplier   float64      `json:"multiplier,omitempty"`
	SamplingRate float64      `json:"sampling_rate,omitempty"`
	Steps        []LocalSteps `json:"steps,omitempty"`
}

// LocalSteps are steps of a party's training that are noised alike: L2 sensitivity
// and variance, in units of the gradient.
type LocalSteps struct {
	Count       int     `json:"count"`
	Sensitivity float64 `json:"sensitivity"`
	Variance    float64 `json:"variance"`
}

// of makes parts of the forecast of an experiment.
type builder struct{ *experiment.Experiment }

// New says what an experiment would do and cost.
func New(x *experiment.Experiment) (*Forecast, error) {
	e := builder{x}
	spent, err := e.Planned()
	if err != nil {
		return nil, err
	}
	f := &Forecast{
		Algorithm: e.About().Name, Uncovered: e.uncovered(), Secagg: "none", Noise: algorithm.Noise.Of(e.Config), Privacy: e.Statement(spent), samplerError: e.Privacy.Budget.SamplerError,
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
	if sums := e.Sums(); sums != nil { // the graph follows from the cohort, so it is that of all
		f.Graph = graphForecast(e.Mode(), e.Cohort.Wanted(), sums[0].Choice, f.Rounds)
	}
	f.Releases = e.releaseForecasts()
	f.Bytes = e.bytesForecast()
	f.Memory = e.memoryForecast()
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
	f := &CohortForecast{Clients: n.Clients, Lost: n.Wanted() - n.Required(), Required: n.Required(), Colluding: n.Colluding(), Exchanges: 2}
	if e.Mode() == graph.Active {
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

// releaseForecasts are those of all steps, and of one where all rounds are alike.
func (e builder) releaseForecasts() []ReleaseForecast {
	if e.Schedule.Uniform() {
		f := e.releaseForecast(*e.Schedule.First())
		f.Unseen = e.unseenForecast(1, *e.Schedule.First())
		return []ReleaseForecast{f}
	}
	var list []ReleaseForecast
	for step, r := range e.Schedule.All() {
		f := e.releaseForecast(*r)
		f.Unseen = e.unseenForecast(len(step.Releases), *r)
		f.Phase, f.Rounds = step.Phase, step.Rounds
		list = append(list, f)
	}
	return list
}

func graphForecast(m graph.Mode, clients int, c graph.Choice, rounds int) *GraphForecast {
	// The bounds of a run are union bounds: rounds times those of a round.
	chance := func(b graph.Bound) Chance {
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
				n.step(s.Count, s.Sensitivity)
			}
		}
	case protocol.Split, protocol.TwoRound, protocol.LocalNoise:
		n.Variance = r.Noise.Variance
		n.ValueVariance = r.Noise.Variance / (r.Scale * r.Scale)
		n.ShareVariance = r.Noise.Share(e.Cohort)
	}
	return f
}

// unseenForecast is of one of several releases of a round, the last of the run.
func (e builder) unseenForecast(releases int, r protocol.Release) UnseenForecast {
	p := protocol.Plan{Round: uint64(e.Schedule.Rounds()), Cohort: e.Cohort, Releases: make([]protocol.Release, releases)}
	reach := p.HonestSumBound(r, e.Cohort.Wanted(), e.Cohort.Required())
	f := UnseenForecast{Coordinate: reach.LInf / r.Scale, L2: reach.L2 / r.Scale, L2Clients: reach.L2 / reach.Client.L2}
	if reach.Client.LInf > 0 {
		f.CoordinateClients = reach.LInf / reach.Client.LInf
	}
	return f
}

func (n *NoiseForecast) step(count int, sensitivity float64) {
	deviation := n.Multiplier * sensitivity
	n.Steps = append(n.Steps, LocalSteps{Count: count, Sensitivity: sensitivity, Variance: deviation * deviation})
}
