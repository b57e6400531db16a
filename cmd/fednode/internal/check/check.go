// Package check checks a party's state without changing it ([State]), and says what mends each fault.
package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// The marks of a finding.
const (
	Fine  = "ok"
	Note  = "note"  // it harms nothing
	Wrong = "wrong" // there is something to do
	Busy  = "busy"  // a process holds the file, so that its contents were not read
)

// finding says how a file of a state stands, or the folder.
type finding struct {
	Is   string `json:"is"`
	File string `json:"file"` // in the state; "." is the folder itself
	Says string `json:"says"`
	Do   string `json:"do,omitempty"` // what mends it
}

// Error has a finding be the error of a check that knows the mark, and what mends the fault.
func (f finding) Error() string { return f.Says }

// Report is the result of a check.
type Report struct {
	State    string    `json:"state"`
	Place    string    `json:"place,omitempty"`
	Findings []finding `json:"findings"`
	Shown    []finding `json:"-"` // for people: of several clients, a line for each in which all is in order
	Wrong    int       `json:"wrong"`
	Busy     int       `json:"busy"`

	dir   string          // of the party under check
	under string          // that folder in the state; "": the state itself
	known map[string]bool // files of dir that belong there
	dial  func(*admission.Membership, admission.PrivateKey) error
}

// State checks the state of a party, or of several clients of one process. federation is the operator's file, which
// an aggregator's state is checked against. With network it also dials the aggregator once as each party, and adds whether
// that answers, knows the party and speaks this version of the protocol. It registers nothing, so a process of the party
// continues.
func State(ctx context.Context, state, federation string, network bool) (*Report, error) {
	x := &Report{State: state, Findings: []finding{}}
	if network {
		x.dial = func(m *admission.Membership, key admission.PrivateKey) error { return dial(ctx, m, key) }
	}
	dirs, err := partiesIn(state)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		x.dir, x.known, x.Place = dir, make(map[string]bool), ""
		if dir != state {
			x.under = filepath.Base(dir)
		}
		first := len(x.Findings)
		if err = x.party(federation); err != nil {
			return nil, err
		}
		own := x.Findings[first:]
		if x.under != "" && !slices.ContainsFunc(own, func(f finding) bool { return f.Is != Fine }) {
			own = []finding{{Is: Fine, File: x.under, Says: "all is well"}}
		}
		x.Shown = append(x.Shown, own...)
	}
	if len(dirs) > 1 {
		x.Place = fmt.Sprintf("%d clients", len(dirs))
	}
	return x, nil
}

// partiesIn returns the folders of the parties of a state: the state itself, or of several clients of one process a folder each.
func partiesIn(state string) ([]string, error) {
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--state %s: there is no such folder. A relay has no state", state)
	}
	for _, name := range []string{party.MembershipFile, party.IdentityFile, party.RegistryFile, party.LedgerFile} {
		if _, missing := os.Lstat(filepath.Join(state, name)); missing == nil {
			return []string{state}, nil
		}
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || !strings.HasPrefix(e.Name(), "client-") })
	dirs := lists.Map(entries, func(e fs.DirEntry) string { return filepath.Join(state, e.Name()) })
	if err == nil && len(dirs) == 0 {
		err = cli.Misusef("--state %s: it has no file of an aggregator, a server or a client. A relay has no state; a lost state is not rebuilt from nothing: see node/losses.md", state)
	}
	return dirs, err
}

func (x *Report) party(federation string) error {
	x.folder()
	m, err := admission.ReadFile(x.path(party.MembershipFile), admission.ParseMembership)
	switch {
	case err == nil:
		x.member(m)
	case errors.Is(err, fs.ErrNotExist) && !x.has(party.IdentityFile) && !x.has(party.LedgerFile):
		if federation == "" {
			return cli.Misusef("--federation: the state %s is an aggregator's, which is checked against the operator's federation file", x.dir)
		}
		if err = x.aggregator(federation); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		x.unenrolled()
	default:
		x.add(Wrong, party.MembershipFile, err.Error(), copyMembership)
	}
	x.strangers()
	return nil
}

const (
	copyMembership  = "it is public: put back a copy from any backup, since it does not change"
	lostLedger      = "never put an old copy back; have the operator revoke this client and invite it again: see node/losses.md"
	lostPublic      = "put back the newest copy, which does not change within a session; without one the server is invited again: see node/losses.md"
	rebuildRegistry = "restore the newest copy, or rebuild it with fednode aggregator --list: see node/losses.md"
)

