// Package regression makes sets of regressions. It reads tables of features with a label for each row (columns label=NAME). A program
// that imports this package opens such tables with package dataset/read. Every example is a user of the set, and rates its single
// item, the label.
//
// The package also generates such sets: "synthetic:regression-DECAY-LABELS" has features as numbers, "synthetic:fields" has
// categories, and "synthetic:fields-ROWS-private" has ROWS rows with some private fields.
package regression

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/synthetic"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
)

// Files of regressions: a row an example, a column a feature, and one the label.
const (
	// mostValues bounds the values of a column of words; more values are hashed into as many buckets. The most frequent values then
	// mostly keep buckets apart from most others, and a profile stays small enough to be decomposed.
	mostValues = 50
	// mostProfile bounds the columns that come of a file.
	mostProfile = 2000
)

// table holds columns of features as they come, and a label for each row.
type table struct {
	File    string // for messages
	Columns []*column
	Private []dataset.Field // private features
	Labels  []float64
}

// set is the table as a set, with features as numbers or, where only fields are asked for, as these alone.
func (t *table) set(name string, lo, hi float64, fields bool) (*dataset.Set, error) {
	p := &dataset.Profile{Source: t.digest(), Fields: t.fields(), Private: t.Private}
	if len(p.Fields)+len(p.Private) == 0 {
		return nil, fmt.Errorf("%s: no column but the label's has two different values; there is nothing to learn from", t.File)
	}
	if fields || len(p.Fields) == 0 {
		return fromLabels(name, p, t.Labels, lo, hi), nil
	}
	x, names, err := t.features()
	if err != nil {
		return nil, err
	}
	numbers := newProfile(names, x)
	p.Columns, p.X, p.Moments = names, x, numbers.Moments
	return fromLabels(name, p, t.Labels, lo, hi), nil
}

// newProfile takes features, row by row, which it keeps.
func newProfile(columns []string, x []float64) *dataset.Profile {
	cols := len(columns)
	rows := len(x) / cols
	p := &dataset.Profile{Columns: columns, X: x, Moments: make([]float64, cols*cols)}
	for i := range rows {
		row := p.Row(i)
		for a, v := range row {
			out := p.Moments[a*cols : (a+1)*cols]
			for b := range a + 1 {
				out[b] += float64(v * row[b])
			}
		}
	}
	for a := range cols {
		for b := range a + 1 {
			p.Moments[a*cols+b] /= float64(rows)
			p.Moments[b*cols+a] = p.Moments[a*cols+b]
		}
	}
	return p
}

// fromLabels makes a set of a profile and a label of each of its users.
func fromLabels(name string, p *dataset.Profile, labels []float64, lo, hi float64) *dataset.Set {
	rows := len(labels)
	set := &dataset.Set{Name: name, Min: lo, Max: hi, Ratings: dataset.NewRatings(rows, 1, rows), UserIDs: idtext.Numbered(rows), ItemIDs: []string{"label"}, Profile: p}
	for i, y := range labels {
		if math.IsNaN(y) {
			y = lo
		}
		set.User[i], set.Value[i] = int32(i), float32(min(max(y, lo), hi))
	}
	set.Digest = set.ComputeDigest()
	return set
}

// digest hashes what a profile is made of, whichever of its forms is.
func (t *table) digest() string {
	d := dataset.NewDigester()
	for _, c := range t.Columns {
		d.Text("column")
		d.Text(c.Name)
		d.Texts(c.Values)
		for _, w := range c.Words {
			d.Number(uint64(int64(w)))
		}
		for _, v := range c.numbers {
			d.Number(math.Float64bits(v))
		}
	}
	for _, c := range t.Private {
		d.Text("private")
		d.Text(c.Name)
		d.Number(uint64(c.Size))
		for _, v := range c.Values {
			d.Number(uint64(v))
		}
	}
	return d.Sum()
}

// column is a column of features: numbers until one value is none, then words.
type column struct {
	Name    string
	numbers []float64 // NaN where it is missing
	Words   []int32   // -1 where it is missing; nil of numbers
	Values  []string  // what words are indices of, in the order that they were met
	index   map[string]int32
}

// Add adds a value to the rows before.
func (c *column) Add(v string, before int) {
	if c.Words == nil {
		x, err := strconv.ParseFloat(v, 64)
		switch {
		case v == "":
			c.numbers = append(c.numbers, math.NaN())
			return
		case err == nil && !math.IsInf(x, 0) && !math.IsNaN(x):
			c.numbers = append(c.numbers, x)
			return
		}
		c.index, c.Words = map[string]int32{"": -1}, make([]int32, 0, before+1)
		for _, x := range c.numbers { // numbers so far are words too
			text := ""
			if !math.IsNaN(x) {
				text = strconv.FormatFloat(x, 'g', -1, 64)
			}
			c.Words = append(c.Words, c.word(text))
		}
		c.numbers = nil
	}
	c.Words = append(c.Words, c.word(v))
}

