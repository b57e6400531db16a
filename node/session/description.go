package session

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Terms are the parameters of a session that all roles use. The aggregator knows nothing
// else about the experiment. The server signs them in this form of JSON: times are in nanoseconds.
type Terms struct {
	Session protocol.SessionID `json:"session"`
	Cohort  protocol.Cohort    `json:"cohort"`
	Mode    graph.Mode         `json:"mode"`    // as a number: 0 is semi-honest, 1 active
	SitOut  float64            `json:"sit_out"` // see aggregator.Config
	// StageTimeout is the time that a stage waits for clients that do not answer.
	StageTimeout time.Duration `json:"stage_timeout"`
	// Tail is the time that a stage continues once enough clients have answered.
	Tail time.Duration `json:"tail"`
	// Gather, times the number of rounds, is the time that rounds wait for as many clients as they require.
	Gather time.Duration `json:"gather"`
	// Steps holds the requests of the rounds, and the sizes of their models.
	Steps protocol.Schedule `json:"steps"`
	// Claims are for the log of sessions: what the statement says beside the charges.
	Claims protocol.Claims `json:"claims"`
}

// Validate reports everything that makes the terms unusable.
func (t *Terms) Validate() error {
	errs := []error{t.Steps.Validate()}
	if len(t.Steps) > maxSteps {
		errs = append(errs, fmt.Errorf("a schedule of %d steps; there may be %d", len(t.Steps), maxSteps))
	}
	for _, plan := range t.Plans() {
		if err := plan.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("phase %q: %w", plan.Phase, err))
		}
	}
	if t.Mode != graph.SemiHonest && t.Mode != graph.Active {
		errs = append(errs, fmt.Errorf("mode %d is not known", t.Mode))
	}
	if !(t.SitOut >= 0 && t.SitOut <= t.Cohort.Tolerance) {
		errs = append(errs, fmt.Errorf("sit-out is %v; it must be from 0 to the tolerance, %v", t.SitOut, t.Cohort.Tolerance))
	}
	if t.StageTimeout < time.Second || t.StageTimeout > 24*time.Hour {
		errs = append(errs, fmt.Errorf("the timeout of a stage is %v; it must be from a second to a day", t.StageTimeout))
	}
	if t.Tail <= 0 || t.Tail > 24*time.Hour {
		errs = append(errs, fmt.Errorf("the tail of a stage is %v; it must be above zero and at most a day", t.Tail))
	}
	if t.Gather < 0 || t.Gather > 7*24*time.Hour {
		errs = append(errs, fmt.Errorf("rounds wait %v for clients; it must be from 0 to a week", t.Gather))
	}
	return errors.Join(errs...)
}

// Patience is the time that all rounds together wait for clients. If the rounds were given up one
// by one after Gather, the session would end as late, with nothing. It is at most mostPatience, which no sum of it with a time overflows.
func (t *Terms) Patience() time.Duration {
	if n := time.Duration(t.Steps.Rounds()); n == 0 || t.Gather <= mostPatience/n {
		return t.Gather * n
	}
	return mostPatience
}

// mostPatience is a century.
const mostPatience = 100 * 365 * 24 * time.Hour

func (t *Terms) Equal(o *Terms) bool { return reflect.DeepEqual(t, o) }

// maxSteps is more than any algorithm has.
const maxSteps = 256

// Plans are one of each step.
func (t *Terms) Plans() []*protocol.Plan {
	list := make([]*protocol.Plan, len(t.Steps))
	for i, s := range t.Steps {
		list[i] = &protocol.Plan{Session: t.Session, Round: 1, Phase: s.Phase, Cohort: t.Cohort, Releases: s.Releases}
	}
	return list
}

// Limits returns the limits on messages from one role to another in the session. Nothing else is
// read: another party's messages can be much larger.
func (t *Terms) Limits(from, to protocol.Role) wire.Limits {
	all := wire.LimitsFor(wire.Session{Plans: t.Plans(), Neighbours: t.Cohort.Wanted() - 1, Model: t.Steps.Model()})
	return all.Between(from, to)
}

