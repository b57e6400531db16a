package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
)

func itoa(n int) string { return strconv.Itoa(n) }

// call runs fednode in this process. Quotes in stderr are as in text, also if it is JSON.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &streams{out: &out, err: zerolog.SyncWriter(&err)}) // several clients of one process log
	return code, out.String(), strings.ReplaceAll(err.String(), `\"`, `"`)
}

// must is call for what must succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, err := call(t, args...)
	if code != cli.Done {
		t.Fatalf("fednode %s: exit code %d: %s", strings.Join(args, " "), code, err)
	}
	return out
}

// office holds an operator's files before the first invitation: a key, and an aggregator's public
// key.
type office struct {
	dir, aggregator string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{dir: t.TempDir()}
	must(t, "keygen", o.path("operator.key"))
	out := must(t, "keygen", o.path("aggregator.key"))
	fields := strings.Fields(out)
	if len(fields) != 4 || fields[0] != "public" || fields[2] != "peer" {
		t.Fatalf("keygen printed %q", out)
	}
	o.aggregator = fields[1]
	return o
}

func (o *office) path(name string) string { return filepath.Join(o.dir, name) }

func (o *office) invite(more ...string) []string {
	return with([]string{"invite", "--operator", o.path("operator.key"), "--federation", o.path("federation.json"),
		"--aggregator-key", o.aggregator, "--address", "/dns4/agg.example.org/tcp/7946", "--out", o.path("out")}, more...)
}

// with returns a call with more flags. Flags of one value replace the call's own.
func with(call []string, more ...string) []string {
	call = slices.Clone(call)
	for _, flag := range more {
		if at := slices.Index(call, flag); at >= 0 && slices.Contains([]string{"--operator", "--federation", "--aggregator-key", "--out", "--ops"}, flag) {
			call = slices.Delete(call, at, at+2)
		}
	}
	return append(call, more...)
}

// tickets are the places and serials in tickets.json, in order.
func (o *office) tickets(t *testing.T) string {
	t.Helper()
	f, err := admission.ReadFile(o.path("federation.json"), admission.ParseFederation)
	if err != nil {
		t.Fatal(err)
	}
	list, err := readTickets(o.path("out/tickets.json"), f)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, ticket := range list {
		all = append(all, ticket.Place.String()+" "+itoa(int(ticket.Serial)))
	}
	return strings.Join(all, ", ")
}

