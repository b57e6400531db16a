package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// excludedFile is the file in the aggregator's state with the clients that lied in its
// session, so that a start anew does not let them in again.
const excludedFile = "excluded.json"

type exclusions struct {
	Session protocol.SessionID `json:"session"`
	List    []exclusion        `json:"excluded"`

	mu     sync.Mutex
	unkept error // why the file lacks some of them; nil: it does not
}

// exclusion is a client that lied. Its key is excluded: another client that takes the place later
// has not lied.
type exclusion struct {
	Client protocol.ClientID   `json:"client"`
	Key    admission.PublicKey `json:"key"`
	Why    string              `json:"why"`
}

func (a *Aggregator) excludedPath() string { return filepath.Join(a.cfg.State, excludedFile) }

// loadExcluded returns the clients of a list that lied in a session before.
func (a *Aggregator) loadExcluded(session protocol.SessionID, list *admission.List) *exclusions {
	out := &exclusions{Session: session}
	text, err := os.ReadFile(a.excludedPath())
	var kept exclusions
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.cfg.Log.Error().Err(fmt.Errorf("%s: %w", a.excludedPath(), err)).Msg("whom the session has excluded is not known any more")
	}
	if kept.Session != session {
		return out
	}
	for _, x := range kept.List {
		if key, ok := list.Holder(admission.ClientPlace(x.Client)); ok && key == x.Key {
			out.List = append(out.List, x)
		}
	}
	return out
}

func (x *exclusions) clients() []protocol.ClientID {
	var out []protocol.ClientID
	for _, e := range x.List {
		out = append(out, e.Client)
	}
	return out
}

// keepExcluded keeps whom the role has excluded, of a list's clients. That it cannot be
// kept is no reason to stop, since it matters after a restart alone: see Check.
func (a *Aggregator) keepExcluded(x *exclusions, list *admission.List, events []protocol.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := len(x.List)
	for _, e := range events {
		if key, ok := list.Holder(admission.Place(e.Party)); ok && e.Kind == protocol.ClientExcluded {
			x.List = append(x.List, exclusion{Client: e.Party.Client, Key: key, Why: e.Err.Error()})
		}
	}
	if len(x.List) == before {
		return
	}
	if x.unkept = a.writeExcluded(x); x.unkept != nil {
		a.cfg.Log.Error().Err(x.unkept).Msg("whom the session has excluded cannot be kept: after a restart it is in again")
	}
}

// Check returns an error if the aggregator cannot keep something that it must know after a restart:
// its registry, or the clients that its session has excluded. It first tries again to keep that. It
// also returns an error if the session cannot continue, because too many clients decline it. nil:
// all is well.
func (a *Aggregator) Check() error {
	a.mu.Lock()
	s := a.session
	declined := a.stands(s)
	a.mu.Unlock()
	err := errors.Join(a.cfg.Registry.Check(), a.heads.Check(), declined)
	if s == nil {
		return err
	}
	x := s.excluded
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unkept != nil {
		if x.unkept = a.writeExcluded(x); x.unkept != nil {
			err = errors.Join(err, fmt.Errorf("whom the session has excluded cannot be kept: %w", x.unkept))
		}
	}
	return err
}

func (a *Aggregator) writeExcluded(x *exclusions) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return atomicfile.Write(a.excludedPath(), text, 0o600)
}
