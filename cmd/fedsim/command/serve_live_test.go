package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

// serving starts fedsim serve, and returns where it answers and how to end it. said is told each line that it prints.
func serving(t *testing.T, said func(line string), args ...string) (url string, end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	errs, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), verb.Streams{Out: io.Discard, Err: w})
		w.Close() //nolint:errcheck // it cannot fail
	}()
	at := make(chan string, 1)
	go func() {
		defer close(at)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			if m := regexp.MustCompile(`serving .* at (http://\S+) `).FindStringSubmatch(lines.Text()); m != nil {
				at <- m[1]
			}
			said(lines.Text())
		}
	}()
	url, ok := <-at
	if !ok {
		t.Fatalf("fedsim serve %s ended with %d", strings.Join(args, " "), <-ended)
	}
	return url, func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("exit %d", code)
		}
	}
}

// pointTo has a link lead to a folder, in one step.
func pointTo(t *testing.T, link, dir string) {
	t.Helper()
	if err := errors.Join(os.Symlink(dir, link+".tmp"), os.Rename(link+".tmp", link)); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request, which must be answered with 200, and returns the body and the name of the model.
func ask(t *testing.T, url, path, body string) (text []byte, model string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	q, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Error(err)
		return nil, ""
	}
	defer a.Body.Close() //nolint:errcheck // only read
	if text, err = io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("%s: %d, %v: %s", path, a.StatusCode, err, text)
	}
	return text, a.Header.Get(recommend.ModelHeader)
}

// A session ends while a deployment's model is asked. No request fails, and from some moment on the new model answers,
// as fedsim recommend does. A model that cannot be opened does not take over.
func TestServesTheNewestModelOfADeployment(t *testing.T) {
	const settings = "algorithm=ssp-c rounds=1 epsilon=200 data=synthetic:small-60 baselines=quick statistics.order-weight=0 "
	first, e, _ := serverModel(t, settings+"seed=1")
	second, _, _ := serverModel(t, settings+"seed=2 split.seed=1")
	ids := [2]string{hexSession(t, first), strings.Repeat("a5", 16)}
	public := filepath.Join(second, results.PublicFile)
	text, err := os.ReadFile(public)
	if err = errors.Join(err, os.WriteFile(public, []byte(strings.Replace(string(text), ids[0], ids[1], 1)), 0o600)); err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(t.TempDir(), "current")
	pointTo(t, current, first)
	user, item := e.Data.UserIDs[7], e.Data.ItemIDs[3]
	var warned atomic.Bool
	took := make(chan struct{}, 1)
	url, end := serving(t, func(line string) {
		switch {
		case strings.HasPrefix(line, "a newer model answers"):
			took <- struct{}{}
		case strings.HasPrefix(line, "warning: a newer model"):
			warned.Store(true)
		}
	}, "--run", current, "--data", "synthetic:small-60", "--reload", "10ms")
	defer end()
	given := `{"user": "new", "ratings": [{"item": "` + item + `", "rating": 4}]}`
	asked := func() (models [4]string) {
		_, models[0] = ask(t, url, "/recommend?user="+user, "")
		_, models[1] = ask(t, url, "/recommend", given)
		_, models[2] = ask(t, url, "/similar?item="+item, "")
		_, models[3] = ask(t, url, "/recommend?user=unknown", "") // of whom nothing is known
		return models
	}
	var others sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, m := range asked() {
					if m != ids[0] && m != ids[1] {
						t.Errorf("the model %q answers", m)
						return
					}
				}
			}
		})
	}
	if m := asked(); m != [4]string{ids[0], ids[0], ids[0], ids[0]} {
		t.Errorf("before the end of the session: %v", m)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, results.PublicFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	pointTo(t, current, broken)
	for text := ""; !strings.Contains(text, `"stale"`) && !t.Failed(); {
		b, m := ask(t, url, "/health", "")
		if text = string(b); m != ids[0] {
			t.Errorf("%s answers in place of the model before it", m)
		}
	}
	pointTo(t, current, second)
	<-took
	for range 3 {
		if m := asked(); m != [4]string{ids[1], ids[1], ids[1], ids[1]} {
			t.Errorf("after the end of the session: %v", m)
		}
	}
	close(done)
	others.Wait()
	if !warned.Load() {
		t.Error("no word of the model that could not be opened")
	}
	text, _ = ask(t, url, "/recommend?user="+user, "")
	wanted, _ := called(t, []string{"recommend", "--run", second, "--user", user, "--data", "synthetic:small-60", "--format", "json"})
	var got, want struct{ Items []recommend.Recommendation }
	if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal(wanted, &want)); err != nil || len(got.Items) != 10 {
		t.Fatalf("%v: %s", err, text)
	}
	for i := range got.Items {
		if got.Items[i].ID != want.Items[i].ID || got.Items[i].Predicted != want.Items[i].Predicted {
			t.Errorf("%d: %+v, want %+v", i, got.Items[i], want.Items[i])
		}
	}
}

