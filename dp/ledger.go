package dp

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Record is one accepted charge, as a durable ledger keeps it.
type Record struct {
	Session [16]byte `json:"session"`
	Round   uint64   `json:"round"`
	Events  []Event  `json:"events"`
	Protection
}

// Protection says what a charge protects: one unit, and how data sets differ in it. The zero value
// is unknown, as in ledgers that no record is kept of; it adds up with itself only.
type Protection struct {
	Unit     Unit     `json:"unit,omitempty"`
	Relation Relation `json:"relation,omitempty"`
}

// Validate refuses a unit or relation that does not exist. Unknown is valid.
func (p Protection) Validate() error {
	_, unit := ParseUnit(string(cmp.Or(p.Unit, User)))
	_, relation := parse("relation", string(cmp.Or(p.Relation, ZeroOut)), relations)
	return errors.Join(unit, relation)
}

// String formats the protection for messages.
func (p Protection) String() string {
	return fmt.Sprintf("unit=%s, relation=%s", cmp.Or(p.Unit, "unknown"), cmp.Or(p.Relation, "unknown"))
}

// ErrMixed is wrapped by the error for charges of different units or relations in one ledger. An ε
// about one rating and an ε about one user do not add up to an ε about either.
var ErrMixed = errors.New("dp: charges that protect different units do not add up")

// Ledger is one client's privacy account, in memory. Charges are never refunded, since an
// aggregator can claim failure after it has seen the sum. Charge first, make the Record durable,
// and only then let the masked input leave. A crash in between overstates the spent privacy, never
// understates it.
//
// A Ledger belongs to one goroutine; ledgers that share a Cache may run concurrently. Ledgers of
// one Cache share their memory as long as they have the same charges: a client of a simulation with
// a million clients takes some ten bytes.
type Ledger struct {
	cache  *Cache
	budget *Budget // of all ledgers that were made together
	*account
}

// account holds a ledger's charges. It never changes, because other ledgers may hold it too.
type account struct {
	spent    Result
	charged  composition
	sessions []lastCharge
	protects Protection // of the charges; the zero value if there are none

	latest atomic.Pointer[charge] // the charge last accepted on top of this account
}

// charge leads from one account to another.
type charge struct {
	session [16]byte
	round   uint64
	events  []Event
	becomes *account
}

// lastCharge holds the latest round charged in a session. A client knows few sessions, so a
// short list suffices.
type lastCharge struct {
	session [16]byte
	round   uint64
}

// ErrRoundOrder is returned for a charge whose round is not later than
// the last one charged in its session: a replay, or a step back after a
// restart.
var ErrRoundOrder = errors.New("dp: round is not later than the last one charged")

// OverspendError refuses a charge that the budget does not cover. Nothing was
// charged.
type OverspendError struct {
	Spent  float64 // ε so far
	Asked  float64 // ε with the charge
	Budget Budget
}

func (e *OverspendError) Error() string {
	return fmt.Sprintf("dp: the privacy budget does not cover this: spent epsilon=%s, asked for a total of epsilon=%s, budget epsilon=%v (delta=%v, accountant=%s)",
		roundUp(e.Spent), roundUp(e.Asked), e.Budget.Epsilon, e.Budget.Delta, e.Budget.Accountant)
}

// Cache stores the accounts of all ledgers that share it. Most clients of a simulation have the same
// compositions. The zero Cache is ready for use, and safe for concurrent use. It does not change a
// ledger's results.
type Cache struct{ accounts memory[*account] }

// maxAccounts bounds the memory of a cache whose ledgers diverge. At the bound the cache forgets
// everything, which costs one recomputation of each live account.
const maxAccounts = 1 << 16

// account returns the account of some charges, the same for all ledgers. It measures what no ledger had before.
func (c *Cache) account(b *Budget, charged composition, sessions []lastCharge, protects Protection) (*account, error) {
	key := fmt.Appendf(nil, "%q %q %q %d ", b.Accountant, protects.Unit, protects.Relation, len(charged))
	key = appendReals(key, b.Delta, b.SamplerError)
	for _, e := range charged {
		key = appendReals(append(key, e.Mechanism...), e.NoiseMultiplier, e.SamplingRate, e.Variance, e.L2, e.L1)
		key = binary.BigEndian.AppendUint64(key, uint64(e.Count))
	}
	for _, s := range sessions {
		key = binary.BigEndian.AppendUint64(append(key, s.session[:]...), s.round)
	}
	return c.accounts.recall(key, func() (*account, error) {
		spent, err := b.cost(charged)
		return &account{spent: spent, charged: charged, sessions: sessions, protects: protects}, err
	})
}

// NewLedger opens an empty ledger. Ledgers can share a cache to save work; nil gives the
// ledger its own.
func NewLedger(b Budget, cache *Cache) (*Ledger, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	cache = cmp.Or(cache, new(Cache))
	empty, err := cache.account(&b, nil, nil, Protection{})
	return &Ledger{cache, &b, empty}, err
}

