package recommend

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// release is the model of a finished run or session, for users and ratings that it did not have. A user is
// fitted to the model by the user's own ratings, as the user's client would do. Nothing is stored.
type release struct {
	config   config.Config
	items    *dataset.Set // the catalogue, without ratings
	features *dataset.ItemFeatures
	place    map[string]int32
	fitter   *experiment.Fitter // nil: users are as the run left them
	shared   []model.Embeddings // of the shared model, if users can be fitted
	dir      string
}

// newRelease makes the release of an experiment whose clients are users.
func newRelease(e *experiment.Experiment, items *dataset.Set, shared []byte) (*release, error) {
	f, all, err := e.Fitter(shared)
	if err != nil {
		return nil, err
	}
	return &release{config: e.Config, items: items, features: e.Features, place: dataset.Places(items.ItemIDs), fitter: f, shared: all}, nil
}

// releaseOf opens the release in the folder of a finished run.
func releaseOf(dir string, c config.Config) (*release, error) {
	items, features, session, err := results.ReadCatalogue(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s; make the run again: fedsim run %s --name NAME", ErrNotOwn, dir, results.CatalogueFile, filepath.Join(dir, "config.yaml"))
	}
	if err != nil {
		return nil, err
	}
	if algorithm.Of(c).About().Clients != algorithm.Users {
		return &release{config: c, items: items, features: features, place: dataset.Places(items.ItemIDs), dir: dir}, nil
	}
	shared, err := os.ReadFile(filepath.Join(dir, results.SharedFile))
	if err != nil {
		return nil, err
	}
	e, err := experiment.OpenPublic(c, items, features, session, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	r, err := newRelease(e, items, shared)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, results.SharedFile), err)
	}
	return r, nil
}

// why says why users cannot be fitted.
func (r *release) why() error {
	a := algorithm.Of(r.config).About()
	reason := map[algorithm.Clients]string{
		algorithm.ItemParties: "organisations that hold items train each user together",
		algorithm.UserParties: "organisations train with their own users, and no user has a client",
		algorithm.Nobody:      "it trains users and items together in one place, and no user has a client",
	}[a.Clients]
	return fmt.Errorf("%w: %s cannot take in users or ratings after the run. The reason: %s. Run again with the new ratings, or with an algorithm whose clients are users, such as ssp-c", ErrNotOwn, a.Name, reason)
}

// mapped returns a user's ratings of items of the catalogue, in its order, and how many are of other items.
func (r *release) mapped(set *dataset.Set, rows *dataset.Rows, user int) (own dataset.Ratings, unknown int) {
	items, rated := rows.Row(user)
	values := make(map[int32]float32, len(items))
	for k, j := range items {
		if at, ok := r.place[set.ItemIDs[j]]; ok {
			values[at] = rated[k]
		}
	}
	return r.rated(values), len(items) - len(values)
}

// rated returns the ratings of one user, by places in the catalogue.
func (r *release) rated(values map[int32]float32) dataset.Ratings {
	own := dataset.Ratings{Users: 1, Items: len(r.items.ItemIDs), User: make([]int32, len(values)), Item: slices.Sorted(maps.Keys(values))}
	own.Value = lists.Map(own.Item, func(j int32) float32 { return values[j] })
	return own
}

// fitted returns the recommender of one user, by ratings of items of the catalogue.
func (r *release) fitted(user string, own dataset.Ratings) (*Recommender, error) {
	result, err := r.fitter.Fit(user, own)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.items.Name, err)
	}
	named := make(map[string]*model.Matrix)
	for _, x := range slices.Concat(r.shared, result) {
		named[x.Name] = x.Matrix
	}
	set := *r.items
	set.Ratings, set.UserIDs = own, []string{user}
	one := &Recommender{Config: r.config, Data: &set, train: own.ByUser()}
	return one, one.load(results.Files{Named: named, Described: r.features})
}

// meaning says what becomes of ratings that the run did not have.
func (r *release) meaning() string {
	switch {
	case r.fitter != nil:
		return "each user is fitted to the released items by all of the user's ratings there, and the release stays as it is"
	case algorithm.Of(r.config).About().Noise == algorithm.ObjectiveNoise: // whose users are always fitted as they are asked for
		return "users of the run are fitted to the released items by all of their ratings there"
	default:
		return "its users are as the run left them, and new ratings only leave items out"
	}
}

