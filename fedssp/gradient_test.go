package fedssp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/lab/ssp/steps"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// begin gives a user that takes steps an embedding and a bias to take the next one from. A sample
// of ratings that was drawn stays.
func begin(t *testing.T, u *user.User, embedding []float64, bias float64) {
	t.Helper()
	var b []byte
	for _, x := range append(slices.Clone(embedding), bias) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	if old, err := u.Snapshot(); err != nil {
		t.Fatal(err)
	} else if old != nil {
		b = append(b, old[len(b):]...)
	}
	if err := u.Resume(b, simulated.New(1, "client/0")); err != nil {
		t.Fatal(err)
	}
}

// gradientPlan is a plan of the first sum of gradients, at parameters other than the start's.
func gradientPlan(t *testing.T, p *kernel.Params) (*protocol.Plan, *kernel.Model) {
	t.Helper()
	m, err := kernel.DecodeModel(ordinary(t, *p), p)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range m.Theta {
		m.Theta[i] += 0.3 * rng.NormFloat64()
	}
	m.Mean = 3.3
	steps := complete(t, *p, 0)
	for i, s := range steps {
		if s.Phase == kernel.Statistics {
			return &protocol.Plan{Round: uint64(i + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 10}, Releases: s.Releases, Broadcast: m.Encode()}, m
		}
	}
	t.Fatal("no sum of gradients")
	return nil, nil
}

// A user sends the gradient of half its weighted squared errors by the parameters in the plan, with
// u fitted to the items in the plan. It is compared with finite differences of a plain loss, with a
// bound that no gradient reaches. Beyond the bound it is that gradient, scaled: for each rating by
// itself, or as a whole.
func TestGradientsAgainstDifferences(t *testing.T) {
	for _, name := range []string{"gradients", "gradients, after all stages", "gradients of an encoder", "gradients of ids"} {
		p := kinds(12, 3)[name]
		p.Budgeting, p.Exponent, p.NormItems = kernel.Weights, 0, 0
		clip(&p, 1e6)
		_, rows := people(&p, 6, 0.5, 9)
		for i, r := range rows {
			plan, m := gradientPlan(t, &p)
			u, own := fit(t, &p, m, r)
			e, err := p.NewEncoder()
			if err != nil {
				t.Fatal(err)
			}
			v, w := make([]float64, 12*3), 1/math.Sqrt(float64(len(r.Items)))
			loss := func(only int) func([]float64) float64 {
				return func(theta []float64) (sum float64) {
					copy(e.Theta(), theta)
					e.Embed(v, serial{})
					for k, j := range r.Items {
						x := m.Mean + own + floats.Dot(u[:3], v[j*3:(j+1)*3]) + p.UserFeatures.Of(u[3:], int(j)) - float64(r.Values[k])
						if m.Bias != nil {
							x += m.Bias[j]
						}
						if only < 0 || only == k {
							sum += w * x * x / 2
						}
					}
					return sum
				}
			}
			differences := func(only int) []float64 {
				return fd.Gradient(nil, loss(only), m.Theta, &fd.Settings{Formula: fd.Central})
			}
			sent := func() []float64 {
				return spread(last(contribute(t, NewUser(&p, r), plan, i)), len(m.Theta))
			}
			near(t, fmt.Sprint(name, ", user ", i), sent(), differences(-1), 1e-6)
			clip(&p, 0.01)
			plan, _ = gradientPlan(t, &p)
			want := make([]float64, len(m.Theta))
			for k := range r.Items {
				if byUser(&p) {
					want = clipped(differences(-1), 0.01)
					break
				}
				floats.Add(want, clipped(differences(k), w*0.01))
			}
			near(t, fmt.Sprint(name, ", clipped, user ", i), sent(), want, 1e-6)
			clip(&p, 1e6)
		}
	}
}

func last(v []protocol.Vector) protocol.Vector { return v[len(v)-1] }

func clipped(x []float64, bound float64) []float64 {
	if norm := floats.Norm(x, 2); norm > bound {
		return dense.Scaled(x, bound/norm)
	}
	return x
}

