package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// slow is FMF written out (figure 3(a) of the paper, equations (4) and (5)), full batch. Party k
// has the part X[k] of the ratings, as loss gradients with respect to single entries of U and V.
// γ_t is the paper's; all parties have the same density.
type slow struct {
	u, v *model.Matrix // VFL: V holds all parties' items; HFL: U all parties' users
	x    []triple
}

type triple struct {
	party, user, item int
	value             float64
}

// gradients returns the gradients of party k at U = u, V = v: sums of ∇L_ij over its ratings.
func (s *slow) gradients(k int, u, v *model.Matrix) (gu, gv *model.Matrix) {
	gu, gv = model.NewMatrix(u.Rows(), u.Cols()), model.NewMatrix(v.Rows(), v.Cols())
	for _, r := range s.x {
		if r.party != k {
			continue
		}
		e := r.value - model.Dot(u.Row(r.user), v.Row(r.item))
		for c := range u.Cols() {
			gu.Row(r.user)[c] -= 2 * e * v.Row(r.item)[c]
			gv.Row(r.item)[c] -= 2 * e * u.Row(r.user)[c]
		}
	}
	return gu, gv
}

// descend computes x ← Π(x - gain·g).
func descend(x, g *model.Matrix, gain float64) {
	for i := range x.Rows() {
		for c := range x.Cols() {
			x.Row(i)[c] -= gain * g.Row(i)[c]
		}
		Project(x.Row(i), 5)
	}
}

// deal splits random ratings: of users[k] users or items[k] items to party k.
func (s *slow) deal(rng *rand.Rand, party func(user, item int) int) {
	for i := range s.u.Rows() {
		for j := range s.v.Rows() {
			if rng.IntN(3) > 0 {
				s.x = append(s.x, triple{party(i, j), i, j, float64(rng.IntN(6))})
			}
		}
	}
}

// fall returns the share of the learning rate at a step from 1, of all: linear over the first 80%
// to a tenth.
func fall(step, all int) float64 { return 1 - 0.9*min(float64(step-1)/(0.8*float64(all)), 1) }

// iterate runs a round through the parties and the server in their current state.
func iterate(t *testing.T, s *Average, parties []client.Trainer) {
	t.Helper()
	pl, done, err := s.Next()
	if err != nil || done {
		t.Fatal(done, err)
	}
	sum := make([]float64, pl.Releases[0].Len)
	for _, party := range parties {
		for i, x := range contribute(t, party, pl, simulated.New(1, "party")) {
			sum[i] += x
		}
	}
	if err := s.Absorb(pl, protocol.Sums{Values: [][]float64{sum}, Survivors: len(parties)}, serial{}); err != nil {
		t.Fatal(err)
	}
}

// broadcast returns a copy as clients read it: rounded to float32.
func broadcast(m *model.Matrix) *model.Matrix {
	m = m.Clone()
	model.Round(m.Data())
	return m
}

func checkNear(t *testing.T, name string, want, got *model.Matrix) {
	t.Helper()
	if d := apart(want.Data(), got.Data()); d > 1e-9 {
		t.Errorf("%s is off by %g", name, d)
	}
}

// faint is noise below every tolerance: a step with it is the step without noise, plus noise.
var faint = protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1e-14, SamplingRate: 1}

// VFL without noise, full batch, is the paper's FMF. With one party and T' = 1 it is plain
// projected gradient descent over 20 rounds. With three parties it is equation (4), the average
// of step (s2), and κ steps on V at the end. The learning rate of the paper is γ_t = η_U·n, and η_V
// = η_U·n/m.
func TestVerticalIsFMF(t *testing.T) {
	for _, c := range []struct {
		party                 []int // of an item
		rounds, local, kappas int
		noise                 protocol.Noise
	}{
		{[]int{0, 0, 0, 0, 0, 0}, 20, 1, 0, protocol.Noise{}}, {[]int{0, 1, 1, 2, 2, 2}, 1, 3, 0, protocol.Noise{}},
		{[]int{2, 1, 0, 1, 2, 2}, 4, 3, 2, protocol.Noise{}}, {[]int{2, 1, 0, 1, 2, 2}, 4, 3, 2, faint},
	} {
		rng := rand.New(rand.NewPCG(2, 2))
		const n, m, rank, tau = 5, 6, 2, 0.6
		p := soundParams(n, m, rank)
		p.Rounds, p.LocalSteps, p.ItemSteps, p.Density, p.UserRate = c.rounds, c.local, c.kappas, tau, 0.03
		p.ItemRate = p.UserRate * n / m
		ref := &slow{u: broadcast(p.StartUsers(n)), v: p.StartItems()}
		ref.deal(rng, func(_, j int) int { return c.party[j] })

		var parties []client.Trainer
		var vertical []*Vertical
		for k := range slices.Max(c.party) + 1 {
			vertical = append(vertical, newVertical(t, &p, indicesOf(c.party, k), rowsOf(ref.x, k, n, func(r triple) (int, int) {
				return r.user, slices.Index(indicesOf(c.party, k), int32(r.item))
			})))
			parties = append(parties, vertical[k])
		}
		server := newAverage(t, p, p.StartUsers(n), false, c.noise)
		all := c.rounds * c.local
		for round := range c.rounds {
			iterate(t, server, parties)
			average := model.NewMatrix(n, rank)
			for k := range vertical {
				u, mk := ref.u.Clone(), float64(len(indicesOf(c.party, k)))
				for local := range c.local {
					gamma := 0.03 * n * fall(round*c.local+local+1, all)
					gu, gv := ref.gradients(k, u, ref.v)
					descend(u, gu, gamma/(n*mk*tau))
					descend(ref.v, gv, gamma*mk/m/(n*mk*tau))
				}
				for i, x := range u.Data() {
					average.Data()[i] += mk / m * x
				}
			}
			ref.u = average
			checkNear(t, "U", ref.u, server.shared.Matrix)
			ref.u = broadcast(server.shared.Matrix) // checked, and what parties get and project
			for i := range n {
				Project(ref.u.Row(i), p.MaxRating)
			}
		}
		for k, v := range vertical {
			if err := v.Finish(server.Model(), serial{}); err != nil {
				t.Fatal(err)
			}
			mk := float64(len(v.Own))
			for range c.kappas {
				_, gv := ref.gradients(k, ref.u, ref.v)
				descend(ref.v, gv, 0.03*n*fall(all, all)*mk/m/(n*mk*tau))
			}
			for i, j := range v.Own {
				checkNear(t, "V", model.Wrap(1, rank, ref.v.Row(int(j))), model.Wrap(1, rank, v.exact().Row(i)))
			}
		}
	}
}

