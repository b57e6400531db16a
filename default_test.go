package fedsim_test

import (
	"os"
	"testing"

	"github.com/fedsim/fedsim"
)

// A run without settings is better than biases learned without any privacy, on the data that
// it has without settings: what the quick start promises.
func TestDefaultRunIsWorthIt(t *testing.T) {
	if os.Getenv("FEDSIM_TEST_LONG") == "" {
		t.Skip("a million ratings take seconds: FEDSIM_TEST_LONG")
	}
	r, err := fedsim.Run(t.Context(), fedsim.Options{Settings: map[string]string{"baselines": "quick"}})
	if err != nil {
		t.Fatal(err)
	}
	biases, ok := r.Baselines.Of("item_bias")
	if !ok || r.RMSE() >= biases || r.Privacy.Epsilon > 10 {
		t.Errorf("RMSE %v at epsilon %v; biases without privacy have %v", r.RMSE(), r.Privacy.Epsilon, biases)
	}
}
