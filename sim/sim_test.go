package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// adder is a strategy that collects the sums of rounds.
type adder struct {
	plan    protocol.Plan
	rounds  uint64
	at      uint64
	sums    map[uint64]protocol.Sums
	skipped map[uint64]error
}

// testSession is the session of most runs here.
var testSession = protocol.SessionID{1}

func newAdder(c protocol.Cohort, r protocol.Release, rounds uint64) *adder {
	return &adder{
		plan: protocol.Plan{Session: testSession, Phase: "add", Cohort: c, Releases: []protocol.Release{r}}, rounds: rounds,
		sums: make(map[uint64]protocol.Sums), skipped: make(map[uint64]error),
	}
}

func (a *adder) Next() (*protocol.Plan, bool, error) {
	if a.at == a.rounds {
		return nil, true, nil
	}
	a.at++
	p := a.plan
	p.Round = a.at
	return &p, false, nil
}

func (a *adder) Absorb(p *protocol.Plan, s protocol.Sums, _ protocol.Runner) error {
	a.sums[p.Round] = s
	return nil
}
func (a *adder) Skip(p *protocol.Plan, err error) { a.skipped[p.Round] = err }
func (a *adder) Model() []byte                    { return []byte("model") }

// bit contributes 1 at the client's own coordinate, so that a sum shows who is in it.
type bit struct {
	id       int
	finished bool
}

func (b *bit) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	return []protocol.Vector{{Index: []uint32{uint32(b.id)}, Value: []float64{1}}}, nil
}
func (b *bit) Finish([]byte, protocol.Runner) error { b.finished = true; return nil }

func bits(n int) ([]client.Trainer, []*bit) {
	trainers, all := make([]client.Trainer, n), make([]*bit, n)
	for i := range trainers {
		all[i] = &bit{id: i}
		trainers[i] = all[i]
	}
	return trainers, all
}

var network = Network{Latency: 50 * time.Millisecond, Up: 1e6, Down: 1e6, Compute: time.Second, StageTimeout: time.Minute}

func exact(n int) protocol.Release {
	return protocol.Release{Name: "bits", Len: n, L2: 1, MaxNonZero: 1, Scale: 1, Width: 16}
}

// script is a calendar written by hand: the first count clients are lost at a stage.
type script struct {
	stage protocol.Stage
	count int
}

func (s script) lost(c protocol.ClientID, _ uint64) protocol.Stage {
	if int(c) < s.count {
		return s.stage
	}
	return protocol.Stages
}
func (script) absent(protocol.ClientID, uint64) bool { return false }

// listen has other roles stand for some clients.
func (f *federation) listen(instead map[protocol.ClientID]role) {
	f.role = func(p protocol.Party) role {
		if r := instead[p.Client]; p.Role == protocol.Client && r != nil {
			return r
		}
		return f.own(p)
	}
}

func runWith(t *testing.T, cfg Config, fates calendar) (*Outcome, error) {
	t.Helper()
	f, err := newFederation(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if fates != nil {
		f.faults = fates
	}
	return f.run(context.Background())
}

// This is the dropout matrix of the ideal sum. Up to the tolerance the sum covers exactly the
// clients whose masked input arrived; beyond it there is no sum. The script alone says which
// clients these are.
func TestSumIsThatOfTheSurvivors(t *testing.T) {
	const n = 40
	cohort := protocol.Cohort{Clients: n, Tolerance: 0.25, Colluders: 0.05}
	for _, stage := range []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StagePrepared, protocol.StageMaskedInput, protocol.StageUnmask} {
		for _, lost := range []int{0, 1, 4, 10, 11} {
			t.Run(fmt.Sprintf("%s/%d", stage, lost), func(t *testing.T) {
				strategy := newAdder(cohort, exact(n), 1)
				trainers, _ := bits(n)
				out, err := runWith(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 1, Network: network}, script{stage, lost})
				if err != nil {
					t.Fatal(err)
				}
				if lost > 10 {
					var few *protocol.TooFew
					if !errors.As(strategy.skipped[1], &few) || few.Stage != stage || few.Left != n-lost || few.Required != 30 {
						t.Fatalf("skipped because of %v, want 29 of 30 left after %s", strategy.skipped[1], stage)
					}
					if out.Skipped() != 1 || len(strategy.sums) != 0 {
						t.Fatalf("%d rounds skipped, %d sums", out.Skipped(), len(strategy.sums))
					}
					return
				}
				got := strategy.sums[1]
				want := make([]float64, n)
				for c := range want {
					if c >= lost || stage == protocol.StageUnmask { // their input had arrived
						want[c] = 1
					}
				}
				if diff := cmp.Diff(want, got.Values[0]); diff != "" {
					t.Fatalf("sum (-want +got):\n%s", diff)
				}
				it := out.Rounds[0]
				if it.Dropped != lost || it.Alive != n-lost {
					t.Errorf("dropped %d, alive %d; %d were lost of %d", it.Dropped, it.Alive, lost, n)
				}
			})
		}
	}
}

