package secagg_test

import (
	"errors"
	"fmt"
	"log"
	"math"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

func ExampleGraphParams_Choose() {
	c, err := secagg.GraphParams{Cohort: protocol.Cohort{Clients: 1000, Tolerance: 0.1, Colluders: 0.1}, Rounds: 100}.Choose()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d neighbours, of whom %d restore a secret\n", c.Degree, c.Threshold)
	fmt.Printf("colluders restore one:   2^%.1f, limit 2^%.0f\n", math.Log2(c.Colluding.Achieved), math.Log2(c.Colluding.Limit))
	fmt.Printf("the graph is cut:        2^%.1f, limit 2^%.0f\n", math.Log2(c.Cut.Achieved), math.Log2(c.Cut.Limit))
	fmt.Printf("a sum cannot be opened:  2^%.1f, limit 2^%.0f\n", math.Log2(c.Starved.Achieved), math.Log2(c.Starved.Limit))
	// Output:
	// 54 neighbours, of whom 30 restore a secret
	// colluders restore one:   2^-41.6, limit 2^-41
	// the graph is cut:        2^-109.7, limit 2^-41
	// a sum cannot be opened:  2^-23.4, limit 2^-20
}

func ExampleGraphParams_ForRoster() {
	p := secagg.GraphParams{Cohort: protocol.Cohort{Clients: 1000, Tolerance: 0.3, Colluders: 0.2}, Rounds: 1}
	for _, n := range []int{1000, 850, 700, 699} {
		c, err := p.ForRoster(n)
		if errors.Is(err, secagg.ErrRoster) {
			fmt.Println(err)
			break
		}
		fmt.Printf("%4d clients: degree %d, threshold %d\n", n, c.Degree, c.Threshold)
	}
	// Output:
	// 1000 clients: degree 140, threshold 67
	//  850 clients: degree 100, threshold 59
	//  700 clients: degree 32, threshold 31
	// graph: 699 clients on the roster; the plan allows 700 to 1000: the plan does not allow a roster of this size
}

func ExampleGraphParams_Choose_refused() {
	_, err := secagg.GraphParams{Cohort: protocol.Cohort{Clients: 100, Tolerance: 0.5, Colluders: 0.1}, Mode: secagg.Active, Rounds: 1}.Choose()
	fmt.Println(err)
	// Output:
	// graph: of 100 clients, 50 may be lost and 10 may collude (active): even if all are neighbours, keeping colluders out takes a threshold of at least 55, and only 49 neighbours are certain to answer; at most 44 lost would do
}

func ExampleNewGraph() {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(i)
	}
	g, err := secagg.NewGraph(20, 6, seed)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Neighbours(0), g.Adjacent(0, 19), g.Adjacent(0, 18))
	// Output:
	// [1 4 10 12 13 19] true false
}
