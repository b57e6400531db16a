package hub

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
)

// runningFile is the file in the aggregator's state with the session that has begun and not ended. A
// federation grows between sessions alone, also if the aggregator was started again within one.
const runningFile = "running.txt"

func (a *Aggregator) runningPath() string { return filepath.Join(a.cfg.State, runningFile) }

// errGrowing: the place is of an epoch that begins when the session has ended. The party asks again.
var errGrowing = errors.New("node: the place is there when the session has ended")

// Grow takes over the operator's newest epochs: more places, or some that are given up. Within a
// session they wait for its end, since the number of clients is a part of what a session promises.
func (a *Aggregator) Grow(f *admission.Federation) error {
	a.mu.Lock()
	running := a.running()
	if running {
		a.growing = f
	}
	a.mu.Unlock()
	if known := a.cfg.Registry.Federation(); running && len(f.Epochs) > len(known.Epochs) {
		a.cfg.Log.Info().Int("places", f.Places()).Msg("the federation grows when the session has ended")
		return nil
	}
	return a.adopt(f)
}

// adopt takes over epochs now.
func (a *Aggregator) adopt(f *admission.Federation) error {
	before := a.cfg.Registry.Federation()
	out, err := a.cfg.Registry.Grow(f)
	a.disconnect(out, "the place was given up")
	if errors.Is(err, admission.ErrOutdated) {
		return nil // a file that was not renewed
	}
	if err != nil || before.Latest() == f.Latest() {
		return err
	}
	a.cfg.Log.Info().Int("places", f.Places()).Int("given_up", len(f.Retired())).Msg("the federation has another epoch")
	if f.Places() > 2*a.founded {
		a.cfg.Log.Warn().Int("places", f.Places()).Int("at_start", a.founded).Msg("start the aggregator again between two sessions: it has room for the connections of the places that there were at its start")
	}
	a.relist()
	return nil
}

// applyGrowth takes over epochs that waited for the end of a session.
func (a *Aggregator) applyGrowth() {
	a.mu.Lock()
	f := a.growing
	a.growing = nil
	a.mu.Unlock()
	if f == nil {
		return
	}
	if err := a.adopt(f); err != nil {
		a.cfg.Log.Error().Err(err).Msg("the federation has not grown; SIGHUP tries again")
	}
}

// running says whether a session has begun and not ended. The caller holds mu.
func (a *Aggregator) running() bool {
	if a.session != nil && a.session.final == nil {
		return true
	}
	return a.unended != ""
}

// waitsToGrow says whether a place is of an epoch that waits for the end of a session.
func (a *Aggregator) waitsToGrow(p admission.Place) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.growing != nil && p.Role == protocol.Client && int64(p.Client) >= int64(a.cfg.Registry.Federation().Places()) && int64(p.Client) < int64(a.growing.Places())
}

// keepRunning keeps which session runs; "": none. The caller holds mu.
func (a *Aggregator) keepRunning(id string) error {
	if a.cfg.State == "" || id == a.unended { // a relay keeps nothing
		return nil
	}
	var err error
	if id != "" {
		err = atomicfile.Write(a.runningPath(), []byte(id+"\n"), 0o600)
	} else if err = os.Remove(a.runningPath()); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		a.unended = id // else the next call tries again
	}
	return err
}

// loadRunning reads which session ran before a restart.
func (a *Aggregator) loadRunning() error {
	text, err := os.ReadFile(a.runningPath())
	if a.cfg.State == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if a.unended = strings.TrimSpace(string(text)); a.session != nil && a.unended == sessionName(a.session.terms.Session) {
		return errors.Join(err, a.keepRunning("")) // it was ended, and the end is on disk
	}
	return err
}

func sessionName(id protocol.SessionID) string { return hex.EncodeToString(id[:]) }

// beyond says whether a client's place is not in a session, since it is of a later epoch.
func (s *hubSession) beyond(c *conn) bool {
	return s != nil && c.place.Role == protocol.Client && int64(c.place.Client) >= int64(s.terms.Cohort.All())
}

// isNewSession says whether a description is not of the session that runs.
func (a *Aggregator) isNewSession(p *session.Signed, server admission.PublicKey) bool {
	peek := *p
	peek.Ended = true // whatever epoch it is of
	d, err := peek.Verify(a.cfg.Registry.Federation(), server)
	return err != nil || sessionName(d.Terms.Session) != a.unended
}
