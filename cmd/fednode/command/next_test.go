package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// begun is a state with a session of 5 rounds.
func begun(t *testing.T) (dir string, c config.Config, f agreement.Facts, p *agreement.Public) {
	t.Helper()
	dir, c = t.TempDir(), resolved(t, "algorithm=lfl-sgdmf rounds=5")
	f, err := facts(t.Context(), c, demo+"/items", "", 20)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = agree(c, f, dir); err != nil {
		t.Fatal(err)
	}
	return dir, c, f, p
}

func write(t *testing.T, text string, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files lists the files under a folder, by their paths in it.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func hexOf(p *agreement.Public) string { return fmt.Sprintf("%x", p.Session) }

// A server's state continues with the next session once the last one has ended, and keeps the last
// one beside. It does so even if the start that put it aside was cut short at any point.
func TestStateGoesOnToTheNextSession(t *testing.T) {
	dir, _, f, first := begun(t)
	x := hexOf(first)
	write(t, "state", dir, "checkpoint")
	write(t, "state before", dir, "checkpoint.previous")
	write(t, "numbers", dir, "sessions", x, "model", "item_embeddings.npy")
	if err := party.SetCurrent(dir, x); err != nil {
		t.Fatal(err)
	}
	public := readFile(t, dir, "public.json")
	other := resolved(t, "algorithm=lfl-sgdmf rounds=6")
	if _, err := party.Propose(other, f, dir, ""); !cli.IsMisuse(err) || !strings.Contains(err.Error(), "rounds, whose session has not ended") {
		t.Errorf("while the session goes on: %v", err)
	}
	write(t, `{"session":"`+x+`"}`, dir, "ended.json")
	n, err := party.Propose(other, f, dir, "")
	if err != nil || n.Past != x || n.Public.Session == first.Session {
		t.Fatalf("%+v, %v", n, err)
	}
	if got := readFile(t, dir, "public.json"); got != public {
		t.Error("a proposal has changed the state")
	}
	if err = party.PutAside(dir, x); err != nil { // and the process is killed
		t.Fatal(err)
	}
	if n, err = party.Propose(other, f, dir, ""); err != nil || n.Past != x {
		t.Fatalf("after a start that was cut short: %+v, %v", n, err)
	}
	if err = n.Begin(nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"public.json": public, "checkpoint": "state", "checkpoint.previous": "state before", "model/item_embeddings.npy": "numbers"} {
		if got := readFile(t, dir, "sessions", x, path); got != want {
			t.Errorf("%s of the first session is %q", path, got)
		}
	}
	if got := readFile(t, dir, "current", "item_embeddings.npy"); got != "numbers" {
		t.Errorf("current leads to %q", got)
	}
	if again, err := party.Propose(other, f, dir, ""); err != nil || again.Past != "" || again.Public.Session != n.Public.Session {
		t.Errorf("the next start does not go on with the session: %+v, %v", again, err)
	}
	for _, gone := range []string{"checkpoint", "checkpoint.previous"} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); err == nil {
			t.Errorf("%s of the first session is still that of the state", gone)
		}
	}
}

// The model of a session stays where current leads while the next session begins, and current leads to the next
// model once that is whole. A link that a killed process left half made is no hindrance.
func TestCurrentStaysWhileTheNextSessionBegins(t *testing.T) {
	dir, _, f, first := begun(t)
	x := hexOf(first)
	write(t, "numbers", dir, "sessions", x, "model", "item_embeddings.npy")
	write(t, `{"session":"`+x+`"}`, dir, "ended.json")
	if err := os.Symlink("nowhere", filepath.Join(dir, "current.tmp")); err != nil {
		t.Fatal(err)
	}
	if err := party.SetCurrent(dir, x); err != nil {
		t.Fatal(err)
	}
	n, err := party.Propose(resolved(t, "algorithm=lfl-sgdmf rounds=6"), f, dir, "")
	if err == nil {
		err = n.Begin(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, dir, "current", "item_embeddings.npy"); got != "numbers" {
		t.Errorf("while the next session runs, current leads to %q", got)
	}
	next := hexOf(n.Public)
	write(t, "other numbers", dir, "sessions", next, "model", "item_embeddings.npy")
	if err = party.SetCurrent(dir, next); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, dir, "current", "item_embeddings.npy"); got != "other numbers" {
		t.Errorf("after the next session, current leads to %q", got)
	}
}

