package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results/recommend"
)

// served is the folder of a small run.
func served(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Settings: map[string]string{
		"algorithm": "ssp-c", "data": "synthetic:small-60", "epsilon": "200", "rounds": "1", "baselines": "quick", "out": dir, "name": "one"}})
	if err != nil || run.Folder == "" {
		t.Fatal(err)
	}
	return filepath.Join(dir, "one")
}

// The command answers on this machine, by its own names, until it is told to stop.
func TestServe(t *testing.T) {
	dir := served(t)
	for _, tt := range []struct {
		listen string
		warns  bool
	}{{"127.0.0.1:0", false}, {"0.0.0.0:0", true}} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		errs, w := io.Pipe()
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, []string{"serve", "--run", dir, "--listen", tt.listen}, verb.Streams{Out: io.Discard, Err: w})
			w.Close() //nolint:errcheck // it cannot fail
		}()
		var port string
		warned := false
		lines := bufio.NewScanner(errs)
		for port == "" && lines.Scan() {
			warned = warned || strings.HasPrefix(lines.Text(), "warning: ") && strings.Contains(lines.Text(), "no password")
			if m := regexp.MustCompile(`serving .* at http://\S+:(\d+) `).FindStringSubmatch(lines.Text()); m != nil {
				port = m[1]
			}
		}
		if port == "" || warned != tt.warns {
			t.Fatalf("%s: port %q; it warned: %v", tt.listen, port, warned)
		}
		go io.Copy(io.Discard, errs) //nolint:errcheck // what else is said
		url := "http://127.0.0.1:" + port + "/health"
		for host, code := range map[string]int{"127.0.0.1:" + port: http.StatusOK, "localhost": http.StatusOK, "elsewhere.example": map[bool]int{false: http.StatusForbidden, true: http.StatusOK}[tt.warns]} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Host = host
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close() //nolint:errcheck // only read
			if answer.StatusCode != code {
				t.Errorf("%s, as %s: %d, want %d", tt.listen, host, answer.StatusCode, code)
			}
		}
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("%s: exit %d", tt.listen, code)
		}
		if answer, err := http.Get(url); err == nil {
			answer.Body.Close() //nolint:errcheck // only read
			t.Errorf("%s: it answers after its end", tt.listen)
		}
	}
}

// Unless it is told otherwise, no other machine reaches it.
func TestServeIsForThisMachine(t *testing.T) {
	f, ok := reflect.TypeFor[serveCmd]().FieldByName("Listen")
	host, _, err := net.SplitHostPort(f.Tag.Get("default"))
	if !ok || err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("by default it listens at %q: %v", f.Tag.Get("default"), err)
	}
}

// post sends a body and returns the answer.
func post(t *testing.T, h http.Handler, url string, body any, want int) (answer map[string]any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, url, bytes.NewReader(b)))
	if err = json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != want {
		t.Fatalf("%s: %d %s, want %d; %v", url, w.Code, w.Body, want, err)
	}
	return answer
}

