package server_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
)

func TestRound(t *testing.T) {
	b := newBench(t, 3, 0)
	b.script(`
		open 1           -> announce(1) 0,1,2, wake 10s, round-opened
		2 advertise 1    ->
		0 advertise 1    ->
		1 advertise 1    -> roster(3) 0,1,2, wake 10s
		0 share 1        ->
		1 share 1        ->
		2 share 1        -> delivery(3) 0,1,2, wake 10s
		0 masked-input 1 ->
		1 masked-input 1 ->
		2 masked-input 1 -> survivors(3) 0,1,2, wake 10s
		1 unmask 1       ->
		0 unmask 1       ->
		2 unmask 1       -> work
		run              -> result 1 [[1 1 1]] of 3, 3 answered, round-summed
		open 2           -> announce(2) 0,1,2, wake 10s, round-opened
		final M          -> final 0,1,2`)
}

// One client is lost at each stage, by the deadline, which counts from the opening of the stage. A
// sum is over exactly the clients whose masked input came.
func TestDeadlines(t *testing.T) {
	b := newBench(t, 7, 4)
	b.script(`
		open 1           -> announce(1) 0,1,2,3,4,5,6, wake 10s, round-opened
		0 advertise 1    ->
		1 advertise 1    ->
		2 advertise 1    ->
		3 advertise 1    ->
		4 advertise 1    ->
		6 advertise 1    ->
		tick 9s          ->
		tick 9.999s      ->
		tick 10s         -> roster(6) 0,1,2,3,4,6, wake 20s, lost 5 advertise
		5 advertise 1    -> message-ignored
		5 share 1        -> message-ignored
		tick 10s         ->
		0 share 1        ->
		1 share 1        ->
		2 share 1        ->
		3 share 1        ->
		6 share 1        ->
		tick 25s         -> delivery(5) 0,1,2,3,6, wake 35s, lost 4 share
		0 masked-input 1 ->
		1 masked-input 1 ->
		2 masked-input 1 ->
		6 masked-input 1 ->
		4 masked-input 1 -> message-ignored
		tick 34s         ->
		tick 35s         -> survivors(4) 0,1,2,6, wake 45s, lost 3 masked-input
		3 masked-input 1 -> message-ignored
		3 unmask 1       -> message-ignored
		1 unmask 1       ->
		2 unmask 1       ->
		6 unmask 1       ->
		tick 45s         -> work, lost 0 unmask
		tick 99s         ->
		0 unmask 1       -> message-ignored
		run              -> result 1 [[1 1 1 0 0 0 1]] of 4, 3 answered, round-summed
		tick 100s        ->`)
}

// A stage that every client has answered opens the next at once, and the earlier deadline no longer
// counts.
func TestEarlyClose(t *testing.T) {
	b := newBench(t, 2, 1)
	b.script(`open 1 -> announce(1) 0,1, wake 10s, round-opened`)
	b.now = epoch.Add(8e9)
	b.script(`
		0 advertise 1 ->
		1 advertise 1 -> roster(2) 0,1, wake 18s
		tick 10s      ->
		0 share 1     ->
		tick 18s      -> delivery(1) 0, wake 28s, lost 1 share`)
}

// The dropout matrix: of N = 7 clients with 3 to lose, some are lost at one stage. N - 3 or more at
// the end of every stage make a sum over the clients whose masked input came, and fewer an abort
// there.
func TestAbortMatrix(t *testing.T) {
	const n, tolerance = 7, 3
	for _, stage := range stages {
		for _, lost := range []int{0, 1, tolerance, tolerance + 1, n} {
			b := newBench(t, n, tolerance)
			abort, result := b.round(map[protocol.Stage]int{stage: lost})
			name := fmt.Sprintf("%d lost at %s", lost, stage)
			if lost > tolerance {
				checkAbort(t, name, abort, result, stage, n-lost, n-tolerance)
				continue
			}
			survivors := n - lost
			if stage == protocol.StageUnmask {
				survivors = n
			}
			checkResult(t, name, abort, result, survivors, n-lost)
		}
	}
}

// Losses add up over the stages: the fourth of any four is one too many.
func TestAbortMatrixOverStages(t *testing.T) {
	const n, tolerance = 7, 3
	for pattern := range 3 * 3 * 3 * 3 * 3 {
		lost := make(map[protocol.Stage]int)
		left, survivors, aborts := n, n, protocol.Stages
		p := pattern
		for _, stage := range stages {
			lost[stage] = p % 3
			p /= 3
			if left -= lost[stage]; left < n-tolerance {
				aborts = stage
				break
			}
			if stage <= protocol.StageMaskedInput {
				survivors = left
			}
		}
		b := newBench(t, n, tolerance)
		abort, result := b.round(lost)
		if aborts < protocol.Stages {
			checkAbort(t, fmt.Sprint(lost), abort, result, aborts, left, n-tolerance)
		} else {
			checkResult(t, fmt.Sprint(lost), abort, result, survivors, left)
		}
	}
}

