package hub

import (
	"fmt"
	"path/filepath"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// headsFile is the file in the aggregator's state with the latest head of each client's ledger.
const headsFile = "heads.txt"

// openHeads opens the heads of an aggregator's state; without a state they are in memory alone.
func openHeads(state string) (*store.Heads, error) {
	if state == "" {
		return store.NewHeads(), nil
	}
	return store.OpenHeads(filepath.Join(state, headsFile))
}

// compare takes the head with which a client registers, and returns the head that the client is to
// be shown; nil: none. stale says that the client lacks charges that it has signed for, so that it
// will end.
func (a *Aggregator) compare(owner admission.PublicKey, text []byte) (show []byte, stale bool, err error) {
	head, err := store.ParseHead(text)
	if err == nil {
		err = head.Verify(owner)
	}
	if err != nil {
		return nil, false, err
	}
	kept, ok := a.heads.Of(owner)
	if !ok || kept.Count < head.Count {
		a.keepHead(owner, head)
	}
	if !ok || kept.Chain == head.Chain {
		return nil, false, nil
	}
	return kept.Bytes(), kept.Count >= head.Count, nil
}

// keepHead keeps a head that is verified. That it cannot be written is no reason to stop a round: see Check.
func (a *Aggregator) keepHead(owner admission.PublicKey, head store.Head) {
	if err := a.heads.Keep(owner, head); err != nil {
		a.cfg.Log.Error().Err(err).Msg("the heads of clients' ledgers cannot be kept: until they can, clients that were restored from a copy are not found out after a power failure")
	}
}

// heard keeps the head that comes with a masked input. A head that does not hold is left out: the
// masked input counts all the same, since it is the client that a head protects.
func (a *Aggregator) heard(from admission.Place, m protocol.Message) {
	in, ok := m.(*protocol.MaskedInput)
	if !ok || in.Head == nil {
		return
	}
	owner, ok := a.cfg.Registry.Holder(from)
	if !ok {
		return
	}
	head, err := store.ParseHead(in.Head)
	if err == nil {
		err = head.Verify(owner)
	}
	if err != nil {
		a.cfg.Log.Warn().Err(err).Stringer("place", from).Msg("the head of a ledger is ignored")
		return
	}
	a.keepHead(owner, head)
}

// turnBack shows a client that lacks charges the proof, and ends its registration. A newer process of
// the client may be connected, and stays.
func (a *Aggregator) turnBack(c *conn) error {
	a.cfg.Log.Warn().Stringer("place", c.place).Msg("a client has registered with a ledger older than its own signature shows. " +
		"Its state was restored from an old copy, or two machines run copies of it: it takes part in nothing. Ask its owner; revoke it and invite it again")
	return session.Conclude(c.stream, &session.Message{Welcome: &session.Welcome{Life: a.life, Head: c.newer}})
}

// takeHeads takes over the heads that the aggregator shows a relay.
func (a *Aggregator) takeHeads(text []byte) error {
	if err := a.heads.Take(text); err != nil {
		return fmt.Errorf("%w: %w", session.ErrNotice, err)
	}
	return nil
}

// headsOf encodes the heads of all clients that are enrolled.
func (a *Aggregator) headsOf() []byte {
	var owners []admission.PublicKey
	for id := range protocol.ClientID(a.cfg.Registry.Federation().Places()) {
		if owner, ok := a.cfg.Registry.Holder(admission.ClientPlace(id)); ok {
			owners = append(owners, owner)
		}
	}
	return a.heads.Encode(owners)
}
