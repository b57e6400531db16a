package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
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
	users, items := dataset.Places(o.of.Data.UserIDs), dataset.Places(o.of.Data.ItemIDs)
	lists := make(map[int32][]entry)
	seen := make(map[[2]int32]float64) // what is predicted or, without predictions, the order
	var at columns
	err := read.Table(ctx, o.path, []string{"user", "item"}, func(header [][]byte) (func([][]byte, int) error, error) {
		var wrong error
		at, wrong = columnsOf(header)
		return func(row [][]byte, _ int) error {
			order, err := number(row[at.order])
			v := order
			if err == nil && at.predicted >= 0 {
				v, err = number(row[at.predicted])
			}
			if err != nil {
				return err
			}
			user, noUser := dataset.ParseID(string(row[at.user]))
			item, noItem := dataset.ParseID(string(row[at.item]))
			if err = errors.Join(noUser, noItem); err != nil {
				return err
			}
			u, known := users[user]
			j, rated := items[item]
			if !known || !rated {
				o.Passed++
				return nil
			}
			if _, twice := seen[[2]int32{u, j}]; twice {
				return fmt.Errorf("user %s and item %s are there twice", user, item)
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

func columnsOf(head [][]byte) (at columns, err error) {
	if len(head) == 0 {
		return at, errors.New("the file is empty; a header with user, item and predicted is needed")
	}
	names := lists.Map(head, func(h []byte) string { return strings.ToLower(string(h)) })
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

// Tested is the model of a finished run with the test that measured it. It is read-only and safe
// for concurrent use.
type Tested struct {
	*Recommender
	test eval.Test
}

// OpenTested opens the folder of a finished run, as [Open] does, with its test.
func OpenTested(ctx context.Context, dir string) (*Tested, error) {
	r, err := openRun(ctx, dir, Options{})
	if err != nil {
		return nil, err
	}
	return &Tested{Recommender: r.Recommender, test: eval.NewTest(r.parts, r.Data.Min, r.Data.Max, algorithm.EvalBuckets.Int(r.Config))}, nil
}

// lists says which lists the run measures, and asks for k items of each.
func (t *Tested) lists(k int) (eval.ListParams, error) {
	q, err := experiment.ListsOf(t.Config, t.Data)
	q.Cutoffs = []int{k}
	return q, err
}

// EachList calls hear with every user that the run's lists were measured on: the user's relevant
// items, ascending, and the first k items of the model's list.
func (t *Tested) EachList(k int, hear func(user int, wanted, list []int32)) error {
	q, err := t.lists(k)
	if err != nil {
		return err
	}
	if !t.test.EachList(scorer{t.Recommender}, q, protocol.Workers(runtime.GOMAXPROCS(0)), hear) {
		return errNoneRelevant
	}
	return nil
}

var errNoneRelevant = errors.New("no user of the test has an item that is relevant: lower eval.relevant")

// scorer is a saved model as a predictor of lists.
type scorer struct{ r *Recommender }

// Predict writes the predictions of some items.
func (s scorer) Predict(user int, items []int32, out []float64) {
	all := make([]float64, s.r.Data.Items)
	s.r.saved.Score(user, all)
	for i, j := range items {
		out[i] = all[j]
	}
}

// Order orders as the model's lists are.
func (s scorer) Order(history []int32, scores []float64) {
	if s.r.saved.Order != nil {
		s.r.saved.Order(history, scores)
	}
}

// Score writes the predictions of all items. The embedding of a held-out user was made from its
// history when the run ended.
func (s scorer) Score(user int, _ []int32, _ []float32, out []float64) { s.r.saved.Score(user, out) }

// Outside holds what a method outside fedsim predicts on a run's test.
type Outside struct {
	of        *Tested
	path      string
	predicted map[[2]int32]float64 // of a user and an item; empty for lists without values
	lists     map[int32][]int32    // of each user, the best item first
	// Passed counts rows that name a user or an item that the run's data do not have.
	Passed int
}

// EachError calls hear with the error of every prediction of a test rating, user by user, after
// clamping to the rating scale. The file must predict every one.
func (o *Outside) EachError(hear func(user int, d float64)) error {
	if o.of.test.Held != nil {
		return fmt.Errorf("%s: the run ranks items, and its test has no ratings; compare lists by --metric recall@20", o.path)
	}
	if len(o.predicted) == 0 {
		return fmt.Errorf("%s has ranks and no column predicted; compare lists by --metric, such as ndcg@10", o.path)
	}
	set, rows := o.of.Data, o.of.test.Rows
	var all, missing int
	var example string
	for u := range rows.Len() {
		rows.Lend(u, func(items []int32, values []float32) {
			for i, j := range items {
				all++
				p, ok := o.predicted[[2]int32{int32(u), j}]
				if !ok {
					if missing++; missing == 1 {
						example = fmt.Sprintf("user %s and item %s", set.UserIDs[u], set.ItemIDs[j])
					}
					continue
				}
				hear(u, min(max(p+set.Shift, set.Min), set.Max)-float64(values[i]))
			}
		})
	}
	if missing > 0 {
		return fmt.Errorf("%s predicts %d of the %d test ratings, and lacks %s; predict every row whose part is test in the run's split.csv (fedsim run --save-predictions writes it)", o.path, all-missing, all, example)
	}
	return nil
}

// EachList calls hear with every user that the run's lists were measured on, as [Tested.EachList]
// does, with the first k items of the file's list. Items that the user rated outside the test are
// left out of it. The file must have a list for every such user.
func (o *Outside) EachList(k int, hear func(user int, wanted, list []int32)) error {
	if o.testOnly() {
		return fmt.Errorf("%s lists only items of each user's test; a list must come from all items that the user has not rated, as the lists of fedsim do", o.path)
	}
	q, err := o.of.lists(k)
	if err != nil {
		return err
	}
	var users, missing int
	var example string
	o.of.test.Wishes(q, func(user int, wanted, known []int32) {
		users++
		list := without(o.lists[int32(user)], known, k)
		if len(list) == 0 {
			if missing++; missing == 1 {
				example = o.of.Data.UserIDs[user]
			}
			return
		}
		hear(user, wanted, list)
	})
	switch {
	case users == 0:
		return errNoneRelevant
	case missing > 0:
		return fmt.Errorf("%s has lists for %d of the %d users with a relevant item in the test, and none for user %s", o.path, users-missing, users, example)
	}
	return nil
}

// testOnly reports whether every item in the lists is an item of the user's test. To rank these alone
// is another task, and a much easier one.
func (o *Outside) testOnly() bool {
	for u, list := range o.lists {
		var test []int32
		o.of.test.Rows.Lend(int(u), func(items []int32, _ []float32) { test = slices.Clone(items) })
		for _, j := range list {
			if _, in := slices.BinarySearch(test, j); !in {
				return false
			}
		}
	}
	return true
}

// without returns the first k items of a list that are not among the known ones.
func without(list, known []int32, k int) []int32 {
	rated := make(map[int32]bool, len(known))
	for _, j := range known {
		rated[j] = true
	}
	left := slices.DeleteFunc(slices.Clone(list), func(j int32) bool { return rated[j] })
	return left[:min(k, len(left))]
}
