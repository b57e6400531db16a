package recommend

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// ModelHeader names the model that an answer of Live comes from: the session in hex, or the folder's name.
const ModelHeader = "Fedsim-Model"

// Live answers requests as Handler does, from the newest model behind the name of a folder. The name may be a
// link that is replaced. A request is answered by the model that was there when the request came. A newer model takes
// over once it is open, and if it cannot be opened, the model before it stays.
type Live struct {
	dir  string
	open func(ctx context.Context, dir string) (*Recommender, error)

	now    atomic.Pointer[livingModel]
	failed atomic.Pointer[staleModel] // nil: the newest model answers
}

// livingModel is a model that answers.
type livingModel struct {
	handler http.Handler
	name    string // see ModelHeader
	version string
}

// staleModel is a newer model that cannot be opened.
type staleModel struct {
	version string
	err     error
}

// OpenLive opens the model that a folder has now. open is called with the folder, links followed, and may be called
// again by Refresh.
func OpenLive(ctx context.Context, dir string, open func(ctx context.Context, dir string) (*Recommender, error)) (*Live, error) {
	l := &Live{dir: dir, open: open}
	_, err := l.Refresh(ctx)
	return l, err
}

// Refresh looks for a newer model, and opens it. It returns the name of the model that has taken over; "" if there is
// no newer one. After an error the model before it stays, and the error is returned once for each newer model.
func (l *Live) Refresh(ctx context.Context) (name string, err error) {
	dir, version, err := versionOf(l.dir)
	now, stale := l.now.Load(), l.failed.Load()
	if err == nil && now != nil && now.version == version {
		l.failed.Store(nil)
		return "", nil
	}
	var r *Recommender
	if err == nil {
		r, err = l.open(ctx, dir)
	}
	if err != nil {
		l.failed.Store(&staleModel{version, err})
		if stale != nil && stale.version == version && stale.err.Error() == err.Error() {
			return "", nil // it was said
		}
		return "", err
	}
	name = r.Session
	if name == "" {
		name = filepath.Base(dir)
	}
	l.now.Store(&livingModel{Handler(r), name, version})
	l.failed.Store(nil)
	return name, nil
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
	if stale := l.failed.Load(); stale != nil && q.URL.Path == "/health" && q.Method == http.MethodGet {
		answer(w, http.StatusOK, map[string]string{"status": "stale", "model": m.name, "error": "a newer model cannot be opened: " + stale.err.Error()})
		return
	}
	m.handler.ServeHTTP(w, q)
}
