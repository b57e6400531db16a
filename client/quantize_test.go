package client_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
)

func ExampleQuantize() {
	r := protocol.Release{Name: "gradient", Len: 4, L2: 1, MaxNonZero: 2, Scale: 100, Width: 16}
	v, err := client.Quantize(protocol.Vector{Index: []uint32{1, 3}, Value: []float64{0.126, -0.5}}, r)
	fmt.Println(v.Index, v.Narrow, err)
	_, err = client.Quantize(protocol.Vector{Value: []float64{3, 0, 0, 0}}, r)
	fmt.Println(err)
	// Output:
	// [1 3] [13 -50] <nil>
	// release "gradient": contribution is out of bounds: its L2 norm is above the 1 declared
}

func exactFloat(x float64) *big.Float { return new(big.Float).SetPrec(4000).SetFloat64(x) }

func square(x *big.Float) *big.Float { return new(big.Float).SetPrec(4000).Mul(x, x) }

// declared computes D2 and D1 from exact numbers, except for one float64 rounding of each
// operation: D2 = sC + √h/2 and D1 = min(√h·D2, D2², s·L1 + h/2).
func declared(r protocol.Release) (d2, d1 float64) {
	h := float64(r.MaxNonZero)
	d2 = r.Scale*r.L2 + math.Sqrt(h)/2
	d1 = min(math.Sqrt(h)*d2, d2*d2)
	if r.L1 > 0 {
		d1 = min(d1, r.Scale*r.L1+h/2)
	}
	return d2, d1
}

// For every contribution within its bounds, the integers' norms, in big integers, are at most the
// declared norms. Either every coordinate is within 1/2 of value · scale (and the float64 product's
// own rounding), or every coordinate is rounded towards zero. Values are weighted to ties, to the
// whole bound in one coordinate, and to equal shares of it.
func TestQuantizeKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, block := rapid.IntRange(1, 30).Draw(t, "blocks"), rapid.IntRange(1, 4).Draw(t, "block")
		r := protocol.Release{Name: "g", Len: n * block, MaxNonZero: rapid.IntRange(1, n*block).Draw(t, "h"), Width: 64,
			L2:    rapid.OneOf(rapid.SampledFrom([]float64{1, 0.5, 1e-6, 1e6}), rapid.Float64Range(1e-3, 1e3)).Draw(t, "L2"),
			Scale: rapid.OneOf(rapid.SampledFrom([]float64{1, 2, 0.5, 1e-3, 1e6}), rapid.Float64Range(1e-3, 1e4)).Draw(t, "scale")}
		h := rapid.IntRange(0, r.MaxNonZero/block).Draw(t, "blocks listed")
		v := protocol.Vector{Index: []uint32{}, Block: block}
		share := rapid.OneOf(
			rapid.SampledFrom([]float64{0, 1, -1, 0.5, 1 / math.Sqrt(float64(max(h, 1)))}), rapid.Float64Range(-1, 1),
			rapid.Map(rapid.IntRange(-9, 9), func(k int) float64 { return (float64(k) + 0.5) / r.Scale / r.L2 }))
		for j := range h {
			v.Index = append(v.Index, uint32(j))
		}
		for range h * block {
			v.Value = append(v.Value, r.L2*share.Draw(t, "value"))
		}
		free := v.Value // what may be scaled
		if rapid.Bool().Draw(t, "multiples of one row") {
			v.Factor, v.Value = slices.Repeat([]float64{1}, h), slices.Repeat([]float64{1}, block)
			for i := range v.Factor {
				v.Factor[i] = r.L2 * share.Draw(t, "factor")
			}
			for a := range v.Value {
				v.Value[a] = share.Draw(t, "row")
			}
			free = v.Factor
		}
		if norm := floats.Norm(values(v), 2); norm > r.L2 { // scale to the ball
			floats.Scale(r.L2/norm, free)
		}
		if rapid.Bool().Draw(t, "L1 bound") {
			r.L1 = floats.Norm(values(v), 1)
		}
		got, err := client.Quantize(v, r)
		if err != nil {
			t.Fatalf("%+v of %+v: %v", v, r, err)
		}
		checkQuantized(t, v, r, got)
	})
}

// values returns the values that a vector lists.
func values(v protocol.Vector) []float64 {
	if v.Factor == nil {
		return v.Value
	}
	var out []float64
	for _, f := range v.Factor {
		for _, x := range v.Value {
			out = append(out, f*x)
		}
	}
	return out
}

// integers returns the integers that a vector lists, from whichever place holds them.
func integers(v protocol.Integers) []int64 {
	out := slices.Clone(v.Value)
	for _, x := range v.Narrow {
		out = append(out, int64(x))
	}
	return out
}

