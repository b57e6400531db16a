package server_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/modelserver"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

var session = protocol.SessionID{0xab, 15: 0xcd}

// durable is a strategy with a state: the number of the latest round, as text.
type durable struct {
	*strategy
	saveErr error
}

func (d durable) Next() (*protocol.Plan, bool, error) {
	p, done, err := d.strategy.Next()
	if p != nil {
		p.Session = session
	}
	return p, done, err
}

func (d durable) Save() ([]byte, error) { return fmt.Appendf(nil, "at %d", d.at), d.saveErr }

func (d durable) Restore(state []byte) error {
	var at uint64
	if _, err := fmt.Sscanf(string(state), "at %d", &at); err != nil {
		return fmt.Errorf("no number in %q", state)
	}
	d.at = at
	d.note("restore %d", at)
	return nil
}

func newDurableBench(t *testing.T, rounds uint64) *serverBench {
	d := durable{strategy: &strategy{rounds: rounds}}
	return &serverBench{t: t, strategy: d.strategy, server: server.NewDurable(d, session)}
}

// latest is the checkpoint among the last effects.
func (b *serverBench) latest() protocol.Checkpoint {
	b.t.Helper()
	if len(b.last.Persist) != 1 {
		b.t.Fatalf("%d records, want a checkpoint", len(b.last.Persist))
	}
	return b.last.Persist[0].(protocol.Checkpoint)
}

// resume makes the server once more, in another process.
func resume(t *testing.T, rounds uint64, c protocol.Checkpoint) *serverBench {
	t.Helper()
	d := durable{strategy: &strategy{rounds: rounds}}
	s, err := server.Resume(d, c)
	if err != nil {
		t.Fatal(err)
	}
	return &serverBench{t: t, strategy: d.strategy, server: s}
}

func checkAttempts(t *testing.T, s *server.Server, opened, released uint64) {
	t.Helper()
	if got, want := s.Attempts(), (server.Attempts{Opened: opened, Released: released}); got != want {
		t.Errorf("attempts %+v, want %+v", got, want)
	}
}

// The state that a round starts from is durable before its plan leaves, and the model before it is
// given out.
func TestCheckpointsComeFirst(t *testing.T) {
	b := newDurableBench(t, 3)
	b.script(`
		start    -> checkpoint 1, open 1
		result 1 -> work
		run      -> checkpoint 2, open 2`)
	if resume(t, 3, b.latest()).server.Finished() {
		t.Error("before the last round the server is finished")
	}
	b.script(`
		abort 2  -> checkpoint 3, open 3
		result 3 -> work
		run      -> checkpoint 3, final "model after 3", session-ended`)
	checkAttempts(t, b.server, 3, 2)
	if again := resume(t, 3, b.latest()); !again.server.Finished() {
		t.Error("after the last round the server is not finished")
	} else {
		again.script(`start -> checkpoint 3, final "model after 3", session-ended`)
	}
	b = newDurableBench(t, 0)
	b.script(`start -> checkpoint 0, final "model after 0", session-ended`)
	checkAttempts(t, b.server, 0, 0)
	// In a simulation nothing is kept, and attempts are counted all the same.
	b = newServerBench(t, 1)
	b.script(`
		start    -> open 1
		result 1 -> work
		run      -> final "model after 1", session-ended`)
	checkAttempts(t, b.server, 1, 1)
}

// The form of a checkpoint, byte by byte: domain, rounds opened and released,
// the strategy's state.
func TestCheckpointBytes(t *testing.T) {
	b := newDurableBench(t, 2)
	b.script(`
		start    -> checkpoint 1, open 1
		result 1 -> work
		run      -> checkpoint 2, open 2`)
	want := protocol.Checkpoint{Session: session, Round: 2,
		State: []byte("fedsim/server/v1\n" + "\x00\x00\x00\x00\x00\x00\x00\x02" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "at 1")}
	if d := cmp.Diff(want, b.latest()); d != "" {
		t.Errorf("checkpoint (-want +got):\n%s", d)
	}
}

