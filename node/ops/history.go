package ops

import (
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Round is the course of a round, as the aggregator saw it.
type Round struct {
	Round uint64    `json:"round"`
	Began time.Time `json:"began"`
	// Seconds is the duration; 0 while the round is under way.
	Seconds float64 `json:"seconds"`
	Outcome string  `json:"outcome"` // "under way", "summed", or why there was no sum
	Lost    int     `json:"lost"`    // clients that did not answer a stage in time
	// Stages holds the stages that have ended, in order, and last the computation of the sum.
	Stages []StageTime `json:"stages,omitempty"`

	closed time.Time // when the latest of them ended; zero before
}

// StageTime is the duration of a stage, from the end of the previous stage.
type StageTime struct {
	Stage   string  `json:"stage"` // "sum" for the computation of the sum
	Seconds float64 `json:"seconds"`
}

// Complaints counts a client's complaints about shares that were dealt to it, and other clients' complaints about shares that it dealt.
type Complaints struct {
	Party   string `json:"party"`
	By      int    `json:"by"`      // of others, how often
	Against int    `json:"against"` // by others, how often
	Round   uint64 `json:"round"`
}

// Absence is a client that was missing, or is out.
type Absence struct {
	Party string `json:"party"`
	// Late counts the stages that it did not answer in time, the latest of which was Stage of Round.
	Late  int    `json:"late"`
	Stage string `json:"stage,omitempty"`
	Round uint64 `json:"round"`
	Out   string `json:"out,omitempty"` // why it takes no part any more; "": it may
}

// maxRounds and maxAbsences limit the rounds and the clients that are shown, the latest first.
const (
	maxRounds   = 50
	maxAbsences = 1000
)

// course describes a session as a whole.
type course struct {
	running   bool                    // there is a session, and it has not ended
	summed    time.Time               // the latest sum of the session, or its beginning
	silent    map[protocol.Party]bool // clients that were reported silent in the session
	declining map[protocol.Party]bool // clients that declined the session
}

// follow books an event. The caller holds the monitor's mu.
func (c *course) follow(e protocol.Event, now time.Time) {
	if c.silent == nil {
		return // there was no session
	}
	switch e.Kind {
	case protocol.RoundSummed:
		c.summed = now
	case protocol.SessionEnded:
		c.running = false
	case protocol.ClientSilent:
		c.silent[e.Party] = true
	case protocol.SessionDeclined:
		c.declining[e.Party] = true
	default: // about a round
	}
}

// remember adds an event to what is shown of a session. The caller holds mu.
func (s *Status) remember(e protocol.Event, now time.Time) {
	switch e.Kind {
	case protocol.RoundOpened:
		s.Rounds = append(s.Rounds, Round{Round: e.Round, Began: now, Outcome: "under way"})
		if n := len(s.Rounds); n > maxRounds {
			s.Rounds = slices.Clone(s.Rounds[n-maxRounds:])
		}
	case protocol.RoundHeld: // if it was opened before
		if r := s.round(e.Round); r != nil && e.Err != nil {
			r.ends(now, e.Err.Error())
		}
	case protocol.ClientLost:
		if r := s.round(e.Round); r != nil {
			r.Lost++
		}
		if a := s.absence(e.Party); a != nil {
			a.Late++
			a.Stage, a.Round = e.Stage.String(), e.Round
		}
	case protocol.ClientExcluded:
		if a := s.absence(e.Party); a != nil {
			a.Out, a.Round = "excluded", e.Round
			if e.Err != nil {
				a.Out = e.Err.Error()
			}
		}
	default: // not about a client's absence, or counted
	}
}

func (r *Round) ends(now time.Time, outcome string) {
	r.Seconds, r.Outcome = now.Sub(r.Began).Seconds(), outcome
}

// complain books a complaint. The caller holds mu.
func (s *Status) complain(e protocol.Event) {
	if c := s.complaints(e.By, e.Round); c != nil {
		c.By++
	}
	if c := s.complaints(e.Party, e.Round); c != nil {
		c.Against++
	}
}

func (s *Status) round(round uint64) *Round {
	for i := range slices.Backward(s.Rounds) { // a round that begins anew is there twice
		if s.Rounds[i].Round == round {
			return &s.Rounds[i]
		}
	}
	return nil
}

// entry returns the entry of a party in a list. It makes one if there is room, and otherwise returns nil.
func entry[T any](list *[]T, p protocol.Party, fresh func(name string) T, of func(*T) string) *T {
	name := p.String()
	for i := range *list {
		if of(&(*list)[i]) == name {
			return &(*list)[i]
		}
	}
	if len(*list) == maxAbsences {
		return nil
	}
	*list = append(*list, fresh(name))
	return &(*list)[len(*list)-1]
}

func (s *Status) absence(p protocol.Party) *Absence {
	return entry(&s.Absent, p, func(name string) Absence { return Absence{Party: name} }, func(a *Absence) string { return a.Party })
}

func (s *Status) complaints(p protocol.Party, round uint64) *Complaints {
	c := entry(&s.Complaints, p, func(name string) Complaints { return Complaints{Party: name} }, func(c *Complaints) string { return c.Party })
	if c != nil {
		c.Round = round
	}
	return c
}
