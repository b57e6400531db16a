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
	"github.com/fedsim/fedsim/eval"
)

// Names of columns. A file needs one of predictedColumns or orderColumns.
var (
	// predictedColumns hold predictions of ratings, the first that is there.
	predictedColumns = []string{"predicted", "prediction", scoreColumn}
	// orderColumns order a list, the first that is there: places, 1 for the best, or numbers, the highest for the best.
	orderColumns = append([]string{rankColumn, scoreColumn}, predictedColumns...)
)

const rankColumn, scoreColumn = "rank", "score"

// OpenOutside reads what a method outside fedsim predicts on the test of a run. The file is a table
// with a header, in any form of the data's. Its columns are user, item and any of predicted (or
// prediction), score and rank. Ids are as in the run's data. Errors are of predicted, else of score, on
// the scale of the data. A list is in the order of rank, else of score, else of predicted.
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
	seen := make(map[[2]int32]float64) // what is predicted or, without predictions, the order
	var at columns
	err := read.Table(ctx, o.path, []string{"user", "item"}, func(header []string) (func([][]byte) error, error) {
		var wrong error
		at, wrong = columnsOf(header)
		return func(row [][]byte) error {
			order, err := number(row[at.order])
			v := order
			if err == nil && at.predicted >= 0 {
				v, err = number(row[at.predicted])
			}
			if err != nil {
				return err
			}
			u, known := users[string(row[at.user])]
			j, rated := items[string(row[at.item])]
			if !known || !rated {
				o.Passed++
				return nil
			}
			if _, twice := seen[[2]int32{u, j}]; twice {
				return fmt.Errorf("user %s and item %s are there twice", row[at.user], row[at.item])
			}
			seen[[2]int32{u, j}] = v
			if at.ranks {
				order = -order
			}
			lists[u] = append(lists[u], entry{j, order})
			return nil
		}, wrong
	})
	if err != nil {
		return err
	}
	if len(seen) == 0 {
		return fmt.Errorf("%s: no row names a user and an item of the run's data; ids are as in the data, such as user %s and item %s", o.path, o.of.Data.UserIDs[0], o.of.Data.ItemIDs[0])
	}
	if at.predicted >= 0 {
		o.predicted = seen
	}
	o.lists = make(map[int32][]int32, len(lists))
	for u, list := range lists {
		slices.SortFunc(list, func(a, b entry) int {
			return cmp.Or(cmp.Compare(b.order, a.order), cmp.Compare(eval.Draw(int(u), a.item), eval.Draw(int(u), b.item)))
		})
		for _, e := range list {
			o.lists[u] = append(o.lists[u], e.item)
		}
	}
	return nil
}

// number reads a finite number.
func number(text []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return v, nil
}

// columns holds the places of columns in a header.
type columns struct {
	user, item       int
	predicted, order int  // predicted is -1 without predictions
	ranks            bool // the order is of ranks: the lowest is the best
}

func columnsOf(head []string) (at columns, err error) {
	if len(head) == 0 {
		return at, errors.New("the file is empty; a header with user, item and predicted is needed")
	}
	var names []string
	for _, h := range head {
		names = append(names, strings.ToLower(strings.TrimSpace(h)))
	}
	first := func(of []string) int {
		for _, name := range of {
			if i := slices.Index(names, name); i >= 0 {
				return i
			}
		}
		return -1
	}
	at = columns{user: first([]string{"user"}), item: first([]string{"item"}), predicted: first(predictedColumns), order: first(orderColumns)}
	if min(at.user, at.item, at.order) < 0 {
		return at, fmt.Errorf("the header has %s; needed are user, item and one of %s, %s", strings.Join(names, ", "), strings.Join(predictedColumns, ", "), rankColumn)
	}
	at.ranks = names[at.order] == rankColumn
	return at, nil
}

// indexOf returns the place of each id.
func indexOf(ids []string) map[string]int32 {
	at := make(map[string]int32, len(ids))
	for i, id := range ids {
		at[id] = int32(i)
	}
	return at
}
