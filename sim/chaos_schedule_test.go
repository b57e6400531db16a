package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Schedule is everything that happens to a federation, determined by a seed.
type Schedule struct {
	Seed     uint64
	Mode     secagg.Mode
	Cohort   protocol.Cohort
	Graph    secagg.GraphChoice // for the whole cohort; a smaller roster has its own
	Releases []protocol.Release
	// Rounds is the number attempted under faults; one more follows after healing.
	Rounds  int
	SitOut  float64 // share of the clients that a round set up ahead may be without
	Faults  Faults
	Volleys []Volley
	// The first Poor clients have budgets for PoorRounds only; the others have
	// exactly what all rounds cost.
	Poor, PoorRounds int
	// Unusable is the probability that a client's contribution breaks its bounds.
	Unusable float64
}

// Faults are probabilities: for each message between a client and the aggregator, or for
// a client at each input. A client that crashes keeps its durable records.
type Faults struct {
	Drop      float64 // the message is lost
	Duplicate float64 // the message arrives twice, at independent times; this applies to the server's messages too
	Delay     float64 // the message takes up to three stage timeouts longer
	Reorder   float64 // the message takes up to a third of a stage timeout longer, so that others overtake it
	Before    float64 // the client crashes before it takes the input, or in the middle of a computation
	After     float64 // the client crashes after the input: before the records are durable, before the answer leaves, or after that
	Redeliver float64 // a restarted client receives everything again that it was sent in the round
	Slow      float64 // a computation takes up to half a stage timeout longer
}

// Volley makes a number of clients fail at one stage of a round: exactly as many as
// are tolerated, or one more. Independent random faults seldom do that.
type Volley struct {
	Round   uint64
	Stage   protocol.Stage
	Clients []protocol.ClientID
	After   bool // the answer is lost; otherwise the message that opens the stage
}

// Times of a schedule. The timeout leaves room for what a healed network does.
const (
	latency      = 50 * time.Millisecond
	compute      = time.Second // at most; half of it at least
	stageTimeout = time.Minute
	longestDown  = 3 * time.Minute
)

// dice is where a schedule's randomness comes from.
type dice interface {
	IntN(n int) int
	Float64() float64
}

// Draw generates the schedule of a seed. It depends on modes as well.
func Draw(seed uint64, modes Modes) (*Schedule, error) {
	d := entropy.Public(seed, "chaos/schedule")
	s := &Schedule{Seed: seed, Mode: secagg.SemiHonest}
	if even := d.IntN(2) == 0; modes == Active || modes == Both && even {
		s.Mode = secagg.Active
	}
	s.Rounds = 1 + d.IntN(4)
	replaces := d.IntN(3) == 0 && s.Mode == secagg.SemiHonest // secagg.ErrReplace
	if err := s.drawCohort(d, replaces); err != nil {
		return nil, err
	}
	if err := s.drawReleases(d, replaces); err != nil {
		return nil, err
	}
	s.drawFaults(d)
	return s, nil
}

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// drawCohort takes the first cohort for which there is a graph, sparse ones in a
// third of the semi-honest schedules.
func (s *Schedule) drawCohort(d dice, replaces bool) error {
	sparse := d.IntN(3) == 0 && s.Mode == secagg.SemiHonest
	for range 1000 {
		c := protocol.Cohort{
			Clients:   3 + d.IntN(9),
			Tolerance: pick(d, 0, 0.1, 0.2, 0.25, 0.3, 1./3, 0.4, 0.5),
			Colluders: pick(d, 0, 0.05, 0.1, 0.2, 0.3),
		}
		if sparse {
			c.Clients, c.Tolerance = 12+d.IntN(28), pick(d, 0.05, 0.1, 0.2)
		}
		if c.Validate() != nil {
			continue
		}
		choice, err := s.Params().Graph(protocol.Setup{Cohort: c, Replaces: replaces}).Choose()
		if err == nil && choice.Complete != sparse {
			s.Cohort, s.Graph = c, choice
			return nil
		}
	}
	return errors.New("chaos: no cohort has a graph: the bounds of secagg.GraphParams and the cohorts drawn here do not match")
}

// Params are the parameters of the secure sum, except for the enrolment list.
func (s *Schedule) Params() secagg.Params {
	return secagg.Params{Mode: s.Mode, Rounds: s.Rounds + 1}
}

