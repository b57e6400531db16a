package node

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/store"
)

// account is the ledger that a client's role charges in the session, rebuilt from all that the durable
// one holds. Where that is about something else than the session protects it is refused
// (dp.ErrMixed): only the owner can see to it.
func (j *Job) account(durable *store.Ledger, costs *dp.Cache) (*dp.Ledger, error) {
	records, err := durable.Records()
	if err != nil {
		return nil, err
	}
	l, err := dp.RestoreLedger(*j.Budget, costs, records)
	if err != nil {
		return nil, fmt.Errorf("node: the ledger: %w", earlier(err))
	}
	if err = l.Protect(j.Protects); err != nil {
		return nil, fmt.Errorf("node: the ledger and the session: %w", earlier(err))
	}
	durable.Protect(j.Protects)
	return l, nil
}

// earlier adds what an owner can do about charges that do not say what they protect.
func earlier(err error) error {
	if errors.Is(err, dp.ErrMixed) {
		return fmt.Errorf("%w; charges of version 0.1 are of an unknown unit until their owner states it (--earlier-unit); for another unit it takes another --state, by another invitation", err)
	}
	return err
}