func checkQuantized(t *rapid.T, v protocol.Vector, r protocol.Release, got protocol.Integers) {
	if err := got.Validate(r.Len); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v.Index, got.Index); d != "" || got.Block != v.Block {
		t.Fatalf("blocks of %d became blocks of %d, and indices changed (-want +got):\n%s", v.Block, got.Block, d)
	}
	before := values(v)
	l2, l1 := new(big.Int), new(big.Int)
	nearest, truncated := true, true
	for i, x := range integers(got) {
		b := big.NewInt(x)
		l2.Add(l2, new(big.Int).Mul(b, b))
		l1.Add(l1, new(big.Int).Abs(b))
		product := new(big.Float).SetPrec(4000).Mul(exactFloat(before[i]), exactFloat(r.Scale))
		off, _ := new(big.Float).Sub(exactFloat(float64(x)), product).Float64()
		slop := math.Abs(float64(x)) * 0x1p-52
		nearest = nearest && math.Abs(off) <= 0.5+slop
		truncated = truncated && (x == 0 || (x > 0) == (before[i] > 0)) && math.Abs(off) < 1+slop &&
			math.Abs(float64(x)) <= math.Abs(before[i]*r.Scale)
	}
	d2, d1 := declared(r)
	if new(big.Float).SetInt(l2).Cmp(square(exactFloat(d2))) > 0 || new(big.Float).SetInt(l1).Cmp(exactFloat(d1)) > 0 {
		t.Fatalf("integers %v have squared L2 norm %v and L1 norm %v; declared %v (squared %v) and %v", got, l2, l1, d2, d2*d2, d1)
	}
	if !nearest && !truncated {
		t.Fatalf("integers %v of %v at scale %v are neither nearest nor rounded towards zero", got, before, r.Scale)
	}
}

// By hand: h = 4, C = 1, s = 10: D2 = 11, D1 = 22. Four coordinates of 0.5 are
// exact; ties go to even: 4.5 to 4, 2.5 to 2, 3.5 to 4.
func TestQuantizeByHand(t *testing.T) {
	r := protocol.Release{Len: 4, L2: 1, MaxNonZero: 4, Scale: 10, Width: 16}
	for _, c := range []struct {
		value []float64
		want  []int64
	}{
		{[]float64{0.5, -0.5, 0.5, -0.5}, []int64{5, -5, 5, -5}},
		{[]float64{0.45, -0.45, 0.25, -0.35}, []int64{4, -4, 2, -4}},
		{[]float64{1, 0, 0, 0}, []int64{10, 0, 0, 0}},
		{[]float64{0.04, 0.06, math.Copysign(0, -1), -0.06}, []int64{0, 1, 0, -1}},
	} {
		got, err := client.Quantize(protocol.Vector{Value: c.value}, r)
		if d := cmp.Diff(protocol.Integers{Value: c.want}, got); err != nil || d != "" {
			t.Errorf("%v: error %v (-want +got):\n%s", c.value, err, d)
		}
	}
}

// Rounding to nearest can exceed D2 = sC + √h/2 only by what a float64 norm may exceed C. For a
// norm of 1, 1 + 9e-10 passes. At scale 1e9 the nearest integer is 1e9 + 1, above D2 = 1e9 + 1/2;
// towards zero it is 1e9. At scale 1e10 both ways exceed D2, so it is refused.
func TestQuantizeTruncates(t *testing.T) {
	r := protocol.Release{Len: 1, L2: 1, MaxNonZero: 1, Scale: 1e9, Width: 64}
	for _, x := range []float64{1 + 9e-10, -1 - 9e-10} {
		v := protocol.Vector{Value: []float64{x}}
		if got, err := client.Quantize(v, r); err != nil || got.Value[0] != int64(math.Copysign(1e9, x)) {
			t.Errorf("%v: %v, %v; want 1e9 towards zero", x, got, err)
		}
		wide := r
		wide.Scale = 1e10
		if got, err := client.Quantize(v, wide); !errors.Is(err, client.ErrOutOfBounds) {
			t.Errorf("%v at scale 1e10: %v, %v; want ErrOutOfBounds", x, got, err)
		}
	}
}

