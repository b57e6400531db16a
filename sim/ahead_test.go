package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// kindOfSum is a way to add up.
type kindOfSum struct {
	name string
	real bool
	mode secagg.Mode
	draw secagg.Draw
	// verify has clients prove that their inputs are within their bounds.
	verify bool
}

var (
	ideal      = kindOfSum{name: "ideal", draw: secagg.DrawClient}
	semiHonest = kindOfSum{name: "semi-honest", real: true}
	active     = kindOfSum{name: "active", real: true, mode: secagg.Active}
	proved     = kindOfSum{name: "active, proved", real: true, mode: secagg.Active, verify: true}
	everySum   = []kindOfSum{ideal, {name: "ideal, of noise drawn at once", draw: secagg.DrawSum}, semiHonest, active}
)

const (
	aheadClients = 7 // of whom 2 may be lost
	aheadRounds  = 5
)

// aheadConfig is a federation whose noise is split.
func aheadConfig(k kindOfSum, sitOut float64) (Config, *adder) {
	strategy := newAdder(protocol.Cohort{Clients: aheadClients, Tolerance: 0.3, Colluders: 0.05}, noisy(aheadClients, protocol.Split), aheadRounds)
	trainers, _ := bits(aheadClients)
	return Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: aheadRounds, Network: network, Seed: 3,
		Real: k.real, Mode: k.mode, Draw: k.draw, VerifyInputs: k.verify, SitOut: sitOut}, strategy
}

// diary is a calendar with a script for each of some rounds.
type diary map[uint64]script

func (d diary) lost(c protocol.ClientID, round uint64) protocol.Stage {
	return d[round].lost(c, round)
}
func (diary) absent(protocol.ClientID, uint64) bool { return false }

// tap is a role that reports the inputs it gets.
type tap struct {
	role
	see func(protocol.Input)
}

func (t tap) Step(now time.Time, in protocol.Input) protocol.Effects {
	t.see(in)
	return t.role.Step(now, in)
}

