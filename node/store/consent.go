package store

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// Consent holds the terms of a session that a client's owner agreed to. The client checked them and found them within the owner's
// bounds. The record is for the owner to read. Of decisions only one depends on it: a session with another Agreement is declined.
type Consent struct {
	Session   string    `json:"session"` // in hex
	At        time.Time `json:"at"`      // when the client first joined it
	Algorithm string    `json:"algorithm"`
	// Agreement is the SHA-256, in hex, of the public text of the session, which all its terms follow from.
	Agreement string `json:"agreement,omitempty"`
	// Privacy is the cost of the session if it is charged in full.
	Privacy dp.Statement `json:"privacy"`
	Budget  float64      `json:"budget_epsilon,omitempty"` // of the session; 0 without noise
	Mode    string       `json:"mode"`                     // what sums defend against: semi-honest or active, and whether inputs are proved
	Clients int          `json:"clients"`
	// Colluders (γ) is the share of them that may pool what they see with the aggregator, and Tolerance (ω)
	// the share that a round may lose: on all others' noise ε counts.
	Colluders float64 `json:"colluders"`
	Tolerance float64 `json:"tolerance"`
	Rounds    int     `json:"rounds"`
	// Start is the SHA-256 of the releases that the session starts from, in hex; "" if it starts from nothing.
	Start string `json:"start,omitempty"`
	// EpsilonToLiar is the session's cost at the same δ towards an aggregator that lies about who
	// takes part, and so sees the client's own share of the noise alone. It is left out where lies
	// do not help: in active mode, and where parties noise their own training.
	EpsilonToLiar float64 `json:"epsilon_to_lying_aggregator,omitempty"`
	// MaxEpsilon is the owner's --max-epsilon in this session, a number or inf.
	MaxEpsilon string `json:"max_epsilon"`
	// Ceilings are the owner's --ceiling in this session.
	Ceilings []string `json:"ceilings,omitempty"`
}

// consents is the folder of them in a client's state: a file for each session.
const consents = "consents"

// SaveConsent keeps a consent in a client's state, unless there is one for its session: the first consent counts.
func SaveConsent(state string, c *Consent) error {
	var id protocol.SessionID
	if b, err := hex.DecodeString(c.Session); err != nil || len(b) != len(id) {
		return fmt.Errorf("store: a consent to the session %q; %d bytes in hex are needed", c.Session, len(id))
	}
	dir := filepath.Join(state, consents)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, c.Session+".json")
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err = atomicfile.Create(path, append(text, '\n'), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("store: keeping what was consented to: %w", err)
	}
	return nil
}

// Consents are all that a client's state has, the oldest first; none is no error.
func Consents(state string) ([]Consent, error) {
	dir := filepath.Join(state, consents)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Consent
	for _, f := range files {
		if f.IsDir() || !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, f.Name())
		var c Consent
		if err = atomicfile.ReadJSON(path, &c); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Consent) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Session, b.Session)) })
	return list, nil
}

// RegistryKind is the log of an admission.Registry, which belongs to a federation. It is created once: a second one would
// not know who redeemed which invitation.
func RegistryKind(f *admission.Federation) Kind { return Kind{"fedsim-registry-v1", f.Hash()} }