// A round in progress when the server stops is an attempt that released
// nothing: it is skipped, and its number not used again.
func TestResumeSkipsWhatWasInProgress(t *testing.T) {
	b := newDurableBench(t, 4)
	b.script(`
		start    -> checkpoint 1, open 1
		result 1 -> work
		run      -> checkpoint 2, open 2
		result 2 -> work`)
	// It stops before the sum is taken in.
	again := resume(t, 4, protocol.Checkpoint{Session: session, Round: 2,
		State: []byte("fedsim/server/v1\n" + "\x00\x00\x00\x00\x00\x00\x00\x02" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "at 1")})
	again.checkDiary("restore 1", "next 2", "skip 2: the server stopped while the round was in progress")
	again.script(`
		result 2 -> message-ignored
		start    -> checkpoint 3, open 3, round-aborted
		result 2 -> message-ignored
		abort 2  -> message-ignored`)
	if len(again.works) > 0 {
		t.Error("a result of the lost round is taken in")
	}
	// And once more, at once.
	checkAttempts(t, again.server, 3, 1)
	again.script(`abort 3 -> checkpoint 4, open 4`)
	third := resume(t, 4, again.latest())
	third.script(`start -> checkpoint 4, final "model after 4", round-aborted, session-ended`)
	checkAttempts(t, third.server, 4, 1)
	// After the end there is the model to give out again, and nothing to skip.
	last := resume(t, 4, third.latest())
	last.script(`start -> checkpoint 4, final "model after 4", session-ended`)
	last.checkDiary("restore 4", "done", "done")
	checkAttempts(t, last.server, 4, 1)
}

func TestInterruptedIsReported(t *testing.T) {
	b := newDurableBench(t, 2)
	b.script(`start -> checkpoint 1, open 1`)
	again := resume(t, 2, b.latest())
	eff := again.step(protocol.Start{})
	if len(eff.Events) != 1 || eff.Events[0].Round != 1 || !errors.Is(eff.Events[0].Err, server.ErrInterrupted) {
		t.Errorf("events %+v, want round 1 interrupted", eff.Events)
	}
}

func TestResumeRefuses(t *testing.T) {
	good := func() protocol.Checkpoint {
		return protocol.Checkpoint{Session: session, Round: 2,
			State: []byte("fedsim/server/v1\n" + "\x00\x00\x00\x00\x00\x00\x00\x02" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "at 1")}
	}
	resume(t, 4, good())
	const opened, released = 17, 25
	for _, tt := range []struct {
		what   string
		change func(*protocol.Checkpoint)
		reason string
	}{
		{"no state", func(c *protocol.Checkpoint) { c.State = nil }, "a state of 0 bytes; it begins with 33"},
		{"a torn state", func(c *protocol.Checkpoint) { c.State = c.State[:32] }, "a state of 32 bytes; it begins with 33"},
		{"another version", func(c *protocol.Checkpoint) { c.State[15] = '2' }, `the state begins with "fedsim/server/v2\n"; it must begin with "fedsim/server/v1\n"`},
		{"more sums than rounds", func(c *protocol.Checkpoint) { c.State[released+7] = 3 }, "the state has 3 sums of 2 rounds"},
		{"more rounds than numbers", func(c *protocol.Checkpoint) { c.State[opened+7] = 3 }, "3 rounds opened, and the latest is number 2"},
		{"a strategy that refuses", func(c *protocol.Checkpoint) { c.State = c.State[:34] }, `no number in "a"`},
		{"another round", func(c *protocol.Checkpoint) { c.Round = 3 }, "its state continues with round 2 in session ab"},
		{"another session", func(c *protocol.Checkpoint) { c.Session[0]++ }, "its state continues with round 2 in session ab"},
	} {
		c := good()
		tt.change(&c)
		s, err := server.Resume(durable{strategy: &strategy{rounds: 4}}, c)
		if err == nil || s != nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: error %v, want %q in it", tt.what, err, tt.reason)
		} else if want := fmt.Sprintf("round %d in session %x: ", c.Round, c.Session); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say that it is about %s", tt.what, err, want)
		}
	}
	broken := &strategy{rounds: 4, nextErr: errors.New("cannot plan")}
	if _, err := server.Resume(durable{strategy: broken}, good()); !errors.Is(err, broken.nextErr) {
		t.Errorf("a strategy that cannot plan: %v", err)
	}
}

