package read

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
)

// ListedItems reads a list of items, an id a line, and returns those that the set has, ascending. Empty lines are skipped, and so
// are ids that the set does not have; a list of which none is left is an error, and so is one that names an item twice.
func ListedItems(s *dataset.Set, path string) ([]int32, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	index := make(map[string]int32, len(s.ItemIDs))
	for j, id := range s.ItemIDs {
		index[id] = int32(j)
	}
	var items []int32
	for line := range strings.Lines(string(text)) {
		if j, known := index[strings.TrimSpace(line)]; known {
			items = append(items, j)
		}
	}
	slices.Sort(items)
	for i := range items {
		if i > 0 && items[i-1] == items[i] {
			return nil, fmt.Errorf("%s: item %q is listed twice", path, s.ItemIDs[items[i]])
		}
	}
	if items == nil {
		return nil, fmt.Errorf("%s: no line is the id of an item of %s", path, s.Name)
	}
	return items, nil
}