// A client is charged when its masked input leaves, even if no sum follows (attempts, not
// successes).
func TestAttemptsAreCharged(t *testing.T) {
	const n = 40
	cohort := protocol.Cohort{Clients: n, Tolerance: 0.25}
	release := exact(n)
	release.Noise = protocol.Noise{Kind: protocol.Split, Variance: 1000}
	release.Width = 32
	one := dp.Skellam(1000, 1.5, 1.5)
	for _, c := range []struct {
		stage         protocol.Stage
		lost, charged int // lost clients that are charged; the others always are unless no client was asked
		others        int
	}{
		{protocol.StageAdvertise, 11, 0, 0}, // aborted before any client sent
		{protocol.StageShare, 11, 0, 0},
		{protocol.StagePrepared, 11, 0, 0},    // the others are not told to proceed
		{protocol.StageMaskedInput, 11, 0, 1}, // the others had sent when the count was taken
		{protocol.StageUnmask, 11, 1, 1},
		{protocol.StageUnmask, 3, 1, 1},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.stage, c.lost), func(t *testing.T) {
			trainers, _ := bits(n)
			ledgers := make([]client.Ledger, n)
			own := make([]*dp.Ledger, n)
			for i := range ledgers {
				l, err := dp.NewLedger(dp.Budget{Epsilon: 100, Delta: 1e-5, Accountant: dp.RDP}, nil)
				if err != nil {
					t.Fatal(err)
				}
				ledgers[i], own[i] = l, l
			}
			out, err := runWith(t, Config{Session: testSession, Strategy: newAdder(cohort, release, 1), Trainers: trainers, Ledgers: ledgers, Rounds: 1, Network: network}, script{c.stage, c.lost})
			if err != nil {
				t.Fatal(err)
			}
			price, err := dp.Problem{Events: []dp.Event{one}, Delta: 1e-5, Accountant: dp.RDP}.Epsilon()
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range own {
				want := c.others
				if i < c.lost {
					want = c.charged
				}
				if out.Charged[i] != want || l.Spent().Epsilon != float64(want)*price.Epsilon {
					t.Fatalf("client %d: charged %d times, spent %v; want %d times %v", i, out.Charged[i], l.Spent().Epsilon, want, price.Epsilon)
				}
			}
		})
	}
}

