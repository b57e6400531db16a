package command

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
)

// A donor's ratings leave in clear and signed, once the donor has read what that means. Until a session begins they can be taken back.
func TestDonate(t *testing.T) {
	o := newOffice(t)
	must(t, "invite", "--operator", o.path("operator.key"), "--federation", o.path("federation.json"), "--name", "Films", "--clients", "20",
		"--aggregator-key", o.aggregator, "--address", "/ip4/127.0.0.1/tcp/7946", "--out", o.path("invitations"))
	f, err := admission.ReadFile(o.path("federation.json"), admission.ParseFederation)
	if err != nil {
		t.Fatal(err)
	}
	if err = os.Mkdir(o.path("gifts"), 0o700); err != nil {
		t.Fatal(err)
	}
	donor := func(user, file string, more ...string) []string {
		return append([]string{"client", "--donate", o.path("gifts/" + file), "--federation", o.path("federation.json"), "--data", demo + "/ratings.csv",
			"--user", user, "--state", o.path("donor-" + user)}, more...)
	}
	told := must(t, donor("3", "b.json")...)
	for _, want := range []string{"in clear", "All parties of the federation \"Films\"", "No epsilon covers", "--withdraw"} {
		if !strings.Contains(told, want) {
			t.Errorf("the donor is not told %q:\n%s", want, told)
		}
	}
	must(t, donor("7", "a.json")...)
	log := zerolog.Nop()
	given, err := gifts(o.path("gifts"), f, &log)
	if err != nil || len(given) != 2 || len(given[0].Items) == 0 {
		t.Fatalf("%d gifts, %v; want 2", len(given), err)
	}
	config := resolved(t, "algorithm=ssp-c epsilon=inf rank=2")
	facts, err := facts(t.Context(), config, demo+"/items", "", 20, given...)
	if err != nil || facts.Raters().Len() != len(given[0].Items)+len(given[1].Items) {
		t.Fatalf("%v: of %d and %d ratings the facts have %d", err, len(given[0].Items), len(given[1].Items), facts.Raters().Len())
	}
	names := ""
	for _, c := range facts.Features {
		names += c.Name + " "
	}
	if !strings.Contains(names, "rater") {
		t.Errorf("the features are %s; a simulation has the donors among them", names)
	}
	// Of one key a withdrawal counts, whatever its file is called, and whatever the clock said.
	if code, _, says := call(t, donor("lost", "lost.json", "--withdraw")...); code != cli.Misuse || !strings.Contains(says, "the key in the --state with which they were given") {
		t.Errorf("a gift is taken back without its key: %s", says)
	}
	early := given[slices.IndexFunc(given, func(g agreement.Gift) bool { return len(g.Items) == 9 })]
	early.At += 3600
	identity, err := admission.ReadKey(o.path("donor-3/donor.json"))
	if err != nil {
		t.Fatal(err)
	}
	early.Sign(identity.Ed25519())
	if err = atomicfile.WriteJSON(o.path("gifts/b.json"), early); err != nil {
		t.Fatal(err)
	}
	must(t, donor("3", "c.txt", "--withdraw")...)
	if given, err = gifts(o.path("gifts"), f, &log); err != nil || len(given) != 1 {
		t.Errorf("one took the gift back, and the earlier file is there, too: %d gifts, %v", len(given), err)
	}
	text, err := os.ReadFile(o.path("gifts/b.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err = os.Remove(o.path("gifts/b.json")); err != nil {
		t.Fatal(err)
	}
	if given, err = gifts(o.path("gifts"), f, &log); err != nil || len(given) != 1 {
		t.Errorf("one took the gift back: %d gifts, %v", len(given), err)
	}
	if err = os.WriteFile(o.path("gifts/d.json"), []byte(strings.Replace(string(text), "\"at\": 1", "\"at\": 2", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = gifts(o.path("gifts"), f, &log); err == nil || !strings.Contains(err.Error(), "d.json") {
		t.Errorf("a gift that was changed: %v", err)
	}
	for want, args := range map[string][]string{
		"--withdraw goes with":              {"client", "--data", demo + "/ratings.csv", "--state", o.path("x"), "--withdraw"},
		"--federation FILE":                 {"client", "--data", demo + "/ratings.csv", "--state", o.path("x"), "--donate", o.path("x.json")},
		`has no ratings of --user "nobody"`: donor("nobody", "x.json"),
	} {
		if code, _, err := call(t, args...); code != cli.Misuse || !strings.Contains(err, want) {
			t.Errorf("want %q: exit code %d, %s", want, code, err)
		}
	}
}
