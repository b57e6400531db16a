package node

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// account is the ledger that a client's role charges in the session, rebuilt from all that the durable
// one holds. Where that is about something else than the session protects (dp.ErrMixed), or leaves too
// little for the session, it is refused: only the owner can see to it.
func (j *Job) account(durable *store.Ledger, costs *dp.Cache) (client.Ledger, error) {
	records, err := durable.Records()
	switch {
	case errors.Is(err, store.ErrUnprotected):
		return nil, &session.DeclineError{Kind: session.DeclineUnit, Err: err}
	case err != nil: // of the disk, which the owner has to see to
		return nil, peer.Fatal(&session.DeclineError{Kind: session.DeclineUnable, Err: err})
	}
	if j.Limit == nil {
		return j.restore(*j.Budget, durable, costs, records)
	}
	total, err := j.restore(*j.Limit, durable, costs, records)
	if err != nil {
		return nil, err
	}
	own, others := of(j.Terms.Session, records)
	if err = j.fits(costs, others); err != nil {
		return nil, err
	}
	session, err := dp.RestoreLedger(*j.Budget, costs, own)
	if err != nil {
		return nil, fmt.Errorf("node: the ledger: %w", err)
	}
	return combinedLedger{total, session}, nil
}

// combinedLedger is the ledger of all sessions and the ledger of the present session. Each has a
// budget of its own.
type combinedLedger struct{ total, session client.Ledger }

// Charge implements client.Ledger. What the first takes and the second refuses is counted
// all the same, until the process ends: that errs towards less.
func (b combinedLedger) Charge(session [16]byte, round uint64, events []dp.Event) error {
	if err := b.total.Charge(session, round, events); err != nil {
		return err
	}
	return b.session.Charge(session, round, events)
}

// of divides records into the records of a session and the records of all others.
func of(session protocol.SessionID, records []dp.Record) (own, others []dp.Record) {
	for _, r := range records {
		if r.Session == session {
			own = append(own, r)
		} else {
			others = append(others, r)
		}
	}
	return own, others
}

// fits says whether the whole session, after all others, is within what the owner allows. It
// is better not to begin than to stop in the middle, with most of it spent.
func (j *Job) fits(costs *dp.Cache, others []dp.Record) error {
	l, err := dp.RestoreLedger(*j.Limit, costs, others)
	if err != nil {
		return fmt.Errorf("node: the ledger: %w", err)
	}
	var whole []dp.Event
	for k, plan := range j.Terms.Plans() {
		events, failed := plan.Charges()
		if failed != nil {
			return failed
		}
		for _, e := range events {
			whole = append(whole, e.Times(j.Terms.Cohort.Turns(j.Terms.Steps[k].Rounds)))
		}
	}
	if len(whole) == 0 {
		return nil
	}
	if err = l.Charge(j.Terms.Session, 1, whole); err != nil {
		return fmt.Errorf("node: the session does not fit into what is left: %w", err)
	}
	return nil
}

// restore rebuilds a ledger of all sessions.
func (j *Job) restore(b dp.Budget, durable *store.Ledger, costs *dp.Cache, records []dp.Record) (*dp.Ledger, error) {
	l, err := dp.RestoreLedger(b, costs, records)
	if err != nil {
		return nil, fmt.Errorf("node: the ledger: %w", err)
	}
	if err = l.Protect(j.Protects); err != nil {
		return nil, fmt.Errorf("node: the ledger and the session: %w", err)
	}
	durable.Protect(j.Protects)
	return l, nil
}

// head is the signed head of the client's ledger, as it is sent.
func (c *Client) head() []byte {
	h := c.cfg.Ledger.Sign(c.cfg.Identity)
	return h.Bytes()
}

// meet compares the ledger with the latest head of it that the aggregator knows; nil: none. An error
// says that the ledger lacks charges. A head that the client has not signed says nothing.
func (c *Client) meet(shown []byte) error {
	if shown == nil {
		return nil
	}
	h, err := store.ParseHead(shown)
	if err == nil {
		err = c.cfg.Ledger.Meet(h, c.cfg.Identity.Public())
	}
	if errors.Is(err, store.ErrForged) {
		c.cfg.Log.Warn().Err(err).Msg("the aggregator shows a head of this client's ledger that the client has not signed; it is ignored")
		return nil
	}
	return err
}
