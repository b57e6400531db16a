package recommend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// OpenAll opens the model for all users that it can answer, and not for User alone. If clients are users, it fits
// each user of Data to the model by the user's ratings there, when the user is asked for. Users that give their
// ratings are fitted too. The result of an organisation answers for the organisation's own users, as the session left
// them, and leaves out the items that they rated in Data. Data may be "": then no user is known.
func (d Deployed) OpenAll(ctx context.Context) (*Recommender, error) {
	own := new(dataset.Set)
	if d.Data != "" {
		var err error
		if own, err = experiment.OpenOwn(ctx, d.Experiment, d.Data, func(*dataset.FileError) {}); err != nil {
			return nil, err
		}
	}
	var r *Recommender
	shared, err := os.ReadFile(filepath.Join(d.Dir, results.SharedFile))
	switch {
	case d.Experiment.About().Clients != algorithm.Users:
		r, err = d.organisation(ctx, own)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s has no %s, so that no user can be fitted; ask the result of a user's own client by fednode recommend", ErrNotOwn, d.Dir, results.SharedFile)
	case err == nil:
		items := *d.Experiment.Data
		if err = d.titled(ctx, &items, own); err != nil {
			return nil, err
		}
		var rel *release
		if rel, err = newRelease(d.Experiment, &items, shared); err == nil {
			r, err = rel.over(own)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Dir, err)
	}
	session := d.Experiment.Session()
	r.Session = fmt.Sprintf("%x", session[:])
	return r, nil
}

// titled gives the items of a set the titles that are known.
func (d Deployed) titled(ctx context.Context, items, own *dataset.Set) error {
	return (&Own{Experiment: d.Experiment, Titles: d.Titles}).title(ctx, items, own)
}

// organisation opens the result of an organisation, which has embeddings of its users and items, or of its server,
// which has one of the two.
func (d Deployed) organisation(ctx context.Context, own *dataset.Set) (*Recommender, error) {
	all, err := results.ReadEmbeddings(d.Dir)
	if err != nil {
		return nil, err
	}
	named := make(map[string]model.Embeddings, len(all))
	for _, x := range all {
		named[x.Name] = x
	}
	items, ok := named["item_embeddings"]
	if !ok {
		return nil, fmt.Errorf("%w: it has no embeddings of items; ask the results of the organisations", ErrNotOwn)
	}
	set := *d.Experiment.Data
	set.ItemIDs, set.Items = items.IDs, len(items.IDs)
	if err = d.titled(ctx, &set, own); err != nil {
		return nil, err
	}
	users := named["user_embeddings"]
	set.UserIDs, set.Users = users.IDs, len(users.IDs)
	place := indexOf(set.ItemIDs)
	set.Ratings = ratingsOf(&set, place, own)
	r := &Recommender{Config: d.Experiment.Config, Data: &set, train: set.Ratings.ByUser(),
		release: &release{config: d.Experiment.Config, items: &set, place: place}, saved: &algorithm.Saved{Items: items.Matrix}}
	if set.Users == 0 {
		return r, nil
	}
	if users.Cols() != items.Cols() {
		return nil, fmt.Errorf("%w: embeddings of users have %d columns and of items %d", ErrNotOwn, users.Cols(), items.Cols())
	}
	scores := func(u []float64, out []float64) {
		for j := range out {
			out[j] = model.Dot(u, items.Row(j))
		}
	}
	r.saved.Score = func(user int, out []float64) { scores(users.Row(user), out) }
	popular := make([]float64, set.Items)
	scores(meanRow(users.Matrix), popular)
	r.saved.Popularity = algorithm.PopularityOf(popular)
	return r, nil
}

// meanRow returns the mean of the rows of a matrix.
func meanRow(x *model.Matrix) []float64 {
	rows, cols := x.Dims()
	mean := make([]float64, cols)
	for i := range rows {
		for k, v := range x.Row(i) {
			mean[k] += v / float64(rows)
		}
	}
	return mean
}

// ratingsOf returns the ratings that users of a set have given in other data, by the items of the set.
func ratingsOf(set *dataset.Set, place map[string]int32, own *dataset.Set) dataset.Ratings {
	at := indexOf(own.UserIDs)
	rows := own.ByUser()
	now := dataset.Ratings{Users: set.Users, Items: set.Items}
	for u, id := range set.UserIDs {
		v, ok := at[id]
		if !ok {
			continue
		}
		mine, _ := mapped(place, set.Items, own, rows, int(v))
		for range mine.Item {
			now.User = append(now.User, int32(u))
		}
		now.Item, now.Value = append(now.Item, mine.Item...), append(now.Value, mine.Value...)
	}
	return now
}
