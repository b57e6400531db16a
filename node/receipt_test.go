package node

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/node/nodetest"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// A party refuses a session that is logged otherwise than the party knows it, although the server has signed its end and the log
// holds. The aggregator may state the survivors alone, which a party does not know.
func TestSessionLoggedOtherwiseIsRefused(t *testing.T) {
	key := func(name string) admission.PrivateKey {
		k, err := admission.GenerateKey(simulated.New(1, name))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	aggregator, server := key("aggregator"), key("server")
	id, err := peer.IDOf(aggregator.Public().Ed25519())
	if err != nil {
		t.Fatal(err)
	}
	d := &session.Descriptor{Terms: nodetest.Terms(), Experiment: []byte("the experiment")}
	signed, err := session.Sign(d, server)
	if err != nil {
		t.Fatal(err)
	}
	final := &protocol.Final{Model: []byte("the model")}
	if err = protocol.SignFinal(server.Ed25519(), d.Terms.Session, final); err != nil {
		t.Fatal(err)
	}
	own, err := d.Leaf(signed, server.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(l *protocol.Leaf){
		"":                  func(*protocol.Leaf) {},
		"survivors":         func(l *protocol.Leaf) { l.Survivors = [][2]int{{3, 2}} },
		"another agreement": func(l *protocol.Leaf) { l.Agreement = make([]byte, 32) },
		"another plan":      func(l *protocol.Leaf) { l.Plan = make([]byte, 32) },
		"a client less":     func(l *protocol.Leaf) { l.Clients-- },
		"a round less":      func(l *protocol.Leaf) { l.Rounds-- },
		"a search":          func(l *protocol.Leaf) { l.Claims.Search = "private" },
		"a start":           func(l *protocol.Leaf) { l.Claims.Start = "ab" },
		"another delta":     func(l *protocol.Leaf) { l.Claims.Delta = 0.5 },
		"no charges":        func(l *protocol.Leaf) { l.Charges = nil },
	} {
		log, wrong := store.OpenSessionLog("", admission.Hash{}, aggregator)
		if wrong != nil {
			t.Fatal(wrong)
		}
		leaf := own.Ended(final, nil)
		change(leaf)
		if wrong = log.Add(leaf); wrong != nil {
			t.Fatal(wrong)
		}
		r, wrong := log.Receipt()
		if wrong != nil {
			t.Fatal(wrong)
		}
		text, wrong := json.Marshal(r)
		if wrong != nil {
			t.Fatal(wrong)
		}
		_, err = meet(new(store.Receipts), text, own, final, admission.Contact{Peer: id.String()}, false)
		if fine := name == "" || name == "survivors"; fine != (err == nil) || !fine && (!errors.Is(err, errLogged) || !peer.IsFatal(err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err = meet(new(store.Receipts), nil, own, final, admission.Contact{Peer: id.String()}, false); !errors.Is(err, store.ErrLog) || !peer.IsFatal(err) {
		t.Errorf("an end without a receipt: %v", err)
	}
}
