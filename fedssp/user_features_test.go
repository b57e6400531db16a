package fedssp

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
)

// By hand: "b" is of one item only and has no column, and weights 3 and 4 have norm 5.
func TestExtended(t *testing.T) {
	f := &dataset.ItemFeatures{Items: 3, Categories: []dataset.Category{
		{Name: "one", Values: []string{"a", "b"}, Start: []int32{0, 1, 2, 3}, Value: []int32{0, 1, 0}, Weight: []float64{2, 1, 1}},
		{Name: "two", Values: []string{"c", "d"}, Start: []int32{0, 2, 2, 4}, Value: []int32{0, 1, 0, 1}, Weight: []float64{1, 1, 3, 4}},
	}}
	p := plain(3, 1)
	p.Features, p.UserFeatures = f, kernel.NewUserFeatures(f, 2)
	if err := stage.Validate(p); err != nil {
		t.Fatal(err)
	}
	m := start(p)
	copy(m.Items, []float64{7, 8, 9})
	half := math.Sqrt(0.5)
	near(t, "extended", m.Extended(&p), []float64{7, 2, 2 * half, 2 * half, 8, 0, 0, 0, 9, 2, 1.2, 1.6}, 1e-12)
	if kernel.NewUserFeatures(nil, 1) != nil || kernel.NewUserFeatures(nil, 1).Width() != 0 || kernel.NewUserFeatures(f, 0) != nil {
		t.Error("there are tastes for no features, or of no weight")
	}
	alone := &dataset.ItemFeatures{Items: 1, Categories: []dataset.Category{{Values: []string{"a"}, Start: []int32{0, 1}, Value: []int32{0}, Weight: []float64{1}}}}
	if kernel.NewUserFeatures(alone, 1) != nil {
		t.Error("there are tastes for a feature of one item")
	}
}

// tasteRidge computes the ridge of features from their centred columns, first to end, and centred residuals, as the comment of
// [user.Workspace.TasteRidge] says. A normal prior of mean and deviation 0.5 meets a measurement of variance 2λ²/|XᵀX|², and
// m is the mean of both.
func tasteRidge(x *mat.Dense, y *mat.VecDense, first, end int, p *kernel.Params) float64 {
	n, _ := x.Dims()
	centred, left := mat.NewDense(n, end-first, nil), mat.NewVecDense(n, nil)
	for k := range n {
		left.SetVec(k, y.AtVec(k)-mat.Sum(y)/float64(n))
		for i := first; i < end; i++ {
			centred.Set(k, i-first, x.At(k, i)-mat.Sum(x.ColView(i))/float64(n))
		}
	}
	var gram mat.Dense
	gram.Mul(centred.T(), centred)
	var right mat.VecDense
	right.MulVec(centred.T(), left)
	noise := 3. / 64 * (p.Max - p.Min) * (p.Max - p.Min)
	squares := math.Pow(mat.Norm(&gram, 2), 2)
	measured := (mat.Dot(&right, &right)/noise - mat.Trace(&gram)) * p.UserRidge / squares
	sure, before := squares/(2*p.UserRidge*p.UserRidge), 1/(0.5*0.5)
	m := (0.5*before + measured*sure) / (before + sure)
	return p.UserRidge / math.Min(math.Max(m, 0.05), 8)
}

// A client's fit is the ridge regression of its ratings on learned embeddings, a constant and
// features, solved here densely by gonum. Its predictions, the residuals for its statistics and the
// extended embeddings agree with it.
func TestTasteFit(t *testing.T) {
	const m, d = 30, 2
	p := kinds(m, d)["pooled, with tastes"]
	rng := rand.New(rand.NewPCG(4, 4))
	shared := start(p)
	shared.Mean, shared.Bias = 3.2, make([]float64, m)
	for i := range shared.Items {
		shared.Items[i] = rng.NormFloat64()
	}
	for j := range shared.Bias {
		shared.Bias[j] = rng.NormFloat64() / 3
	}
	shared.Round()
	var r model.Ratings
	for j := range m {
		if rng.IntN(2) == 0 {
			r.Items, r.Values = append(r.Items, int32(j)), append(r.Values, float32(1+rng.IntN(5)))
		}
	}
	width := d + 1 + p.UserFeatures.Width()
	x, y := mat.NewDense(len(r.Items), width, nil), mat.NewVecDense(len(r.Items), nil)
	all := mat.NewDense(m, width-1, shared.Extended(&p))
	for k, j := range r.Items {
		y.SetVec(k, float64(r.Values[k])-3.2-shared.Bias[j])
		for i := range width - 1 {
			x.Set(k, i, all.At(int(j), i))
		}
		x.Set(k, width-1, 1)
	}
	var gram mat.Dense
	gram.Mul(x.T(), x)
	tastes := tasteRidge(x, y, d, width-1, &p)
	for i := range width {
		ridge := p.UserRidge
		switch {
		case i == width-1:
			ridge = p.UserBiasRidge
		case i >= d:
			ridge = tastes
		}
		gram.Set(i, i, gram.At(i, i)+ridge)
	}
	var right, want mat.VecDense
	right.MulVec(x.T(), y)
	if err := want.SolveVec(&gram, &right); err != nil {
		t.Fatal(err)
	}
	u, bias := fit(t, &p, shared, r)
	near(t, "u and tastes", u, want.RawVector().Data[:width-1], 1e-9)
	near(t, "bias", []float64{bias}, []float64{want.AtVec(width - 1)}, 1e-9)
	for j := range m {
		says := 3.2 + shared.Bias[j] + want.AtVec(width-1)
		for i := range width - 1 {
			says += want.AtVec(i) * all.At(j, i)
		}
		near(t, "prediction", []float64{shared.Predict(u, bias, j)}, []float64{says}, 1e-9)
	}
	s := newStrategy(t, p, 1, 0)
	*s.Current(), s.Round = *shared, uint64(len(s.Params.Steps)-1)
	plan, _, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	one := NewUser(&p, r)
	vectors := contribute(t, one, plan, 0)
	if err = one.Finish(plan.Broadcast, serial{}); err != nil {
		t.Fatal(err)
	}
	near(t, "embedding", one.U, u, 1e-12)
	clipped := append([]float64(nil), u[:d]...)
	user.ClipUser(clipped, p.ClipUser)
	moments := spread(vectors[1], m*d)
	for _, j := range r.Items {
		k := 0
		for r.Items[k] != j {
			k++
		}
		left := y.AtVec(k) - bias
		for i := d; i < width-1; i++ {
			left -= u[i] * all.At(int(j), i)
		}
		left = math.Max(-p.ClipRating, math.Min(p.ClipRating, left)) / math.Sqrt(float64(len(r.Items)))
		near(t, "moments", moments[int(j)*d:int(j)*d+d], []float64{left * clipped[0], left * clipped[1]}, 1e-9)
	}
}
