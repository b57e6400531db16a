package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// Ceiling is the most that the charges within any period of that length may cost together.
type Ceiling struct {
	Budget dp.Budget
	Period time.Duration
	Name   string // for the owner, like 2/30d
}

// account is the ledger that a client's role charges in the session, rebuilt from all that the durable
// one holds. Where that is about something else than the session protects (dp.ErrMixed), or leaves too
// little for the session, it is refused: only the owner can see to it.
func (j *Job) account(durable *store.Ledger, costs *dp.Cache, now time.Time) (client.Ledger, error) {
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
	rest, err := j.rest(durable)
	if err == nil {
		err = j.fits(*j.Limit, costs, records, rest)
	}
	if err == nil {
		err = j.below(durable, costs, now, rest)
	}
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(records), func(r dp.Record) bool { return r.Session != j.Terms.Session })
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

// demand holds what a session still asks a client for: the charges of its rounds from one on.
type demand struct {
	from   uint64
	events []dp.Event
}

// rest returns the charges of the session's rounds after the last that was charged. It is better not to begin than to stop
// in the middle, with most of it spent. Rounds that were charged cost what the ledger says, also if a server that lies has
// described the session in another way before.
func (j *Job) rest(durable *store.Ledger) (demand, error) {
	last := durable.Last(j.Terms.Session)
	out, past := demand{from: last + 1}, last
	for k, plan := range j.Terms.Plans() {
		rounds := uint64(j.Terms.Steps[k].Rounds)
		skipped := min(past, rounds)
		past -= skipped
		turns := j.Terms.Cohort.Turns(int(rounds - skipped))
		if turns == 0 {
			continue
		}
		events, err := plan.Charges()
		if err != nil {
			return out, err
		}
		for _, e := range events {
			out.events = append(out.events, e.Times(turns))
		}
	}
	return out, nil
}

// fits says whether charges, after earlier charges, are within a limit of the owner's.
func (j *Job) fits(limit dp.Budget, costs *dp.Cache, earlier []dp.Record, asked demand) error {
	l, err := dp.RestoreLedger(limit, costs, earlier)
	if err != nil {
		return fmt.Errorf("node: the ledger: %w", err)
	}
	if len(asked.events) == 0 {
		return nil
	}
	if err = l.Charge(j.Terms.Session, asked.from, asked.events); err != nil {
		return fmt.Errorf("node: the session does not fit into what is left: %w", err)
	}
	return nil
}

// below says whether charges keep the ceilings of all periods that end after now. A later period has
// no earlier charges than are counted here.
func (j *Job) below(durable *store.Ledger, costs *dp.Cache, now time.Time, asked demand) error {
	for _, c := range j.Ceilings {
		dated, err := durable.Since(now.Add(-c.Period).Truncate(time.Second)) // as charges are dated
		if err != nil {
			return peer.Fatal(&session.DeclineError{Kind: session.DeclineUnable, Err: err})
		}
		if err = j.fits(c.Budget, costs, after(dated, time.Time{}), asked); err != nil {
			return fmt.Errorf("%w: the ceiling is %s%s%s", err, c.Name, j.until(c, costs, dated, asked), ahead(durable.Latest(), now))
		}
	}
	return nil
}

// ahead says that charges are dated after the present; "" if none is.
func ahead(last, now time.Time) string {
	if !last.After(now.Add(mostApart)) {
		return ""
	}
	return fmt.Sprintf(". Charges are dated up to %s, and the clock says %s: it was ahead when they were made, or is behind now. "+
		"If it is right now, a larger --ceiling for that time lets the client take part before; --max-epsilon holds all the same", last.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}

func after(dated []store.Dated, t time.Time) []dp.Record {
	var list []dp.Record
	for _, d := range dated {
		if d.At.IsZero() || d.At.After(t) {
			list = append(list, d.Record)
		}
	}
	return list
}

// until says from when on charges would keep a ceiling; "" if the ceiling rules them out by itself.
func (j *Job) until(c Ceiling, costs *dp.Cache, dated []store.Dated, asked demand) string {
	last := make(map[protocol.SessionID]time.Time)
	for _, d := range dated {
		if d.At.After(last[d.Session]) {
			last[d.Session] = d.At
		}
	}
	for _, end := range slices.SortedFunc(maps.Values(last), time.Time.Compare) {
		if j.fits(c.Budget, costs, after(dated, end), asked) == nil {
			return ", and it would fit from " + end.Add(c.Period).Add(time.Second).Format(time.RFC3339) + " on"
		}
	}
	return ""
}

// affordable returns the largest budget of session.Budgets below the session's own that the owner's
// limits leave room for, as one Gaussian release; 0: none.
func (j *Job) affordable(durable *store.Ledger, costs *dp.Cache, now time.Time) (float64, error) {
	records, err := durable.Records()
	if err != nil || j.Limit == nil {
		return 0, err
	}
	for _, epsilon := range session.Budgets {
		if epsilon >= j.Budget.Epsilon {
			continue
		}
		one := demand{durable.Last(j.Terms.Session) + 1, []dp.Event{dp.Gaussian(1 / dp.GaussianMu(epsilon, j.Budget.Delta))}}
		if j.fits(*j.Limit, costs, records, one) == nil && j.below(durable, costs, now, one) == nil {
			return epsilon, nil
		}
	}
	return 0, nil
}

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

// compareHead compares the ledger with the latest head of it that the aggregator knows; nil: none. An error
// says that the ledger lacks charges. A head that the client has not signed says nothing.
func (c *Client) compareHead(shown []byte) error {
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
