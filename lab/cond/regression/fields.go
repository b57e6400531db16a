package regression

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/synthetic"
)

// fieldsName begins the names of synthetic regressions of categories, within synthetic:.
const fieldsName = "fields"

// Synthetic fields are as many as the fields of Criteo's Sponsored Search log. Each value has an
// effect in each of fieldsEffects directions. A label is the first effect, plus the product of the two
// others, which no linear model sees, plus noise.
const (
	fieldsRows, fieldsCount    = 20_000, 17
	fieldsPrivate              = 8 // the last of them, where some are private
	fieldsSmallest, fieldsMost = 4, 2000
	fieldsEffects              = 3
	fieldsMostRows             = 10_000_000
)

// openFields generates fields[-ROWS][-private].
func openFields(ctx context.Context, name string, o synthetic.Options) (*dataset.Set, error) {
	rest, private := strings.CutSuffix(strings.TrimPrefix(name, fieldsName), "-private")
	rows := fieldsRows
	if text, given := strings.CutPrefix(rest, "-"); given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > fieldsMostRows {
			return nil, fmt.Errorf("%q names no number of examples; want %s, %s-ROWS with up to %d of them, or one of both with -private behind it", text, fieldsName, fieldsName, fieldsMostRows)
		}
		rows = n
	}
	lo, hi, err := dataset.ScaleOr(o.Min, o.Max, -regressionRange, regressionRange)
	if err != nil {
		return nil, err
	}
	t := &table{File: name}
	rng := rand.New(rand.NewPCG(regressionSeed, 0x6669656c6473)) // "fields"
	effects := make([][fieldsEffects]float64, rows)
	for k := range fieldsCount {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := drawField(rng, k, rows, effects)
		if private && k >= fieldsCount-fieldsPrivate {
			t.Private = append(t.Private, f)
			continue
		}
		c := &column{Name: f.Name, Words: f.Values}
		for v := range f.Size {
			c.Values = append(c.Values, strconv.Itoa(v))
		}
		t.Columns = append(t.Columns, c)
	}
	t.Labels = make([]float64, rows)
	for i, e := range effects {
		t.Labels[i] = 0.8*e[0] + 0.6*e[1]*e[2] + regressionNoise*rng.NormFloat64()
	}
	return t.set(prefix+name, lo, hi, o.Fields)
}

// drawField makes a field whose values are the rarer the higher they are, like 1/v. It adds the
// effects of the values, of variance 1 over all fields, to the effects of each example.
func drawField(rng *rand.Rand, k, rows int, effects [][fieldsEffects]float64) dataset.Field {
	size := int(fieldsSmallest * math.Pow(fieldsMost/fieldsSmallest, float64(k%(fieldsPrivate+1))/fieldsPrivate))
	f := dataset.Field{Name: fmt.Sprintf("f%d", k+1), Size: size, Values: make([]int32, rows)}
	of := make([][fieldsEffects]float64, size)
	for v := range of {
		for d := range of[v] {
			of[v][d] = rng.NormFloat64() / math.Sqrt(fieldsCount)
		}
	}
	for i := range f.Values {
		v := min(int32(math.Exp(rng.Float64()*math.Log(float64(size)+1)))-1, int32(size)-1)
		f.Values[i] = v
		for d, e := range of[v] {
			effects[i][d] += e
		}
	}
	return f
}
