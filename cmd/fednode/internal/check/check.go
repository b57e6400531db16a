// Package check checks a party's state without changing it ([State]), and says what mends each fault.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/hub"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
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

// Report is the result of a check.
type Report struct {
	State    string    `json:"state"`
	Place    string    `json:"place,omitempty"`
	Findings []finding `json:"findings"`
	Wrong    int       `json:"wrong"`
	Busy     int       `json:"busy"`

	dir   string              // of the party under check
	under string              // that folder in the state; "": the state itself
	known map[string]struct{} // files of dir that belong there
}

// State checks the state of a party, or of several clients of one process. federation is the operator's file, which
// an aggregator's state is checked against.
func State(state, federation string) (*Report, error) {
	x := &Report{State: state, Findings: []finding{}}
	dirs, err := partiesIn(state)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		x.dir, x.known = dir, make(map[string]struct{})
		if x.under = ""; dir != state {
			x.under = filepath.Base(dir)
		}
		if err = x.party(federation); err != nil {
			return nil, err
		}
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
	if err != nil {
		return nil, err
	}
	for _, name := range []string{party.MembershipFile, party.IdentityFile, party.RegistryFile, party.LedgerFile} {
		if _, err = os.Lstat(filepath.Join(state, name)); err == nil {
			return []string{state}, nil
		}
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "client-") {
			dirs = append(dirs, filepath.Join(state, e.Name()))
		}
	}
	if dirs == nil {
		return nil, cli.Misusef("--state %s: it has no file of an aggregator, a server or a client. A relay has no state; a lost state is not rebuilt from nothing: see node/losses.md", state)
	}
	return dirs, nil
}

func (x *Report) party(federation string) error {
	x.folder()
	m, err := admission.ReadFile(filepath.Join(x.dir, party.MembershipFile), admission.ParseMembership)
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
		x.add(Wrong, party.MembershipFile, err.Error(), "it is public: put back a copy from any backup, since it does not change")
	}
	x.strangers()
	return nil
}

func (x *Report) add(is, file, says, do string) {
	if x.under != "" {
		file = filepath.Join(x.under, file)
	}
	switch is {
	case Wrong:
		x.Wrong++
	case Busy:
		x.Busy++
	}
	x.Findings = append(x.Findings, finding{is, file, says, do})
}

func (x *Report) fine(file, says string, args ...any) {
	x.add(Fine, file, fmt.Sprintf(says, args...), "")
}

func (x *Report) looked(file string, err error, do, says string, args ...any) {
	switch {
	case errors.Is(err, store.ErrLocked):
		x.add(Busy, file, "a process has it open, so its contents were not read", "stop the process to have them checked")
	case errors.Is(err, store.ErrFormat):
		x.add(Wrong, file, strings.ReplaceAll(err.Error(), x.dir+string(filepath.Separator), ""), "use the version that wrote it; revoke and delete nothing")
	case err != nil:
		x.add(Wrong, file, strings.ReplaceAll(err.Error(), x.dir+string(filepath.Separator), ""), do)
	default:
		x.fine(file, says, args...)
	}
}

// has says whether a file is there, and that it belongs there.
func (x *Report) has(file string) bool {
	x.known[file] = struct{}{}
	_, err := os.Lstat(filepath.Join(x.dir, file))
	return err == nil
}

func (x *Report) aggregator(path string) error {
	x.Place = admission.AggregatorPlace.String()
	f, err := admission.ReadFile(path, admission.ParseFederation)
	if err != nil {
		return err
	}
	for _, name := range hub.StateFiles {
		x.has(name)
	}
	list := x.registry(f, rebuildRegistry)
	if list == nil {
		return nil
	}
	if _, ok := list.Holder(admission.AggregatorPlace); !ok {
		x.add(Note, party.RegistryFile, "the aggregator is not on its own list", "start it once with --invitation, so that parties can tell if another takes its place")
	}
	for _, file := range hub.CheckState(x.dir, &list.Federation, list) {
		x.looked(file.Name, file.Err, "delete it while no aggregator runs: it does without", "%s", file.Says)
	}
	return nil
}

const rebuildRegistry = "restore the newest copy, or rebuild it with fednode aggregator --list: see node/losses.md"

// registry verifies who is enrolled, and returns the list; nil if it cannot be read.
func (x *Report) registry(f *admission.Federation, do string) *admission.List {
	x.has(party.RegistryFile)
	r, err := party.ReadRegistry(filepath.Join(x.dir, party.RegistryFile), f)
	if err != nil {
		x.looked(party.RegistryFile, err, do, "")
		return nil
	}
	list, latest := r.List(), r.Federation()
	revoked := 0
	if list.Revocations != nil {
		revoked = len(list.Revocations.Entries)
	}
	x.fine(party.RegistryFile, "%d parties enrolled at %d places of clients, %d revocations; epoch %d of the federation", len(list.Enrolments), latest.Places(), revoked, len(latest.Epochs))
	return list
}

// Member checks the state of a server or a client.
func (x *Report) member(m *admission.Membership) {
	place, own := m.Enrolment.Ticket.Place, m.Enrolment.Identity
	x.Place = place.String()
	x.has(party.MembershipFile)
	x.fine(party.MembershipFile, "%s of the federation %q; signed by its operator, the invitation's key and the party", place, m.Federation.Name)
	x.identity(own)
	if !x.has(party.RegistryFile) {
		x.add(Note, party.RegistryFile, "it is missing: the next start makes it again, and does not know whom the operator has revoked", "start with --revocations")
	} else if list := x.registry(&m.Federation, "no copy helps: see node/losses.md"); list != nil {
		if err := m.Check(list); len(list.Enrolments) > 0 && err != nil {
			x.add(Wrong, party.RegistryFile, err.Error(), "ask the operator")
		}
	}
	if place.Role == protocol.Client {
		x.client(own)
		return
	}
	x.server()
}

