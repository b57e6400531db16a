package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// several contributes a few coordinates that follow from the client and the round, and keeps
// how often it was asked.
type several struct {
	id    int
	asked []uint64
}

func (s *several) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	s.asked = append(s.asked, p.Round)
	at := uint32(s.id+int(p.Round)) % uint32(p.Releases[0].Len-1)
	return []protocol.Vector{{Index: []uint32{at, at + 1}, Value: []float64{float64(s.id%7) - 3, 1}}}, nil
}
func (*several) Finish([]byte, protocol.Runner) error { return nil }

// TestFoldedInputs: sums, their clients, messages and the calls of trainers are the same whether
// inputs lie in messages, as they do if a caller looks, or are added up as they are computed.
// Clients are lost at every stage and sit out, rounds are lost, clients come in several batches,
// and the sum or the clients add noise.
func TestFoldedInputs(t *testing.T) {
	const length = 50
	for name, c := range map[string]struct {
		clients   int
		dropout   float64
		tolerance float64
		draw      secagg.Draw
		sitOut    float64
	}{
		"many":                     {clients: largestBatch + 500, dropout: 0.2, tolerance: 0.4},
		"clients draw":             {clients: 60, dropout: 0.2, tolerance: 0.4, draw: secagg.DrawClient},
		"some sit out":             {clients: 200, dropout: 0.2, tolerance: 0.6, sitOut: 0.3},
		"rounds are lost":          {clients: 40, dropout: 0.3, tolerance: 0.25},
		"nobody is lost, by noise": {clients: 30, tolerance: 0.2, draw: secagg.DrawClient},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(looks bool, workers int) (any, *adder, [][]uint64, int) {
				r := protocol.Release{Name: "g", Len: length, L2: 4, MaxNonZero: 2, Scale: 10, Width: 32, Noise: protocol.Noise{Kind: protocol.Split, Variance: 400}}
				session := protocol.SessionID{1}
				strategy := newAdder(protocol.Cohort{Clients: c.clients, Tolerance: c.tolerance}, r, 4)
				strategy.plan.Session = session
				cfg := Config{
					Session: session, Strategy: strategy, Rounds: 4, Network: network, Seed: 3, Workers: protocol.Workers(workers), Draw: c.draw, SitOut: c.sitOut,
					Faults: Faults{Dropout: c.dropout, Stages: []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask}},
				}
				all := make([]*several, c.clients)
				for i := range all {
					all[i] = &several{id: i}
					cfg.Trainers = append(cfg.Trainers, client.Trainer(all[i]))
				}
				vectors := 0
				if looks {
					cfg.Sent = func(_ time.Duration, e protocol.Envelope) {
						if m, ok := e.Message.(*protocol.MaskedInput); ok {
							vectors += len(m.Vectors)
						}
					}
				}
				out, err := Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				var asked [][]uint64
				for _, s := range all {
					asked = append(asked, s.asked)
				}
				its := slices.Clone(out.Rounds)
				for i := range its {
					its[i].Skipped = nil // errors are compared by strategies
				}
				return []any{its, out.Up, out.Down, out.Clock, out.Charged}, strategy, asked, vectors
			}
			want, sums, asked, vectors := run(true, 1)
			if vectors == 0 {
				t.Fatal("no message had a vector in it, so that nothing is compared")
			}
			got, gotSums, gotAsked, _ := run(false, 3)
			for _, d := range []string{cmp.Diff(want, got), cmp.Diff(sums.sums, gotSums.sums), cmp.Diff(asked, gotAsked)} {
				if d != "" {
					t.Error(d)
				}
			}
			if len(sums.skipped) != len(gotSums.skipped) || (name == "rounds are lost") != (len(sums.skipped) > 0) {
				t.Errorf("%d rounds were lost, and %d where inputs are added up", len(sums.skipped), len(gotSums.skipped))
			}
		})
	}
}
