package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// strategy plans a number of rounds of 5 clients, 3 of them required, and
// keeps a diary of what it is told.
type strategy struct {
	rounds, at      uint64
	diary           []string
	sums            []protocol.Sums
	nextErr, sumErr error
}

func (s *strategy) note(format string, args ...any) {
	s.diary = append(s.diary, fmt.Sprintf(format, args...))
}

func (s *strategy) Next() (*protocol.Plan, bool, error) {
	if s.nextErr != nil {
		return nil, false, s.nextErr
	}
	if s.at == s.rounds {
		s.note("done")
		return nil, true, nil
	}
	s.at++
	s.note("next %d", s.at)
	return &protocol.Plan{Round: s.at, Cohort: protocol.Cohort{Clients: 5, Tolerance: 0.4}, Releases: []protocol.Release{
		{Name: "a", Len: 3, L2: 1, MaxNonZero: 1, Scale: 4, Width: 16},
		{Name: "b", Len: 1, L2: 1, MaxNonZero: 1, Scale: 0.5, Width: 16},
	}}, false, nil
}

func (s *strategy) Absorb(p *protocol.Plan, sums protocol.Sums, _ protocol.Runner) error {
	s.note("absorb %d", p.Round)
	s.sums = append(s.sums, sums)
	return s.sumErr
}

func (s *strategy) Skip(p *protocol.Plan, why error) { s.note("skip %d: %v", p.Round, why) }
func (s *strategy) Model() []byte                    { return []byte(fmt.Sprintf("model after %d", s.at)) }

// serverBench drives one server by hand.
type serverBench struct {
	t        *testing.T
	server   *server.Server
	strategy *strategy
	works    []protocol.Work
	last     protocol.Effects
}

func newServerBench(t *testing.T, rounds uint64) *serverBench {
	s := &strategy{rounds: rounds}
	return &serverBench{t: t, strategy: s, server: server.New(s)}
}

func (b *serverBench) step(in protocol.Input) protocol.Effects {
	b.last = b.server.Step(time.Time{}, in)
	b.works = append(b.works, b.last.Work...)
	return b.last
}

func (b *serverBench) receive(m protocol.Message) protocol.Effects {
	return b.step(protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, To: protocol.Party{}, Message: m}})
}

// result is a sound one: of release a 4, -2, 1 and of b 3.
func result(round uint64) *protocol.Result {
	return &protocol.Result{Round: round, Integers: [][]int64{{4, -2, 1}, {3}}, Survivors: 4, Answered: 3}
}

func abort(round uint64) *protocol.Abort {
	return &protocol.Abort{Round: round, Reason: &protocol.TooFew{Round: round, Stage: protocol.StageShare, Left: 2, Required: 3}}
}

// script feeds inputs, one a line, and compares the effects behind the arrow. They stand in the
// order in which a driver carries them out. Inputs are start; result 1 and abort 1 from the
// aggregator; run, the oldest work and its Done.
func (b *serverBench) script(text string) {
	b.t.Helper()
	for line := range strings.Lines(strings.TrimSpace(text)) {
		command, want, _ := strings.Cut(line, "->")
		command, want = strings.TrimSpace(command), strings.TrimSpace(want)
		if got := describe(b.t, b.command(command)); got != want {
			b.t.Errorf("%s -> %s\n\twant %s", command, got, want)
		}
	}
}

func (b *serverBench) command(text string) protocol.Effects {
	b.t.Helper()
	var verb string
	var round uint64
	if words, err := fmt.Sscan(text, &verb, &round); words == 0 {
		b.t.Fatalf("%q: %v", text, err)
	}
	switch verb {
	case "start":
		return b.step(protocol.Start{})
	case "result":
		return b.receive(result(round))
	case "abort":
		return b.receive(abort(round))
	case "run":
		if len(b.works) == 0 {
			b.t.Fatal("no work to run")
		}
		w := b.works[0]
		b.works = b.works[1:]
		return b.step(b.do(w))
	}
	b.t.Fatalf("no such command: %q", text)
	return protocol.Effects{}
}