// round runs round 1 to its end; at each stage as many of the clients
// that are left, from the last, are lost as are given.
func (b *bench) round(lost map[protocol.Stage]int) (*protocol.Abort, *protocol.Result) {
	b.t.Helper()
	b.waits = true
	b.command("open 1")
	left := b.n
	for _, stage := range b.stages() {
		left -= lost[stage]
		for id := range left {
			b.answer(protocol.ClientID(id), stage.String(), 1)
		}
		if lost[stage] > 0 {
			b.now = b.now.Add(stageTimeout)
			b.step(protocol.Tick{})
			events := 0
			for _, e := range b.last.Events {
				if e.Kind == protocol.ClientLost {
					if want := (protocol.Event{Kind: protocol.ClientLost, Round: 1, Party: protocol.ClientParty(protocol.ClientID(left + events)), Stage: stage}); !cmp.Equal(e, want) {
						b.t.Errorf("event %+v, want %+v", e, want)
					}
					events++
				}
			}
			if events != lost[stage] {
				b.t.Errorf("%d clients reported lost at %s, want %d", events, stage, lost[stage])
			}
		}
		if abort := find[*protocol.Abort](b.last); abort != nil {
			b.silent()
			return abort, nil
		}
	}
	if len(b.works) != 1 {
		b.t.Fatalf("%d works after the last stage, want 1", len(b.works))
	}
	b.command("run")
	return nil, find[*protocol.Result](b.last)
}

func find[M protocol.Message](eff protocol.Effects) (m M) {
	for _, e := range eff.Send {
		if found, ok := e.Message.(M); ok {
			return found
		}
	}
	return m
}

// silent checks that a round is over: nothing that comes has an effect but
// an event.
func (b *bench) silent() {
	b.t.Helper()
	for _, stage := range b.stages() {
		for id := range b.n {
			if got := b.describe(b.answer(protocol.ClientID(id), stage.String(), 1)); got != "message-ignored" {
				b.t.Errorf("client %d's %s after the end: %s", id, stage, got)
			}
		}
	}
	b.now = b.now.Add(10 * stageTimeout)
	if got := b.describe(b.step(protocol.Tick{})); got != "" {
		b.t.Errorf("tick after the end: %s", got)
	}
}

func checkAbort(t *testing.T, name string, abort *protocol.Abort, result *protocol.Result, stage protocol.Stage, left, required int) {
	t.Helper()
	want := &protocol.Abort{Round: 1, Reason: &protocol.TooFew{Round: 1, Stage: stage, Left: left, Required: required}}
	if d := cmp.Diff(want, abort); d != "" || result != nil {
		t.Errorf("%s: result %+v, abort (-want +got):\n%s", name, result, d)
	}
}

func checkResult(t *testing.T, name string, abort *protocol.Abort, result *protocol.Result, survivors, answered int) {
	t.Helper()
	sum := make([]int64, 7)
	for i := range survivors {
		sum[i] = 1
	}
	want := &protocol.Result{Round: 1, Integers: [][]int64{sum}, Survivors: survivors, Answered: answered}
	if d := cmp.Diff(want, result); d != "" || abort != nil {
		t.Errorf("%s: abort %+v, result (-want +got):\n%s", name, abort, d)
	}
}

// A message that is late, early, repeated, from an unknown party, of another round or malformed
// gives an event and no effect. The sum is as if it had not come.
func TestAggregatorIgnores(t *testing.T) {
	b := newBench(t, 3, 1)
	b.script(`
		0 advertise 1              -> message-ignored
		tick 5s                    ->
		open 7                     -> announce(7) 0,1,2, wake 15s, round-opened
		0 advertise 6              -> message-ignored
		0 advertise 8              -> message-ignored
		0 share 7                  -> message-ignored
		0 masked-input 7           -> message-ignored
		0 unmask 7                 -> message-ignored
		3 advertise 7              -> message-ignored
		4294967295 advertise 7     -> message-ignored
		0 advertise 7              ->
		0 advertise 7              -> message-ignored
		1 advertise 7              ->
		2 advertise 7              -> roster(3) 0,1,2, wake 15s
		2 advertise 7              -> message-ignored
		0 share 7                  ->
		0 masked-input 7           -> message-ignored
		1 share 7                  ->
		2 share 7                  -> delivery(3) 0,1,2, wake 15s
		malformed 0 masked-input 7 -> message-ignored
		0 masked-input 7           ->
		0 masked-input 7           -> message-ignored
		1 masked-input 7           ->
		malformed 2 masked-input 7 -> message-ignored
		3 masked-input 7           -> message-ignored
		tick 15s                   -> survivors(2) 0,1, wake 25s, lost 2 masked-input
		2 masked-input 7           -> message-ignored
		2 unmask 7                 -> message-ignored
		0 unmask 7                 ->
		0 unmask 7                 -> message-ignored
		1 unmask 7                 -> work
		1 unmask 7                 -> message-ignored
		run                        -> result 7 [[1 1 0]] of 2, 2 answered, round-summed
		1 unmask 7                 -> message-ignored`)
	e := b.last.Events[0]
	if e.Round != 7 || e.Stage != protocol.StageUnmask || e.Party != protocol.ClientParty(1) || e.Err == nil {
		t.Errorf("event %+v does not say which message of whom, and why", e)
	}
}

