package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/dp"
	_ "github.com/fedsim/fedsim/examples/own-algorithm/itemmean"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// With noise off, what a federation over libp2p trains is the simulator's model to
// the bit.
func TestConformance(t *testing.T) {
	public := " epsilon=inf rounds=1 rank=2 features=" + features(t, 12)
	for name, settings := range map[string]string{
		"lfl":        "algorithm=fmf-lfl rounds=2",
		"lfl active": "algorithm=fmf-lfl rounds=2 mode=active secagg=real",
		// Others are asked every round.
		"lfl in turns": "algorithm=fmf-lfl rounds=3 cohort.size=3 cohort.over=1 secagg=real",
		"vfl":          "algorithm=fmf-vfl rounds=2 parties=3 colluders=0.2",
		"hfl":          "algorithm=fmf-hfl rounds=2 parties=3 colluders=0.2",
		// Rounds of up to three kinds: the mean and counts, biases, statistics.
		"ssp-c":               "algorithm=ssp-c" + public,
		"ssp-c refined":       "algorithm=ssp-c statistics.bias-rounds=2" + public,
		"ssp-c adam":          "algorithm=ssp-c encoder.optimiser=adam encoder.steps=10" + public,
		"ssp-c implicit":      "algorithm=ssp-c" + public + " feedback=implicit split.positive=1 split.test=0.3 rounds=2",
		"ssp-i":               "algorithm=ssp-i statistics.resample=3" + public,
		"am-ssp":              "algorithm=am-ssp encoder.steps=10" + public,
		"am-ssp-ids":          "algorithm=am-ssp-ids encoder.steps=10 statistics.normalise=global" + public,
		"ssp-convex":          "algorithm=ssp-convex encoder.steps=10" + public,
		"dp-cmf":              "algorithm=dp-cmf" + public,
		"ada-dpals":           "algorithm=ada-dpals epsilon=inf rounds=2 rank=2",
		"of some items":       "algorithm=dp-cmf statistics.top-items=5" + public,
		"of a wide catalogue": "algorithm=ssp-c statistics.top-items=5 statistics.choose-by=weights" + public,
		"dpals by the tail":   "algorithm=dpals statistics.budgeting=tail epsilon=inf rounds=2 rank=2",
		// Gradients at parameters that come beside the model, and a user's own steps between rounds.
		"dpsgd by the tail": "algorithm=dpsgd statistics.budgeting=tail epsilon=inf rounds=2 rank=2",
		"ada-dpsgd":         "algorithm=ada-dpsgd epsilon=inf rounds=2 rank=2",
		"am-dpsgd":          "algorithm=am-dpsgd statistics.resample=3" + public,
		"dp-sgd-mf":         "algorithm=dp-sgd-mf statistics.exponent=0" + public + " rounds=4",
		"private-ease":      "algorithm=private-ease epsilon=inf pairs.items=6 features=" + features(t, 12) + " split.positive=1 split.test=0.3",
		"biases":            "algorithm=private-item-bias epsilon=inf",
		// Users who give their ratings openly are no clients, and their number stands in the terms.
		"donors": "algorithm=ssp-c public-users=1" + public + ",rater",
		// The public part of examples, then gradients of conditioned features, and of plain
		// features.
		"switch-cond-dp":  "algorithm=switch-cond-dp epsilon=inf rounds=3 parties=3 colluders=0.2 features=" + features(t, 12),
		"a program's own": "algorithm=item-mean epsilon=inf rounds=2",
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains([]string{"lfl", "lfl active", "lfl in turns", "vfl", "hfl", "ssp-c", "of a wide catalogue", "donors", "dp-cmf", "am-dpsgd", "switch-cond-dp", "a program's own"}, name) {
				effort.LongOnly(t, "the others have the same forms of rounds")
			}
			users := 4
			if name == "lfl active" {
				users = 5 // fewer cannot keep a colluder out
			}
			settings += " tolerance=0.25 deployment.stage-timeout-s=20 data=" + ratings(t, users, 12)
			f := newFederation(t, settings)
			f.likeSimulated(settings)
			out := f.run()
			want := f.simulate(sim.Faults{})
			if !bytes.Equal(want.Model, out.Model) {
				t.Errorf("the model is\n%x, the simulator's\n%x", out.Model, want.Model)
			}
			if n := uint64(len(want.Rounds)); n < 2 || out.Attempts.Opened != n || out.Attempts.Released != n {
				t.Errorf("attempts %+v, want %d of %d", out.Attempts, n, n)
			}
		})
	}
}