// do runs work, which must not write to the server: that is for Step, with the Done.
func (b *serverBench) do(w protocol.Work) protocol.Done {
	b.t.Helper()
	before := testutil.Fields(b.server)
	done := w.Do(serial{})
	if d := cmp.Diff(before, testutil.Fields(b.server)); d != "" {
		b.t.Errorf("work wrote to the server (-before +after):\n%s", d)
	}
	return done
}

func describe(t *testing.T, eff protocol.Effects) string {
	t.Helper()
	var out []string
	for _, r := range eff.Persist {
		c, ok := r.(protocol.Checkpoint)
		if !ok {
			t.Errorf("a record of type %T", r)
		}
		out = append(out, fmt.Sprint("checkpoint ", c.Round))
	}
	for _, e := range eff.Send {
		if e.From.Role != protocol.Server || e.To.Role != protocol.Aggregator {
			t.Errorf("%s goes from %s to %s", e.Message.Kind(), e.From, e.To)
		}
		switch m := e.Message.(type) {
		case *protocol.Open:
			out = append(out, fmt.Sprint("open ", m.Plan.Round))
		case *protocol.Final:
			out = append(out, fmt.Sprintf("final %q", m.Model))
		default:
			out = append(out, m.Kind().String())
		}
	}
	for range eff.Work {
		out = append(out, "work")
	}
	for _, e := range eff.Events {
		out = append(out, e.Kind.String())
	}
	return strings.Join(out, ", ")
}

func (b *serverBench) checkDiary(want ...string) {
	b.t.Helper()
	if d := cmp.Diff(want, b.strategy.diary); d != "" {
		b.t.Errorf("what the strategy was told (-want +got):\n%s", d)
	}
}

func TestSession(t *testing.T) {
	b := newServerBench(t, 3)
	b.script(`
		start    -> open 1
		result 1 -> work
		run      -> open 2
		abort 2  -> open 3
		result 3 -> work
		run      -> final "model after 3", session-ended`)
	b.checkDiary("next 1", "absorb 1", "next 2", "skip 2: round 2: 2 clients left after the stage share, 3 required", "next 3", "absorb 3", "done")
	// Integers over the releases' scales, 4 and 0.5; the number is |U1|.
	want := protocol.Sums{Values: [][]float64{{1, -0.5, 0.25}, {6}}, Survivors: 4}
	if d := cmp.Diff([]protocol.Sums{want, want}, b.strategy.sums); d != "" {
		t.Errorf("sums (-want +got):\n%s", d)
	}
}

// Training that is over before it began still gives clients the model.
func TestSessionOfNothing(t *testing.T) {
	b := newServerBench(t, 0)
	b.script(`start -> final "model after 0", session-ended`)
}

// Inputs that come twice, late, early or after the end are ignored: nothing is absorbed or skipped
// a second time.
func TestIgnored(t *testing.T) {
	b := newServerBench(t, 2)
	b.script(`
		result 1 -> message-ignored
		abort 1  -> message-ignored
		start    -> open 1
		result 0 -> message-ignored
		result 2 -> message-ignored
		abort 2  -> message-ignored
		result 1 -> work
		result 1 -> message-ignored
		abort 1  -> message-ignored
		run      -> open 2
		result 1 -> message-ignored
		abort 1  -> message-ignored
		abort 2  -> final "model after 2", session-ended
		abort 2  -> message-ignored
		result 2 -> message-ignored
		result 3 -> message-ignored`)
	b.checkDiary("next 1", "absorb 1", "next 2", "skip 2: round 2: 2 clients left after the stage share, 3 required", "done")
}