// Steps at one u end where the closed form is, which is computed by the solver of DPALS from its
// own statistics: after 3,000 of them, without noise and clipping.
func TestDescentReachesTheClosedForm(t *testing.T) {
	effort.NotShort(t, "runs to the end take seconds")
	p := kinds(10, 2)["gradients"]
	p.Rounds, p.Resample, p.ItemPrior = 1, 3000, 1
	p.Own = steps.Settings{Clip: 20, Radius: 50, Rate: 1}
	als := plain(10, 2)
	als.Rounds, als.ClipUser, als.ClipRating, als.ItemPrior = 1, 1e3, 1e3, 1
	users, rows := people(&p, 40, 0.6, 5)
	s := newStrategy(t, p, 40, 0)
	at := s.Current().Items
	train(t, s, users)
	closed := newStrategy(t, als, 40, 0)
	copy(closed.Current().Items, start(p).Items)
	var others []*user.User
	for _, r := range rows {
		others = append(others, NewUser(&als, r))
	}
	train(t, closed, others)
	if floats.Distance(at, start(p).Items, 2) == 0 {
		t.Fatal("V did not move")
	}
	near(t, "items", s.Current().Items, closed.Current().Items, 1e-3)
}

// By hand, the third step: an item at (0.6, 0) whose ratings weigh 4, and a ridge of 0.1·4 + 2·w̃.
// The gradient is (3, -4), summed over 5 of 10 clients; its noise has a deviation of 2. The other
// item is taken back to the radius.
func TestStepOfAnItem(t *testing.T) {
	p := kinds(2, 2)["gradients"]
	p.ItemRidge, p.ItemPrior, p.Resample = 0.1, 2, 4
	p.Own = steps.Settings{Clip: 0.5, Radius: 0.7, Rate: 3}
	s := newStrategy(t, p, 10, 0)
	copy(s.Encoder.Theta(), []float64{0.6, 0, 0, 0.7})
	s.Round = 3
	s.Weight = []float64{0.4, 1.6} // 4 and 16 of 10 clients: w̃ = 10/20
	steps.DescendItems(s, serving.Absorbed{Values: map[string][]float64{"gradients": {3, -4, 0, -500}}, Noise: map[string]float64{"gradients": 2}, Users: 5}, serial{})
	ridge := 0.1*4 + 2*0.5
	g := math.Sqrt(math.Pow(0.5*4+ridge*0.7, 2) + 2*16) // noise of deviation 4 in what 10 clients make
	eta := 3 * 0.7 / (g * math.Sqrt(3))
	want := clipped([]float64{0.6 - eta*(6+ridge*0.6), 0 + eta*8}, 0.7)
	near(t, "items", s.Encoder.Theta(), []float64{want[0], want[1], 0, 0.7}, 1e-12)
}

// Within an outer step users are fitted to the same items, whichever of its sums they take part in,
// and the model that the run shows goes along with the steps.
func TestUsersStayWithinAnOuterStep(t *testing.T) {
	for _, name := range []string{"gradients", "gradients of an encoder"} {
		p := kinds(12, 2)[name]
		users, _ := people(&p, 15, 0.5, 5)
		s := newStrategy(t, p, 15, 0)
		var fits [][]float64
		var shown [][]byte
		for round(t, s, users, nil) {
			if s.Sums() >= 0 {
				fits, shown = append(fits, slices.Clone(users[3].U)), append(shown, s.Model())
			}
		}
		if !slices.Equal(fits[0], fits[1]) || !slices.Equal(fits[0], fits[2]) || slices.Equal(fits[2], fits[3]) || !slices.Equal(fits[3], fits[5]) {
			t.Errorf("%s: users are fitted to %v", name, fits)
		}
		for i := range shown[1:] {
			if bytes.Equal(shown[i], shown[i+1]) {
				t.Errorf("%s: the model after sum %d is that before it", name, i+2)
			}
		}
	}
}

