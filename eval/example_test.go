package eval_test

import (
	"fmt"

	"github.com/fedsim/fedsim/eval"
)

// The user's relevant items are 3, 9 and 12. Two of them are on the list, at places 2 and 3.
func ExampleListMetric() {
	wanted, list := []int32{3, 9, 12}, []int32{7, 3, 9, 1}
	for _, name := range []string{"recall@3", "precision@4", "mrr@3", "hit@1"} {
		of, k, err := eval.ListMetric(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s = %.3f over the first %d\n", name, of(wanted, list), k)
	}
	// Output:
	// recall@3 = 0.667 over the first 3
	// precision@4 = 0.500 over the first 4
	// mrr@3 = 0.500 over the first 3
	// hit@1 = 0.000 over the first 1
}
