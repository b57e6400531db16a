package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/cli"
	openedtest "github.com/fedsim/fedsim/internal/opened"
)

func resolved(t *testing.T, settings string) config.Config {
	t.Helper()
	c, err := config.Resolve(openedtest.Settings(settings))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The kind of the clients decides who or how many the users are. items/movies.csv lists 30 items;
// clients agree to the published part of them (OpenPublic).
func TestFactsOfEveryKindOfParty(t *testing.T) {
	ids := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(ids, []byte("ann\nbob\nCarol Danvers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settings, users string
		clients, want   int
		listed          bool
	}{
		{"algorithm=lfl-sgdmf", "", 20, 20, false},
		{"algorithm=hfl-sgdmf parties=4 colluders=0.2", "500", 4, 500, false},
		{"algorithm=fmf-vfl parties=4 colluders=0.2", ids, 4, 3, true},
	} {
		config := resolved(t, c.settings)
		f, err := facts(t.Context(), config, demo+"/items", c.users, c.clients)
		if err != nil {
			t.Fatalf("%s: %v", c.settings, err)
		}
		if f.Users != c.want || len(f.ItemIDs) != 30 || (len(f.UserIDs) == c.want) != c.listed {
			t.Errorf("%s: %d users, %d of them listed, %d items", c.settings, f.Users, len(f.UserIDs), len(f.ItemIDs))
		}
		dir := t.TempDir()
		p, err := agree(config, f, dir)
		if err != nil {
			t.Fatalf("%s: %v", c.settings, err)
		}
		e, err := agreement.Open(p)
		if err != nil {
			t.Fatalf("%s: %v", c.settings, err)
		}
		if e.Cohort.Clients != c.clients {
			t.Errorf("%s: %d clients, want %d", c.settings, e.Cohort.Clients, c.clients)
		}
		if again, err := agree(config, f, dir); err != nil || again.Session != p.Session {
			t.Errorf("%s: another start has another session: %v", c.settings, err)
		}
		if other, err := agree(config, f, t.TempDir()); err != nil || other.Session == p.Session {
			t.Errorf("%s: another state has the same session: %v", c.settings, err)
		}
	}
	for _, c := range []struct{ settings, users, items, want string }{
		{"algorithm=lfl-sgdmf", "20", demo + "/items", "every client is a user"},
		{"algorithm=hfl-sgdmf", "", demo + "/items", "the number of users"},
		{"algorithm=vfl-sgdmf", "20", demo + "/items", "a file with the ids"},
		{"algorithm=lfl-sgdmf", "", demo, "movies.csv, movies.dat, u.item or items.csv"},
	} {
		f, err := facts(t.Context(), resolved(t, c.settings), c.items, c.users, 20)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, users %q, items %s: %+v, %v; want %q", c.settings, c.users, c.items, f, err, c.want)
		}
	}
}

// A state is about one experiment, and says by what another one differs.
func TestStateIsOfOneExperiment(t *testing.T) {
	dir := t.TempDir()
	publish := func(settings string) error {
		config := resolved(t, "algorithm=lfl-sgdmf "+settings)
		f, err := facts(t.Context(), config, demo+"/items", "", 20)
		if err != nil {
			t.Fatal(err)
		}
		_, err = agree(config, f, dir)
		return err
	}
	if err := publish("rounds=5"); err != nil {
		t.Fatal(err)
	}
	err := publish("rounds=6 rank=2")
	if usage := cli.IsMisuse(err); !usage || !strings.Contains(err.Error(), "rank, rounds") {
		t.Errorf("another experiment: %v", err)
	}
	if err = publish("rounds=5 dropout=0.2 workers=1"); err != nil {
		t.Errorf("the same, with what concerns a simulation or one machine: %v", err)
	}
}

// agree returns the public part of the session of a state, which it begins if there is none.
func agree(c config.Config, f agreement.Facts, dir string) (*agreement.Public, error) {
	n, err := party.Propose(c, f, dir, "")
	if err != nil {
		return nil, err
	}
	return n.Public, n.Begin(nil)
}