func (x *Report) add(is, name, says, do string) {
	switch is {
	case Wrong:
		x.Wrong++
	case Busy:
		x.Busy++
	}
	x.Findings = append(x.Findings, finding{is, filepath.Join(x.under, name), says, do})
}

// found adds what a check found: says, or its error, which do mends. With neither there is nothing to say.
func (x *Report) found(name, says string, err error, do string) {
	own, known := errors.AsType[finding](err)
	switch {
	case known:
		x.add(own.Is, name, own.Says, own.Do)
	case errors.Is(err, store.ErrLocked):
		x.add(Busy, name, "a process has it open, so its contents were not read", "stop the process to have them checked")
	case err != nil:
		if errors.Is(err, store.ErrFormat) {
			do = "use the version that wrote it; revoke and delete nothing"
		}
		x.add(Wrong, name, strings.ReplaceAll(err.Error(), x.dir+string(filepath.Separator), ""), do)
	case says != "":
		x.add(Fine, name, says, "")
	}
}

// file is a file or folder that a state may have.
type file struct {
	name string
	look func(path string) (says string, err error) // nil: that it is there is all right
	do   string                                     // what mends an error
}

// look checks those files that are there.
func (x *Report) look(files ...file) {
	for _, f := range files {
		if x.has(f.name) && f.look != nil {
			says, err := f.look(x.path(f.name))
			x.found(f.name, says, err, f.do)
		}
	}
}

func (x *Report) path(name string) string { return filepath.Join(x.dir, name) }

// has says whether a file is there, and that it belongs there.
func (x *Report) has(name string) bool {
	x.known[name] = true
	_, err := os.Lstat(x.path(name))
	return err == nil
}

// leastRoom is the room in bytes that a state needs beside new models.
const leastRoom = 64 << 20

// folder checks who may write to the state, who may read it, and the room on its disk.
func (x *Report) folder() {
	if err := store.CheckFolder(x.dir); err != nil {
		x.add(Wrong, ".", err.Error(), "")
	}
	largest, open := int64(0), 0
	err := fs.WalkDir(os.DirFS(x.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) || d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err = store.CheckWritable(x.path(name), info); err != nil {
			x.add(Wrong, name, err.Error(), "")
			open++
		}
		if info.Mode().IsRegular() {
			largest = max(largest, info.Size())
		}
		return nil
	})
	if err != nil || open == 0 {
		x.found(".", "no other user can write to the files", err, "run the check as the user of the process, or as root")
	}
	need := leastRoom + 2*uint64(largest) // a new model stands beside the last
	switch free, known := atomicfile.Free(x.dir); {
	case !known:
		x.add(Note, ".", "this system does not say how much room is left on the disk", "")
	case free < need:
		x.add(Wrong, ".", fmt.Sprintf("%s are left on the disk; %s are needed for the next session", units.Bytes(int64(free)), units.Bytes(int64(need))), "make room before the next session")
	default:
		x.add(Fine, ".", units.Bytes(int64(free))+" are left on the disk", "")
	}
}

// strangers reports the files that do not belong to a state, if it is known whose that is.
func (x *Report) strangers() {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		x.add(Wrong, ".", err.Error(), "")
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case x.known[name]:
		case strings.HasSuffix(name, ".tmp"):
			x.add(Note, name, "a process that was killed has left it", "delete it while no process uses the state")
		case x.Place != "":
			x.add(Wrong, name, "it does not belong to this state", "move it elsewhere")
		}
	}
}

func (x *Report) aggregator(federation string) error {
	x.Place = admission.AggregatorPlace.String()
	f, err := admission.ReadFile(federation, admission.ParseFederation)
	if err != nil {
		return err
	}
	list := x.registry(f, rebuildRegistry)
	if list == nil {
		hub.StateFiles(f, nil, func(name string, _ func(string) (string, error), _ string) { x.has(name) }) // the list says who may have signed in them
		return nil
	}
	if _, ok := list.Holder(admission.AggregatorPlace); !ok {
		x.add(Note, party.RegistryFile, "the aggregator is not on its own list", "start it once with --invitation, so that parties can tell if another takes its place")
	}
	hub.StateFiles(&list.Federation, list, func(name string, look func(string) (string, error), do string) { x.look(file{name, look, do}) })
	return nil
}

