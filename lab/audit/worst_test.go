package audit

import (
	"fmt"
	"math"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

// Worked by hand from the bounds.
func TestWorst(t *testing.T) {
	for _, c := range []struct {
		name string
		r    protocol.Release
		want []float64
	}{
		{"one coordinate", protocol.Release{Len: 3, L2: 5, MaxNonZero: 3}, []float64{5, 0, 0}},
		{"coordinates are bounded", protocol.Release{Len: 4, L2: 5, LInf: 3, MaxNonZero: 4}, []float64{3, 3, math.Sqrt(7), 0}},
		{"few may be other than zero", protocol.Release{Len: 4, L2: 5, LInf: 3, MaxNonZero: 2}, []float64{3, 3, 0, 0}},
		{"their sum is bounded", protocol.Release{Len: 4, L2: 5, L1: 4, LInf: 3, MaxNonZero: 4}, []float64{3, 1, 0, 0}},
	} {
		v := worst(c.r)
		for j, x := range v.Value {
			if math.Abs(x-c.want[j]) > 1e-12 {
				t.Errorf("%s: %v, want %v", c.name, v.Value, c.want)
				break
			}
		}
		c.r.Scale = 1000
		if _, err := client.Quantize(v, c.r); err != nil {
			t.Errorf("%s: the client would not send it: %v", c.name, err)
		}
	}
}

// Every seed can be audited, with users or organisations as clients. The federation has only 36 ratings, so a test
// part of a tenth is empty for some seeds.
func TestEverySeedCanBeAudited(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{"algorithm=lfl-sgdmf", "algorithm=vfl-sgdmf", "algorithm=private-item-bias split.validation=0.1"} {
		for seed := range 30 {
			if _, err := Open(opened.Settings(fmt.Sprintf("%s epsilon=inf seed=%d", settings, seed+1))); err != nil {
				t.Errorf("%s, seed %d: %v", settings, seed+1, err)
			}
		}
	}
}