// exchanged runs a federation and returns what client 5 was sent, and what came
// from it, by round: kinds of messages, + what travelled with them.
func exchanged(t *testing.T, cfg Config, fates calendar) (down, up map[uint64]string, out *Outcome) {
	t.Helper()
	f, err := newFederation(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if fates != nil {
		f.faults = fates
	}
	down, up = make(map[uint64]string), make(map[uint64]string)
	note := func(book map[uint64]string, in protocol.Input) {
		m, ok := in.(protocol.Received)
		if !ok || f.ended {
			return
		}
		said := m.Envelope.Message.Kind().String()
		if r := protocol.Piggyback(m.Envelope.Message); r != nil {
			said += "+" + r.Kind().String()
		}
		book[f.present.Number] = strings.TrimSpace(book[f.present.Number] + " " + said)
	}
	f.listen(map[protocol.ClientID]role{5: tap{&f.clients[5], func(in protocol.Input) { note(down, in) }}})
	f.aggregator = tap{f.aggregator, func(in protocol.Input) {
		if m, ok := in.(protocol.Received); ok && m.Envelope.From == protocol.ClientParty(5) {
			note(up, in)
		}
	}}
	if out, err = f.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return down, up, out
}

// Without losses the first round takes five exchanges with a client, six in active mode, and
// later rounds three or four. The last round sets up nothing.
func TestExchanges(t *testing.T) {
	for _, k := range everySum {
		cfg, strategy := aheadConfig(k, 0)
		down, up, _ := exchanged(t, cfg, nil)
		confirm, quorum := "", ""
		if k.mode == secagg.Active {
			confirm, quorum = "consistency ", "quorum"
		}
		wantUp := map[uint64]string{1: "advertise shares prepared masked-input+advertise " + confirm + "unmask+shares"}
		wantDown := map[uint64]string{1: strings.TrimSpace("announce roster delivery proceed survivors+roster " + quorum)}
		for i := uint64(2); i < aheadRounds; i++ {
			wantUp[i] = "prepared masked-input+advertise " + confirm + "unmask+shares"
			wantDown[i] = strings.TrimSpace("announce+delivery proceed survivors+roster " + quorum)
		}
		wantUp[aheadRounds] = "prepared masked-input " + confirm + "unmask"
		wantDown[aheadRounds] = strings.TrimSpace("announce+delivery proceed survivors " + quorum)
		if d := cmp.Diff(wantUp, up); d != "" {
			t.Errorf("%s: from a client (-want +got):\n%s", k.name, d)
		}
		if d := cmp.Diff(wantDown, down); d != "" {
			t.Errorf("%s: to a client (-want +got):\n%s", k.name, d)
		}
		if len(strategy.sums) != aheadRounds {
			t.Errorf("%s: %d sums", k.name, len(strategy.sums))
		}
	}
}

// Times of a round that is set up ahead, worked out by hand as in
// TestClockAndBytes: four of its twelve hops less, and what travels ahead in the
// round before.
func TestClockOfRoundsSetUpAhead(t *testing.T) {
	const n = 4
	trainers, _ := bits(n)
	strategy := newAdder(protocol.Cohort{Clients: n}, exact(n), 3)
	slow := network
	slow.Up, slow.Down = 8000, 8e6 // 1 ms a byte up, 1 µs a byte down
	out, err := runWith(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 3, Network: slow}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Sizes in bytes: alone is a header and a round. masked adds a vector of 4 x 16 bits. down is a rider on the way
	// down, a field with a round. up is a rider on the way up, with a flag that it is ahead.
	const alone, masked, down, up = 5 + 2, 5 + 2 + (2 + 8), 2 + 2, 2 + 2 + 2
	plan := strategy.plan
	plan.Round = 1
	announce := protocol.Size(&protocol.Announce{Plan: &plan})
	for i, c := range []struct{ hops, up, down int }{
		{12, alone + alone + alone + (masked + up) + (alone + up), announce + alone + alone + alone + (alone + down)},
		{8, alone + (masked + up) + (alone + up), (announce + down) + alone + (alone + down)},
		{8, alone + masked + alone, (announce + down) + alone + alone},
	} {
		want := time.Duration(c.hops)*slow.Latency + time.Duration(c.up)*time.Millisecond + time.Duration(c.down)*time.Microsecond + 3*slow.Compute
		if got := out.Rounds[i].Duration; got != want {
			t.Errorf("round %d took %v, want %v", i+1, got, want)
		}
	}
}

// withoutAhead is a federation whose roles set up nothing ahead.
func withoutAhead(t *testing.T, cfg Config) *federation {
	t.Helper()
	f, err := newFederation(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := f.newSums()
	if err != nil {
		t.Fatal(err)
	}
	f.aggregator = aggregator.New(aggregator.Config{Clients: len(f.clients), StageTimeout: cfg.Network.StageTimeout, NewSum: sums.aggregator})
	for i := range f.clients {
		id := protocol.ClientID(i)
		f.clients[i] = *client.New(client.Config{ID: id, Session: cfg.Session, Trainer: cfg.Trainers[i],
			NewSum: func(s protocol.Setup) (client.Sum, error) { return sums.client(id, s) }, Noise: new(client.Samplers), Entropy: f.streams.Client(i)})
	}
	return f
}

// fatesOfTests returns losses that come and go, as many as are tolerated: at each stage that all
// sums have, and at random.
func fatesOfTests() map[string]calendar {
	all := map[string]calendar{"nobody": nil}
	for _, s := range []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StagePrepared, protocol.StageMaskedInput, protocol.StageUnmask} {
		all[s.String()] = diary{1: {s, 1}, 3: {s, 2}, 4: {s, 1}}
		all["first "+s.String()] = diary{2: {s, 1}, 5: {s, 2}}
	}
	all["any"] = newFaultPlan(Faults{Dropout: 0.06, Stages: []protocol.Stage{0, 1, 2, 3, 5}}, aheadRounds, 11)
	all["away"] = newFaultPlan(Faults{Away: 0.1, AwayRounds: 2}, aheadRounds, 2)
	return all
}

// Setting up ahead changes no result. If no client sits out, the sums and the losses equal those in
// a federation that sets up every round with its plan.
func TestAheadChangesNoResult(t *testing.T) {
	effort.NotShort(t, "42 federations take seconds")
	for _, k := range everySum {
		for name, fates := range fatesOfTests() {
			t.Run(k.name+"/"+name, func(t *testing.T) {
				if k == semiHonest || k != ideal && name != protocol.StageShare.String() && name != "any" {
					effort.LongOnly(t, "the ideal sum goes through all scripts")
				}
				cfg, got := aheadConfig(k, 0)
				out, err := runWith(t, cfg, fates)
				if err != nil {
					t.Fatal(err)
				}
				cfg, want := aheadConfig(k, 0)
				f := withoutAhead(t, cfg)
				if fates != nil {
					f.faults = fates
				}
				plain, err := f.run(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want.sums, got.sums); d != "" || len(got.sums) < aheadRounds-1 {
					t.Errorf("%d sums (-set up with the plan +ahead):\n%s", len(got.sums), d)
				}
				if len(got.sums) == aheadRounds && out.Clock >= plain.Clock {
					t.Errorf("it took %v, set up with the plan %v", out.Clock, plain.Clock)
				}
				for i, it := range out.Rounds {
					without := plain.Rounds[i]
					if it.Survivors != without.Survivors || it.Answered != without.Answered || it.Alive != without.Alive || it.Sent != without.Sent {
						t.Errorf("the round was like %+v, set up with the plan like %+v", it, without)
					}
				}
			})
		}
	}
}

// The real sum equals the ideal sum also when clients sit out, and the same clients do.
func TestRealIsIdealAhead(t *testing.T) {
	effort.NotShort(t, "26 federations take seconds")
	for sitOut, sums := range map[float64][]kindOfSum{0.15: {ideal, semiHonest}, 0.3: {ideal, active}} {
		for name, fates := range fatesOfTests() {
			t.Run(fmt.Sprintf("sit-out %v/%s", sitOut, name), func(t *testing.T) {
				few := []string{"nobody", protocol.StageAdvertise.String(), protocol.StagePrepared.String(), "away"}
				if strings.HasPrefix(name, "first") || sitOut == 0.3 && slices.Contains(few, name) {
					effort.LongOnly(t, "the other scripts have the same stages")
				}
				var first *adder
				for _, k := range sums {
					cfg, strategy := aheadConfig(k, sitOut)
					if _, err := runWith(t, cfg, fates); err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first = strategy
					}
					if d := cmp.Diff(first.sums, strategy.sums); d != "" || len(strategy.sums) == 0 {
						t.Errorf("%s: %d sums (-ideal +this):\n%s", k.name, len(strategy.sums), d)
					}
					if d := cmp.Diff(first.skipped, strategy.skipped); d != "" {
						t.Errorf("%s: skipped (-ideal +this):\n%s", k.name, d)
					}
				}
			})
		}
	}
}

