package dataset_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fedsim/fedsim/dataset/read"
)

func ExampleSet_Info() {
	set, err := read.Open(context.Background(), "synthetic:ml-1m", read.Options{})
	if err != nil {
		log.Fatal(err)
	}
	info := set.Info()
	fmt.Printf("mean %.2f, deviation %.2f, density %.3f\n", info.Mean, info.Std, info.Density)
	fmt.Printf("a tenth of the items has %.0f%% of the ratings\n", 100*info.Top10Percent)
	// Output:
	// mean 3.58, deviation 1.12, density 0.045
	// a tenth of the items has 44% of the ratings
}
