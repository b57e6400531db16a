package dataset_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fedsim/fedsim/dataset"
)

// Open a MovieLens folder and look at a user's ratings.
func ExampleOpen() {
	set, err := dataset.Open(context.Background(), "testdata/good/movielens", dataset.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d users, %d items, %d ratings from %v to %v\n", set.Users, set.Items, set.Len(), set.Min, set.Max)
	items, values := set.ByUser().Row(0)
	for k, item := range items {
		fmt.Printf("user %s: %v stars for %s\n", set.UserIDs[0], values[k], set.Titles[item])
	}
	// Output:
	// 3 users, 4 items, 4 ratings from 0.5 to 5
	// user 1: 0.5 stars for American President, The (1995)
	// user 1: 4 stars for 11'09"01 - September 11 (2002)
}

// Errors in a file say where they are.
func ExampleOpen_badFile() {
	_, err := dataset.Open(context.Background(), "testdata/bad/duplicate.csv", dataset.Options{})
	fmt.Println(err)
	var at *dataset.FileError
	if errors.As(err, &at) {
		fmt.Println("line", at.Line)
	}
	// Output:
	// testdata/bad/duplicate.csv:6: userId "3" has rated movieId "7" on line 5 already; keep one of the two
	// line 6
}

// A scale other than the format's own is stated, never guessed from the ratings.
func ExampleOpen_range() {
	set, err := dataset.Open(context.Background(), "testdata/good/ten-stars.csv", dataset.Options{Min: new(1.), Max: new(10.)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Mean(), "of", set.Max)
	// Output: 6 of 10
}

// Split off a tenth for the test. The synthetic sets need no file.
func ExampleSet_Split() {
	set, err := dataset.Open(context.Background(), "synthetic:small", dataset.Options{})
	if err != nil {
		log.Fatal(err)
	}
	split, err := set.Split(dataset.SplitParams{Test: 0.1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(split.Train.Len(), split.Validation.Len(), split.Test.Len())
	// Output: 18015 0 1985
}

func ExampleSet_Info() {
	set, err := dataset.Open(context.Background(), "synthetic:ml-1m", dataset.Options{})
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

func ExampleList() {
	for _, e := range dataset.List() {
		fmt.Printf("%-18s %8d ratings, %v to %v\n", e.Name, e.Ratings, e.Min, e.Max)
	}
	// Output:
	// synthetic:small       20000 ratings, 0.5 to 5
	// synthetic:ml-1m     1000209 ratings, 1 to 5
	// synthetic:ml-10m   10000054 ratings, 0.5 to 5
	// MovieLens CSV             0 ratings, 0.5 to 5
	// generic CSV               0 ratings, 0 to 5
}
