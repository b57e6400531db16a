package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/hub"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// checkCmd is fednode check. It changes nothing, and may run beside the party's process.
type checkCmd struct {
	State      string `required:"" placeholder:"DIR" help:"The state of an aggregator, a server or a client; of several clients of one process the folder of them all."`
	Federation string `placeholder:"FILE" help:"Of an aggregator: the federation, as the operator wrote it last."`
	Format     string `enum:"table,json" default:"table" help:"table or json."`
}

// The marks of a finding.
const (
	isFine  = "ok"
	isNote  = "note"  // it harms nothing
	isWrong = "wrong" // there is something to do
	isBusy  = "busy"  // a process holds the file, so that its contents were not read
)

// finding says how a file of a state stands, or the folder.
type finding struct {
	Is   string `json:"is"`
	File string `json:"file"` // in the state; "." is the folder itself
	Says string `json:"says"`
	Do   string `json:"do,omitempty"` // what mends it
}

// checked is the result of a check.
type checked struct {
	State    string    `json:"state"`
	Place    string    `json:"place,omitempty"`
	Findings []finding `json:"findings"`
	Wrong    int       `json:"wrong"`
	Busy     int       `json:"busy"`

	dir   string              // of the party under check
	under string              // that folder in the state; "": the state itself
	known map[string]struct{} // files of dir that belong there
}

// Run reads a state and says what is in order and what is not.
func (c *checkCmd) Run(s streams) error {
	x := &checked{State: c.State, Findings: []finding{}}
	dirs, err := partiesIn(c.State)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		x.dir, x.known = dir, make(map[string]struct{})
		if x.under = ""; dir != c.State {
			x.under = filepath.Base(dir)
		}
		if err = x.party(c.Federation); err != nil {
			return err
		}
	}
	if len(dirs) > 1 {
		x.Place = fmt.Sprintf("%d clients", len(dirs))
	}
	if c.Format == "json" {
		err = cli.PrintJSON(s.out, x)
	} else {
		err = x.print(s.out)
	}
	if err == nil && x.Wrong > 0 {
		err = fmt.Errorf("%s: %d of %d findings are wrong", c.State, x.Wrong, len(x.Findings))
	}
	return err
}

// partiesIn returns the folders of the parties of a state: the state itself, or of several clients of
// one process a folder each.
func partiesIn(state string) ([]string, error) {
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--state %s: there is no such folder. A relay has no state", state)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range []string{membershipFile, identityFile, registryFile, ledgerFile} {
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
		return nil, cli.Misusef("--state %s: it has no file of an aggregator, a server or a client. A relay has no state; a lost state is not rebuilt from nothing: see docs/losses.md", state)
	}
	return dirs, nil
}

// party checks one folder.
func (x *checked) party(federation string) error {
	x.folder()
	m, err := admission.ReadFile(filepath.Join(x.dir, membershipFile), admission.ParseMembership)
	switch {
	case err == nil:
		x.member(m)
	case errors.Is(err, fs.ErrNotExist) && !x.has(identityFile) && !x.has(ledgerFile):
		if federation == "" {
			return cli.Misusef("--federation: the state %s is an aggregator's, which is checked against the operator's federation file", x.dir)
		}
		if err = x.aggregator(federation); err != nil {
			return err
		}
	case errors.Is(err, fs.ErrNotExist):
		x.unenrolled()
	default:
		x.add(isWrong, membershipFile, err.Error(), "it is public: put back a copy from any backup, since it does not change")
	}
	x.strangers()
	return nil
}

func (x *checked) add(is, file, says, do string) {
	if x.under != "" {
		file = filepath.Join(x.under, file)
	}
	switch is {
	case isWrong:
		x.Wrong++
	case isBusy:
		x.Busy++
	}
	x.Findings = append(x.Findings, finding{is, file, says, do})
}

func (x *checked) fine(file, says string, args ...any) {
	x.add(isFine, file, fmt.Sprintf(says, args...), "")
}

// looked says what there is of a file, by the error of reading it.
func (x *checked) looked(file string, err error, do, says string, args ...any) {
	switch {
	case errors.Is(err, store.ErrLocked):
		x.add(isBusy, file, "a process has it open, so its contents were not read", "stop the process to have them checked")
	case err != nil:
		x.add(isWrong, file, strings.ReplaceAll(err.Error(), x.dir+string(filepath.Separator), ""), do)
	default:
		x.fine(file, says, args...)
	}
}

// has says whether a file is there, and that it belongs there.
func (x *checked) has(file string) bool {
	x.known[file] = struct{}{}
	_, err := os.Lstat(filepath.Join(x.dir, file))
	return err == nil
}