func TestMessagesFromOthers(t *testing.T) {
	b := newServerBench(t, 2)
	b.script(`start -> open 1`)
	for _, from := range []protocol.Party{protocol.ClientParty(0), {Role: protocol.Server}} {
		for _, m := range []protocol.Message{result(1), abort(1)} {
			eff := b.step(protocol.Received{Envelope: protocol.Envelope{From: from, Message: m}})
			if got := describe(t, eff); got != "message-ignored" {
				t.Errorf("%s from %s: %s", m.Kind(), from, got)
			}
			if e := eff.Events[0]; e.Party != from || e.Err == nil {
				t.Errorf("event %+v does not say who, and why", e)
			}
		}
	}
	for _, m := range []protocol.Message{&protocol.Open{}, &protocol.Advertise{Round: 1}, &protocol.Final{}} {
		if got := describe(t, b.receive(m)); got != "message-ignored" {
			t.Errorf("%s: %s", m.Kind(), got)
		}
	}
	b.script(`result 1 -> work`)
}

// A result that is not one of the plan; a sound one is still taken after it.
func TestWrongResults(t *testing.T) {
	for name, change := range map[string]func(*protocol.Result){
		"no vectors":                func(r *protocol.Result) { r.Integers = nil },
		"one vector":                func(r *protocol.Result) { r.Integers = r.Integers[:1] },
		"three vectors":             func(r *protocol.Result) { r.Integers = append(r.Integers, []int64{1}) },
		"short vector":              func(r *protocol.Result) { r.Integers[0] = r.Integers[0][:2] },
		"long vector":               func(r *protocol.Result) { r.Integers[1] = []int64{1, 2} },
		"no survivors":              func(r *protocol.Result) { r.Survivors = 0 },
		"fewer than required":       func(r *protocol.Result) { r.Survivors = 2 },
		"more than N":               func(r *protocol.Result) { r.Survivors = 6 },
		"negative":                  func(r *protocol.Result) { r.Survivors = -4 },
		"more answers than inputs":  func(r *protocol.Result) { r.Answered = 5 },
		"fewer answers than needed": func(r *protocol.Result) { r.Answered = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newServerBench(t, 1)
			b.script(`start -> open 1`)
			r := result(1)
			change(r)
			if got := describe(t, b.receive(r)); got != "message-ignored" {
				t.Fatalf("%s, want message-ignored", got)
			}
			b.script(`
				result 1 -> work
				run      -> final "model after 1", session-ended`)
			b.checkDiary("next 1", "absorb 1", "done")
		})
	}
}

func TestSurvivorsFromRequiredToAll(t *testing.T) {
	for survivors := 3; survivors <= 5; survivors++ {
		b := newServerBench(t, 1)
		b.script(`start -> open 1`)
		r := result(1)
		r.Survivors, r.Answered = survivors, 3
		if got := describe(t, b.receive(r)); got != "work" {
			t.Errorf("%d survivors: %s, want work", survivors, got)
		}
	}
}

func TestFailures(t *testing.T) {
	b := newServerBench(t, 2)
	b.strategy.sumErr = errors.New("cannot absorb")
	b.script(`
		start    -> open 1
		result 1 -> work
		run      -> work-failed`)
	if e := b.last.Events[0]; !errors.Is(e.Err, b.strategy.sumErr) || e.Round != 1 {
		t.Errorf("event %+v, want the strategy's error in round 1", e)
	}
	b.script(`
		result 1 -> message-ignored
		abort 1  -> message-ignored`)

	b = newServerBench(t, 2)
	b.strategy.nextErr = errors.New("cannot plan")
	b.script(`start -> work-failed`)
	if !errors.Is(b.last.Events[0].Err, b.strategy.nextErr) {
		t.Errorf("event %+v, want the strategy's error", b.last.Events[0])
	}
	b.script(`result 1 -> message-ignored`)
}

// A Done that answers no work in progress changes nothing.
func TestDoneOfNothing(t *testing.T) {
	b := newServerBench(t, 3)
	for _, when := range []string{"start", "result 1", "run", "abort 2"} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("before %s: panic: %v", when, r)
				}
			}()
			for _, done := range []protocol.Done{{ID: 0}, {ID: 0, Err: errors.New("failed")}, {ID: 9}} {
				if got := describe(t, b.step(done)); got != "" {
					t.Errorf("before %s: Done %+v: %s, want nothing", when, done, got)
				}
			}
		}()
		b.command(when)
	}
	// A repeated Done is ignored, too.
	b = newServerBench(t, 3)
	b.script(`
		start    -> open 1
		result 1 -> work`)
	done := b.works[0].Do(serial{})
	b.step(done)
	if got := describe(t, b.step(done)); got != "" {
		t.Errorf("the same Done again: %s, want nothing", got)
	}
}