// A strategy that cannot be saved, plans for another session or uses a number twice
// opens nothing.
func TestNothingIsOpenedWithoutACheckpoint(t *testing.T) {
	d := durable{strategy: &strategy{rounds: 2}, saveErr: errors.New("cannot save")}
	b := &serverBench{t: t, strategy: d.strategy, server: server.NewDurable(d, session)}
	b.script(`start -> work-failed`)
	if !errors.Is(b.last.Events[0].Err, d.saveErr) {
		t.Errorf("event %+v, want the strategy's error", b.last.Events[0])
	}
	d = durable{strategy: &strategy{rounds: 2}}
	b = &serverBench{t: t, strategy: d.strategy, server: server.NewDurable(d, protocol.SessionID{1})}
	b.script(`start -> work-failed`)
	b = newServerBench(t, 9)
	b.script(`start -> open 1`)
	b.strategy.at = 0
	b.script(`abort 1 -> work-failed`)
	if got := fmt.Sprint(b.last.Events[0].Err); got != "a plan of round 1 after 1; no number is used twice" {
		t.Error(got)
	}
}

// algorithms makes the server's side of each algorithm, of 6 rounds.
func algorithms(t *testing.T) map[string]server.Durable {
	t.Helper()
	cohort := protocol.Cohort{Clients: 5, Tolerance: 0.4}
	params := kernel.Params{Items: 6, Rank: 2, MaxRating: 5, StartMean: 3.5, Spread: 0.05, Seed: 1}
	r := params.Release()
	r.Scale, r.Width = 1e5, 32
	run := func(r protocol.Release) modelserver.Server {
		return modelserver.Server{Session: session, Cohort: cohort, Schedule: scheduleOf(r)}
	}
	lfl := kernel.NewLFL(params, 1e-3, run(r))
	silo := kernel.PartyParams{Params: params, Users: 4, Unit: dp.Rating, Clipping: kernel.EmbeddingClipping,
		Rounds: 6, LocalSteps: 1, SamplingRate: 1, Density: 1, UserRate: 1e-2, ItemRate: 1e-2}
	r = silo.Release(6)
	r.Width = 40
	average := kernel.NewAverage(silo, params.StartItems(), run(r))
	return map[string]server.Durable{"LFL": lfl, "Average": average}
}

// scheduleOf returns the schedule that asks for a release in each of 6 rounds.
func scheduleOf(r protocol.Release) protocol.Schedule {
	return protocol.Schedule{{Rounds: 6, Phase: r.Name, Releases: []protocol.Release{r}}}
}

// hand runs a session by hand: in each round the server gets a sum that follows from its
// number, an abort, or is stopped and resumed from what it recorded last.
type hand struct {
	t      *testing.T
	name   string
	server *server.Server
	plan   *protocol.Plan
	kept   protocol.Checkpoint
	model  []byte // at the end
}

func (h *hand) step(in protocol.Input) {
	h.t.Helper()
	eff := h.server.Step(time.Time{}, in)
	for _, r := range eff.Persist {
		h.kept = r.(protocol.Checkpoint)
	}
	for _, e := range eff.Send {
		switch m := e.Message.(type) {
		case *protocol.Open:
			h.plan = m.Plan
		case *protocol.Final:
			h.plan, h.model = nil, m.Model
		}
	}
	for _, w := range eff.Work {
		h.step(w.Do(serial{}))
	}
	for _, e := range eff.Events {
		if e.Kind == protocol.WorkFailed || e.Kind == protocol.MessageIgnored {
			h.t.Fatalf("%s: %s: %v", h.name, e.Kind, e.Err)
		}
	}
}