// Sums returns the parameters of secure sums among the parties on a list. Sums are bound to the list in semi-honest mode too,
// although parties sign nothing there: clients that were shown different lists have no masks in common.
func (t *Terms) Sums(l *admission.List) secagg.Params {
	p := secagg.Params{Mode: t.Mode, Rounds: t.Steps.Rounds(), List: protocol.Hash(l.Hash())}
	if t.Mode == graph.Active {
		keys := l.Identities()
		p.Identities = keys[:min(len(keys), t.Cohort.All())] // a session that has ended may be of an earlier epoch
	}
	return p
}

// Descriptor is the description of a session that the server signs, in this form of JSON.
// testdata/descriptor.json holds an example by another program.
type Descriptor struct {
	Federation admission.Hash `json:"federation"`
	List       admission.Hash `json:"list"` // who could be in it, when it began
	Terms      Terms          `json:"terms"`
	// Experiment is the public part of the experiment, in a form that only the callers know: the aggregator need not understand it,
	// and every client derives the terms from it again.
	Experiment []byte `json:"experiment"`
}

// digest returns the hash that the server's signature is over.
func (d *Signed) digest() []byte {
	h := protocol.DescriptionHash(sha256.Sum256(d.Descriptor))
	return h[:]
}

// Leaf returns the entry of the log of sessions for the beginning of a session, by its description that was verified.
func (d *Descriptor) Leaf(s *Signed, server admission.PublicKey) (*protocol.Leaf, error) {
	agreement, plan := sha256.Sum256(d.Experiment), sha256.Sum256(s.Descriptor)
	l := &protocol.Leaf{Format: protocol.LeafFormat, Session: hex.EncodeToString(d.Terms.Session[:]), Agreement: agreement[:], Plan: plan[:], Claims: d.Terms.Claims,
		Clients: d.Terms.Cohort.All(), Rounds: d.Terms.Steps.Rounds(), Charges: []dp.Event{}, Server: server[:], Signature: s.Signature}
	var err error
	if l.Claims.Delta > 0 { // else there is no ε, and no plan has a price
		l.Charges, err = d.Terms.Steps.Charges(d.Terms.Cohort, 0, l.Rounds)
	}
	return l, err
}

// Sign makes the description of a session.
func Sign(d *Descriptor, server admission.PrivateKey) (*Signed, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	s := &Signed{Descriptor: text}
	s.Signature = ed25519.Sign(server.Ed25519(), s.digest())
	return s, nil
}

// SignedBy says whether the description is one of a server's.
func (d *Signed) SignedBy(server admission.PublicKey) bool {
	return ed25519.Verify(server.Ed25519(), d.digest(), d.Signature)
}

// Verify checks that the description is the server's, of this federation in its latest epoch, and
// makes sense. A session that has ended may be of an earlier epoch.
func (d *Signed) Verify(f *admission.Federation, server admission.PublicKey) (*Descriptor, error) {
	if !d.SignedBy(server) {
		return nil, fmt.Errorf("%w: it is not signed by the server %s", ErrSession, server)
	}
	dec := json.NewDecoder(bytes.NewReader(d.Descriptor))
	dec.DisallowUnknownFields()
	out := new(Descriptor)
	if err := dec.Decode(out); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSession, err)
	}
	switch {
	case out.Federation != f.Hash():
		return nil, fmt.Errorf("%w: it is of another federation", ErrSession)
	case d.Ended && !f.Had(out.Terms.Cohort.All()), !d.Ended && out.Terms.Cohort.All() != f.Places():
		return nil, fmt.Errorf("%w: it names %d clients, the operator signed for %d", ErrSession, out.Terms.Cohort.All(), f.Places())
	}
	if err := out.Terms.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSession, err)
	}
	return out, nil
}
