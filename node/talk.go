package node

import (
	"context"
	"crypto/ed25519"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
)

// greet registers by the protocol of a stream, with the list that a registry has, and returns what the aggregator
// answers.
func greet(s network.Stream, version string, life [16]byte, f *admission.Federation, r *admission.Registry) (*welcome, error) {
	_, known, err := r.Current()
	if err != nil {
		return nil, err
	}
	within(s, registerTimeout)
	if err = say(s, &controlMessage{Register: &register{Version: version, Life: life, List: known}}); err != nil {
		return nil, err
	}
	m, err := hear(s, 2*f.MaxListSize())
	if err != nil {
		return nil, err
	}
	if m.Welcome == nil {
		return nil, errNotice
	}
	return m.Welcome, nil
}

// trust takes the aggregator's list into the party's own registry, and checks that
// it is one to work with. No text is that of the list in the registry.
func trust(m *admission.Membership, r *admission.Registry, text []byte) (list *admission.List, err error) {
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

// carry exchanges messages over a stream until it ends: what is queued goes out,
// and what comes in is checked and given to the role.
func carry(ctx context.Context, s network.Stream, q *queue, limits wire.Limits, take func(protocol.Message) error) error {
	_ = s.SetDeadline(time.Time{})
	closed := make(chan struct{})
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		if q.write(s, closed) != nil {
			_ = s.Reset() // the reader would wait on, and nobody dial again
		}
	}()
	defer func() {
		close(closed)
		_ = s.Reset()
		<-wrote
	}()
	r := wire.NewReader(s, limits)
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

// signer checks what the server has signed.
type signer ed25519.PublicKey

func (k signer) check(session protocol.SessionID, m protocol.Message) error {
	switch m := m.(type) {
	case *protocol.Announce:
		return protocol.VerifyPlan(ed25519.PublicKey(k), m.Plan)
	case *protocol.Final:
		return protocol.VerifyFinal(ed25519.PublicKey(k), session, m)
	default:
		return nil // what the aggregator itself says, which the roles check
	}
}
