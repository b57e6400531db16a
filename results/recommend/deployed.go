package recommend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// deployment opens the folder of a session: the model of its server, which knows items and no user, or the result of
// a client, which knows its own users.
type deployment struct {
	Options
	dir string
	e   *experiment.Experiment
}

// open opens the folder for what the options name.
func (d *deployment) open(ctx context.Context) (*Recommender, error) {
	switch {
	case d.Items:
		return d.itemsAlone(ctx)
	case d.All:
		return d.allUsers(ctx)
	case d.e.About().Clients != algorithm.Users:
		return nil, fmt.Errorf("%w: its algorithm is %s, whose clients are %s; ask on the clients, which hold the users", ErrNotOwn, d.e.About().Name, d.e.About().Clients)
	case d.Data == "":
		return nil, fmt.Errorf("%w: the model of a deployment knows no user; say --data, with the user's ratings", ErrNotOwn)
	}
	own, err := d.ratings(ctx)
	if err != nil {
		return nil, err
	}
	shared, err := os.ReadFile(filepath.Join(d.dir, results.SharedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return d.ofClient(ctx, own)
	}
	if err != nil {
		return nil, err
	}
	return d.fitted(ctx, own, shared)
}

// ratings opens the ratings of Data.
func (d *deployment) ratings(ctx context.Context) (*dataset.Set, error) {
	return experiment.OpenOwn(ctx, d.e, d.Data, func(*dataset.FileError) {})
}

// itemsAlone opens the embeddings of items.
func (d *deployment) itemsAlone(ctx context.Context) (*Recommender, error) {
	items, _, err := d.embeddings()
	if err != nil {
		return nil, err
	}
	if items.Matrix == nil {
		return nil, fmt.Errorf("%s: there are no item_embeddings with ids", d.dir)
	}
	set := *d.e.Data
	set.ItemIDs, set.Items = items.IDs, len(items.IDs)
	r := &Recommender{Config: d.e.Config, Data: &set, saved: &algorithm.Saved{Items: items.Matrix}}
	if d.Data == "" {
		return r, nil
	}
	return r, d.title(ctx, &set, new(dataset.Set), d.Data)
}

// embeddings reads the matrices of items and users, which are empty if the folder has none.
func (d *deployment) embeddings() (items, users model.Embeddings, err error) {
	all, err := results.ReadEmbeddings(d.dir)
	for _, x := range all {
		switch x.Name {
		case "item_embeddings":
			items = x
		case "user_embeddings":
			users = x
		}
	}
	return items, users, err
}

// fitted fits the embedding of User to the user's ratings, as the user's client would have.
func (d *deployment) fitted(ctx context.Context, own *dataset.Set, shared []byte) (*Recommender, error) {
	r, err := newRelease(d.e, d.e.Data, shared)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, err)
	}
	var rated dataset.Ratings
	if u := slices.Index(own.UserIDs, d.User); u >= 0 {
		rated, _ = r.mapped(own, own.ByUser(), u)
	}
	if rated.Len() == 0 {
		return nil, fmt.Errorf("%w: %s has no rating by user %q of an item of the model", ErrNotThere, d.Data, d.User)
	}
	one, err := r.fitted(d.User, rated)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, err)
	}
	return one, d.title(ctx, one.Data, own, d.Titles)
}

// ofClient opens the result of a user's own client, whose only user is the user of the result. Recommendations leave out
// all items that the user has rated, test part included.
func (d *deployment) ofClient(ctx context.Context, own *dataset.Set) (*Recommender, error) {
	users, err := results.UsersOf(d.dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case d.User == "" && len(own.UserIDs) > 1:
		return nil, fmt.Errorf("%w: %s has ratings of %d users; say whose with --user", ErrAmbiguous, d.Data, len(own.UserIDs))
	case d.User == "" && len(own.UserIDs) == 1:
		d.User = own.UserIDs[0]
	}
	if d.User != "" && len(users) == 1 && users[0] != "" && users[0] != d.User {
		return nil, fmt.Errorf("%w: user %q; %s is the result of the client of user %q", ErrNotThere, d.User, d.dir, users[0])
	}
	set := *d.e.Data // the catalogue
	set.Ratings, set.UserIDs = dataset.Ratings{Users: 1, Items: len(set.ItemIDs)}, []string{d.User}
	if u := slices.Index(own.UserIDs, d.User); u >= 0 {
		set.Ratings, _ = mapped(indexOf(set.ItemIDs), len(set.ItemIDs), own, own.ByUser(), u)
	}
	r := &Recommender{Config: d.e.Config, Data: &set, train: set.Ratings.ByUser()}
	if err = r.loadOwn(d.dir, d.e.Features); err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, err)
	}
	return r, d.title(ctx, &set, own, d.Titles) // after the model, which needs the session's features
}

