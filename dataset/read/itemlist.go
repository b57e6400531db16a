package read

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// IDs reads a list of ids, one a line, by the rule of [dataset.ParseID]. An id that stands twice is an error, and so is a
// list without ids. A blank line before the last id is an error unless gaps allows it: where places in a list count, such
// a line would be a place.
func IDs(path string, gaps bool) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var ids []string
	lines := make(map[string]int)
	number, blank := 0, 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.Trim(line, " \t\r\n\ufeff")) == 0 {
			if blank == 0 {
				blank = number
			}
			continue
		}
		id, err := idtext.Parse(line)
		switch before := lines[string(id)]; {
		case err != nil:
			return nil, &dataset.FileError{File: path, Line: number, Err: fmt.Errorf("an id %w", err)}
		case blank > 0 && !gaps:
			return nil, &dataset.FileError{File: path, Line: blank, Err: fmt.Errorf("the line is empty; an id is needed on each")}
		case before > 0:
			return nil, &dataset.FileError{File: path, Line: number, Err: fmt.Errorf("the id %q stands on line %d already; keep one of the two", id, before)}
		}
		lines[string(id)] = number
		ids = append(ids, string(id))
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s holds no id; one a line is needed", path)
	}
	return ids, nil
}

// ListedItems reads a list of items, one id per line, and returns the items that the set has,
// ascending. It skips empty lines and ids that the set does not have. A list without any item of the
// set is an error, and so is a list that names an item twice.
func ListedItems(s *dataset.Set, path string) ([]int32, error) {
	ids, err := IDs(path, true)
	if err != nil {
		return nil, err
	}
	index := make(map[string]int32, len(s.ItemIDs))
	for j, id := range s.ItemIDs {
		index[id] = int32(j)
	}
	var items []int32
	for _, id := range ids {
		if j, known := index[id]; known {
			items = append(items, j)
		}
	}
	if items == nil {
		return nil, fmt.Errorf("%s: no line is the id of an item of %s", path, s.Name)
	}
	slices.Sort(items)
	return items, nil
}
