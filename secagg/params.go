package secagg

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Params are the public parameters of a run of real sums. A client does not take them
// from the aggregator.
type Params struct {
	// Mode is SemiHonest or Active: what the aggregator and colluding clients may do.
	Mode graph.Mode
	// Rounds is T, failed attempts included: the bounds hold for all of them
	// together.
	Rounds int
	// Identities is the enrolment list, needed in active mode: the Ed25519 public key of every
	// client, by its ClientID. The writer of the list decides which clients exist. So the
	// federation's operator must sign it, not the aggregator or the server.
	Identities []ed25519.PublicKey
	// List, if set, is a hash that all parties of a sum must have alike: clients with another one share no masks.
	List protocol.Hash
	// Beacon, needed in active mode with more than graph.CompleteUpTo clients, is a value for this
	// round that no party could predict before the clients had acknowledged the roster. The ring is
	// drawn from it. Empty: there is none.
	Beacon []byte
}

// ErrReplace is returned in active mode where noise is replaced. The clients that replaced their
// noise are a second set of survivors, and the protocol has no quorum for it.
var ErrReplace = errors.New("secagg: replaced noise is summed in semi-honest mode alone, since in active mode clients would have to agree on who replaced it; split the noise, or use semi-honest mode")

// ErrChosen is returned in active mode if a part of the clients is asked. The party that draws the
// session's ID could try IDs until a choice has one client among colluding ones. No party supplies
// a beacon that cannot be known before.
var ErrChosen = errors.New("secagg: a part of the clients is chosen by the ID of the session, which an active server would draw until it suits it; ask all, or use semi-honest mode")

// Validate reports everything that makes a real sum of the plan impossible; it names the
// bound that fails where no graph meets all bounds.
func (p Params) Validate(plan *protocol.Plan) error {
	return errors.Join(plan.Validate(), p.validateSetup(plan.Setup()))
}

// validateSetup is the part that can be checked before there is a plan.
func (p Params) validateSetup(s protocol.Setup) error {
	var errs []error
	if p.Mode == graph.Active {
		if s.Replaces {
			errs = append(errs, ErrReplace)
		}
		if s.Cohort.Enrolled > 0 {
			errs = append(errs, ErrChosen)
		}
		if n := s.Cohort.Clients; len(p.Identities) != n {
			errs = append(errs, fmt.Errorf("the enrolment list has %d keys for %d clients", len(p.Identities), n))
		}
		for id, k := range p.Identities {
			if len(k) != ed25519.PublicKeySize {
				errs = append(errs, fmt.Errorf("the enrolment list has %d bytes as the key of client %d; an Ed25519 key has %d", len(k), id, ed25519.PublicKeySize))
			}
		}
	}
	if _, err := graph.Choose(p.Graph(s)); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Graph are the parameters from which graph and threshold follow. A round that
// replaces noise counts as two: it has two sums, and clients lost in either may cut the
// graph.
func (p Params) Graph(s protocol.Setup) graph.Params {
	c := s.Cohort
	colluders := c.Colluders
	if c.Enrolled > 0 { // all colluders may be among the clients that stay in the round
		colluders = float64(c.Colluding()) / float64(c.Wanted())
	}
	return graph.Params{
		Clients: c.Wanted(), Tolerance: c.Tolerance, Colluders: colluders,
		Mode: p.Mode, Rounds: p.Rounds * int(layersOf(s)), Beacon: len(p.Beacon) > 0,
	}
}

// Quorum returns the number of signatures over one set of survivors that a client needs to unmask
// in active mode, with n clients on the roster. It is max(⌊(n+c)/2⌋+1, ⌈(1-ω)N⌉), so that any two
// quorums share an honest signer. The roster is the roster of the advertisements; all clients that
// the aggregator shows later are on it.
func Quorum(c protocol.Cohort, n int) int {
	return max((n+c.Colluding())/2+1, c.Required())
}

// setting hashes everything that is fixed before the first client advertises: the round, the
// clients that may take part in it, and the parameters. The plan may not be known by then.
func (p Params) setting(s protocol.Setup) protocol.Hash {
	t := protocol.NewTranscript("fedsim/secagg/setting/v1").Bytes(s.Session[:]).Uint(s.Round).
		Cohort(s.Cohort).
		Uint(uint64(layersOf(s))).Text(p.Mode.String()).Uint(uint64(p.Rounds)).Bytes(p.Beacon).Uint(uint64(len(p.Identities)))
	for _, k := range p.Identities {
		t.Bytes(k)
	}
	if p.List != (protocol.Hash{}) {
		t.Bytes(p.List[:])
	}
	return t.Sum()
}