// TestHandler checks that answers equal the results of Recommend and Similar, and that errors name the fault.
func TestHandler(t *testing.T) {
	r, err := recommend.Open(t.Context(), served(t), recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := recommend.Handler(r)
	get := func(method, url string, want int) map[string]any {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, url, nil))
		var body map[string]any
		if failed := json.Unmarshal(w.Body.Bytes(), &body); failed != nil || w.Code != want || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %s, want %d; %v", url, w.Code, w.Body, want, failed)
		}
		return body
	}
	user := r.Data.UserIDs[3]
	list, err := r.Recommend(user, 4)
	if err != nil {
		t.Fatal(err)
	}
	items := get("GET", "/recommend?top=4&user="+user, http.StatusOK)["items"].([]any)
	if len(items) != 4 {
		t.Fatalf("%d items, want 4", len(items))
	}
	for i, x := range items {
		if x := x.(map[string]any); x["id"] != list[i].ID || x["predicted"] != list[i].Predicted {
			t.Errorf("item %d is %v, want %+v", i, x, list[i])
		}
	}
	predicted := post(t, h, "/predict", map[string][]string{"user": {user, "nobody", user, user}, "item": {list[1].ID, list[1].ID, "nothing", list[0].ID}}, http.StatusOK)
	if diff := cmp.Diff([]any{list[1].Predicted, nil, nil, list[0].Predicted}, predicted["predicted"]); diff != "" {
		t.Errorf("pairs (-want +got):\n%s", diff)
	}
	number, err := strconv.Atoi(user)
	if err != nil {
		t.Fatal(err)
	}
	// JSON has numbers too, and null is a user without ratings.
	numbers := post(t, h, "/predict", map[string][]any{"user": {number, float64(number), " " + user + ".0"}, "item": {list[1].ID, list[1].ID, " " + list[0].ID}}, http.StatusOK)
	if diff := cmp.Diff([]any{list[1].Predicted, list[1].Predicted, list[0].Predicted}, numbers["predicted"]); diff != "" {
		t.Errorf("pairs of numbers (-want +got):\n%s", diff)
	}
	liked, err := r.Popular(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := post(t, h, "/predict", map[string][]any{"user": {nil}, "item": {liked.Items[0].ID}}, http.StatusOK)["predicted"]; !reflect.DeepEqual(got, []any{liked.Items[0].Predicted}) {
		t.Errorf("a user without ratings: %v, want %v", got, liked.Items[0].Predicted)
	}
	// A user of the run gets one list by GET and by POST.
	byGet := get("GET", "/recommend?top=4&user="+user, http.StatusOK)
	for _, id := range []any{user, number, user + ".0"} {
		byPost := post(t, h, "/recommend", map[string]any{"user": id, "top": 4}, http.StatusOK)
		if byPost["by"] != "run" || !reflect.DeepEqual(byPost["items"], byGet["items"]) {
			t.Errorf("POST of user %v: %v, want %v", id, byPost, byGet)
		}
	}
	for _, bad := range []any{1.5, true, []int{1}} {
		if got := post(t, h, "/recommend", map[string]any{"user": bad}, http.StatusBadRequest)["error"].(string); strings.Contains(got, "Go struct") || !strings.Contains(got, "an id") {
			t.Errorf("user %v: %s", bad, got)
		}
	}
	guarded := recommend.WithToken(h, "secret")
	for header, code := range map[string]int{"": http.StatusUnauthorized, "Bearer other": http.StatusUnauthorized, "secret": http.StatusUnauthorized, "Bearer secret": http.StatusOK} {
		w, q := httptest.NewRecorder(), httptest.NewRequest("GET", "/health", nil)
		q.Header.Set("Authorization", header)
		if guarded.ServeHTTP(w, q); w.Code != code {
			t.Errorf("with the header %q: %d, want %d", header, w.Code, code)
		}
	}
	for _, bad := range []any{map[string][]string{"user": {user}}, map[string]int{"user": 3}, "text", map[string][]any{"user": {user}, "item": {nil}}} {
		if body := post(t, h, "/predict", bad, http.StatusBadRequest); body["error"] == "" {
			t.Errorf("%v: %v", bad, body)
		}
	}
	if body := get("GET", "/similar?item="+r.Data.ItemIDs[0], http.StatusOK); len(body["items"].([]any)) != 10 || body["item"].(map[string]any)["id"] != r.Data.ItemIDs[0] {
		t.Errorf("%v", body)
	}
	if body := get("GET", "/health", http.StatusOK); body["status"] != "ok" || body["users"] != float64(r.Data.Users) {
		t.Errorf("%v", body)
	}
	for url, code := range map[string]int{
		"/recommend": http.StatusBadRequest, "/recommend?user=" + user + "&top=0": http.StatusBadRequest, "/recommend?user=" + user + "&top=many": http.StatusBadRequest,
		// By GET as by POST: no user is called NA, and a question has one value for each of its own names.
		"/recommend?user=NA": http.StatusBadRequest, "/recommend?user=%5CN": http.StatusBadRequest, "/recommend?user=1e%2B30": http.StatusBadRequest,
		"/recommend?user=" + user + "&user=x": http.StatusBadRequest, "/recommend?user=" + user + "&tpo=3": http.StatusBadRequest, "/recommend?user=%zz": http.StatusBadRequest,
		"/similar?item=nothing&by=inner&by=cosine": http.StatusBadRequest, "/similar?item=nothing&top=": http.StatusBadRequest,
		"/similar": http.StatusBadRequest, "/similar?item=nothing": http.StatusNotFound, "/elsewhere": http.StatusNotFound,
	} {
		if body := get("GET", url, code); body["error"] == "" || body["error"] == nil {
			t.Errorf("%s: %v", url, body)
		}
	}
	// A stranger gets what the model says of items without a user, and learns no user's id.
	popular, err := r.Popular(3)
	if err != nil {
		t.Fatal(err)
	}
	stranger := get("GET", "/recommend?user=stranger&top=3", http.StatusOK)
	if stranger["by"] != "popularity" || stranger["ratings"] != 0.0 || stranger["items"].([]any)[0].(map[string]any)["id"] != popular.Items[0].ID {
		t.Errorf("a stranger gets %v", stranger)
	}
}