// loadOwn reads a client's result. Some models predict on top of a mean, which then has its own
// file.
func (r *Recommender) loadOwn(dir string, features *dataset.ItemFeatures) error {
	f := results.Files{Dir: dir, Ratings: r.train, Described: features}
	if !f.Has("item_embeddings") {
		return fmt.Errorf("%w: it has no embeddings of items; version 0.1 wrote none", ErrNotOwn)
	}
	if f.Has("mean") {
		m, err := f.Matrix("mean", 1, 1)
		if err != nil {
			return err
		}
		f.Start = &m.Data()[0]
	}
	return r.load(f)
}

// title gives the items of a set the known titles and genres, by id: from a folder with titles or, for "", from the user's ratings.
func (d *deployment) title(ctx context.Context, set, from *dataset.Set, folder string) error {
	if folder != "" {
		var err error
		if from, err = read.Items(ctx, folder, experiment.DataOptions(d.e.Config)); err != nil {
			return err
		}
	}
	known := indexOf(from.ItemIDs)
	set.Titles, set.Genres = make([]string, set.Items), make([][]string, set.Items)
	for j, id := range set.ItemIDs {
		k, ok := known[id]
		if ok && from.Titles != nil {
			set.Titles[j] = from.Titles[k]
		}
		if ok && from.Genres != nil {
			set.Genres[j] = from.Genres[k]
		}
	}
	return nil
}

// allUsers opens the model for all users that it can answer. If clients are users, it fits each user of Data to the model by
// the user's ratings there, when the user is asked for.
func (d *deployment) allUsers(ctx context.Context) (r *Recommender, err error) {
	own := new(dataset.Set)
	if d.Data != "" {
		if own, err = d.ratings(ctx); err != nil {
			return nil, err
		}
	}
	shared, err := os.ReadFile(filepath.Join(d.dir, results.SharedFile))
	switch {
	case d.e.About().Clients != algorithm.Users:
		r, err = d.organisation(ctx, own)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s has no %s, so that no user can be fitted; ask the result of a user's own client by fednode recommend", ErrNotOwn, d.dir, results.SharedFile)
	case err == nil:
		r, err = d.fittedLater(ctx, own, shared)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, err)
	}
	session := d.e.Session()
	r.Session = fmt.Sprintf("%x", session[:])
	return r, nil
}

// fittedLater returns the model that fits each user of a set when the user is asked for.
func (d *deployment) fittedLater(ctx context.Context, own *dataset.Set, shared []byte) (*Recommender, error) {
	items := *d.e.Data
	if err := d.title(ctx, &items, own, d.Titles); err != nil {
		return nil, err
	}
	r, err := newRelease(d.e, &items, shared)
	if err != nil {
		return nil, err
	}
	return r.over(own)
}

// organisation opens the result of an organisation, which has embeddings of its users and items, or of its server,
// which has one of the two. It answers for the users as the session left them, and leaves out the items that they
// rated in Data.
func (d *deployment) organisation(ctx context.Context, own *dataset.Set) (*Recommender, error) {
	items, users, err := d.embeddings()
	if err != nil {
		return nil, err
	}
	if items.Matrix == nil {
		return nil, fmt.Errorf("%w: it has no embeddings of items; ask the results of the organisations", ErrNotOwn)
	}
	set := *d.e.Data
	set.ItemIDs, set.Items = items.IDs, len(items.IDs)
	if err = d.title(ctx, &set, own, d.Titles); err != nil {
		return nil, err
	}
	set.UserIDs, set.Users = users.IDs, len(users.IDs)
	rel := &release{config: d.e.Config, items: &set, place: indexOf(set.ItemIDs)}
	set.Ratings, _ = rel.rated(own, own.ByUser())
	r := &Recommender{Config: d.e.Config, Data: &set, train: set.Ratings.ByUser(), release: rel, saved: &algorithm.Saved{Items: items.Matrix}}
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
