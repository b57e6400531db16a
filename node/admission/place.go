package admission

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/protocol"
)

// Place is a place in the federation, as protocol.Party writes it: the server,
// the aggregator, or the client of a number from 0 to N-1. Its text is
// "server", "aggregator" or "client 7".
type Place protocol.Party

// ServerPlace and AggregatorPlace are the two places that exist once.
var (
	ServerPlace     = Place{Role: protocol.Server}
	AggregatorPlace = Place{Role: protocol.Aggregator}
)

// ClientPlace is the place of a client.
func ClientPlace(id protocol.ClientID) Place { return Place(protocol.ClientParty(id)) }

// ParsePlace reads a place's text.
func ParsePlace(s string) (Place, error) {
	var p Place
	switch number, client := strings.CutPrefix(s, "client "); {
	case client:
		n, err := strconv.ParseUint(number, 10, 32)
		if p = ClientPlace(protocol.ClientID(n)); err == nil && p.String() == s {
			return p, nil
		}
	case s == ServerPlace.String():
		return ServerPlace, nil
	case s == AggregatorPlace.String():
		return AggregatorPlace, nil
	}
	return Place{}, fmt.Errorf("%w: place %q; it must be server, aggregator or client and a number, like %q", ErrMalformed, s, ClientPlace(7))
}

func (p Place) String() string { return protocol.Party(p).String() }

// MarshalText is String.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePlace.
func (p *Place) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePlace(string(text))
	return err
}

// check says whether there is such a place among n clients.
func (p Place) check(n int) error {
	switch p.Role {
	case protocol.Server, protocol.Aggregator:
		if p.Client == 0 {
			return nil
		}
	case protocol.Client:
		if int64(p.Client) < int64(n) {
			return nil
		}
		return fmt.Errorf("%w: there is no %s; the federation has clients 0 to %d", ErrMalformed, p, n-1)
	case protocol.Relay: // the aggregator says who relays, not the operator
	}
	return fmt.Errorf("%w: there is no place %+v", ErrMalformed, protocol.Party(p))
}

// compare orders places: the server, the aggregator, the clients by number.
func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Role, q.Role), cmp.Compare(p.Client, q.Client))
}

func (p Place) write(t *protocol.Transcript) *protocol.Transcript {
	return t.Text(p.Role.String()).Uint(uint64(p.Client))
}