func TestInviteAndRevoke(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "3")...)
	if got, want := o.tickets(t), "server 1, aggregator 1, client 0 1, client 1 1, client 2 1"; got != want {
		t.Errorf("tickets: %s; want %s", got, want)
	}
	for _, name := range []string{"server", "aggregator", "client-0", "client-1", "client-2"} {
		info, err := os.Stat(o.path("out/" + name + ".json"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the invitation %s has the mode %v", name, info.Mode())
		}
	}
	i, err := admission.ReadInvitation(o.path("out/client-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	if i.Contact.Aggregator.String() != o.aggregator || i.Federation.Name != "Films" || i.Federation.Clients != 3 {
		t.Errorf("the invitation says %+v of %+v", i.Contact, i.Federation)
	}

	// Revoked, client 1 may be invited again, with the next serial; and again.
	for serial := 1; serial <= 2; serial++ {
		out := must(t, o.invite("--revoke", "client 1")...)
		if want := "revocations " + itoa(serial) + "  client 1"; !strings.HasPrefix(out, want) {
			t.Errorf("printed %q, want %q first", out, want)
		}
		if got := o.tickets(t); strings.Contains(got, "client 1 ") {
			t.Errorf("a revoked ticket is still told to the aggregator: %s", got)
		}
		must(t, o.invite("--place", "client 1")...)
		if got, want := o.tickets(t), "server 1, aggregator 1, client 0 1, client 2 1, client 1 "+itoa(serial+1); got != want {
			t.Errorf("tickets: %s; want %s", got, want)
		}
	}

	// Another folder knows of no revocation.
	elsewhere := o.invite("--place", "client 1", "--out", o.path("other"))
	if code, _, said := call(t, elsewhere...); code != cli.Done || !strings.Contains(said, "give --out the folder of the first invitations") {
		t.Errorf("in another folder: exit code %d, %q", code, said)
	}
	if _, _, said := call(t, o.invite("--revoke", "client 0")...); said != "" {
		t.Errorf("in the folder of the first invitations: %q", said)
	}
}

// Every refusal says what would be right, prints no result, and has its exit code.
func TestRefusals(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "3", "--place", "client 0", "--place", "server")...)
	must(t, "keygen", o.path("other.key"))
	if err := os.Mkdir(o.path("full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"full/note": "something else", "e.yaml": "algorithm: lfl-sgdmf\n", "central.yaml": "algorithm: sgd-mf\n"} {
		if err := os.WriteFile(o.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	aggregator := []string{"aggregator", "--federation", o.path("federation.json"), "--tickets", o.path("out/tickets.json"),
		"--key", o.path("aggregator.key"), "--ops", "", "--listen", "/ip4/127.0.0.1/tcp/0"}
	relay := []string{"relay", "--key", o.path("other.key"), "--federation", o.path("federation.json"), "--listen", "/ip4/127.0.0.1/tcp/0"}
	const peer = "/p2p/12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp"
	client := []string{"client", "--data", written(t, "r.csv", "user,item,rating\n1,1,3\n"), "--state", o.path("client")}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{cli.Misuse, "fednode --help", []string{"serve"}},
		{cli.Failed, "not overwritten", []string{"keygen", o.path("operator.key")}},
		{cli.Misuse, "--name and --clients", o.invite("--federation", o.path("none.json"))},
		{cli.Misuse, "1 to 100000", o.invite("--federation", o.path("none.json"), "--name", "N", "--clients", "200000")},
		{cli.Misuse, "for listening", o.invite("--federation", o.path("none.json"), "--name", "N", "--clients", "2", "--address", "/ip6/::/tcp/7946")},
		{cli.Misuse, "server, aggregator or client", o.invite("--place", "clients")},
		{cli.Misuse, "clients 0 to 2", o.invite("--place", "client 1", "--place", "client 3")},
		{cli.Failed, "not overwritten", o.invite("--place", "client 0")},
		{cli.Misuse, "second call", o.invite("--revoke", "client 0", "--place", "client 1")},
		{cli.Misuse, "lists no ticket of the client 1", o.invite("--revoke", "client 1")},
		{cli.Misuse, "--aggregator-key and --address", []string{"invite", "--operator", o.path("operator.key"), "--federation", o.path("federation.json"), "--out", o.path("out")}},
		{cli.Misuse, "mistyped", o.invite("--aggregator-key", o.aggregator[:len(o.aggregator)-1]+"x")},
		{cli.Misuse, "--address: the aggregator's address: \"agg.example.org:7946\" is no multiaddress; write /dns4/agg.example.org/tcp/7946\n", o.invite("--address", "agg.example.org:7946")},
		{cli.Misuse, "--listen: \"127.0.0.1:7946\" is no multiaddress; write /ip4/127.0.0.1/tcp/7946", append(aggregator, "--state", o.path("a4"), "--listen", "127.0.0.1:7946")},
		{cli.Misuse, "--listen: \":7946\" is no multiaddress; write /ip4/0.0.0.0/tcp/7946", append(relay, "--listen", ":7946", "--aggregator", "/ip4/127.0.0.1/tcp/7946"+peer)},
		{cli.Misuse, "for listening", o.invite("--address", "/ip4/0.0.0.0/tcp/7946")},
		{cli.Misuse, "no port", o.invite("--address", "/ip4/127.0.0.1")},
		{cli.Misuse, "must end in /p2p/", append(relay, "--aggregator", "/ip4/127.0.0.1/tcp/1")},
		{cli.Misuse, `"here" is no multiaddress`, append(relay, "--aggregator", "here")},
		{cli.Misuse, "there is one aggregator", append(relay, "--aggregator", "/ip4/127.0.0.1/tcp/1"+peer,
			"--aggregator", "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWEdgsZJtnFJh8d1DGVUC3eCh168VTGCvKpkTxuQ9s5jHH")},
		{cli.Misuse, "no port", append(relay, "--aggregator", "/ip4/127.0.0.1"+peer)},
		{cli.Misuse, "for 1m0s or longer", o.invite("--place", "client 1", "--expires=-2h")},
		{cli.Misuse, "for 1m0s or longer", o.invite("--place", "client 1", "--expires=1s")},
		{cli.Failed, "its operator is", o.invite("--operator", o.path("other.key"))},
		{cli.Failed, "name an empty one", append(aggregator, "--state", o.path("full"))},
		{cli.Misuse, "on this machine", with(aggregator, "--state", o.path("a1"), "--ops", "0.0.0.0:9464")},
		{cli.Misuse, "it is for the client 0", append(aggregator, "--state", o.path("a2"), "--invitation", o.path("out/client-0.json"))},
		{cli.Failed, "say with --ops where the process shows its status, or read a client's own with --state\n", []string{"status", "--ops", "127.0.0.1:1"}},
		{cli.Misuse, "on this machine", []string{"status", "--ops", "192.0.2.1:1"}},
		{cli.Misuse, "the way to one is an invitation", client},
		{cli.Misuse, "--relay: the address", append(client, "--relay", "/ip4/127.0.0.1/tcp/1")},
		{cli.Misuse, "is for the server", append(client, "--invitation", o.path("out/server.json"))},
		{cli.Misuse, "goes with --users", append(client, "--invitations", o.path("out"))},
		{cli.Misuse, "two numbers are needed", append(client, "--invitations", o.path("out"), "--users", "3..1")},
		{cli.Misuse, "without --user", append(client, "--invitations", o.path("out"), "--users", "0..1", "--user", "u1")},
		{cli.Failed, "no such file", []string{"server", o.path("none.yaml"), "--state", o.path("server")}},
		{cli.Misuse, "no experiment file is named: fednode server experiment.yaml --items ", []string{"server", "--state", o.path("server")}},
		{cli.Misuse, "unknown flag --epsilon; it is a key: --set epsilon=VALUE\n", []string{"server", o.path("e.yaml"), "--state", o.path("server"), "--epsilon", "5"}},
		{cli.Misuse, "unknown flag --rating-max; the server of a session says it, with --set rating-max=VALUE\n", append(client, "--rating-max", "5")},
		{cli.Misuse, "unknown flag --what; fednode help client tells how it is called\n", append(client, "--what", "5")},
		{cli.Misuse, "KEY=VALUE", []string{"server", o.path("e.yaml"), "--state", o.path("server"), "--set", "rounds"}},
		{cli.Misuse, "unknown key", []string{"server", o.path("e.yaml"), "--state", o.path("server"), "--set", "round=1"}},
		{cli.Misuse, "nothing to deploy", []string{"server", o.path("central.yaml"), "--state", o.path("server")}},
		{cli.Misuse, "the way to one is an invitation", []string{"server", o.path("e.yaml"), "--state", o.path("server")}},
	} {
		code, out, stderr := call(t, c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) || out != "" {
			t.Errorf("fednode %s: exit code %d, printed %q\n%s\nwant code %d and %q", strings.Join(c.args, " "), code, out, stderr, c.code, c.want)
		}
	}
	if _, err := os.Stat(o.path("none.json")); err == nil {
		t.Error("a federation was founded by a call that was refused")
	}
	if _, err := os.Stat(o.path("out/client-1.json")); err == nil {
		t.Error("an invitation was written by a call that was refused")
	}
	_, _, stderr := call(t, "status", "--ops", "192.0.2.1:1", "--format", "json")
	var e struct {
		Error string
		Exit  int
	}
	if err := json.Unmarshal([]byte(stderr), &e); err != nil || e.Exit != cli.Misuse || e.Error == "" {
		t.Errorf("an error in JSON is %q", stderr)
	}
}
