package command

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/cmd/fednode/internal/check"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/lab/verify"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/results"
)

// contents lists a folder with modes, times and digests, so that any change shows.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[path] += fmt.Sprintf(" %x", sha256.Sum256(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checks runs fednode check, which must end with a code, and returns what it found.
func checks(t *testing.T, code int, state string, more ...string) (c check.Report) {
	t.Helper()
	before := contents(t, state)
	got, out, stderr := call(t, append([]string{"check", "--state", state, "--format", "json"}, more...)...)
	if err := json.Unmarshal([]byte(out), &c); err != nil || got != code {
		t.Fatalf("%s: exit code %d, want %d\n%s%s", state, got, code, out, stderr)
	}
	if !maps.Equal(before, contents(t, state)) {
		t.Errorf("the check has changed %s", state)
	}
	return c
}

// settle waits until a process that runs has written what it keeps for a second: the heads that it was shown.
func settle(t *testing.T, state string) {
	t.Helper()
	for before := contents(t, state); ; {
		time.Sleep(1500 * time.Millisecond)
		after := contents(t, state)
		if maps.Equal(before, after) {
			return
		}
		before = after
	}
}

// damages lists faults of a state, each with the file that the check must name and words that it must say of it.
var damages = []struct {
	name, state, file, says string
	do                      func(state string) error
}{
	{"a strange file", "alone", "notes.txt", "does not belong", func(d string) error { return os.WriteFile(d+"/notes.txt", nil, 0o600) }},
	{"the ledger is gone", "alone", "ledger.db", "what was spent is not known", func(d string) error { return os.Remove(d + "/ledger.db") }},
	{"the ledger is cut", "alone", "ledger.db", "damaged", func(d string) error { return os.Truncate(d+"/ledger.db", 8_300) }},
	{"a bit of the ledger", "alone", "ledger.db", "damaged", func(d string) error { return flip(d+"/ledger.db", `"session"`) }},
	{"an entry of another version", "alone", "ledger.db", "another version", chargeOfAnotherVersion},
	{"the key is gone", "alone", "identity.json", "no such file", func(d string) error { return os.Remove(d + "/identity.json") }},
	{"the key is open to all", "alone", "identity.json", "0644", func(d string) error { return os.Chmod(d+"/identity.json", 0o644) }},
	{"another key", "alone", "identity.json", "the membership names", func(d string) error { return copyFile(d+"/../together/client-3/identity.json", d+"/identity.json") }},
	{"a folder that others write to", "alone", ".", "chmod go-w", func(d string) error { return os.Chmod(d, 0o777) }},
	{"a file that others write to", "alone", "consents", "chmod go-w", func(d string) error { return os.Chmod(d+"/consents", 0o777) }},
	{"a result that is cut", "alone", "result", "item_embeddings", func(d string) error { return os.Truncate(d+"/result/item_embeddings.npy", 100) }},
	{"the membership is gone", "alone", "membership.json", "5 charges", func(d string) error { return os.Remove(d + "/membership.json") }},
	{"a forged membership", "alone", "membership.json", "sign", func(d string) error { return replace(d+"/membership.json", `"client 5"`, `"client 4"`) }},
	{"a membership that is cut", "alone", "membership.json", "malformed", func(d string) error { return os.Truncate(d+"/membership.json", 100) }},
	{"a registry that is empty", "alone", "registry.db", "damaged", func(d string) error { return os.Truncate(d+"/registry.db", 0) }},
	{"the description of the session is cut", "server", "public.json", "cannot be read", func(d string) error { return os.Truncate(d+"/public.json", 100) }},
	{"the description of the session is gone", "server", "public.json", "is missing", func(d string) error { return os.Remove(d + "/public.json") }},
	{"a log of sessions that is cut", "aggregator", "log", "does not hold", func(d string) error { return os.Truncate(d+"/log/checkpoint", 50) }},
	{"a log of sessions without its checkpoint", "aggregator", "log", "no such file", func(d string) error { return os.Remove(d + "/log/checkpoint") }},
	{"a model that is cut", "server", "sessions", "shared.bin", func(d string) error { return os.Truncate(d+"/current/shared.bin", 10) }},
	{"a model without its items", "server", "sessions", "lacks item_embeddings.npy", func(d string) error { return os.Remove(d + "/current/item_embeddings.npy") }},
	{"a link to nowhere", "server", "current", "no such file", func(d string) error {
		return errors.Join(os.Remove(d+"/current"), os.Symlink("sessions/none/model", d+"/current"))
	}},
	{"a checkpoint that is cut", "server", "checkpoint", "predecessor", func(d string) error { return os.Truncate(d+"/checkpoint", 100) }},
	{"heads that are cut", "aggregator", "heads.txt", "fedsim-heads", func(d string) error { return os.Truncate(d+"/heads.txt", 5) }},
	{"a forged head", "aggregator", "heads.txt", "not signed", func(d string) error { return forgeHead(d + "/heads.txt") }},
	{"a forged end", "aggregator", "ended.json", "sign", func(d string) error { return replace(d+"/ended.json", `"final":"`, `"final":"AAAA`) }},
	{"a registry that is cut", "aggregator", "registry.db", "damaged", func(d string) error { return os.Truncate(d+"/registry.db", 8_300) }},
}

