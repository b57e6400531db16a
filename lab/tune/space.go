// Package tune searches the settings of an algorithm by the validation part of a split: by plain
// search, or by private selection, whose ε covers the search.
package tune

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/entropy"
)

// dimension is a key that is searched over: a range, or words.
type dimension struct {
	key       *config.Key
	text      string // its values, as they were given
	low, high float64
	log       bool // draws are uniform in the logarithm
	words     []string
}

// Space holds the keys that are searched over.
type Space []dimension

// ParseSpace reads texts such as rank=2..20, ials.ridge=log:0.001..0.1 and clipping=embedding,both.
func ParseSpace(texts []string) (Space, error) {
	var s Space
	for _, text := range texts {
		d, err := parseDimension(text)
		if err != nil {
			return nil, err
		}
		for _, other := range s {
			if other.key == d.key {
				return nil, config.Errorf("--over %s: %s is searched over twice", text, d.key.Name)
			}
		}
		s = append(s, d)
	}
	if len(s) == 0 {
		return nil, config.Errorf("nothing is searched over; say --over KEY=LOW..HIGH or --over KEY=A,B,C")
	}
	return s, nil
}

func parseDimension(text string) (dimension, error) {
	name, values, _ := strings.Cut(text, "=")
	d := dimension{key: config.Find(name), text: values}
	if d.key == nil {
		return d, config.Errorf("--over %s: unknown key %q; %s", text, name, config.Near(name))
	}
	ranged, log := strings.CutPrefix(values, "log:")
	low, high, isRange := strings.Cut(ranged, "..")
	if !isRange {
		if d.words = strings.Split(values, ","); len(d.words) < 2 {
			return d, config.Errorf("--over %s: one value is no choice; give LOW..HIGH, log:LOW..HIGH or A,B,C", text)
		}
		return d, nil
	}
	var err, err2 error
	d.low, err = strconv.ParseFloat(low, 64)
	d.high, err2 = strconv.ParseFloat(high, 64)
	d.log = log
	if err != nil || err2 != nil || !(d.low < d.high) || math.IsInf(d.high-d.low, 0) || log && d.low <= 0 {
		return d, config.Errorf("--over %s: a range is of two numbers, the smaller first, and above 0 with log:", text)
	}
	return d, nil
}

// at returns the value for a uniform u of [0, 1).
func (d dimension) at(u float64) string {
	if d.words != nil {
		return d.words[int(u*float64(len(d.words)))]
	}
	if d.key.Kind == config.Whole {
		if d.log {
			return strconv.FormatFloat(min(d.high, math.Floor(math.Exp(math.Log(d.low)+u*(math.Log(d.high+1)-math.Log(d.low))))), 'f', -1, 64)
		}
		return strconv.FormatFloat(d.low+math.Floor(u*(d.high-d.low+1)), 'f', -1, 64)
	}
	x := d.low + u*(d.high-d.low)
	if d.log {
		x = math.Exp(math.Log(d.low) + u*(math.Log(d.high)-math.Log(d.low)))
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// Candidates returns n settings. They are drawn at random, or cover the space evenly (Halton's sequence, scrambled
// as Owen does). They follow from the seed alone, and are public.
func (s Space) Candidates(n int, even bool, seed uint64) [][]config.Setting {
	rng := entropy.Public(seed, "tune/candidates")
	points := mat.NewDense(n, len(s), nil)
	if even {
		samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(len(s), nil), Src: rng}.Sample(points)
	} else {
		points.Apply(func(int, int, float64) float64 { return rng.Float64() }, points)
	}
	list := make([][]config.Setting, n)
	for i := range list {
		for k, d := range s {
			u := min(points.At(i, k), math.Nextafter(1, 0))
			list[i] = append(list[i], config.Setting{Key: d.key.Name, Value: d.at(u), Origin: fmt.Sprintf("candidate %d", i+1)})
		}
	}
	return list
}