// TestDroppedClientReenters checks that a client that drops out in one round is in the next round if that is set up anew. If the client
// sits out, it is in the round after. A client whose input arrived is in the sum.
func TestDroppedClientReenters(t *testing.T) {
	effort.NotShort(t, "27 federations take seconds")
	for _, c := range []struct {
		stage   protocol.Stage
		round   uint64
		sitOut  float64
		without string // rounds whose sums are without client 0
	}{
		{protocol.StageAdvertise, 1, 0, "1"},
		{protocol.StageAdvertise, 3, 0, "3"},
		{protocol.StageShare, 3, 0, "3"},
		{protocol.StageMaskedInput, 3, 0, "3"},
		{protocol.StageUnmask, 3, 0, ""},
		{protocol.StageAdvertise, 1, 0.15, "1 2"},
		{protocol.StageShare, 1, 0.15, "1 2"},
		{protocol.StageMaskedInput, 1, 0.15, "1 2"},
		{protocol.StageUnmask, 1, 0.15, "2"},
		{protocol.StageMaskedInput, 3, 0.15, "3 4"},
		{protocol.StageUnmask, 3, 0.15, "4"},
		{protocol.StageUnmask, aheadRounds, 0.15, ""},
	} {
		for _, k := range []kindOfSum{ideal, semiHonest, active} {
			t.Run(fmt.Sprintf("%s/%s in %d/sit-out %v", k.name, c.stage, c.round, c.sitOut), func(t *testing.T) {
				if k == active && (c.round != 3 || c.sitOut == 0 && c.stage != protocol.StageShare) {
					effort.LongOnly(t, "round 3 has the same stages, and the other sums go through all of them")
				}
				cfg, strategy := aheadConfig(k, c.sitOut)
				strategy.plan.Releases[0] = exact(aheadClients) // shows which clients are in a sum
				if _, err := runWith(t, cfg, diary{c.round: {c.stage, 1}}); err != nil {
					t.Fatal(err)
				}
				var without []string
				for i := uint64(1); i <= aheadRounds; i++ {
					v := strategy.sums[i].Values[0]
					if v[0] == 0 {
						without = append(without, fmt.Sprint(i))
					}
					for id, x := range v[1:] {
						if x != 1 {
							t.Errorf("client %d counts %v times in round %d", id+1, x, i)
						}
					}
				}
				if got := strings.Join(without, " "); got != c.without {
					t.Errorf("the sums of rounds %q are without it", got)
				}
			})
		}
	}
}

