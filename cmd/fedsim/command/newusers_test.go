package command

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/results/recommend"
)

// ratingsFile writes a generated set as ratings.csv and movies.csv, to be appended to.
func ratingsFile(t *testing.T, spec string) (path string, set *dataset.Set) {
	t.Helper()
	set, err := read.Open(t.Context(), spec, read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ratings, movies := [][]string{{"userId", "movieId", "rating"}}, [][]string{{"movieId", "title", "genres"}}
	set.Each(func(u, j int32, v float32) {
		ratings = append(ratings, []string{set.UserIDs[u], set.ItemIDs[j], strconv.FormatFloat(float64(v), 'g', -1, 32)})
	})
	for j, id := range set.ItemIDs {
		movies = append(movies, []string{id, set.Titles[j], strings.Join(set.Genres[j], "|")})
	}
	for name, rows := range map[string][][]string{"ratings.csv": ratings, "movies.csv": movies} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err = errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "ratings.csv"), set
}

// add appends rows to a file.
func add(t *testing.T, path string, rows ...string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(strings.Join(rows, "\n") + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// newUsersRun keeps a small run of an algorithm.
func newUsersRun(t *testing.T, path, name string) *fedsim.Result {
	t.Helper()
	about := algorithm.Find(name).About()
	settings := map[string]string{"data": path, "baselines": "quick", "out": t.TempDir(), "name": "one", "split.test": "0.2", "algorithm": name}
	if about.Private {
		settings["epsilon"] = "inf"
	}
	if about.Rounds != nil {
		settings["rounds"] = "2"
	}
	if passes := strings.TrimSuffix(name, "-mf") + ".passes"; config.Find(passes) != nil {
		settings[passes] = "3"
	}
	if about.Clients.Organisations() && !about.OneParty {
		settings["parties"], settings["tolerance"] = "2", "0"
	}
	run, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// givenOf returns a user's ratings of a part, as a user gives them.
func givenOf(set *dataset.Set, part dataset.Ratings, user int) (given []recommend.Given) {
	items, values := part.ByUser().Row(user)
	for k, j := range items {
		v := float64(values[k])
		given = append(given, recommend.Given{Item: dataset.ID(set.ItemIDs[j]), Rating: &v})
	}
	return given
}

// Every algorithm answers for a user and for ratings that its run did not have, or says why it cannot.
// Where it answers, a user of the run who gives the training ratings gets what the run predicts.
func TestUsersThatTheRunDidNotHave(t *testing.T) {
	popular := []string{"ssp-c", "ssp-i", "dp-cmf", "ssp-convex", "private-item-bias", "private-ease"} // by the table of algorithms: with biases of items
	short := []string{"ssp-c", "lfl-sgdmf", "sgd-mf", "fmf-hfl", "fmf-vfl", "cond-dp", "als"}
	for _, name := range algorithm.Names() {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && !slices.Contains(short, name) {
				t.Skip("one of each kind is enough")
			}
			t.Parallel()
			path, set := ratingsFile(t, "synthetic:small-40")
			run := newUsersRun(t, path, name)
			fits := algorithm.Find(name).About().Clients == algorithm.Users
			r, err := recommend.Open(t.Context(), run.Folder, recommend.Options{Other: true})
			if _, loads := algorithm.Find(name).(algorithm.Loader); !loads {
				if err == nil || !strings.Contains(err.Error(), "are not kept") {
					t.Error(err)
				}
				return
			}
			if err != nil || r.Changed != "" {
				t.Fatal(err, r.Changed)
			}
			parts, err := split.Divide(set, split.Params{Test: 0.2, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			want, err := r.Answer(set.UserIDs[3], 5)
			if err != nil {
				t.Fatal(err)
			}
			given := givenOf(set, parts.Train, 3)
			if algorithm.Find(name).About().OnlyRanks { // trained on likes of at least four stars, and on all of a user who is not held out
				given = slices.DeleteFunc(givenOf(set, set.Ratings, 3), func(g recommend.Given) bool { return *g.Rating < 4 })
			}
			got, err := r.AnswerTo("guest", given, 5)
			switch {
			case !fits && !errors.Is(err, recommend.ErrNotOwn):
				t.Errorf("ratings were taken in: %v", err)
			case !fits:
			case err != nil || got.By != recommend.ByFit:
				t.Errorf("%v, %+v", err, got)
			case cmp.Diff(untied(want.Items), untied(got.Items), cmpopts.EquateApprox(0, 1e-9)) != "":
				t.Errorf("by the training ratings (-run +fit):\n%s", cmp.Diff(want, got))
			}
			if _, err = r.Popular(3); (err == nil) != slices.Contains(popular, name) && fits {
				t.Errorf("popularity: %v", err)
			}
			changed(t, run.Folder, path, set, fits)
		})
	}
}

// changed appends to the data of a run, and asks it for a user of the run, a guest with two ratings and a
// stranger with none of the run's items.
func changed(t *testing.T, dir, path string, set *dataset.Set, fits bool) {
	t.Helper()
	before := len(givenOf(set, set.Ratings, 0))
	add(t, path, set.UserIDs[0]+",item of tomorrow,4", "guest,"+set.ItemIDs[0]+",5", "guest,"+set.ItemIDs[1]+",1", "stranger,item of tomorrow,5")
	r, err := recommend.Open(t.Context(), dir, recommend.Options{Other: true})
	if err != nil || !strings.Contains(r.Changed, "has other ratings") {
		t.Fatalf("%v", err)
	}
	want := recommend.Basis{By: recommend.ByRun, Ratings: before}
	if fits {
		want = recommend.Basis{By: recommend.ByFit, Ratings: before, Unknown: 1}
	}
	got, err := r.Answer(set.UserIDs[0], 400)
	if err != nil || got.Basis != want {
		t.Fatalf("a user of the run: %+v, %v; want %+v", got, err, want)
	}
	for _, x := range got.Items {
		if slices.ContainsFunc(givenOf(set, set.Ratings, 0), func(g recommend.Given) bool { return string(g.Item) == x.ID }) {
			t.Errorf("%s is rated, and recommended", x.ID)
		}
	}
	got, err = r.Answer("guest", 2)
	switch {
	case fits && (err != nil || len(got.Items) != 2 || got.Basis != recommend.Basis{By: recommend.ByFit, Ratings: 2}):
		t.Errorf("a guest: %+v, %v", got, err)
	case !fits && (!errors.Is(err, recommend.ErrNotOwn) || !strings.Contains(err.Error(), "Run again with the new ratings")):
		t.Errorf("a guest: %v", err)
	}
	got, err = r.Answer("stranger", 2)
	switch popular, failed := r.Popular(2); {
	case !fits && !errors.Is(err, recommend.ErrNotOwn), fits && failed != nil && !errors.Is(err, recommend.ErrNoPopularity):
		t.Errorf("a stranger: %v", err)
	case fits && failed == nil && (err != nil || got.By != recommend.ByPopularity || cmp.Diff(popular.Items, got.Items) != ""):
		t.Errorf("a stranger: %+v, %v", got, err)
	}
}

// untied returns a list without the names of items that may have changed places. The order of equal scores is drawn by the
// name of the user, and the last item may have equals below it.
func untied(list []recommend.Recommendation) []recommend.Recommendation {
	out := slices.Clone(list)
	for i := range out {
		if i == len(out)-1 || list[i].Score-list[i+1].Score < 1e-9 || i > 0 && list[i-1].Score-list[i].Score < 1e-9 {
			out[i].Item = recommend.Item{}
		}
	}
	return out
}
