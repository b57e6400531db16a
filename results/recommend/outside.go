package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset/read"
)

// valueColumns holds the names of a column with predictions, and rankColumn the name of one with
// places in a list, 1 for the best.
var valueColumns = []string{"predicted", "prediction", "score"}

const rankColumn = "rank"

// OpenOutside reads what a method outside fedsim predicts on the test of a run. The file is a table
// with a header, in any form of the data's. Its columns are user, item and predicted
// (or prediction, or score) or rank. Ids are as in the run's data. Values are on the scale of the
// data; as a list, the highest comes first.
func (t *Tested) OpenOutside(ctx context.Context, path string) (*Outside, error) {
	o := &Outside{of: t, path: path}
	return o, o.read(ctx)
}

// entry is an item of a user's list; the largest order comes first.
type entry struct {
	item  int32
	order float64
}

func (o *Outside) read(ctx context.Context) error {
	users, items := indexOf(o.of.Data.UserIDs), indexOf(o.of.Data.ItemIDs)
	lists := make(map[int32][]entry)
	seen := make(map[[2]int32]float64)
	var ranks bool
	err := read.Table(ctx, o.path, []string{"user", "item"}, func(header []string) (func([][]byte) error, error) {
		at, isRank, wrong := columnsOf(header)
		ranks = isRank
		return func(row [][]byte) error {
			v, err := strconv.ParseFloat(string(row[at[2]]), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("%q is not a number", row[at[2]])
			}
			u, known := users[string(row[at[0]])]
			j, rated := items[string(row[at[1]])]
			if !known || !rated {
				o.Passed++
				return nil
			}
			if _, twice := seen[[2]int32{u, j}]; twice {
				return fmt.Errorf("user %s and item %s are there twice", row[at[0]], row[at[1]])
			}
			seen[[2]int32{u, j}] = v
			if ranks {
				v = -v
			}
			lists[u] = append(lists[u], entry{j, v})
			return nil
		}, wrong
	})
	if err != nil {
		return err
	}
	if len(seen) == 0 {
		return fmt.Errorf("%s: no row names a user and an item of the run's data; ids are as in the data, such as user %s and item %s", o.path, o.of.Data.UserIDs[0], o.of.Data.ItemIDs[0])
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

// columnsOf returns the places of user, item and value in a header, and whether the value is a rank.
func columnsOf(head []string) (at [3]int, ranks bool, err error) {
	if len(head) == 0 {
		return at, false, errors.New("the file is empty; a header with user, item and predicted is needed")
	}
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
