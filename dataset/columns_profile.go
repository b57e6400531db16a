package dataset

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Files of regressions: a row an example, a column a feature, and one the label ([Columns]).
const (
	// mostValues is how many values a column of words may have before they are hashed into as many buckets: what is named most in
	// it is told apart from most else, and a profile stays one that can be decomposed.
	mostValues = 50
	// mostProfile bounds the columns that come of a file.
	mostProfile = 2000
)

// columnTable holds columns of features as they come, and a label for each row.
type columnTable struct {
	file    string // for messages
	columns []*tableColumn
	hidden  []Field // private features
	y       []float64
}

// set is the table as a set, with features as numbers or, where only fields are asked for, as these alone.
func (t *columnTable) set(name string, lo, hi float64, fields bool) (*Set, error) {
	p := &Profile{Source: t.digest(), Fields: t.fields(), Private: t.hidden}
	if len(p.Fields)+len(p.Private) == 0 {
		return nil, fmt.Errorf("%s: no column but the label's has two different values; there is nothing to learn from", t.file)
	}
	if fields || len(p.Fields) == 0 {
		return FromLabels(name, p, t.y, lo, hi), nil
	}
	x, names, err := t.features()
	if err != nil {
		return nil, err
	}
	numbers := NewProfile(names, x)
	p.Columns, p.X, p.Moments = names, x, numbers.Moments
	return FromLabels(name, p, t.y, lo, hi), nil
}

// digest hashes what a profile is made of, whichever of its forms is.
func (t *columnTable) digest() string {
	d := newDigester()
	for _, c := range t.columns {
		d.text("column")
		d.text(c.name)
		d.texts(c.values)
		for _, w := range c.words {
			d.number(uint64(int64(w)))
		}
		for _, v := range c.numbers {
			d.number(math.Float64bits(v))
		}
	}
	for _, c := range t.hidden {
		d.text("private")
		d.text(c.Name)
		d.number(uint64(c.Size))
		for _, v := range c.Values {
			d.number(uint64(v))
		}
	}
	return d.sum()
}

// tableColumn is a column of features: numbers until one value is none, then words.
type tableColumn struct {
	name    string
	numbers []float64 // NaN where it is missing
	words   []int32   // -1 where it is missing; nil of numbers
	values  []string  // what words are indices of, in the order that they were met
	index   map[string]int32
}

// add adds a value to the rows before.
func (c *tableColumn) add(v string, before int) {
	if c.words == nil {
		x, err := strconv.ParseFloat(v, 64)
		switch {
		case v == "":
			c.numbers = append(c.numbers, math.NaN())
			return
		case err == nil && !math.IsInf(x, 0) && !math.IsNaN(x):
			c.numbers = append(c.numbers, x)
			return
		}
		c.index, c.words = make(map[string]int32), make([]int32, 0, before+1)
		for _, x := range c.numbers { // numbers so far are words too
			if math.IsNaN(x) {
				c.words = append(c.words, -1)
			} else {
				c.words = append(c.words, c.word(strconv.FormatFloat(x, 'g', -1, 64)))
			}
		}
		c.numbers = nil
	}
	if v == "" {
		c.words = append(c.words, -1)
		return
	}
	c.words = append(c.words, c.word(v))
}

func (c *tableColumn) word(v string) int32 {
	at, known := c.index[v]
	if !known {
		at = int32(len(c.values))
		v = strings.Clone(v)
		c.index[v] = at
		c.values = append(c.values, v)
	}
	return at
}

// features are the columns side by side, row by row, and their names.
func (t *columnTable) features() (x []float64, names []string, err error) {
	rows := len(t.y)
	var columns [][]float64
	for _, c := range t.columns {
		if c.words == nil {
			if v := standardised(c.numbers); v != nil {
				names, columns = append(names, c.name), append(columns, v)
			}
			continue
		}
		for _, f := range c.oneHot() {
			names, columns = append(names, f.name), append(columns, f.values)
		}
		if len(names) > mostProfile {
			break
		}
	}
	switch n := len(names); {
	case n == 0:
		return nil, nil, fmt.Errorf("%s: no column but the label's has two different values; there is nothing to learn from", t.file)
	case n > mostProfile:
		return nil, nil, fmt.Errorf("%s: its columns make more than %d features; leave some out", t.file, mostProfile)
	}
	x = make([]float64, rows*len(names))
	for j, v := range columns {
		for i, f := range v {
			x[i*len(names)+j] = f
		}
	}
	return x, names, nil
}