func (c *column) word(v string) int32 {
	at, known := c.index[v]
	if !known {
		at = int32(len(c.Values))
		v = strings.Clone(v)
		c.index[v] = at
		c.Values = append(c.Values, v)
	}
	return at
}

// features are the columns side by side, row by row, and their names.
func (t *table) features() (x []float64, names []string, err error) {
	rows := len(t.Labels)
	var columns [][]float64
	for _, c := range t.Columns {
		if c.Words == nil {
			if v := standardised(c.numbers); v != nil {
				names, columns = append(names, c.Name), append(columns, v)
			}
			continue
		}
		values, of := c.oneHot()
		names, columns = append(names, values...), append(columns, of...)
		if len(names) > mostProfile {
			break
		}
	}
	switch n := len(names); {
	case n == 0:
		return nil, nil, fmt.Errorf("%s: no column but the label's has two different values; there is nothing to learn from", t.File)
	case n > mostProfile:
		return nil, nil, fmt.Errorf("%s: its columns make more than %d features; leave some out", t.File, mostProfile)
	}
	x = make([]float64, rows*len(names))
	for j, v := range columns {
		for i, f := range v {
			x[i*len(names)+j] = f
		}
	}
	return x, names, nil
}

// standardised returns the numbers with mean 0 and deviation 1; a missing number becomes the mean. It
// returns nil if all numbers are alike.
func standardised(v []float64) []float64 {
	known := slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	n, sum, square := float64(len(known)), 0., 0.
	for _, x := range known {
		sum += x
	}
	mean := sum / n // NaN of none
	for _, x := range known {
		square += float64((x - mean) * (x - mean))
	}
	deviation := math.Sqrt(square / n)
	if !(deviation > 1e-12*math.Abs(mean)) || math.IsInf(deviation, 1) {
		return nil
	}
	out := make([]float64, len(v))
	for i, x := range v {
		if !math.IsNaN(x) {
			out[i] = (x - mean) / deviation
		}
	}
	return out
}

// oneHot is a feature for each value, in their order as text, or, where there are too many, for each bucket of their hashes.
// Features that never vary are left out.
func (c *column) oneHot() (names []string, columns [][]float64) {
	places, all := c.places(mostValues, func(v string) int32 { return int32(hash(v) % mostValues) })
	for j := range min(len(all), mostValues) {
		name, values := fmt.Sprintf("#%d", j), make([]float64, len(c.Words))
		if len(all) <= mostValues {
			name = all[j]
		}
		for i, w := range c.Words {
			if w >= 0 && int(places[w]) == j {
				values[i] = 1
			}
		}
		if slices.Min(values) < slices.Max(values) {
			names, columns = append(names, c.Name+"="+name), append(columns, values)
		}
	}
	return names, columns
}

// places numbers the values by their order as text or, if there are more than most, by a hash. It also returns them in that order.
func (c *column) places(most int, hashed func(v string) int32) (places []int32, sorted []string) {
	sorted = slices.Sorted(slices.Values(c.Values))
	return lists.Map(c.Values, func(v string) int32 {
		if len(sorted) > most {
			return hashed(v)
		}
		at, _ := slices.BinarySearch(sorted, v)
		return int32(at)
	}), sorted
}

// fields returns the columns of a table, except columns with fewer than two values.
func (t *table) fields() []dataset.Field {
	var out []dataset.Field
	for _, c := range t.Columns {
		f := c.field()
		if slices.Min(f.Values) < slices.Max(f.Values) {
			out = append(out, f)
		}
	}
	return out
}

// field has a value for each word, in their order as text, or for each bin of numbers, and one more for what is missing.
func (c *column) field() dataset.Field {
	if c.Words == nil {
		return c.bins()
	}
	places, _ := c.places(mostWords, func(v string) int32 { return bucket(c.Name, v, mostWords) })
	size := min(len(places), mostWords) + 1
	return dataset.Field{Name: c.Name, Size: size, Values: lists.Map(c.Words, func(w int32) int32 {
		if w < 0 {
			return int32(size - 1)
		}
		return places[w]
	})}
}

