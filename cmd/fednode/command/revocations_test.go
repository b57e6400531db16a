package command

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/node/admission"
)

// taker takes revocations as a party does that knows some already.
type taker struct {
	knows uint64 // the serial
	took  []uint64
}

func (r *taker) Revoke(v *admission.Revocations) error {
	if v.Serial < r.knows {
		return admission.ErrOutdated
	}
	r.knows = v.Serial
	r.took = append(r.took, v.Serial)
	return nil
}

// A party takes the revocations of the file when it comes, and each time the file is read again
// until it leaves. A missing file is no error, nor is a file with fewer revocations than the party
// knows.
func TestPartiesTakeRevocations(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "3")...)
	told := parties{path: o.path("out/revocations.json")}
	first, ahead := new(taker), &taker{knows: 9}
	for _, r := range []*taker{first, ahead} {
		if _, err := told.join(r.Revoke); err != nil {
			t.Fatalf("without a file: %v", err)
		}
	}
	must(t, o.invite("--revoke", "client 1")...)
	late := new(taker)
	leave, err := told.join(late.Revoke)
	if err != nil {
		t.Fatal(err)
	}
	if err = told.again(); err != nil {
		t.Error(err)
	}
	leave()
	must(t, o.invite("--revoke", "client 2")...)
	if err = told.again(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		who  string
		got  *taker
		want []uint64
	}{{"who was there", first, []uint64{1, 2}}, {"who knows more", ahead, nil}, {"who came late and left", late, []uint64{1, 1}}} {
		if !reflect.DeepEqual(c.got.took, c.want) {
			t.Errorf("%s took the revocations %v, want %v", c.who, c.got.took, c.want)
		}
	}
	if err = os.WriteFile(told.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err = told.again(); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("half a file: %v", err)
	}
	if _, err = told.join(new(taker).Revoke); !errors.Is(err, admission.ErrMalformed) {
		t.Errorf("half a file at the start: %v", err)
	}
}

// A client and a server that wait for a session read on SIGHUP that they are revoked, and end. The
// aggregator has not been told.
func TestPartiesReadRevocationsOnHangup(t *testing.T) {
	effort.NotShort(t, "starts processes")
	m := newMachine(t)
	address := "/ip4/127.0.0.1/tcp/" + testutil.Port(t)
	m.founds(6, address)
	aggregator := m.start("aggregator", "--key", m.path("aggregator.key"), "--federation", m.path("federation.json"), "--state", m.path("aggregator"),
		"--tickets", m.path("invitations/tickets.json"), "--invitation", m.path("invitations/aggregator.json"), "--listen", address, "--ops", "")
	told := m.path("invitations/revocations.json")
	server := m.start("server", demo+"/experiment.yaml", "--items", demo+"/items", "--invitation", m.path("invitations/server.json"),
		"--state", m.path("server"), "--revocations", told)
	client := m.start("client", "--data", demo+"/ratings.csv", "--user", "4", "--invitation", m.path("invitations/client-3.json"),
		"--state", m.path("client"), "--revocations", told)
	server.until("waiting for clients")
	client.until(`"registered"`)
	must(t, "invite", "--operator", m.path("operator.key"), "--federation", m.path("federation.json"), "--out", m.path("invitations"), "--revoke", "server", "--revoke", "client 3")
	for name, p := range map[string]*process{"server": server, "client": client} {
		p.signal(syscall.SIGHUP)
		p.until("revocations read again")
		if code := p.wait(); code != cli.Misuse { // a start again does not help
			t.Errorf("the %s: exit code %d\n%s", name, code, p.log.String())
		}
		if n := p.log.String(); !strings.Contains(n, `"error":"this party itself: `+admission.ErrRevoked.Error()) {
			t.Errorf("the %s ended with\n%s", name, n)
		}
	}
	aggregator.signal(syscall.SIGTERM)
	if code := aggregator.wait(); code != cli.Done || strings.Contains(aggregator.log.String(), "revoked") {
		t.Errorf("the aggregator: exit code %d\n%s", code, aggregator.log.String())
	}
}
