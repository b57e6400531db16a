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
	// testdata/bad/duplicate.csv:6: userId "3" has rated movieId "7" on line 5 already; keep one of the two, or say what duplicates are
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
		fmt.Printf("%-16s %8d ratings, %v to %v\n", e.Name, e.Ratings, e.Min, e.Max)
	}
	// Output:
	// synthetic:small     20000 ratings, 0.5 to 5
	// synthetic:ml-1m   1000209 ratings, 1 to 5
	// synthetic:ml-10m 10000054 ratings, 0.5 to 5
	// synthetic:ml-20m 20000263 ratings, 0.5 to 5
	// synthetic:ml-25m 25000095 ratings, 0.5 to 5
	// synthetic:libimseti 17359346 ratings, 1 to 10
	// synthetic:libimseti-tenth  1735935 ratings, 1 to 10
	// synthetic:msd    33633450 ratings, 1 to 10000
	// ml-100k            100000 ratings, 1 to 5
	// ml-1m             1000209 ratings, 1 to 5
	// ml-10m           10000054 ratings, 0.5 to 5
	// ml-20m           20000263 ratings, 0.5 to 5
	// ml-25m           25000095 ratings, 0.5 to 5
	// ml-latest-small    100836 ratings, 0.5 to 5
	// libimseti        17359346 ratings, 1 to 10
	// MovieLens CSV           0 ratings, 0.5 to 5
	// MovieLens 10M           0 ratings, 0.5 to 5
	// MovieLens 1M            0 ratings, 1 to 5
	// MovieLens 100K          0 ratings, 1 to 5
	// LibimSeTi               0 ratings, 1 to 10
	// Million Song Dataset        0 ratings, 1 to 10000
	// generic CSV             0 ratings, 0 to 5
}

// Deal the films of a synthetic set to as many parties as it has genres, and to three.
func ExampleSet_PartitionItems() {
	set, err := dataset.Open(context.Background(), "synthetic:small", dataset.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, parties := range []int{18, 3, 19} {
		p, err := set.PartitionItems(dataset.CategoryPartition, parties, 1)
		if err != nil {
			fmt.Println(errors.Is(err, dataset.ErrParties))
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

// A folder that bears the name of MovieLens 1M, with next to nothing in it.
func ExampleVerify() {
	v, err := dataset.Verify(context.Background(), "testdata/good/ml-1m", dataset.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range v.Checks {
		fmt.Printf("%s: %s, want %s\n", c.What, c.Got, c.Want)
	}
	fmt.Println(errors.Is(v.Err(), dataset.ErrMismatch))
	// Output:
	// ratings: 3, want 1000209
	// users: 2, want 6040
	// items: 3, want 3883
	// rated items: 2, want 3706
	// true
}