func (x *Report) identity(own admission.PublicKey) {
	x.has(party.IdentityFile)
	key, err := admission.ReadKey(filepath.Join(x.dir, party.IdentityFile))
	if err == nil && key.Public() != own {
		err = fmt.Errorf("it is the key of %s, and the membership names %s", key.Public(), own)
	}
	do := "have the operator revoke this party and invite it again: see node/losses.md"
	if errors.Is(err, admission.ErrExposed) {
		do = "chmod 600 " + filepath.Join(x.dir, party.IdentityFile)
	}
	x.looked(party.IdentityFile, err, do, "the private key of %s", own)
}

// unenrolled checks a state without a membership.
func (x *Report) unenrolled() {
	key, err := admission.ReadKey(filepath.Join(x.dir, party.IdentityFile))
	x.has(party.RegistryFile)
	x.has(party.LedgerFile)
	if err == nil && x.has(party.LedgerFile) {
		l, failed := store.ReadLedger(filepath.Join(x.dir, party.LedgerFile), key.Public())
		if failed == nil && l.Charges() > 0 {
			x.add(Wrong, party.MembershipFile, fmt.Sprintf("it is missing, and the ledger has %d charges", l.Charges()), "it is public: put back a copy from any backup, since it does not change")
			return
		}
		err = failed
	}
	if err != nil {
		x.looked(party.IdentityFile, err, "have the operator invite this party again: see node/losses.md", "")
		return
	}
	x.add(Note, party.MembershipFile, "this party has not enrolled", "start it with --invitation and this --state")
}

// strangers reports the files that do not belong to a state.
func (x *Report) strangers() {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		x.add(Wrong, ".", err.Error(), "")
		return
	}
	for _, e := range entries {
		name := e.Name()
		if _, ok := x.known[name]; ok {
			continue
		}
		if strings.HasSuffix(name, ".tmp") {
			x.add(Note, name, "a process that was killed has left it", "delete it while no process uses the state")
			continue
		}
		x.add(Wrong, name, "it does not belong to this state", "move it elsewhere")
	}
}

// Network dials the aggregator once as each party of the state, and adds whether it answers, knows the party and speaks this version of
// the protocol. It registers nothing, so a process of the party continues.
func (x *Report) Network(ctx context.Context) error {
	dirs, err := partiesIn(x.State)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		x.under = strings.TrimPrefix(strings.TrimPrefix(dir, x.State), string(filepath.Separator))
		m, err := admission.ReadFile(filepath.Join(dir, party.MembershipFile), admission.ParseMembership)
		var key admission.PrivateKey
		if err == nil {
			key, err = admission.ReadKey(filepath.Join(dir, party.IdentityFile))
		}
		var l *peer.Conn
		if err == nil {
			l, err = peer.NewConn(key, []admission.Contact{m.Contact}, peer.ProtocolID, zerolog.Nop())
		}
		var at time.Time
		if err == nil {
			at, err = l.Try(ctx)
		}
		if err != nil {
			x.add(Wrong, party.MembershipFile, "no connection to the aggregator: "+err.Error(), "see to the address, the port and this machine's network; --aggregator gives another address")
			continue
		}
		x.add(Fine, party.MembershipFile, fmt.Sprintf("the aggregator answers at %s, knows this party and speaks %s", strings.Join(m.Contact.Addresses, ", "), peer.ProtocolID), "")
		if by := time.Since(at) - time.Minute/2; !at.IsZero() && by.Abs() > session.ClockApart+time.Minute/2 {
			x.add(Wrong, party.MembershipFile, "the clock of this machine is "+session.Ahead(by, "the aggregator's"), "have both set by NTP (timedatectl set-ntp true)")
		}
	}
	return nil
}

// shown returns the findings for people: of several clients, a line for each in which all is in order.
func (x *Report) shown() []finding {
	bad := make(map[string]bool)
	for _, f := range x.Findings {
		bad[f.client()] = bad[f.client()] || f.Is != Fine
	}
	var out []finding
	for _, f := range x.Findings {
		who := f.client()
		switch {
		case x.under == "" || bad[who]:
			out = append(out, f)
		case len(out) == 0 || out[len(out)-1].File != who:
			out = append(out, finding{Is: Fine, File: who, Says: "all is well"})
		}
	}
	return out
}

func (f *finding) client() string {
	who, _, _ := strings.Cut(filepath.ToSlash(f.File), "/")
	return who
}

// Print writes the findings as a table, what mends a finding on the next line.
func (x *Report) Print(w io.Writer) error {
	shown, wide := x.shown(), 0
	for _, f := range shown {
		wide = max(wide, len(f.File))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "state of the %s\n", cmp.Or(x.Place, "party"))
	for _, f := range shown {
		fmt.Fprintf(&b, "%-5s  %-*s  %s\n", f.Is, wide, f.File, f.Says)
		if f.Do != "" {
			fmt.Fprintf(&b, "%-5s  %-*s  -> %s\n", "", wide, "", f.Do)
		}
	}
	switch {
	case x.Wrong > 0:
	case x.Busy > 0:
		fmt.Fprintf(&b, "nothing wrong was found; %d files are in use and were not read\n", x.Busy)
	default:
		b.WriteString("all is well\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
