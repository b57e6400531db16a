package command

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
	"github.com/fedsim/fedsim/sim"
)

// serverModel returns the folder of a server after a session, here a simulated session, and the model of
// the simulation.
func serverModel(t *testing.T, settings string) (dir string, e *experiment.Experiment, trained *model.Trained) {
	t.Helper()
	e = opened.Experiment(t, settings+" split.test=0") // a deployment holds nothing out
	f, err := e.Federation()
	if err != nil {
		t.Fatal(err)
	}
	out, err := sim.Run(t.Context(), training.Simulation(e, f, nil))
	if err != nil {
		t.Fatal(err)
	}
	if trained, err = e.Final(f, out.Model, e.Workers()); err != nil {
		t.Fatal(err)
	}
	public, err := agreement.Of(e, e.Session())
	if err != nil {
		t.Fatal(err)
	}
	text, err := public.Encode()
	if err != nil {
		t.Fatal(err)
	}
	shared, err := e.Instance().Shared(out.Model)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, x := range shared {
		if err = results.WriteEmbeddings(dir, x); err != nil {
			t.Fatal(err)
		}
	}
	if err = results.WriteDeployed(dir, text, out.Model); err != nil {
		t.Fatal(err)
	}
	return dir, e, trained
}

// Of the model that a server leaves, and a user's ratings, fedsim recommend predicts what the
// user's own client predicts in the simulation.
func TestRecommendOnADeploymentsModel(t *testing.T) {
	for _, settings := range []string{"algorithm=fmf-lfl rank=2 rounds=3", "algorithm=ssp-c rounds=2 epsilon=200 statistics.order-weight=0", "algorithm=private-item-bias epsilon=200 statistics.order-weight=0"} { // a weight orders otherwise
		t.Run(strings.Fields(settings)[0], func(t *testing.T) {
			dir, e, trained := serverModel(t, settings+" data=synthetic:small-60 baselines=quick")
			user := e.Data.UserIDs[7]
			rated := make(map[string]bool)
			items, _ := e.Data.ByUser().Row(7)
			for _, j := range items {
				rated[e.Data.ItemIDs[j]] = true
			}
			place := make(map[string]int32)
			for j, id := range e.Data.ItemIDs {
				place[id] = int32(j)
			}
			text, _ := called(t, []string{"recommend", "--run", dir, "--user", user, "--data", "synthetic:small-60", "--format", "json", "--top", "40"})
			var got struct{ Items []recommend.Recommendation }
			if err := json.Unmarshal(text, &got); err != nil || len(got.Items) != 40 {
				t.Fatalf("%v: %s", err, text)
			}
			for i, x := range got.Items {
				want := make([]float64, 1)
				trained.Predict(7, []int32{place[x.ID]}, want)
				want[0] = min(max(want[0], e.Data.Min), e.Data.Max)
				if rated[x.ID] || math.Abs(x.Predicted-want[0]) > 1e-9 || i > 0 && x.Predicted > got.Items[i-1].Predicted {
					t.Errorf("%d: item %s with %v, want %v; rated: %v", i, x.ID, x.Predicted, want[0], rated[x.ID])
				}
			}
		})
	}
}

// TestWhatADeploymentsModelTells checks that the model finds similar items without a user. A question that it cannot answer ends with an error that says what to do.
func TestWhatADeploymentsModelTells(t *testing.T) {
	dir, e, _ := serverModel(t, "algorithm=fmf-lfl rank=3 rounds=3 data=synthetic:small-60 baselines=quick")
	item := e.Data.ItemIDs[0]
	text, _ := called(t, []string{"similar", "--run", dir, "--item", item, "--format", "json"})
	var got struct{ Items []recommend.Neighbour }
	if err := json.Unmarshal(text, &got); err != nil || len(got.Items) != 10 || got.Items[0].Nearness() < got.Items[9].Nearness() {
		t.Fatalf("%v: %s", err, text)
	}
	titles := t.TempDir()
	if err := os.WriteFile(filepath.Join(titles, "movies.csv"), []byte("movieId,title,genres\n"+item+",The First (1999),Drama\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, _ = called(t, []string{"similar", "--run", dir, "--item", "the first", "--data", titles}); !strings.Contains(string(text), "like The First (1999) (id "+item+")") {
		t.Errorf("%s", text)
	}
	for args, want := range map[string]string{
		"recommend --user 3": "say --data, with the user's ratings",
		"recommend --user nobody --data synthetic:small-60": `no rating by user "nobody"`,
		"recommend --cold":                  "no popularity was released",
		"recommend --all":                   "say --data with the users' ratings",
		"similar --item nothing":            `item "nothing"`,
		"recommend --user 3 --data nowhere": "nowhere",
	} {
		words := append(strings.Fields(args), "--run", dir)
		if problem := refusedWith(t, words); !strings.Contains(problem, want) {
			t.Errorf("%s: %s, want %q", args, problem, want)
		}
	}
	if err := os.Remove(filepath.Join(dir, results.PublicFile)); err != nil {
		t.Fatal(err)
	}
	if problem := refusedWith(t, []string{"similar", "--run", dir, "--item", item}); !strings.Contains(problem, "before version 0.2") {
		t.Error(problem)
	}
}

// refusedWith returns the error text of a command that fails.
func refusedWith(t *testing.T, args []string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, verb.Streams{Out: &out, Err: &errs}); code == 0 || out.Len() > 0 {
		t.Errorf("fedsim %s: exit %d, %s", strings.Join(args, " "), code, &out)
	}
	return errs.String()
}
