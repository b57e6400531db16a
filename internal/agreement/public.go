// Package agreement holds what the parties of a deployment have in common. No place has all ratings there. The server publishes a
// [Public]: configuration, facts about the data, and the terms that follow. Each party opens the same experiment from it ([Open])
// and adds its own data. Each party derives again all that can be derived, and believes no other party.
package agreement

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/strictjson"
	"github.com/fedsim/fedsim/protocol"
)

// Public holds all that the parties of a deployment may know of an experiment, and must agree on. Nothing in it depends on a
// rating. A party that receives it derives again what can be derived ([Open]). Three things only the party itself can judge: the
// configuration, the facts, and whether both belong to the federation that it means to join. So a Public is to be signed.
type Public struct {
	// Session is drawn at random when a deployment starts first, and stays.
	Session protocol.SessionID
	// Config has no auto left that matters. Keys that each party sets for itself, and keys
	// of simulations alone, are at their defaults.
	Config config.Config
	Facts  Facts
	Terms  Derived
}

// Facts holds the public facts about the data, and the catalogue.
type Facts struct {
	Name      string  `json:"name"`
	Published bool    `json:"published"` // counts of the set of this name are published, see read.List
	Min       float64 `json:"min"`       // of the rating scale, in stars; at least 0, but of a regression
	Max       float64 `json:"max"`
	Users     int     `json:"users"` // over all parties

	// UserIDs are the ids of all users, where parties own items and share users (VFL):
	// a row must mean the same user to all parties. It is nil elsewhere.
	UserIDs []string `json:"user_ids,omitempty"`
	// ItemIDs is the catalogue: row j of V is about item j.
	ItemIDs []string `json:"item_ids"`
	// Genres lists the genres of each item, null for none, where items are dealt to parties by category.
	Genres [][]string `json:"genres,omitempty"`
	// Features are the public features of the items, where something is learned from them.
	Features []dataset.Category `json:"features,omitempty"`
	// Profile are the names of the public features of users, where something is learned from them.
	Profile []string `json:"profile,omitempty"`
	// Donors are the users who give their ratings openly, in the order in which sums add them.
	Donors []Gift `json:"donors,omitempty"`
	// Start states the releases that the session starts from; nil if it starts from nothing.
	Start *Start `json:"start,omitempty"`
}

// Derived states what follows from configuration and facts. A party that derives other terms,
// for example because its version differs, finds out before it trains.
type Derived struct {
	Cohort protocol.Cohort
	Steps  protocol.Schedule
	Budget dp.Budget // of each client's ledger; Epsilon +Inf without noise
	// Privacy is the statement that the run ends with if every attempt is charged in full.
	Privacy dp.Statement
}

// MaxPublic is the largest encoding that is read, in bytes: several times the encoding of the largest published set.
const MaxPublic = 64 << 20

// ErrFormat is wrapped by the error for what another version of this program has published.
var ErrFormat = errors.New("another version of this program has published it; end the session with the version that began it, or begin another one")

// publicFormat is the domain of the hash and the first entry of the encoding; it ends in the version.
const publicFormat = "fedsim/agreement/public/v1"

type publicJSON struct {
	Format  string            `json:"format"`
	Session string            `json:"session"` // in hex
	Config  map[string]string `json:"config"`  // as Config.Set reads it
	Facts   Facts             `json:"facts"`
	Terms   termsJSON         `json:"terms"`
}

type termsJSON struct {
	Cohort  protocol.Cohort   `json:"cohort"`
	Steps   protocol.Schedule `json:"steps"`
	Budget  budgetJSON        `json:"budget"`
	Privacy dp.Statement      `json:"privacy"`
}

type budgetJSON struct {
	Epsilon      *float64      `json:"epsilon"` // null without noise
	Delta        float64       `json:"delta"`
	Accountant   dp.Accountant `json:"accountant"`
	SamplerError float64       `json:"sampler_error"`
}

// Encode is the canonical encoding: JSON, without spaces, keys of the configuration in alphabetical order and the others as they
// stand in this file, and a line feed. There is one encoding of each Public, to be signed as it is.
func (p *Public) Encode() ([]byte, error) {
	b := p.Terms.Budget
	form := publicJSON{
		Format: publicFormat, Session: hex.EncodeToString(p.Session[:]), Config: make(map[string]string), Facts: p.Facts,
		Terms: termsJSON{p.Terms.Cohort, p.Terms.Steps, budgetJSON{nil, b.Delta, b.Accountant, b.SamplerError}, p.Terms.Privacy},
	}
	if !math.IsInf(b.Epsilon, 1) {
		form.Terms.Budget.Epsilon = &b.Epsilon
	}
	for _, k := range agreedKeys(p.Config) {
		form.Config[k.Name] = p.Config.Text(k)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(form); err != nil {
		return nil, fmt.Errorf("agreement: what is public cannot be encoded: %w", err)
	}
	return out.Bytes(), nil
}

// Hash returns a digest that stands for a Public elsewhere: the SHA-256 of the transcript of the
// domain "fedsim/agreement/public/v1" with the encoding as its one item.
func (p *Public) Hash() (protocol.Hash, error) {
	b, err := p.Encode()
	if err != nil {
		return protocol.Hash{}, err
	}
	return protocol.NewTranscript(publicFormat).Bytes(b).Sum(), nil
}

// Decode reads what Encode wrote, and nothing else: an encoding that is not canonical, of another version or longer than MaxPublic
// is an error. [Open], not Decode, judges the content.
func Decode(b []byte) (*Public, error) {
	p, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("agreement: what is public cannot be read: %w", err)
	}
	return p, nil
}

func decode(text []byte) (*Public, error) {
	if len(text) > MaxPublic {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", len(text), MaxPublic)
	}
	// Another version has other fields, so what it is comes first.
	var kind struct{ Format string }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&kind); err == nil && kind.Format != publicFormat {
		return nil, fmt.Errorf("%w: its format is %q; this version reads %q", ErrFormat, kind.Format, publicFormat)
	}
	var form publicJSON
	if err := strictjson.Read(text, &form); err != nil {
		return nil, err
	}
	t, b := form.Terms, form.Terms.Budget
	budget := dp.Budget{Epsilon: math.Inf(1), Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError}
	if b.Epsilon != nil {
		budget.Epsilon = *b.Epsilon
	}
	p := &Public{Facts: form.Facts, Terms: Derived{t.Cohort, t.Steps, budget, t.Privacy}}
	session, err := hex.DecodeString(form.Session)
	if err != nil || len(session) != len(p.Session) {
		return nil, fmt.Errorf("its session is %q; %d bytes in hex are needed", form.Session, len(p.Session))
	}
	copy(p.Session[:], session)
	if err = p.Config.Set(algorithm.Name.Name, form.Config[algorithm.Name.Name]); err != nil {
		return nil, err
	}
	for _, k := range agreedKeys(p.Config) {
		value, ok := form.Config[k.Name]
		if !ok {
			return nil, fmt.Errorf("its configuration lacks %s", k.Name)
		}
		if err = p.Config.Set(k.Name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	if problems := p.Config.Problems(); len(problems) > 0 {
		return nil, problems[0]
	}
	p.Config = about(p.Config, p.Facts)
	again, err := p.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, text) {
		return nil, errors.New("its encoding is not the canonical one")
	}
	return p, nil
}