// setup returns the setup from which the graph of a round follows.
func (s *Schedule) setup() protocol.Setup {
	plan := protocol.Plan{Cohort: s.Cohort, Releases: s.Releases}
	return plan.Setup()
}

// bound is the largest integer that a client contributes to a coordinate.
const bound = 20

// drawReleases draws a noise for each release. If noise is replaced, only the noise of the first
// release is.
func (s *Schedule) drawReleases(d dice, replaces bool) error {
	private := d.IntN(3) > 0 // otherwise some release is exact, and no client keeps a ledger
	for i := range 1 + d.IntN(3) {
		n := pick(d, 1, 2, 7, 16, 33)
		scale := pick(d, 1., 4, 1024)
		r := protocol.Release{Name: fmt.Sprintf("release-%d", i), Len: n, MaxNonZero: 1 + d.IntN(n), Scale: scale, LInf: bound / scale}
		r.L2 = r.LInf * math.Sqrt(float64(r.MaxNonZero))
		switch kind := d.IntN(4); {
		case replaces && (i == 0 || kind == 3):
			r.Noise = protocol.Noise{Kind: protocol.TwoRound, Variance: pick(d, 1., 100, 10000)}
		case kind == 0 && !private:
		case kind == 1:
			r.Noise = protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 5, SamplingRate: pick(d, 1, 0.1), Steps: 1 + d.IntN(3)}
		default:
			r.Noise = protocol.Noise{Kind: protocol.Split, Variance: pick(d, 1., 100, 10000)}
		}
		r.Width = 64 // for the least to be looked for
		width, err := secagg.Width(s.Cohort, r, s.Rounds+1)
		if err != nil {
			return err
		}
		r.Width = width
		if d.IntN(3) == 0 {
			r.Width += uint8(d.IntN(65 - int(width)))
		}
		s.Releases = append(s.Releases, r)
	}
	return nil
}

// drawFaults makes anything from calm to hopeless.
func (s *Schedule) drawFaults(d dice) {
	rate := func() float64 { return pick(d, 0, 0, 0.003, 0.01, 0.03, 0.1) }
	s.Faults = Faults{
		Drop: rate(), Duplicate: pick(d, 0, 0.1, 0.5), Delay: rate(), Reorder: pick(d, 0, 0.1, 0.5),
		Before: rate() / 4, After: rate() / 4, // a client is given about ten things in a round
		Redeliver: pick(d, 0, 0.5, 1), Slow: rate(),
	}
	tolerated, stages := s.lossesTolerated(), s.stages()
	for i := range s.Rounds {
		count := tolerated + d.IntN(3) - 1 // one fewer than tolerated, as many, one more
		if d.IntN(2) == 0 || count < 1 {
			continue
		}
		v := Volley{Round: uint64(i) + 1, Stage: pick(d, stages...), After: d.IntN(2) == 0}
		first := d.IntN(s.Cohort.Clients)
		for k := range count {
			v.Clients = append(v.Clients, protocol.ClientID((first+k)%s.Cohort.Clients))
		}
		s.Volleys = append(s.Volleys, v)
	}
	if d.IntN(3) == 0 && tolerated > 0 && s.private() {
		s.Poor, s.PoorRounds = 1+d.IntN(tolerated), d.IntN(s.Rounds+1)
	}
	s.Unusable = pick(d, 0, 0, 0.1)
	// The round loses a client that sits out, or cannot pay. A healed round must do without
	// both.
	if spare := tolerated - s.Poor; spare > 0 {
		s.SitOut = float64(d.IntN(spare+1)) / float64(s.Cohort.Clients)
	}
}

// stages returns the stages of a round.
func (s *Schedule) stages() []protocol.Stage {
	course := protocol.StageFlow{Prepares: true, Confirms: s.Mode == secagg.Active, Replaces: s.setup().Replaces}
	var out []protocol.Stage
	for stage := protocol.StageAdvertise; stage != protocol.Stages; stage = course.After(stage) {
		out = append(out, stage)
	}
	return out
}

// lossesTolerated returns how many clients a round may lose at any stage. In active mode a
// quorum of the roster must still sign.
func (s *Schedule) lossesTolerated() int {
	c := s.Cohort
	need := c.Required()
	if s.Mode == secagg.Active {
		need = secagg.Quorum(c, c.Clients)
	}
	return c.Clients - max(need, s.Graph.Threshold+1)
}

