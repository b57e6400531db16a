package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/results"
)

// Answers are what Recommend and Similar say, and errors name what is wrong.
func TestHandler(t *testing.T) {
	dir := t.TempDir()
	run, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Settings: map[string]string{
		"algorithm": "ssp-c", "data": "synthetic:small", "epsilon": "200", "rounds": "1", "baselines": "quick", "out": dir, "name": "one"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := results.OpenRun(t.Context(), filepath.Join(dir, "one"), "", nil)
	if err != nil || run.Folder == "" {
		t.Fatal(err)
	}
	h := results.Handler(r)
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
	if body := get("GET", "/similar?item="+r.Data.ItemIDs[0], http.StatusOK); len(body["items"].([]any)) != 10 || body["item"].(map[string]any)["id"] != r.Data.ItemIDs[0] {
		t.Errorf("%v", body)
	}
	if body := get("GET", "/health", http.StatusOK); body["status"] != "ok" || body["users"] != float64(r.Data.Users) {
		t.Errorf("%v", body)
	}
	for url, code := range map[string]int{
		"/recommend": http.StatusBadRequest, "/recommend?user=" + user + "&top=0": http.StatusBadRequest, "/recommend?user=" + user + "&top=many": http.StatusBadRequest,
		"/recommend?user=nobody": http.StatusNotFound, "/similar": http.StatusBadRequest, "/similar?item=nothing": http.StatusNotFound, "/elsewhere": http.StatusNotFound,
	} {
		if body := get("GET", url, code); body["error"] == "" || body["error"] == nil {
			t.Errorf("%s: %v", url, body)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/recommend?user="+user, nil))
	if w.Code == http.StatusOK {
		t.Error("a POST is answered")
	}
}
