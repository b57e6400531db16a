package store

import (
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
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/strictjson"
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
	entries  []entry       // of the log, in order
	protects dp.Protection // of the charges to come
	// overtaken says that the ledger lacks charges, and records no more; nil: it is not known to.
	overtaken error
	newer     string // file of the head that proves it; "": in memory alone
}

// Dated is a charge and the time at which it was recorded.
type Dated struct {
	dp.Record

	At time.Time `json:"at,omitzero"` // by the machine's clock, and never before the charge before it; zero: it was not recorded
}

// entry is a charge as it is written.
type entry struct {
	Dated

	Nonce string `json:"nonce,omitempty"` // random, in hex

	chain protocol.Hash // of the entries to this one: see Head
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
	return ledgerOf(OpenLog, path, owner)
}

// ReadLedger reads the ledger of an identity as ReadLog does. Further records stay in memory.
func ReadLedger(path string, owner admission.PublicKey) (*Ledger, error) {
	return ledgerOf(ReadLog, path, owner)
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

// ledgerOf reads the ledger of an identity from the log of a file.
func ledgerOf(open func(string, Kind) (Log, error), path string, owner admission.PublicKey) (*Ledger, error) {
	log, err := open(path, ledgerKind(owner))
	if err != nil {
		return nil, err
	}
	l, err := NewLedger(log)
	if err == nil {
		l.newer = path + newerSuffix
		err = l.recall(owner)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), log.Close())
	}
	return l, nil
}

// newerSuffix ends the name of the file with the head for which a ledger is not used any more.
const newerSuffix = ".newer"

// NewLedger reads a ledger from a log.
func NewLedger(log Log) (*Ledger, error) {
	l := &Ledger{log: log}
	err := log.Entries(func(text []byte) error {
		e := new(entry)
		err := strictjson.Read(text, e) // a later version has put other names there for a reason
		if err == nil {
			l.entries, err = add(l.entries, e, text)
		}
		if err != nil {
			return Foreign(log, fmt.Errorf("entry %d of the ledger: %w", len(l.entries)+1, err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// add puts an entry behind others. It returns ErrOrder if the round is not later than the session's last. No date is before an earlier
// date: a clock put back hides no charge.
func add(list []entry, e *entry, text []byte) ([]entry, error) {
	if last := lastRound(list, e.Session); e.Round <= last {
		return list, fmt.Errorf("%w: round %d, after %d, in session %x", ErrOrder, e.Round, last, e.Session[:])
	}
	if err := check(&e.Record); err != nil {
		return list, err
	}
	if !e.At.IsZero() {
		e.At = later(lastDate(list), e.At)
	}
	e.chain = after(chainOf(list), text)
	return append(list, *e), nil
}

// lastRound returns the latest round of a session; 0: there is none.
func lastRound(list []entry, session protocol.SessionID) uint64 {
	for i := range slices.Backward(list) {
		if list[i].Session == session {
			return list[i].Round
		}
	}
	return 0
}

// lastDate returns the date of the last entry that has one.
func lastDate(list []entry) time.Time {
	for i := range slices.Backward(list) {
		if at := list[i].At; !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

func chainOf(list []entry) (chain protocol.Hash) {
	if n := len(list); n > 0 {
		chain = list[n-1].chain
	}
	return chain
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
	for i, event := range r.Events {
		if err := event.Validate(); err != nil {
			return fmt.Errorf("round %d of session %x, event %d: %w", r.Round, r.Session[:], i, err)
		}
	}
	return r.Protection.Validate()
}

// Protect sets what the charges to come protect. Each record contains it, and [dp.Ledger.Protect] refuses
// mixtures. Charges with events are refused before the first Protect.
func (l *Ledger) Protect(p dp.Protection) { locked.Do(&l.mu, func() { l.protects = p }) }

// Persist makes records durable, all or none, before it returns. It is for the Persist field of a client's effects, before anything
// of the same effects is sent. Records out of order are refused (ErrOrder) and nothing changes; after any other error nothing may
// be sent, and after a restart the records may be there.
func (l *Ledger) Persist(records ...protocol.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overtaken != nil {
		return l.overtaken
	}
	next, now := l.entries, time.Now().UTC().Truncate(time.Second)
	var texts [][]byte
	for _, r := range records {
		charge, ok := r.(protocol.Charged)
		if !ok {
			return fmt.Errorf("store: a client's ledger has no place for a %T", r)
		}
		e := &entry{Dated: Dated{dp.Record{Session: charge.Session, Round: charge.Round, Events: charge.Events}, later(lastDate(next), now)}}
		if len(e.Events) > 0 {
			e.Protection = l.protects
		}
		var nonce [nonceSize]byte
		_, _ = rand.Read(nonce[:]) // never fails
		e.Nonce = hex.EncodeToString(nonce[:])
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("store: round %d: %w", e.Round, err)
		}
		if next, err = add(next, e, text); err != nil {
			return err
		}
		texts = append(texts, text)
	}
	if err := l.log.Append(texts...); err != nil {
		return err
	}
	l.entries = next
	return nil
}

// Last is the latest round of the session that was charged; 0 if none was. A restarted client takes part in later ones only.
func (l *Ledger) Last(session protocol.SessionID) uint64 {
	return lastRound(l.charges(), session)
}

// Charged counts the rounds of the session that were charged.
func (l *Ledger) Charged(session protocol.SessionID) int {
	return counts(l.charges())[hex.EncodeToString(session[:])]
}

// charges are all entries so far, which are not changed.
func (l *Ledger) charges() []entry { return locked.Get(&l.mu, func() []entry { return l.entries }) }

// counts counts the rounds that were charged, by session in hex.
func counts(list []entry) map[string]int {
	count := make(map[string]int)
	for _, e := range list {
		count[hex.EncodeToString(e.Session[:])]++
	}
	return count
}

// Charges counts the rounds of all sessions that were charged.
func (l *Ledger) Charges() int { return len(l.charges()) }

// Sessions returns the sessions that were charged, in hex and in order.
func (l *Ledger) Sessions() []string { return slices.Sorted(maps.Keys(counts(l.charges()))) }

// Records returns every charge in order, for dp.RestoreLedger. It fails with ErrUnprotected if the
// client took part in a sum without noise, since there is no account of that sum. Otherwise that
// sum would count as free, and the next session could spend the budget again.
func (l *Ledger) Records() ([]dp.Record, error) { return recordsOf(l.charges()) }

func recordsOf(list []entry) (records []dp.Record, err error) {
	for _, e := range list {
		if len(e.Events) == 0 {
			return nil, fmt.Errorf("%w: round %d of session %x", ErrUnprotected, e.Round, e.Session[:])
		}
		records = append(records, e.Record)
	}
	return records, nil
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
func (l *Ledger) Latest() time.Time { return lastDate(l.charges()) }

// Since returns the charges with noise from a time on. A charge whose time the ledger does not have is among them.
func (l *Ledger) Since(t time.Time) []Dated {
	of := slices.DeleteFunc(slices.Clone(l.charges()), func(e entry) bool { return len(e.Events) == 0 || !e.At.IsZero() && e.At.Before(t) })
	return lists.Map(of, func(e entry) Dated { return e.Dated })
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
	list := l.charges()
	charged := counts(list)
	records, err := recordsOf(list)
	if err = cmp.Or(l.Overtaken(), err); err != nil {
		a.Unaccounted = err.Error()
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
	own := slices.DeleteFunc(slices.Clone(records), func(r dp.Record) bool { return hex.EncodeToString(r.Session[:]) != s.Session })
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
