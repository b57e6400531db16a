package results_test

import (
	"fmt"
	"os"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// Each row of a matrix that a run leaves has the id of its user or item.
func ExampleReadEmbeddings() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	items := model.NewEmbeddings("items", model.Wrap(2, 3, []float64{1, 2, 3, 4, 5, 6}), []string{"Alien", "Brazil"})
	if err = results.WriteEmbeddings(dir, items); err != nil {
		fmt.Println(err)
		return
	}
	list, err := results.ReadEmbeddings(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, x := range list {
		for i, id := range x.IDs {
			fmt.Println(x.Name, id, x.Row(i))
		}
	}
	// Output:
	// items Alien [1 2 3]
	// items Brazil [4 5 6]
}