// bins cuts numbers where as many are below as above, and so on: equal numbers are in one bin.
func (c *column) bins() dataset.Field {
	sorted := slices.DeleteFunc(slices.Clone(c.numbers), math.IsNaN)
	slices.Sort(sorted)
	var ends []float64 // the largest number of each bin but the last
	for k := 1; k < numberBins && len(sorted) > 0; k++ {
		if v := sorted[(len(sorted)-1)*k/numberBins]; (len(ends) == 0 || v > ends[len(ends)-1]) && v < sorted[len(sorted)-1] {
			ends = append(ends, v)
		}
	}
	return dataset.Field{Name: c.Name, Size: len(ends) + 2, Values: lists.Map(c.numbers, func(v float64) int32 {
		if math.IsNaN(v) {
			return int32(len(ends) + 1)
		}
		at, _ := slices.BinarySearch(ends, v)
		return int32(at)
	})}
}

// mostWords bounds the values of a field of words; more values are hashed into as many.
const mostWords = 1 << 16

// numberBins is the most values that a field of numbers has; each bin has about as many users.
const numberBins = 32

// bucket hashes a word of a field to one of size values (FNV-1a of name and word). A model that learns from the field cannot tell
// apart words that share a value.
func bucket(name, word string, size int) int32 { return int32(hash(name+"\x00"+word) % uint64(size)) }

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text) // never fails, says hash.Hash
	return h.Sum64()
}

func init() {
	read.RegisterRegressions(readFile)
	synthetic.Register(regressionName, openRegression)
	synthetic.Register(fieldsName, openFields)
}

// Data holds examples: public features and a label each.
type Data struct {
	Rows, Cols int
	X          []float64 // row by row, Rows x Cols
	Y          []float64 // Rows labels
}

// NewSet makes a set of a regression. Its examples are the users 1 to Rows, and each rates the single item, by its label. Labels
// beyond the scale count as its ends, since a refused label would reveal its value. Features are numbered.
func NewSet(name string, r *Data, lo, hi float64) *dataset.Set {
	columns := make([]string, r.Cols)
	for j := range columns {
		columns[j] = fmt.Sprintf("x%d", j+1)
	}
	return fromLabels(name, newProfile(columns, r.X), r.Y, lo, hi)
}

// Alignment is which singular directions of the features the labels lie in.
type Alignment string

// The alignments.
const (
	TopLabels     Alignment = "top"     // the direction of the largest singular value
	UniformLabels Alignment = "uniform" // all alike
	BottomLabels  Alignment = "bottom"  // the direction of the smallest singular value
)

// Shape describes synthetic regressions: X = √n·UΣVᵀ with singular values Σ_i = i^-Decay, and labels √n·U·ŷ + N(0, Noise²) with ‖ŷ‖
// = 1, which are a linear function of the features plus noise. √n makes the mean square of a label without noise 1 at any n.
type Shape struct {
	Rows, Cols int       // Rows >= Cols >= 1
	Decay      float64   // a of σ_i = i^-a, at least 0; 0: a flat spectrum
	Labels     Alignment // where ŷ lies
	Noise      float64   // standard deviation of what no feature explains, at least 0
}

// New makes a regression of the shape. The same seed makes the same. It takes time in Rows·Cols².
func New(s Shape, seed uint64) *Data {
	rng := rand.New(rand.NewPCG(seed, 0x72656772657373)) // "regress"
	u, v := orthonormal(rng, s.Rows, s.Cols), orthonormal(rng, s.Cols, s.Cols)
	r := &Data{Rows: s.Rows, Cols: s.Cols, X: make([]float64, s.Rows*s.Cols), Y: make([]float64, s.Rows)}
	scale := math.Sqrt(float64(s.Rows))
	for k := range s.Cols {
		sigma, share := math.Pow(float64(k+1), -s.Decay), s.share(k)
		for i := range s.Rows {
			r.Y[i] += scale * share * u[k][i]
			floats.AddScaled(r.X[i*s.Cols:(i+1)*s.Cols], scale*sigma*u[k][i], v[k])
		}
	}
	for i := range r.Y {
		r.Y[i] += s.Noise * rng.NormFloat64()
	}
	return r
}

// share is ŷ_k.
func (s Shape) share(k int) float64 {
	switch {
	case s.Labels == UniformLabels:
		return 1 / math.Sqrt(float64(s.Cols))
	case s.Labels == TopLabels && k == 0, s.Labels == BottomLabels && k == s.Cols-1:
		return 1
	}
	return 0
}

// orthonormal returns count random orthonormal vectors of n values, n >= count. Each is made
// orthogonal twice: once leaves errors where little of a vector remains.
func orthonormal(rng *rand.Rand, n, count int) [][]float64 {
	vs := make([][]float64, count)
	for k := range vs {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		for range 2 {
			for _, w := range vs[:k] {
				floats.AddScaled(v, -model.Dot(v, w), w)
			}
		}
		norm := math.Sqrt(model.Dot(v, v))
		for i := range v {
			v[i] /= norm
		}
		vs[k] = v
	}
	return vs
}
