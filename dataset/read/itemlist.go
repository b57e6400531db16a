package read

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
)

// ListedItems reads a list of items, one id per line, and returns the items that the set has,
// ascending. It skips empty lines and ids that the set does not have. A list without any item of the
// set is an error, and so is a list that names an item twice.
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