// chargeOfAnotherVersion adds a charge by a mechanism that this version does not know.
func chargeOfAnotherVersion(state string) error {
	m, err := admission.ReadFile(state+"/membership.json", admission.ParseMembership)
	if err != nil {
		return err
	}
	log, err := store.OpenLog(state+"/ledger.db", store.Kind{Format: "fedsim-ledger-v1", Owner: m.Enrolment.Identity})
	if err != nil {
		return err
	}
	return errors.Join(log.Append([]byte(`{"session":[9,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"round":1,"events":[{"mechanism":"new","count":1}],"unit":"user","relation":"zero-out"}`)), log.Close())
}

// flip changes a bit in a file after every occurrence of a text.
func flip(path, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parts := strings.Split(string(b), text)
	for i := 1; i < len(parts); i++ {
		parts[i] = string(parts[i][0]) + string(parts[i][1]^1) + parts[i][2:]
	}
	return os.WriteFile(path, []byte(strings.Join(parts, text)), 0o600)
}

func replace(path, old, with string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), old) {
		return fmt.Errorf("%s has no %s", path, old)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(b), old, with, 1)), 0o600)
}

// forgeHead raises the number of charges of the first head.
func forgeHead(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := strings.IndexByte(string(b), '\n') + 1 + 64 + 15 // the owner, then the count
	b[at] ^= 1
	return os.WriteFile(path, b, 0o600)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	return err
}

