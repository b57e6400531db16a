package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fedsim/fedsim"
)

func main() {
	for _, most := range []float64{5, 50} { // two variants of one algorithm
		a, err := levels(most)
		if err != nil {
			log.Fatal(err)
		}
		result, err := fedsim.Run(context.Background(), fedsim.Options{Own: a, Epsilon: 10, Settings: map[string]string{"data": "synthetic:small"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %.3f\n", result.Algorithm, result.RMSE())
	}
}
