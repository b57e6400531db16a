package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/fedsim/fedsim/node/admission"
)

// tickets is the file that tells an aggregator whom the operator has invited. Nothing
// in it is secret: the private halves are in the invitations.
type tickets struct {
	Tickets []admission.Ticket `json:"fedsim-tickets-v1"`
}

// EncodeTickets writes tickets as ParseTickets reads them.
func EncodeTickets(list []admission.Ticket) ([]byte, error) {
	if list == nil {
		list = []admission.Ticket{}
	}
	return json.Marshal(&tickets{list})
}

// ParseTickets reads the tickets of a federation, each signed by its operator and
// with a key of its own. Errors wrap one of package admission.
func ParseTickets(text []byte, f *admission.Federation) ([]admission.Ticket, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var t tickets
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("%w: a list of tickets: %w", admission.ErrMalformed, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || t.Tickets == nil {
		return nil, fmt.Errorf("%w: a list of tickets is one object with the key fedsim-tickets-v1", admission.ErrMalformed)
	}
	seen := make(map[admission.PublicKey]bool, len(t.Tickets))
	for i := range t.Tickets {
		ticket := &t.Tickets[i]
		if err := ticket.Verify(f); err != nil {
			return nil, fmt.Errorf("ticket %d, for the %s: %w", i+1, ticket.Place, err)
		}
		if seen[ticket.Key] {
			return nil, fmt.Errorf("ticket %d, for the %s: %w: another ticket has the same key", i+1, ticket.Place, admission.ErrMalformed)
		}
		seen[ticket.Key] = true
	}
	return t.Tickets, nil
}
