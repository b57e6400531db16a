package lab_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/effort"
	entropy "github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/lab/verify"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// deployment is a federation without its processes: a log, a folder of the last model, and receipts.
type deployment struct {
	t      testing.TB
	state  string
	log    *store.SessionLog
	dir    string            // of the model
	kept   map[string]string // files of receipts by client
	key    admission.PublicKey
	number byte // of the session
}

func drawn(t testing.TB, name string) admission.PrivateKey {
	t.Helper()
	k, err := admission.GenerateKey(entropy.New(1, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (d *deployment) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func newDeployment(t testing.TB) *deployment {
	t.Helper()
	d := &deployment{t: t, state: t.TempDir(), kept: make(map[string]string)}
	d.open("aggregator")
	return d
}

// open opens the log, as an aggregator of a key does.
func (d *deployment) open(aggregator string) {
	d.t.Helper()
	var err error
	d.key = drawn(d.t, aggregator).Public()
	d.log, err = store.OpenSessionLog(d.state, admission.Hash{1}, drawn(d.t, aggregator))
	d.must(err)
}

// leaf makes the leaf of a session's beginning by the experiment's own accounting, which is not a node's.
func leaf(t testing.TB, e *experiment.Experiment, p *agreement.Public) *protocol.Leaf {
	t.Helper()
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	server, sum := drawn(t, "server").Public(), sha256.Sum256(text)
	plan := sha256.Sum256([]byte("the description"))
	l := &protocol.Leaf{Format: protocol.LeafFormat, Session: hex.EncodeToString(p.Session[:]), Agreement: sum[:], Plan: plan[:], Claims: protocol.Claims{Unit: "user"},
		Clients: e.Cohort.All(), Rounds: e.Schedule.Rounds(), Charges: []dp.Event{}, Server: server[:]}
	if e.Private() {
		l.Claims.Delta, l.Claims.SamplerError = e.Privacy.Budget.Delta, e.Privacy.Budget.SamplerError
		if l.Charges, err = e.Charges(l.Rounds); err != nil {
			t.Fatal(err)
		}
	}
	signed := protocol.DescriptionHash(plan)
	l.Signature = ed25519.Sign(drawn(t, "server").Ed25519(), signed[:])
	return l
}

// fork is a copy that goes its own way from here on.
func (d *deployment) fork(t testing.TB) *deployment {
	t.Helper()
	f := newDeployment(t)
	f.must(os.CopyFS(f.state, os.DirFS(d.state)))
	f.open("aggregator")
	f.dir, f.number = filepath.Join(t.TempDir(), "model"), d.number
	f.must(os.CopyFS(f.dir, os.DirFS(d.dir)))
	for name, path := range d.kept {
		f.kept[name] = filepath.Join(t.TempDir(), "receipts.jsonl")
		b, err := os.ReadFile(path)
		f.must(errors.Join(err, os.WriteFile(f.kept[name], b, 0o600)))
	}
	return f
}

// session holds a session with some settings, as far as change leaves it, and keeps its folder and the receipts of some clients.
func (d *deployment) session(settings string, change func(l *protocol.Leaf), clients ...string) *protocol.Leaf {
	d.t.Helper()
	d.number++
	set := map[string]string{"algorithm": "lfl-sgdmf", "rounds": "3", "epsilon": "5", "tolerance": "0.25"}
	for _, s := range strings.Fields(settings) {
		key, value, _ := strings.Cut(s, "=")
		set[key] = value
	}
	var list []config.Setting
	for key, value := range set {
		list = append(list, config.Setting{Key: key, Value: value})
	}
	c, err := config.Resolve(list)
	d.must(err)
	p, err := agreement.Publish(c, agreement.Facts{Name: "three films", Min: 1, Max: 5, Users: 40, ItemIDs: []string{"a", "b", "c"}}, protocol.SessionID{d.number})
	d.must(err)
	e, err := agreement.Open(p)
	d.must(err)
	l := leaf(d.t, e, p)
	if change != nil {
		change(l)
	}
	d.must(d.log.Add(l))
	f := &protocol.Final{Model: []byte("three numbers of a model")}
	if _, err = e.Instance().Shared(f.Model); err != nil { // another algorithm's has another form
		s, err := e.Strategy()
		d.must(err)
		f.Model = s.Model()
	}
	d.must(protocol.SignFinal(drawn(d.t, "server").Ed25519(), protocol.SessionID{d.number}, f))
	end := l.Ended(f, [][2]int{{1, l.Clients - 2}})
	d.must(d.log.Add(end))
	for _, name := range clients {
		d.shown(name, d.log)
	}
	d.conclude(e, p, f.Model)
	return end
}

// shown has a client keep a receipt of a log's last session.
func (d *deployment) shown(name string, log *store.SessionLog) {
	d.t.Helper()
	if d.kept[name] == "" {
		d.kept[name] = filepath.Join(d.t.TempDir(), "receipts.jsonl")
	}
	x, err := store.OpenReceipts(d.kept[name])
	d.must(err)
	_, _, seen := x.Last()
	r, err := log.Receipt(seen)
	d.must(err)
	_, err = x.Meet(r, d.key, false)
	d.must(err)
	d.must(x.Add(r, drawn(d.t, name), 3))
}

// conclude writes the folder that a server leaves.
func (d *deployment) conclude(e *experiment.Experiment, p *agreement.Public, model []byte) {
	d.t.Helper()
	d.dir = d.t.TempDir()
	text, err := p.Encode()
	d.must(err)
	var charged []dp.Event
	if e.Private() {
		charged, err = e.Charges(e.Schedule.Rounds())
	}
	d.must(err)
	spent, err := e.SpentAtMost(e.Schedule.Rounds())
	d.must(err)
	past, err := e.Past(charged, 0)
	d.must(err)
	summary, err := json.Marshal(map[string]any{"algorithm": e.About().Name, "rounds": e.Schedule.Rounds(), "session": hex.EncodeToString(p.Session[:]), "clients": e.Cohort.All(), "privacy": e.Statement(spent)})
	d.must(err)
	d.must(os.WriteFile(filepath.Join(d.dir, "summary.json"), summary, 0o600))
	d.must(results.WriteDeployed(d.dir, text, model))
	held, err := e.Instance().Shared(model)
	d.must(err)
	for _, x := range held {
		d.must(results.WriteEmbeddings(d.dir, x))
	}
	d.must(results.WriteEvidence(d.dir, []algorithm.PastSession{past}, nil))
}

// receipts writes the receipts of all clients into one file.
func (d *deployment) receipts() string {
	d.t.Helper()
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(d.kept)) {
		text, err := os.ReadFile(d.kept[name])
		d.must(err)
		all = append(all, text...)
	}
	path := filepath.Join(d.t.TempDir(), "receipts.jsonl")
	d.must(os.WriteFile(path, all, 0o600))
	return path
}

func (d *deployment) verified() *verify.Report {
	d.t.Helper()
	r, err := verify.Folder(context.Background(), d.dir, verify.Options{Log: filepath.Join(d.state, store.SessionFolder), Receipts: d.receipts()})
	d.must(err)
	return r
}

// logFile is a file of the log.
func (d *deployment) logFile(name string) string {
	return filepath.Join(d.state, store.SessionFolder, filepath.FromSlash(name))
}

// rewrite changes a file.
func (d *deployment) rewrite(path, old, replacement string) {
	d.t.Helper()
	b, err := os.ReadFile(path)
	d.must(err)
	if !bytes.Contains(b, []byte(old)) {
		d.t.Fatalf("%s has no %q:\n%s", path, old, b)
	}
	d.must(os.WriteFile(path, bytes.Replace(b, []byte(old), []byte(replacement), 1), 0o600))
}

// copied copies the log's folder. put replaces the folder by the copy later.
func (d *deployment) copied() (put func()) {
	d.t.Helper()
	to, dir := filepath.Join(d.t.TempDir(), "log"), filepath.Join(d.state, store.SessionFolder)
	d.must(os.CopyFS(to, os.DirFS(dir)))
	return func() {
		d.must(os.RemoveAll(dir))
		d.must(os.CopyFS(dir, os.DirFS(to)))
	}
}

// again writes the log anew with the same sessions.
func (d *deployment) again(aggregator string, change func(i int, l *protocol.Leaf)) {
	d.t.Helper()
	s, err := store.ReadSessions(store.ReadFolder(filepath.Join(d.state, store.SessionFolder)), d.key)
	d.must(err)
	d.must(os.RemoveAll(filepath.Join(d.state, store.SessionFolder)))
	key := d.key
	d.open(aggregator)
	d.key = key
	for i, entry := range s.Entries {
		l, err := protocol.ParseLeaf(entry)
		d.must(err)
		if change != nil {
			change(i, l)
		}
		d.must(d.log.Add(l))
	}
}

// Each forged folder or log is found and named. The first case of TestHonestLogsPass has them as they were.
func TestForgedLogsAreFound(t *testing.T) {
	honest := newDeployment(t)
	honest.session("", nil, "alice", "bob")
	for name, x := range map[string]struct {
		logged func(l *protocol.Leaf) // as the log has it
		forge  func(d *deployment)
		want   string
	}{
		"ε edited, and the evidence with it": {nil, func(d *deployment) {
			remember(d.t, d.dir, func(x *results.Evidence) { x.Sessions[0].Events[0].Variance *= 100 })
			d.rewrite(filepath.Join(d.dir, "summary.json"), `"epsilon":`, `"epsilon":0.5,"was":`)
			cover(d.t, d.dir)
		}, "forged epsilon"},
		"a round left out": {nil, func(d *deployment) {
			remember(d.t, d.dir, func(x *results.Evidence) { x.Sessions[0].Events[0].Count = 2 })
			d.rewrite(filepath.Join(d.dir, "summary.json"), `"rounds":3`, `"rounds":2`)
			cover(d.t, d.dir)
		}, "forged rounds"},
		"a round left out of the log": {func(l *protocol.Leaf) { l.Rounds = 2 }, func(d *deployment) {
			d.rewrite(filepath.Join(d.dir, "summary.json"), `"rounds":3`, `"rounds":2`)
			cover(d.t, d.dir)
		}, "forged clients"}, // a client was charged for three
		"variance edited": {nil, func(d *deployment) {
			remember(d.t, d.dir, func(x *results.Evidence) { x.Sessions[0].Events[0].Variance *= 2 })
			cover(d.t, d.dir)
		}, "forged noise"},
		"another model": {nil, func(d *deployment) {
			d.must(os.WriteFile(filepath.Join(d.dir, results.SharedFile), []byte("another"), 0o600))
			cover(d.t, d.dir)
		}, "forged model"},
		"a matrix to read that is not the model's": {nil, func(d *deployment) {
			kept, err := results.ReadEmbeddings(d.dir)
			d.must(err)
			kept[0].Data()[0] = 1
			d.must(results.WriteEmbeddings(d.dir, kept[0]))
			cover(d.t, d.dir)
		}, "forged model"},
		"a start hidden":                  {func(l *protocol.Leaf) { l.Claims.Start = strings.Repeat("ab", 32) }, nil, "forged start"},
		"a search hidden":                 {func(l *protocol.Leaf) { l.Claims.Search = "plain" }, nil, "forged search"},
		"another data digest":             {func(l *protocol.Leaf) { l.Agreement = make([]byte, 32) }, nil, "forged agreement"},
		"a client dropped from the count": {func(l *protocol.Leaf) { l.Clients = 39 }, nil, "forged clients"},
		"two views to two clients": {nil, func(d *deployment) {
			other := newDeployment(d.t)
			other.number = 7
			other.session("", nil)
			d.shown("carol", other.log)
		}, "forged views"},
		"a shortened log": {nil, func(d *deployment) {
			b, err := os.ReadFile(d.logFile("tile/entries/000.p/2"))
			d.must(err)
			d.must(os.WriteFile(d.logFile("tile/entries/000.p/2"), b[:len(b)/2], 0o600))
		}, "forged log"},
		"an older log": {nil, func(d *deployment) {
			put := d.copied()
			dir := d.dir
			d.session("", nil, "alice")
			d.dir = dir
			put()
		}, "forged log"},
		"an older checkpoint": {nil, func(d *deployment) {
			b, err := os.ReadFile(d.logFile("checkpoint"))
			d.must(err)
			dir := d.dir
			d.session("", nil, "bob")
			d.dir = dir
			d.must(os.WriteFile(d.logFile("checkpoint"), b, 0o600))
		}, "forged log"},
		"a replaced key":         {nil, func(d *deployment) { d.again("another", nil) }, "forged key"},
		"another log of the key": {nil, func(d *deployment) { d.again("aggregator", func(i int, l *protocol.Leaf) { l.Survivors = nil }) }, "forged views"},
		"a tile of other hashes": {nil, func(d *deployment) { d.must(os.WriteFile(d.logFile("tile/0/000.p/2"), make([]byte, 64), 0o600)) }, "forged log"},
		"the end without a beginning": {nil, func(d *deployment) {
			d.again("aggregator", func(i int, l *protocol.Leaf) {
				if i == 0 {
					l.Session = strings.Repeat("09", 16)
				}
			})
		}, "forged log"},
		"another session of the folder": {nil, func(d *deployment) {
			other := newDeployment(d.t)
			other.number = 7
			other.session("", nil)
			d.dir = other.dir
		}, "forged history"},
		"a receipt edited": {nil, func(d *deployment) { d.rewrite(d.kept["alice"], `"charged":3`, `"charged":1`) }, "forged receipts"},
	} {
		t.Run(name, func(t *testing.T) {
			var d *deployment
			if x.logged == nil {
				d = honest.fork(t)
			} else {
				d = newDeployment(t)
				d.session("", x.logged, "alice", "bob")
			}
			if x.forge != nil {
				x.forge(d)
			}
			if r := d.verified(); !slices.Contains(verdicts(t, r), x.want) || r.Err() == nil {
				t.Errorf("found %v, want %s", verdicts(t, r), x.want)
			}
		})
	}
}

// Honest logs are accused of nothing.
func TestHonestLogsPass(t *testing.T) {
	for name, hold := range map[string]func(d *deployment){
		"one session":          func(d *deployment) { d.session("", nil, "alice", "bob") },
		"one receipt":          func(d *deployment) { d.session("", nil, "alice") },
		"the server's":         func(d *deployment) { d.session("", nil, "server") },
		"without noise":        func(d *deployment) { d.session("epsilon=inf", nil, "alice") },
		"noise of each client": func(d *deployment) { d.session("noise=local epsilon=50", nil, "alice") },
		"active mode":          func(d *deployment) { d.session("mode=active secagg=real", nil, "alice") },
		"another algorithm":    func(d *deployment) { d.session("algorithm=private-item-bias rounds=auto", nil, "alice") },
		"three sessions, the last": func(d *deployment) {
			for range 3 {
				d.session("", nil, "alice", "bob")
			}
		},
		"three sessions, an earlier one": func(d *deployment) {
			d.session("", nil, "alice")
			dir := d.dir
			d.session("epsilon=2", nil, "bob")
			d.session("", nil, "alice")
			d.dir = dir
		},
		"a client that was away": func(d *deployment) {
			d.session("", nil, "alice")
			d.session("", nil, "bob")
			d.session("", nil, "alice", "bob")
		},
		"a session that never ended": func(d *deployment) {
			d.session("", nil, "alice")
			s, err := store.ReadSessions(store.ReadFolder(filepath.Join(d.state, store.SessionFolder)), d.key)
			d.must(err)
			l, err := protocol.ParseLeaf(s.Entries[0])
			d.must(err)
			l.Session = strings.Repeat("0a", 16)
			d.must(d.log.Add(l))
		},
		"an aggregator that was started again": func(d *deployment) {
			d.session("", nil, "alice")
			d.open("aggregator")
			d.session("", func(l *protocol.Leaf) { d.must(d.log.Add(l)) }, "alice")
		},
		"many entries": func(d *deployment) { // in long tests more than the 256 of a tile; package store has a test of these
			l := *d.session("", nil)
			for i := range effort.Of(20, 20, 260) {
				l.Session = fmt.Sprintf("%032x", 1000+i)
				begun := l
				begun.Model, begun.Survivors = nil, nil
				signed := protocol.DescriptionHash([32]byte(l.Plan))
				begun.Signature = ed25519.Sign(drawn(d.t, "server").Ed25519(), signed[:])
				d.must(d.log.Add(&begun))
			}
			d.session("", nil, "alice")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "three") || name == "many entries" {
				effort.NotShort(t, "sessions whose files are written durably")
			}
			t.Parallel()
			d := newDeployment(t)
			hold(d)
			if r := d.verified(); r.Err() != nil {
				t.Errorf("accused of %v: %v", verdicts(t, r), r.Err())
			}
		})
	}
}

// A log is read from a server of files too. A log without the right file, and receipts that are none, are named.
func TestLogFromAnAddress(t *testing.T) {
	d := newDeployment(t)
	d.session("", nil, "alice")
	web := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(d.state, store.SessionFolder))))
	defer web.Close()
	for address, fine := range map[string]bool{web.URL: true, web.URL + "/": true, web.URL + "/elsewhere": false, filepath.Join(d.state, "elsewhere"): false} {
		r, err := verify.Folder(t.Context(), d.dir, verify.Options{Log: address, Receipts: d.receipts()})
		if (err == nil) != fine || fine && r.Err() != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty")
	d.must(os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{empty, filepath.Join(t.TempDir(), "none")} {
		if _, err := verify.Folder(t.Context(), d.dir, verify.Options{Log: filepath.Join(d.state, store.SessionFolder), Receipts: path}); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// BenchmarkYear reports the time of checking a year of weekly sessions, each of another price, with the receipts of two clients.
func BenchmarkYear(b *testing.B) {
	d := newDeployment(b)
	for i := range 52 {
		d.session(fmt.Sprintf("epsilon=%v", 1+float64(i)/50), nil, "alice", "bob")
	}
	for b.Loop() {
		if r := d.verified(); r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
}