// indicesOf returns the indices of a party.
func indicesOf(party []int, k int) (own []int32) {
	for i, o := range party {
		if o == k {
			own = append(own, int32(i))
		}
	}
	return own
}

// rowsOf returns a party's ratings, by its own row and item numbers.
func rowsOf(x []triple, k, rows int, place func(triple) (row, item int)) []model.Ratings {
	out := make([]model.Ratings, rows)
	for _, r := range x {
		if r.party == k {
			i, j := place(r)
			out[i].Items, out[i].Values = append(out[i].Items, int32(j)), append(out[i].Values, float32(r.value))
		}
	}
	return out
}

// HFL without noise, full batch, is the paper's FMF by equation (5), after stage 1, with users
// fixed (HFL-SGDMF) or trained too. γ_t is the same as in TestVerticalIsFMF.
func TestHorizontalIsFMF(t *testing.T) {
	for _, c := range []struct {
		party         []int // of a user
		rounds, local int
		train         bool
		unit          dp.Unit
		noise         protocol.Noise
	}{
		{[]int{0, 0, 0, 0, 0, 0}, 20, 1, true, dp.User, protocol.Noise{}}, {[]int{0, 1, 1, 2, 2, 2}, 1, 3, false, dp.User, protocol.Noise{}},
		{[]int{2, 1, 0, 1, 2, 2}, 4, 3, true, dp.Rating, protocol.Noise{}}, {[]int{2, 1, 0, 1, 2, 2}, 4, 3, true, dp.User, faint},
	} {
		rng := rand.New(rand.NewPCG(2, 2))
		const n, m, rank, tau = 6, 5, 2, 0.6
		p := soundParams(n, m, rank)
		p.Rounds, p.LocalSteps, p.Density, p.UserRate, p.TrainUsers, p.Unit = c.rounds, c.local, tau, 0.03, c.train, c.unit
		p.ItemRate = p.UserRate * n / m
		if c.unit == dp.User {
			p.ClipRatings = m
		}
		ref := &slow{u: model.NewMatrix(n, rank), v: broadcast(p.StartItems())}
		ref.deal(rng, func(i, _ int) int { return c.party[i] })

		var parties []client.Trainer
		var horizontal []*Horizontal
		for k := range slices.Max(c.party) + 1 {
			users := indicesOf(c.party, k)
			rows := rowsOf(ref.x, k, len(users), func(r triple) (int, int) { return slices.Index(users, int32(r.user)), r.item })
			for i, user := range users {
				copy(ref.u.Row(int(user)), p.User(rows[i], ref.v)) // stage 1; the fit has tests of its own
			}
			horizontal = append(horizontal, newHorizontal(t, &p, users, rows))
			parties = append(parties, horizontal[k])
		}
		server := newAverage(t, p, p.StartItems(), false, c.noise)
		for round := range c.rounds {
			iterate(t, server, parties)
			average := model.NewMatrix(m, rank)
			for k, h := range horizontal {
				v, nk := ref.v.Clone(), float64(len(h.Own))
				for local := range c.local {
					gamma := 0.03 * n * fall(round*c.local+local+1, c.rounds*c.local)
					gu, gv := ref.gradients(k, ref.u, v)
					if c.train {
						descend(ref.u, gu, gamma*nk/n/(nk*m*tau))
					}
					descend(v, gv, gamma/(nk*m*tau))
				}
				for i, x := range v.Data() {
					average.Data()[i] += nk / n * x
				}
			}
			ref.v = average
			checkNear(t, "V", ref.v, server.shared.Matrix)
			ref.v = broadcast(server.shared.Matrix) // checked, and what parties get
			for _, h := range horizontal {
				for i, user := range h.Own {
					checkNear(t, "U", model.Wrap(1, rank, ref.u.Row(int(user))), model.Wrap(1, rank, h.Users.Row(i)))
				}
			}
		}
	}
}
