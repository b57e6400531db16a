package client_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// ownPlan has the party noise its own 3 steps.
func ownPlan(round uint64) *protocol.Plan {
	p := newPlan(round)
	p.Releases[0].Noise = protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1.5, SamplingRate: 0.25, Steps: 3}
	return p
}

// newOwnBench is a bench whose plans have noise of the party's own.
func newOwnBench(t *testing.T) *bench {
	b := newBench(t, secagg.DrawClient)
	b.plan = ownPlan
	return b
}

var ownEvents = []dp.Event{{Mechanism: dp.SubsampledGaussianMechanism, NoiseMultiplier: 1.5, SamplingRate: 0.25, Count: 3}}

// A party that noises its own training is charged for it before it trains, when it accepts the
// plan. The same effects ask for the work, and their record is carried out first. It is charged
// once.
func TestOwnNoiseIsChargedBeforeTraining(t *testing.T) {
	b := newOwnBench(t)
	b.script(`announce 1 -> charged 1, work`)
	if d := cmp.Diff([]charge{{session, 1, ownEvents}}, b.ledger.charges); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]protocol.Record{protocol.Charged{Session: session, Round: 1, Events: ownEvents}}, b.last.Persist); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	if len(b.trainer.asked) != 0 {
		t.Errorf("trained for %v before the work was run", b.trainer.asked)
	}
	b.script(`
		run           -> advertise 1
		roster 1 5    -> shares 1
		delivery 1 5  -> masked-input 1
		delivery 1 5  -> message-ignored
		survivors 1 4 -> unmask 1
		announce 1    -> refusal 1, plan-refused`)
	if len(b.ledger.charges) != 1 {
		t.Errorf("%d charges of one round: %+v", len(b.ledger.charges), b.ledger.charges)
	}
	b.script(`announce 2 -> charged 2, work`)
	if len(b.ledger.charges) != 2 {
		t.Errorf("%d charges of two rounds", len(b.ledger.charges))
	}
}

// The party's vector is sent as it is: its noise is inside. 1·10 at coordinate 2.
func TestOwnNoiseIsInside(t *testing.T) {
	for _, draw := range []secagg.Draw{secagg.DrawClient, secagg.DrawSum} {
		b := newBench(t, draw)
		b.plan = ownPlan
		b.script(`
			announce 1   -> charged 1, work
			run          -> advertise 1
			roster 1 5   -> shares 1
			delivery 1 5 -> masked-input 1`)
		want := []protocol.Integers{{Index: []uint32{2}, Narrow: []int32{10}}}
		if d := cmp.Diff(want, b.last.Send[0].Message.(*protocol.MaskedInput).Vectors); d != "" {
			t.Errorf("draw %s: vectors (-want +got):\n%s", draw, d)
		}
		b.script(`survivors 1 4 -> unmask 1`)
		if m := b.last.Send[0].Message.(*protocol.Unmask); m.Removals != nil {
			t.Errorf("draw %s: removals %v of noise that nobody added", draw, m.Removals)
		}
	}
}

// Over budget there is no training, and nothing of the round is answered.
func TestOwnNoiseOverBudget(t *testing.T) {
	b := newOwnBench(t)
	b.ledger.left = 1
	b.script(`
		announce 1   -> charged 1, work
		run          -> advertise 1
		announce 2   -> refusal 2, plan-refused`)
	if !errors.Is(b.err(), errSpent) {
		t.Errorf("refused for %v, want the ledger's reason", b.err())
	}
	if len(b.last.Persist)+len(b.last.Work) != 0 {
		t.Errorf("a refused plan leaves %+v", b.last)
	}
	b.script(`
		roster 2 5    -> message-ignored
		delivery 2 5  -> message-ignored
		roster 1 5    -> message-ignored
		announce 2    -> refusal 2, plan-refused`)
	if d := cmp.Diff([]uint64{1}, b.trainer.asked); d != "" || len(b.ledger.charges) != 1 {
		t.Errorf("%d charges, trained (-want +got):\n%s", len(b.ledger.charges), d)
	}
}