// private reports whether clients keep ledgers.
func (s *Schedule) private() bool {
	for _, r := range s.Releases {
		if r.Noise.Kind == protocol.NoNoise {
			return false
		}
	}
	return true
}

// String describes the schedule on a few lines.
func (s *Schedule) String() string {
	var b strings.Builder
	kind := "sparse"
	if s.Graph.Complete {
		kind = "complete"
	}
	fmt.Fprintf(&b, "seed %d: %s, %d clients, tolerance %.3g (%.3g sitting out), colluders %.3g, %s graph k=%d t=%d, %d rounds and one healed\n",
		s.Seed, s.Mode, s.Cohort.Clients, s.Cohort.Tolerance, s.SitOut, s.Cohort.Colluders, kind, s.Graph.Degree, s.Graph.Threshold, s.Rounds)
	for _, r := range s.Releases {
		fmt.Fprintf(&b, "%s: %d coordinates of %d bits, scale %g, noise %s\n", r.Name, r.Len, r.Width, r.Scale, r.Noise.Kind)
	}
	f := s.Faults
	fmt.Fprintf(&b, "faults: drop %g, duplicate %g, delay %g, reorder %g, crash before %g and after %g, redeliver %g, slow %g; unusable inputs %g",
		f.Drop, f.Duplicate, f.Delay, f.Reorder, f.Before, f.After, f.Redeliver, f.Slow, s.Unusable)
	for _, v := range s.Volleys {
		what := "before"
		if v.After {
			what = "after"
		}
		fmt.Fprintf(&b, "\nvolley: round %d, %s %s, clients %v", v.Round, what, v.Stage, v.Clients)
	}
	if s.Poor > 0 {
		fmt.Fprintf(&b, "\nbudgets of %d clients cover %d rounds", s.Poor, s.PoorRounds)
	}
	return b.String()
}

// Report is the result of many schedules.
type Report struct {
	Schedules int    `json:"schedules"`
	Seed      uint64 `json:"seed"` // of the first; the others' follow it
	Modes     Modes  `json:"mode"`
	Active    int    `json:"active"` // schedules in active mode
	Sparse    int    `json:"sparse"` // schedules on a sparse graph
	// Outcomes are all the ways for a round to end, in the order of the stages.
	Outcomes []RoundEnd `json:"outcomes"`
	// Ahead counts the rounds, including those after healing, that were set up ahead.
	Ahead int `json:"ahead"`
	// Messages counts by kind what left a role, and Riders the messages that travelled with another one.
	Messages map[protocol.Kind]int `json:"messages"`
	Riders   int                   `json:"riders"`
	// Healed counts the schedules whose round after healing ended in a sum.
	Healed     int          `json:"healed"`
	Faults     Strikes      `json:"faults"`
	Violations []*Violation `json:"violations"`
}

// RoundEnd is a way in which a round ended.
type RoundEnd struct {
	Name      string `json:"outcome"`
	Schedules int    `json:"schedules"` // whose last round under faults ended so
	Rounds    int    `json:"rounds"`    // under faults, of all schedules
}

// Strikes counts the faults that occurred.
type Strikes struct {
	Dropped    int `json:"dropped"`
	Duplicated int `json:"duplicated"`
	Delayed    int `json:"delayed"`
	Reordered  int `json:"reordered"`
	Crashed    int `json:"crashed"`
	// Redelivered counts restarts after which messages came again, Slowed computations.
	Redelivered int `json:"redelivered"`
	Slowed      int `json:"slowed"`
}

// Names of outcomes other than too few clients at a stage.
const (
	inSum           = "sum"
	inUnrecoverable = "unrecoverable"
)

func tooFew(s protocol.Stage) string { return "too few after " + s.String() }

func newReport(cfg Config) *Report {
	r := &Report{Schedules: cfg.Schedules, Seed: cfg.Seed, Modes: cfg.Modes, Messages: make(map[protocol.Kind]int), Violations: []*Violation{}}
	r.Outcomes = append(r.Outcomes, RoundEnd{Name: inSum})
	for s := range protocol.Stages {
		r.Outcomes = append(r.Outcomes, RoundEnd{Name: tooFew(s)})
	}
	r.Outcomes = append(r.Outcomes, RoundEnd{Name: inUnrecoverable})
	return r
}