// The check finds every damage, names the file, says what to do, and changes nothing. Of a whole state it says that all is
// well, and of a state in use that its process runs.
func TestCheckOfStates(t *testing.T) {
	effort.NotShort(t, "starts processes")
	m := newMachine(t)
	lead, serve, alone, rest := m.federation(6, 5)
	aggregator := m.start(lead...)
	server, client := m.start(serve...), m.start(append(alone, "--sessions", "2")...)
	together := m.start(rest...)
	for _, p := range []*process{server, together} {
		if code := p.wait(); code != cli.Done {
			t.Fatalf("exit code %d\n%s", code, p.log.String())
		}
	}
	client.until("the session has ended")
	federation := []string{"--federation", m.path("federation.json")}
	if c := checks(t, cli.Done, m.path("alone")); c.Busy != 2 || c.Wrong != 0 { // its registry and its ledger
		t.Errorf("a client that runs: %+v", c)
	}
	settle(t, m.path("aggregator"))
	if c := checks(t, cli.Done, m.path("aggregator"), federation...); c.Busy != 1 || c.Wrong != 0 {
		t.Errorf("an aggregator that runs: %+v", c)
	}
	if out, _ := m.run(cli.Done, "check", "--network", "--state", m.path("alone")); !strings.Contains(out, "knows this party and speaks /fedsim/") {
		t.Errorf("an aggregator that answers:\n%s", out)
	}
	for _, p := range []*process{client, aggregator} {
		p.signal(syscall.SIGTERM)
		p.wait()
	}
	if out, _ := m.run(cli.Failed, "check", "--network", "--state", m.path("alone")); !strings.Contains(out, "nothing listens at its address") {
		t.Errorf("an aggregator that is gone:\n%s", out)
	}
	more := map[string][]string{"aggregator": federation}
	for state, place := range map[string]string{"alone": "client 5", "together": "5 clients", "server": "server", "aggregator": "aggregator"} {
		c := checks(t, cli.Done, m.path(state), more[state]...)
		for _, f := range c.Findings {
			asksLater := state == "server" && f.File == "public.json" && f.Is == check.Note // the aggregator knows whether the state is the newest
			if f.Is != check.Fine && !asksLater {
				t.Errorf("%s: %+v", state, f)
			}
		}
		if c.Place != place || len(c.Findings) < 5 {
			t.Errorf("%s: %+v", state, c)
		}
	}
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			another := filepath.Join(dir, "together", "client-3")
			if err := errors.Join(os.MkdirAll(another, 0o700), copyFile(m.path("together/client-3/identity.json"), another+"/identity.json"),
				copyState(m.path(c.state), filepath.Join(dir, c.state)), c.do(filepath.Join(dir, c.state))); err != nil {
				t.Fatal(err)
			}
			found := checks(t, cli.Failed, filepath.Join(dir, c.state), more[c.state]...)
			for _, f := range found.Findings {
				if strings.Contains(f.Says, "does not belong") && f.File != c.file {
					t.Errorf("what the state needs is to leave it: %+v", f)
				}
				if f.File == "public.json" && strings.Contains(f.Do, "--abandon") {
					t.Errorf("no session is abandoned without its description: %+v", f)
				}
			}
			for _, f := range found.Findings {
				if f.Is == check.Wrong && strings.HasPrefix(f.File, c.file) && strings.Contains(f.Says, c.says) {
					return
				}
			}
			t.Errorf("found %+v", found.Findings)
		})
	}
	overtake(t, m)
}

// copyState copies a state with its modes and links.
func copyState(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, name)
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(dst, 0o700)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(link, dst))
		}
		return errors.Join(copyFile(path, dst), os.Chmod(dst, info.Mode()))
	})
}

