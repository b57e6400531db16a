// Package recommend asks the model of a finished run: recommendations, similar items, predictions, and the test that measured it.
// [Open] opens the folder of a run, on its own data or on any ratings, and what a deployment left.
package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/published"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// Recommender is the model in the folder of a finished run, with the data it was trained on. It is
// read-only and safe for concurrent use.
type Recommender struct {
	Config config.Config
	Data   *dataset.Set

	// Changed says that the data differ from the data of the run, and what that means; "" if they are equal.
	Changed string
	// Session is the session of a deployment's model, in hex; "" if the model is of a simulated run.
	Session string

	train *dataset.Rows
	test  *dataset.Rows // nil with implicit feedback
	saved *algorithm.Saved

	// Of data other than the run's, own holds the ratings by which users are fitted to the release, and rows the
	// same by user; nil: users are as the run left them.
	own  *dataset.Set
	rows *dataset.Rows
	// absent holds the users of the run who have no rating in such data.
	absent map[string]bool

	dir        string // of the run; "" if the model is not from the folder of a run
	opening    sync.Once
	release    *release
	unreleased error // of opening the release
}

// Options say for which ratings and which users a folder is opened.
type Options struct {
	// Data names ratings; "" stands for the data of the run. Of a deployment they are ratings of User or, with All, of any
	// users. With Items, Data is a folder with titles.
	Data string
	// Form changes how Data are read; nil changes nothing.
	Form func(*config.Config)
	// Progress hears the number of bytes of data read so far; it may be nil.
	Progress func(done, total int64)
	// Other accepts ratings other than the run's. Without it the digests of data and split must equal the digests of the
	// manifest; otherwise the error wraps results.ErrOtherData.
	Other bool

	// Session is the session of a deployment whose result the folder holds; nil for a run. No more is read than files.
	Session *experiment.Experiment
	// User is the only user that is asked for; "" stands for the only user of Data.
	User string
	// All opens a deployment's model for all users that it can answer. Users that give their ratings are fitted too. The result
	// of an organisation answers for the organisation's own users. Without Data no user of other clients is known.
	All bool
	// Items opens a deployment's model for the question which items are similar.
	Items bool
	// Titles is a folder with titles of items; "" stands for the titles beside the ratings.
	Titles string
}

// Open opens the folder of a finished run, or with Session the folder that a deployment left.
func Open(ctx context.Context, dir string, o Options) (*Recommender, error) {
	switch {
	case o.Session != nil:
		d := deployment{Options: o, dir: dir, e: o.Session}
		return d.open(ctx)
	case o.Other:
		return openRelease(ctx, dir, o)
	}
	r, err := openRun(ctx, dir, o)
	return r.Recommender, err
}

// openedRun is a run with the split of its data.
type openedRun struct {
	*Recommender // nil after an error
	parts        *split.Parts
	same         bool // the data equal the data of the run, whatever the error
}

// openRun opens a run on its own data, which it reads again.
func openRun(ctx context.Context, dir string, opts Options) (o openedRun, err error) {
	c, m, err := results.ReadConfig(dir)
	if err != nil {
		return o, err
	}
	data := cmp.Or(opts.Data, algorithm.Data.Of(c))
	set, err := experiment.OpenData(ctx, c, data, opts.Progress)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, published.ErrNotDownloaded) {
		return o, fmt.Errorf("the data of the run are not there: %w; where they have moved, say --data", err)
	}
	if err != nil {
		return o, err
	}
	if set.Digest != m.DataDigest {
		return o, fmt.Errorf("%w: the run was made on %s with digest %s, and %s has %s", results.ErrOtherData, m.Data, m.DataDigest, data, set.Digest)
	}
	o.same = true
	if o.parts, err = experiment.Divide(c, set); err != nil {
		return o, err
	}
	if o.parts.Digest != m.SplitDigest {
		return o, fmt.Errorf("%w: of %s the run has a split with digest %s, and %s with its settings gives %s",
			results.ErrOtherData, m.Data, m.SplitDigest, version.Get(), o.parts.Digest)
	}
	r := &Recommender{Config: c, Data: set, train: o.parts.Train.ByUser(), dir: dir}
	if o.parts.Held != nil {
		r.train = known(o.parts.Held).ByUser()
	} else {
		r.test = o.parts.Test.ByUser()
	}
	if err = r.loadRun(dir); err != nil {
		return o, fmt.Errorf("%s: %w", dir, err)
	}
	o.Recommender = r
	return o, nil
}

// EachError calls hear with the error of each prediction of a test rating, in stars, user by user;
// with implicit feedback there are none. Predictions are clamped to the rating scale.
func (r *Recommender) EachError(hear func(user int, d float64)) error {
	if r.test == nil {
		return nil
	}
	scores := make([]float64, r.Data.Items)
	for u := range r.Data.Users {
		r.test.Lend(u, func(items []int32, values []float32) {
			if len(items) == 0 {
				return
			}
			r.saved.Score(u, scores)
			predicted := model.At(scores, items)
			for i, x := range predicted {
				hear(u, min(max(x, r.Data.Min), r.Data.Max)-float64(values[i]))
			}
		})
	}
	return nil
}

// known returns the ratings that embeddings were made from: the training ratings and the histories
// of held-out users.
func known(h *split.HoldOut) dataset.Ratings {
	if h.Seen {
		return h.Train
	}
	all := dataset.Ratings{Users: h.Train.Users, Items: h.Train.Items}
	for _, part := range []dataset.Ratings{h.Train, h.Validation.History, h.Test.History} {
		all.User, all.Item, all.Value = append(all.User, part.User...), append(all.Item, part.Item...), append(all.Value, part.Value...)
	}
	return all
}

// loadRun reads the model of a finished run.
func (r *Recommender) loadRun(dir string) error {
	f, err := results.FilesOf(dir)
	if err != nil {
		return err
	}
	f.Ratings = r.train
	if r.release != nil {
		f.Described = r.release.features
	}
	return r.load(f)
}

// load makes the model from its files, and checks that it fits the data.
func (r *Recommender) load(f results.Files) (err error) {
	loader, ok := algorithm.Of(r.Config).(algorithm.Loader)
	if !ok {
		return fmt.Errorf("models of %s are not kept, so that it cannot be asked after the run; algorithms with embeddings can", algorithm.Name.Of(r.Config))
	}
	r.saved, err = loader.Load(r.Config, r.Data, f)
	return err
}
