package secagg

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/mask"
)

// Complaints (active mode alone; not in Bonawitz et al.). A dealer may have signed shares that do
// not open, or that differ from its commitments. A holder of such shares leaves the dealer out of
// its masks, and complains with its masked input. The complaint contains the secret of the mask
// that the two would have had, so that the dealer's half of the mask can be taken off. The edge is
// gone, and the round continues. The complaint reveals only what the dealer, who is at fault, could
// reveal as well. A holder who complains without reason reveals what it could reveal anyway, and
// holds no shares.

// edge is between a dealer and a holder who complains of it, by their places.
type edge struct{ holder, dealer int }

// complaints returns the client's complaints. With more complaints than there may be colluders the
// client takes no part: too few masks with honest neighbours might be left to hide its input.
func (c *Client) complaints(run protocol.Runner) ([]protocol.Complaint, error) {
	var out []protocol.Complaint
	var places []int
	for _, p := range c.peers {
		if p.faulty {
			places = append(places, p.at)
			out = append(out, protocol.Complaint{Of: p.id})
		}
	}
	if most := c.setup.Cohort.Liars(); len(out) > most {
		return nil, fmt.Errorf("%w: %d neighbours deal falsely, and at most %d clients are taken to", ErrShare, len(out), most)
	}
	if len(places) == 0 {
		return nil, nil
	}
	shared, errs := c.roster.pairSecrets(ofInputs, c.own[ofInputs].maskKey, c.self, places, nil, run)
	for i, err := range errs {
		out[i].Secret = shared[i]
		if err != nil {
			return nil, c.fault(protocol.ClientParty(out[i].Of), protocol.StageAdvertise, fmt.Errorf("%w: %w", ErrKeys, err))
		}
	}
	return out, nil
}

// checkComplaints says what is wrong with a client's complaints. Whether they are
// just only the operator can find out.
func (a *Aggregator) checkComplaints(holder int, list []protocol.Complaint) error {
	if len(list) > 0 && !a.Confirms() {
		return fmt.Errorf("%w: a complaint in semi-honest mode", ErrMalformed)
	}
	for i, m := range list {
		dealer := a.roster.find(m.Of)
		if dealer < 0 || !a.arrived.Has(dealer) || !a.graph.Adjacent(holder, dealer) || i > 0 && list[i-1].Of >= m.Of {
			return fmt.Errorf("%w: a complaint of client %d at place %d; they must be of neighbours who dealt, in ascending order", ErrMalformed, m.Of, i)
		}
	}
	return nil
}

// holds reports whether a client has shares of a dealer's secrets, as far as it says.
func (a *Aggregator) holds(holder, dealer int) bool {
	_, complains := a.complaints[edge{holder, dealer}]
	return !complains
}

// onesided are the masks that a dealer put on and the holder who complained of it did
// not.
func (a *Aggregator) onesided() []masking {
	if len(a.complaints) == 0 {
		return nil
	}
	var out []masking
	for dealer := range a.roster.members { // in the order of places
		for _, holder := range a.graph.Neighbours(dealer) {
			secret, complains := a.complaints[edge{holder, dealer}]
			if complains && a.u1.Has(dealer) && a.u1.Has(holder) && a.holds(dealer, holder) {
				// The dealer subtracted the mask if the holder stands before it.
				out = append(out, masking{secret: secret, kind: mask.Pair, sub: holder > dealer})
			}
		}
	}
	return out
}
