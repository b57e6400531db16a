package command

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
)

// accepted redeems an invitation of an office, in the registry of its aggregator.
func (o *office) accepted(t *testing.T, r *admission.Registry, name string, key admission.PrivateKey) *admission.Membership {
	t.Helper()
	i, err := admission.ReadInvitation(o.path("out/" + name + ".json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := i.Accept(key)
	if err == nil {
		err = r.Redeem(time.Now(), &m.Enrolment)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// registered opens the registry of the office's aggregator with flags.
func (o *office) registered(t *testing.T, c *aggregatorCmd) *admission.Registry {
	t.Helper()
	c.Federation, c.State = o.path("federation.json"), o.path("aggregator")
	f, err := admission.ReadFile(c.Federation, admission.ParseFederation)
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	r, err := c.registry(f)
	if err == nil {
		err = c.rebuild(r, &log)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func newKey(t *testing.T) admission.PrivateKey {
	t.Helper()
	k, err := admission.GenerateKey(entropy.System())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// An operator replaces the own key, first by the key itself and then, as if that was lost, by the recovery key. Invitations that were sent
// stay good. The old key can do nothing any more.
func TestOperatorHandsOver(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	keys := []string{"operator.key", "second.key", "third.key", "recovery.key"}
	public := make([]string, len(keys))
	for k, name := range keys[1:] {
		public[k+1] = strings.Fields(must(t, "keygen", o.path(name)))[1]
	}
	must(t, o.invite("--name", "Films", "--clients", "2", "--recovery-key", public[3])...)
	r := o.registered(t, new(aggregatorCmd))
	o.accepted(t, r, "client-0", newKey(t))
	for step, by := range []string{"operator.key", "recovery.key"} {
		list, err := r.List().Encode()
		if err == nil {
			err = os.WriteFile(o.path("list.json"), list, 0o600)
		}
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		next := keys[step+1]
		said := must(t, o.invite("--operator", o.path(by), "--hand-over", o.path(next), "--list", o.path("list.json"))...)
		if !strings.Contains(said, public[step+1]) {
			t.Errorf("it says %s", said)
		}
		r = o.registered(t, &aggregatorCmd{List: []string{o.path("out/handover.json")}})
		if got := r.Federation().Signer().String(); got != public[step+1] || r.Enrolled() != 1 {
			t.Errorf("step %d: the operator is %s, of %d parties", step, got, r.Enrolled())
		}
		if err = r.List().Verify(r.Federation().Operator); err != nil {
			t.Error(err)
		}
		if got, want := o.tickets(t), "server 1, aggregator 1, client 0 1, client 1 1"; got != want { // which verifies them
			t.Errorf("tickets: %s, want %s", got, want)
		}
		if code, _, stderr := call(t, o.invite("--operator", o.path(keys[step]), "--place", "client 1")...); code != cli.Failed || !strings.Contains(stderr, "its operator is "+public[step+1]) {
			t.Errorf("by the old key: exit code %d, %s", code, stderr)
		}
	}
	must(t, o.invite("--operator", o.path("third.key"), "--revoke", "client 0")...)
	if err := revoke(of(r), o.path("out/revocations.json")); err != nil || r.Enrolled() != 0 {
		t.Errorf("%v, %d parties", err, r.Enrolled())
	}
}

// The aggregator's key is replaced, for example because it was stolen: the operator revokes it by name, and invites another. A party whose
// invitation names the old key takes the new one, and no third.
func TestAggregatorsKeyIsReplaced(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "2")...)
	first, err := admission.ReadKey(o.path("aggregator.key"))
	if err != nil {
		t.Fatal(err)
	}
	r := o.registered(t, new(aggregatorCmd))
	client := o.accepted(t, r, "client-0", newKey(t))
	o.accepted(t, r, "aggregator", first)
	if err = client.Check(r.List()); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "invite", "--operator", o.path("operator.key"), "--federation", o.path("federation.json"), "--out", o.path("out"), "--revoke", "aggregator"); code != cli.Misuse || !strings.Contains(stderr, "--aggregator-key") {
		t.Errorf("without the key: exit code %d, %s", code, stderr)
	}
	must(t, o.invite("--revoke", "aggregator")...)
	must(t, "keygen", o.path("next.key"))
	second, err := admission.ReadKey(o.path("next.key"))
	if err != nil {
		t.Fatal(err)
	}
	must(t, o.invite("--aggregator-key", second.Public().String(), "--place", "aggregator")...)
	if err = revoke(of(r), o.path("out/revocations.json")); err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	if err = (&aggregatorCmd{Invitation: o.path("out/aggregator.json")}).enrol(r, second, &log); err != nil {
		t.Fatal(err)
	}
	if err = client.Check(r.List()); err != nil {
		t.Errorf("a party of before: %v", err)
	}
	if _, ok := r.Lookup(first.Public()); ok {
		t.Error("the old key has a place")
	}
}