// hexSession is the session of a deployment's folder.
func hexSession(t *testing.T, dir string) string {
	t.Helper()
	var public struct{ Session string }
	text, err := os.ReadFile(filepath.Join(dir, results.PublicFile))
	if err = errors.Join(err, json.Unmarshal(text, &public)); err != nil {
		t.Fatal(err)
	}
	return public.Session
}

// organisation is the folder that a session leaves to an organisation with three users and four items.
func organisation(t *testing.T) string {
	t.Helper()
	e := opened.Experiment(t, "algorithm=hfl-sgdmf accountant=rdp parties=3 rank=2 rounds=1 data=synthetic:small-60 split.test=0 baselines=quick")
	public, err := agreement.Of(e, e.Session())
	if err != nil {
		t.Fatal(err)
	}
	text, err := public.Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	users := model.NewEmbeddings("user_embeddings", model.NewMatrix(3, 2), []string{"ann", "ben", "cat"})
	items := model.NewEmbeddings("item_embeddings", model.NewMatrix(4, 2), []string{"a", "b", "c", "d"})
	for i, row := range [][]float64{{1, 2}, {2, 1}, {1.5, 1.5}} {
		copy(users.Row(i), row)
	}
	for j, row := range [][]float64{{1, 1}, {2, 0.25}, {0, 1}, {1, 0.25}} {
		copy(items.Row(j), row)
	}
	if err = errors.Join(results.WriteEmbeddings(dir, users), results.WriteEmbeddings(dir, items), os.WriteFile(filepath.Join(dir, results.PublicFile), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An organisation recommends to its own users by its own result, without what they rated. The products of the embeddings
// in organisation are the expected predictions.
func TestAnOrganisationRecommendsToItsUsers(t *testing.T) {
	dir := organisation(t)
	data := filepath.Join(t.TempDir(), "ratings.csv")
	if err := os.WriteFile(data, []byte("user,item,rating\nann,a,5\nann,elsewhere,1\nben,b,4\nstranger,a,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string][]recommend.Recommendation{
		"ann": {{Item: recommend.Item{ID: "b"}, Predicted: 2.5}, {Item: recommend.Item{ID: "c"}, Predicted: 2}, {Item: recommend.Item{ID: "d"}, Predicted: 1.5}},
		"ben": {{Item: recommend.Item{ID: "a"}, Predicted: 3}, {Item: recommend.Item{ID: "d"}, Predicted: 2.25}, {Item: recommend.Item{ID: "c"}, Predicted: 1}},
		"":    {{Item: recommend.Item{ID: "b"}, Predicted: 3.375}, {Item: recommend.Item{ID: "a"}, Predicted: 3}, {Item: recommend.Item{ID: "d"}, Predicted: 1.875}, {Item: recommend.Item{ID: "c"}, Predicted: 1.5}},
	}
	equal := func(name string, text []byte, want []recommend.Recommendation) {
		t.Helper()
		var got struct{ Items []recommend.Recommendation }
		if err := json.Unmarshal(text, &got); err != nil || len(got.Items) != len(want) {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		for i, x := range got.Items {
			if x.ID != want[i].ID || math.Abs(x.Predicted-want[i].Predicted) > 1e-12 {
				t.Errorf("%s, %d: %+v, want %+v", name, i, x, want[i])
			}
		}
	}
	url, end := serving(t, func(string) {}, "--run", dir, "--data", data, "--reload", "0s")
	defer end()
	for user, list := range want {
		args := []string{"recommend", "--run", dir, "--data", data, "--user", user, "--format", "json"}
		if user == "" {
			args = []string{"recommend", "--run", dir, "--cold", "--format", "json"}
		}
		text, _ := called(t, args)
		equal(user, text, list)
		if user == "" {
			user = "stranger"
		}
		text, _ = ask(t, url, "/recommend?user="+user, "")
		equal("served to "+user, text, list)
	}
	text, _ := ask(t, url, "/similar?item=a", "")
	if !strings.Contains(string(text), `"d"`) {
		t.Errorf("similar: %s", text)
	}
	lists, _ := called(t, []string{"recommend", "--run", dir, "--data", data, "--all", "--top", "1"})
	if got, want := string(lists), "user,rank,item,title,score,predicted,by\nann,1,b,,2.5,2.5,run\nben,1,a,,3,3,run\ncat,1,b,,3.375,3.375,run\n"; got != want {
		t.Errorf("all lists:\n%s\nwant\n%s", got, want)
	}
	if problem := refusedWith(t, []string{"recommend", "--run", dir, "--data", data, "--user", "stranger"}); !strings.Contains(problem, `user "stranger"`) {
		t.Error(problem)
	}
}