// registry verifies who is enrolled, and returns the list; nil if it cannot be read.
func (x *Report) registry(f *admission.Federation, do string) *admission.List {
	x.has(party.RegistryFile)
	r, err := party.ReadRegistry(x.path(party.RegistryFile), f)
	if err != nil {
		x.found(party.RegistryFile, "", err, do)
		return nil
	}
	list, latest := r.List(), r.Federation()
	revoked := 0
	if list.Revocations != nil {
		revoked = len(list.Revocations.Entries)
	}
	x.add(Fine, party.RegistryFile, fmt.Sprintf("%d parties enrolled at %d places of clients, %d revocations; epoch %d of the federation",
		len(list.Enrolments), latest.Places(), revoked, len(latest.Epochs)), "")
	return list
}

// member checks the state of a server or a client.
func (x *Report) member(m *admission.Membership) {
	place, own := m.Enrolment.Ticket.Place, m.Enrolment.Identity
	x.Place, x.known[party.MembershipFile] = place.String(), true
	x.add(Fine, party.MembershipFile, fmt.Sprintf("%s of the federation %q; signed by its operator, the invitation's key and the party", place, m.Federation.Name), "")
	x.has(party.IdentityFile)
	key, err := admission.ReadKey(x.path(party.IdentityFile))
	if x.dial != nil && err == nil {
		x.found(party.MembershipFile, fmt.Sprintf("the aggregator answers at %s, knows this party and speaks %s", strings.Join(m.Contact.Addresses, ", "), peer.ProtocolID), x.dial(m, key), "")
	}
	if err == nil && key.Public() != own {
		err = fmt.Errorf("it is the key of %s, and the membership names %s", key.Public(), own)
	}
	do := "have the operator revoke this party and invite it again: see node/losses.md"
	if errors.Is(err, admission.ErrExposed) {
		do = "chmod 600 " + x.path(party.IdentityFile)
	}
	x.found(party.IdentityFile, fmt.Sprintf("the private key of %s", own), err, do)
	if !x.has(party.RegistryFile) {
		x.add(Note, party.RegistryFile, "it is missing: the next start makes it again, and does not know whom the operator has revoked", "start with --revocations")
	} else if list := x.registry(&m.Federation, "move it elsewhere: the next start makes it again, and learns from --revocations whom the operator has revoked"); list != nil && len(list.Enrolments) > 0 {
		x.found(party.RegistryFile, "", m.Check(list), "ask the operator")
	}
	x.look(
		file{party.ReceiptsFile, func(path string) (string, error) {
			_, err := store.OpenReceipts(path)
			return "receipts of the sessions that are finished", err
		}, ""},
		file{name: party.UsersFile},
		file{party.AlignmentFile, func(string) (string, error) {
			_, _, err := party.ReadAlignment(x.dir)
			return "rows of an alignment", err
		}, "align again"},
		file{name: party.PastFolder},
	)
	if place.Role == protocol.Client {
		x.client(own)
	} else {
		x.server()
	}
}

// dial returns what keeps a party from the aggregator, or that their clocks differ.
func dial(ctx context.Context, m *admission.Membership, key admission.PrivateKey) error {
	var at time.Time
	l, err := peer.NewConn(key, []admission.Contact{m.Contact}, peer.ProtocolID, zerolog.Nop())
	if err == nil {
		at, err = l.Try(ctx)
	}
	if err != nil {
		return finding{Wrong, "", "no connection to the aggregator: " + err.Error(), "see to the address, the port and this machine's network; --aggregator gives another address"}
	}
	if by := time.Since(at) - time.Minute/2; !at.IsZero() && by.Abs() > session.ClockApart+time.Minute/2 {
		return finding{Wrong, "", "the aggregator answers, and the clock of this machine is " + session.Ahead(by, "the aggregator's"), "have both set by NTP (timedatectl set-ntp true)"}
	}
	return nil
}

// unenrolled checks a state without a membership.
func (x *Report) unenrolled() {
	key, err := admission.ReadKey(x.path(party.IdentityFile))
	x.has(party.RegistryFile)
	if charged := x.has(party.LedgerFile); err == nil && charged {
		l, failed := store.ReadLedger(x.path(party.LedgerFile), key.Public())
		if failed == nil && l.Charges() > 0 {
			x.add(Wrong, party.MembershipFile, fmt.Sprintf("it is missing, and the ledger has %d charges", l.Charges()), copyMembership)
			return
		}
		err = failed
	}
	if err != nil {
		x.found(party.IdentityFile, "", err, "have the operator invite this party again: see node/losses.md")
		return
	}
	x.add(Note, party.MembershipFile, "this party has not enrolled", "start it with --invitation and this --state")
}