// Of more clients than a round continues with, the first that come are in the sum, and the others
// take their next turn. The aggregator answers the end of the session before the server has reported the end. The server
// takes the answer, and does not come back to hear the last result again.
func TestTurnsOverTheNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, "algorithm=fmf-lfl rounds=5 cohort.size=4 cohort.over=1.5 secagg=real tolerance=0.25 deployment.stage-timeout-s=20 data="+ratings(t, 8, 12))
		x := f.tapped()
		var mu sync.Mutex
		var got []came
		x.rule(func(p *passing) {
			mu.Lock()
			defer mu.Unlock()
			if m, ok := p.message.(*protocol.Result); ok {
				got = append(got, came{m.Round, m.Survivors, m.Answered})
			}
		})
		f.hear = at(protocol.SessionEnded, 0, func() { time.Sleep(time.Second) })
		f.run()
		if want := []came{{1, 4, 4}, {2, 4, 4}, {3, 4, 4}, {4, 4, 4}, {5, 4, 4}}; !slices.Equal(got, want) {
			t.Errorf("rounds came to %+v, want %+v", got, want)
		}
	})
}

// A private session in turns runs for owners who allow its stated cost and no more. It charges each
// client for its turns: the rounds for which the public order chooses it, 3 of 6 where a round asks
// half of the clients.
func TestTurnsAreChargedOverTheNetwork(t *testing.T) {
	const clients, turns = 8, 3
	f := newFederation(t, "algorithm=lfl-sgdmf rounds=6 epsilon=5 cohort.size=4 cohort.over=1 secagg=real tolerance=0.25 deployment.stage-timeout-s=20 data="+ratings(t, clients, 12))
	var stop context.CancelFunc
	f.ctx, stop = context.WithCancel(f.ctx)
	defer stop()
	f.declined = func(id protocol.ClientID, why error) {
		if why != nil {
			t.Errorf("client %d declines: %v", id, why)
			stop() // the session would wait for it
		}
	}
	f.limit = &f.simulated.Privacy.Budget
	if f.limit.Epsilon != 5 {
		t.Fatalf("the session states epsilon %v", f.limit.Epsilon)
	}
	for id := range protocol.ClientID(clients) {
		ledger, err := store.NewLedger(store.NewMemoryLog())
		if err != nil {
			t.Fatal(err)
		}
		f.ledgers[id] = ledger
	}
	f.run()
	asked := make(map[uint64]int)
	for id, ledger := range f.ledgers {
		records, err := ledger.Records()
		if err != nil {
			t.Fatal(err)
		}
		var charged []uint64
		for _, r := range records {
			charged = append(charged, r.Round)
			asked[r.Round]++
		}
		if len(charged) != turns {
			t.Errorf("client %d is charged for rounds %v; want %d", id, charged, turns)
		}
		l, err := dp.RestoreLedger(*f.limit, nil, records)
		if err != nil || !(l.Spent().Epsilon > 4.9 && l.Spent().Epsilon <= 5) {
			t.Errorf("client %d has spent %+v, %v; the session states 5", id, l.Spent(), err)
		}
	}
	if want := map[uint64]int{1: 4, 2: 4, 3: 4, 4: 4, 5: 4, 6: 4}; !maps.Equal(asked, want) {
		t.Errorf("clients charged for each round: %v, want %v", asked, want)
	}
}

// fate is the stage at which the simulator loses a client in a round, as package sim
// draws it: two numbers from a stream of the client's, whether and where.
func fate(t *testing.T, f sim.Faults, c protocol.ClientID, round uint64) protocol.Stage {
	t.Helper()
	var b [16]byte
	if _, err := io.ReadFull(simulated.New(seed, "faults").Stream("dropout", round<<32|uint64(c)), b[:]); err != nil {
		t.Fatal(err)
	}
	u := func(k int) float64 { return float64(binary.LittleEndian.Uint64(b[8*k:])>>11) / math.Exp2(53) }
	if u(0) >= f.Dropout {
		return protocol.Stages
	}
	return f.Stages[int(u(1)*float64(len(f.Stages)))]
}

