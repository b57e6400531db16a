package encoder_test

import (
	"fmt"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/protocol"
)

// towards pulls the embedding of each item of rank 1 to a place of its own: A_j = 1 and
// b_j is the place.
type towards []float64

func (b towards) Gradient(j int, v, g []float64) float64 {
	g[0] = v[0] - b[j]
	return v[0]*v[0]/2 - b[j]*v[0]
}

// Two films of one genre share its embedding, and end at the mean of what is said of
// them; a third of both genres is between them.
func Example() {
	features := &dataset.ItemFeatures{Items: 4, Categories: []dataset.Category{{
		Name: "genres", Values: []string{"Comedy", "Drama"},
		Start: []int32{0, 1, 2, 3, 5}, Value: []int32{0, 0, 1, 0, 1}, Weight: []float64{1, 1, 1, 1, 1},
	}}}
	e, err := encoder.New(features, 4, 1, encoder.Settings{
		StartNorm: 1, Optimiser: encoder.SGD, Rate: 1, Steps: 200,
	}, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err = e.Fit(towards{2, 4, 9, 6}, 1, encoder.Slice{Of: 1}, protocol.Workers(1)); err != nil {
		fmt.Println(err)
		return
	}
	v := make([]float64, 4)
	e.Embed(v, protocol.Workers(1))
	fmt.Printf("%.3f\n", v)
	// Output: [3.000 3.000 9.000 6.000]
}
