package command

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/testutil"
)

// organisations are parties that own items and share users, on a machine, with an aggregator.
type organisations struct {
	*machine
	n          int
	aggregator *process
}

// shopper is the id of a user, which is found wherever it is.
func shopper(u int) string { return fmt.Sprintf("shopper-%d@example.org", u) }

// newOrganisations deals the ratings of the demonstration: party k has every fourth item, of
// some users, and lists these.
func newOrganisations(t *testing.T, n int) *organisations {
	t.Helper()
	o := &organisations{machine: newMachine(t), n: n}
	set, err := read.Open(t.Context(), demo+"/ratings.csv", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows := set.ByUser()
	for k := range n {
		text, ids := "userId,movieId,rating,timestamp\n", ""
		for u := k; u < k+16; u++ {
			items, values := rows.Row(u)
			for i, item := range items {
				if int(item)%n == k {
					text += fmt.Sprintf("%s,%s,%v,1\n", shopper(u), set.ItemIDs[item], values[i])
				}
			}
			ids += shopper(u) + "\n"
		}
		o.write(fmt.Sprintf("party-%d.csv", k), text)
		o.write(fmt.Sprintf("party-%d.ids", k), ids)
		own := ""
		for item := k; item < set.Items; item += n {
			own += set.ItemIDs[item] + "\n"
		}
		o.write(fmt.Sprintf("party-%d.items", k), own)
	}
	o.write("vfl.yaml", "algorithm: fmf-vfl\nparties: 4\ncolluders: 0.2\nrounds: 2\nrank: 4\n")
	port := testutil.Port(t)
	o.founds(n, "/ip4/127.0.0.1/tcp/"+port)
	o.aggregator = o.start("aggregator", "--key", o.path("aggregator.key"), "--federation", o.path("federation.json"), "--state", o.path("aggregator"),
		"--tickets", o.path("invitations/tickets.json"), "--listen", "/ip4/127.0.0.1/tcp/"+port, "--ops", "")
	return o
}

func (o *organisations) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(o.path(name), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// align starts the server's or a party's part; -1 is the server.
func (o *organisations) align(k int, more ...string) *process {
	o.t.Helper()
	if k < 0 {
		return o.start(append([]string{"align", "--state", o.path("server"), "--invitation", o.path("invitations/server.json")}, more...)...)
	}
	return o.start(append([]string{"align", "--state", o.path(fmt.Sprintf("party-%d", k)), "--invitation", o.path(fmt.Sprintf("invitations/client-%d.json", k)),
		"--ids", o.path(fmt.Sprintf("party-%d.ids", k))}, more...)...)
}

func (o *organisations) alignment(k int) *party.Alignment {
	o.t.Helper()
	dir := o.path("server")
	if k >= 0 {
		dir = o.path(fmt.Sprintf("party-%d", k))
	}
	a, _, err := party.ReadAlignment(dir)
	if err != nil || a == nil {
		o.t.Fatalf("%s: %v, %v", dir, a, err)
	}
	return a
}

// ended waits for processes that have to end well.
func (o *organisations) ended(list ...*process) {
	o.t.Helper()
	for _, p := range list {
		if code := p.wait(); code != cli.Done {
			o.t.Fatalf("%v: exit code %d\n%s", p.cmd.Args, code, p.log.String())
		}
	}
}

// Four organisations align their users, one of them killed while it waits and another
// stopped, and train on the rows, without leaving a rating out.
func TestAlignAndTrain(t *testing.T) {
	long(t)
	o := newOrganisations(t, 4)
	killed := o.align(0)
	killed.until("waiting for the server and all parties")
	killed.signal(syscall.SIGKILL)
	killed.wait()
	stopped := o.align(1, "--pad", "10")
	stopped.until("waiting for the server and all parties")
	stopped.signal(syscall.SIGTERM)
	if code := stopped.wait(); code != cli.Interrupted {
		t.Errorf("a party that was stopped: exit code %d", code)
	}
	server := o.align(-1)
	all := []*process{server, o.align(0), o.align(1, "--pad", "10"), o.align(2), o.align(3)}
	o.ended(all...)

	// Users 0 to 18 are listed, and party 1 has rounded 16 up to 20.
	union := o.alignment(-1)
	if union.Users != 19+4 || !slices.Equal(union.Lists, []int{16, 20, 16, 16}) || !slices.Equal(union.Shared, []int{2 + 4, 2, 2, 13}) || !union.Ended {
		t.Errorf("the server keeps %+v", union)
	}
	for _, want := range []string{"rows       23", "client 1   20 ids", "in 4       13 rows", "users.txt"} {
		if !strings.Contains(server.out.String(), want) {
			t.Errorf("no %q in\n%s", want, server.out.String())
		}
	}
	for k := range 4 {
		a := o.alignment(k)
		if len(a.Rows) != 16 || a.Attempt != union.Attempt || !a.Ended || a.Rows[shopper(10)] != o.alignment(0).Rows[shopper(10)] {
			t.Errorf("party %d keeps %+v", k, a)
		}
	}
	if again, _ := o.run(cli.Done, "align", "--state", o.path("party-2"), "--ids", o.path("party-2.ids")); !strings.Contains(again, "own        16") {
		t.Errorf("a party that has aligned says %s", again)
	}

	o.write("other.ids", shopper(1)+"\n")
	if _, stderr := o.run(cli.Misuse, "align", "--state", o.path("party-2"), "--ids", o.path("other.ids")); !strings.Contains(stderr, "another list") {
		t.Errorf("a party that has aligned another list says %s", stderr)
	}

	session := []*process{o.start("server", o.path("vfl.yaml"), "--items", demo+"/items", "--users", o.path("server/users.txt"), "--state", o.path("server"))}
	for k := range 4 {
		session = append(session, o.start("client", "--data", o.path(fmt.Sprintf("party-%d.csv", k)), "--ids", o.path(fmt.Sprintf("party-%d.items", k)), "--state", o.path(fmt.Sprintf("party-%d", k)), "--max-epsilon", "inf"))
	}
	o.ended(session...)
	var called []string
	text, err := os.ReadFile(o.path("server/current/user_embeddings.ids.json"))
	if err == nil {
		err = json.Unmarshal(text, &called)
	}
	if err != nil || len(called) != 23 || !strings.HasSuffix(called[22], "/22") {
		t.Errorf("the rows are called %q, %v", called, err)
	}
	for k, p := range session {
		if k > 0 && !strings.Contains(p.log.String(), `"not_in_the_catalogue":0`) {
			t.Errorf("party %d leaves ratings out\n%s", k-1, p.log.String())
		}
	}
	o.aggregator.signal(syscall.SIGTERM)
	o.ended(o.aggregator)
	o.checkNobodysIDs(append(append(all, session...), o.aggregator))
}

// checkNobodysIDs: no log has a user's id, nor has any folder except the party's own.
func (o *organisations) checkNobodysIDs(all []*process) {
	o.t.Helper()
	const mark = "@example.org"
	for _, p := range all {
		if strings.Contains(p.log.String()+p.out.String(), mark) {
			o.t.Errorf("%v tells ids:\n%s", p.cmd.Args, p.log.String())
		}
	}
	for k := range o.n {
		own := filepath.Join(o.path(fmt.Sprintf("party-%d", k)), party.AlignmentFile)
		if text, err := os.ReadFile(own); err != nil || strings.Count(string(text), mark) != 16 {
			o.t.Errorf("%s has %d ids, %v", own, strings.Count(string(text), mark), err)
		}
	}
	for _, dir := range []string{"server", "aggregator"} {
		err := filepath.WalkDir(o.path(dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), mark) {
				o.t.Errorf("%s has ids", path)
			}
			return err
		})
		if err != nil {
			o.t.Error(err)
		}
	}
}

