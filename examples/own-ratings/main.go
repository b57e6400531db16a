// Own-ratings trains a built-in algorithm on ratings that the program has in memory.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fedsim/fedsim"
)

func main() {
	result, err := fedsim.Run(context.Background(), fedsim.Options{
		Settings: map[string]string{"algorithm": "ssp-c", "epsilon": "5", "rating-min": "1", "rating-max": "5"},
		Ratings:  ratings(),
	})
	if err != nil {
		log.Fatal(err)
	}
	bias, _ := result.Baselines.Of("private_item_bias")
	fmt.Printf("RMSE %.3f, item biases alone %.3f\n%s\n", result.RMSE(), bias, result.Privacy)
}

// ratings stands for your own: 400 users, 60 items, and a taste that half of the users share.
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
