package command

import (
	"os"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// The operator adds two places and gives up one. Old invitations stay good, new ones are for the new places.
func TestInviteAddsAndRemoves(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "3")...)
	before := o.tickets(t)
	if out := must(t, o.invite("--add", "2", "--remove", "client 1")...); !strings.HasPrefix(out, "epoch 1  5 places, 1 given up") || !strings.Contains(out, "client-4.json") || strings.Contains(out, "client-2.json") {
		t.Errorf("it prints\n%s", out)
	}
	f, err := admission.ReadFile(o.path("federation.json"), admission.ParseFederation)
	if err != nil || f.Places() != 5 || f.Clients != 3 || len(f.Retired()) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if got, want := o.tickets(t), strings.Replace(before, "client 1 1, ", "", 1)+", client 3 1, client 4 1"; got != want {
		t.Errorf("the tickets are %q, were %q", got, before)
	}
	i, err := admission.ReadInvitation(o.path("out/client-4.json"))
	if err != nil || i.Federation.Places() != 5 || i.Ticket.Place != admission.ClientPlace(4) {
		t.Errorf("the invitation: %v", err)
	}
	if _, err = admission.ReadInvitation(o.path("out/client-0.json")); err != nil {
		t.Errorf("an invitation of before: %v", err)
	}
	if _, err = os.Stat(o.path("out/client-1.json")); err == nil {
		t.Error("the invitation to a place that was given up is there")
	}
	for want, args := range map[string][]string{
		"given up before":     {"--remove", "client 1"},
		"a client's place":    {"--remove", "server"},
		"to client 4":         {"--remove", "client 5"},
		"a number above 0":    {"--add", "-1"},
		"make another call":   {"--add", "1", "--place", "client 0"},
		"there can be up to ": {"--add", "100000"},
	} {
		if code, _, said := call(t, o.invite(args...)...); code != cli.Misuse || !strings.Contains(said, want) {
			t.Errorf("%v: exit code %d: %s", args, code, said)
		}
	}
	if again, err := admission.ReadFile(o.path("federation.json"), admission.ParseFederation); err != nil || again.Latest() != f.Latest() {
		t.Errorf("a call that was refused changed the federation: %v", err)
	}
}

// With 2 of 6 places spare, as many clients are required as the tolerance requires of 4.
func TestSpared(t *testing.T) {
	for _, c := range []struct {
		places, without, required int
		tolerance                 string
	}{{6, 2, 4, "0"}, {6, 2, 3, "0.25"}, {10, 3, 5, "0.3"}, {100, 0, 70, "0.3"}, {1000, 333, 467, "0.3"}} {
		settings, err := config.Resolve([]config.Setting{{Key: "algorithm", Value: "lfl-sgdmf", Origin: "algorithm"}, {Key: "tolerance", Value: c.tolerance, Origin: "tolerance"}})
		if err != nil {
			t.Fatal(err)
		}
		out, changed, err := spared(settings, c.places, c.without)
		if err != nil || (changed != "") != (c.without > 0) {
			t.Errorf("%+v: %q, %v", c, changed, err)
		}
		if got := (protocol.Cohort{Clients: c.places, Tolerance: algorithm.Tolerance.Value(out)}).Required(); got != c.required {
			t.Errorf("%+v: %d are required, by a tolerance of %v", c, got, algorithm.Tolerance.Value(out))
		}
	}
	if _, _, err := spared(config.Config{}, 4, 4); err == nil {
		t.Error("no place is left")
	}
}
