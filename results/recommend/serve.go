package recommend

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/loopback"
)

// mostAsked limits the number of items in one request.
const mostAsked = 1000

// mostSent limits the bytes of ratings in one request.
const mostSent = 1 << 20

// Handler answers requests from a run's model, in JSON:
//
//	GET /recommend?user=ID&top=10     {"user", "by", "ratings", "unknown_items", "items": [{"id", "title", "score", "predicted", ...}]}
//	POST /recommend                   the same, by the ratings in the body
//	POST /predict                     {"predicted": [4.1, null, ...]}, by the pairs in the body
//	GET /similar?item=TITLE&top=10    {"item": {...}, "items": [{"id", "title", "cosine", ...}]}, and "note" if the list means nothing
//	GET /health                       {"status": "ok", "algorithm", "data", "users", "items", "session"}
//
// The body of a POST is {"user": ID, "top": 10, "ratings": [{"item": ID, "rating": 4}, ...]}; user and top may be
// left out. The user is fitted to the released items, and nothing of the ratings is kept. Without ratings a user
// of the run is answered as by GET. "by" says what a list rests on: see [Source]. A user without ratings gets the
// popular items if the model says which these are, and so does a user that the run does not know. An ID is a text or a
// whole number; see [dataset.ParseID].
//
// The body of a POST /predict is {"user": [ID, ...], "item": [ID, ...]}, of one length. The user null has rated nothing.
// null answers a pair that the model cannot predict.
//
// An error is {"error": TEXT}. The status is 400 for a wrong request, 404 for a user or an item that is not in
// the run, and 409 for a title that may name several items. It is 413 for a long body, and 422 for a request that
// the model cannot meet.
func Handler(r *Recommender) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /recommend", func(w http.ResponseWriter, q *http.Request) {
		user := q.FormValue("user")
		n, err := top(q.FormValue("top"))
		if err == nil && user == "" {
			err = errors.New("user is missing: /recommend?user=ID")
		}
		if err != nil {
			answer(w, http.StatusBadRequest, problem{err.Error()})
			return
		}
		list, basis, err := r.ask(user, nil, n)
		recommended(w, user, list, basis, err)
	})
	mux.HandleFunc("POST /recommend", func(w http.ResponseWriter, q *http.Request) {
		x, code, err := sent(w, q)
		if err != nil {
			answer(w, code, problem{err.Error()})
			return
		}
		list, basis, err := r.ask(string(x.User), x.Ratings, x.Top)
		recommended(w, string(x.User), list, basis, err)
	})
	mux.HandleFunc("POST /predict", func(w http.ResponseWriter, q *http.Request) {
		var x struct {
			User []*dataset.ID `json:"user"`
			Item []*dataset.ID `json:"item"`
		}
		code, err := body(w, q, &x, `{"user": [ID], "item": [ID]}`)
		if err == nil && len(x.User) != len(x.Item) {
			code, err = http.StatusBadRequest, fmt.Errorf("%d users and %d items; a pair needs one of each", len(x.User), len(x.Item))
		}
		if err != nil {
			answer(w, code, problem{err.Error()})
			return
		}
		list, err := r.PredictPairs(texts(x.User), texts(x.Item))
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, http.StatusOK, struct {
			Predicted []*float64 `json:"predicted"`
		}{list})
	})
	mux.HandleFunc("GET /similar", func(w http.ResponseWriter, q *http.Request) {
		text := q.FormValue("item")
		n, err := top(q.FormValue("top"))
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
			Note  string      `json:"note,omitempty"`
		}{item, list, r.Doubt(list, by)})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		h := map[string]any{"status": "ok", "algorithm": algorithm.Name.Of(r.Config), "data": r.Data.Name, "users": r.Data.Users, "items": r.Data.Items}
		if r.Session != "" {
			h["session"] = r.Session
		}
		answer(w, http.StatusOK, h)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		answer(w, http.StatusNotFound, problem{q.URL.Path + " is not there; there are /recommend by GET and POST, /predict by POST, and /similar and /health by GET"})
	})
	return mux
}

// WithToken answers requests whose header Authorization is "Bearer TOKEN", and others with 401.
func WithToken(h http.Handler, token string) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if subtle.ConstantTimeCompare([]byte(q.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, http.StatusUnauthorized, problem{"the token of this server is missing: send the header Authorization: Bearer TOKEN"})
			return
		}
		h.ServeHTTP(w, q)
	})
}

// Local answers requests that address this machine by one of its own names, and refuses others with
// 403.
func Local(h http.Handler) http.Handler {
	return loopback.Handler(h, func(w http.ResponseWriter, q *http.Request) {
		answer(w, http.StatusForbidden, problem{fmt.Sprintf("%q is not a name of this machine alone; ask at 127.0.0.1 or localhost", q.Host)})
	})
}

// ask recommends to a user by given ratings or, without any, as the run knows the user. A user that the run does not know
// gets the popular items.
func (r *Recommender) ask(user string, given []Given, n int) ([]Recommendation, Basis, error) {
	if user == "" || len(given) > 0 {
		return r.AnswerTo(user, given, n)
	}
	list, basis, err := r.Answer(user, n)
	if popular, failed := r.Popular(n); errors.Is(err, ErrNotThere) && failed == nil {
		return popular, Basis{By: ByPopularity}, nil
	}
	return list, basis, err
}

// texts returns ids as texts; "" for null.
func texts(ids []*dataset.ID) []string {
	list := make([]string, len(ids))
	for k, id := range ids {
		if id != nil {
			list[k] = string(*id)
		}
	}
	return list
}

// problem is the answer to a request that failed.
type problem struct {
	Error string `json:"error"`
}

// request is the body of a POST.
type request struct {
	User    dataset.ID `json:"user"`
	Top     int        `json:"top"`
	Ratings []Given    `json:"ratings"`
}

// sent reads the body of a POST. An error comes with the status of the answer.
func sent(w http.ResponseWriter, q *http.Request) (x request, code int, err error) {
	x.Top = 10
	code, err = body(w, q, &x, `{"user": ID, "top": 10, "ratings": [{"item": ID, "rating": 4}]}`)
	if err == nil && (x.Top < 1 || x.Top > mostAsked) {
		return x, http.StatusBadRequest, fmt.Errorf("top %d: a whole number from 1 to %d is needed", x.Top, mostAsked)
	}
	return x, code, err
}

// body reads the body of a POST into to. An error comes with the status of the answer, and says what form the body
// must have.
func body(w http.ResponseWriter, q *http.Request, to any, form string) (code int, err error) {
	d := json.NewDecoder(http.MaxBytesReader(w, q.Body, mostSent))
	d.DisallowUnknownFields()
	if err = d.Decode(to); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows its end")
		}
	}
	var long *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &long):
		return http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", mostSent)
	case errors.As(err, &kind):
		return http.StatusBadRequest, fmt.Errorf("the body must be %s: %s may not be a JSON %s", form, cmp.Or(kind.Field, "it"), kind.Value)
	case err != nil:
		return http.StatusBadRequest, fmt.Errorf("the body must be %s: %w", form, err)
	}
	return http.StatusOK, nil
}

// recommended answers with a list, or with the error.
func recommended(w http.ResponseWriter, user string, list []Recommendation, basis Basis, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, struct {
		User string `json:"user"`
		Basis
		Items []Recommendation `json:"items"`
	}{user, basis, list})
}

// top returns the number of items that a request asks for.
func top(text string) (int, error) {
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
	case errors.Is(err, ErrGiven):
		code = http.StatusBadRequest
	}
	answer(w, code, problem{err.Error()})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // the answer is about a user
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // an error here means that the client has left
}