// loses has the tap lose the clients that the simulator loses, at the same stages: what
// opens the stage for them does not arrive, nor does anything after it, until the next
// round.
func (x *tap) loses(t *testing.T, f sim.Faults, active bool) {
	var mu sync.Mutex
	var present uint64
	x.rule(func(p *passing) {
		mu.Lock()
		defer mu.Unlock()
		if p.kind() == protocol.KindOpen {
			present = p.round()
		}
		if p.message == nil || p.place.Role != protocol.Client || p.kind() == protocol.KindFinal {
			return
		}
		if protocol.StageOf(p.message, active) >= fate(t, f, p.place.Client, present) {
			p.raw = nil
		}
	})
}

// came is the outcome of a round.
type came struct {
	Round               uint64
	Survivors, Answered int // 0, 0: to nothing
}

// Clients drop out at the same stages of the same rounds, in the simulator and over libp2p. The
// rounds have the same survivors and answers, and the models are the same to the bit.
func TestConformanceWithDropouts(t *testing.T) {
	faulty(t)
	stages := []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask}
	for name, c := range map[string]struct {
		settings string
		dropout  float64
		stages   []protocol.Stage
	}{
		"lfl":          {"algorithm=fmf-lfl", 0.2, stages},
		"lfl active":   {"algorithm=fmf-lfl mode=active secagg=real", 0.2, append(slices.Clone(stages), protocol.StageConsistency)},
		"lfl in turns": {"algorithm=fmf-lfl cohort.size=6 cohort.over=1", 0.1, stages},
		"vfl":          {"algorithm=fmf-vfl parties=4 colluders=0.2", 0.4, stages},
		"hfl":          {"algorithm=fmf-hfl parties=4 colluders=0.2", 0.4, stages},
		"ssp-c":        {"algorithm=ssp-c epsilon=inf rank=2 features=" + features(t, 12), 0.2, stages},
		"dp-cmf":       {"algorithm=dp-cmf epsilon=inf rank=2 features=" + features(t, 12), 0.2, stages},
		"cond-dp":      {"algorithm=cond-dp epsilon=inf parties=4 colluders=0.2", 0.3, stages},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A fault comes again in each setup of its round, so no round is set up anew.
			settings := c.settings + " rounds=4 tolerance=0.25 deployment.stage-timeout-s=6 deployment.gather-s=0 data=" + ratings(t, 8, 12)
			f := newFederation(t, settings)
			f.likeSimulated(settings)
			faults := sim.Faults{Dropout: c.dropout, Stages: c.stages}
			x := f.tapped()
			x.loses(t, faults, name == "lfl active")
			var mu sync.Mutex
			var got, want []came
			x.rule(func(p *passing) {
				mu.Lock()
				defer mu.Unlock()
				switch m := p.message.(type) {
				case *protocol.Result:
					got = append(got, came{m.Round, m.Survivors, m.Answered})
				case *protocol.Abort:
					got = append(got, came{Round: m.Round})
				}
			})
			out := f.run()
			simulated := f.simulate(faults)
			lost, sums := 0, 0
			for _, it := range simulated.Rounds {
				want = append(want, came{it.Number, it.Survivors, it.Answered})
				if lost += it.Dropped; it.Skipped == nil {
					sums++
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("rounds came to %+v, the simulator's to %+v", got, want)
			}
			if lost == 0 || sums == 0 {
				t.Fatalf("%d clients lost, %d sums: nothing is shown", lost, sums)
			}
			t.Logf("%d clients lost, %d sums of %d", lost, sums, len(simulated.Rounds))
			if !bytes.Equal(out.Model, simulated.Model) {
				t.Errorf("the model is\n%x, the simulator's\n%x", out.Model, simulated.Model)
			}
		})
	}
}
