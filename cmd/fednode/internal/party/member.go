// Package party is a party's state on disk: the party's place in its federation ([Open]), the session that it is in
// ([ReadPublic], [Propose]), and what earlier sessions left ([KeepResult], [ReadStart]). Every command of fednode that
// changes, shows or checks a state goes by it.
package party

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/align"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// The files of a party's state. The membership is written last, when the party is enrolled. While it is missing nothing has been spent, and
// other missing files may be made. Once it is there all other files must be, too.
const (
	IdentityFile   = "identity.json"
	RegistryFile   = "registry.db"
	LedgerFile     = "ledger.db"
	MembershipFile = "membership.json"
	ReceiptsFile   = "receipts.jsonl" // of a client or the server; made with the first session that it finishes
)

// Member is a party's place in its federation, as its state has it.
type Member struct {
	node.Member
	Ledger *store.Ledger // of a client
	files  []io.Closer
}

// Of returns the federation and the place of a party, by its state or, before the party has enrolled, by its invitation. It uses neither.
func Of(dir, invitation string) (*admission.Federation, admission.Place, error) {
	m, err := admission.ReadFile(filepath.Join(dir, MembershipFile), admission.ParseMembership)
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

// Open opens a party's state. Where there is none yet the invitation, of the role, is redeemed with the aggregator, which takes until that
// can be reached. moved, if set, is where the aggregator is by now: it is kept in the state, in place of the address in the invitation.
func Open(ctx context.Context, dir, invitation string, role protocol.Role, moved *admission.Contact, log *zerolog.Logger) (*Member, error) {
	if err := store.MakeFolder(dir); err != nil {
		return nil, err
	}
	if err := completeHandOver(dir); err != nil {
		return nil, err
	}
	m := &Member{Member: node.Member{State: dir, Log: *log}}
	var err error
	m.Membership, err = admission.ReadFile(filepath.Join(dir, MembershipFile), admission.ParseMembership)
	if errors.Is(err, fs.ErrNotExist) {
		err = m.enrol(ctx, dir, invitation, role, moved, log)
	} else if err == nil {
		var later *admission.Invitation
		switch later, err = m.same(dir, invitation, role); {
		case err != nil:
		case later != nil:
			err = m.handOver(ctx, dir, later, moved, log)
		case moved != nil:
			follow(&m.Membership.Contact, moved)
			err = admission.WriteFile(filepath.Join(dir, MembershipFile), m.Membership)
		}
	}
	if err != nil {
		return nil, err
	}
	if err = m.open(dir, log); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// follow changes where the aggregator is dialled. The keys that the invitation names stay.
func follow(c, moved *admission.Contact) { c.Addresses, c.Peer = moved.Addresses, moved.Peer }

// nextSuffix ends the name of a file that a hand-over is about to put in place of another.
const nextSuffix = ".next"

// handOver gives the state a new key, by an invitation that the operator has signed in place of the state's own. The ledger with all
// charges, the finished sessions and models stay. The old key may be lost or stolen; the operator has revoked it.
func (m *Member) handOver(ctx context.Context, dir string, i *admission.Invitation, moved *admission.Contact, log *zerolog.Logger) error {
	next := func(name string) string { return filepath.Join(dir, name+nextSuffix) }
	identity, err := MakeIdentity(next(IdentityFile))
	if err != nil {
		return err
	}
	if i.Ticket.Place.Role == protocol.Client {
		old, failed := store.HandOver(filepath.Join(dir, LedgerFile), m.Membership.Enrolment.Identity, next(LedgerFile), identity.Public())
		if failed != nil {
			return failed
		}
		defer old.Close() //nolint:errcheck // it is only read
	}
	if moved != nil {
		follow(&i.Contact, moved)
	}
	if m.Membership, err = node.Enrol(ctx, i, identity, *log); err != nil {
		return fmt.Errorf("the hand-over to a new key: %w", err)
	}
	if err = admission.WriteFile(next(MembershipFile), m.Membership); err == nil {
		err = completeHandOver(dir)
	}
	if err == nil {
		log.Info().Stringer("place", i.Ticket.Place).Msg("the place has a new key, and the state stays; delete the invitation")
	}
	return err
}

// completeHandOver puts the files of a hand-over in place. The membership is written last and moved last, so a hand-over that is cut
// short between is completed by the next start.
func completeHandOver(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, MembershipFile+nextSuffix)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range []string{LedgerFile, IdentityFile, MembershipFile} {
		path := filepath.Join(dir, name)
		if err := atomicfile.Rename(path+nextSuffix, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (m *Member) enrol(ctx context.Context, dir, invitation string, role protocol.Role, moved *admission.Contact, log *zerolog.Logger) error {
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
	identity, err := MakeIdentity(filepath.Join(dir, IdentityFile))
	if err != nil {
		return err
	}
	err = store.CreateLog(filepath.Join(dir, RegistryFile), store.RegistryKind(&i.Federation))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if role == protocol.Client {
		if err = store.CreateLedger(filepath.Join(dir, LedgerFile), identity.Public()); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if moved != nil {
		follow(&i.Contact, moved)
	}
	if m.Membership, err = node.Enrol(ctx, i, identity, *log); err != nil {
		return fmt.Errorf("%s: %w", invitation, err)
	}
	if err = admission.WriteFile(filepath.Join(dir, MembershipFile), m.Membership); err != nil {
		return err
	}
	log.Info().Stringer("place", i.Ticket.Place).Str("invitation", invitation).
		Msg("enrolled; delete the invitation, here and with the operator: no honest party needs it any more")
	return nil
}

// MakeIdentity reads the identity of an enrolment that was cut short, or draws one.
func MakeIdentity(path string) (admission.PrivateKey, error) {
	key, err := admission.ReadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = admission.GenerateKey(entropy.System()); err != nil {
		return key, err
	}
	return key, admission.WriteKey(path, key)
}

// same refuses an invitation other than the state's own invitation. It returns a later one of the same place, which hands the place over to a
// new key; nil: none. The file may be gone, as it should.
func (m *Member) same(dir, invitation string, role protocol.Role) (later *admission.Invitation, err error) {
	own := &m.Membership.Enrolment.Ticket
	if own.Place.Role != role {
		return nil, cli.Misusef("--state: %s belongs to the %s, and this is a %s", dir, own.Place, role)
	}
	if invitation == "" {
		return nil, nil
	}
	i, err := admission.ReadInvitation(invitation)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case i.Ticket.Hash() == own.Hash():
		return nil, nil
	case i.Ticket.Federation == own.Federation && i.Ticket.Place == own.Place && i.Ticket.Serial > own.Serial:
		return i, nil
	}
	return nil, cli.Misusef("--state: %s belongs to the %s by another invitation than %s; give another --state for that invitation", dir, own.Place, invitation)
}

func (m *Member) open(dir string, log *zerolog.Logger) error {
	var err error
	if m.Identity, err = admission.ReadKey(filepath.Join(dir, IdentityFile)); errors.Is(err, fs.ErrNotExist) {
		return cli.Misusef("%w: this party's key is lost, and its membership %s is of no use without it. Have the operator revoke it and invite it again, and start it with that --invitation and this --state: its ledger continues (node/losses.md)", err, filepath.Join(dir, MembershipFile))
	} else if err != nil {
		return err
	}
	registry := filepath.Join(dir, RegistryFile)
	if m.Registry, err = OpenRegistry(registry, &m.Membership.Federation); errors.Is(err, fs.ErrNotExist) {
		log.Warn().Str("file", registry).Msg("this party's registry is lost, and made again: it does not know any more whom the operator has revoked. Give it --revocations")
		if err = store.CreateLog(registry, store.RegistryKind(&m.Membership.Federation)); err == nil {
			m.Registry, err = OpenRegistry(registry, &m.Membership.Federation)
		}
	}
	if err != nil {
		return err
	}
	m.files = append(m.files, m.Registry)
	if m.Receipts, err = store.OpenReceipts(filepath.Join(dir, ReceiptsFile)); err != nil {
		return err
	}
	if m.Membership.Enrolment.Ticket.Place.Role != protocol.Client {
		return nil
	}
	m.Ledger, err = store.OpenLedger(filepath.Join(dir, LedgerFile), m.Identity.Public())
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Misusef("%w: this client's ledger is lost, so what it spent is not known any more. Put no old copy back; have the operator revoke it and invite it again (node/losses.md)", err)
	}
	if err != nil {
		return err
	}
	m.files = append(m.files, m.Ledger)
	return nil
}

// Close lets go of the files. All that is in them is durable.
func (m *Member) Close() error {
	return errors.Join(lists.Map(m.files, io.Closer.Close)...)
}

// OpenRegistry opens a registry that opens its file again if that could not be written.
func OpenRegistry(path string, f *admission.Federation) (*admission.Registry, error) {
	open := func() (admission.Log, error) { return store.OpenLog(path, store.RegistryKind(f)) }
	file, err := open()
	if err != nil {
		return nil, err
	}
	r, err := registryIn(path, f, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r.Reopens(open)
	return r, nil
}

// ReadRegistry reads a registry that no process may have open, and changes nothing.
func ReadRegistry(path string, f *admission.Federation) (*admission.Registry, error) {
	log, err := store.ReadLog(path, store.RegistryKind(f))
	if err != nil {
		return nil, err
	}
	return registryIn(path, f, log)
}

// registryIn reads a registry from the log of a file. If the log's hashes hold, another version has written an entry that
// this version cannot read.
func registryIn(path string, f *admission.Federation, log admission.Log) (*admission.Registry, error) {
	r, err := admission.OpenRegistry(f, log)
	if errors.Is(err, admission.ErrMalformed) {
		err = store.Foreign(log, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Latest returns a federation in the latest epoch that a party's state knows.
func Latest(dir string, f *admission.Federation) (*admission.Federation, error) {
	r, err := OpenRegistry(filepath.Join(dir, RegistryFile), f)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil // it has not enrolled
	}
	if err != nil {
		return nil, err
	}
	return r.Federation(), r.Close()
}

// The files of an alignment in a state.
const (
	AlignmentFile = "alignment.json"
	UsersFile     = "users.txt" // the server's: what it calls the rows
)

// Alignment is the kept result of an alignment: rows for a party, lists for the server.
type Alignment struct {
	Format  string `json:"format"`
	Attempt string `json:"attempt"` // in hex
	Users   int    `json:"users"`
	// Ended says that all others keep theirs, too.
	Ended bool           `json:"ended"`
	Rows  map[string]int `json:"rows,omitempty"`
	// Lists counts the ids of each client, Shared the rows that are in so many lists.
	Lists     []int  `json:"lists,omitempty"`
	Shared    []int  `json:"shared,omitempty"`
	Signature []byte `json:"signature,omitempty"`
}

const AlignmentFormat = "fedsim-alignment-v1"

// ReadAlignment reads what a state has; nil if there is none.
func ReadAlignment(dir string) (*Alignment, align.Attempt, error) {
	path := filepath.Join(dir, AlignmentFile)
	a := new(Alignment)
	var attempt align.Attempt
	if found, err := atomicfile.FindJSON(path, a); err != nil || !found {
		return nil, attempt, err
	}
	b, err := hex.DecodeString(a.Attempt)
	if err != nil || len(b) != len(attempt) || a.Format != AlignmentFormat || a.Users < 1 {
		return nil, attempt, fmt.Errorf("%s is not an alignment that this version has left; align again with --again", path)
	}
	return a, align.Attempt(b), nil
}

// Of says whether a party's alignment belongs to a list of ids.
func (a *Alignment) Of(ids []string) bool {
	return len(ids) == len(a.Rows) && !slices.ContainsFunc(ids, func(id string) bool { _, ok := a.Rows[id]; return !ok })
}

// Write keeps the alignment in a state.
func (a *Alignment) Write(dir string) error {
	return store.WriteJSON(filepath.Join(dir, AlignmentFile), a)
}

// WriteUsers leaves what the rows are called, for fednode server --users.
func WriteUsers(dir string, u *align.Union) error {
	var b strings.Builder
	for row := range u.Users {
		b.WriteString(u.Attempt.User(row))
		b.WriteByte('\n')
	}
	return store.WriteFile(filepath.Join(dir, UsersFile), []byte(b.String()))
}

// AlignedNames returns the names of a party's users in an experiment, by the alignment in its
// state; nil if the experiment calls them by their ids.
func AlignedNames(dir string, e *experiment.Experiment) (map[string]string, error) {
	if e.About().Clients != algorithm.ItemParties || len(e.Data.UserIDs) == 0 || !align.IsUser(e.Data.UserIDs[0]) {
		return nil, nil
	}
	a, attempt, err := ReadAlignment(dir)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, fmt.Errorf("the session is of users that organisations have aligned, and %s holds no alignment: take part in one with fednode align", dir)
	case e.Data.UserIDs[0] != attempt.User(0) || len(e.Data.UserIDs) != a.Users:
		return nil, fmt.Errorf("the session is of another alignment (%d users, the first %s) than %s holds (%d, %s): the parties have to align again, or the server has to begin with the newest",
			len(e.Data.UserIDs), e.Data.UserIDs[0], dir, a.Users, attempt.User(0))
	}
	names := make(map[string]string, len(a.Rows))
	for id, row := range a.Rows {
		names[id] = attempt.User(row)
	}
	return names, nil
}
