package recommend

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/loopback"
	"github.com/fedsim/fedsim/internal/strictjson"
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
// the run, and 409 for a title that may name several items. It is 405 for another method, with the right methods in
// the header Allow, 413 for a long body, and 422 for a request that the model cannot meet.
func Handler(r *Recommender) http.Handler {
	mux := http.NewServeMux()
	replies := map[string]func(q *http.Request) (any, error){
		"GET /recommend": r.replyToUser, "POST /recommend": r.replyToRatings, "POST /predict": r.replyToPairs, "GET /similar": r.replySimilar, "GET /health": r.replyHealth,
	}
	for pattern, reply := range replies {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			q.Body = http.MaxBytesReader(w, q.Body, mostSent)
			if v, err := reply(q); err != nil {
				refuse(w, statusOf(err), err.Error())
			} else {
				answer(w, http.StatusOK, v)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		status := http.StatusNotFound
		for _, pattern := range slices.Sorted(maps.Keys(replies)) {
			if method, path, _ := strings.Cut(pattern, " "); path == q.URL.Path {
				w.Header().Add("Allow", strings.Replace(method, http.MethodGet, "GET, HEAD", 1))
				status = http.StatusMethodNotAllowed
			}
		}
		refuse(w, status, q.Method+" "+q.URL.Path+" is not there; there are /recommend by GET and POST, /predict by POST, and /similar and /health by GET")
	})
	return mux
}

// badRequest is the error for a request that is wrong in itself, with the status of the answer.
type badRequest struct {
	error
	status int
}

// badf returns the error for a request with a mistake.
func badf(format string, args ...any) error {
	return badRequest{fmt.Errorf(format, args...), http.StatusBadRequest}
}

// statusOf returns the status of the answer to a request that failed.
func statusOf(err error) int {
	if bad, ok := errors.AsType[badRequest](err); ok {
		return bad.status
	}
	statuses := map[error]int{ErrNotThere: http.StatusNotFound, ErrAmbiguous: http.StatusConflict, ErrGiven: http.StatusBadRequest}
	for is, status := range statuses {
		if errors.Is(err, is) {
			return status
		}
	}
	return http.StatusUnprocessableEntity
}

func (r *Recommender) replyToUser(q *http.Request) (any, error) {
	said, n, err := query(q, "user=ID")
	if err != nil {
		return nil, err
	}
	user, err := dataset.ParseID(said["user"])
	if err != nil {
		return nil, badf("user: %w", err)
	}
	return r.AnswerTo(user, nil, n)
}

func (r *Recommender) replyToRatings(q *http.Request) (any, error) {
	x := struct {
		User    dataset.ID `json:"user"`
		Top     int        `json:"top"`
		Ratings []Given    `json:"ratings"`
	}{Top: 10}
	err := body(q, &x, `{"user": ID, "top": 10, "ratings": [{"item": ID, "rating": 4}]}`)
	if err == nil && (x.Top < 1 || x.Top > mostAsked) {
		err = badf("top %d: a whole number from 1 to %d is needed", x.Top, mostAsked)
	}
	if err != nil {
		return nil, err
	}
	return r.AnswerTo(string(x.User), x.Ratings, x.Top)
}

func (r *Recommender) replyToPairs(q *http.Request) (any, error) {
	var x struct {
		User []*dataset.ID `json:"user"`
		Item []*dataset.ID `json:"item"`
	}
	err := body(q, &x, `{"user": [ID], "item": [ID]}`)
	switch {
	case err != nil:
	case len(x.User) != len(x.Item):
		err = badf("%d users and %d items; a pair needs one of each", len(x.User), len(x.Item))
	case slices.Contains(x.Item, nil):
		err = badf("item %d is null; a pair needs an item", slices.Index(x.Item, nil)+1)
	}
	if err != nil {
		return nil, err
	}
	list, err := r.PredictPairs(texts(x.User), texts(x.Item))
	return map[string][]*float64{"predicted": list}, err
}

func (r *Recommender) replySimilar(q *http.Request) (any, error) {
	said, n, err := query(q, "item=TITLE", "by="+string(Cosine))
	if err != nil {
		return nil, err
	}
	by := Near(said["by"])
	if by != Cosine && by != Inner {
		return nil, badf("by is %q; it must be %s or %s", by, Cosine, Inner)
	}
	return r.Similar(said["item"], n, by)
}

func (r *Recommender) replyHealth(*http.Request) (any, error) {
	h := map[string]any{"status": "ok", "algorithm": algorithm.Name.Of(r.Config), "data": r.Data.Name, "users": r.Data.Users, "items": r.Data.Items}
	if r.Session != "" {
		h["session"] = r.Session
	}
	return h, nil
}

// WithToken answers requests whose header Authorization is "Bearer TOKEN", and others with 401.
func WithToken(h http.Handler, token string) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if subtle.ConstantTimeCompare([]byte(q.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "the token of this server is missing: send the header Authorization: Bearer TOKEN")
			return
		}
		h.ServeHTTP(w, q)
	})
}

// Local answers requests that address this machine by a name of its own, and refuses others with 403.
func Local(h http.Handler) http.Handler {
	return loopback.Handler(h, func(w http.ResponseWriter, q *http.Request) {
		refuse(w, http.StatusForbidden, fmt.Sprintf("%q is not a name of this machine alone; ask at 127.0.0.1 or localhost", q.Host))
	})
}

// texts returns ids as texts; "" for null.
func texts(ids []*dataset.ID) []string {
	return lists.Map(ids, func(id *dataset.ID) string {
		if id == nil {
			return ""
		}
		return string(*id)
	})
}

