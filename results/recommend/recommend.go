package recommend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/export"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Each of these errors is a [config.Error]: the call was wrong, and nothing failed.
var (
	// ErrNotThere is wrapped by the error for a user or an item that a run does not have.
	ErrNotThere = config.Errorf("not in this run")
	// ErrNotOwn is wrapped by the error for a result that cannot give recommendations.
	ErrNotOwn = config.Errorf("no recommendations from this result")
	// ErrAmbiguous is wrapped by the error for a text that names several items, which it lists.
	ErrAmbiguous = config.Errorf("ambiguous")
	// ErrNoPopularity is wrapped by the error for a model that does not say which items are liked most.
	ErrNoPopularity = config.Errorf("no popularity was released")
)

// Item describes an item to people.
type Item struct {
	ID     string   `json:"id"`
	Title  string   `json:"title,omitempty"`
	Genres []string `json:"genres,omitempty"`
	Year   int      `json:"year,omitempty"`
}

// Recommendation is an item that a user has not rated in training.
type Recommendation struct {
	Item
	// Score orders the list: it descends from item to item. Only its order counts.
	Score     float64 `json:"score"`
	Predicted float64 `json:"predicted"` // in stars, taken to the rating scale; with implicit feedback a score
}

// Recommend returns the first n items of a user's list, which is by predictions or, if the model knows
// more, by what the user is likely to take and like ([algorithm.Saved.Order]). user is an id. Items that the
// user rated in training are left out, but items of the test part are not: the model does not know them and may
// well recommend them.
func (r *Recommender) Recommend(user string, n int) ([]Recommendation, error) {
	a, err := r.Answer(user, n)
	if err != nil {
		return nil, err
	}
	return a.Items, nil
}

// PredictPairs returns the prediction for each pair of a user and an item, in the unit of [Recommendation]. nil
// stands for a user or an item that the run does not have, and for an item of which the model knows nothing. Users are as
// the run left them. The user "" has rated nothing, and gets the released popularity.
func (r *Recommender) PredictPairs(users, items []string) ([]*float64, error) {
	if r.own != nil || r.saved.Score == nil {
		return nil, fmt.Errorf("%w: pairs are predicted for users as the run left them, on the run's own data", ErrNotOwn)
	}
	list := make([]*float64, len(users))
	item := dataset.Places(r.Data.ItemIDs)
	scores := make([]float64, r.Data.Items)
	places := make(map[string][]int)
	for k, user := range users {
		places[user] = append(places[user], k)
	}
	for user, pairs := range places {
		u := placeOf(r.Data.UserIDs, user)
		switch {
		case user == "" && r.saved.Popularity != nil:
			copy(scores, r.saved.Popularity)
		case u < 0:
			continue
		default:
			if err := r.score(u, scores); err != nil {
				return nil, err
			}
		}
		for _, k := range pairs {
			if j, ok := item[items[k]]; ok && !math.IsNaN(scores[j]) {
				x := r.shown(scores[j])
				list[k] = &x
			}
		}
	}
	return list, nil
}

// placeOf returns the place of the id that a text asks for; -1 if the list has none.
func placeOf(ids []string, text string) int {
	if at := slices.Index(ids, text); at >= 0 { // a user who is fitted to given ratings may have no name
		return at
	}
	id, err := dataset.ParseID(text)
	if err != nil {
		return -1
	}
	return slices.Index(ids, id)
}

// score writes a user's scores of all items.
func (r *Recommender) score(user int, scores []float64) error {
	r.saved.Score(user, scores)
	if r.saved.Failed != nil {
		return r.saved.Failed()
	}
	return nil
}

// shown returns a score as it is printed: a rating is taken to the scale of the data.
func (r *Recommender) shown(score float64) float64 {
	if r.Stars() {
		return min(max(score, r.Data.Min), r.Data.Max) - r.Data.Shift
	}
	return score
}

// list returns a user's first n items by scores or, if the model orders by more, by that order, without those rated.
func (r *Recommender) list(user int, scores []float64, rated []int32, n int) []Recommendation {
	order := scores
	if r.saved.Order != nil {
		order = slices.Clone(scores)
		r.saved.Order(rated, order)
	}
	var list []Recommendation
	last := math.Inf(1)
	for _, j := range eval.Top(order, n, rated, user) {
		if math.IsNaN(scores[j]) { // the model knows nothing of this item and the items after it
			break
		}
		if x := order[j]; x < last && !math.IsInf(x, -1) {
			last = x
		} else {
			last = math.Nextafter(last, math.Inf(-1)) // a program that sorts by score gets this list, also with equal scores
		}
		list = append(list, Recommendation{itemOf(r.Data, int(j)), last, r.shown(scores[j])})
	}
	return list
}

