package fedsim_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/fedsim/fedsim"
)

// taste is the ratings of 400 users for 60 items: half of the users share a taste.
func taste() (list []fedsim.Rating) {
	for u := range 400 {
		for j := range 60 {
			if (u*7+j*13)%5 < 2 {
				stars := 2 + (u+j)%2*2 + (u*j)%2
				list = append(list, fedsim.Rating{User: fmt.Sprint("user ", u), Item: fmt.Sprint("item ", j), Value: float64(stars)})
			}
		}
	}
	return list
}

// A program trains a built-in algorithm on ratings in memory, and asks for a list of recommendations.
func ExampleRun() {
	result, err := fedsim.Run(context.Background(), fedsim.Options{
		Algorithm: "ssp-c", Epsilon: 5, RatingMin: 1, RatingMax: 5, Ratings: taste(),
	})
	if err != nil {
		log.Fatal(err)
	}
	list, err := result.Recommend("user 7", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list), "items, the first with more than 2 stars:", list[0].Predicted > 2)
	fmt.Println("better than one star off:", result.RMSE() < 1)
	fmt.Println(result.Privacy)
	// Output:
	// 3 items, the first with more than 2 stars: true
	// better than one star off: true
	// (epsilon=5, delta=1e-05, unit=user, relation=zero-out, accountant=gdp-skellam, sampling=none, noise=skellam)
}

// Every setting can be given by its key, too. An infinite ε trains without noise.
func ExampleRun_settings() {
	result, err := fedsim.Run(context.Background(), fedsim.Options{
		Epsilon: math.Inf(1), Seed: 3,
		Settings: map[string]string{"data": "synthetic:small", "algorithm": "lfl-sgdmf", "rounds": "5", "dropout": "0.2", "baselines": "quick"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Algorithm, len(result.Metrics), "rounds,", result.Data.Users, "users")
	// Output:
	// lfl-sgdmf 5 rounds, 600 users
}

// A plan says before anything runs what a run would release and cost.
func ExamplePlan() {
	plan, err := fedsim.Plan(context.Background(), fedsim.Options{Algorithm: "private-item-bias", Epsilon: 1, Settings: map[string]string{"data": "synthetic:small"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range plan.Releases {
		fmt.Println(r.Name)
	}
	// Output:
	// mean
	// bias
	// weight-counts
	// bias
	// weight-counts
}