func (h *hand) receive(m protocol.Message) {
	h.t.Helper()
	h.step(protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, Message: m}})
}

func (h *hand) sum() {
	h.t.Helper()
	rng := rand.New(rand.NewPCG(7, h.plan.Round))
	r := &protocol.Result{Round: h.plan.Round, Survivors: 4, Answered: 4}
	for _, release := range h.plan.Releases {
		v := make([]int64, release.Len)
		for i := range v {
			v[i] = rng.Int64N(1<<20) - 1<<19
		}
		v[release.Len-1] = 1 << 20 // of an average: the weight
		r.Integers = append(r.Integers, v)
	}
	h.receive(r)
}

func (h *hand) restart() {
	h.t.Helper()
	kept := protocol.Checkpoint{Session: h.kept.Session, Round: h.kept.Round, State: bytes.Clone(h.kept.State)}
	s, err := server.Resume(algorithms(h.t)[h.name], kept)
	if err != nil {
		h.t.Fatal(err)
	}
	h.server, h.plan = s, nil
	h.step(protocol.Start{})
}

// A run that is stopped in any set of its rounds ends in the model of a run that skipped these
// rounds, with the same count of attempts. All 64 sets are tried, for both kinds of strategy.
func TestResumedIsSkipped(t *testing.T) {
	for name := range algorithms(t) {
		models := make(map[string]bool)
		for stopped := range 1 << 6 {
			var ends [2]*hand
			for i := range ends {
				h := &hand{t: t, name: name, server: server.NewDurable(algorithms(t)[name], session)}
				h.step(protocol.Start{})
				for n := uint64(1); h.plan != nil; n++ {
					if h.plan.Round != n {
						t.Fatalf("%s, %06b: round %d where %d is due", name, stopped, h.plan.Round, n)
					}
					switch {
					case stopped>>(n-1)&1 == 0:
						h.sum()
					case i == 0:
						h.receive(abort(n))
					default:
						h.restart()
					}
				}
				ends[i] = h
			}
			skipped, resumed := ends[0], ends[1]
			if !bytes.Equal(skipped.model, resumed.model) || skipped.model == nil {
				t.Errorf("%s, %06b: skipped it ends in %x, stopped and resumed in %x", name, stopped, skipped.model, resumed.model)
			}
			if a, b := skipped.server.Attempts(), resumed.server.Attempts(); a != b || b.Opened != 6 {
				t.Errorf("%s, %06b: skipped %+v, stopped %+v, want 6 attempts", name, stopped, a, b)
			}
			models[hex.EncodeToString(resumed.model)] = true
		}
		// Every set of sums makes another model of LFL; an average is the last sum's.
		if want := map[string]int{"LFL": 64, "Average": 7}[name]; len(models) != want {
			t.Errorf("%s: %d different models, want %d", name, len(models), want)
		}
	}
}

// Resuming from a checkpoint of any content does not panic. A checkpoint that is accepted opens no
// round that may have been opened before.
func FuzzResume(f *testing.F) {
	f.Add(uint64(2), []byte("fedsim/server/v1\n"+"\x00\x00\x00\x00\x00\x00\x00\x02"+"\x00\x00\x00\x00\x00\x00\x00\x01"+"at 1"))
	f.Add(uint64(4), []byte("fedsim/server/v1\n"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"at 3"))
	f.Fuzz(func(t *testing.T, round uint64, state []byte) {
		d := durable{strategy: &strategy{rounds: 4}}
		s, err := server.Resume(d, protocol.Checkpoint{Session: session, Round: round, State: state})
		if err != nil {
			return
		}
		for _, e := range s.Step(time.Time{}, protocol.Start{}).Send {
			if m, ok := e.Message.(*protocol.Open); ok && m.Plan.Round <= round {
				t.Errorf("round %d is opened after a checkpoint of %d", m.Plan.Round, round)
			}
		}
	})
}