func TestAggregatorHearsItsParties(t *testing.T) {
	b := newBench(t, 3, 0)
	b.script(`open 1 -> announce(1) 0,1,2, wake 10s, round-opened`)
	aggregator, client := protocol.Party{Role: protocol.Aggregator}, protocol.ClientParty(0)
	for _, c := range []struct {
		from protocol.Party
		m    protocol.Message
	}{
		{client, &protocol.Open{Plan: newPlan(2, 3, 0)}},
		{aggregator, &protocol.Open{Plan: newPlan(2, 3, 0)}},
		{client, &protocol.Final{}},
		{aggregator, &protocol.Final{}},
		{theServer, &protocol.Advertise{Round: 1}},
		{aggregator, &protocol.Advertise{Round: 1}},
		{theServer, &protocol.Result{Round: 1}},
		{client, &protocol.Abort{Round: 1}},
		{client, &protocol.Roster{Round: 1}},
	} {
		if got := b.describe(b.receive(c.from, c.m)); got != "message-ignored" {
			t.Errorf("%s from %s: %s", c.m.Kind(), c.from, got)
		}
	}
	b.script(`
		0 advertise 1 ->
		1 advertise 1 ->
		2 advertise 1 -> roster(3) 0,1,2, wake 10s`)
}

func TestRefusesPlans(t *testing.T) {
	b := newBench(t, 3, 0)
	unsound := newPlan(1, 3, 0)
	unsound.Releases = nil
	for _, p := range []*protocol.Plan{newPlan(1, 2, 0), newPlan(1, 4, 0), newPlan(0, 3, 0), unsound} {
		if got := b.describe(b.receive(theServer, &protocol.Open{Plan: p})); got != "plan-refused" {
			t.Errorf("%+v: %s, want plan-refused", p, got)
		}
		b.script(`0 advertise 1 -> message-ignored`)
	}
	// A refused plan does not disturb the round in progress.
	b.script(`
		open 1        -> announce(1) 0,1,2, wake 10s, round-opened
		0 advertise 1 ->`)
	b.receive(theServer, &protocol.Open{Plan: newPlan(2, 4, 0)})
	b.script(`
		1 advertise 1 ->
		2 advertise 1 -> roster(3) 0,1,2, wake 10s`)
}

// A later plan ends the round in progress, whatever its stage.
func TestOpenInMidRound(t *testing.T) {
	b := newBench(t, 2, 1)
	b.script(`
		open 1        -> announce(1) 0,1, wake 10s, round-opened
		0 advertise 1 ->
		tick 4s       ->
		open 2        -> announce(2) 0,1, wake 14s, round-opened
		1 advertise 1 -> message-ignored
		0 share 1     -> message-ignored
		tick 10s      ->
		0 advertise 2 ->
		1 advertise 2 -> roster(2) 0,1, wake 20s`)
}

// While a sum is computed, too: its Done, when it comes, is none of the new
// round's.
func TestOpenWhileSumming(t *testing.T) {
	b := newBench(t, 1, 0)
	b.script(`
		open 1           -> announce(1) 0, wake 10s, round-opened
		0 advertise 1    -> roster(1) 0, wake 10s
		0 share 1        -> delivery(1) 0, wake 10s
		0 masked-input 1 -> survivors(1) 0, wake 10s
		0 unmask 1       -> work
		open 2           -> announce(2) 0, wake 10s, round-opened
		run              ->
		0 advertise 2    -> roster(1) 0, wake 10s
		0 share 2        -> delivery(1) 0, wake 10s
		0 masked-input 2 -> survivors(1) 0, wake 10s
		0 unmask 2       -> work
		run              -> result 2 [[1]] of 1, 1 answered, round-summed`)
}