// body reads the body of a POST into to. An error says what form the body must have.
func body(q *http.Request, to any, form string) error {
	text, err := io.ReadAll(q.Body)
	if err == nil {
		err = strictjson.Read(text, to)
	}
	if err == nil && q.URL.RawQuery != "" {
		err = fmt.Errorf("?%s in the address is not read", q.URL.RawQuery)
	}
	var long *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &long):
		return badRequest{fmt.Errorf("the body has more than %d bytes", mostSent), http.StatusRequestEntityTooLarge}
	case errors.As(err, &kind):
		return badf("the body must be %s: %s may not be a JSON %s", form, cmp.Or(kind.Field, "it"), kind.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return badf("the body must be %s: it ends early", form)
	case err != nil:
		return badf("the body must be %s: %w", form, err)
	}
	return nil
}

// query returns the values of a request by GET and its top. Names are NAME=DEFAULT; the first must be there.
func query(q *http.Request, names ...string) (map[string]string, int, error) {
	given, err := url.ParseQuery(q.URL.RawQuery)
	if err != nil {
		return nil, 0, badf("the query cannot be read: %w", err)
	}
	said := make(map[string]string)
	for _, pair := range append(names, "top=10") {
		name, usual, _ := strings.Cut(pair, "=")
		switch {
		case len(given[name]) > 1:
			return nil, 0, badf("%s has %d values; give one", name, len(given[name]))
		case given.Has(name):
			usual = given.Get(name)
		case pair == names[0]:
			return nil, 0, badf("%s is missing: %s?%s", name, q.URL.Path, pair)
		}
		said[name] = usual
		delete(given, name)
	}
	for name := range given {
		return nil, 0, badf("%q is no part of this question; %s takes %s", name, q.URL.Path, strings.Join(slices.Sorted(maps.Keys(said)), ", "))
	}
	n, err := strconv.Atoi(said["top"])
	if err != nil || n < 1 || n > mostAsked {
		return nil, 0, badf("top=%s: a whole number from 1 to %d is needed", said["top"], mostAsked)
	}
	return said, n, nil
}

func refuse(w http.ResponseWriter, code int, why string) {
	answer(w, code, map[string]string{"error": why})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // the answer is about a user
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // an error here means that the client has left
}

// ModelHeader names the model that an answer of Live comes from: the session in hex, or the folder's name.
const ModelHeader = "Fedsim-Model"

// Live answers requests as Handler does, from the newest model behind the name of a folder. The name may be a
// link that is replaced. A request is answered by the model that was there when the request came. A newer model takes
// over once it is open, and if it cannot be opened, the model before it stays.
type Live struct {
	dir  string
	open func(ctx context.Context, dir string) (*Recommender, error)
	now  atomic.Pointer[livingModel]
}

// livingModel is a model that answers.
type livingModel struct {
	handler http.Handler
	name    string // see ModelHeader
	version string

	// failed says why the newer model of another version cannot be opened; nil if the newest model answers.
	failed error
	newer  string
}

// OpenLive opens the model that a folder has now. open gets the folder, links followed; Refresh calls it again.
func OpenLive(ctx context.Context, dir string, open func(ctx context.Context, dir string) (*Recommender, error)) (*Live, error) {
	l := &Live{dir: dir, open: open}
	l.now.Store(new(livingModel))
	_, err := l.Refresh(ctx)
	return l, err
}

// Refresh looks for a newer model, and opens it. It returns the name of the model that has taken over; "" if there is
// no newer one. After an error the model before it stays, and the error is returned once for each newer model.
func (l *Live) Refresh(ctx context.Context) (name string, err error) {
	now := *l.now.Load()
	defer func() { l.now.Store(&now) }()
	dir, version, err := versionOf(l.dir)
	if err == nil && now.version == version {
		now.failed = nil
		return "", nil
	}
	var r *Recommender
	if err == nil {
		r, err = l.open(ctx, dir)
	}
	if err == nil {
		now = livingModel{handler: Handler(r), name: cmp.Or(r.Session, filepath.Base(dir)), version: version}
		return now.name, nil
	}
	again := now.failed != nil && now.failed.Error() == err.Error() && now.newer == version
	if now.failed, now.newer = err, version; again {
		err = nil
	}
	return "", err
}

// versionOf follows the links of a folder's name, and describes its files.
func versionOf(name string) (dir, version string, err error) {
	if dir, err = filepath.EvalSymlinks(name); err != nil {
		return "", "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dir, "", err
	}
	var b strings.Builder
	b.WriteString(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return dir, "", err
		}
		fmt.Fprintf(&b, "\n%s %d %d", e.Name(), info.Size(), info.ModTime().UnixNano())
	}
	return dir, b.String(), nil
}

// Watch calls Refresh at intervals until the context ends, and tells what came of it.
func (l *Live) Watch(ctx context.Context, every time.Duration, told func(name string, err error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if name, err := l.Refresh(ctx); (name != "" || err != nil) && ctx.Err() == nil {
			told(name, err)
		}
	}
}

// ServeHTTP answers by the newest model that could be opened.
func (l *Live) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	m := l.now.Load()
	w.Header().Set(ModelHeader, m.name)
	if m.failed != nil && q.URL.Path == "/health" && q.Method == http.MethodGet {
		answer(w, http.StatusOK, map[string]string{"status": "stale", "model": m.name, "error": "a newer model cannot be opened: " + m.failed.Error()})
		return
	}
	m.handler.ServeHTTP(w, q)
}