// By POST a user gives ratings, and gets what the client of a user with these ratings would predict.
func TestHandlerTakesRatings(t *testing.T) {
	r, err := recommend.Open(t.Context(), served(t), recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := recommend.Handler(r)
	post := func(body string, want int) map[string]any {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/recommend", strings.NewReader(body)))
		var got map[string]any
		if failed := json.Unmarshal(w.Body.Bytes(), &got); failed != nil || w.Code != want {
			t.Fatalf("%s: %d %s, want %d; %v", body, w.Code, w.Body, want, failed)
		}
		return got
	}
	if got := post(`{"ratings": [{"item": "`+r.Data.ItemIDs[0]+`", "rating": 4}]}`, http.StatusOK); got["by"] != "fit" { // of a user without a name
		t.Errorf("%v", got)
	}
	parts, err := split.Divide(r.Data, split.Params{Test: 0.1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"user": "guest", "top": 4, "ratings": givenOf(r.Data, parts.Train, 3)})
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Recommend(r.Data.UserIDs[3], 4)
	if err != nil {
		t.Fatal(err)
	}
	got := post(string(body), http.StatusOK)
	items := got["items"].([]any)
	if got["user"] != "guest" || got["by"] != "fit" || len(items) != 4 {
		t.Fatalf("%v", got)
	}
	for i, x := range items {
		if x := x.(map[string]any); x["id"] != list[i].ID || math.Abs(x["predicted"].(float64)-list[i].Predicted) > 1e-9 {
			t.Errorf("item %d is %v, want %+v", i, x, list[i])
		}
	}
	for text, by := range map[string]string{`{}`: "popularity", `{"ratings": [{"item": "of tomorrow", "rating": 5}]}`: "popularity"} {
		if got := post(text, http.StatusOK); got["by"] != by || len(got["items"].([]any)) != 10 {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, want := range map[string]string{
		`null`: "it is null", `{"user": "a", "user": "b"}`: `the name "user" is there twice`, `{"top": 3, "Top": 4}`: `the name "Top" is there twice`,
		`{"ratings": [{"item": "1", "rating": 1, "r\u0061ting": 5}]}`: `the name "rating" is there twice`,
		`[]`: "the body must be", `{"rating": 1}`: "the body must be", `{} {}`: "follows its end", `{"top": 0}`: "top 0", `{"top": 100000}`: "top 100000",
		`{"ratings": [{"rating": 3}]}`: "names no item", `{"ratings": [{"item": "1"}]}`: "has no rating; the scale is 0.5 to 5",
		`{"ratings": [{"item": "1", "rating": 6}]}`: "is 6; the scale is 0.5 to 5", `{"ratings": [{"item": "1", "rating": 3}, {"item": "1", "rating": 4}]}`: "rated twice",
	} {
		if got := post(text, http.StatusBadRequest)["error"].(string); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{``: "it ends early", `{"top": 3`: "it ends early", "{\"user\": \"caf\xe9\"}": "is not UTF-8"} {
		if got := post(text, http.StatusBadRequest)["error"].(string); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %q", text, got, want)
		}
	}
	post(`{"user": "`+strings.Repeat("x", 1<<20)+`"}`, http.StatusRequestEntityTooLarge)
	for request, want := range map[*http.Request]string{
		httptest.NewRequest("POST", "/recommend?top=3", strings.NewReader(`{}`)): "?top=3 in the address is not read",
		httptest.NewRequest("DELETE", "/recommend", nil):                         "DELETE /recommend is not there",
	} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, request); w.Code < 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %d %s, want %q", request.Method, request.URL, w.Code, w.Body, want)
		}
	}
}

// A method that an address does not take is answered with 405 and the methods that it takes (RFC 9110, section 15.5.6).
func TestHandlerNamesMethods(t *testing.T) {
	r, err := recommend.Open(t.Context(), served(t), recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]string{
		"DELETE /recommend": "GET, HEAD, POST", "PUT /predict": "POST", "GET /predict": "POST", "POST /health": "GET, HEAD", "PATCH /similar": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(call, " ")
		w := httptest.NewRecorder()
		recommend.Handler(r).ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
		if got := strings.Join(w.Header().Values("Allow"), ", "); w.Code != http.StatusMethodNotAllowed || got != want {
			t.Errorf("%s: %d, Allow: %s; want %s\n%s", call, w.Code, got, want, w.Body)
		}
	}
}