// aggregator checks the state of an aggregator.
func (x *checked) aggregator(path string) error {
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
		x.add(isNote, registryFile, "the aggregator is not on its own list", "start it once with --invitation, so that parties can tell if another takes its place")
	}
	for _, file := range hub.CheckState(x.dir, &list.Federation, list) {
		x.looked(file.Name, file.Err, "delete it while no aggregator runs: it does without", "%s", file.Says)
	}
	return nil
}

const rebuildRegistry = "restore the newest copy, or rebuild it with fednode aggregator --list: see docs/losses.md"

// registry verifies who is enrolled, and returns the list; nil if it cannot be read.
func (x *checked) registry(f *admission.Federation, do string) *admission.List {
	x.has(registryFile)
	log, err := store.ReadRegistry(filepath.Join(x.dir, registryFile), f)
	var r *admission.Registry
	if err == nil {
		r, err = admission.OpenRegistry(f, log)
	}
	if err != nil {
		x.looked(registryFile, err, do, "")
		return nil
	}
	list, latest := r.List(), r.Federation()
	revoked := 0
	if list.Revocations != nil {
		revoked = len(list.Revocations.Entries)
	}
	x.fine(registryFile, "%d parties enrolled at %d places of clients, %d revocations; epoch %d of the federation", len(list.Enrolments), latest.Places(), revoked, len(latest.Epochs))
	return list
}

// member checks the state of a server or a client.
func (x *checked) member(m *admission.Membership) {
	place, own := m.Enrolment.Ticket.Place, m.Enrolment.Identity
	x.Place = place.String()
	x.has(membershipFile)
	x.fine(membershipFile, "%s of the federation %q; signed by its operator, the invitation's key and the party", place, m.Federation.Name)
	x.identity(own)
	if list := x.registry(&m.Federation, "no copy helps: see docs/losses.md"); list != nil {
		if err := m.Check(list); len(list.Enrolments) > 0 && err != nil {
			x.add(isWrong, registryFile, err.Error(), "ask the operator")
		}
	}
	if place.Role == protocol.Client {
		x.client(own)
		return
	}
	x.server()
}

// identity checks the private key.
func (x *checked) identity(own admission.PublicKey) {
	x.has(identityFile)
	key, err := admission.ReadKey(filepath.Join(x.dir, identityFile))
	if err == nil && key.Public() != own {
		err = fmt.Errorf("it is the key of %s, and the membership names %s", key.Public(), own)
	}
	do := "have the operator revoke this party and invite it again: see docs/losses.md"
	if errors.Is(err, admission.ErrExposed) {
		do = "chmod 600 " + filepath.Join(x.dir, identityFile)
	}
	x.looked(identityFile, err, do, "the private key of %s", own)
}

// unenrolled checks a state without a membership.
func (x *checked) unenrolled() {
	key, err := admission.ReadKey(filepath.Join(x.dir, identityFile))
	x.has(registryFile)
	x.has(ledgerFile)
	if err == nil && x.has(ledgerFile) {
		l, failed := store.ReadLedger(filepath.Join(x.dir, ledgerFile), key.Public())
		if failed == nil && l.Charges() > 0 {
			x.add(isWrong, membershipFile, fmt.Sprintf("it is missing, and the ledger has %d charges", l.Charges()), "it is public: put back a copy from any backup, since it does not change")
			return
		}
		err = failed
	}
	if err != nil {
		x.looked(identityFile, err, "have the operator invite this party again: see docs/losses.md", "")
		return
	}
	x.add(isNote, membershipFile, "this party has not enrolled", "start it with --invitation and this --state")
}

// shown returns the findings for people: of several clients, a line for each in which all is in order.
func (x *checked) shown() []finding {
	bad := make(map[string]bool)
	for _, f := range x.Findings {
		bad[f.client()] = bad[f.client()] || f.Is != isFine
	}
	var out []finding
	for _, f := range x.Findings {
		who := f.client()
		switch {
		case x.under == "" || bad[who]:
			out = append(out, f)
		case len(out) == 0 || out[len(out)-1].File != who:
			out = append(out, finding{Is: isFine, File: who, Says: "all is well"})
		}
	}
	return out
}

// client is the folder of one of several clients.
func (f *finding) client() string {
	who, _, _ := strings.Cut(filepath.ToSlash(f.File), "/")
	return who
}

// print writes the findings as a table, what mends a finding on the next line.
func (x *checked) print(w io.Writer) error {
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

// strangers reports the files that do not belong to a state.
func (x *checked) strangers() {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		x.add(isWrong, ".", err.Error(), "")
		return
	}
	for _, e := range entries {
		name := e.Name()
		if _, ok := x.known[name]; ok {
			continue
		}
		if strings.HasSuffix(name, ".tmp") {
			x.add(isNote, name, "a process that was killed has left it", "delete it while no process uses the state")
			continue
		}
		x.add(isWrong, name, "it does not belong to this state", "move it elsewhere")
	}
}
