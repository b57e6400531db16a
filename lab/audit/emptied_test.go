package audit

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// broken is an algorithm whose clients' contributions are changed on the way to the client role.
type broken struct {
	algorithm.Algorithm
	change func(p *protocol.Plan, v []protocol.Vector) []protocol.Vector
}

type brokenInstance struct {
	algorithm.Instance
	change func(*protocol.Plan, []protocol.Vector) []protocol.Vector
}

type brokenSide struct {
	algorithm.ClientSide
	change func(*protocol.Plan, []protocol.Vector) []protocol.Vector
}

type brokenTrainer struct {
	algorithm.Trainer
	change func(*protocol.Plan, []protocol.Vector) []protocol.Vector
}

func (b broken) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	x, err := b.Algorithm.Open(s)
	return brokenInstance{x, b.change}, err
}

func (b brokenInstance) ClientSide() (algorithm.ClientSide, error) {
	side, err := b.Instance.ClientSide()
	return brokenSide{side, b.change}, err
}

func (b brokenSide) Trainers() []algorithm.Trainer {
	list := b.ClientSide.Trainers()
	for i := range list {
		list[i] = brokenTrainer{list[i], b.change}
	}
	return list
}

func (b brokenTrainer) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	v, err := b.Trainer.Contribute(p, src, run)
	if err != nil {
		return nil, err
	}
	return b.change(p, v), nil
}

// made makes an algorithm of a vector of ones on a user's items, shrunk to norm 1, whose contributions are changed.
func made(name string, change func(*protocol.Plan, []protocol.Vector) []protocol.Vector) {
	release := func(s *algorithm.Setup) protocol.Release {
		return protocol.Release{Name: "ones", Len: s.Data.Items, L2: 1, MaxNonZero: s.Data.Items}
	}
	a, err := peruser.New(peruser.Algorithm{
		Name: name, Help: "a test", Rounds: 3, Rank: 1, Release: release,
		Start: func(s *algorithm.Setup) *model.Matrix {
			m := model.NewMatrix(s.Data.Items, 1)
			for j := range m.Data() {
				m.Data()[j] = -500
			}
			return m
		},
		Contribute: func(s *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
			v := protocol.Vector{Value: make([]float64, s.Data.Items)}
			for _, j := range r.Items {
				v.Value[j] = 1
			}
			return peruser.Clip(v, release(s)), nil
		},
		Absorb:  func(*algorithm.Setup, *model.Matrix, []float64, int, uint64) {},
		Predict: func(_ *algorithm.Setup, _ *model.Matrix, _ model.Ratings, out []float64) { out[0] = 3 },
	})
	if err != nil {
		panic(err)
	}
	algorithm.MustRegister(broken{a, change})
}

// isBroken reports whether an algorithm was made to break its statement.
func isBroken(a *algorithm.About) bool { return strings.HasPrefix(a.Name, "broken-") }

func init() {
	made("ones", func(_ *protocol.Plan, v []protocol.Vector) []protocol.Vector { return v })
	// Weight decay pulls every user's vector towards zero, and an emptied user's too: to norm 1, away from the model.
	made("broken-decay", func(p *protocol.Plan, v []protocol.Vector) []protocol.Vector {
		b, err := model.NewBroadcast(p.Broadcast, p.Releases[0].Len, 1)
		if err != nil {
			panic(err)
		}
		sum := protocol.Vector{Value: make([]float64, p.Releases[0].Len)}
		v[0].Each(func(j int, x float64) { sum.Value[j] = x - b.Matrix().Row(j)[0]/2 })
		if len(v[0].Value) == 0 {
			for j := range sum.Value {
				sum.Value[j] = -b.Matrix().Row(j)[0] / 2
			}
		}
		return []protocol.Vector{peruser.Clip(sum, p.Releases[0])}
	})
	times := func(f float64, only int) func(*protocol.Plan, []protocol.Vector) []protocol.Vector {
		return func(_ *protocol.Plan, v []protocol.Vector) []protocol.Vector {
			for k := range v[0].Value {
				if len(v[0].Value) == only || only == 0 {
					v[0].Value[k] *= f
				}
			}
			return v
		}
	}
	made("broken-clip", times(1.4, 0)) // a clip to 1.4 times the bound
	made("broken-unclipped", times(math.Sqrt(Items), 0))
}

// TestNeighboursSeeBrokenBounds has clients that exceed the bound of their release, and a client that sends something while
// its record is empty.
func TestNeighboursSeeBrokenBounds(t *testing.T) {
	for name, says := range map[string]string{
		"broken-clip":      "whose L2 norm is 1.4 times its bound of 1",
		"broken-unclipped": "whose L2 norm is 1.732 times its bound of 1",
		"broken-decay":     "client 0 sends to release ones in round 1 a vector of L2 norm 1 although its record is empty",
	} {
		c, err := Neighbours(t.Context(), opened.Settings("algorithm="+name+" epsilon=5"))
		if err != nil {
			t.Fatal(name, err)
		}
		if c.Err() == nil || !strings.Contains(strings.Join(c.Differences, "\n"), says) {
			t.Errorf("%s: %q, want %q", name, c.Differences, says)
		}
	}
}

// TestEmptiedClientIsAskedWhatItSends has users whose vectors have norm 1 although they are empty. The world with the unit is
// then up to two bounds away, as if a user was replaced by another. Two normal laws whose means are twice as far apart
// as the claim says have an ε of 11.5 for a claim of 5.
func TestEmptiedClientIsAskedWhatItSends(t *testing.T) {
	honest := run(t, open(t, "algorithm=ones epsilon=5 rounds=2"), Config{Runs: 60, Claim: Stated})
	if !honest.Holds() {
		t.Errorf("without decay %v", honest.Err())
	}
	r := run(t, open(t, "algorithm=broken-decay epsilon=5 rounds=2"), Config{Runs: effort.Of(200, 200, 4000), Claim: Stated})
	lo, hi := 0.1, 10. // the distance of which the claim is the ε, by bisection
	for range 60 {
		if mid := (lo + hi) / 2; dp.GaussianEpsilon(mid, r.Delta) < r.Claimed {
			lo = mid
		} else {
			hi = mid
		}
	}
	if want := dp.GaussianEpsilon(2*lo, r.Delta); r.Holds() || math.Abs(r.Point-want) > want/10 {
		t.Errorf("at least %.4g and about %.4g where %.4g is claimed; want about %.4g", r.Bound, r.Point, r.Claimed, want)
	}
}
