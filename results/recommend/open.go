// Package recommend asks the model of a finished run: recommendations, similar items, predictions, and the test that measured it.
// [Open] opens the folder of a run, on its own data or on any ratings, and what a deployment left.
package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/dataset/published"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// Recommender is the model of a finished run with the data it was trained on. It is read-only and safe for concurrent use.
type Recommender struct {
	Config config.Config
	Data   *dataset.Set

	// Changed says that the data differ from the data of the run, and what that means; "" if they are equal.
	Changed string
	// Session is the session of a deployment's model, in hex; "" if the model is of a simulated run.
	Session string

	train *dataset.Rows
	saved *algorithm.Saved

	// Of data other than the run's, own holds the ratings by which users are fitted to the release, and rows the
	// same by user; nil: users are as the run left them.
	own  *dataset.Set
	rows *dataset.Rows
	// absent holds the users of the run who have no rating in such data.
	absent map[string]bool

	release *release
	// later opens the release behind a run on its own data, when it is first asked for; nil if release is all there is.
	later func() (*release, error)
}

// Options say for which ratings and which users a folder is opened.
type Options struct {
	// Data names ratings; "" stands for the data of the run. Of a deployment they are ratings of any users, User among them; "" stands
	// for none. With Items, Data is a folder with titles.
	Data string
	// Form changes how Data are read, which are taken for ratings other than the run's; nil changes nothing.
	Form func(*config.Config)
	// Progress hears the number of bytes of data read so far; it may be nil.
	Progress func(done, total int64)
	// Other accepts ratings other than the run's. Without it the digests of data and split must equal the digests of the
	// manifest; otherwise the error wraps results.ErrOtherData.
	Other bool

	// Session is the session of a deployment whose result the folder holds; nil for a run. No more is read than files.
	Session *experiment.Experiment
	// User is the only user that is asked for; "" stands for all users that the folder can answer. A deployment's model answers
	// for the users of Data, who are fitted to it, and for users that give their ratings. The result of an organisation answers
	// for its own users. The result of a user's client answers for that user, or for the only user of Data.
	User string
	// Items opens a deployment's model for the question which items are similar.
	Items bool
	// Titles is a folder with titles of items; "" stands for the titles beside the ratings.
	Titles string
}

// Open opens the folder of a finished run, or with Session the folder that a deployment left.
func Open(ctx context.Context, dir string, o Options) (*Recommender, error) {
	if o.Session != nil {
		d := deployment{o, dir}
		return d.open(ctx)
	}
	r, _, err := openRun(ctx, dir, o)
	return r, err
}

// openRun opens a run: on its own data, which it reads again and divides, or by other ratings if these are accepted. Such ratings
// change nothing in the model: a user is fitted to the model that the run released, as the user's client would do. If the algorithm
// has no such fit, the users are as the run left them. Changed says which is the case.
func openRun(ctx context.Context, dir string, o Options) (*Recommender, *split.Parts, error) {
	c, m, err := results.ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	data := cmp.Or(o.Data, algorithm.Data.Of(c))
	if o.Form == nil {
		set, failed := experiment.OpenData(experiment.Hear(ctx, func(string) {}), c, data, o.Progress) // the run has warned of its data
		switch {
		case errors.Is(failed, fs.ErrNotExist) || errors.Is(failed, published.ErrNotDownloaded):
			err = fmt.Errorf("the data of the run are not there: %w; where they have moved, say --data, or put them into a folder ratings beside the run", failed)
		case failed != nil:
			err = failed
		case set.Digest != m.DataDigest:
			err = fmt.Errorf("%w: the run was made on %s with digest %s, and %s has %s", results.ErrOtherData, m.Data, m.DataDigest, data, set.Digest)
		default:
			return openOwn(dir, c, m, set)
		}
		if !o.Other || o.Data == "" && !errors.Is(err, results.ErrOtherData) {
			return nil, nil, err
		}
	}
	rel, failed := releaseOf(dir, c)
	if failed != nil {
		if errors.Is(err, results.ErrOtherData) {
			failed = fmt.Errorf("%w; %w", err, failed)
		}
		return nil, nil, failed
	}
	if o.Form != nil {
		o.Form(&c)
	}
	own, err := experiment.OpenOther(ctx, c, data, rel.items.Min-rel.items.Shift, rel.items.Max-rel.items.Shift, o.Progress)
	if err != nil {
		return nil, nil, err
	}
	r, err := rel.over(own)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	r.Changed = fmt.Sprintf("%s has other ratings than %s had in the run; %s%s", data, m.Data, rel.meaning(), rel.strange(own))
	return r, nil, nil
}

// openOwn opens a run on its own data.
func openOwn(dir string, c config.Config, m results.Manifest, set *dataset.Set) (*Recommender, *split.Parts, error) {
	parts, err := experiment.Divide(c, set)
	if err != nil {
		return nil, nil, err
	}
	if parts.Digest != m.SplitDigest {
		return nil, nil, fmt.Errorf("%w: of %s the run has a split with digest %s, and %s with its settings gives %s",
			results.ErrOtherData, m.Data, m.SplitDigest, version.Get(), parts.Digest)
	}
	r := &Recommender{Config: c, Data: set, train: parts.Held.Known(parts.Train).ByUser()}
	r.later = sync.OnceValues(func() (*release, error) { return releaseOf(dir, c) })
	if err = r.loadRun(dir); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return r, parts, nil
}

// loadRun reads the model of a finished run.
func (r *Recommender) loadRun(dir string) error {
	f, err := results.FilesOf(dir)
	if err != nil {
		return err
	}
	if r.release != nil {
		f.Described = r.release.features
	}
	return r.load(f)
}

