package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// ErrOrder is returned for a record of a round that is not later than the last one
// recorded: no round is taken up or charged twice, and there is no going back.
var ErrOrder = errors.New("store: the round is not later than the last one recorded")

// ErrUnprotected is returned for the records of a client that took part in a sum without
// noise: no budget covers what that revealed.
var ErrUnprotected = errors.New("store: this party has taken part in a session without noise: no budget can be kept any more")

// Ledger is the durable part of a client's privacy account: the records that its role
// wants to persist. The rules of spending are in dp.Ledger, which is rebuilt from Records
// after a restart. A recorded charge cannot be taken back. It may be used by several
// goroutines.
type Ledger struct {
	mu       sync.Mutex
	log      Log
	sessions map[protocol.SessionID]progress
	protects dp.Protection // what is charged from now on is about
	earlier  dp.Unit       // what the owner says that charges are about which do not say it themselves
}

// progress is the latest round of a session that was recorded in any way, and
// the latest that was charged.
type progress struct {
	last, charged uint64
	charges       int // how many were charged
}

// ledgerKind is the log of a ledger, which belongs to an identity.
func ledgerKind(owner admission.PublicKey) Kind { return Kind{"fedsim-ledger-v1", owner} }

// CreateLedger makes the file of an empty ledger, once for each client: when it joins.
// See CreateLog.
func CreateLedger(path string, owner admission.PublicKey) error {
	return CreateLog(path, ledgerKind(owner))
}

// OpenLedger opens the ledger of an identity. See OpenLog for what is refused. A missing
// file is fs.ErrNotExist; do not create another then, which would forget what was spent.
func OpenLedger(path string, owner admission.PublicKey) (*Ledger, error) {
	log, err := OpenLog(path, ledgerKind(owner))
	if err != nil {
		return nil, err
	}
	l, err := NewLedger(log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), log.Close())
	}
	return l, nil
}

// NewLedger reads a ledger from a log.
func NewLedger(log Log) (*Ledger, error) {
	l := &Ledger{log: log, sessions: make(map[protocol.SessionID]progress)}
	if err := l.each(func(e *ledgerEntry) error { return l.advance(l.sessions, e) }); err != nil {
		return nil, err
	}
	return l, nil
}

// ledgerEntry is a record as the log holds it, without events for a round that
// was taken up only.
type ledgerEntry struct {
	// Version is 2 where the entry says what it protects; entries without it are of version 0.1.
	Version int  `json:"version,omitempty"`
	Charged bool `json:"charged"`
	dp.Record
}

// each hands over all entries in order.
func (l *Ledger) each(f func(*ledgerEntry) error) error {
	n := 0
	return l.log.Entries(func(text []byte) error {
		n++
		e := new(ledgerEntry)
		err := json.Unmarshal(text, e)
		if err == nil {
			err = e.validate()
		}
		if err == nil {
			err = f(e)
		}
		if err != nil {
			return fmt.Errorf("%w: entry %d of the ledger: %w", ErrCorrupt, n, err)
		}
		return nil
	})
}

// protectingVersion is the version of entries that say what they protect.
const protectingVersion = 2

func (e *ledgerEntry) validate() error {
	switch e.Version {
	case 0:
		if e.Protection != (dp.Protection{}) {
			return fmt.Errorf("it says what it protects (%s), and is of a version that does not", e.Protection)
		}
		return nil
	case protectingVersion:
		if e.Unit == "" || e.Relation == "" {
			return fmt.Errorf("it is to say what it protects, and says %s", e.Protection)
		}
		return e.Protection.Validate()
	default:
		return fmt.Errorf("%w: the entry is of version %d; this program reads up to %d", ErrFormat, e.Version, protectingVersion)
	}
}

// Protect says what the charges to come are about, which stands in each of their records: see
// [dp.Ledger.Protect], which refuses mixtures.
func (l *Ledger) Protect(p dp.Protection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.protects = p
}