// add counts a schedule.
func (r *Report) add(one *result) {
	if one.schedule.Mode == secagg.Active {
		r.Active++
	}
	if !one.schedule.Graph.Complete {
		r.Sparse++
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		for k, name := range one.outcomes {
			if name != o.Name {
				continue
			}
			o.Rounds++
			if k == len(one.outcomes)-1 {
				o.Schedules++
			}
		}
	}
	r.Ahead += one.ahead
	for kind, n := range one.messages {
		r.Messages[kind] += n
	}
	r.Riders += one.riders
	if one.summed {
		r.Healed++
	}
	f, g := &r.Faults, one.faults
	f.Dropped += g.Dropped
	f.Duplicated += g.Duplicated
	f.Delayed += g.Delayed
	f.Reordered += g.Reordered
	f.Crashed += g.Crashed
	f.Redelivered += g.Redelivered
	f.Slowed += g.Slowed
	if one.violation != nil {
		r.Violations = append(r.Violations, one.violation)
	}
}

// Err is nil when every schedule kept every rule; otherwise it says how many did not.
func (r *Report) Err() error {
	if n := len(r.Violations); n > 0 {
		return fmt.Errorf("%d of %d schedules broke a rule; see one with go test ./sim -run TestReplay -v -replay %d -mode %s", n, r.Schedules, r.Violations[0].Seed, r.Modes)
	}
	return nil
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer) error {
	var b bytes.Buffer // to which writing never fails
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(&b, "%d schedules, seeds %d to %d: %d semi-honest (%d on a sparse graph), %d active\n",
		r.Schedules, r.Seed, r.Seed+uint64(r.Schedules)-1, r.Schedules-r.Active, r.Sparse, r.Active)
	f := r.Faults
	fmt.Fprintf(&b, "faults: %d messages lost, %d duplicated, %d delayed, %d reordered; %d crashes, %d of them with redelivery; %d computations slow\n\n",
		f.Dropped, f.Duplicated, f.Delayed, f.Reordered, f.Crashed, f.Redelivered, f.Slowed)
	rows := "under faults\trounds\tlast of a schedule\t\n"
	all := r.Schedules // healed rounds
	for _, o := range r.Outcomes {
		rows += fmt.Sprintf("%s\t%d\t%d\t\n", o.Name, o.Rounds, o.Schedules)
		all += o.Rounds
	}
	if _, err := io.WriteString(t, rows); err != nil {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%d of all %d rounds began set up ahead\n", r.Ahead, all)
	fmt.Fprintf(&b, "once healed, %d of %d schedules ended in a sum\n", r.Healed, r.Schedules)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "violation: %v\n", v)
	}
	_, err := b.WriteTo(w)
	return err
}

type result struct {
	schedule  *Schedule
	outcomes  []string // of the rounds under faults
	ahead     int      // rounds that began set up ahead,
	lastAhead uint64   // and the latest of them
	messages  map[protocol.Kind]int
	riders    int
	healed    bool
	summed    bool // the healed round
	round     uint64
	faults    Strikes
	violation *Violation
}

// observe follows the rounds.
func (r *result) observe(o Observation) {
	switch o := o.(type) {
	case Planned:
		r.healed, r.round = o.Healed, o.Plan.Round
	case Left:
		r.messages[o.Envelope.Message.Kind()]++
		if protocol.Piggyback(o.Envelope.Message) != nil {
			r.riders++
		}
		switch m := o.Envelope.Message.(type) {
		case *protocol.Announce:
			if m.Delivery != nil && m.Plan.Round > r.lastAhead {
				r.ahead++
				r.lastAhead = m.Plan.Round
			}
		case *protocol.Result:
			r.end(inSum)
		case *protocol.Abort:
			if m.Round == r.round {
				r.end(reason(m.Reason))
			}
		}
	}
}

func (r *result) end(outcome string) {
	if r.healed {
		r.summed = outcome == inSum
		return
	}
	r.outcomes = append(r.outcomes, outcome)
}

// reason is the name of an abort.
func reason(err protocol.Reason) string {
	if few, ok := errors.AsType[*protocol.TooFew](err); ok {
		return tooFew(few.Stage)
	}
	return inUnrecoverable
}