func (x *Report) client(own admission.PublicKey) {
	consents, unread := store.Consents(x.dir)
	x.has(party.LedgerFile)
	newer := party.LedgerFile + ".newer"
	x.has(newer)
	switch l, err := store.ReadLedger(x.path(party.LedgerFile), own); {
	case errors.Is(err, fs.ErrNotExist):
		x.add(Wrong, party.LedgerFile, "it is missing: what was spent is not known any more", lostLedger)
	case err != nil:
		x.found(party.LedgerFile, "", err, lostLedger)
	default:
		x.found(newer, "", l.Overtaken(), "see node/losses.md")
		x.add(Fine, party.LedgerFile, fmt.Sprintf("%d charges, each in its place in the chain of hashes", l.Charges()), "")
		for _, session := range l.Sessions() {
			if unread == nil && !slices.ContainsFunc(consents, func(c store.Consent) bool { return c.Session == session }) {
				x.add(Note, "consents", fmt.Sprintf("the ledger has charges of session %s, and the record of what was agreed to is gone", session), "nothing depends on it; the ledger has the cost")
			}
		}
	}
	x.look(file{"consents", func(string) (string, error) {
		return fmt.Sprintf("%d sessions that the owner agreed to", len(consents)), unread
	}, "delete the file: it is a record for the owner, and the ledger limits what is spent"})
	const moved = "move it elsewhere; the next session leaves another"
	x.look(file{party.ResultFolder, party.CheckResult, moved})
	x.lookAll("training-*", func(path string) (string, error) { // of a party that trains on its own between rounds
		c, _, fallback, err := store.LastCheckpoint(path)
		if errors.Is(err, store.ErrNoCheckpoint) {
			return "", finding{Note, "", "empty", ""}
		}
		return checkpoint(c, fallback, err)
	}, lostCheckpoint)
	x.lookAll(path.Join(party.PastFolder, "*", party.ResultFolder), party.CheckResult, moved)
}

// lookAll checks the files whose names match a pattern.
func (x *Report) lookAll(pattern string, look func(path string) (string, error), do string) {
	list, _ := fs.Glob(os.DirFS(x.dir), pattern) // the patterns are well formed
	for _, name := range list {
		x.look(file{name, look, do})
	}
}

const lostCheckpoint = "the session cannot continue from it: fednode server --abandon ends a session"

// checkpoint says what a checkpoint is of.
func checkpoint(c *store.Checkpoint, fallback, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if fallback != nil {
		return "", finding{Wrong, "", fmt.Sprintf("the newest checkpoint cannot be read, and its predecessor is of round %d: %v", c.Round, fallback), "check the disk; the party continues from the predecessor"}
	}
	return fmt.Sprintf("checkpoint after round %d of session %x", c.Round, c.Session[:]), nil
}

func (x *Report) server() {
	x.look(
		file{party.PublicFile, func(string) (string, error) {
			p, err := party.ReadPublic(x.dir)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("session %x of %d clients", p.Session[:], p.Terms.Cohort.All()), nil
		}, lostPublic},
		file{party.EndedFile, func(string) (string, error) {
			if at, err := party.StandingOf(x.dir); err != nil || at.Ended == "" {
				return "", err
			}
			return "the session has ended", nil
		}, "delete it, and start the server again"},
		file{party.CurrentLink, func(path string) (string, error) {
			to, err := os.Readlink(path)
			if err == nil {
				_, err = os.Stat(path)
			}
			return "leads to " + to, err
		}, "start the server once more with --again end, which writes the last session's model again, or restore the folder from a copy"},
		file{name: party.StartFile},
	)
	newest, previous := x.has(party.CheckpointFiles[0]), x.has(party.CheckpointFiles[1])
	p, err := party.ReadPublic(x.dir)
	if errors.Is(err, fs.ErrNotExist) && (newest || previous) {
		x.add(Wrong, party.PublicFile, "it is missing, and there is a checkpoint of its session", lostPublic)
	}
	if err == nil {
		x.add(Note, party.PublicFile, "whether later sessions are missing, as in a state restored from an older copy, the state does not tell", "the server asks the aggregator when it starts, and ends with exit code 2 if so")
		if newest || previous {
			hash, err := p.Hash()
			var c *store.Checkpoint
			var fallback error
			if err == nil {
				c, fallback, err = store.LoadCheckpoint(x.dir, hash)
			}
			if err == nil && c.Session != p.Session {
				err = fmt.Errorf("it is of session %x", c.Session[:])
			}
			says, err := checkpoint(c, fallback, err)
			x.found(party.CheckpointFiles[0], says, err, lostCheckpoint)
		}
	}
	x.lookAll(path.Join(party.PastFolder, "*", party.ModelFolder), party.CheckModel,
		"if its session was the last, start the server once more with --again end, which writes it again; else restore the folder from a copy")
}
