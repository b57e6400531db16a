package session

import (
	"context"
	"crypto/ed25519"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
)

// Greet registers by the protocol of a stream, with the list that a registry has, and returns what the aggregator
// answers. own holds what the peer says of itself.
func Greet(s network.Stream, r *admission.Registry, own Register) (*Welcome, error) {
	_, known, err := r.Current()
	if err != nil {
		return nil, err
	}
	peer.Within(s, peer.RegisterTimeout)
	own.List, own.At = known, own.At.UTC().Truncate(time.Second)
	if err = Say(s, &Message{Register: &own}); err != nil {
		return nil, err
	}
	m, err := Hear(s, max(2*r.Federation().MaxListSize(), DescriptorSize)) // it may have grown
	if err != nil {
		return nil, err
	}
	if m.Welcome == nil {
		return nil, ErrNotice
	}
	return m.Welcome, nil
}

// Trust takes the aggregator's list into the party's own registry, and checks that the party can
// work with it. A nil text stands for the list in the registry.
func Trust(m *admission.Membership, r *admission.Registry, text []byte) (list *admission.List, err error) {
	if text == nil {
		list, _, err = r.Current()
	} else {
		list, _, err = r.Take(text)
	}
	if err != nil {
		return nil, err
	}
	return list, m.Check(list)
}

// Carry exchanges messages over a stream until it ends: what is queued goes out,
// and what comes in is checked and given to the role. begun keeps the beginning of a broadcast
// that breaks off, and the next stream continues there; nil: nothing is kept.
func Carry(ctx context.Context, s network.Stream, q *peer.Queue, limits wire.Limits, begun *wire.Begun, take func(protocol.Message) error) error {
	_ = s.SetDeadline(time.Time{})
	closed := make(chan struct{})
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		if q.Write(s, closed) != nil {
			_ = s.Reset() // otherwise the reader would wait on, and no peer would dial again
		}
	}()
	defer func() {
		close(closed)
		_ = s.Reset()
		<-wrote
	}()
	r := wire.NewReader(s, limits)
	if begun != nil {
		r.Keep(*begun)
		defer func() { *begun = r.Begun() }()
	}
	for {
		m, err := r.Read()
		if err != nil {
			return err
		}
		if err = take(m); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Signer checks what the server has signed.
type Signer ed25519.PublicKey

func (k Signer) Check(session protocol.SessionID, m protocol.Message) error {
	switch m := m.(type) {
	case *protocol.Announce:
		return protocol.VerifyPlan(ed25519.PublicKey(k), m.Plan)
	case *protocol.Final:
		return protocol.VerifyFinal(ed25519.PublicKey(k), session, m)
	default:
		return nil // what the aggregator itself says, which the roles check
	}
}
