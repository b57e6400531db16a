// Own-ratings trains a built-in algorithm on ratings that the program has in memory, and recommends items to a user.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fedsim/fedsim"
)

func main() {
	result, err := fedsim.Run(context.Background(), fedsim.Options{
		Algorithm: "ssp-c", Epsilon: 5, RatingMin: 1, RatingMax: 5, Ratings: ratings(),
	})
	if err != nil {
		log.Fatal(err)
	}
	bias, _ := result.Baselines.Of("private_item_bias")
	fmt.Printf("RMSE %.3f, item biases alone %.3f\n%s\n", result.RMSE(), bias, result.Privacy)
	list, err := result.Recommend("user 7", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("user 7 may like", list)
}

// ratings stands for your ratings: 400 users, 60 items, and a taste that half of the users share.
func ratings() (list []fedsim.Rating) {
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
