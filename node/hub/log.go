package hub

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
)

// mostSizes limits the sizes of the log that one receipt proves growth from.
const mostSizes = 64

// survivors states how many clients were in each round's sum, as runs of rounds.
func (s *hubSession) survivors() (runs [][2]int) {
	for round := range uint64(s.terms.Steps.Rounds()) {
		n := s.sums[round+1]
		if s.first == 0 || round+1 < s.first {
			n = -1 // another process knew
		}
		if k := len(runs) - 1; k >= 0 && runs[k][1] == n {
			runs[k][0]++
		} else {
			runs = append(runs, [2]int{1, n})
		}
	}
	return runs
}

// logEnd puts the end of a session into the log of sessions, unless it is there, and its receipt into the final message. It returns
// the message in frames.
func (a *Aggregator) logEnd(s *hubSession, f *protocol.Final) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s != a.session {
		return nil, nil // another one has begun
	}
	if a.log != nil && s.final == nil {
		err := protocol.VerifyFinal(s.server.Ed25519(), s.terms.Session, f)
		if err == nil {
			err = a.log.Add(s.leaf.Ended(f, s.survivors()))
		}
		if err != nil {
			return nil, err
		}
	}
	for _, c := range a.conns {
		s.sizes = append(s.sizes, c.seen...)
	}
	return a.prove(s, f)
}

// prove puts the receipt of a session that the log ends with into its final message, and returns that in frames. The caller holds mu.
func (a *Aggregator) prove(s *hubSession, f *protocol.Final) ([]byte, error) {
	if a.log == nil {
		return wire.AppendFrames(nil, f)
	}
	if _, last := a.log.Last(); last == nil || last.Session != sessionName(s.terms.Session) {
		return nil, fmt.Errorf("%w: it does not end with the session %x", store.ErrLog, s.terms.Session)
	}
	slices.Sort(s.sizes)
	s.sizes = slices.Compact(s.sizes)
	s.sizes = s.sizes[max(0, len(s.sizes)-mostSizes):]
	r, err := a.log.Receipt(s.sizes...)
	if err == nil {
		f.Receipt, err = json.Marshal(r)
	}
	if err != nil {
		return nil, err
	}
	return wire.AppendFrames(nil, f)
}

// proveTo has the end of a session prove that the log has grown from what a client has seen that came late. The caller holds mu.
func (a *Aggregator) proveTo(c *conn, s *hubSession) {
	if a.log == nil || !slices.ContainsFunc(c.seen, func(n int64) bool { return n > 0 && !slices.Contains(s.sizes, n) }) {
		return
	}
	e, err := openEnd(a.endPath(), a.cfg.Registry.Federation(), a.cfg.Registry.List())
	if err == nil {
		s.sizes = append(s.sizes, c.seen...)
		s.final, err = a.prove(s, e.final)
	}
	if err != nil {
		a.cfg.Log.Error().Err(err).Stringer("place", c.place).Msg("the log of sessions is not proved to a client that came late")
	}
}