// NewLedgers opens n empty ledgers for the clients of one process.
func NewLedgers(b Budget, n int) ([]*Ledger, error) {
	first, err := NewLedger(b, nil)
	if err != nil {
		return nil, err
	}
	ledgers, list := slices.Repeat([]Ledger{*first}, n), make([]*Ledger, n)
	for i := range list {
		list[i] = &ledgers[i]
	}
	return list, nil
}

// RestoreLedger rebuilds a ledger from its durable records, in the order in which they were
// charged. It accepts records that spent more than the budget, which may have been lowered since;
// then the ledger refuses every further charge. Records that could not have been charged in that
// order, or that the accountant does not cover, are an error.
func RestoreLedger(b Budget, cache *Cache, records []Record) (*Ledger, error) {
	l, err := NewLedger(b, cache)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		var charged composition
		if err = l.Protect(r.Protection); err == nil {
			charged, err = l.prepare(r.Session, r.Round, r.Events)
		}
		if err != nil {
			return nil, fmt.Errorf("dp: ledger record %d (session %x, round %d): %w", i, r.Session, r.Round, err)
		}
		l.account = &account{spent: l.spent, charged: charged, sessions: l.advanced(r.Session, r.Round), protects: l.protects}
	}
	if l.account, err = l.cache.account(l.budget, l.charged, l.sessions, l.protects); err != nil {
		return nil, fmt.Errorf("dp: ledger of %d records: %w", len(records), err)
	}
	return l, nil
}

// Protect says what the next charges protect. It fails with ErrMixed, and changes nothing, if
// earlier charges protect something else or something unknown.
func (l *Ledger) Protect(p Protection) error {
	if err := p.Validate(); err != nil {
		return err
	}
	switch {
	case p == l.protects:
		return nil
	case len(l.charged) > 0:
		return fmt.Errorf("%w: earlier charges have %s, this charge has %s", ErrMixed, l.protects, p)
	}
	becomes, err := l.cache.account(l.budget, nil, l.sessions, p)
	if err == nil {
		l.account = becomes
	}
	return err
}

// Charge spends the cost of taking part in a round. A refused charge changes nothing.
//
// Charge fails with an *OverspendError if the total would exceed the budget, and with
// ErrNoAccountant if an event has no accountant. It fails with ErrRoundOrder if the round
// is not later than the last round charged in the session. It also refuses a charge without
// events. A session may skip rounds.
func (l *Ledger) Charge(session [16]byte, round uint64, events []Event) error {
	// Most ledgers that share an account are charged the same next.
	c := l.latest.Load()
	if c == nil || c.session != session || c.round != round || !slices.Equal(c.events, events) {
		next, err := l.prepare(session, round, events)
		if err != nil {
			return err
		}
		becomes, err := l.cache.account(l.budget, next, l.advanced(session, round), l.protects)
		if err != nil {
			return err
		}
		c = &charge{session, round, slices.Clone(events), becomes}
		l.latest.Store(c)
	}
	if asked := c.becomes.spent.Epsilon; !(asked <= l.budget.Epsilon) {
		return &OverspendError{Spent: l.spent.Epsilon, Asked: asked, Budget: l.Budget()}
	}
	l.account = c.becomes
	return nil
}

// prepare checks a charge and returns the composition after it. It leaves the ledger unchanged.
func (l *Ledger) prepare(session [16]byte, round uint64, events []Event) (composition, error) {
	if i := l.find(session); i >= 0 && round <= l.sessions[i].round {
		return nil, fmt.Errorf("%w: round %d, after %d in session %x", ErrRoundOrder, round, l.sessions[i].round, session)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("dp: round %d charges no event; a round that releases nothing private needs no charge", round)
	}
	return l.charged.with(events)
}

func (l *Ledger) find(session [16]byte) int {
	return slices.IndexFunc(l.sessions, func(s lastCharge) bool { return s.session == session })
}

// advanced returns the latest rounds charged in each session, with one more.
func (l *Ledger) advanced(session [16]byte, round uint64) []lastCharge {
	sessions := slices.Clone(l.sessions)
	if i := l.find(session); i >= 0 {
		sessions[i].round = round
		return sessions
	}
	return append(sessions, lastCharge{session, round})
}

// Spent returns the cost of all charges together at the budget's δ; ε is 0 before the first charge.
func (l *Ledger) Spent() Result { return l.spent }

// Charged returns all charges, equal events counted together, in the canonical order. If one unit's
// data is spread over several clients, the unit's cost is the composition of the charges of all of
// them.
func (l *Ledger) Charged() []Event {
	return append([]Event{}, l.charged...)
}

// Budget returns the budget that the ledger was opened with.
func (l *Ledger) Budget() Budget { return *l.budget }
