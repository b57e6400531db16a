package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sbinet/npyio"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

// small opens the small synthetic set and the training part of runs on it.
func small(t *testing.T) (*dataset.Set, dataset.Ratings) {
	t.Helper()
	set, err := read.Open(t.Context(), "synthetic:small-100", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	split, err := split.Divide(set, split.Params{Test: 0.1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return set, split.Train
}

// writeMatrix writes an .npy file.
func writeMatrix(t *testing.T, path string, m *mat.Dense) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(npyio.Write(f, m), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRecommendFromFiles compares with a sort of everything that the files predict, as
// TestFilesGiveTheStatedError reads them: all items that the user has no training rating
// of. A model with biases, whose mean and biases are replaced by made-up ones, predicts
// mean + item bias + user bias besides.
func TestRecommendFromFiles(t *testing.T) {
	effort.NotShort(t, "runs take seconds")
	const parties = 3
	set, train := small(t)
	for _, tt := range []struct{ name, algorithm string }{
		{"devices", "lfl-sgdmf"}, {"parties with items", "vfl-sgdmf"}, {"parties with users", "hfl-sgdmf"}, {"one place", "sgd-mf"}, {"biases", "ssp-c"}, {"biases, in one place", "als"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"--algorithm", tt.algorithm, "--rank", "3"}
			switch tt.algorithm {
			case "sgd-mf", "als":
			case "ssp-c":
				args = append(args, "--features", "none", "--epsilon", "inf", "--set", "statistics.order-weight=0") // a weight orders otherwise
			default:
				args = append(args, "--rounds", "4", "--accountant", "rdp")
			}
			if tt.algorithm == "vfl-sgdmf" || tt.algorithm == "hfl-sgdmf" {
				args = append(args, "--parties", fmt.Sprint(parties))
			}
			folder := leave(t, args...)
			users, items := matrix(t, filepath.Join(folder, "user_embeddings.npy")), matrix(t, filepath.Join(folder, "item_embeddings.npy"))
			mean, itemBias, userBias := 0., mat.NewDense(set.Items, 1, nil), mat.NewDense(set.Users, 1, nil)
			if strings.HasPrefix(tt.name, "biases") {
				mean = 0.25
				for j := range set.Items {
					itemBias.Set(j, 0, math.Sin(float64(j)))
				}
				for u := range set.Users {
					userBias.Set(u, 0, math.Cos(float64(u)))
				}
				writeMatrix(t, filepath.Join(folder, "item_bias.npy"), itemBias)
				writeMatrix(t, filepath.Join(folder, "user_bias.npy"), userBias)
				summary, err := os.ReadFile(filepath.Join(folder, "summary.json"))
				if err != nil {
					t.Fatal(err)
				}
				with := regexp.MustCompile(`"mean": [0-9.]+`).ReplaceAllString(string(summary), `"mean": 0.25`)
				if err = os.WriteFile(filepath.Join(folder, "summary.json"), []byte(with), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			own := make(map[int]*mat.Dense)
			if tt.algorithm == "hfl-sgdmf" {
				parts, err := split.PartitionUsers(set, parties, 1)
				if err != nil {
					t.Fatal(err)
				}
				for k, part := range parts {
					tuned := matrix(t, filepath.Join(folder, fmt.Sprintf("item_embeddings_party%02d.npy", k+1)))
					for _, u := range part {
						own[int(u)] = tuned
					}
				}
			}
			r, err := recommend.Open(t.Context(), folder, recommend.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range []int{0, 1, 2, 17, 99} {
				v := items
				if own[u] != nil {
					v = own[u]
				}
				rated, _ := train.ByUser().Row(u)
				var want []recommend.Recommendation
				for j := range set.Items {
					if !slices.Contains(rated, int32(j)) {
						p := mean + itemBias.At(j, 0) + userBias.At(u, 0) + mat.Dot(users.RowView(u), v.RowView(j))
						want = append(want, recommend.Recommendation{Item: recommend.Item{ID: set.ItemIDs[j], Title: set.Titles[j]}, Predicted: p})
					}
				}
				slices.SortStableFunc(want, func(a, b recommend.Recommendation) int {
					return -int(math.Copysign(1, a.Predicted-b.Predicted))
				})
				got, err := r.Recommend(set.UserIDs[u], 12)
				if err != nil || len(got) != 12 {
					t.Fatalf("user %d: %d items, %v", u, len(got), err)
				}
				for k, x := range got {
					stars := min(max(want[k].Predicted, set.Min), set.Max)
					if x.ID != want[k].ID || x.Title != want[k].Title || math.Abs(x.Predicted-stars) > 1e-12 {
						t.Errorf("user %d, place %d: %+v, want %+v at %v", u, k+1, x, want[k].Item, stars)
					}
				}
				if all, err := r.Recommend(set.UserIDs[u], 1e6); err != nil || len(all) != set.Items-len(rated) {
					t.Errorf("user %d: %d items of %d, %d of them rated, %v", u, len(all), set.Items, len(rated), err)
				}
			}
			if tt.algorithm != "als" { // als leaves an item without ratings no embedding, and such an item is like no other
				checkSimilar(t, r, set, items)
			}
		})
	}
}

// checkSimilar compares with cosines by gonum, of the shared embeddings.
func checkSimilar(t *testing.T, r *recommend.Recommender, set *dataset.Set, items *mat.Dense) {
	t.Helper()
	for _, of := range []int{0, 5, 399} {
		cosine := func(j int) float64 {
			return mat.Dot(items.RowView(of), items.RowView(j)) / mat.Norm(items.RowView(of), 2) / mat.Norm(items.RowView(j), 2)
		}
		like, err := r.Similar(set.Titles[of], 400, recommend.Cosine)
		if err != nil || like.Item.ID != set.ItemIDs[of] || len(like.Items) != set.Items-1 {
			t.Fatalf("%s: like it are %+v, %v", set.Titles[of], like, err)
		}
		got, seen := like.Items, map[string]bool{like.Item.ID: true}
		for k, x := range got {
			j := slices.Index(set.ItemIDs, x.ID)
			if seen[x.ID] || math.Abs(x.Nearness()-cosine(j)) > 1e-12 || k > 0 && x.Nearness() > got[k-1].Nearness() {
				t.Errorf("%s, place %d: %+v, the cosine is %v", like.Item, k+1, x, cosine(j))
			}
			seen[x.ID] = true
		}
	}
}

// TestOpenRunMissesBiases: what predictions are made of must all be there, else they would be others, and look
// as good.
func TestOpenRunMissesBiases(t *testing.T) {
	whole := leave(t, "--algorithm", "private-item-bias", "--baselines", "quick")
	summary, err := os.ReadFile(filepath.Join(whole, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var parts map[string]json.RawMessage
	if err = json.Unmarshal(summary, &parts); err != nil {
		t.Fatal(err)
	}
	delete(parts, "mean")
	without, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, content string // "" removes the file
		message       string
	}{
		{"item_bias.npy", "", "item_bias.npy"},
		{"user_bias.npy", "", "user_bias.npy"},
		{"summary.json", string(without), "summary.json: there is no mean"},
	} {
		dir := t.TempDir()
		if err = os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		if _, err = recommend.Open(t.Context(), dir, recommend.Options{}); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, tt.name)
		if err = os.Remove(file); err == nil && tt.content != "" {
			err = os.WriteFile(file, []byte(tt.content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err = recommend.Open(t.Context(), dir, recommend.Options{}); err == nil || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("without %s: error %v, want %q in it", tt.name, err, tt.message)
		}
	}
}

// TestOpenRunRefuses damages the folder of a run, each time in one way.
func TestOpenRunRefuses(t *testing.T) {
	whole := leave(t, "--algorithm", "sgd-mf", "--rank", "2")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	npy, config := read("item_embeddings.npy"), read("config.yaml")
	var manifest results.Manifest
	if err := json.Unmarshal([]byte(read("manifest.json")), &manifest); err != nil {
		t.Fatal(err)
	}
	infinite := npy[:len(npy)-8] + "\x00\x00\x00\x00\x00\x00\xf0\x7f"
	for _, tt := range []struct {
		what, name, content string // "" removes the file
		message             string
		sentinel            error
	}{
		{"no configuration", "config.yaml", "", "is not the folder of a finished run", os.ErrNotExist},
		{"no manifest", "manifest.json", "", "is not the folder of a finished run", os.ErrNotExist},
		{"a manifest cut short", "manifest.json", "{", "manifest.json: unexpected end of JSON input", nil},
		{"no summary", "summary.json", "", "summary.json", os.ErrNotExist},
		{"no users", "user_embeddings.npy", "", "user_embeddings.npy", os.ErrNotExist},
		{"another key", "config.yaml", config + "epsilom: 1\n", `unknown key "epsilom"`, nil},
		{"another rank", "config.yaml", strings.Replace(config, "rank: 2", "rank: 3", 1), "it is 400 x 2; by the run's data and rank it must be 400 x 3", nil},
		{"another seed", "config.yaml", strings.Replace(config, "\nseed: 1", "\nseed: 2", 1), "the run has a split with digest " + manifest.SplitDigest, results.ErrOtherData},
		{"other data", "config.yaml", strings.Replace(config, "synthetic:small", "synthetic:ml-1m", 1), "the run was made on synthetic:small-100 with digest " + manifest.DataDigest, results.ErrOtherData},
		{"data that are gone", "config.yaml", strings.Replace(config, "synthetic:small", "gone.csv", 1), "where they have moved, say --data", os.ErrNotExist},
		{"a matrix cut short", "item_embeddings.npy", npy[:len(npy)-1], "6399 bytes follow its header; for 400 x 2 numbers there must be 6400", nil},
		{"a matrix with more", "item_embeddings.npy", npy + "x", "6401 bytes follow its header", nil},
		{"a header cut short", "item_embeddings.npy", npy[:20], "it is not a matrix of float64 in NumPy's format", nil},
		{"nothing", "item_embeddings.npy", "\x93NUMPY", "it is not a matrix of float64", nil},
		{"text", "item_embeddings.npy", "a,b\n1,2\n", "it is not a matrix of float64", nil},
		{"by columns", "item_embeddings.npy", strings.Replace(npy, "False", "True ", 1), "it is not a matrix of float64", nil},
		{"no number", "item_embeddings.npy", infinite, "number 799 is +Inf; the run diverged", nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			if tt.content == read(tt.name) {
				t.Fatal("nothing is damaged")
			}
			var err error
			if path := filepath.Join(dir, tt.name); tt.content == "" {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, []byte(tt.content), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := recommend.Open(t.Context(), dir, recommend.Options{})
			if r != nil || err == nil || !strings.Contains(err.Error(), tt.message) || tt.sentinel != nil && !errors.Is(err, tt.sentinel) {
				t.Errorf("error %v, want %q in it, and %v", err, tt.message, tt.sentinel)
			}
		})
	}
}

// TestRecommendFromItemsAlone checks a run of objective-perturbation, which leaves item embeddings alone. A question fits the user again. With rank 1 the fit is a quotient, with a
// start that weighs as one rating: u = (Σxv + 3.5·√3.5)/(Σv² + 3.5).
func TestRecommendFromItemsAlone(t *testing.T) {
	_, train := small(t)
	folder := leave(t, "--algorithm", "objective-perturbation")
	for _, file := range []string{"user_embeddings.npy", "user_embeddings.ids.json"} {
		if _, err := os.Stat(filepath.Join(folder, file)); err == nil {
			t.Errorf("%s was written, which no statement of privacy covers", file)
		}
	}
	items := matrix(t, filepath.Join(folder, "item_embeddings.npy"))
	r, err := recommend.Open(t.Context(), folder, recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, _ := small(t)
	for _, u := range []int{0, 17, 99} {
		rated, values := train.ByUser().Row(u)
		top, bottom := 3.5*math.Sqrt(3.5), 3.5
		for k, j := range rated {
			v := items.At(int(j), 0)
			top, bottom = top+float64(values[k])*v, bottom+v*v
		}
		got, err := r.Recommend(set.UserIDs[u], 1)
		if err != nil || len(got) != 1 {
			t.Fatalf("user %d: %v, %v", u, got, err)
		}
		best := 0.
		for j := range set.Items {
			if !slices.Contains(rated, int32(j)) {
				best = max(best, items.At(j, 0)*min(top/bottom, math.Sqrt(set.Max)))
			}
		}
		if want := min(best, set.Max); math.Abs(got[0].Predicted-want) > 1e-9 {
			t.Errorf("user %d is recommended something of %v stars; want %v", u, got[0].Predicted, want)
		}
	}
}

// The lists that a run writes are the lists that it was measured on: read back by rank or by score, every user's metric is the run's.
// The orders by popularity and taste and by stars differ, so that a reader of the stars gets another figure.
func TestListsOfARunReadBack(t *testing.T) {
	effort.NotShort(t, "runs take seconds")
	path, _ := ratingsFile(t, "synthetic:small-80")
	run := newUsersRun(t, path, "ssp-c")
	r, err := recommend.Open(t.Context(), run.Folder, recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lists.csv")
	var b strings.Builder
	if _, _, err = r.WriteLists(t.Context(), &b, "csv", 20, protocol.Workers(1)); err != nil {
		t.Fatal(err)
	}
	for without, same := range map[string]bool{"": true, "rank": true, "rank score": false} {
		text := b.String()
		for column := range strings.FieldsSeq(without) {
			text = strings.Replace(text, column, "other", 1)
		}
		if err = os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := study.Compare(t.Context(), run.Folder, file, study.CompareParams{Metric: "ndcg@10", Resamples: 100, Seed: 1})
		if err != nil || (c.Difference == 0 && c.BetterA+c.BetterB == 0) != same {
			t.Errorf("without %q: %+v, %v", without, c, err)
		}
	}
}

// fullDisk takes no byte.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFullDiskIsNamedOnce writes answers to a full disk. Each is printed in parts, and one error says so for all.
func TestFullDiskIsNamedOnce(t *testing.T) {
	folder := leave(t, "--algorithm", "private-item-bias")
	for _, args := range [][]string{{"recommend", "--run", folder, "--user", "1"}, {"overlap", folder, folder}, {"results", folder}, {"data", "info", "synthetic:small-60"}} {
		var errs bytes.Buffer
		code := run(t.Context(), args, verb.Streams{Out: fullDisk{}, Err: &errs})
		if n := strings.Count(errs.String(), syscall.ENOSPC.Error()); code == 0 || n != 1 {
			t.Errorf("%s: exit %d, the error is there %d times:\n%s", args[0], code, n, errs.String())
		}
	}
}
