package training_test

import (
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// TestBucketsOfPopularity checks that eval.buckets divides the items. The default and the maximum are constants of package eval.
func TestBucketsOfPopularity(t *testing.T) {
	for settings, want := range map[string]int{"": eval.PopularityBuckets, "eval.buckets=4": 4, "eval.buckets=10": eval.MostBuckets} {
		e := opened.Experiment(t, "data=synthetic:small algorithm=private-item-bias "+settings)
		if got := e.Test.Slices(eval.ItemBias(e.Split.Train, protocol.Workers(1)), protocol.Workers(1)); len(got) != want || got[0].Items != 400/want {
			t.Errorf("%q: %d buckets, the first of %d items", settings, len(got), got[0].Items)
		}
	}
	if got := algorithm.EvalBuckets.Int(opened.Experiment(t, "data=synthetic:small").Config); got != eval.PopularityBuckets {
		t.Errorf("by itself there are %d buckets", got)
	}
}
