package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/loopback"
)

// mostAsked limits the number of items in one request.
const mostAsked = 1000

// Handler answers requests from a run's model, in JSON:
//
//	GET /recommend?user=ID&top=10     {"user": ..., "items": [{"id", "title", "predicted", ...}]}
//	GET /similar?item=TITLE&top=10    {"item": {...}, "items": [{"id", "title", "cosine", ...}]}
//	GET /health                       {"status": "ok", "algorithm", "data", "users", "items"}
//
// An error is {"error": TEXT}: 400 for a wrong request, 404 for a user or an item that is not in
// the run, 409 for a title that may name several items.
func Handler(r *Recommender) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /recommend", func(w http.ResponseWriter, q *http.Request) {
		user := q.FormValue("user")
		n, err := top(q)
		if err == nil && user == "" {
			err = errors.New("user is missing: /recommend?user=ID")
		}
		if err != nil {
			answer(w, http.StatusBadRequest, problem{err.Error()})
			return
		}
		list, err := r.Recommend(user, n)
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, http.StatusOK, struct {
			User  string           `json:"user"`
			Items []Recommendation `json:"items"`
		}{user, list})
	})
	mux.HandleFunc("GET /similar", func(w http.ResponseWriter, q *http.Request) {
		text := q.FormValue("item")
		n, err := top(q)
		by := Cosine
		if q.FormValue("by") != "" {
			by = Near(q.FormValue("by"))
		}
		switch {
		case err != nil:
		case text == "":
			err = errors.New("item is missing: /similar?item=TITLE")
		case by != Cosine && by != Inner:
			err = fmt.Errorf("by is %q; it must be %s or %s", by, Cosine, Inner)
		}
		if err != nil {
			answer(w, http.StatusBadRequest, problem{err.Error()})
			return
		}
		item, list, err := r.Similar(text, n, by)
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, http.StatusOK, struct {
			Item  Item        `json:"item"`
			Items []Neighbour `json:"items"`
		}{item, list})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"status": "ok", "algorithm": algorithm.Name.Of(r.Config), "data": r.Data.Name, "users": r.Data.Users, "items": r.Data.Items})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		answer(w, http.StatusNotFound, problem{q.URL.Path + " is not there; there are /recommend, /similar and /health, by GET"})
	})
	return mux
}

// Local answers requests that address this machine by one of its own names, and refuses others with
// 403.
func Local(h http.Handler) http.Handler {
	return loopback.Handler(h, func(w http.ResponseWriter, q *http.Request) {
		answer(w, http.StatusForbidden, problem{fmt.Sprintf("%q is not a name of this machine alone; ask at 127.0.0.1 or localhost", q.Host)})
	})
}

// problem is the answer to a request that failed.
type problem struct {
	Error string `json:"error"`
}

// top returns the number of items that a request asks for.
func top(q *http.Request) (int, error) {
	text := q.FormValue("top")
	if text == "" {
		return 10, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostAsked {
		return 0, fmt.Errorf("top=%s: a whole number from 1 to %d is needed", text, mostAsked)
	}
	return n, nil
}

// refuse answers with the error and its status.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, ErrNotThere):
		code = http.StatusNotFound
	case errors.Is(err, ErrAmbiguous):
		code = http.StatusConflict
	}
	answer(w, code, problem{err.Error()})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // the answer is about a user
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // an error here means that the client has left
}
