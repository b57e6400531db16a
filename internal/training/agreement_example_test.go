package training_test

import (
	"fmt"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/protocol"
)

// A server publishes an experiment of eighty users and three items, without any user's
// ratings. A reader of the publication derives the rest again.
func Example_publish() {
	c, err := config.Resolve([]config.Setting{{Key: "algorithm", Value: "lfl-sgdmf"}, {Key: "epsilon", Value: "5"}, {Key: "tolerance", Value: "0.25"}})
	if err != nil {
		panic(err)
	}
	facts := agreement.Facts{Name: "three films", Min: 1, Max: 5, Users: 80, ItemIDs: []string{"a", "b", "c"}}
	public, err := agreement.Publish(c, facts, protocol.SessionID{1})
	if err != nil {
		panic(err)
	}
	text, err := public.Encode()
	if err != nil {
		panic(err)
	}

	arrived, err := agreement.Decode(text)
	if err != nil {
		panic(err)
	}
	e, err := agreement.Open(arrived)
	if err != nil {
		panic(err)
	}
	fmt.Println(e.Cohort.Required(), "of", e.Cohort.Clients, "clients must answer")
	fmt.Println(agreement.CheckPlan(e, e.Plan(1)))
	// Output:
	// 60 of 80 clients must answer
	// <nil>
}