// The plan again, or an older one, is late or a replay: it has no effect on the round in progress.
func TestOpenTwice(t *testing.T) {
	b := newBench(t, 2, 0)
	b.script(`
		open 3        -> announce(3) 0,1, wake 10s, round-opened
		0 advertise 3 ->`)
	b.replay()
	b.script(`
		1 advertise 3 -> roster(2) 0,1, wake 10s
		tick 10s      -> abort 3: round 3: 0 clients left after the stage share, 2 required, lost 0 share, lost 1 share, round-aborted`)
	b.replay()
	b.script(`0 advertise 3 -> message-ignored`)
}

// replay opens rounds that have been. The round of the plan again gives an event and no more. An older one is given up, which
// a server hears that was restored from an older copy.
func (b *bench) replay() {
	b.t.Helper()
	b.script(`
		open 3 -> plan-refused
		open 2 -> abort 2: round 2: 0 clients left after the stage advertise, 2 required, round-aborted`)
}

func TestSumFails(t *testing.T) {
	b := newBench(t, 1, 0)
	b.script(`
		open 1           -> announce(1) 0, wake 10s, round-opened
		0 advertise 1    -> roster(1) 0, wake 10s
		0 share 1        -> delivery(1) 0, wake 10s
		0 masked-input 1 -> survivors(1) 0, wake 10s
		0 unmask 1       -> work
		fail             -> work-failed`)
	if e := b.last.Events[0]; !errors.Is(e.Err, errWork) || e.Round != 1 {
		t.Errorf("event %+v, want the work's error in round 1", e)
	}
	b.script(`
		0 unmask 1 -> message-ignored
		open 2     -> announce(2) 0, wake 10s, round-opened`)
}

// After an abort the next plan begins afresh, with every enrolled client.
func TestNextAfterAbort(t *testing.T) {
	b := newBench(t, 2, 0)
	b.script(`
		open 1        -> announce(1) 0,1, wake 10s, round-opened
		0 advertise 1 ->
		tick 10s      -> abort 1: round 1: 1 clients left after the stage advertise, 2 required, lost 1 advertise, round-aborted
		1 advertise 1 -> message-ignored
		tick 20s      ->
		open 2        -> announce(2) 0,1, wake 30s, round-opened
		1 advertise 2 ->
		0 advertise 2 -> roster(2) 0,1, wake 30s`)
}

// Step promises not to panic on what a peer sent.
func TestAggregatorRefusesEmptyMessages(t *testing.T) {
	for name, m := range map[string]protocol.Message{"no message": nil, "open without a plan": &protocol.Open{}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("panic: %v", r)
				}
			}()
			b := newBench(t, 1, 0)
			if eff := b.receive(theServer, m); len(eff.Events) != 1 || len(eff.Send)+len(eff.Work) != 0 {
				t.Errorf("%+v, want one event", eff)
			}
		})
	}
}

// The end of each stage is reported, once and in order.
func TestStagesAreReported(t *testing.T) {
	b := newBench(t, 3, 0)
	b.waits = true
	b.command("open 1")
	var got []string
	for _, line := range []string{"advertise 1", "share 1", "prepared 1", "masked-input 1", "unmask 1"} {
		for id := range 3 {
			for _, e := range b.command(fmt.Sprint(id, " ", line)).Events {
				got = append(got, fmt.Sprint(e.Kind, " ", e.Round, " ", e.Stage, " after client ", id))
			}
		}
	}
	want := []string{"stage-closed 1 advertise after client 2", "stage-closed 1 share after client 2", "stage-closed 1 prepared after client 2",
		"stage-closed 1 masked-input after client 2", "stage-closed 1 unmask after client 2"}
	if !slices.Equal(got, want) {
		t.Errorf("events are %v, want %v", got, want)
	}
}

// Whom a client complains of is reported, with the complaint's author.
func TestAccusationsAreReported(t *testing.T) {
	b := newBench(t, 3, 0)
	b.command("open 1")
	for id := range protocol.ClientID(3) {
		b.answer(id, "advertise", 1)
	}
	for id := range protocol.ClientID(3) {
		b.answer(id, "share", 1)
	}
	var got []string
	for by, of := range map[protocol.ClientID]protocol.ClientID{1: 2, 2: 0} {
		for _, e := range b.complaint(by, 1, of).Events {
			if e.Round != 1 || e.By != protocol.ClientParty(by) || !strings.Contains(e.Err.Error(), protocol.ClientParty(by).String()) {
				t.Errorf("event %+v", e)
			}
			got = append(got, fmt.Sprint(e.Kind, " ", e.Party))
		}
	}
	slices.Sort(got)
	if want := []string{"client-accused client 0", "client-accused client 2"}; !slices.Equal(got, want) {
		t.Errorf("events are %v, want %v", got, want)
	}
}
