package sim_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// The files chaos_*_test.go test a federation under randomly generated faults: the roles and the secure sum of
// a deployment, on a virtual clock. The network loses, delays, duplicates and reorders messages.
// Clients crash at any point and restart with nothing but their durable records.
//
// A seed determines one Schedule: the cohort, the graph, the releases, the budgets and every
// fault. A schedule has two phases. In the first, faults occur, and a round may end in a sum
// or in an abort. Then the federation heals: all clients run and no further message is lost,
// although delayed messages still arrive. The next round must end in a sum. Throughout,
// Checker objects observe the messages that are sent and received and the records that are made
// durable, and each checks one rule of the protocol.
//
//	go test ./sim -run TestSchedules -schedules 500 -seed 1 -mode both -v
//	go test ./sim -run TestReplay -replay 17 -v # one of them, told as it happens
//
// Equal flags give equal reports at any number of workers.
//
// The server and the aggregator do not crash, and messages between them are duplicated and delayed
// but not lost: the server has no clock, so a deployment must keep that link reliable. No party
// lies; the attack tests of package secagg cover that. Active mode runs on complete graphs only,
// since the sparse graph begins above 500 clients, and without replaced noise, which it refuses.

// The schedules that go test runs. A report of a broken rule names the flags that replay it.
var (
	schedules = flag.Int("schedules", 20, "schedules that TestSchedules runs")
	seed      = flag.Uint64("seed", 816, "seed of the first; the others' follow it")
	mode      = flag.String("mode", string(Both), "mode of the secure sum: semi-honest, active, or both, which is either by the seed")
	replayed  = flag.Int64("replay", -1, "seed of the schedule that TestReplay tells as it happens; see it with -v")
)

