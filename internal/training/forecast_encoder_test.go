package training_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// By (9) of the am-ssp paper from the ratings themselves: D·d² for each of three sums and c + d²
// for each item of an epoch, over c·β. β = Σ D/B(1 - (1 - p)^B), with a B that gives as many
// batches an epoch. Features of synthetic:small are genres and a year. c counts the features of its
// items and places of their own, d each, since embeddings are added up.
func TestEncoderCost(t *testing.T) {
	e, f := planned(t, "algorithm=am-ssp-ids rounds=3 encoder.steps=20 encoder.batch=100 rank=4 epsilon=200")
	const steps, batches, d = 20, 4, 4.
	var ratings, items float64 = float64(e.Split.Train.Len()), 400
	counts := make([]float64, int(items))
	for _, j := range e.Split.Train.Item {
		counts[j]++
	}
	var visits, values float64
	for _, n := range counts {
		visits += batches * (1 - math.Pow(1-n/ratings, ratings/batches))
	}
	for _, c := range e.Features.Categories {
		values += float64(len(c.Value))
	}
	pass, epochs := d*(values/items+1), 3*steps/float64(batches)
	want := (3*ratings*d*d + epochs*items*(pass+d*d)) / (pass * epochs * visits)
	c := f.Encoder
	if c == nil || c.Batch != 100 || c.Epochs != epochs || math.Abs(c.Pass-pass) > 1e-9 || math.Abs(c.Visits-visits/items) > 1e-9 || math.Abs(c.Ratio/want-1) > 1e-9 {
		t.Fatalf("%+v; want a ratio of %v, passes of %v, %v epochs, %v visits", c, want, pass, epochs, visits/items)
	}
	var out bytes.Buffer
	if err := f.Print(&out); err != nil || !strings.Contains(out.String(), "encoder: 15 epochs in batches of 100 items cost ") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if _, f = planned(t, "algorithm=ssp-c epsilon=200"); f.Encoder != nil {
		t.Errorf("%+v of an encoder that is solved for", f.Encoder)
	}
}
