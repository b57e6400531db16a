package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fedsim/fedsim"
)

func main() {
	result, err := fedsim.Run(context.Background(), fedsim.Options{Algorithm: "ssp-c", Epsilon: 20, RatingMin: 1, RatingMax: 5, Ratings: ratings()})
	if err != nil {
		log.Fatal(err)
	}
	list, err := result.Recommend("user 7", 3)
	fmt.Println(list, err)
}
