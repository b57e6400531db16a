package results

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// valueColumns holds the names of a column with predictions, and rankColumn the name of one with
// places in a list, 1 for the best.
var valueColumns = []string{"predicted", "prediction", "score"}

const rankColumn = "rank"

// OpenOutside reads what a method outside fedsim predicts on the test of a run. The file is a table
// with a header, separated by commas, semicolons or tabs. Its columns are user, item and predicted
// (or prediction, or score) or rank. Ids are as in the run's data. Values are on the scale of the
// data; as a list, the highest comes first.
func (t *Tested) OpenOutside(path string) (*Outside, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	o := &Outside{of: t, path: path}
	if err = o.read(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

// entry is an item of a user's list; the largest order comes first.
type entry struct {
	item  int32
	order float64
}

func (o *Outside) read(r io.Reader) error {
	in, err := tableReader(r)
	if err != nil {
		return err
	}
	head, err := in.Read()
	if err != nil {
		return errors.New("the file is empty; a header with user, item and predicted is needed")
	}
	at, ranks, err := columnsOf(head)
	if err != nil {
		return err
	}
	users, items := indexOf(o.of.Data.UserIDs), indexOf(o.of.Data.ItemIDs)
	lists := make(map[int32][]entry)
	seen := make(map[[2]int32]float64)
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(row[at[2]]), 64)
		line, _ := in.FieldPos(0)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("line %d: %q is not a number", line, row[at[2]])
		}
		u, known := users[strings.TrimSpace(row[at[0]])]
		j, rated := items[strings.TrimSpace(row[at[1]])]
		if !known || !rated {
			o.Passed++
			continue
		}
		if _, twice := seen[[2]int32{u, j}]; twice {
			return fmt.Errorf("line %d: user %s and item %s are there twice", line, row[at[0]], row[at[1]])
		}
		seen[[2]int32{u, j}] = v
		if ranks {
			v = -v
		}
		lists[u] = append(lists[u], entry{j, v})
	}
	if len(seen) == 0 {
		return fmt.Errorf("no row names a user and an item of the run's data; ids are as in the data, such as user %s and item %s", o.of.Data.UserIDs[0], o.of.Data.ItemIDs[0])
	}
	if !ranks {
		o.predicted = seen
	}
	o.lists = make(map[int32][]int32, len(lists))
	for u, list := range lists {
		slices.SortFunc(list, func(a, b entry) int { return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(a.item, b.item)) })
		for _, e := range list {
			o.lists[u] = append(o.lists[u], e.item)
		}
	}
	return nil
}

// tableReader returns a reader of a table whose first line has its separator.
func tableReader(r io.Reader) (*csv.Reader, error) {
	b := bufio.NewReader(r)
	start, err := b.Peek(3)
	if err == nil && string(start) == "\ufeff" {
		_, err = b.Discard(3)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first, _ := b.Peek(4096)
	line, _, _ := strings.Cut(string(first), "\n")
	in := csv.NewReader(b)
	in.ReuseRecord = true
	for _, separator := range []rune{',', ';', '\t'} {
		if strings.ContainsRune(line, separator) {
			in.Comma = separator
			break
		}
	}
	return in, nil
}

// columnsOf returns the places of user, item and value in a header, and whether the value is a rank.
func columnsOf(head []string) (at [3]int, ranks bool, err error) {
	var names []string
	for _, h := range head {
		names = append(names, strings.ToLower(strings.TrimSpace(h)))
	}
	at[0], at[1], at[2] = slices.Index(names, "user"), slices.Index(names, "item"), -1
	for _, name := range valueColumns {
		if at[2] < 0 {
			at[2] = slices.Index(names, name)
		}
	}
	if at[2] < 0 {
		at[2], ranks = slices.Index(names, rankColumn), true
	}
	if min(at[0], at[1], at[2]) < 0 {
		return at, ranks, fmt.Errorf("the header has %s; needed are user, item and one of %s, %s", strings.Join(names, ", "), strings.Join(valueColumns, ", "), rankColumn)
	}
	return at, ranks, nil
}

// indexOf returns the place of each id.
func indexOf(ids []string) map[string]int32 {
	at := make(map[string]int32, len(ids))
	for i, id := range ids {
		at[id] = int32(i)
	}
	return at
}