func TestQuantizeRefuses(t *testing.T) {
	r := protocol.Release{Name: "g", Len: 4, L2: 1, L1: 1.2, MaxNonZero: 2, Scale: 10, Width: 16}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name string
		v    protocol.Vector
	}{
		{"NaN", protocol.Vector{Value: []float64{nan, 0, 0, 0}}},
		{"Inf", protocol.Vector{Value: []float64{0, 0, 0, inf}}},
		{"-Inf", protocol.Vector{Index: []uint32{1}, Value: []float64{-inf}}},
		{"Inf - Inf", protocol.Vector{Index: []uint32{1, 2}, Value: []float64{-inf, inf}}},
		{"square overflows", protocol.Vector{Index: []uint32{1}, Value: []float64{1e200}}},
		{"too short", protocol.Vector{Value: []float64{0, 0, 0}}},
		{"too long", protocol.Vector{Value: []float64{0, 0, 0, 0, 0}}},
		{"nothing", protocol.Vector{}},
		{"three non-zeros", protocol.Vector{Value: []float64{0.1, 0.1, 0, 0.1}}},
		{"three tiny non-zeros", protocol.Vector{Value: []float64{5e-324, 5e-324, 0, 5e-324}}},
		{"L2 norm", protocol.Vector{Value: []float64{1.00001, 0, 0, 0}}},
		{"L1 norm", protocol.Vector{Value: []float64{0.7, 0.7, 0, 0}}},
		{"index beyond", protocol.Vector{Index: []uint32{4}, Value: []float64{0.1}}},
		{"index largest", protocol.Vector{Index: []uint32{math.MaxUint32}, Value: []float64{0.1}}},
		{"index twice", protocol.Vector{Index: []uint32{1, 1}, Value: []float64{0.1, 0.1}}},
		{"indices descend", protocol.Vector{Index: []uint32{2, 1}, Value: []float64{0.1, 0.1}}},
		{"more values than indices", protocol.Vector{Index: []uint32{}, Value: []float64{0.1}}},
		{"more indices than values", protocol.Vector{Index: []uint32{1, 2}, Value: []float64{0.1}}},
		{"more values than blocks", protocol.Vector{Index: []uint32{1}, Block: 2, Value: []float64{0.1, 0, 0.1}}},
		{"blocks that do not fit", protocol.Vector{Index: []uint32{0}, Block: 3, Value: []float64{0.1, 0, 0}}},
		{"block beyond", protocol.Vector{Index: []uint32{2}, Block: 2, Value: []float64{0.1, 0}}},
		{"three non-zeros in blocks", protocol.Vector{Index: []uint32{0, 1}, Block: 2, Value: []float64{0.1, 0.1, 0, 0.1}}},
		{"four non-zeros of one row", protocol.Vector{Index: []uint32{0, 1}, Block: 2, Factor: []float64{0.1, 0.1}, Value: []float64{1, 1}}},
		{"L2 norm of a multiple", protocol.Vector{Index: []uint32{1}, Block: 2, Factor: []float64{2}, Value: []float64{0.6, 0}}},
		{"Inf times 0", protocol.Vector{Index: []uint32{1}, Block: 2, Factor: []float64{inf}, Value: []float64{0, 0}}},
		{"factor missing", protocol.Vector{Index: []uint32{0, 1}, Block: 2, Factor: []float64{0.1}, Value: []float64{1, 0}}},
	} {
		got, err := client.Quantize(c.v, r)
		if !errors.Is(err, client.ErrOutOfBounds) || !cmp.Equal(got, protocol.Integers{}) {
			t.Errorf("%s: %v, %v; want nothing and ErrOutOfBounds", c.name, got, err)
		}
	}
}

// A refusal is logged, and so its text may have no value, place or count of the owner's.
func TestRefusalNamesNoValue(t *testing.T) {
	r := protocol.Release{Name: "g", Len: 9000, L2: 1, L1: 1.2, LInf: 0.95, MaxNonZero: 3, Scale: 10, Width: 16}
	tight, wide := r, r
	tight.L2, tight.L1, tight.LInf, tight.Scale = 1e9, 0, 0, 1e10
	wide.L1, wide.LInf = 0, 0
	for _, c := range []struct {
		name string
		r    protocol.Release
		v    protocol.Vector
	}{
		{"L2 norm", wide, protocol.Vector{Index: []uint32{4242}, Value: []float64{7.31}}},
		{"L1 norm", r, protocol.Vector{Index: []uint32{4242, 4243}, Value: []float64{0.731, 0.681}}},
		{"coordinate", r, protocol.Vector{Index: []uint32{4242}, Value: []float64{0.9731}}},
		{"non-zeros", r, protocol.Vector{Index: []uint32{4242, 4243, 4244, 4245}, Value: []float64{0.1, 0.1, 0.1, 0.1}}},
		{"indices", r, protocol.Vector{Index: []uint32{4242, 4242}, Value: []float64{0.1, 0.1}}},
		{"integers", tight, protocol.Vector{Index: []uint32{4242}, Value: []float64{9731731.5}}},
	} {
		_, err := client.Quantize(c.v, c.r)
		if !errors.Is(err, client.ErrOutOfBounds) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, own := range []string{"731", "7.31", "681", "42", "1.412", "4 non"} {
			if strings.Contains(err.Error(), own) {
				t.Errorf("%s: %v: it speaks of the owner's %s", c.name, err, own)
			}
		}
	}
}

