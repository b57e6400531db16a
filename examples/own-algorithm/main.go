// Own-algorithm runs an own algorithm, package itemmean, beside the baselines.
package main

import (
	"context"
	"log"
	"os"

	"github.com/fedsim/fedsim"
	_ "github.com/fedsim/fedsim/examples/own-algorithm/itemmean"
)

func main() {
	result, err := fedsim.Run(context.Background(), fedsim.Options{Settings: map[string]string{"algorithm": "item-mean", "data": "synthetic:small"}})
	if err == nil {
		err = result.Print(os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}