// A client that refuses to overspend does not send: here all clients, in the second round.
func TestOverspendingStopsTheRun(t *testing.T) {
	const n = 10
	release := exact(n)
	release.Noise, release.Width = protocol.Noise{Kind: protocol.Split, Variance: 1000}, 32
	trainers, _ := bits(n)
	ledgers := make([]client.Ledger, n)
	for i := range ledgers {
		// one costs about 0.21, two 0.3
		l, err := dp.NewLedger(dp.Budget{Epsilon: 0.3, Delta: 1e-5, Accountant: dp.RDP}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ledgers[i] = l
	}
	_, err := runWith(t, Config{Session: testSession, Strategy: newAdder(protocol.Cohort{Clients: n}, release, 5), Trainers: trainers, Ledgers: ledgers, Rounds: 5, Network: network}, nil)
	var over *dp.OverspendError
	if !errors.As(err, &over) {
		t.Fatalf("run ended with %v, want an overspending refused", err)
	}
}

// Times and bytes of one small round, worked out by hand from the network.
func TestClockAndBytes(t *testing.T) {
	const n = 4
	trainers, all := bits(n)
	strategy := newAdder(protocol.Cohort{Clients: n}, exact(n), 1)
	slow := network
	slow.Up, slow.Down = 8000, 8e6 // a kilobyte a second up
	out, err := runWith(t, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 1, Network: slow}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Up: 5 bytes of header and 2 for the round; the masked input has 4 x 16 bits
	// besides, behind their length.
	for kind, want := range map[protocol.Kind]int64{protocol.KindAdvertise: 7, protocol.KindShares: 7, protocol.KindPrepared: 7, protocol.KindMaskedInput: 17, protocol.KindUnmask: 7} {
		if out.Up[kind] != n*want {
			t.Errorf("%s: %d bytes up, want %d", kind, out.Up[kind], n*want)
		}
	}
	if got := out.Down[protocol.KindFinal]; got != n*(5+2+5) {
		t.Errorf("final: %d bytes down, want %d", got, n*(5+2+5))
	}
	// Twelve hops of 50 ms (open, announce to survivors down, five up, result),
	// 45 bytes up at 1 kB/s, three computations (contribution, sum, absorb);
	// the way down adds 1 µs a byte.
	plan := strategy.plan
	plan.Round = 1
	announce := protocol.Size(&protocol.Announce{Plan: &plan})
	down := time.Duration(announce+4*7) * time.Microsecond
	want := 12*slow.Latency + 45*time.Millisecond + 3*slow.Compute + down
	if out.Rounds[0].Duration != want {
		t.Errorf("the round took %v, want %v", out.Rounds[0].Duration, want)
	}
	// Stages by their hops: open, announce and advertise; two for each later one. Clients
	// compute before they advertise; a masked input has 17 bytes.
	hop := func(n int) time.Duration { return time.Duration(n) * slow.Latency }
	stages := [protocol.Stages]time.Duration{
		protocol.StageAdvertise:   hop(3) + time.Duration(announce)*time.Microsecond + 7*time.Millisecond + slow.Compute,
		protocol.StageShare:       hop(2) + 7*time.Microsecond + 7*time.Millisecond,
		protocol.StagePrepared:    hop(2) + 7*time.Microsecond + 7*time.Millisecond,
		protocol.StageMaskedInput: hop(2) + 7*time.Microsecond + 17*time.Millisecond,
		protocol.StageUnmask:      hop(2) + 7*time.Microsecond + 7*time.Millisecond,
	}
	if out.Rounds[0].Stages != stages {
		t.Errorf("its stages took %v, want %v", out.Rounds[0].Stages, stages)
	}
	// The session ends when the clients have processed the final model: two more hops, 12 bytes and
	// a computation.
	if end := want + 2*slow.Latency + 12*time.Microsecond + slow.Compute; out.Clock != end {
		t.Errorf("the session took %v, want %v", out.Clock, end)
	}
	for i, b := range all {
		if !b.finished {
			t.Errorf("client %d was not given the final model", i)
		}
	}
}

// The whole outcome is the same whatever the number of workers, for both ways
// of drawing noise.
func TestWorkersDoNotMatter(t *testing.T) {
	const n = 30
	release := exact(n)
	release.Noise, release.Width = protocol.Noise{Kind: protocol.Split, Variance: 5000}, 32
	for _, draw := range []secagg.Draw{secagg.DrawSum, secagg.DrawClient} {
		var first *Outcome
		var sums map[uint64]protocol.Sums
		for _, workers := range []protocol.Workers{1, 2, 8} {
			trainers, _ := bits(n)
			strategy := newAdder(protocol.Cohort{Clients: n, Tolerance: 0.5}, release, 4)
			out, err := Run(context.Background(), Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 4, Network: network,
				Workers: workers, Seed: 7, Draw: draw, Faults: Faults{Dropout: 0.2, Stages: []protocol.Stage{1, 2, 3, 5}}})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first, sums = out, strategy.sums
				continue
			}
			if diff := cmp.Diff(first, out); diff != "" {
				t.Errorf("%s, %d workers: outcome (-1 worker +this):\n%s", draw, workers, diff)
			}
			if diff := cmp.Diff(sums, strategy.sums); diff != "" {
				t.Errorf("%s, %d workers: sums differ:\n%s", draw, workers, diff)
			}
		}
		if len(sums) == 0 {
			t.Fatalf("%s: no round was summed", draw)
		}
	}
}

func TestCancelled(t *testing.T) {
	trainers, _ := bits(4)
	ctx, cancel := context.WithCancel(context.Background())
	strategy := newAdder(protocol.Cohort{Clients: 4}, exact(4), 10)
	_, err := Run(ctx, Config{Session: testSession, Strategy: strategy, Trainers: trainers, Rounds: 10, Network: network,
		Round: func(it Round, _ []byte) error {
			if it.Number == 3 {
				cancel()
			}
			return nil
		}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled run ended with %v", err)
	}
	if strategy.at > 4 {
		t.Errorf("it went on to round %d after being cancelled in the third", strategy.at)
	}
}

// A round that cannot open must not pass for a finished session.
func TestHalted(t *testing.T) {
	trainers, _ := bits(4)
	_, err := Run(context.Background(), Config{Session: testSession, Strategy: newAdder(protocol.Cohort{Clients: 5}, exact(4), 1), Trainers: trainers, Rounds: 1, Network: network})
	if err == nil {
		t.Fatal("a plan for 5 clients ran with 4")
	}
}

func TestWorkersVisitEveryIndexOnce(t *testing.T) {
	for _, w := range []protocol.Workers{0, 1, 2, 8} {
		for _, n := range []int{0, 1, 2, 7, 16, 17, 1000} {
			seen := make([]int, n)
			w.Each(n, func(i int) { seen[i]++ })
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("%d workers, n=%d: index %d was visited %d times", w, n, i, times)
				}
			}
		}
	}
}