// A bound met exactly in real numbers passes although its float64 norm may be
// a little more: 0.1 ten times has the L1 norm 1 and the L2 norm √0.1.
func TestQuantizeAtTheBound(t *testing.T) {
	r := protocol.Release{Len: 10, L2: math.Sqrt(0.1), L1: 1, MaxNonZero: 10, Scale: 1000, Width: 16}
	v := protocol.Vector{Value: []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}}
	got, err := client.Quantize(v, r)
	if d := cmp.Diff([]int64{100, 100, 100, 100, 100, 100, 100, 100, 100, 100}, got.Value); err != nil || d != "" {
		t.Errorf("error %v (-want +got):\n%s", err, d)
	}
}

// A value that no int64 holds must be refused, not converted to the machine's choice: 1e19 is above
// 2^63.
func TestQuantizeRefusesWhatDoesNotFit(t *testing.T) {
	for _, x := range []float64{1e19, -1e19, 1e150} {
		r := protocol.Release{Len: 1, L2: 1e150, MaxNonZero: 1, Scale: 1, Width: 64}
		if got, err := client.Quantize(protocol.Vector{Value: []float64{x}}, r); !errors.Is(err, client.ErrOutOfBounds) {
			t.Errorf("%g: %v, %v; want ErrOutOfBounds", x, got.Value, err)
		}
	}
}

// Sparse integers are narrow while the largest fits 32 bits, and blocks stay blocks. A multiple of
// a row is rounded by its value: 0.3·5 = 1.5 to 2.
func TestQuantizeForms(t *testing.T) {
	r := protocol.Release{Len: 4, L2: 1e10, MaxNonZero: 4, Scale: 1, Width: 64}
	at := []uint32{1}
	for _, c := range []struct {
		v    protocol.Vector
		want protocol.Integers
	}{
		{protocol.Vector{Index: at, Value: []float64{math.MaxInt32}}, protocol.Integers{Index: at, Narrow: []int32{math.MaxInt32}}},
		{protocol.Vector{Index: at, Value: []float64{-math.MaxInt32}}, protocol.Integers{Index: at, Narrow: []int32{-math.MaxInt32}}},
		{protocol.Vector{Index: at, Value: []float64{math.MaxInt32 + 0.5}}, protocol.Integers{Index: at, Value: []int64{math.MaxInt32 + 1}}},
		{protocol.Vector{Index: at, Value: []float64{-math.MaxInt32 - 2}}, protocol.Integers{Index: at, Value: []int64{-math.MaxInt32 - 2}}},
		{protocol.Vector{Index: at, Block: 2, Value: []float64{1.25, -8}}, protocol.Integers{Index: at, Block: 2, Narrow: []int32{1, -8}}},
		{protocol.Vector{Index: []uint32{0, 1}, Block: 2, Factor: []float64{0.3, -1}, Value: []float64{5, 1 << 31}},
			protocol.Integers{Index: []uint32{0, 1}, Block: 2, Value: []int64{2, 644245094, -5, -1 << 31}}}, // 0.3·2^31 = 644245094.4
		{protocol.Vector{Value: []float64{1, 0, 0, 2}}, protocol.Integers{Value: []int64{1, 0, 0, 2}}}, // noise is added to a dense one
	} {
		got, err := client.Quantize(c.v, r)
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%+v: error %v (-want +got):\n%s", c.v, err, d)
		}
	}
}

// Multiples of four numbers, which have a loop of their own, are rounded one by one: ties to even, small
// and large ones, and squares whose sum no float64 counts.
func TestQuantizeMultiplesOfFour(t *testing.T) {
	for _, scale := range []float64{1, 0.5, 1000.3} {
		for n := 1; n < 40; n++ {
			v := protocol.Vector{Index: []uint32{}, Block: 4, Value: []float64{1, -2.5, 0, 1.0 / 3}}
			want := protocol.Integers{Index: []uint32{}, Block: 4}
			for i := range n {
				f := []float64{0.5, -1.5, 2.5, 1e5 + 0.25, -8e5, math.Copysign(0, -1), 1e-300}[i%7] * float64(1+i)
				v.Index, v.Factor = append(v.Index, uint32(2*i)), append(v.Factor, f)
				for _, x := range v.Value {
					want.Narrow = append(want.Narrow, int32(math.RoundToEven(f*x*scale)))
				}
			}
			want.Index = v.Index
			r := protocol.Release{Len: 400, L2: 1e12, MaxNonZero: 400, Scale: scale, Width: 64}
			if scale*8e5*2.5*float64(n) > math.MaxInt32 {
				continue
			}
			got, err := client.Quantize(v, r)
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Errorf("%d rows at scale %v: error %v (-want +got):\n%s", n, scale, err, d)
			}
		}
	}
}