// OrdersByMore reports whether lists are ordered by more than predictions, so that predictions need not descend.
func (r *Recommender) OrdersByMore() bool { return r.saved.Order != nil }

// Trained makes the Recommender of a model that was trained in this process. It knows nothing of which items are similar.
func Trained(e *experiment.Experiment, m *model.Trained) *Recommender {
	all := model.Indices(e.Data.Items)
	r := &Recommender{Config: e.Config, Data: e.Data, train: e.Train}
	if e.Held != nil {
		r.train = e.Held.Known(e.Ratings).ByUser()
	}
	r.saved = &algorithm.Saved{Score: func(user int, out []float64) { m.Predict(user, all, out) }}
	if o, ok := m.Predictor.(model.Orderer); ok && r.Stars() {
		r.saved.Order = o.Order
	}
	return r
}

// Stars reports whether predictions are ratings, and not scores of which only the order counts.
func (r *Recommender) Stars() bool { return !algorithm.Ranks(r.Config) }

// String names an item for a message.
func (i Item) String() string {
	if i.Title == "" {
		return i.ID
	}
	return fmt.Sprintf("%s (id %s)", i.Title, i.ID)
}

// itemOf describes item j of a set.
func itemOf(s *dataset.Set, j int) Item {
	i := Item{ID: s.ItemIDs[j]}
	if s.Titles != nil {
		i.Title = s.Titles[j]
	}
	if s.Genres != nil {
		i.Genres = s.Genres[j]
	}
	if s.Years != nil {
		i.Year = s.Years[j]
	}
	return i
}

// maxCandidates is the number of items that the error of an ambiguous text lists.
const maxCandidates = 10

// findItem returns the only item that a text names.
func findItem(s *dataset.Set, text string) (int, error) {
	titled := len(s.Titles) == s.Items
	lower, place := strings.ToLower(text), placeOf(s.ItemIDs, text)
	for _, match := range []func(j int) bool{
		func(j int) bool { return titled && s.Titles[j] == text },
		func(j int) bool { return j == place },
		func(j int) bool { return titled && strings.Contains(strings.ToLower(s.Titles[j]), lower) },
	} {
		var found []int
		for j := range s.Items {
			if match(j) {
				found = append(found, j)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			list := ""
			for _, j := range found[:min(len(found), maxCandidates)] {
				list += "\n  " + itemOf(s, j).String()
			}
			if more := len(found) - maxCandidates; more > 0 {
				list += fmt.Sprintf("\n  and %d more", more)
			}
			return 0, fmt.Errorf("%w: %q may be any of %d items; give more of the title, or the id:%s", ErrAmbiguous, text, len(found), list)
		}
	}
	if !titled {
		return 0, fmt.Errorf("%w: item %q; %s has no titles, give an id such as %s", ErrNotThere, text, s.Name, s.ItemIDs[0])
	}
	return 0, fmt.Errorf("%w: item %q; no title of %s holds that, and no id is that", ErrNotThere, text, s.Name)
}

// atOnce is the number of users whose lists are in memory at once.
const atOnce = 256

// WriteLists writes the lists of all users of the data, n items each, in the order of the data. The format
// is one of [export.ListFormats]. wrote counts the users with a list. left counts the users without one: nothing
// is known of them, and the model does not say which items are liked most.
func (r *Recommender) WriteLists(ctx context.Context, w io.Writer, format string, n int, run protocol.Runner) (wrote, left int, err error) {
	out, err := export.NewLists(w, format)
	if err != nil {
		return 0, 0, err
	}
	users := slices.DeleteFunc(slices.Clone(r.Data.UserIDs), func(id string) bool { return r.absent[id] })
	for from := 0; from < len(users); from += atOnce {
		part := users[from:min(from+atOnce, len(users))]
		lists, errs := make([][]export.Line, len(part)), make([]error, len(part))
		run.Each(len(part), func(i int) {
			if errs[i] = ctx.Err(); errs[i] == nil {
				lists[i], errs[i] = r.lines(part[i], n)
			}
		})
		for i := range part {
			if errors.Is(errs[i], ErrNoPopularity) {
				left, errs[i] = left+1, nil
			} else {
				wrote++
			}
			if err = errors.Join(err, errs[i]); err != nil {
				return wrote, left, err
			}
			if err = out.Write(lists[i]); err != nil {
				return wrote, left, err
			}
		}
	}
	return wrote, left, out.Close()
}

// lines returns the list of one user.
func (r *Recommender) lines(user string, n int) ([]export.Line, error) {
	a, err := r.Answer(user, n)
	if err != nil {
		return nil, err
	}
	out := make([]export.Line, len(a.Items))
	for k, x := range a.Items {
		out[k] = export.Line{User: user, Rank: int64(k + 1), Item: x.ID, Title: x.Title, Score: x.Score, Predicted: x.Predicted, By: string(a.By)}
	}
	return out, nil
}
