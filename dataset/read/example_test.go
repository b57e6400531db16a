package read_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
)

// Open a MovieLens folder and look at a user's ratings.
func ExampleOpen() {
	set, err := read.Open(context.Background(), "testdata/good/movielens", read.Options{})
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
	_, err := read.Open(context.Background(), "testdata/bad/duplicate.csv", read.Options{})
	fmt.Println(err)
	var at *dataset.FileError
	if errors.As(err, &at) {
		fmt.Println("line", at.Line)
	}
	// Output:
	// testdata/bad/duplicate.csv:6: userId "3" has rated movieId "7" on line 5 already; keep one of the two, or choose with --duplicates last
	// line 6
}

// A scale other than the format's own is stated, never guessed from the ratings.
func ExampleOpen_range() {
	set, err := read.Open(context.Background(), "testdata/good/ten-stars.csv", read.Options{Min: new(1.), Max: new(10.)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Mean(), "of", set.Max)
	// Output: 6 of 10
}

func ExampleList() {
	for _, e := range read.List() {
		fmt.Printf("%-16s %8d ratings, %v to %v\n", e.Name, e.Ratings, e.Min, e.Max)
	}
	// Output:
	// synthetic:small     20000 ratings, 0.5 to 5
	// synthetic:moving    40000 ratings, 0.5 to 5
	// synthetic:films    100836 ratings, 0.5 to 5
	// synthetic:eras     100836 ratings, 0.5 to 5
	// synthetic:eras-1m  1000209 ratings, 0.5 to 5
	// synthetic:places  1000000 ratings, 4 to 5
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

// A folder that bears the name of MovieLens 1M, with next to nothing in it.
func ExampleVerify() {
	v, err := read.Verify(context.Background(), "testdata/good/ml-1m", read.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range v.Checks {
		fmt.Printf("%s: %s, want %s\n", c.What, c.Got, c.Want)
	}
	fmt.Println(errors.Is(v.Err(), read.ErrMismatch))
	// Output:
	// ratings: 3, want 1000209
	// users: 2, want 6040
	// items: 3, want 3883
	// rated items: 2, want 3706
	// true
}