// strange says how many items of a set the run did not have; "" if there are none.
func (r *release) strange(own *dataset.Set) string {
	n := 0
	for _, id := range own.ItemIDs {
		if _, ok := r.place[id]; !ok {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of its %d items are not in the run, and ratings of them are left out", n, len(own.ItemIDs))
}

// over returns the recommender for the users of other ratings.
func (r *release) over(own *dataset.Set) (*Recommender, error) {
	rows := own.ByUser()
	if r.fitter == nil { // the users of the run, with the items left out that they have rated by now
		set := *r.items
		x := &Recommender{Config: r.config, Data: &set, release: r}
		set.Ratings, x.absent = r.known(own, rows)
		x.train = set.ByUser()
		return x, x.loadRun(r.dir)
	}
	one, err := r.fitted("", r.rated(nil)) // a user without ratings
	if err != nil {
		return nil, err
	}
	set := *one.Data
	set.UserIDs = own.UserIDs
	set.Users = len(own.UserIDs)
	return &Recommender{Config: r.config, Data: &set, saved: one.saved, release: r, own: own, rows: rows}, nil
}

// known returns the ratings in other data of the users that the model has, and the users who have none there.
func (r *release) known(own *dataset.Set, rows *dataset.Rows) (now dataset.Ratings, absent map[string]bool) {
	at := dataset.Places(own.UserIDs)
	now, absent = dataset.Ratings{Users: len(r.items.UserIDs), Items: len(r.items.ItemIDs)}, make(map[string]bool)
	for u, id := range r.items.UserIDs {
		v, ok := at[id]
		if !ok {
			absent[id] = true
			continue
		}
		mine, _ := r.mapped(own, rows, int(v))
		now.User = append(now.User, slices.Repeat([]int32{int32(u)}, mine.Len())...)
		now.Item, now.Value = append(now.Item, mine.Item...), append(now.Value, mine.Value...)
	}
	return now, absent
}

// Basis says what recommendations rest on.
type Basis struct {
	By Source `json:"by"`
	// Ratings counts the ratings of the user that were used, Unknown the ratings of items that the run did not have.
	Ratings int `json:"ratings"`
	Unknown int `json:"unknown_items"`
}

// Answer is a user's list of recommendations, and what it rests on.
type Answer struct {
	User string `json:"user"`
	Basis
	Items []Recommendation `json:"items"`
}

// Source names what recommendations rest on.
type Source string

const (
	// ByRun: the user as the run left it.
	ByRun Source = "run"
	// ByFit: the user was fitted to the released model by ratings that the run did not have.
	ByFit Source = "fit"
	// ByPopularity: nothing is known of the user; the list is the same for every such user.
	ByPopularity Source = "popularity"
)

// Popular returns the n items that are liked most by the model, for a user of whom nothing is known.
func (r *Recommender) Popular(n int) (*Answer, error) {
	if r.saved.Popularity == nil {
		return nil, fmt.Errorf("%w: to a user without ratings all items of this model of %s are alike; give some ratings of the user", ErrNoPopularity, algorithm.Name.Of(r.Config))
	}
	return &Answer{Basis: Basis{By: ByPopularity}, Items: r.list(0, r.saved.Popularity, nil, n)}, nil
}

// Answer is Recommend that says what the list rests on. A user of the data who has rated no item of the
// run gets the popular items. Handler sends the errors to other people, so that they name no other user.
func (r *Recommender) Answer(user string, n int) (*Answer, error) {
	u := placeOf(r.Data.UserIDs, user)
	switch {
	case r.absent[user]:
		return nil, fmt.Errorf("%w: user %q has no rating in these data", ErrNotThere, user)
	case u < 0 && r.own != nil:
		return nil, fmt.Errorf("%w: no rating by user %q", ErrNotThere, user)
	case u < 0 && r.release != nil && r.release.fitter == nil:
		return nil, fmt.Errorf("%w: user %q; %w", ErrNotThere, user, r.release.why())
	case u < 0:
		return nil, fmt.Errorf("%w: user %q", ErrNotThere, user)
	case r.own != nil:
		own, unknown := r.release.mapped(r.own, r.rows, u)
		return r.release.answer(user, own, unknown, n)
	case r.saved.Score == nil:
		return nil, fmt.Errorf("%w: the model of a deployment knows no user", ErrNotOwn)
	}
	scores := make([]float64, r.Data.Items)
	if err := r.score(u, scores); err != nil {
		return nil, err
	}
	rated, _ := r.train.Row(u)
	return &Answer{user, Basis{By: ByRun, Ratings: len(rated)}, r.list(u, scores, rated, n)}, nil
}

// answer recommends by ratings of items of the catalogue.
func (r *release) answer(user string, own dataset.Ratings, unknown, n int) (*Answer, error) {
	one, err := r.fitted(user, own)
	if err != nil {
		return nil, err
	}
	var a *Answer
	if own.Len() == 0 {
		a, err = one.Popular(n)
	} else if a, err = one.Answer(user, n); err == nil {
		a.By = ByFit
	}
	if err == nil {
		a.User, a.Unknown = user, unknown
	}
	return a, err
}

// Given is a rating that a user gives.
type Given struct {
	Item   dataset.ID `json:"item"`
	Rating *float64   `json:"rating"` // on the scale of the data; nil for a click
}

// ErrGiven is wrapped by the error for given ratings that cannot be used.
var ErrGiven = errors.New("these ratings cannot be used")

// AnswerTo recommends to any user by the ratings that the user gives. No rating is kept. Without ratings it answers for a user of the
// data as Answer does, and for any other user by popularity. A user may have no name: "".
func (r *Recommender) AnswerTo(user string, given []Given, n int) (*Answer, error) {
	if len(given) == 0 && user != "" {
		if a, err := r.Answer(user, n); !errors.Is(err, ErrNotThere) || r.saved.Popularity == nil {
			return a, err
		}
	}
	if len(given) == 0 && r.saved.Popularity != nil {
		a, err := r.Popular(n)
		a.User = user
		return a, err
	}
	rel, err := r.released()
	if err != nil {
		return nil, err
	}
	own, unknown, err := rel.given(given)
	if err != nil {
		return nil, err
	}
	return rel.answer(user, own, unknown, n)
}

// released returns the release behind a run, if users can be fitted to it.
func (r *Recommender) released() (*release, error) {
	rel, err := r.release, error(nil)
	if r.later != nil {
		rel, err = r.later()
	}
	switch {
	case err != nil:
		return nil, err
	case rel == nil:
		return nil, fmt.Errorf("%w: there is no folder of a finished run behind it", ErrNotOwn)
	case rel.fitter == nil:
		return nil, rel.why()
	}
	return rel, nil
}

// given checks ratings that a user gives, and returns the ratings of items of the catalogue.
func (r *release) given(list []Given) (own dataset.Ratings, unknown int, err error) {
	low, high := r.items.Min-r.items.Shift, r.items.Max-r.items.Shift
	values, seen := make(map[int32]float32), make(map[dataset.ID]bool, len(list))
	for k, x := range list {
		value := high // a click
		if x.Rating != nil {
			value = *x.Rating
		}
		switch {
		case x.Item == "":
			err = fmt.Errorf("%w: rating %d names no item", ErrGiven, k+1)
		case seen[x.Item]:
			err = fmt.Errorf("%w: item %q is rated twice", ErrGiven, x.Item)
		case x.Rating == nil && !algorithm.Ranks(r.config):
			err = fmt.Errorf("%w: item %q has no rating; the scale is %v to %v", ErrGiven, x.Item, low, high)
		case math.IsNaN(value) || value < low || value > high:
			err = fmt.Errorf("%w: the rating of item %q is %v; the scale is %v to %v", ErrGiven, x.Item, value, low, high)
		}
		if err != nil {
			return own, 0, err
		}
		seen[x.Item] = true
		if at, ok := r.place[string(x.Item)]; ok {
			values[at] = float32(float64(float32(value)) + r.items.Shift)
		} else {
			unknown++
		}
	}
	return r.rated(values), unknown, nil
}
