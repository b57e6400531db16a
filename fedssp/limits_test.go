package fedssp_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
	"github.com/fedsim/fedsim/sim"
)

// limitsOf counts, by release, the limits that the strategy states and one client's vectors break.
func limitsOf(s server.Limited, p *protocol.Plan, list []protocol.Vector) (stated, broken map[string]int) {
	values := make([][]float64, len(list))
	for i, r := range p.Releases {
		values[i] = make([]float64, r.Len)
		list[i].Each(func(j int, x float64) { values[i][j] += x })
	}
	stated, broken = make(map[string]int), make(map[string]int)
	s.Limits(p, func(terms ...protocol.Term) {
		var sum, size float64
		for _, t := range terms {
			x := t.Factor * values[t.Release][t.Coordinate]
			sum, size = sum+x, max(size, x, -x)
		}
		name := p.Releases[terms[0].Release].Name
		if stated[name]++; sum > 1e-12*size {
			broken[name]++
		}
	})
	return stated, broken
}

// watched is a client whose vectors a test looks at.
type watched struct {
	client.Trainer
	see func(*protocol.Plan, []protocol.Vector)
}

func (w watched) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	list, err := w.Trainer.Contribute(p, src, run)
	if err == nil {
		w.see(p, list)
	}
	return list, err
}

// Every client of every round keeps the limits, by models with noise and without, and no honest sum is refused. Each
// vector with its signs turned breaks a limit of each release that has one: limits say something.
func TestHonestClientsKeepLimits(t *testing.T) {
	for settings, want := range map[string]string{
		"algorithm=ssp-c": "bias gramian mean weight-counts", "algorithm=dp-cmf": "bias gramian mean weight-counts", "algorithm=ssp-c epsilon=inf": "bias mean weight-counts",
		"algorithm=ada-dpals": "counts", "algorithm=dpals": "", "algorithm=ssp-i statistics.gramian=one": "", "algorithm=am-ssp": "",
		"algorithm=private-item-bias": "bias mean weight-counts", "algorithm=private-ease pairs.items=20": "counts pairs", "algorithm=ssp-c statistics.bias-rounds=2": "bias weight-counts",
	} {
		t.Run(settings, func(t *testing.T) {
			if testing.Short() && len(want) < 12 {
				t.Skip("the others state more")
			}
			e := opened.Experiment(t, "data=synthetic:small-40 dropout=0 rounds=2 epsilon=10 "+settings)
			f, err := e.Federation()
			if err != nil {
				t.Fatal(err)
			}
			var lock sync.Mutex
			stated, turned := make(map[string]int), make(map[string]int)
			limited := f.Strategy.(server.Limited)
			for i, x := range f.Trainers {
				f.Trainers[i] = watched{x, func(p *protocol.Plan, list []protocol.Vector) {
					n, broken := limitsOf(limited, p, list)
					negative := make([]protocol.Vector, len(list))
					for k, v := range list {
						negative[k] = protocol.Vector{Index: v.Index, Block: v.Block, Factor: v.Factor}
						for _, y := range v.Value {
							negative[k].Value = append(negative[k].Value, -y)
						}
					}
					_, reversed := limitsOf(limited, p, negative)
					lock.Lock()
					defer lock.Unlock()
					for name := range n {
						stated[name] += n[name]
						turned[name] += reversed[name]
						if broken[name] > 0 {
							t.Errorf("%s of round %d: a client breaks %d of %d limits", name, p.Round, broken[name], n[name])
						}
					}
				}}
			}
			out, err := sim.Run(t.Context(), training.Simulation(e, f, nil))
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range out.Rounds {
				if it.Skipped != nil {
					t.Errorf("round %d: honest sums were refused: %v", it.Number, it.Skipped)
				}
			}
			for _, name := range strings.Fields(want) {
				if stated[name] == 0 || turned[name] == 0 {
					t.Errorf("%s has %d limits, and vectors of the other sign break %d", name, stated[name], turned[name])
				}
			}
		})
	}
}
