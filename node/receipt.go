package node

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// errLogged: the aggregator has logged a session otherwise than it was.
var errLogged = errors.New("node: the log of sessions has this session otherwise than it was")

// meet checks what the aggregator shows of the log of sessions at the end of a session. own is the entry of its beginning as this
// party derives it, and final the end that the server signed. An error is fatal: the party keeps nothing of the session.
func meet(x *store.Receipts, shown []byte, own *protocol.Leaf, final *protocol.Final, aggregator admission.Contact, relayed bool) (*store.Receipt, error) {
	key, err := peer.ContactKey(aggregator)
	if err != nil {
		return nil, peer.Fatal(err)
	}
	r, err := store.ParseReceipt(shown)
	if err != nil {
		return nil, peer.Fatal(err)
	}
	leaf, err := x.Meet(r, key, relayed)
	if err != nil {
		return nil, peer.Fatal(fmt.Errorf("node: %w", err))
	}
	if want, failed := own.Ended(final, leaf.Survivors).Encode(); failed != nil || !bytes.Equal(want, r.Leaf) {
		return nil, peer.Fatal(fmt.Errorf("%w: this party knows it as %s, and its entry is %s", errLogged, want, r.Leaf))
	}
	return r, nil
}

// logged keeps the receipt with which the aggregator answers the end of the session.
func (s *Server) logged(f *protocol.Final) error {
	if !s.over() {
		return session.ErrNotice
	}
	own, err := s.described.Leaf(s.signed, s.cfg.Identity.Public())
	if err != nil {
		return peer.Fatal(err)
	}
	r, err := meet(s.cfg.Receipts, f.Receipt, own, s.final, s.cfg.Membership.Contact, false)
	if err == nil {
		err = s.cfg.Receipts.Add(r, s.cfg.Identity, 0)
	}
	s.answered = err == nil
	return err
}
