package store

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// ErrOrder is returned for a record of a round that is not later than the last one
// recorded: no round is taken up or charged twice, and there is no going back.
var ErrOrder = errors.New("store: the round is not later than the last one recorded")

// ErrUnprotected is returned for the records of a client that took part in a sum without
// noise: no budget covers what that revealed.
var ErrUnprotected = errors.New("store: this party has taken part in a session without noise: no budget can be kept any more")

// Ledger is the durable part of a client's privacy account: the records that its role wants to persist. The rules of spending are
// in dp.Ledger, which is rebuilt from Records after a restart. A recorded charge cannot be taken back. It may be used by several
// goroutines.
type Ledger struct {
	mu       sync.Mutex
	log      Log
	sessions map[protocol.SessionID]progress
	protects dp.Protection // of the charges to come
	count    uint64        // entries
	chain    protocol.Hash // of them: see Head
	latest   time.Time     // date of the last charge
	// overtaken says that the ledger lacks charges, and records no more; nil: it is not known to.
	overtaken error
	newer     string // file of the head that proves it; "": in memory alone
}

// entry is a charge as it is written.
type entry struct {
	dp.Record

	At    time.Time `json:"at,omitzero"`     // by the machine's clock, and never before the charge before it
	Nonce string    `json:"nonce,omitempty"` // random, in hex
}

// progress counts the charges of a session.
type progress struct {
	last    uint64 // the latest round that was charged
	charges int
}

// ledgerKind is the log of a ledger, which belongs to an identity.
func ledgerKind(owner admission.PublicKey) Kind { return Kind{"fedsim-ledger-v1", owner} }

// CreateLedger makes the file of an empty ledger, once for each client: when it joins. See CreateLog.
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
	l, err := ledgerIn(log, path, owner)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return l, nil
}