// standardised are numbers with mean 0 and deviation 1, the mean where one is missing; nil of those that are all alike.
func standardised(v []float64) []float64 {
	var n, sum, square float64
	for _, x := range v {
		if !math.IsNaN(x) {
			n++
			sum += x
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / n
	for _, x := range v {
		if !math.IsNaN(x) {
			square += float64((x - mean) * (x - mean))
		}
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

// profileColumn is a column of a profile.
type profileColumn struct {
	name   string
	values []float64
}

// oneHot is a feature for each value, in their order as text, or, where there are too many, for each bucket of their hashes.
func (c *tableColumn) oneHot() []profileColumn {
	bucket, names := make([]int, len(c.values)), slices.Sorted(slices.Values(c.values))
	if len(names) > mostValues {
		names = make([]string, mostValues)
		for j := range names {
			names[j] = fmt.Sprintf("#%d", j)
		}
	}
	for k, v := range c.values {
		if len(c.values) <= mostValues {
			bucket[k], _ = slices.BinarySearch(names, v)
			continue
		}
		h := fnv.New64a()
		_, _ = io.WriteString(h, v) // never fails, says hash.Hash
		bucket[k] = int(h.Sum64() % mostValues)
	}
	out := make([]profileColumn, len(names))
	for j, name := range names {
		out[j] = profileColumn{c.name + "=" + name, make([]float64, len(c.words))}
	}
	for i, w := range c.words {
		if w >= 0 {
			out[bucket[w]].values[i] = 1
		}
	}
	return slices.DeleteFunc(out, func(f profileColumn) bool { return slices.Min(f.values) == slices.Max(f.values) })
}

// fields are the columns of a table, those of no two values left out.
func (t *columnTable) fields() []Field {
	var out []Field
	for _, c := range t.columns {
		f := c.field()
		if slices.Min(f.Values) < slices.Max(f.Values) {
			out = append(out, f)
		}
	}
	return out
}

// field has a value for each word, in their order as text, or for each bin of numbers, and one more for what is missing.
func (c *tableColumn) field() Field {
	if c.words == nil {
		return c.bins()
	}
	f := Field{Name: c.name, Values: make([]int32, len(c.words))}
	sorted := slices.Sorted(slices.Values(c.values))
	many := len(sorted) > mostWords
	f.Size = min(len(sorted), mostWords) + 1
	for i, w := range c.words {
		switch {
		case w < 0:
			f.Values[i] = int32(f.Size - 1)
		case many:
			f.Values[i] = hashed(c.name, c.values[w], mostWords)
		default:
			at, _ := slices.BinarySearch(sorted, c.values[w])
			f.Values[i] = int32(at)
		}
	}
	return f
}

// bins cuts numbers where as many are below as above, and so on: equal numbers are in one bin.
func (c *tableColumn) bins() Field {
	sorted := slices.DeleteFunc(slices.Clone(c.numbers), math.IsNaN)
	slices.Sort(sorted)
	var ends []float64 // the largest number of each bin but the last
	for k := 1; k < numberBins && len(sorted) > 0; k++ {
		if v := sorted[(len(sorted)-1)*k/numberBins]; (len(ends) == 0 || v > ends[len(ends)-1]) && v < sorted[len(sorted)-1] {
			ends = append(ends, v)
		}
	}
	f := Field{Name: c.name, Size: len(ends) + 2, Values: make([]int32, len(c.numbers))}
	for i, v := range c.numbers {
		if math.IsNaN(v) {
			f.Values[i] = int32(f.Size - 1)
			continue
		}
		at, _ := slices.BinarySearch(ends, v)
		f.Values[i] = int32(at)
	}
	return f
}

// mostWords is how many values a field of words may have before they are hashed into as many.
const mostWords = 1 << 16

const (

	// numberBins is how many values a field of numbers has at the most, about as many users in each.
	numberBins = 32
)