// A plan that is refused for its content costs nothing, nor does training that is never announced.
// A plan that is accepted and left behind stays charged.
func TestOwnNoiseChargesWhatIsTakenUp(t *testing.T) {
	b := newOwnBench(t)
	sound := b.plan
	for name, change := range map[string]func(*protocol.Plan){
		"another session": func(p *protocol.Plan) { p.Session[0]++ },
		"no steps":        func(p *protocol.Plan) { p.Releases[0].Noise.Steps = 0 },
		"no multiplier":   func(p *protocol.Plan) { p.Releases[0].Noise.Multiplier = 0 },
		"a bound of NaN":  func(p *protocol.Plan) { p.Releases[0].LInf = math.NaN() },
		"something exact": func(p *protocol.Plan) {
			p.Releases = append(p.Releases, p.Releases[0])
			p.Releases[1].Name, p.Releases[1].Noise = "exact", protocol.Noise{}
		},
	} {
		b.plan = func(i uint64) *protocol.Plan {
			p := sound(i)
			change(p)
			return p
		}
		if got := describe(t, b.command("announce 1")); got != "refusal 1, plan-refused" || len(b.ledger.charges) != 0 {
			t.Errorf("%s: %s, %d charges; want a refusal and none", name, got, len(b.ledger.charges))
		}
	}
	b.plan = sound
	b.script(`
		announce 1 -> charged 1, work
		announce 2 -> charged 2, work
		run        ->
		run        -> advertise 2`)
	if len(b.ledger.charges) != 2 {
		t.Errorf("%d charges of two rounds taken up", len(b.ledger.charges))
	}
	// A training that fails has been paid for too: its steps may have been shown.
	b.trainer.err = errors.New("out of memory")
	b.script(`
		announce 3   -> charged 3, work
		run          -> advertise 3, input-unusable
		roster 3 5   -> shares 3
		delivery 3 5 -> masked-input 3`)
	if got := b.last.Send[0].Message.(*protocol.MaskedInput).Vectors; !cmp.Equal(got, []protocol.Integers{{Index: []uint32{}}}) {
		t.Errorf("after a failure %+v is sent, want zero", got)
	}
}

// Beside noise that clients share, everything is charged at once, when the plan
// is taken up.
func TestOwnNoiseBesideShares(t *testing.T) {
	b := newOwnBench(t)
	b.trainer.vectors = append(b.trainer.vectors, b.trainer.vectors[0])
	b.plan = func(i uint64) *protocol.Plan {
		p := ownPlan(i)
		shared := newPlan(i).Releases[0]
		shared.Name = "h"
		p.Releases = append(p.Releases, shared)
		return p
	}
	b.script(`
		announce 1    -> charged 1, work
		run           -> advertise 1
		roster 1 5    -> shares 1
		delivery 1 5  -> masked-input 1
		survivors 1 4 -> work
		run           -> unmask 1`)
	want := []charge{{session, 1, []dp.Event{ownEvents[0], {Mechanism: dp.SkellamMechanism, Variance: 60, L2: 11, L1: 22, Count: 1}}}}
	if d := cmp.Diff(want, b.ledger.charges); d != "" {
		t.Errorf("ledger (-want +got):\n%s", d)
	}
}

// Without a ledger the record still says that the round is used up, before
// training; and a client that starts again from it does not train for it twice.
func TestOwnNoiseWithoutLedger(t *testing.T) {
	b := newOwnBench(t)
	config := client.Config{ID: 3, Session: session, Trainer: b.trainer, Noise: new(client.Samplers), Entropy: someEntropy,
		NewSum: func(s protocol.Setup) (client.Sum, error) { return secagg.NewIdealClient(s, secagg.DrawClient), nil }}
	b.client = client.New(config)
	b.script(`announce 4 -> charged 4, work`)
	record := b.last.Persist[0].(protocol.Charged)
	if len(record.Events) != 0 || record.Round != 4 {
		t.Errorf("the record is %+v; want round 4 without events", record)
	}
	config.Last = record.Round
	again := client.New(config)
	eff := again.Step(time.Time{}, protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, Message: &protocol.Announce{Plan: ownPlan(4)}}})
	if got := describe(t, eff); got != "refusal 4, plan-refused" {
		t.Errorf("after a restart the round is %s, want a refusal", got)
	}
}

// A bound on coordinates is checked like the norms are: at it and just above it,
// either sign, whatever L2 allows; without one L2 is the bound.
func TestQuantizeChecksCoordinates(t *testing.T) {
	r := protocol.Release{Name: "g", Len: 3, L2: 10, LInf: 0.75, MaxNonZero: 3, Scale: 4, Width: 16}
	above := math.Nextafter(0.75, 1)
	for _, c := range []struct {
		v    protocol.Vector
		want []int64 // nil: refused
	}{
		{protocol.Vector{Value: []float64{0.75, -0.75, 0.5}}, []int64{3, -3, 2}},
		{protocol.Vector{Value: []float64{0, above, 0}}, nil},
		{protocol.Vector{Value: []float64{-above, 0, 0}}, nil},
		{protocol.Vector{Index: []uint32{2}, Value: []float64{-9}}, nil},
		{protocol.Vector{Index: []uint32{1}, Value: []float64{math.NaN()}}, nil},
	} {
		got, err := client.Quantize(c.v, r)
		if c.want == nil && !errors.Is(err, client.ErrOutOfBounds) || c.want != nil && (err != nil || !cmp.Equal(c.want, got.Value)) {
			t.Errorf("%v: %v, %v; want %v", c.v, got.Value, err, c.want)
		}
	}
	r.LInf = 0
	if got, err := client.Quantize(protocol.Vector{Value: []float64{0, 9, 0}}, r); err != nil || got.Value[1] != 36 {
		t.Errorf("without a bound: %v, %v", got.Value, err)
	}
}
