package agreement

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// Start states what a session starts from. The server alone has the releases: clients get them as part of the first
// model. The digest binds them to the session, since a client signs for the hash of the whole agreement.
type Start struct {
	Digest    string `json:"digest"` // SHA-256 of the file with the releases, in hex
	Algorithm string `json:"algorithm"`
	Feedback  string `json:"feedback"`
	Rank      int    `json:"rank"`
	// Min and Max are the rating scale of the releases.
	Min      float64       `json:"min"`
	Max      float64       `json:"max"`
	Sessions []PastSession `json:"sessions"` // the first one first

	from string // where the releases are, for messages
}

// PastSession states a session that the releases depend on. The ledger of each client has its cost to that client.
type PastSession struct {
	Session string   `json:"session"` // in hex
	Epsilon *float64 `json:"epsilon"` // null without noise
	Delta   float64  `json:"delta"`
	Unit    dp.Unit  `json:"unit"`
	// Chosen says which search of a simulation chose the settings, whose cost Epsilon covers.
	Chosen dp.SearchKind `json:"chosen,omitempty"`
}

// StartOf states releases; nil for none.
func StartOf(s *algorithm.Start) *Start {
	if s == nil {
		return nil
	}
	out := &Start{Digest: hex.EncodeToString(s.Digest[:]), Algorithm: s.Algorithm, Feedback: s.Feedback, Rank: s.Rank, Min: s.Min, Max: s.Max, from: s.From}
	for _, p := range s.Sessions {
		past := PastSession{Session: p.Session, Epsilon: p.Epsilon, Delta: p.Delta, Unit: p.Unit}
		if p.Search != nil {
			past.Chosen = p.Search.Kind()
		}
		out.Sessions = append(out.Sessions, past)
	}
	return out
}

// maxSessions bounds the sessions that releases depend on: more than a century of one a week.
const maxSessions = 10_000

// start checks the statement, and returns it without the releases; nil for none.
func (s *Start) start() (*algorithm.Start, error) {
	if s == nil {
		return nil, nil
	}
	out := &algorithm.Start{From: s.from, Algorithm: s.Algorithm, Feedback: s.Feedback, Rank: s.Rank, Min: s.Min, Max: s.Max}
	if out.From == "" {
		out.From = "the release that the server states"
	}
	digest, err := hex.DecodeString(s.Digest)
	if err != nil || len(digest) != len(out.Digest) {
		return nil, fmt.Errorf("the digest of the start is %.80q; %d bytes in hex are needed", s.Digest, len(out.Digest))
	}
	copy(out.Digest[:], digest)
	if n := len(s.Sessions); n < 1 || n > maxSessions {
		return nil, fmt.Errorf("the start depends on %d sessions; at least 1 and at most %d", n, maxSessions)
	}
	for _, p := range s.Sessions {
		if id, bad := hex.DecodeString(p.Session); bad != nil || len(id) != len(protocol.SessionID{}) {
			return nil, fmt.Errorf("the start depends on the session %.80q; %d bytes in hex are needed", p.Session, len(protocol.SessionID{}))
		}
		if e := p.Epsilon; e != nil && !(*e >= 0 && !math.IsInf(*e, 1)) {
			return nil, fmt.Errorf("the start depends on the session %s of epsilon=%v", p.Session, *e)
		}
		past := algorithm.PastSession{Session: p.Session, Epsilon: p.Epsilon, Delta: p.Delta, Unit: p.Unit}
		switch p.Chosen {
		case "", dp.PrivateSearch: // the record of a private search is the server's, and Epsilon covers it
		case dp.PlainSearch:
			past.Search = &dp.Search{}
		default:
			return nil, fmt.Errorf("the start depends on the session %s, whose settings a %.80q search chose", p.Session, p.Chosen)
		}
		out.Sessions = append(out.Sessions, past)
	}
	return out, nil
}

// ErrStart is wrapped by the error for releases that are not the stated ones.
var ErrStart = errors.New("these are not the releases that the session starts from")

// OpenFrom is Open for the server of a session that starts from earlier releases, which the server has. start is nil
// if the session starts from nothing.
func OpenFrom(p *Public, start *algorithm.Start) (*experiment.Experiment, error) {
	stated := p.Facts.Start
	switch {
	case stated == nil && start == nil:
		return Open(p)
	case stated == nil:
		return nil, fmt.Errorf("agreement: %w: %s is given, and the session starts from nothing", ErrStart, start.From)
	case start == nil:
		return nil, fmt.Errorf("agreement: %w: none is given, and the session starts from the release %s", ErrStart, stated.Digest)
	case hex.EncodeToString(start.Digest[:]) != stated.Digest:
		return nil, fmt.Errorf("agreement: %w: the digest of %s is %x, and the session's is %s", ErrStart, start.From, start.Digest, stated.Digest)
	}
	return open(p, start)
}
