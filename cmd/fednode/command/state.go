package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// The files of a party's state. The membership is written last, when the party is enrolled. While
// it is missing nothing has been spent, and other missing files may be made. Once it is there all
// other files must be, too.
const (
	identityFile   = "identity.json"
	registryFile   = "registry.db"
	ledgerFile     = "ledger.db"
	membershipFile = "membership.json"
	finishedFile   = "finished.json" // of a client; made with the first session that it finishes
)

// member is a party's place in its federation, as its state has it.
type member struct {
	identity   admission.PrivateKey
	membership *admission.Membership
	registry   *admission.Registry
	ledger     *store.Ledger   // of a client
	finished   *store.Finished // of a client
	files      []interface{ Close() error }
}

// partyOf returns the federation and the place of a party, by its state or, before the party has enrolled, by its
// invitation. It uses neither.
func partyOf(dir, invitation string) (*admission.Federation, admission.Place, error) {
	m, err := admission.ReadFile(filepath.Join(dir, membershipFile), admission.ParseMembership)
	if err == nil {
		return &m.Federation, m.Enrolment.Ticket.Place, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, admission.Place{}, err
	}
	if invitation == "" {
		return nil, admission.Place{}, cli.Misusef("--invitation: %s holds no membership yet, and the way to one is an invitation", dir)
	}
	i, err := admission.ReadInvitation(invitation)
	if err != nil {
		return nil, admission.Place{}, err
	}
	return &i.Federation, i.Ticket.Place, nil
}

// openMember opens a party's state. Where there is none yet the invitation, of the
// role, is redeemed with the aggregator, which takes until that can be reached.
func openMember(ctx context.Context, dir, invitation string, role protocol.Role, log *zerolog.Logger) (*member, error) {
	if err := store.MakeFolder(dir); err != nil {
		return nil, err
	}
	m := new(member)
	var err error
	m.membership, err = admission.ReadFile(filepath.Join(dir, membershipFile), admission.ParseMembership)
	if errors.Is(err, fs.ErrNotExist) {
		err = m.enrol(ctx, dir, invitation, role, log)
	} else if err == nil {
		err = m.same(dir, invitation, role)
	}
	if err != nil {
		return nil, err
	}
	if err = m.open(dir); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// enrol makes the state.
func (m *member) enrol(ctx context.Context, dir, invitation string, role protocol.Role, log *zerolog.Logger) error {
	if invitation == "" {
		return cli.Misusef("--invitation: %s holds no membership yet, and the way to one is an invitation", dir)
	}
	i, err := admission.ReadInvitation(invitation)
	if err != nil {
		return err
	}
	if i.Ticket.Place.Role != role {
		return cli.Misusef("--invitation: %s is for the %s, and this is a %s", invitation, i.Ticket.Place, role)
	}
	identity, err := makeIdentity(filepath.Join(dir, identityFile))
	if err != nil {
		return err
	}
	if err = store.CreateRegistry(filepath.Join(dir, registryFile), &i.Federation); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if role == protocol.Client {
		if err = store.CreateLedger(filepath.Join(dir, ledgerFile), identity.Public()); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if m.membership, err = node.Enrol(ctx, i, identity, *log); err != nil {
		return fmt.Errorf("%s: %w", invitation, err)
	}
	text, err := m.membership.Encode()
	if err != nil {
		return err
	}
	if err = admission.WriteFile(filepath.Join(dir, membershipFile), text); err != nil {
		return err
	}
	log.Info().Stringer("place", i.Ticket.Place).Str("invitation", invitation).
		Msg("enrolled; delete the invitation, here and with the operator: no honest party needs it any more")
	return nil
}

// makeIdentity reads the identity of an enrolment that was cut short, or draws one.
func makeIdentity(path string) (admission.PrivateKey, error) {
	key, err := admission.ReadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = admission.GenerateKey(entropy.System()); err != nil {
		return key, err
	}
	return key, admission.WriteKey(path, key)
}

// same refuses an invitation other than the state's own invitation. The file may be gone, as it
// should.
func (m *member) same(dir, invitation string, role protocol.Role) error {
	place := m.membership.Enrolment.Ticket.Place
	if place.Role != role {
		return cli.Misusef("--state: %s belongs to the %s, and this is a %s", dir, place, role)
	}
	if invitation == "" {
		return nil
	}
	i, err := admission.ReadInvitation(invitation)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if i.Ticket.Hash() != m.membership.Enrolment.Ticket.Hash() {
		return cli.Misusef("--state: %s belongs to the %s by another invitation than %s; give another --state for that invitation", dir, place, invitation)
	}
	return nil
}

func (m *member) open(dir string) error {
	var err error
	if m.identity, err = admission.ReadKey(filepath.Join(dir, identityFile)); errors.Is(err, fs.ErrNotExist) {
		return cli.Misusef("%w: this party's key is lost, and its membership %s is of no use without it. Have the operator revoke it and invite it again (docs/losses.md)", err, filepath.Join(dir, membershipFile))
	} else if err != nil {
		return err
	}
	if m.registry, err = openRegistry(filepath.Join(dir, registryFile), &m.membership.Federation); err != nil {
		return err
	}
	m.files = append(m.files, m.registry)
	if m.membership.Enrolment.Ticket.Place.Role != protocol.Client {
		return nil
	}
	m.registry.KeepKnown() // no other party asks a client for its list
	m.ledger, err = store.OpenLedger(filepath.Join(dir, ledgerFile), m.identity.Public())
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Misusef("%w: this client's ledger is lost, so what it spent is not known any more. Put no old copy back; have the operator revoke it and invite it again (docs/losses.md)", err)
	}
	if err != nil {
		return err
	}
	m.files = append(m.files, m.ledger)
	m.finished, err = store.OpenFinished(filepath.Join(dir, finishedFile))
	return err
}

// Close lets go of the files. All that is in them is durable.
func (m *member) Close() error {
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
