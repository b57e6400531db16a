package client

import (
	"sync/atomic"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Shared is the common part of the clients of one process, and finds the part that belongs to each.
// A simulation has a million clients, so as little as possible is kept for each. The fields are the
// fields of [Config]; Ledger nil: no client has one. Functions may be called at the same time, and
// return the same for one client every time.
type Shared struct {
	Session protocol.SessionID
	Trainer func(protocol.ClientID) Trainer
	Ledger  func(protocol.ClientID) Ledger
	Entropy func(protocol.ClientID) entropy.Source
	NewSum  func(protocol.ClientID, protocol.Setup) (Sum, error)
	Noise   *Samplers
	Rounds  uint64

	agreed func(*protocol.Plan) error
	save   func() ([]byte, error)
	dense  bool
	keeps  bool // inputs until they are sent: a round may be set up anew

	// Values that clients derive from the same message are made once, as long as one client is told
	// after the other.
	setups     latest[protocol.Setup, *protocol.Setup]
	sound      latest[*protocol.Plan, error]
	prices     latest[*protocol.Plan, price]
	advertises latest[advertising, *protocol.Advertise]
	shares     latest[sharing, *protocol.Shares]
	prepareds  latest[protocol.Prepared, *protocol.Prepared]
	inputs     latest[inputWith, *protocol.MaskedInput]
	unmasks    latest[unmaskWith, *protocol.Unmask]
}

// NewMany makes the clients 0 to n-1 of one process.
func NewMany(s *Shared, n int) []Client {
	list := make([]Client, n)
	for i := range list {
		list[i] = Client{Shared: s, id: protocol.ClientID(i)}
	}
	return list
}

type price struct {
	events []dp.Event
	err    error
}

func (c *Shared) price(p *protocol.Plan) price {
	return c.prices.of(p, func() price {
		events, err := p.Charges()
		return price{events, err}
	})
}

// Messages of sums with something of the role in them. Many clients of an ideal sum send the same
// message, and share one copy of it.
type (
	advertising struct {
		of    *protocol.Advertise
		ahead bool
		anew  uint32
	}
	sharing struct {
		of    *protocol.Shares
		ahead bool
		anew  uint32
	}
	inputWith struct {
		of   *protocol.MaskedInput
		next *protocol.Advertise
	}
	unmaskWith struct {
		of   *protocol.Unmask
		next *protocol.Shares
	}
)

// latest is the latest value that was made, and of what.
type latest[K comparable, V any] struct {
	known atomic.Pointer[struct {
		key   K
		value V
	}]
}

// of is the value of a key: the latest one, or made. It is made more than once where many ask at once.
func (l *latest[K, V]) of(key K, make func() V) V {
	if known := l.known.Load(); known != nil && known.key == key {
		return known.value
	}
	known := &struct {
		key   K
		value V
	}{key, make()}
	l.known.Store(known)
	return known.value
}