// The experiment of the session that has ended is refused, unless it is said what for.
func TestSameExperimentAgain(t *testing.T) {
	dir, c, f, first := begun(t)
	for _, again := range []string{"", party.AgainSession, party.AgainEnd} { // while the session continues, so does the state
		if n, err := party.Propose(c, f, dir, again); err != nil || n.Public.Session != first.Session || n.Past != "" {
			t.Errorf("--again %q before the end: %+v, %v", again, n, err)
		}
	}
	write(t, "state", dir, "checkpoint")
	write(t, `{"session":"`+hexOf(first)+`"}`, dir, "ended.json")
	if _, err := party.Propose(c, f, dir, ""); !cli.IsMisuse(err) || !strings.Contains(err.Error(), "--again session") || !strings.Contains(err.Error(), "--again end") {
		t.Errorf("without a word: %v", err)
	}
	n, err := party.Propose(c, f, dir, party.AgainEnd)
	if err != nil || n.Public.Session != first.Session || n.Begin(nil) != nil {
		t.Errorf("its end once more: %+v, %v", n, err)
	}
	if n, err = party.Propose(c, f, dir, party.AgainSession); err != nil || n.Public.Session == first.Session || n.Past != hexOf(first) {
		t.Errorf("another session of it: %+v, %v", n, err)
	}
	if err = party.PutAside(dir, hexOf(first)); err != nil {
		t.Fatal(err)
	}
	if n, err = party.Propose(c, f, dir, party.AgainEnd); err != nil {
		t.Fatal(err)
	}
	if err = n.Begin(nil); !cli.IsMisuse(err) {
		t.Errorf("the end of a session whose checkpoint was put aside, which would begin it anew: %v", err)
	}
}

// A mark that names no session names no folder either.
func TestSessionOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	if s, err := party.SessionIn(path); s != "" || err != nil {
		t.Errorf("no file: %q, %v", s, err)
	}
	for _, text := range []string{"", "{}", `{"session":"../../etc"}`, `{"session":"00"}`} {
		write(t, text, path)
		if s, err := party.SessionIn(path); err == nil {
			t.Errorf("%s: %q", text, s)
		}
	}
}

// --out with the model of another session is refused before anything begins.
func TestModelOfAnotherSessionIsNotReplaced(t *testing.T) {
	_, _, _, p := begun(t)
	c := &serverCmd{Out: t.TempDir()}
	if err := c.checkOut(p); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	write(t, `{"session":"`+hexOf(p)+`","rounds":5}`, c.Out, "summary.json")
	if err := c.checkOut(p); err != nil {
		t.Errorf("the same session: %v", err)
	}
	write(t, `{"session":"`+strings.Repeat("ab", 16)+`"}`, c.Out, "summary.json")
	if err := c.checkOut(p); !cli.IsMisuse(err) {
		t.Errorf("another session: %v", err)
	}
}

// A client's result of a session replaces nothing of another session, whatever was there.
func TestResultsStayBesideEachOther(t *testing.T) {
	state, log := t.TempDir(), zerolog.Nop()
	write(t, "torn", state, "sessions", "03"+strings.Repeat("0", 30), "result.tmp", "user_embeddings.npy")
	older := strings.Repeat("0f", 16)
	write(t, `{"session":"`+older+`"}`, state, "result", "session.json") // a folder, as earlier versions left it
	none := new(experiment.Party)
	for n := range byte(3) {
		for range 2 { // the final model was taken twice, and the process killed in between
			if err := party.KeepResult(none, nil, state, protocol.SessionID{n + 1}, &log); err != nil {
				t.Fatal(err)
			}
		}
	}
	zeros := strings.Repeat("0", 30)
	want := []string{"result", "sessions/" + older + "/result/session.json"}
	for _, dir := range []string{"sessions/01" + zeros + "/result", "sessions/02" + zeros + "/result", "sessions/03" + zeros + "/result"} {
		want = append(want, dir+"/public.json", dir+"/session.json")
	}
	slices.Sort(want)
	if got := files(t, state); !slices.Equal(got, want) {
		t.Errorf("the state holds\n%v, want\n%v", got, want)
	}
	if got, want := readFile(t, state, "result", "session.json"), `{"session":"03`+zeros+`"}`+"\n"; got != want {
		t.Errorf("the last result is of %s, want %s", got, want)
	}
}