// A step of a user's own is against the gradient of what a fit minimises, by its definition in
// plain formulas, over its ratings and the ridge's.
func TestUsersOwnStep(t *testing.T) {
	p := kinds(12, 2)["joint"]
	_, rows := people(&p, 5, 0.5, 9)
	plan, m := gradientPlan(t, &p)
	for i, r := range rows {
		user := NewUser(&p, r)
		begin(t, user, slices.Repeat([]float64{0.2}, p.Width()), -0.1)
		objective := func(x []float64) float64 {
			u, own := x[:p.Width()], x[p.Width()]
			sum := p.UserRidge/2*floats.Dot(u, u) + p.UserBiasRidge/2*own*own
			for k, j := range r.Items {
				sum += loss(&p, m.Predict(u, own, int(j)), float64(r.Values[k]))
			}
			return sum
		}
		at := append(slices.Clone(user.U), user.Bias)
		want := slices.Clone(at)
		floats.AddScaled(want, -1/(float64(len(r.Items))+p.UserRidge), fd.Gradient(nil, objective, at, &fd.Settings{Formula: fd.Central}))
		contribute(t, user, plan, i)
		near(t, fmt.Sprint("user ", i), append(slices.Clone(user.U), user.Bias), want, 1e-6)
	}
}

// A user that is gone on with keeps what its steps came to; a snapshot that does not fit is refused.
func TestSnapshotOfSteps(t *testing.T) {
	for _, name := range []string{"joint", "joint, of samples"} {
		p := kinds(12, 2)[name]
		_, rows := people(&p, 1, 0.9, 9)
		plan, _ := gradientPlan(t, &p)
		user := NewUser(&p, rows[0])
		if b, err := user.Snapshot(); b != nil || err != nil {
			t.Errorf("%s: a snapshot of nothing is %x, %v", name, b, err)
		}
		contribute(t, user, plan, 0)
		b, err := user.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		other := NewUser(&p, rows[0])
		if err := other.Resume(b, simulated.New(5, "client/0")); err != nil {
			t.Fatal(err)
		}
		if got, want := contribute(t, other, plan, 0), contribute(t, user, plan, 0); !slices.Equal(last(got).Value, last(want).Value) || !slices.Equal(other.U, user.U) {
			t.Errorf("%s: gone on with, the user is another", name)
		}
		nan := slices.Clone(b)
		copy(nan, model.AppendFloats(nil, math.NaN()))
		for what, bad := range map[string][]byte{"a user's parameters have": b[:9], "numbers are finite": nan, "places of ratings": append(slices.Clone(b), 1)} {
			if err := NewUser(&p, rows[0]).Resume(bad, simulated.New(5, "client/0")); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %d bytes: %v; %q was expected", name, len(bad), err, what)
			}
		}
	}
}

// A plan without parameters is refused whatever the user rated, and parameters where none are taken.
func TestParametersOfABroadcast(t *testing.T) {
	p := kinds(12, 2)["gradients of an encoder"]
	plan, m := gradientPlan(t, &p)
	m.Theta = nil
	plan.Broadcast = m.Encode()
	user := NewUser(&p, model.Ratings{Items: []int32{3}, Values: []float32{4}})
	if _, err := user.Contribute(plan, simulated.New(1, "x"), serial{}); err == nil || !strings.Contains(err.Error(), "no parameters") {
		t.Errorf("a plan without parameters: %v", err)
	}
	q := plain(12, 2)
	n := start(q)
	n.Theta = []float64{1}
	if _, err := kernel.DecodeModel(n.Encode(), &q); err == nil || !strings.Contains(err.Error(), "the solver als has neither") {
		t.Errorf("parameters without gradients: %v", err)
	}
	m.Theta = []float64{1}
	if _, err := kernel.DecodeModel(m.Encode(), &p); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("too few parameters: %v", err)
	}
}

// Settings of gradients are checked.
func TestDescentRefusals(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*kernel.Params)
	}{
		{"gradients", "explicit feedback", func(p *kernel.Params) { p.Feedback, p.Unobserved = kernel.Implicit, 0.1 }},
		{"joint", "takes one sum", func(p *kernel.Params) { p.Resample = 2 }},
		{"gradients of an encoder", "has at most 1073741824", func(p *kernel.Params) { p.Encoder.Dim = 1 << 29 }},
	} {
		p := kinds(12, 2)[c.name]
		c.change(&p)
		if err := stage.Validate(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; %q was expected", c.name, err, c.want)
		}
	}
}
