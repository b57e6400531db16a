package split_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
)

// Split off a tenth for the test. The synthetic sets need no file.
func ExampleDivide() {
	set, err := read.Open(context.Background(), "synthetic:small", read.Options{})
	if err != nil {
		log.Fatal(err)
	}
	parts, err := split.Divide(set, split.Params{Test: 0.1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(parts.Train.Len(), parts.Validation.Len(), parts.Test.Len())
	// Output: 18015 0 1985
}

// Deal the films of a synthetic set to as many parties as it has genres, and to three.
func ExamplePartitionItems() {
	set, err := read.Open(context.Background(), "synthetic:small", read.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, parties := range []int{18, 3, 19} {
		p, err := split.PartitionItems(set, split.CategoryPartition, parties, 1)
		if err != nil {
			fmt.Println(errors.Is(err, split.ErrParties))
			continue
		}
		var sizes []int
		for _, items := range p {
			sizes = append(sizes, len(items))
		}
		fmt.Println(sizes)
	}
	// Output:
	// [53 51 37 29 28 28 27 24 23 19 15 14 12 12 9 8 6 5]
	// [135 133 132]
	// true
}
