package node_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// changed is the client whose data differ between two sessions.
const changed = 2

// seen holds what parties other than the data's owner see of a session, by kind: lines that must be
// the same for neighbouring data.
type seen map[string][]string

// The parts of two sessions that are compared.
const (
	document = "public document"
	line     = "line of " // of a party, and in a direction
	logs     = "log of "  // and of which role
	pages    = "pages of "
	files    = "files"
)

// neighbour is a session that is watched.
type neighbour struct {
	settings string
	founded  time.Time               // when the federation was, over loopback
	data     string                  // file of all ratings
	emptied  bool                    // the changed client's file holds none
	virtual  bool                    // in memory and virtual time; else over loopback, where times are not compared
	sums     []protocol.Sums         // in place of what the server learns; nil: nothing is
	leak     func(*federation, *tap) // is planted; nil: nothing is
}

// witness watches a session.
type witness struct {
	mu    sync.Mutex
	began time.Time
	timed bool
	seen  seen
	sums  []protocol.Sums // what the server learned, or was handed in its place
	first string          // the first sum that it learned
}

func (w *witness) note(what, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[what] = append(w.seen[what], fmt.Sprintf(format, args...))
}

// passes notes what goes over a line, all of it but integers with noise in them: those are
// masked where clients send them, and sums where the server gets them.
func (w *witness) passes(p *passing) {
	if p.raw == nil {
		return
	}
	at := ""
	if w.timed {
		at = time.Since(w.began).String() + ": "
	}
	what := line + p.place.String() + ", down"
	if p.up {
		what = line + p.place.String() + ", up"
	}
	content := fmt.Sprintf("%x", sha256.Sum256(p.raw))
	switch m := p.message.(type) {
	case nil:
		for key, value := range p.notice {
			w.note(what, "%snotice: %s %s", at, key, drawn.ReplaceAll(value, nil))
		}
		return
	case *protocol.MaskedInput:
		rest := *m
		rest.Masked, rest.Head = nil, make([]byte, len(m.Head)) // a head is random, except its count
		for _, b := range m.Masked {
			rest.Masked = append(rest.Masked, make([]byte, len(b)))
		}
		content = asJSON(&rest)
	case *protocol.Result:
		rest := *m
		rest.Integers = nil
		for _, v := range m.Integers {
			rest.Integers = append(rest.Integers, make([]int64, len(v)))
		}
		w.note(what, "%s%s: %s", at, m.Kind(), asJSON(&rest)) // its length equals the length of the integers
		return
	}
	w.note(what, "%s%s of %d bytes: %s", at, p.message.Kind(), len(p.raw), content)
}

// drawn matches values that a process draws when it starts, before it knows of any data.
var drawn = regexp.MustCompile(`"life":\[[\d,]*\],?|"at":"[^"]*",?|"head":"[^"]*",?`)

// asJSON returns a message with all its parts. It panics if it cannot: a message that is not seen whole is not compared.
func asJSON(m protocol.Message) string {
	text, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Errorf("%s: %w", m.Kind(), err))
	}
	return string(text)
}

// absorbing is a strategy whose sums are noted, or replaced by the sums of another session.
type absorbing struct {
	server.Durable
	w      *witness
	replay []protocol.Sums
}

func (s *absorbing) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	n := len(s.w.sums)
	if n == 0 {
		s.w.first = fmt.Sprint(sums.Values)
	}
	if n < len(s.replay) {
		sums = s.replay[n]
	}
	kept := sums
	kept.Values = nil
	for _, v := range sums.Values {
		kept.Values = append(kept.Values, slices.Clone(v))
	}
	s.w.sums = append(s.w.sums, kept)
	return s.Durable.Absorb(p, sums, run)
}

// watch runs a session and returns what was seen of it.
func (n neighbour) watch(t *testing.T) (w *witness) {
	t.Helper()
	w = &witness{timed: n.virtual, seen: make(seen)}
	if n.virtual {
		synctest.Test(t, func(t *testing.T) { n.run(t, w) })
	} else {
		n.run(t, w)
	}
	return w
}

