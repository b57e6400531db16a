package recommend

import (
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
	"github.com/fedsim/fedsim/model"
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

// Tested is a Recommender of a run with the test that measured it. It is read-only and safe for concurrent use.
type Tested struct {
	*Recommender
	// Passed counts rows of a file that name a user or an item that the run's data do not have.
	Passed int

	test eval.Test
	file *outside // the file that is tested in place of the run's model; nil: that model
}

// outside is a file with what a method outside fedsim predicts on a run's test.
type outside struct {
	path    string
	entries map[int32]map[int32]entry // by user and item
	valued  bool                      // the file has predictions, and not only an order
}

// entry holds the numbers of a user and an item. The largest order comes first. predicted is NaN without predictions.
type entry struct{ order, predicted float64 }

// OpenTested opens the folder of a finished run, as [Open] does, with its test.
func OpenTested(ctx context.Context, dir string) (*Tested, error) {
	r, parts, err := openRun(ctx, dir, Options{})
	if err != nil {
		return nil, err
	}
	return &Tested{Recommender: r, test: eval.NewTest(parts, r.Data.Min, r.Data.Max, algorithm.EvalBuckets.Int(r.Config))}, nil
}

// OpenOutside reads what a method outside fedsim predicts on the test of a run, and returns it in place of the run's model. The file is a
// table with a header, in any form of the data's. Its columns are user, item and any of predicted (or
// prediction), score and rank. Ids are as in the run's data. Errors are of predicted, else of score, on
// the scale of the data. A list is in the order of rank, else of score, else of predicted.
func (t *Tested) OpenOutside(ctx context.Context, path string) (*Tested, error) {
	users, items := dataset.Places(t.Data.UserIDs), dataset.Places(t.Data.ItemIDs)
	o := &outside{path: path, entries: make(map[int32]map[int32]entry)}
	tested := &Tested{Recommender: t.Recommender, test: t.test, file: o}
	err := read.Table(ctx, path, []string{"user", "item"}, func(header [][]byte) (func([][]byte, int) error, error) {
		at, wrong := columnsOf(header)
		o.valued = at.predicted >= 0
		return func(row [][]byte, _ int) (err error) {
			e := entry{predicted: math.NaN()}
			if e.order, err = number(row[at.order]); err == nil && o.valued {
				e.predicted, err = number(row[at.predicted])
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
				tested.Passed++
				return nil
			}
			if _, twice := o.entries[u][j]; twice {
				return fmt.Errorf("user %s and item %s are there twice", user, item)
			}
			if at.ranks {
				e.order = -e.order
			}
			if o.entries[u] == nil {
				o.entries[u] = make(map[int32]entry)
			}
			o.entries[u][j] = e
			return nil
		}, wrong
	})
	if err == nil && len(o.entries) == 0 {
		err = fmt.Errorf("%s: no row names a user and an item of the run's data; ids are as in the data, such as user %s and item %s", path, t.Data.UserIDs[0], t.Data.ItemIDs[0])
	}
	return tested, err
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

// EachError calls hear with the error of each prediction of a test rating, in stars, user by user, after clamping to the
// rating scale. A run with implicit feedback has none. A file must predict every test rating.
func (t *Tested) EachError(hear func(user int, d float64)) error {
	switch o := t.file; {
	case o == nil && t.test.Held != nil:
		return nil
	case t.test.Held != nil:
		return fmt.Errorf("%s: the run ranks items, and its test has no ratings; compare lists by --metric recall@20", o.path)
	case o != nil && !o.valued:
		return fmt.Errorf("%s has ranks and no column predicted; compare lists by --metric, such as ndcg@10", o.path)
	}
	var all, missing int
	var example string
	p := t.predictor(func(e entry) float64 { return e.predicted + t.Data.Shift })
	err := t.test.EachPrediction(p, func(user int, item int32, value float32, predicted float64) error {
		if all++; t.file == nil || !math.IsNaN(predicted) {
			hear(user, predicted-float64(value))
		} else if missing++; missing == 1 {
			example = fmt.Sprintf("user %s and item %s", t.Data.UserIDs[user], t.Data.ItemIDs[item])
		}
		return nil
	})
	if err == nil && missing > 0 {
		err = fmt.Errorf("%s predicts %d of the %d test ratings, and lacks %s; predict every row whose part is test in the run's split.csv (fedsim run --save-predictions writes it)", t.file.path, all-missing, all, example)
	}
	return err
}

// EachList calls hear with every user that the run's lists were measured on: the user's relevant
// items, ascending, and the first k items of the list. Items that the user rated outside the test are
// left out of it. A file must have a list for every such user.
func (t *Tested) EachList(k int, hear func(user int, wanted, list []int32)) error {
	if t.file != nil && t.testOnly() {
		return fmt.Errorf("%s lists only items of each user's test; a list must come from all items that the user has not rated, as the lists of fedsim do", t.file.path)
	}
	q, err := experiment.ListsOf(t.Config, t.Data)
	if err != nil {
		return err
	}
	q.Cutoffs = []int{k}
	var users, missing int
	var example string
	p := t.predictor(func(e entry) float64 { return e.order })
	if !t.test.EachList(p, q, protocol.Workers(runtime.GOMAXPROCS(0)), func(user int, wanted, list []int32) {
		users++
		if t.file != nil {
			list = slices.DeleteFunc(list, func(j int32) bool { // which come last
				_, listed := t.file.entries[int32(user)][j]
				return !listed
			})
		}
		if t.file == nil || len(list) > 0 {
			hear(user, wanted, list)
		} else if missing++; missing == 1 {
			example = t.Data.UserIDs[user]
		}
	}) {
		return errors.New("no user of the test has an item that is relevant: lower eval.relevant")
	}
	if missing > 0 {
		return fmt.Errorf("%s has lists for %d of the %d users with a relevant item in the test, and none for user %s", t.file.path, users-missing, users, example)
	}
	return nil
}

// predictor returns the run's model or, for a file, its entries by one column; NaN for items that the file lacks.
func (t *Tested) predictor(column func(entry) float64) scorer {
	if t.file == nil {
		return scorer{t.saved, t.Data.Items}
	}
	return scorer{&algorithm.Saved{Score: func(user int, out []float64) {
		for j := range out {
			out[j] = math.NaN()
		}
		for j, e := range t.file.entries[int32(user)] {
			out[j] = column(e)
		}
	}}, t.Data.Items}
}

// testOnly reports whether every item in a file's lists is an item of the user's test. To rank these alone
// is another task, and a much easier one.
func (t *Tested) testOnly() bool {
	for u, list := range t.file.entries {
		test, _ := t.test.Rows.Row(int(u))
		for j := range list {
			if _, in := slices.BinarySearch(test, j); !in {
				return false
			}
		}
	}
	return true
}

// scorer is a saved model as a predictor of lists.
type scorer struct {
	saved *algorithm.Saved
	items int // of the data
}

// Predict writes the predictions of some items.
func (s scorer) Predict(user int, items []int32, out []float64) {
	all := make([]float64, s.items)
	s.saved.Score(user, all)
	copy(out, model.At(all, items))
}

// Order orders as the model's lists are.
func (s scorer) Order(history []int32, scores []float64) {
	if s.saved.Order != nil {
		s.saved.Order(history, scores)
	}
}

// Score writes all predictions. The embedding of a held-out user follows from its history since the run ended.
func (s scorer) Score(user int, _ []int32, _ []float32, out []float64) { s.saved.Score(user, out) }
