package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/fedsim/fedsim/dp"
)

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
}

// SessionAccount is a session that the client has agreed to.
type SessionAccount struct {
	Consent

	Charged int `json:"rounds_charged"` // rounds that it took part in
	// Spent is the cost so far of this session by itself; nil without an account of it.
	Spent *float64 `json:"epsilon_spent"`
}

// Account reckons up what a client's consents, of whose identity the ledger is, have cost
// so far; most is the epsilon that all of them together may cost, or NaN for the last consent's
// MaxEpsilon. It can be asked for while the client runs.
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

// charges are Records, and counts, by session in hex, the rounds that were charged.
func (l *Ledger) charges() (records []dp.Record, count map[string]int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count = make(map[string]int, len(l.sessions))
	for s, p := range l.sessions {
		count[hex.EncodeToString(s[:])] = p.charges
	}
	records, err = l.records()
	return records, count, err
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

// cost is the epsilon of charges at the delta and by the accountant of a statement; nil
// where that has none.
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