// No schedule breaks a rule, and every schedule ends in a sum once it is healed. With the flags'
// defaults the test also checks that this means something: all faults strike, rounds end in all
// possible ways, and messages of all kinds travel. The exception is a secret that cannot be restored,
// whose chance the graph keeps below 2^-20.
func TestSchedules(t *testing.T) {
	effort.NotShort(t, "20 schedules take a second")
	cfg := Config{Schedules: *schedules, Seed: *seed, Modes: Modes(*mode), Workers: protocol.Workers(runtime.GOMAXPROCS(0))}
	r, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err != nil {
		t.Errorf("%v; the first: %v", err, r.Violations[0])
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	if r.Healed != cfg.Schedules {
		t.Errorf("%d of %d healed schedules ended in a sum", r.Healed, cfg.Schedules)
	}
	last := 0
	for _, o := range r.Outcomes {
		last += o.Schedules
	}
	if last != cfg.Schedules {
		t.Errorf("the outcomes of %d schedules are counted", last)
	}
	if cfg.Schedules < 20 || cfg.Modes != Both {
		return
	}
	if r.Ahead == 0 {
		t.Error("no round began set up ahead")
	}
	for k := range protocol.KindForward { // there are no relays, and no connection counts: no round is held
		if r.Messages[k] == 0 && k != protocol.KindHeld {
			t.Errorf("no message %s was sent", k)
		}
	}
	if r.Riders == 0 {
		t.Error("nothing travelled with another message")
	}
	for _, o := range r.Outcomes {
		if o.Rounds == 0 && o.Name != inUnrecoverable {
			t.Errorf("no round ended in %q", o.Name)
		}
	}
	f := r.Faults
	if min(f.Dropped, f.Duplicated, f.Delayed, f.Reordered, f.Crashed, f.Redelivered, f.Slowed) == 0 {
		t.Errorf("some fault never struck: %+v", f)
	}
}

// The schedule of the flag -replay breaks no rule; -v tells what happens in it.
func TestReplay(t *testing.T) {
	if *replayed < 0 {
		t.Skip("no seed; give -replay SEED")
	}
	err := Replay(uint64(*replayed), Modes(*mode), func(at time.Duration, what string) { t.Logf("%9.3f s  %s", at.Seconds(), what) })
	if err != nil {
		t.Error(err)
	}
}

// The report is the same at any number of workers, and a replay repeats to the letter.
func TestDeterminism(t *testing.T) {
	var first *Report
	for _, workers := range []protocol.Workers{1, 3} {
		r, err := Run(context.Background(), Config{Schedules: 4, Seed: 936, Modes: Both, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r
		}
		if d := cmp.Diff(first, r); d != "" {
			t.Errorf("%d workers (-1 worker):\n%s", workers, d)
		}
	}
	var told [2]strings.Builder
	for i := range told {
		if err := Replay(937, Both, func(at time.Duration, what string) { fmt.Fprintln(&told[i], at, what) }); err != nil {
			t.Fatal(err)
		}
	}
	if told[0].Len() == 0 || told[0].String() != told[1].String() {
		t.Errorf("two replays differ (-first +second):\n%s", cmp.Diff(told[0].String(), told[1].String()))
	}
}

// A draw covers all choices and is consistent.
func TestDraw(t *testing.T) {
	count := make(map[string]int)
	for seed := range uint64(2000) {
		s, err := Draw(seed, Both)
		if err != nil {
			t.Fatal(err)
		}
		count["mode "+s.Mode.String()]++
		if s.setup().Replaces && s.Mode == secagg.Active {
			t.Errorf("seed %d: noise is replaced in active mode", seed)
		}
		count[fmt.Sprint("complete ", s.Graph.Complete)]++
		count[fmt.Sprint("ledgers ", s.private())]++
		count[fmt.Sprint("poor clients ", s.Poor > 0)]++
		count[fmt.Sprint("no loss tolerated ", s.Cohort.Required() == s.Cohort.Clients)]++
		for _, r := range s.Releases {
			count["noise "+r.Noise.Kind.String()]++
			count[fmt.Sprint("wide ", r.Width > 48)]++
			if err := r.Validate(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		for _, v := range s.Volleys {
			lost := s.Cohort.Clients - len(v.Clients)
			count[fmt.Sprintf("volley %s after=%t fatal=%t", v.Stage, v.After, lost < s.Cohort.Required())]++
		}
		for _, modes := range []Modes{SemiHonest, Active} {
			one, err := Draw(seed, modes)
			if err != nil || one.Mode.String() != string(modes) {
				t.Errorf("seed %d in mode %s: %v, %v", seed, modes, one.Mode, err)
			}
		}
	}
	want := []string{"mode semi-honest", "mode active", "complete true", "complete false", "ledgers true", "ledgers false",
		"poor clients true", "poor clients false", "no loss tolerated true", "no loss tolerated false",
		"noise none", "noise split", "noise own", "noise replace", "wide true", "wide false"}
	for stage := range protocol.Stages {
		for _, after := range []bool{true, false} {
			for _, fatal := range []bool{true, false} {
				want = append(want, fmt.Sprintf("volley %s after=%t fatal=%t", stage, after, fatal))
			}
		}
	}
	for _, what := range want {
		if count[what] < 5 {
			t.Errorf("%s: drawn %d times in 2000 schedules", what, count[what])
		}
	}
}

// twice is a client with a bug: it answers the stage unmask a second time, with
// other removals.
type twice struct{ role }

func (r twice) Step(now time.Time, in protocol.Input) protocol.Effects {
	eff := r.role.Step(now, in)
	for _, e := range eff.Send {
		if m, ok := e.Message.(*protocol.Unmask); ok {
			other := *m
			other.Removed = [][]byte{{0, 0, 0}}
			e.Message = &other
			eff.Send = append(eff.Send, e)
		}
	}
	return eff
}

// A bug in a role is found, told and reported under the seed of its schedule, and
// nowhere else.
func TestViolationIsReported(t *testing.T) {
	s := calm(t)
	w, err := newWorld(s, new(dp.Cache), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.machines[2].role = twice{w.machines[2].role}
	w.run()
	r := newReport(Config{Schedules: 1, Seed: s.Seed, Modes: Both})
	r.add(w.result)
	var text bytes.Buffer
	if err = r.Print(&text); err != nil {
		t.Fatal(err)
	}
	const want = `violation: seed 77 (semi-honest) broke the rule "a client answers a stage in one way": round 1: client 2 sends two different messages unmask`
	if !strings.Contains(text.String(), want) {
		t.Errorf("the report does not say %q:\n%s", want, &text)
	}
	if err = r.Err(); err == nil || !strings.Contains(err.Error(), "-replay 77 -mode both") {
		t.Errorf("the error does not say how to see it: %v", err)
	}
}

// Rounds that begin set up ahead are counted. Of three without a lost client, the second and
// the third are. If one client is lost in the first, the second is only if it may be without that
// client.
func TestAheadIsCounted(t *testing.T) {
	for _, c := range []struct {
		rounds  int
		volleys bool
		sitOut  float64
		want    int
		text    string
	}{
		{2, false, 0, 2, "2 of all 3 rounds began set up ahead"},
		{1, true, 0, 0, "0 of all 2 rounds began set up ahead"},
		{1, true, 0.125, 1, "1 of all 2 rounds began set up ahead"},
	} {
		s := calm(t)
		if s.Rounds, s.SitOut = c.rounds, c.sitOut; !c.volleys {
			s.Volleys = nil
		}
		w, err := newWorld(s, new(dp.Cache), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.run()
		r := newReport(Config{Schedules: 1, Seed: s.Seed, Modes: Both})
		r.add(w.result)
		var text bytes.Buffer
		if err = r.Print(&text); err != nil {
			t.Fatal(err)
		}
		if r.Ahead != c.want || !strings.Contains(text.String(), c.text+"\n") {
			t.Errorf("%+v: %d counted, the report says\n%s", c, r.Ahead, &text)
		}
	}
}

// A client whose crash falls between its record and its answer has been charged for nothing, and
// sits the round out. A client that crashes before the record is not charged.
func TestCrashPoints(t *testing.T) {
	s := calm(t)
	s.Faults.After = 1
	w, err := newWorld(s, new(dp.Cache), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := w.machines[0]
	for d.up { // until one of the three draws is that
		plan := &protocol.Plan{Session: w.session, Round: 1, Phase: "chaos", Cohort: s.Cohort, Releases: s.Releases, Broadcast: []byte("start")}
		from := protocol.Party{Role: protocol.Aggregator}
		w.happen(&happening{at: epoch, to: protocol.ClientParty(0),
			in: protocol.Received{Envelope: protocol.Envelope{From: from, To: protocol.ClientParty(0), Message: &protocol.Announce{Plan: plan}}}})
	}
	recorded := len(d.records)
	if err = d.start(); err != nil {
		t.Fatal(err)
	}
	if got := d.ledger.Spent().Epsilon > 0; d.life != 2 || recorded > 1 || got != (recorded == 1) {
		t.Errorf("in life %d, with %d records, the ledger has spent %v", d.life, recorded, d.ledger.Spent())
	}
	if w.result.faults.Crashed != 1 {
		t.Errorf("%d crashes", w.result.faults.Crashed)
	}
}

func TestCancelledSchedules(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, Config{Schedules: 1000, Seed: 1, Modes: Both, Workers: 1, Progress: func(done int) {
		if done == 2 {
			cancel()
		}
		if done > 2 {
			t.Errorf("schedule %d was run after being cancelled", done)
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run ended with %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Schedules: 0, Modes: Both}, {Schedules: 1, Modes: "passive"}, {Schedules: 1}} {
		if _, err := Run(context.Background(), c); err == nil {
			t.Errorf("%+v: accepted", c)
		}
	}
	if err := Replay(1, "passive", nil); err == nil {
		t.Error("a replay in an unknown mode: accepted")
	}
}

// calm is a schedule of two rounds without faults but one client's masked
// input lost in the first.
func calm(t *testing.T) *Schedule {
	t.Helper()
	s := &Schedule{
		Seed: 77, Mode: secagg.SemiHonest, Rounds: 1, Cohort: protocol.Cohort{Clients: 8, Tolerance: 0.25, Colluders: 0.1},
		Releases: []protocol.Release{
			{Name: "split", Len: 3, MaxNonZero: 3, L2: 40, LInf: bound, Scale: 1, Width: 24, Noise: protocol.Noise{Kind: protocol.Split, Variance: 100}},
			{Name: "own", Len: 4, MaxNonZero: 2, L2: 40, LInf: bound, Scale: 1, Width: 16, Noise: protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 5, SamplingRate: 1, Steps: 1}},
		},
		Volleys: []Volley{{Round: 1, Stage: protocol.StageMaskedInput, Clients: []protocol.ClientID{0}, After: true}},
	}
	return withGraph(t, s)
}

// calmReplacing is the same with noise that is replaced, and one more client that is
// lost in the first round: it has sent its input, and its answer to unmask is lost.
func calmReplacing(t *testing.T) *Schedule {
	t.Helper()
	s := calm(t)
	s.Releases[0].Noise.Kind = protocol.TwoRound
	s.Volleys = append(s.Volleys, Volley{Round: 1, Stage: protocol.StageUnmask, Clients: []protocol.ClientID{1}, After: true})
	return withGraph(t, s)
}

func withGraph(t *testing.T, s *Schedule) *Schedule {
	t.Helper()
	var err error
	if s.Graph, err = s.Params().Graph(s.setup()).Choose(); err != nil {
		t.Fatal(err)
	}
	return s
}