// Step promises not to panic on what a peer sent; nor may what it hands the
// strategy: an abort without a reason is one nevertheless.
func TestEmptyMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{"no message": nil, "abort without a reason": &protocol.Abort{Round: 1}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("panic: %v", r)
				}
			}()
			b := newServerBench(t, 2)
			b.script(`start -> open 1`)
			b.receive(m)
			for _, line := range b.strategy.diary {
				if strings.Contains(line, "<nil>") {
					t.Errorf("the strategy was told %q", line)
				}
			}
		})
	}
}

// The aggregator is started anew, or nothing is heard of a round for too long: the round is skipped
// as an attempt, and the next round opened. A round that is over, or has its result here, is not
// given up.
func TestGivenUp(t *testing.T) {
	b := newServerBench(t, 4)
	b.server.Wait(time.Minute, time.Hour)
	at := func(d time.Duration, in protocol.Input) string {
		eff := b.server.Step(time.Time{}.Add(d), in)
		b.works = append(b.works, eff.Work...)
		out := describe(t, eff)
		if !eff.Wake.IsZero() {
			out += fmt.Sprintf(", wake %s", eff.Wake.Sub(time.Time{}))
		}
		return out
	}
	received := func(m protocol.Message) protocol.Input {
		return protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, Message: m}}
	}
	for i, c := range []struct {
		after time.Duration
		in    protocol.Input
		want  string
	}{
		{0, protocol.Registered{}, ""}, // nothing is in progress
		{0, protocol.Start{}, "open 1, wake 1m0s"},
		{time.Minute - 1, protocol.Tick{}, ""},
		{time.Minute, protocol.Tick{}, "open 2, round-aborted, wake 2m0s"},
		{90 * time.Second, protocol.Registered{}, "open 3, round-aborted, wake 2m30s"},
		{2 * time.Minute, protocol.Tick{}, ""}, // of round 2
		{140 * time.Second, received(result(3)), "work"},
		{151 * time.Second, protocol.Tick{}, ""},
		{151 * time.Second, protocol.Registered{}, ""},
	} {
		if got := at(c.after, c.in); got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
	}
	b.checkDiary("next 1", "skip 1: "+server.ErrOverdue.Error(), "next 2", "skip 2: "+server.ErrAggregatorLost.Error(), "next 3")
}

// A round that the aggregator holds until enough clients are connected may take longer, by as much as the server
// was told, and once: a message that is repeated gives it no more.
func TestHeldRoundIsAwaited(t *testing.T) {
	b := newServerBench(t, 4)
	b.server.Wait(time.Minute, time.Hour)
	at := func(d time.Duration, in protocol.Input) string {
		eff := b.server.Step(time.Time{}.Add(d), in)
		out := describe(t, eff)
		if !eff.Wake.IsZero() {
			out += fmt.Sprintf(", wake %s", eff.Wake.Sub(time.Time{}))
		}
		return out
	}
	held := func(round uint64) protocol.Input {
		return protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, Message: &protocol.Held{Round: round, Connected: 1, Required: 3}}}
	}
	for i, c := range []struct {
		after time.Duration
		in    protocol.Input
		want  string
	}{
		{0, held(1), "message-ignored"}, // nothing is in progress
		{0, protocol.Start{}, "open 1, wake 1m0s"},
		{time.Second, held(2), "message-ignored"},
		{time.Second, held(1), "round-held, wake 1h1m1s"},
		{time.Minute, protocol.Tick{}, ""},
		{time.Hour, held(1), "round-held"},
		{time.Hour + 61*time.Second, protocol.Tick{}, "open 2, round-aborted, wake 1h2m1s"},
	} {
		if got := at(c.after, c.in); got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
	}
}