// In active mode a client that was lost between its masked input and the unmasking is in the sum,
// and sits out the next.
func TestLostAtConsistencySitsOut(t *testing.T) {
	cfg, strategy := aheadConfig(active, 0.15)
	strategy.plan.Releases[0] = exact(aheadClients)
	if _, err := runWith(t, cfg, diary{2: {protocol.StageConsistency, 1}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[uint64]float64{1: 1, 2: 1, 3: 0, 4: 1} {
		if got := strategy.sums[i].Values[0][0]; got != want {
			t.Errorf("round %d: client 0 counts %v times, want %v", i, got, want)
		}
	}
}

// impatient is a role that hears everything again while it has something computed:
// none of that may have an effect, nor, under the race detector, touch what the
// computation does.
type impatient struct {
	role
	heard   []protocol.Input
	repeats *int
	failed  func(protocol.Input, protocol.Effects)
}

func (r *impatient) Step(now time.Time, in protocol.Input) protocol.Effects {
	eff := r.role.Step(now, in)
	if _, ok := in.(protocol.Received); ok {
		r.heard = append(r.heard, in)
	}
	for i := range eff.Work {
		do := eff.Work[i].Do
		eff.Work[i].Do = func(run protocol.Runner) protocol.Done {
			done := make(chan protocol.Done, 1)
			go func() { done <- do(run) }()
			for _, again := range r.heard {
				*r.repeats++
				got := r.role.Step(now, again)
				// A round that is over is refused. To the server it is given up: it counts no client and changes no state.
				got.Send = slices.DeleteFunc(got.Send, func(e protocol.Envelope) bool {
					kind := e.Message.Kind()
					return kind == protocol.KindRefusal || kind == protocol.KindAbort && e.To.Role == protocol.Server
				})
				if len(got.Send)+len(got.Work)+len(got.Persist) != 0 {
					r.failed(again, got)
				}
			}
			return <-done
		}
	}
	return eff
}

// A deployment hands a role messages while its work runs on another goroutine.
func TestMessagesDuringWork(t *testing.T) {
	for _, k := range []kindOfSum{ideal, semiHonest, active} {
		fates := diary{2: {protocol.StageMaskedInput, 1}, 3: {protocol.StageUnmask, 1}, 4: {protocol.StageShare, 2}}
		cfg, want := aheadConfig(k, 0.15)
		out, err := runWith(t, cfg, fates)
		if err != nil {
			t.Fatal(err)
		}
		cfg, got := aheadConfig(k, 0.15)
		f, err := newFederation(cfg)
		if err != nil {
			t.Fatal(err)
		}
		f.faults = fates
		repeats := make([]int, 3)
		watch := func(r role, i int) role {
			return &impatient{role: r, repeats: &repeats[i], failed: func(in protocol.Input, eff protocol.Effects) {
				t.Errorf("%s: %s again: %+v", k.name, protocol.Describe(in.(protocol.Received).Envelope.Message), eff)
			}}
		}
		// Client 0 is lost now and then, client 5 never.
		f.listen(map[protocol.ClientID]role{0: watch(&f.clients[0], 0), 5: watch(&f.clients[5], 1)})
		f.aggregator = watch(f.aggregator, 2)
		outAgain, err := f.run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(out, outAgain); d != "" || len(got.sums) == 0 {
			t.Errorf("%s: %d sums, outcome (-undisturbed +this):\n%s", k.name, len(got.sums), d)
		}
		if d := cmp.Diff(want.sums, got.sums); d != "" {
			t.Errorf("%s: sums (-undisturbed +this):\n%s", k.name, d)
		}
		if min(repeats[0], repeats[1], repeats[2]) == 0 {
			t.Errorf("%s: %v messages were heard again", k.name, repeats)
		}
	}
}