// A party trains on rows of the session's alignment, or not at all.
func TestAlignedNames(t *testing.T) {
	config := resolved(t, "algorithm=fmf-vfl parties=4 colluders=0.2")
	of := func(ids ...string) *experiment.Experiment {
		dir := t.TempDir()
		list := filepath.Join(dir, "ids")
		if err := os.WriteFile(list, []byte(strings.Join(ids, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := facts(t.Context(), config, demo+"/items", list, 4)
		if err != nil {
			t.Fatal(err)
		}
		p, err := agree(config, f, dir)
		if err != nil {
			t.Fatal(err)
		}
		e, err := agreement.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	attempt := align.Attempt{1, 2, 3, 4}
	state, empty, bad := t.TempDir(), t.TempDir(), t.TempDir()
	a := &party.Alignment{Format: party.AlignmentFormat, Attempt: hex.EncodeToString(attempt[:]), Users: 3, Ended: true, Rows: map[string]int{"ann": 2, "bob": 0}}
	if err := a.Write(state); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, party.AlignmentFile), []byte(`{"format":"fedsim-alignment-v9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, want string // an error; "": none
		e         *experiment.Experiment
		names     map[string]string
	}{
		{state, "", of("aligned-01020304/0", "aligned-01020304/1", "aligned-01020304/2"), map[string]string{"ann": "aligned-01020304/2", "bob": "aligned-01020304/0"}},
		{state, "", of("ann", "bob"), nil},
		{empty, "", of("ann", "bob"), nil},
		{empty, "take part in one with fednode align", of("aligned-01020304/0"), nil},
		{state, "another alignment (1 users", of("aligned-01020304/0"), nil},
		{state, "another alignment (3 users, the first aligned-01020305/0)", of("aligned-01020305/0", "aligned-01020305/1", "aligned-01020305/2"), nil},
		{bad, "--again", of("aligned-01020304/0"), nil},
	} {
		names, err := party.AlignedNames(c.dir, c.e)
		if !maps.Equal(names, c.names) || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v; want %v, %q", names, err, c.names, c.want)
		}
	}
}

// Every refusal says what would be right.
func TestAlignRefusals(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Shops", "--clients", "4")...)
	if err := os.WriteFile(o.path("ids"), []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"the way to one is an invitation", []string{"--ids", o.path("ids")}},
		{"a file with the ids", []string{"--invitation", o.path("out/client-0.json")}},
		{"no such file", []string{"--invitation", o.path("out/client-0.json"), "--ids", o.path("none")}},
		{"from 1 on", []string{"--invitation", o.path("out/client-0.json"), "--ids", o.path("ids"), "--pad", "0"}},
		{"the server has no list", []string{"--invitation", o.path("out/server.json"), "--ids", o.path("ids")}},
		{"the server and the parties align", []string{"--invitation", o.path("out/aggregator.json")}},
	} {
		code, _, stderr := call(t, append([]string{"align", "--state", o.path("state")}, c.args...)...)
		if code != cli.Misuse || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %s; want %d and %q", c.args, code, stderr, cli.Misuse, c.want)
		}
	}
}
