package algorithm_test

import (
	"fmt"
	"log"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// An algorithm describes itself without any data.
func ExampleFind() {
	about := algorithm.Find("ssp-c").About()
	fmt.Println("clients:", about.Clients)
	fmt.Println("adds noise:", about.Private)
	fmt.Println("protects a", about.Units[0])
	fmt.Println("has the key rounds:", about.Has(algorithm.Rounds.Key))
	// Output:
	// clients: users
	// adds noise: true
	// protects a user
	// has the key rounds: true
}

// Settings come as texts, and are read by typed keys.
func ExampleOf() {
	c, err := config.Config{}.WithMap(map[string]string{"algorithm": "lfl-sgdmf", "epsilon": "3", "rounds": "20"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(algorithm.Of(c).About().Name, algorithm.Epsilon.Value(c), algorithm.Rounds.Int(c))
	_, err = config.Config{}.WithMap(map[string]string{"epsilon": "-3"})
	fmt.Println(err)
	// Output:
	// lfl-sgdmf 3 20
	// epsilon: -3 is not a privacy budget; it must be positive, or inf for no noise
}
