package fedsim_test

import (
	"testing"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/internal/effort"
)

// A run without settings is better than biases learned without any privacy, on the data that
// it has without settings: what the quick start promises.
func TestDefaultRunIsWorthIt(t *testing.T) {
	effort.LongOnly(t, "a million ratings take seconds")
	r, err := fedsim.Run(t.Context(), fedsim.Options{Settings: map[string]string{"baselines": "quick"}})
	if err != nil {
		t.Fatal(err)
	}
	biases, ok := r.Baselines.Of("item_bias")
	if !ok || r.RMSE() >= biases || r.Privacy.Epsilon > 10 {
		t.Errorf("RMSE %v at epsilon %v; biases without privacy have %v", r.RMSE(), r.Privacy.Epsilon, biases)
	}
}
