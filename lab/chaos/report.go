package chaos

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

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
	r := &Report{Schedules: cfg.Schedules, Seed: cfg.Seed, Modes: cfg.Modes, Violations: []*Violation{}}
	r.Outcomes = append(r.Outcomes, RoundEnd{Name: inSum})
	for s := range protocol.Stages {
		r.Outcomes = append(r.Outcomes, RoundEnd{Name: tooFew(s)})
	}
	r.Outcomes = append(r.Outcomes, RoundEnd{Name: inUnrecoverable})
	return r
}

// add counts a schedule.
func (r *Report) add(one *result) {
	if one.schedule.Mode == graph.Active {
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
		return fmt.Errorf("%d of %d schedules broke a rule; see one with fedsim chaos --replay %d --mode %s", n, r.Schedules, r.Violations[0].Seed, r.Modes)
	}
	return nil
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var errs []error
	print := func(w io.Writer, format string, args ...any) {
		_, err := fmt.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	print(w, "%d schedules, seeds %d to %d: %d semi-honest (%d on a sparse graph), %d active\n",
		r.Schedules, r.Seed, r.Seed+uint64(r.Schedules)-1, r.Schedules-r.Active, r.Sparse, r.Active)
	f := r.Faults
	print(w, "faults: %d messages lost, %d duplicated, %d delayed, %d reordered; %d crashes, %d of them with redelivery; %d computations slow\n\n",
		f.Dropped, f.Duplicated, f.Delayed, f.Reordered, f.Crashed, f.Redelivered, f.Slowed)
	print(t, "under faults\trounds\tlast of a schedule\t\n")
	all := r.Schedules // healed rounds
	for _, o := range r.Outcomes {
		print(t, "%s\t%d\t%d\t\n", o.Name, o.Rounds, o.Schedules)
		all += o.Rounds
	}
	errs = append(errs, t.Flush())
	print(w, "\n%d of all %d rounds began set up ahead\n", r.Ahead, all)
	print(w, "once healed, %d of %d schedules ended in a sum\n", r.Healed, r.Schedules)
	for _, v := range r.Violations {
		print(w, "violation: %v\n", v)
	}
	return errors.Join(errs...)
}

type result struct {
	schedule  *Schedule
	outcomes  []string // of the rounds under faults
	ahead     int      // rounds that began set up ahead,
	lastAhead uint64   // and the latest of them
	healed    bool
	summed    bool // the healed round
	round     uint64
	faults    Strikes
	violation *Violation
}

func newResult(s *Schedule) *result { return &result{schedule: s} }

// observe follows the rounds.
func (r *result) observe(o Observation) {
	switch o := o.(type) {
	case Planned:
		r.healed, r.round = o.Healed, o.Plan.Round
	case Left:
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