// overtake checks a ledger that was found to be old.
func overtake(t *testing.T, m *machine) {
	dir := t.TempDir()
	if err := copyState(m.path("alone"), dir); err != nil {
		t.Fatal(err)
	}
	heads, err := store.ReadHeads(m.path("aggregator/heads.txt"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := partyKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	head := heads[p]
	if err = errors.Join(os.Remove(dir+"/ledger.db"), store.CreateLedger(dir+"/ledger.db", p), os.WriteFile(dir+"/ledger.db.newer", head.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, f := range checks(t, cli.Failed, dir).Findings {
		if f.Is == check.Wrong && f.File == "ledger.db.newer" && strings.Contains(f.Says, "it has 0 charges, and the client has signed for 5") {
			return
		}
	}
	t.Error("an old ledger is not found")
}

// The aggregator's state is lost in the middle of a session. It is rebuilt from the server's list. The session continues, and
// each round is charged once.
func TestLostAggregatorIsRebuilt(t *testing.T) {
	effort.NotShort(t, "starts processes")
	const rounds = 12
	m := newMachine(t)
	lead, serve, alone, rest := m.federation(6, rounds)
	aggregator := m.start(lead...)
	server, client := m.start(serve...), m.start(alone...)
	together := m.start(rest...)
	for range 3 {
		server.until("sum received")
	}
	server.signal(syscall.SIGTERM)
	aggregator.signal(syscall.SIGTERM)
	for p, code := range map[*process]int{aggregator: cli.Done, server: cli.Interrupted} {
		if got := p.wait(); got != code {
			t.Fatalf("exit code %d\n%s", got, p.log.String())
		}
	}
	if err := os.RemoveAll(m.path("aggregator")); err != nil {
		t.Fatal(err)
	}
	list, _ := m.run(cli.Done, "enrolled", "--state", m.path("server"))
	if err := os.WriteFile(m.path("list.json"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := checks(t, cli.Done, m.path("server")); c.Wrong != 0 {
		t.Errorf("the server: %+v", c)
	}
	aggregator = m.start(append(lead, "--list", m.path("list.json"))...)
	aggregator.until("took parties over from lists")
	server = m.start(serve...)
	for name, p := range map[string]*process{"server": server, "client": client, "clients": together} {
		if code := p.wait(); code != cli.Done {
			t.Fatalf("%s: exit code %d\n%s", name, code, p.log.String())
		}
	}
	aggregator.signal(syscall.SIGTERM)
	aggregator.wait()
	var s summary
	if err := json.Unmarshal([]byte(readFile(t, m.path("server/current"), "summary.json")), &s); err != nil || s.Rounds != rounds || s.SkippedRounds > 2 {
		t.Errorf("%v: %+v", err, s)
	}
	verified(t, m.path("server/current"))
	for _, state := range []string{"alone", "together/client-0", "together/client-4"} {
		account, err := readOwner(m.path(state), 10)
		if err != nil {
			t.Fatal(err)
		}
		if n := account.Sessions[0].Charged; len(account.Sessions) != 1 || n < rounds-2 || n > rounds {
			t.Errorf("%s: %d sessions, %d rounds charged; want 1 session, and each of %d rounds once", state, len(account.Sessions), n, rounds)
		}
	}
	if c := checks(t, cli.Done, m.path("aggregator"), "--federation", m.path("federation.json")); len(c.Findings) < 4 {
		t.Errorf("the aggregator: %+v", c)
	}
}

// partyKey is the identity of a state.
func partyKey(dir string) (admission.PublicKey, error) {
	m, err := admission.ReadFile(filepath.Join(dir, party.MembershipFile), admission.ParseMembership)
	if err != nil {
		return admission.PublicKey{}, err
	}
	return m.Enrolment.Identity, nil
}

// verified checks that a server's folder passes fedsim verify, and that a folder which counts a client less, or states a
// smaller ε with a new digest, does not.
func verified(t *testing.T, dir string) {
	t.Helper()
	r, err := verify.Folder(t.Context(), dir, verify.Options{})
	if err != nil || r.Kind != "deployment" || r.Err() != nil {
		t.Errorf("an honest folder: %+v, %v", r, err)
	}
	for forged, change := range map[string]func(summary map[string]any){
		"clients": func(s map[string]any) { s["clients"] = s["clients"].(float64) - 1 },
		"epsilon": func(s map[string]any) { s["privacy"].(map[string]any)["epsilon"] = 0.5 },
	} {
		other := filepath.Join(t.TempDir(), "model")
		evidence, err := results.ReadEvidence(dir)
		if err = errors.Join(err, os.CopyFS(other, os.DirFS(dir))); err != nil {
			t.Fatal(err)
		}
		var s map[string]any
		if err = json.Unmarshal([]byte(readFile(t, other, "summary.json")), &s); err != nil {
			t.Fatal(err)
		}
		change(s)
		text, err := json.Marshal(s)
		if err = errors.Join(err, os.WriteFile(filepath.Join(other, "summary.json"), text, 0o600), results.WriteEvidence(other, evidence.Sessions, nil)); err != nil {
			t.Fatal(err)
		}
		r, err := verify.Folder(t.Context(), other, verify.Options{})
		if err != nil || r.Err() == nil || r.Err().Error() != other+": forged: "+forged {
			t.Errorf("%s: %+v, %v", forged, r, err)
		}
	}
}