// Earlier takes an owner's word for what the charges of version 0.1 are about, which do
// not say it themselves: without it nothing can be charged beside them.
func (l *Ledger) Earlier(u dp.Unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.earlier = u
}

// advance takes an entry up into what is known of its session, or says why it
// cannot be the next.
func (l *Ledger) advance(sessions map[protocol.SessionID]progress, e *ledgerEntry) error {
	p, known := sessions[e.Session]
	if !known {
		p = l.sessions[e.Session]
	}
	// Only the latest accepted round, or a later one, can be charged.
	if e.Round < p.last || e.Round == p.last && (!e.Charged || e.Round == p.charged) {
		return fmt.Errorf("%w: round %d, after %d (charged: %d) in session %x", ErrOrder, e.Round, p.last, p.charged, e.Session[:])
	}
	if !e.Charged && len(e.Events) > 0 {
		return fmt.Errorf("round %d of session %x was not charged, and has %d events", e.Round, e.Session[:], len(e.Events))
	}
	if p.last = e.Round; e.Charged {
		p.charged = e.Round
		p.charges++
	}
	for i, event := range e.Events {
		if err := event.Validate(); err != nil {
			return fmt.Errorf("round %d of session %x, event %d: %w", e.Round, e.Session[:], i, err)
		}
	}
	sessions[e.Session] = p
	return nil
}

// Persist makes records durable, all or none, before it returns. It is for the Persist
// field of a client's effects, before anything of the same effects is sent. Records out
// of order are refused (ErrOrder) and nothing changes; after any other error nothing may
// be sent and the ledger is closed.
func (l *Ledger) Persist(records ...protocol.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make(map[protocol.SessionID]progress)
	var texts [][]byte
	for _, r := range records {
		e := new(ledgerEntry)
		switch r := r.(type) {
		case protocol.Charged:
			e.Charged, e.Session, e.Round, e.Events = true, r.Session, r.Round, r.Events
			if len(r.Events) > 0 && l.protects != (dp.Protection{}) {
				e.Version, e.Protection = protectingVersion, l.protects
			}
		default:
			return fmt.Errorf("store: a client's ledger has no place for a %T", r)
		}
		if err := l.advance(next, e); err != nil {
			return err
		}
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("store: round %d: %w", e.Round, err)
		}
		texts = append(texts, text)
	}
	if err := l.log.Append(texts...); err != nil {
		return err
	}
	for s, p := range next {
		l.sessions[s] = p
	}
	return nil
}

// Last is the latest round of the session that was recorded, as taken up or charged;
// 0 if none was. A restarted client takes part in later ones only.
func (l *Ledger) Last(session protocol.SessionID) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[session].last
}

// Charged reports whether a round of the session was charged.
func (l *Ledger) Charged(session protocol.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[session].charges > 0
}

// Charges counts the rounds of all sessions that were charged.
func (l *Ledger) Charges() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, p := range l.sessions {
		n += p.charges
	}
	return n
}

// Records returns every charge in order, for dp.RestoreLedger. It fails with ErrUnprotected if the
// client took part in a sum without noise, since there is no account of that sum. Otherwise that
// sum would count as free, and the next session could spend the budget again.
func (l *Ledger) Records() ([]dp.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records()
}

func (l *Ledger) records() ([]dp.Record, error) {
	var records []dp.Record
	var unprotected error
	err := l.each(func(e *ledgerEntry) error {
		switch {
		case len(e.Events) > 0:
			if e.Unit == "" {
				e.Unit = l.earlier
			}
			records = append(records, e.Record)
		case e.Charged && unprotected == nil:
			unprotected = fmt.Errorf("%w: round %d of session %x", ErrUnprotected, e.Round, e.Session[:])
		}
		return nil
	})
	if err = cmp.Or(err, unprotected); err != nil {
		return nil, err
	}
	return records, nil
}

// Close lets go of the file.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Close()
}