func (n neighbour) run(t *testing.T, w *witness) {
	t.Helper()
	w.began = time.Now()
	var memory *memory
	if n.virtual {
		memory = newMemory()
	}
	var logged journal
	now := func() time.Time { return n.founded }
	if n.virtual {
		now = time.Now // which begins at the same time in both
	}
	f := foundFederation(t, memory, n.settings+" tolerance=0.25 deployment.stage-timeout-s=60 data="+n.data, zerolog.New(&logged).Level(zerolog.DebugLevel), now)
	if n.emptied {
		f.empty(changed)
	}
	text, err := f.public.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.note(document, "%s", text)
	monitors := map[protocol.Role]*ops.Monitor{}
	f.also = map[protocol.Role]session.Observer{}
	for _, role := range []protocol.Role{protocol.Aggregator, protocol.Server} {
		monitors[role] = ops.NewMonitor(role.String(), time.Now)
		f.also[role] = monitors[role]
	}
	here := gathering{monitors[protocol.Aggregator], make(chan struct{}, 2*f.federation.Clients)}
	f.also[protocol.Aggregator] = here
	f.strategy = func(s server.Durable) server.Durable { return &absorbing{s, w, n.sums} }
	if n.virtual && !f.simulated.About().Clients.Organisations() { // in virtual time training takes none by itself
		f.trainer = func(id protocol.ClientID, own client.Trainer) client.Trainer {
			if id == changed {
				return slow{own, own.(*experiment.Party).Ratings}
			}
			return own
		}
	}
	x := f.tapped()
	if n.leak != nil {
		n.leak(f, x)
	}
	x.rule(w.passes)
	server := f.server(f.join(admission.ServerPlace))
	wait := f.start(f.joinAll()...)
	for range f.federation.Clients { // who comes first is not of the data
		<-here.came
	}
	out, err := server.Run(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	if out.Attempts.Opened != out.Attempts.Released || out.Attempts.Opened == 0 {
		t.Fatalf("attempts %+v", out.Attempts)
	}
	_ = f.aggregator.Close()
	for role, m := range monitors {
		for _, path := range []string{"/", "/metrics", "/status", "/healthz", "/readyz"} {
			if path != "/" || n.virtual { // it is full of times, and shows the status
				w.note(pages+role.String(), "%s: %s", path, w.page(m, path))
			}
		}
	}
	w.logged(logged.String())
	w.left(t, f.dir)
}

// gathering is an observer that says so when a client registers.
type gathering struct {
	*ops.Monitor
	came chan struct{}
}

func (g gathering) Registered(change int) {
	g.Monitor.Registered(change)
	if change > 0 {
		g.came <- struct{}{}
	}
}

// empty has a client's file hold no ratings, and who sets the experiment up be told of the same users
// and items.
func (f *federation) empty(id protocol.ClientID) {
	f.t.Helper()
	full := f.simulated.Data
	emptied := *full
	emptied.Ratings = dataset.Ratings{Users: full.Users, Items: full.Items}
	for k, u := range full.User {
		if u != int32(id) {
			emptied.User, emptied.Item, emptied.Value = append(emptied.User, u), append(emptied.Item, full.Item[k]), append(emptied.Value, full.Value[k])
		}
	}
	e, err := experiment.OpenSet(f.simulated.Config, &emptied)
	if err != nil {
		f.t.Fatal(err)
	}
	f.simulated = e
	if f.public, err = agreement.Of(e, f.public.Session); err != nil {
		f.t.Fatal(err)
	}
	file := filepath.Join(f.t.TempDir(), "own.csv")
	if err := os.WriteFile(file, []byte("user,item,rating\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.own = map[protocol.ClientID]string{id: file}
}

// itself matches the lines of a page about the process and not about the federation; clock matches
// the times of a status, timings the values of durations.
var (
	itself  = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(go|process)_.*\n`)
	clock   = regexp.MustCompile(`"(at|began|seconds|since|took)":[^,}\]]*`)
	timings = regexp.MustCompile(`(?m)^(fedsim_\w+_seconds(?:_bucket|_sum)?(?:\{[^}]*\})?) .*$`)
)

func (w *witness) page(m *ops.Monitor, path string) string {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, r)
	text := itself.ReplaceAllString(answer.Body.String(), "")
	if !w.timed {
		text = timings.ReplaceAllString(clock.ReplaceAllString(text, ""), "$1")
	}
	return fmt.Sprintf("%d %s", answer.Code, text)
}

// logged notes the logs of the aggregator and the server. Events at the same time may be logged in
// either order.
func (w *witness) logged(text string) {
	for l := range strings.Lines(text) {
		for _, role := range []string{"aggregator", "server"} {
			if strings.Contains(l, `"role":"`+role+`"`) {
				w.note(logs+role, "%s", l)
			}
		}
	}
	for what, lines := range w.seen {
		if strings.HasPrefix(what, logs) {
			slices.Sort(lines)
		}
	}
}

// own matches files of clients, which no other party sees.
var own = regexp.MustCompile(`^(finished-.*|\d+)(/|$)`)

// left notes what the aggregator and the server leave on disk, by name and size.
func (w *witness) left(t *testing.T, dir string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || own.MatchString(path) {
			return err
		}
		info, err := d.Info()
		if err == nil {
			w.note(files, "%s: %d bytes", path, info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// differences returns the differences of two sessions, by kind.
func differences(a, b seen) map[string]string {
	found := make(map[string]string)
	for _, all := range []seen{a, b} {
		for what := range all {
			if d := cmp.Diff(a[what], b[what]); d != "" {
				found[what] = d
			}
		}
	}
	return found
}

// whole watches the session with all data.
func (n neighbour) whole(t *testing.T) *witness {
	t.Helper()
	w := n.watch(t)
	for _, what := range []string{document, line + admission.ClientPlace(changed).String() + ", up", line + "server, down",
		logs + "aggregator", logs + "server", pages + "aggregator", pages + "server", files} {
		if len(w.seen[what]) == 0 {
			t.Errorf("nothing was seen of what is called %s", what)
		}
	}
	return w
}

// differs returns the differences of another session. Its server is handed the sums of the first
// session. So only the parts that noise does not cover can differ.
func (n neighbour) differs(t *testing.T, first *witness) map[string]string {
	t.Helper()
	second := n.watch(t)
	if first.first == second.first {
		t.Error("noise is the same, and sums are: the unit was in none of them")
	}
	return differences(first.seen, second.seen)
}

// Two sessions over libp2p that differ in one unit of privacy look the same to the server, to the
// aggregator and to an eavesdropper on a line. Compared are the published document, and all
// messages of every client in both directions with their lengths and times, except integers under
// masks or noise. So are the logs, pages and files of both roles. fedsim audit --neighbours
// compares the same in a simulation.
func TestNeighboursDifferInNothingElse(t *testing.T) {
	effort.NotShort(t, "a federation over a network takes a second")
	user := func(n *neighbour) { n.emptied = true }
	all := ratings(t, 5, 12)
	rating := func(n *neighbour) {
		text, err := os.ReadFile(all)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		n.data = filepath.Join(t.TempDir(), "ratings.csv") // which is public
		if err := os.WriteFile(n.data, []byte(strings.Join(slices.Delete(lines, 1, 2), "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		settings string
		without  func(*neighbour)
	}{
		"lfl-sgdmf": {"algorithm=lfl-sgdmf epsilon=5 contribution=all-ratings rounds=2 colluders=0.1 mode=active secagg=real", user},
		"ssp-c":     {"algorithm=ssp-c epsilon=5 rank=2 rounds=1 colluders=0.1 features=" + features(t, 12), user},
		"vfl-sgdmf": {"algorithm=vfl-sgdmf unit=rating accountant=rdp sampling-rate=0.5 epsilon=5 rounds=2 local-steps=2 parties=3 colluders=0.2", rating},
	} {
		for _, network := range []string{"virtual time", "loopback"} {
			t.Run(name+" "+network, func(t *testing.T) {
				if network == "loopback" {
					effort.LongOnly(t, "what is said is the same in virtual time")
					t.Parallel()
				}
				n := neighbour{settings: c.settings, founded: time.Now(), data: all, virtual: network != "loopback"}
				first := n.whole(t)
				n.sums = first.sums
				c.without(&n)
				for what, d := range n.differs(t, first) {
					t.Errorf("%s: (-with +without)\n%s", what, d)
				}
			})
		}
	}
}

// longer is a strategy whose state has a byte more.
type longer struct{ server.Durable }

func (s longer) Save() ([]byte, error) {
	b, err := s.Durable.Save()
	return append(b, 0), err
}

// Leaks of every kind are found where they are planted.
func TestPlantedLeaksAreSeen(t *testing.T) {
	effort.NotShort(t, "a federation over a network takes a second")
	whole := neighbour{settings: "algorithm=lfl-sgdmf epsilon=5 contribution=all-ratings rounds=2 colluders=0.1 secagg=real", data: ratings(t, 4, 12), virtual: true}
	first := whole.whole(t)
	own := line + admission.ClientPlace(changed).String() + ", up"
	// masked has a rule act on the second masked input of the changed client.
	masked := func(act func(*testing.T, *passing, *protocol.MaskedInput)) func(*federation, *tap) {
		return func(_ *federation, x *tap) {
			x.rule(func(p *passing) {
				if m, ok := p.message.(*protocol.MaskedInput); ok && p.place == admission.ClientPlace(changed) && m.Round == 2 {
					act(t, p, m)
				}
			})
		}
	}
	for name, c := range map[string]struct {
		leak func(*federation, *tap)
		more func(*neighbour) // besides that the record is empty
		want []string         // what differs, at least
	}{
		"who has no ratings is silent": {leak: masked(func(_ *testing.T, p *passing, _ *protocol.MaskedInput) { p.raw = nil }),
			want: []string{own, logs + "aggregator", pages + "aggregator", line + "server, down"}},
		"a vector is as long as its ratings": {leak: masked(func(t *testing.T, p *passing, m *protocol.MaskedInput) {
			longer := *m
			longer.Masked = append([][]byte{append(slices.Clone(m.Masked[0]), 0)}, m.Masked[1:]...)
			var err error
			if p.raw, err = wire.AppendFrames(nil, &longer); err != nil {
				t.Error(err)
			}
			p.message = &longer
		}), want: []string{own}},
		"an answer takes a time of its own": {leak: masked(func(*testing.T, *passing, *protocol.MaskedInput) { time.Sleep(time.Millisecond) }),
			want: []string{own, pages + "aggregator"}},
		"a message more": {leak: masked(func(t *testing.T, p *passing, _ *protocol.MaskedInput) {
			stale, err := wire.AppendFrames(nil, &protocol.Consistency{Round: 1, Signature: make([]byte, 64)})
			if err != nil {
				t.Error(err)
			}
			p.raw = append(p.raw, stale...)
		}), want: []string{own, logs + "aggregator", pages + "aggregator"}},
		"a state of another size": {leak: func(f *federation, _ *tap) {
			inner := f.strategy
			f.strategy = func(s server.Durable) server.Durable { return longer{inner(s)} }
		}, want: []string{files}},
		"the server's own sums":            {more: func(n *neighbour) { n.sums = nil }, want: []string{line + "server, up", line + admission.ClientPlace(0).String() + ", down"}},
		"a setting that follows from data": {more: func(n *neighbour) { n.settings += " model.learning-rate=0.125" }, want: []string{document, line + "server, up"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := whole
			n.emptied, n.sums, n.leak = true, first.sums, c.leak
			if c.more != nil {
				c.more(&n)
			}
			found := n.differs(t, first)
			for _, what := range c.want {
				if found[what] == "" {
					t.Errorf("nothing is seen of it in what is called %s, but in %v", what, slices.Sorted(maps.Keys(found)))
				}
			}
		})
	}
}