// HandOver writes the ledger of an identity for another identity of the same client, with every charge, in place of what is at the
// path to. The ledger at from stays as it is and locked until it is closed, so that no process charges it meanwhile. A ledger that lacks
// charges is not handed over.
func HandOver(from string, owner admission.PublicKey, to string, next admission.PublicKey) (io.Closer, error) {
	l, err := OpenLedger(from, owner)
	if err != nil {
		return nil, err
	}
	var entries [][]byte
	err = errors.Join(l.Overtaken(), l.log.Entries(func(text []byte) error {
		entries = append(entries, slices.Clone(text))
		return nil
	}))
	for _, path := range []string{to, l.newer} { // of a hand-over that was cut short; and a head that the ledger has reached
		if err == nil {
			err = atomicfile.Remove(path)
		}
	}
	if err == nil {
		err = CreateLedger(to, next)
	}
	var log Log
	if err == nil {
		log, err = OpenLog(to, ledgerKind(next))
	}
	if err == nil {
		err = errors.Join(log.Append(entries...), log.Close())
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ledgerIn reads the ledger of an identity from the log of a file.
func ledgerIn(log Log, path string, owner admission.PublicKey) (*Ledger, error) {
	l, err := NewLedger(log)
	if err == nil {
		l.newer = path + newerSuffix
		err = l.recall(owner)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// newerSuffix ends the name of the file with the head for which a ledger is not used any more.
const newerSuffix = ".newer"

// NewLedger reads a ledger from a log.
func NewLedger(log Log) (*Ledger, error) {
	l := &Ledger{log: log, sessions: make(map[protocol.SessionID]progress)}
	err := l.each(func(r *entry, text []byte) error {
		l.latest, l.count, l.chain = later(l.latest, r.At), l.count+1, after(l.chain, text)
		return l.advance(l.sessions, &r.Record)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// each hands over all entries in order with their texts. No date is before an earlier one: a clock put back hides no charge.
func (l *Ledger) each(f func(r *entry, text []byte) error) error {
	n := 0
	var latest time.Time
	return l.log.Entries(func(text []byte) error {
		n++
		r := new(entry)
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields() // a later version has put it there for a reason
		err := d.Decode(r)
		if err == nil {
			if !r.At.IsZero() {
				latest = later(latest, r.At)
				r.At = latest
			}
			err = f(r, text)
		}
		if err != nil {
			return Foreign(l.log, fmt.Errorf("entry %d of the ledger: %w", n, err))
		}
		return nil
	})
}

// check refuses a record that says nothing of what it protects, or that says it of a sum without noise.
func check(r *dp.Record) error {
	if len(r.Events) == 0 {
		if r.Protection != (dp.Protection{}) {
			return fmt.Errorf("round %d of session %x has no events, and protects %s", r.Round, r.Session[:], r.Protection)
		}
		return nil
	}
	if r.Unit == "" || r.Relation == "" {
		return fmt.Errorf("round %d of session %x does not say what it protects: %s", r.Round, r.Session[:], r.Protection)
	}
	return r.Protection.Validate()
}

// Protect sets what the charges to come protect. Each record contains it, and [dp.Ledger.Protect] refuses
// mixtures. Charges with events are refused before the first Protect.
func (l *Ledger) Protect(p dp.Protection) { locked.Do(&l.mu, func() { l.protects = p }) }

// advance adds a record to what is known of its session. It returns ErrOrder if the round is not later than the session's last.
func (l *Ledger) advance(sessions map[protocol.SessionID]progress, r *dp.Record) error {
	p, known := sessions[r.Session]
	if !known {
		p = l.sessions[r.Session]
	}
	if r.Round <= p.last {
		return fmt.Errorf("%w: round %d, after %d, in session %x", ErrOrder, r.Round, p.last, r.Session[:])
	}
	p.last = r.Round
	p.charges++
	if err := check(r); err != nil {
		return err
	}
	for i, event := range r.Events {
		if err := event.Validate(); err != nil {
			return fmt.Errorf("round %d of session %x, event %d: %w", r.Round, r.Session[:], i, err)
		}
	}
	sessions[r.Session] = p
	return nil
}

// Persist makes records durable, all or none, before it returns. It is for the Persist field of a client's effects, before anything
// of the same effects is sent. Records out of order are refused (ErrOrder) and nothing changes; after any other error nothing may
// be sent and the ledger is closed.
func (l *Ledger) Persist(records ...protocol.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overtaken != nil {
		return l.overtaken
	}
	next := make(map[protocol.SessionID]progress)
	chain, at := l.chain, later(l.latest, time.Now().UTC().Truncate(time.Second))
	var texts [][]byte
	for _, r := range records {
		charge, ok := r.(protocol.Charged)
		if !ok {
			return fmt.Errorf("store: a client's ledger has no place for a %T", r)
		}
		e := &entry{Record: dp.Record{Session: charge.Session, Round: charge.Round, Events: charge.Events}, At: at}
		if len(e.Events) > 0 {
			e.Protection = l.protects
		}
		if err := l.advance(next, &e.Record); err != nil {
			return err
		}
		var nonce [nonceSize]byte
		if _, err := rand.Read(nonce[:]); err != nil {
			return fmt.Errorf("store: round %d: %w", e.Round, err)
		}
		e.Nonce = hex.EncodeToString(nonce[:])
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("store: round %d: %w", e.Round, err)
		}
		texts, chain = append(texts, text), after(chain, text)
	}
	if err := l.log.Append(texts...); err != nil {
		return err
	}
	l.count, l.chain = l.count+uint64(len(texts)), chain
	if len(texts) > 0 {
		l.latest = at
	}
	maps.Copy(l.sessions, next)
	return nil
}

// Last is the latest round of the session that was charged; 0 if none was. A restarted client takes part in later ones only.
func (l *Ledger) Last(session protocol.SessionID) uint64 {
	return locked.Get(&l.mu, func() uint64 { return l.sessions[session].last })
}

// Charged counts the rounds of the session that were charged.
func (l *Ledger) Charged(session protocol.SessionID) int {
	return locked.Get(&l.mu, func() int { return l.sessions[session].charges })
}

// counts counts the rounds that were charged, by session in hex. The caller holds mu.
func (l *Ledger) counts() map[string]int {
	count := make(map[string]int, len(l.sessions))
	for s, p := range l.sessions {
		count[hex.EncodeToString(s[:])] = p.charges
	}
	return count
}

// Charges counts the rounds of all sessions that were charged.
func (l *Ledger) Charges() (n int) {
	for _, charges := range locked.Get(&l.mu, l.counts) {
		n += charges
	}
	return n
}

// Sessions returns the sessions that were charged, in hex and in order.
func (l *Ledger) Sessions() []string { return slices.Sorted(maps.Keys(locked.Get(&l.mu, l.counts))) }

// Records returns every charge in order, for dp.RestoreLedger. It fails with ErrUnprotected if the
// client took part in a sum without noise, since there is no account of that sum. Otherwise that
// sum would count as free, and the next session could spend the budget again.
func (l *Ledger) Records() ([]dp.Record, error) {
	records, _, err := l.charges()
	return records, err
}

// charges are Records, and the counts at the same time.
func (l *Ledger) charges() (records []dp.Record, count map[string]int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var unprotected error
	err = l.each(func(r *entry, _ []byte) error {
		switch {
		case len(r.Events) > 0:
			records = append(records, r.Record)
		case unprotected == nil:
			unprotected = fmt.Errorf("%w: round %d of session %x", ErrUnprotected, r.Round, r.Session[:])
		}
		return nil
	})
	if err = cmp.Or(err, unprotected); err != nil {
		records = nil
	}
	return records, l.counts(), err
}

// Dated is a charge and the time at which it was recorded.
type Dated struct {
	dp.Record

	At time.Time
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Latest returns the date of the last charge; the zero time without one. It is after the present if the machine's clock
// was ahead at some charge.
func (l *Ledger) Latest() time.Time { return locked.Get(&l.mu, func() time.Time { return l.latest }) }

// Since returns the charges from a time on, as Records does. A charge whose time the ledger does not have is among them.
func (l *Ledger) Since(t time.Time) (list []Dated, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.each(func(r *entry, _ []byte) error {
		if len(r.Events) > 0 && (r.At.IsZero() || !r.At.Before(t)) {
			list = append(list, Dated{r.Record, r.At})
		}
		return nil
	})
	return list, err
}

// Close lets go of the file.
func (l *Ledger) Close() error { return locked.Get(&l.mu, l.log.Close) }

// Account lists the sessions that a client's owner has agreed to, and their cost so far.
type Account struct {
	Place    string           `json:"place"`
	Sessions []SessionAccount `json:"sessions"`
	// Spent is the cost of all sessions together, at the delta and by the accountant of the last
	// session. It is nil if there is no account of it; Unaccounted then gives the reason.
	Spent       *float64 `json:"epsilon_spent"`
	Delta       float64  `json:"delta,omitempty"`
	Left        *float64 `json:"epsilon_left"` // of what the owner allows; nil as Spent is, and where that is infinite
	Unaccounted string   `json:"unaccounted,omitempty"`
	// Logged is the size of the log of sessions that the client's last receipt is of; 0: it has none.
	Logged int64 `json:"log_entries,omitempty"`
}

// SessionAccount is a session that the client has agreed to.
type SessionAccount struct {
	Consent

	Charged int `json:"rounds_charged"` // rounds that it took part in
	// Spent is the cost so far of this session by itself; nil without an account of it.
	Spent *float64 `json:"epsilon_spent"`
}

// Account reckons up what a client's consents, of whose identity the ledger is, have cost so far; most is the epsilon that all of
// them together may cost, or NaN for the last consent's MaxEpsilon. It can be asked for while the client runs.
func (l *Ledger) Account(place string, consents []Consent, most float64) (*Account, error) {
	a := &Account{Place: place, Sessions: []SessionAccount{}}
	records, charged, err := l.charges()
	if errors.Is(err, ErrUnprotected) {
		a.Unaccounted, err = err.Error(), nil
	}
	if lacks := l.Overtaken(); lacks != nil {
		a.Unaccounted = lacks.Error()
	}
	if err != nil {
		return nil, err
	}
	for _, c := range consents {
		s := SessionAccount{Consent: c, Charged: charged[c.Session]}
		s.Spent = s.cost(records)
		a.Sessions = append(a.Sessions, s)
	}
	return a, a.add(records, most)
}

// cost returns the total of a session's charges; nil if some are not accounted for.
func (s *SessionAccount) cost(records []dp.Record) *float64 {
	var own []dp.Record
	for _, r := range records {
		if hex.EncodeToString(r.Session[:]) == s.Session {
			own = append(own, r)
		}
	}
	if len(own) < s.Charged {
		return nil
	}
	return cost(s.Privacy, own)
}

// add adds all sessions up.
func (a *Account) add(records []dp.Record, most float64) error {
	if a.Unaccounted != "" || len(a.Sessions) == 0 {
		return nil
	}
	last := &a.Sessions[len(a.Sessions)-1]
	if a.Spent = cost(last.Privacy, records); a.Spent == nil {
		return nil
	}
	a.Delta = last.Privacy.Delta
	if math.IsNaN(most) {
		var err error
		if most, err = strconv.ParseFloat(last.MaxEpsilon, 64); err != nil {
			return fmt.Errorf("store: the consent to session %s has max_epsilon %q, which is no number", last.Session, last.MaxEpsilon)
		}
	}
	if left := max(0, most-*a.Spent); !math.IsInf(left, 1) {
		a.Left = &left
	}
	return nil
}

// cost is the epsilon of charges at the delta and by the accountant of a statement; nil where that has none.
func cost(by dp.Statement, records []dp.Record) *float64 {
	if len(records) == 0 {
		return new(float64)
	}
	problem := dp.Problem{Delta: by.Delta, Accountant: by.Accountant}
	for _, r := range records {
		problem.Events = append(problem.Events, r.Events...)
	}
	r, err := problem.Epsilon()
	if err != nil || math.IsInf(r.Epsilon, 1) {
		return nil
	}
	return &r.Epsilon
}

// Terms returns the terms of the consent, in a line.
func (c *Consent) Terms() string {
	return fmt.Sprintf("%s, mode %s, %d clients: %v may collude and %v be lost", c.Privacy, c.Mode, c.Clients, c.Colluders, c.Tolerance)
}

// InAll returns the cost of all sessions and what is left, in a line.
func (a *Account) InAll() string {
	switch {
	case a.Unaccounted != "":
		return a.Unaccounted
	case len(a.Sessions) == 0:
		return "no session yet"
	}
	left := "any"
	if a.Left != nil { // rounded down
		left = strconv.FormatFloat(math.Floor(*a.Left*100)/100, 'f', -1, 64)
	}
	return fmt.Sprintf("epsilon %s at delta %v; left of --max-epsilon: %s", RoundedUp(a.Spent), a.Delta, left)
}

// RoundedUp is an epsilon for people; "unknown" without one.
func RoundedUp(e *float64) string {
	if e == nil {
		return "unknown"
	}
	return dp.RoundUp(*e, 3)
}