// load makes the model from its files, and checks that it fits the data. Some models predict on top of a mean, which is in the
// summary of a run and else has a matrix of its own.
func (r *Recommender) load(f results.Files) (err error) {
	loader, ok := algorithm.Of(r.Config).(algorithm.Loader)
	if !ok {
		return fmt.Errorf("models of %s are not kept, so that it cannot be asked after the run; algorithms with embeddings can", algorithm.Name.Of(r.Config))
	}
	if f.Start == nil && f.Has("mean") {
		m, failed := f.Matrix("mean", 1, 1)
		if failed != nil {
			return failed
		}
		f.Start = &m.Data()[0]
	}
	f.Ratings = r.train
	r.saved, err = loader.Load(r.Config, r.Data, f)
	return err
}

// deployment opens the folder of a session: of its server, which knows no user, or of a client, which knows its own.
type deployment struct {
	Options
	dir string
}

// open opens the folder for what the options name.
func (d *deployment) open(ctx context.Context) (r *Recommender, err error) {
	users := d.Session.About().Clients == algorithm.Users
	if users && d.User != "" && d.Data == "" {
		return nil, fmt.Errorf("%w: the model of a deployment knows no user; say --data, with the user's ratings", ErrNotOwn)
	}
	own := new(dataset.Set)
	if d.Data != "" && !d.Items {
		if own, err = experiment.OpenOwn(ctx, d.Session, d.Data, func(*dataset.FileError) {}); err != nil {
			return nil, err
		}
	}
	shared, err := os.ReadFile(filepath.Join(d.dir, results.SharedFile))
	switch {
	case d.Items || !users:
		r, err = d.embedded(ctx, own)
	case errors.Is(err, fs.ErrNotExist):
		r, err = d.ofClient(ctx, own)
	case err == nil:
		r, err = d.fitted(ctx, own, shared)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.dir, err)
	}
	r.Session = fmt.Sprintf("%x", d.Session.Session())
	return r, nil
}

// fitted returns the model that fits each user of a set when the user is asked for, as the user's client would have.
func (d *deployment) fitted(ctx context.Context, own *dataset.Set, shared []byte) (*Recommender, error) {
	items := *d.Session.Data
	if err := d.title(ctx, &items, own, d.Titles); err != nil {
		return nil, err
	}
	r, err := newRelease(d.Session, &items, shared)
	if err != nil {
		return nil, err
	}
	return r.over(own)
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
	set := *d.Session.Data // the catalogue
	set.Ratings, set.UserIDs = dataset.Ratings{Users: 1, Items: len(set.ItemIDs)}, []string{d.User}
	if u := slices.Index(own.UserIDs, d.User); u >= 0 {
		of := release{items: &set, place: dataset.Places(set.ItemIDs)}
		set.Ratings, _ = of.mapped(own, own.ByUser(), u)
	}
	r := &Recommender{Config: d.Session.Config, Data: &set, train: set.Ratings.ByUser()}
	f := results.Files{Dir: d.dir, Described: d.Session.Features}
	if !f.Has("item_embeddings") {
		return nil, fmt.Errorf("%w: it has no embeddings of items; version 0.1 wrote none", ErrNotOwn)
	}
	if err = r.load(f); errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: there is neither a %s, so that no user can be fitted, nor the result of a user's own client, which fednode recommend asks: %w", ErrNotOwn, results.SharedFile, err)
	}
	if err != nil {
		return nil, err
	}
	return r, d.title(ctx, &set, own, d.Titles) // after the model, which needs the session's features
}

// title gives the items of a set the known titles and genres, by id: from a folder with titles or, for "", from the user's ratings.
func (d *deployment) title(ctx context.Context, set, from *dataset.Set, folder string) error {
	if folder != "" {
		var err error
		if from, err = read.Items(ctx, folder, experiment.DataOptions(d.Session.Config)); err != nil {
			return err
		}
	}
	known := dataset.Places(from.ItemIDs)
	set.Titles, set.Genres = make([]string, set.Items), make([][]string, set.Items)
	for j, id := range set.ItemIDs {
		if k, ok := known[id]; ok {
			x := itemOf(from, int(k))
			set.Titles[j], set.Genres[j] = x.Title, x.Genres
		}
	}
	return nil
}

// embedded opens the result of an organisation, which has embeddings of its users and items, or of its server,
// which has one of the two. It answers for the users as the session left them, and leaves out the items that they
// rated in Data. With Items it opens the embeddings of items alone.
func (d *deployment) embedded(ctx context.Context, own *dataset.Set) (*Recommender, error) {
	all, err := results.ReadEmbeddings(d.dir)
	if err != nil {
		return nil, err
	}
	named := make(map[string]model.Embeddings, len(all))
	for _, x := range all {
		named[x.Name] = x
	}
	items, users := named["item_embeddings"], named["user_embeddings"]
	if items.Matrix == nil {
		return nil, fmt.Errorf("%w: it has no embeddings of items; ask the results of the organisations", ErrNotOwn)
	}
	set := *d.Session.Data
	set.ItemIDs, set.Items = items.IDs, len(items.IDs)
	r := &Recommender{Config: d.Session.Config, Data: &set, saved: &algorithm.Saved{Items: items.Matrix}}
	switch {
	case !d.Items:
		err = d.title(ctx, &set, own, d.Titles)
	case d.Data != "":
		err = d.title(ctx, &set, own, d.Data)
	}
	if err != nil || d.Items {
		return r, err
	}
	set.UserIDs, set.Users = users.IDs, len(users.IDs)
	r.release = &release{config: d.Session.Config, items: &set, place: dataset.Places(set.ItemIDs)}
	set.Ratings, _ = r.release.known(own, own.ByUser())
	r.train = set.ByUser()
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
