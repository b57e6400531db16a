package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// headsFile is the file in the aggregator's state with the latest head of each client's ledger.
const headsFile = "heads.txt"

// compare takes the head with which a client registers, and returns the head that the client is to be shown; nil: none. stale says that the
// client lacks charges that it has signed for, so that it will end.
func (a *Aggregator) compare(owner admission.PublicKey, text []byte) (show []byte, stale bool, err error) {
	head, err := store.OpenHead(text, owner)
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
	head, err := store.OpenHead(in.Head, owner)
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

// excludedFile is the file in the aggregator's state with the clients that lied in its
// session, so that a start anew does not let them in again.
const excludedFile = "excluded.json"

type exclusions struct {
	Session protocol.SessionID `json:"session"`
	List    []exclusion        `json:"excluded"`

	mu     sync.Mutex
	unkept error // why the file lacks some of them; nil: it does not
}

// exclusion is a client that lied. Its key is excluded: another client that takes the place later has not lied.
type exclusion struct {
	Client protocol.ClientID   `json:"client"`
	Key    admission.PublicKey `json:"key"`
	Why    string              `json:"why"`
}

func (a *Aggregator) excludedPath() string { return filepath.Join(a.cfg.State, excludedFile) }

// loadExcluded returns the clients of a list that lied in a session before.
func (a *Aggregator) loadExcluded(session protocol.SessionID, list *admission.List) *exclusions {
	out := &exclusions{Session: session}
	var kept exclusions
	if _, err := atomicfile.FindJSON(a.excludedPath(), &kept); err != nil {
		a.cfg.Log.Error().Err(err).Msg("whom the session has excluded is not known any more")
	}
	if kept.Session != session {
		return out
	}
	for _, x := range kept.List {
		if key, ok := list.Holder(admission.ClientPlace(x.Client)); ok && key == x.Key {
			out.List = append(out.List, x)
		}
	}
	return out
}

func (x *exclusions) clients() []protocol.ClientID {
	return lists.Map(x.List, func(e exclusion) protocol.ClientID { return e.Client })
}

// keepExcluded keeps whom the role has excluded, of a list's clients. That it cannot be
// kept is no reason to stop, since it matters after a restart alone: see Check.
func (a *Aggregator) keepExcluded(x *exclusions, list *admission.List, events []protocol.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := len(x.List)
	for _, e := range events {
		if key, ok := list.Holder(admission.Place(e.Party)); ok && e.Kind == protocol.ClientExcluded {
			x.List = append(x.List, exclusion{Client: e.Party.Client, Key: key, Why: e.Err.Error()})
		}
	}
	if len(x.List) == before {
		return
	}
	if x.unkept = a.writeExcluded(x); x.unkept != nil {
		a.cfg.Log.Error().Err(x.unkept).Msg("whom the session has excluded cannot be kept: after a restart it is in again")
	}
}

// Check returns an error if the aggregator cannot keep something that it must know after a restart: its registry, or the clients that its
// session has excluded. It first tries again to keep that. It also returns an error if the session cannot continue, because too many
// clients decline it. nil: all is well.
func (a *Aggregator) Check() error {
	a.mu.Lock()
	s := a.session
	declined := a.stands(s)
	a.mu.Unlock()
	err := errors.Join(a.cfg.Registry.Check(), a.heads.Check(), declined)
	if s == nil {
		return err
	}
	x := s.excluded
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unkept != nil {
		if x.unkept = a.writeExcluded(x); x.unkept != nil {
			err = errors.Join(err, fmt.Errorf("whom the session has excluded cannot be kept: %w", x.unkept))
		}
	}
	return err
}

func (a *Aggregator) writeExcluded(x *exclusions) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return atomicfile.Write(a.excludedPath(), text, 0o600)
}
