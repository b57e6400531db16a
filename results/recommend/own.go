package recommend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/results"
)

// ErrNotOwn is wrapped by the error for a client's result that cannot give recommendations.
var ErrNotOwn = errors.New("no recommendations from this result")

// Own names the files on the device of a user's own client: the folder of the result that a session
// left, the experiment of that session, and the user's own ratings.
type Own struct {
	Dir        string
	Experiment *experiment.Experiment
	Data       string // the user's ratings, as the client reads them; titles too, if it has them
	User       string // the user in Data; "" if Data holds one user's ratings
	Titles     string // folder of the catalogue with titles; "" for only the titles in Data
}

// Open opens the recommender of one user. It reads files of the device alone. The recommender's
// only user is the user of the result. Recommendations leave out all items that the user has rated,
// test part included.
func (o Own) Open(ctx context.Context) (*Recommender, error) {
	if o.Experiment.About().Clients != algorithm.Users {
		return nil, fmt.Errorf("%w: its algorithm is %s, whose clients are %s; ask on the clients, which hold the users", ErrNotOwn,
			o.Experiment.About().Name, o.Experiment.About().Clients)
	}
	own, err := experiment.OpenOwn(ctx, o.Experiment, o.Data, func(*dataset.FileError) {})
	if err != nil {
		return nil, err
	}
	set := *o.Experiment.Data // the catalogue
	rated, err := o.rated(own, set.ItemIDs)
	if err != nil {
		return nil, err
	}
	if err = ownedBy(o.Dir, o.User); err != nil {
		return nil, err
	}
	set.Ratings, set.UserIDs = *rated, []string{o.User}
	r := &Recommender{Config: o.Experiment.Config, Data: &set, train: rated.ByUser()}
	if err = r.loadOwn(o.Dir, o.Experiment.Features); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Dir, err)
	}
	return r, o.title(ctx, &set, own) // after the model, which needs the session's features
}

// rated returns the user's ratings, by the item indices of the catalogue.
func (o *Own) rated(own *dataset.Set, catalogue []string) (*dataset.Ratings, error) {
	user := 0
	switch {
	case o.User != "":
		user = slices.Index(own.UserIDs, o.User) // -1: a user without ratings
	case len(own.UserIDs) == 1:
		o.User = own.UserIDs[0]
	case len(own.UserIDs) > 1:
		return nil, fmt.Errorf("%w: %s has ratings of %d users; say whose with --user", ErrAmbiguous, o.Data, len(own.UserIDs))
	default:
		user = -1
	}
	if user < 0 {
		return &dataset.Ratings{Users: 1, Items: len(catalogue)}, nil
	}
	out, _ := mapped(indexOf(catalogue), len(catalogue), own, own.ByUser(), user)
	return &out, nil
}

// ownedBy returns an error if a client's result is of another user. A result without an id is of any.
func ownedBy(dir, user string) error {
	users, err := results.UsersOf(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || user == "":
		return nil
	case err != nil:
		return err
	case len(users) != 1 || users[0] == "" || users[0] == user:
		return nil
	}
	return fmt.Errorf("%w: user %q; %s is the result of the client of user %q", ErrNotThere, user, dir, users[0])
}

// title gives the catalogue the known titles and genres, by id.
func (o *Own) title(ctx context.Context, set, own *dataset.Set) error {
	from := own
	if o.Titles != "" {
		var err error
		if from, err = read.Items(ctx, o.Titles, experiment.DataOptions(o.Experiment.Config)); err != nil {
			return err
		}
	}
	known := make(map[string]int, from.Items)
	for j, id := range from.ItemIDs {
		known[id] = j
	}
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
	return r.loadFrom(f)
}

// loadFrom makes the model from its files.
func (r *Recommender) loadFrom(f algorithm.Files) error {
	loader, ok := algorithm.Of(r.Config).(algorithm.Loader)
	if !ok {
		return fmt.Errorf("%w: models of %s cannot be read back", ErrNotOwn, algorithm.Name.Of(r.Config))
	}
	var err error
	r.saved, err = loader.Load(r.Config, r.Data, f)
	return err
}

// PrintRecommendations writes the result of Recommend as a table.
func (r *Recommender) PrintRecommendations(w io.Writer, list []Recommendation) error {
	unit := "SCORE"
	switch {
	case r.Stars() && r.OrdersByMore():
		unit = "SCORE\tSTARS"
	case r.Stars():
		unit = "STARS"
	}
	rows := make([]string, len(list))
	for i, x := range list {
		rows[i] = fmt.Sprintf("%.2f\t%s", x.Predicted, cells(x.Item))
		if r.Stars() && r.OrdersByMore() {
			rows[i] = fmt.Sprintf("%.2f\t%s", x.Score, rows[i])
		}
	}
	return printTable(w, unit, "", rows)
}

// printTable writes rows of a number and an item.
func printTable(w io.Writer, number, last string, rows []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, number+"\tID\tTITLE\tGENRES"+last+"\n"+strings.Join(append(rows, ""), "\n")); err != nil {
		return err
	}
	return t.Flush()
}

// cells returns an item's part of a table row.
func cells(i Item) string {
	title, genres := i.Title, strings.Join(i.Genres, ", ")
	if title == "" {
		title = "-"
	}
	if genres == "" {
		genres = "-"
	}
	return i.ID + "\t" + title + "\t" + genres
}
