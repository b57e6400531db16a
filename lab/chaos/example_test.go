package chaos_test

import (
	"context"
	"fmt"

	"github.com/fedsim/fedsim/lab/chaos"
)

// Twenty schedules in active mode: whatever happens before, all end in a sum.
func ExampleRun() {
	report, err := chaos.Run(context.Background(), chaos.Config{Schedules: 5, Seed: 1, Modes: chaos.Active, Workers: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d of %d, %d violations\n", report.Healed, report.Schedules, len(report.Violations))
	// Output: 5 of 5, 0 violations
}
